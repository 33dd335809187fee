//! Keys of references between items, which a model declares: in the shard of the target, so that
//! a writer that changes or deletes it finds all that refer to it. The module comment of `key` has the layout.

use super::Bounds;
use crate::encode::{escape_terminated, unescape};

const REFERENCE: u8 = 0x05;
const GUARD: u8 = 0x19;

/// What the key of a reference says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceKey<'k> {
    /// Number of the rule by which it refers.
    pub rule: u32,
    /// Item key of the target.
    pub target: Vec<u8>,
    /// Item key of the source, in its own shard.
    pub source: &'k [u8],
}

/// Key, in the shard of the target, saying that a source refers to it.
pub fn reference(rule: u32, target: &[u8], source: &[u8]) -> Vec<u8> {
    let mut key = references_to(rule, target).from;
    key.extend_from_slice(source);
    key
}

/// All references to one target by one rule.
pub fn references_to(rule: u32, target: &[u8]) -> Bounds {
    let mut prefix = references_of(rule).from;
    escape_terminated(target, &mut prefix);
    Bounds::prefix(prefix)
}

/// All references by one rule.
pub fn references_of(rule: u32) -> Bounds {
    let mut prefix = vec![REFERENCE];
    prefix.extend(rule.to_be_bytes());
    Bounds::prefix(prefix)
}

/// Takes the key of a reference apart; `None` if it is not one.
pub fn parse_reference(key: &[u8]) -> Option<ReferenceKey<'_>> {
    let (rule, rest) = key.strip_prefix(&[REFERENCE])?.split_first_chunk::<4>()?;
    let (target, source) = unescape(rest)?;
    Some(ReferenceKey { rule: u32::from_be_bytes(*rule), target, source })
}

/// Key, in the shard of an item, that every new reference to the item writes: a commit that has read
/// all references to it learns by its version that there is a new one.
pub fn guard(item: &[u8]) -> Vec<u8> {
    let mut key = vec![GUARD];
    key.extend_from_slice(item);
    key
}

/// The item key in the key of a guard; `None` if it is not one.
pub fn parse_guard(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[GUARD])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_read_back_and_lie_within_their_target() {
        let key = reference(7, b"a\0b", b"source");
        let read = parse_reference(&key).expect("a reference");
        assert_eq!((read.rule, &*read.target, read.source), (7, &b"a\0b"[..], &b"source"[..]));
        for bounds in [references_to(7, b"a\0b"), references_of(7)] {
            assert!(bounds.from <= key && key < bounds.to);
        }
        assert_eq!(parse_guard(&guard(b"a")), Some(&b"a"[..]));
        assert_eq!(parse_guard(&key), None);
        let other = references_to(7, b"a");
        assert!(!(other.from <= key && key < other.to), "a prefix of a key is another item");
    }
}
