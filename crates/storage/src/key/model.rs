//! Keys of the data that a model maintains: references, aggregates, buckets, deferred work and build
//! progress, in the shard of the item that they belong to. An aggregate is named by the rule of its
//! relation and its position among the aggregates over it. The module comment of `key` has the layout.

use orrery_types::Value;

use super::Bounds;
use crate::encode::{decode, encode, escape_terminated, unescape};

const REFERENCE: u8 = 0x05;
const EXTREME: u8 = 0x06;
const DELTA: u8 = 0x07;
const BUCKET: u8 = 0x08;
const ELEMENT: u8 = 0x09;
const TALLY: u8 = 0x1b;
const DUE: u8 = 0x1c;
const BUILT: u8 = 0x1d;
const VIOLATION: u8 = 0x1e;
const MODEL_ENTRIES: (u8, u8) = (0x05, 0x09);
const MODEL_NOTES: (u8, u8) = (0x1b, 0x1e);

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateId {
    /// Number of the rule of the relation that it is over.
    pub rule: u32,
    /// Its place among the aggregates over the relation.
    pub ordinal: u8,
}

impl AggregateId {
    pub(super) fn prefix(self, tag: u8) -> Vec<u8> {
        let mut key = vec![tag];
        key.extend(self.rule.to_be_bytes());
        key.push(self.ordinal);
        key
    }
}

/// Key, in the shard of the target, of a value that a source has for MIN or MAX.
pub fn extreme(of: AggregateId, target: &[u8], value: &Value, source: &[u8]) -> Vec<u8> {
    let mut key = extremes_of(of, target).from;
    encode(value, &mut key);
    key.extend_from_slice(source);
    key
}

/// All values of the sources of one target, in their order.
pub fn extremes_of(of: AggregateId, target: &[u8]) -> Bounds {
    let mut prefix = of.prefix(EXTREME);
    escape_terminated(target, &mut prefix);
    Bounds::prefix(prefix)
}

/// The value in such a key; `None` if it is not one.
pub fn parse_extreme(key: &[u8]) -> Option<Value> {
    let (_, rest) = unescape(key.strip_prefix(&[EXTREME])?.get(5..)?)?;
    decode(rest).ok().map(|(value, _)| value)
}

/// Key, in the shard of the target, of what COUNT, SUM or AVG know of its sources.
pub fn tally(of: AggregateId, target: &[u8]) -> Vec<u8> {
    let mut key = of.prefix(TALLY);
    key.extend_from_slice(target);
    key
}

/// All tallies.
pub fn all_tallies() -> Bounds {
    Bounds::prefix(vec![TALLY])
}

/// Key, in the shard of the target, of a change that its tally does not have yet. No two changes have
/// the same mark.
pub fn delta(of: AggregateId, target: &[u8], mark: &[u8; 12]) -> Vec<u8> {
    let mut key = deltas_of(of, target).from;
    key.extend_from_slice(mark);
    key
}

/// All such changes of one tally.
pub fn deltas_of(of: AggregateId, target: &[u8]) -> Bounds {
    let mut prefix = of.prefix(DELTA);
    escape_terminated(target, &mut prefix);
    Bounds::prefix(prefix)
}

/// The key of the tally that a change is for; `None` if it is no such key.
pub fn tally_of_delta(key: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = key.strip_prefix(&[DELTA])?.split_first_chunk::<5>()?;
    let (target, _) = unescape(rest)?;
    Some([&[TALLY][..], head, &target].concat())
}

/// What is still to follow from a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Due {
    /// The items that refer to the target.
    Sources = 1,
    /// The aggregates of the target.
    Aggregates = 2,
}

/// Key, in the shard of the target, saying that something is still to follow by a rule.
pub fn due(rule: u32, what: Due, target: &[u8]) -> Vec<u8> {
    let mut key = vec![DUE];
    key.extend(rule.to_be_bytes());
    key.push(what as u8);
    key.extend_from_slice(target);
    key
}

/// Everything that is still to follow.
pub fn all_due() -> Bounds {
    Bounds::prefix(vec![DUE])
}

/// The rule, what it is, and the target of such a key; `None` if it is not one.
pub fn parse_due(key: &[u8]) -> Option<(u32, Due, &[u8])> {
    let (rule, rest) = key.strip_prefix(&[DUE])?.split_first_chunk::<4>()?;
    let (what, target) = rest.split_first()?;
    let what = match what {
        1 => Due::Sources,
        2 => Due::Aggregates,
        _ => return None,
    };
    Some((u32::from_be_bytes(*rule), what, target))
}

/// Key, in the shard of an item with a bucketed array, of one of its buckets.
pub fn bucket(rule: u32, parent: &[u8], seq: u64) -> Vec<u8> {
    let mut key = buckets_of(rule, parent).from;
    key.extend(seq.to_be_bytes());
    key
}

/// All buckets of one array, in their order.
pub fn buckets_of(rule: u32, parent: &[u8]) -> Bounds {
    Bounds::prefix(beside(BUCKET, rule, parent))
}

/// All buckets of one rule in a shard.
pub fn all_buckets_of(rule: u32) -> Bounds {
    let mut key = vec![BUCKET];
    key.extend(rule.to_be_bytes());
    Bounds::prefix(key)
}

/// The place of a bucket among the others; `None` if it is no such key.
pub fn parse_bucket(key: &[u8]) -> Option<u64> {
    let rest = key.strip_prefix(&[BUCKET])?;
    rest.last_chunk::<8>().map(|seq| u64::from_be_bytes(*seq))
}

/// Key, in the same shard, of the place of an element.
pub fn element(rule: u32, parent: &[u8], element: &str) -> Vec<u8> {
    let mut key = beside(ELEMENT, rule, parent);
    key.extend_from_slice(element.as_bytes());
    key
}

fn beside(tag: u8, rule: u32, item: &[u8]) -> Vec<u8> {
    let mut key = vec![tag];
    key.extend(rule.to_be_bytes());
    escape_terminated(item, &mut key);
    key
}

/// Key, in every shard whose items a rule is being built over, of how far that is.
pub fn built(rule: u32, pass: u8) -> Vec<u8> {
    let mut key = vec![BUILT];
    key.extend(rule.to_be_bytes());
    key.push(pass);
    key
}

/// Key, in the shard of an item, saying that the item breaks a rule that is being built.
pub fn violation(rule: u32, item: &[u8]) -> Vec<u8> {
    let mut key = violations_of(rule).from;
    key.extend_from_slice(item);
    key
}

/// All items of a shard that break a rule.
pub fn violations_of(rule: u32) -> Bounds {
    let mut prefix = vec![VIOLATION];
    prefix.extend(rule.to_be_bytes());
    Bounds::prefix(prefix)
}

/// The item key in such a key; `None` if it is not one.
pub fn parse_violation(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[VIOLATION])?.get(4..)
}

/// Everything that models keep in the index space: each key has the number of its rule behind its
/// first byte.
pub fn model_entries() -> Bounds {
    Bounds { from: vec![MODEL_ENTRIES.0], to: vec![MODEL_ENTRIES.1 + 1] }
}

/// Everything that models keep in the meta space but for guards, in the same form.
pub fn model_notes() -> Bounds {
    Bounds { from: vec![MODEL_NOTES.0], to: vec![MODEL_NOTES.1 + 1] }
}

/// The key of the item beside which a model or a global secondary index keeps an entry or a note, and with
/// which it moves to another shard; `None` if it is none of these, or is about the shard as a whole.
pub fn item_beside(key: &[u8]) -> Option<Vec<u8>> {
    let (tag, rest) = key.split_first()?;
    match *tag {
        REFERENCE | BUCKET | ELEMENT => unescape(rest.get(4..)?).map(|(item, _)| item),
        EXTREME | DELTA => unescape(rest.get(5..)?).map(|(item, _)| item),
        TALLY | DUE => rest.get(5..).map(<[u8]>::to_vec),
        VIOLATION => rest.get(4..).map(<[u8]>::to_vec),
        _ => super::parse_secondary(key).map(|(_, item)| item.to_vec()),
    }
}

/// The number of the rule by which a key is kept; `None` if no model keeps it.
pub fn rule_of(key: &[u8]) -> Option<u32> {
    let (tag, rest) = key.split_first()?;
    let is_in = |(first, last): (u8, u8)| (first..=last).contains(tag);
    let (rule, _) = rest.split_first_chunk::<4>()?;
    (is_in(MODEL_ENTRIES) || is_in(MODEL_NOTES)).then(|| u32::from_be_bytes(*rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_and_lie_in_their_order() {
        let of = AggregateId { rule: 7, ordinal: 2 };
        let key = |value: Value| extreme(of, b"a\0b", &value, b"source");
        let (one, two) = (key(1.into()), key("x".into()));
        assert!(one < two);
        for (key, value) in [(&one, Value::from(1)), (&two, "x".into())] {
            assert_eq!(parse_extreme(key), Some(value));
            assert_eq!(rule_of(key), Some(7));
            for bounds in [extremes_of(of, b"a\0b"), model_entries()] {
                assert!(bounds.from <= *key && *key < bounds.to);
            }
        }
        let delta = delta(of, b"a\0b", &[1; 12]);
        assert_eq!(tally_of_delta(&delta), Some(tally(of, b"a\0b")));
        let due = due(7, Due::Aggregates, b"t");
        assert_eq!(parse_due(&due), Some((7, Due::Aggregates, &b"t"[..])));
        assert_eq!((rule_of(&delta), rule_of(&due)), (Some(7), Some(7)));
        let violation = violation(7, b"item");
        assert_eq!(parse_violation(&violation), Some(&b"item"[..]));
        assert_eq!((rule_of(&violation), rule_of(&built(7, 1))), (Some(7), Some(7)));
        let reference = super::super::reference(7, b"a\0b", b"source");
        for key in [&one, &delta, &reference, &tally(of, b"a\0b"), &super::element(7, b"a\0b", "e")]
        {
            assert_eq!(item_beside(key).as_deref(), Some(&b"a\0b"[..]));
        }
        assert_eq!(item_beside(&due).as_deref(), Some(&b"t"[..]));
        assert_eq!(item_beside(&violation).as_deref(), Some(&b"item"[..]));
        assert_eq!(item_beside(&built(7, 1)), None);
        let bucket = bucket(7, b"p", 3);
        assert_eq!((parse_bucket(&bucket), rule_of(&bucket)), (Some(3), Some(7)));
        assert_eq!(rule_of(&element(7, b"p", "c1")), Some(7));
        let tally = tally(of, b"t");
        assert_eq!(rule_of(&tally), Some(7));
        for bounds in [all_tallies(), model_notes()] {
            assert!(bounds.from <= tally && tally < bounds.to);
        }
        assert_eq!(rule_of(&super::super::row(super::super::Row(1))), None);
    }
}
