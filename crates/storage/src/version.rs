//! A change that an item went through, with the item as it was then: what the feed of all versions
//! gives. Written by the engine with the commit itself, kept for a while, never changed.
//!
//! ```text
//!  0 format version u8 = 1
//!  1 operation u8: 1 create, 2 replace, 3 delete, 4 the item's time was over
//!  2 time of the change, seconds u64
//! 10 LSN of the version before u64, 0 = none
//! 18 checksum u64          XXH3-64 of all after it, seeded with the XXH3-64 of bytes 0..18
//! 26 length of the item's key u32
//! 30 the item's key
//!    the item's JSON object: after a create or replace, before a delete
//! ```

use orrery_types::Lsn;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::StorageError;

const FORMAT: u8 = 1;
const CHECKSUM_AT: usize = 18;
const KEY_LENGTH_AT: usize = 26;

/// What happened to the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum VersionOperation {
    Create = 1,
    Replace = 2,
    Delete = 3,
    /// It was removed because its time to live was over.
    Expire = 4,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'v> {
    /// What happened.
    pub operation: VersionOperation,
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// The commit that wrote the version before this one.
    pub previous: Option<Lsn>,
    /// Where the item stands or stood.
    pub item_key: &'v [u8],
    /// The item after a create or replace, before a delete.
    pub body: &'v [u8],
}

impl<'v> Version<'v> {
    /// The bytes to store.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(KEY_LENGTH_AT + 4 + self.item_key.len() + self.body.len());
        bytes.extend([FORMAT, self.operation as u8]);
        bytes.extend(self.time_s.to_be_bytes());
        bytes.extend(self.previous.unwrap_or_default().0.to_be_bytes());
        bytes.extend([0; 8]);
        let length = u32::try_from(self.item_key.len()).expect("keys are short");
        bytes.extend(length.to_be_bytes());
        bytes.extend_from_slice(self.item_key);
        bytes.extend_from_slice(self.body);
        let sum = checksum(&bytes).to_be_bytes();
        bytes[CHECKSUM_AT..KEY_LENGTH_AT].copy_from_slice(&sum);
        bytes
    }

    /// Reads stored bytes.
    pub fn decode(bytes: &'v [u8]) -> Result<Self, StorageError> {
        let corrupt = || StorageError::Corrupt("a version of an item does not decode".into());
        if bytes.len() < KEY_LENGTH_AT + 4 || bytes[0] != FORMAT {
            return Err(corrupt());
        }
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
            bytes.map(u64::from_be_bytes).ok_or_else(corrupt)
        };
        let operation = match bytes[1] {
            1 => VersionOperation::Create,
            2 => VersionOperation::Replace,
            3 => VersionOperation::Delete,
            4 => VersionOperation::Expire,
            _ => return Err(corrupt()),
        };
        if number(CHECKSUM_AT)? != checksum(bytes) {
            return Err(corrupt());
        }
        let (length, rest) = bytes[KEY_LENGTH_AT..].split_first_chunk::<4>().ok_or_else(corrupt)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| corrupt())?;
        let (item_key, body) = rest.split_at_checked(length).ok_or_else(corrupt)?;
        let previous = Some(Lsn(number(10)?)).filter(|lsn| *lsn != Lsn(0));
        Ok(Self { operation, time_s: number(2)?, previous, item_key, body })
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(&bytes[KEY_LENGTH_AT..], xxh3_64(&bytes[..CHECKSUM_AT]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version<'static> = Version {
        operation: VersionOperation::Expire,
        time_s: 1_700_000_000,
        previous: Some(Lsn(7)),
        item_key: b"key",
        body: br#"{"id":"a"}"#,
    };

    #[test]
    fn a_version_reads_back() {
        for version in
            [VERSION, Version { previous: None, operation: VersionOperation::Create, ..VERSION }]
        {
            assert_eq!(Version::decode(&version.encode()), Ok(version));
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = VERSION.encode();
        assert_eq!(bytes[..18], *b"\x01\x04\0\0\0\0\x65\x53\xf1\0\0\0\0\0\0\0\0\x07");
        assert_eq!(bytes[26..], *b"\0\0\0\x03key{\"id\":\"a\"}");
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let bytes = VERSION.encode();
        for i in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[i] ^= 1;
            assert!(Version::decode(&changed).is_err(), "byte {i}");
        }
        assert!(Version::decode(&bytes[..20]).is_err());
    }
}
