//! The effective partition key: the hash that orders a whole container and that clients compute
//! for themselves to route, so it must agree with theirs byte for byte.
//!
//! ```text
//! ""  ............ every key ............ "FF"      (upper-case hex, compared as text)
//!      V2: 16 bytes, the first below 0x40
//!      MultiHash: 16 bytes a level; a prefix of k levels covers [E, E + "FF")
//!      V1: 05, a 32-bit hash as an ordered number, then the values themselves
//! ```

use std::fmt;
use std::io::Cursor;

use crate::{KeyComponent, PartitionKey, PartitionKeyDef, PartitionKeyKind};

/// A place in the order of a container; bytes whose hex text the wire carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectiveKey(pub Vec<u8>);

/// Keys from `min` (inclusive) to `max` (exclusive).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct KeyRange {
    pub min: EffectiveKey,
    pub max: EffectiveKey,
}

impl EffectiveKey {
    /// Below or equal to every key.
    pub fn min() -> Self {
        Self(Vec::new())
    }

    /// Above every key.
    pub fn max() -> Self {
        Self(vec![0xff])
    }

    /// Reads hex text of either case.
    pub fn parse(hex: &str) -> Option<Self> {
        if !hex.len().is_multiple_of(2) || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |i: usize| u8::from_str_radix(hex.get(i..i + 2)?, 16).ok();
        (0..hex.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>().map(Self)
    }

    /// The first key after all that start with this one.
    #[must_use]
    pub fn after_prefix(&self) -> Self {
        let mut bytes = self.0.clone();
        bytes.push(0xff);
        Self(bytes)
    }
}

impl fmt::Display for EffectiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl KeyRange {
    /// Every key of a container.
    pub fn full() -> Self {
        Self { min: EffectiveKey::min(), max: EffectiveKey::max() }
    }

    /// Whether the key lies in the range.
    pub fn contains(&self, key: &EffectiveKey) -> bool {
        self.min <= *key && *key < self.max
    }

    /// Whether it holds the keys of one hash and what lies below it, and nothing else: up to the end of
    /// those that start with it, or, as some clients write it, up to the hash that is greater by one.
    pub fn is_of_one_key(&self) -> bool {
        let (min, max) = (&self.min.0, &self.max.0);
        let is_hash = !min.is_empty() && min.len().is_multiple_of(HASH_BYTES);
        (!min.is_empty() && max.starts_with(min))
            || (is_hash && successor(min).as_ref() == Some(max))
    }

    /// The common part of two ranges, if there is one.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(Self { min, max })
    }
}

/// Bytes of the hash of one level.
const HASH_BYTES: usize = 16;

/// The next number of as many bytes.
fn successor(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut next = bytes.to_vec();
    for byte in next.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return Some(next);
        }
    }
    None
}

impl PartitionKeyDef {
    /// The hash of a key. For a hierarchical key of fewer levels than declared it is the prefix
    /// under which all its keys lie.
    pub fn effective(&self, key: &PartitionKey) -> EffectiveKey {
        if key.0.is_empty() {
            return EffectiveKey::min();
        }
        EffectiveKey(match (self.kind, self.version) {
            (PartitionKeyKind::MultiHash, _) => {
                key.0.iter().flat_map(|c| hash_v2(std::slice::from_ref(c))).collect()
            }
            (PartitionKeyKind::Hash, 1) => hash_v1(&key.0),
            (PartitionKeyKind::Hash, _) => hash_v2(&key.0).to_vec(),
        })
    }

    /// All effective keys that a key, or a prefix of one, stands for.
    pub fn range_of(&self, key: &PartitionKey) -> KeyRange {
        let min = self.effective(key);
        let max = if self.is_complete(key) {
            // The next byte string: nothing lies between a key and the key with a zero appended.
            let mut bytes = min.0.clone();
            bytes.push(0);
            EffectiveKey(bytes)
        } else {
            min.after_prefix()
        };
        KeyRange { min, max }
    }
}

impl PartitionKeyDef {
    /// Cuts the space of keys into ranges that hold equally many hashes, where the service cuts it: at
    /// the multiples of the greatest hash divided by the number of ranges, rounded down.
    pub fn even_ranges(&self, count: u32) -> Vec<KeyRange> {
        let count = count.max(1);
        let boundary = |i: u32| match i {
            0 => EffectiveKey::min(),
            i if i == count => EffectiveKey::max(),
            i if self.kind == PartitionKeyKind::Hash && self.version == 1 => {
                v1_boundary(f64::from(u32::MAX / count * i))
            }
            i => EffectiveKey((HASH_MAX / u128::from(count) * u128::from(i)).to_be_bytes().into()),
        };
        (0..count).map(|i| KeyRange { min: boundary(i), max: boundary(i + 1) }).collect()
    }

    /// A key in the middle of a range: about as many hashes lie before it as after it. `None` if the
    /// range is too narrow to have one.
    pub fn middle(&self, range: &KeyRange) -> Option<EffectiveKey> {
        let middle = if self.kind == PartitionKeyKind::Hash && self.version == 1 {
            let place = |key: &EffectiveKey| self.share_below(key);
            self.boundary(f64::midpoint(place(&range.min), place(&range.max)))
        } else {
            // Hashes end here, though the last range does not.
            let end = EffectiveKey(vec![0x40]);
            let max = if range.min < end { range.max.clone().min(end) } else { range.max.clone() };
            EffectiveKey(mean(&range.min.0, &max.0))
        };
        (range.min < middle && middle < range.max).then_some(middle)
    }

    /// The fraction of all hashes that lie in a range.
    pub fn share(&self, range: &KeyRange) -> f64 {
        self.share_below(&range.max) - self.share_below(&range.min)
    }

    /// The fraction of all hashes that lie below a key.
    fn share_below(&self, key: &EffectiveKey) -> f64 {
        const HALVINGS: usize = 40;
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.boundary(middle) < *key {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }

    /// The key below which a fraction of all hashes lies.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 < fraction < 1")]
    fn boundary(&self, fraction: f64) -> EffectiveKey {
        if self.kind == PartitionKeyKind::Hash && self.version == 1 {
            return v1_boundary((fraction * f64::from(u32::MAX)).floor());
        }
        // Hashes are 126 bits long; cutting at 64 of them is even enough.
        let top = (fraction * 2_f64.powi(62)) as u64;
        let mut bytes = top.to_be_bytes().to_vec();
        bytes.resize(16, 0);
        EffectiveKey(bytes)
    }
}

/// The greatest hash of version 2, and of each level of a hierarchical key.
const HASH_MAX: u128 = u128::MAX >> 2;

/// The key with which the keys of a hash of version 1 begin.
fn v1_boundary(hash: f64) -> EffectiveKey {
    let mut out = Vec::new();
    write_v1_number(hash, &mut out);
    EffectiveKey(out)
}

/// The number between two, both written as big-endian fractions.
fn mean(low: &[u8], high: &[u8]) -> Vec<u8> {
    let length = low.len().max(high.len()).max(16);
    let digit = |bytes: &[u8], at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    let mut sums: Vec<u16> = (0..length).map(|at| digit(low, at) + digit(high, at)).collect();
    for at in (1..length).rev() {
        sums[at - 1] += sums[at] >> 8;
        sums[at] &= 0xff;
    }
    let mut rest = 0;
    let halve = |sum: u16| {
        let value = rest << 8 | sum;
        rest = value & 1;
        (value >> 1).to_be_bytes()[1]
    };
    sums.into_iter().map(halve).collect()
}

/// The bytes that are hashed: type byte, then doubles little-endian, strings with a suffix byte.
fn write_hash_input(component: &KeyComponent, suffix: u8, out: &mut Vec<u8>) {
    out.push(component.type_byte());
    match component {
        KeyComponent::Number(n) => out.extend(n.to_le_bytes()),
        KeyComponent::String(s) => {
            out.extend(s.as_bytes());
            out.push(suffix);
        }
        KeyComponent::Undefined | KeyComponent::Null | KeyComponent::Bool(_) => {}
    }
}

fn hash_v2(components: &[KeyComponent]) -> [u8; 16] {
    let mut input = Vec::new();
    for component in components {
        write_hash_input(component, 0xff, &mut input);
    }
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(&input), 0)
        .expect("reading from memory does not fail");
    // The crate's u128 holds h1 in its low half; big-endian bytes are h1 ‖ h2 little-endian,
    // reversed.
    let mut bytes = hash.to_be_bytes();
    bytes[0] &= 0x3f;
    bytes
}

/// Strings take part in a version 1 hash with their first 100 characters only.
const V1_STRING_LENGTH: usize = 100;

fn hash_v1(components: &[KeyComponent]) -> Vec<u8> {
    let truncated: Vec<KeyComponent> = components
        .iter()
        .map(|c| match c {
            KeyComponent::String(s) => {
                KeyComponent::String(s.chars().take(V1_STRING_LENGTH).collect())
            }
            other => other.clone(),
        })
        .collect();
    let mut input = Vec::new();
    for component in &truncated {
        write_hash_input(component, 0x00, &mut input);
    }
    let hash = murmur3::murmur3_32(&mut Cursor::new(&input), 0)
        .expect("reading from memory does not fail");
    let mut out = Vec::new();
    write_v1_number(f64::from(hash), &mut out);
    for component in &truncated {
        match component {
            KeyComponent::Number(n) => write_v1_number(*n, &mut out),
            KeyComponent::String(s) => write_v1_string(s, &mut out),
            other => out.push(other.type_byte()),
        }
    }
    out
}

/// Order-preserving bits, the first byte whole, the rest in groups of seven with a flag for more.
fn write_v1_number(number: f64, out: &mut Vec<u8>) {
    const SIGN: u64 = 1 << 63;
    out.push(5);
    let bits = number.to_bits();
    let mut rest = if bits < SIGN { bits ^ SIGN } else { (!bits).wrapping_add(1) };
    let top = |x: u64| x.to_be_bytes()[0];
    out.push(top(rest));
    rest <<= 8;
    let mut last = 0;
    let mut first = true;
    while rest != 0 {
        if !first {
            out.push(last);
        }
        first = false;
        last = top(rest) | 1;
        rest <<= 7;
    }
    out.push(last & 0xfe);
}

fn write_v1_string(text: &str, out: &mut Vec<u8>) {
    out.push(8);
    let bytes = text.as_bytes();
    let short = bytes.len() <= V1_STRING_LENGTH;
    let kept = bytes.len().min(V1_STRING_LENGTH + 1);
    out.extend(bytes[..kept].iter().map(|b| b.saturating_add(1)));
    if short {
        out.push(0);
    }
}

#[cfg(test)]
mod tests;
