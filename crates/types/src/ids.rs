//! Identities: resource ids (`_rid`) in the byte layout that SDKs take apart, etags, and the
//! numbers of the store. Each is a type of its own; two bare integers would be mixed up one day.
//!
//! ```text
//! database      u32 BE
//! container     database, u32 BE with the top bit set
//! user          database, u32 BE with the two top bits clear
//! encryption key database, u32 BE with the top bits 01
//! permission    user, u64 BE
//! item, script… container, u64 LE whose last byte carries the kind in its high nibble
//! offer         u24 LE
//! ```

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// A physical partition as the store knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// Number of a write within a shard; strictly rising, given inside the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Raised when a shard's schema, index or extent changes; commits of an older epoch are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Version of one resource: compared, never ordered. Prints with the quotes that the wire carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag {
    /// Which process made it, so that two nodes on one store never make the same.
    pub node: u32,
    /// Unique within that process.
    pub stamp: u64,
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

fn hex_digits(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair.copy_from_slice(&[byte >> 4, byte & 0xf].map(|digit| HEX_DIGITS[usize::from(digit)]));
    }
    digits
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Etag {
    /// The etag as text, quotes and all, without a formatter: every answer about an item has one.
    pub fn with_text<T>(self, take: impl FnOnce(&str) -> T) -> T {
        let mut text = *b"\"00000000-0000-0000-0000-000000000000\"";
        // The first eight digits hold the node, the last groups of 4 and 12 the stamp.
        let stamp = hex_digits(self.stamp);
        text[1..9].copy_from_slice(&hex_digits(self.node.into())[8..]);
        text[20..24].copy_from_slice(&stamp[..4]);
        text[25..37].copy_from_slice(&stamp[4..]);
        take(std::str::from_utf8(&text).expect("hex digits are ASCII"))
    }

    /// Whether a client's `If-Match` or `If-None-Match` text names this version. Quotes are
    /// optional: some clients strip them.
    pub fn matches(self, text: &str) -> bool {
        let own = self.to_string();
        let bare = own.trim_matches('"');
        text.trim().trim_start_matches("W/").trim_matches('"') == bare
    }
}

/// What kind of resource lives directly in a container, by the nibble its rid carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ChildKind {
    Item,
    Conflict,
    Range,
    Udf,
    Trigger,
    Procedure,
}

impl ChildKind {
    const ALL: [Self; 6] =
        [Self::Item, Self::Conflict, Self::Range, Self::Udf, Self::Trigger, Self::Procedure];

    fn nibble(self) -> u8 {
        match self {
            Self::Item => 0,
            Self::Conflict => 4,
            Self::Range => 5,
            Self::Udf => 6,
            Self::Trigger => 7,
            Self::Procedure => 8,
        }
    }
}

/// A resource id. Displayed and parsed in the wire's base64 with `-` for `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the layout stands at the head of the file")]
pub enum Rid {
    Database(u32),
    Container { database: u32, container: u32 },
    User { database: u32, user: u32 },
    EncryptionKey { database: u32, key: u32 },
    Permission { database: u32, user: u32, permission: u64 },
    Child { database: u32, container: u32, kind: ChildKind, number: u64 },
    Offer(u32),
}

/// How a request names a resource at one level of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The `id` a person gave.
    Name(String),
    /// The `_rid` the server gave.
    Rid(Rid),
}

/// The text is not a resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a resource id")]
pub struct RidError;

const CONTAINER_BIT: u32 = 0x8000_0000;
const KEY_BIT: u32 = 0x4000_0000;
const KIND_SHIFT: u32 = 60;

impl Rid {
    fn to_bytes(self) -> Vec<u8> {
        let pair = |a: u32, b: u32| [a.to_be_bytes(), b.to_be_bytes()].concat();
        match self {
            Self::Database(n) => n.to_be_bytes().to_vec(),
            Self::Container { database, container } => pair(database, container | CONTAINER_BIT),
            Self::User { database, user } => pair(database, user),
            Self::EncryptionKey { database, key } => pair(database, key | KEY_BIT),
            Self::Permission { database, user, permission } => {
                let mut bytes = pair(database, user);
                bytes.extend(permission.to_be_bytes());
                bytes
            }
            Self::Child { database, container, kind, number } => {
                let mut bytes = pair(database, container | CONTAINER_BIT);
                let sub = number | (u64::from(kind.nibble()) << KIND_SHIFT);
                bytes.extend(sub.to_le_bytes());
                bytes
            }
            Self::Offer(n) => n.to_le_bytes()[..3].to_vec(),
        }
    }

    /// The rid that these bytes are, if they are one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        match bytes.len() {
            3 => Some(Self::Offer(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))),
            4 => Some(Self::Database(word(0)?)),
            8 => {
                let (database, n) = (word(0)?, word(4)?);
                Some(if n & CONTAINER_BIT != 0 {
                    Self::Container { database, container: n & !CONTAINER_BIT }
                } else if n & KEY_BIT != 0 {
                    Self::EncryptionKey { database, key: n & !KEY_BIT }
                } else {
                    Self::User { database, user: n }
                })
            }
            16 => {
                let (database, n) = (word(0)?, word(4)?);
                let tail: [u8; 8] = bytes[8..].try_into().ok()?;
                if n & CONTAINER_BIT == 0 {
                    let permission = u64::from_be_bytes(tail);
                    return Some(Self::Permission { database, user: n, permission });
                }
                let sub = u64::from_le_bytes(tail);
                let kind = ChildKind::ALL
                    .into_iter()
                    .find(|k| u64::from(k.nibble()) == sub >> KIND_SHIFT)?;
                let number = sub & ((1 << KIND_SHIFT) - 1);
                Some(Self::Child { database, container: n & !CONTAINER_BIT, kind, number })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.to_bytes()).replace('/', "-"))
    }
}

impl FromStr for Rid {
    type Err = RidError;

    fn from_str(text: &str) -> Result<Self, RidError> {
        let bytes = BASE64.decode(text.replace('-', "/")).map_err(|_| RidError)?;
        Self::from_bytes(&bytes).ok_or(RidError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rid_reads_back_and_has_the_length_sdks_expect() {
        let child = |kind| Rid::Child { database: 7, container: 9, kind, number: 300 };
        let all = [
            (Rid::Database(1), 8),
            (Rid::Container { database: 1, container: 2 }, 12),
            (Rid::User { database: 1, user: 2 }, 12),
            (Rid::EncryptionKey { database: 1, key: 2 }, 12),
            (Rid::Permission { database: 1, user: 2, permission: 3 }, 24),
            (Rid::Offer(0x00ab_cdef), 4),
        ];
        let children = ChildKind::ALL.map(|kind| (child(kind), 24));
        for (rid, length) in all.into_iter().chain(children) {
            let text = rid.to_string();
            assert_eq!(text.len(), length, "{rid:?}");
            assert_eq!(text.parse(), Ok(rid));
        }
        assert!("not a rid".parse::<Rid>().is_err());
    }

    #[test]
    fn an_etag_is_matched_with_or_without_quotes() {
        let etag = Etag { node: 1, stamp: 0x8f3c_5d1c_6a0e_01da };
        assert_eq!(etag.to_string(), "\"00000001-0000-0000-8f3c-5d1c6a0e01da\"");
        assert!(etag.matches(&etag.to_string()));
        assert!(etag.matches("00000001-0000-0000-8f3c-5d1c6a0e01da"));
        assert!(!etag.matches("\"00000001-0000-0000-8f3c-5d1c6a0e01db\""));
        assert!(!etag.matches(""));
    }
}
