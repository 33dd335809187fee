//! The layout of every key, built and taken apart here and nowhere else. Engines put the shard in
//! front; what a key says within its shard and space is below. Integers are big-endian, so bytes
//! compare as numbers do.
//!
//! ```text
//! Items  item        01 | esc(effective key) | esc(partition key) | id (UTF-8)    → record
//!        row         02 | row u64                                                  → item key
//! Index  unique      01 | ordinal u8 | esc(effective key) | esc(partition key) | encoded values
//!                                                                                  → row u64
//!        term        02 | path u32 | term value | row u64                          → empty
//!        composite   03 | composite u32 | component values | row u64               → empty
//!        shape       04 | shape u32 | row u64                                      → empty
//!        reference   05 | rule u32 | esc(item key of the target) | item key of the source   → empty
//!        extreme     06 | rule u32 | place u8 | esc(item key of the target) | value | item key of the
//!                    source                                                        → empty
//!        delta       07 | rule u32 | place u8 | esc(item key of the target) | mark (12)  → a tally
//!        bucket      08 | rule u32 | esc(item key of the parent) | place u64      → length u32
//!        element     09 | rule u32 | esc(item key of the parent) | element key    → place u64
//!        place       0A | index u32 | item key of the source                      → item key in the index
//! Feed   change      lsn u64 | seq u16                                             → item key
//!        version     01 | lsn u64 | seq u16                                        → version
//! Ttl    expiry      second u64 | row u64                                          → item key
//! Meta   record      01 | kind u8 | parent u64 | number u64                       → the engine's
//!        name        02 | kind u8 | parent u64 | name                             → number u64
//!        counter     10 | name                (`catalog`: the catalog head)
//!        rows        11                       (of each shard: row numbers handed out)
//!        path        12 | path u32 | 00                       (its elements)       → path u32
//!        path        12 | path u32 | 01 | name                (a property)         → path u32
//!        composite   13 | canonical text                                           → composite u32
//!        shape       14 | path u32, ascending, each                                → shape u32
//!        ids         15                       (of each shard: the last u32 given)  → u32
//!        rebuilt     16                       (progress of the index build)        → the engine's
//!        horizon     17                       (versions up to it may be gone)      → lsn u64
//!        erasure     18 | what the keys of the items start with                    → the engine's
//!        guard       19 | item key            (a new reference to it has come)      → empty
//!        merged      1A                       (up to it, LSNs are of two parents)   → lsn u64
//!        tally       1B | rule u32 | place u8 | item key of the target             → the model's
//!        due         1C | rule u32 | what u8 | item key of the target              → the engine's
//!        built       1D | rule u32 | pass u8                                       → the engine's
//!        violation   1E | rule u32 | item key                                      → empty
//!        outcome     1F | idempotency token                                       → the engine's
//!        expiry      20 | second u64 | idempotency token                          → empty
//!        position    21 | index u32         (how far a secondary index follows)   → the engine's
//!        deletion    22 | index u32 | item key      (still to follow)              → second u64
//!        held        23 | index u32 | item key      (the index cannot hold it)     → the reason
//!        node        28 | node u32                  (of a shared store)           → the engine's
//!        lease       29 | kind u8 | database u32 | container u32                   → the engine's
//!        verified    2A | database u32              (of a shared store)           → the engine's
//! ```
//!
//! `esc` writes a zero byte as `00 FF` and ends with `00 01`. Escaped bytes sort as the raw ones do,
//! and without the terminator a prefix of the raw bytes is a prefix of the escaped ones: that makes
//! any range of effective keys one range of item keys. The partition key stands in the item key in
//! full because its hash can be made to collide, and two logical partitions must never mix.

use orrery_types::{EffectiveKey, KeyRange, Lsn, PartitionKey, Value};

use crate::encode::{encode, escape, escape_terminated, unescape};
use crate::{Scan, Space};

mod index;
mod meta;
mod model;
mod nodes;
mod reference;
mod secondary_index;
#[cfg(test)]
mod tests;

pub use index::{
    Composite, CompositeId, PathId, ROOT_PATH, ShapeId, Term, TermKind, TermPrefix,
    all_index_terms, composite_prefix, composites_of, index_row, parse_composite, parse_shape,
    parse_term, shapes_of, split_index_key, term, term_kind, term_prefix, terms_of,
};
pub use meta::{
    PathStep, RecordKind, catalog_head, composite_name, counter, erasure, erasure_of_prefix,
    erasures, index_ids, index_names, index_rebuilt, is_index_name, merged_at, outcome_expiry,
    outcomes_expired_at, parse_erasure, parse_outcome_expiry, parse_path_node, parse_shape_name,
    path_node, record, record_name, records, rows_reserved, shape_name, shape_names,
    transaction_outcome, versions_horizon,
};
pub use model::{
    AggregateId, Due, all_buckets_of, all_due, all_tallies, bucket, buckets_of, built, delta,
    deltas_of, due, element, extreme, extremes_of, item_beside, model_entries, model_notes,
    parse_bucket, parse_due, parse_extreme, parse_violation, rule_of, tally, tally_of_delta,
    violation, violations_of,
};

pub use nodes::{Job, lease, leases, node, nodes, parse_lease, parse_node, verification};
pub use reference::{
    ReferenceKey, guard, parse_guard, parse_reference, reference, references_of, references_to,
};
pub use secondary_index::{
    parse_secondary, parse_secondary_position, secondary_deletion, secondary_deletions,
    secondary_held, secondary_held_of, secondary_place, secondary_places, secondary_position,
    secondary_positions,
};

const ITEM: u8 = 0x01;
const ROW: u8 = 0x02;
const UNIQUE: u8 = 0x01;
/// Changes begin with their LSN, which never gets so far.
pub const VERSION: u8 = 0x01;

/// Above every key of every space.
pub const END: &[u8] = &[0xff; 17];

/// Number of an item within its shard, never used again after the item is gone. Index terms carry
/// it instead of the much longer item key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u64);

/// A range of keys: `from` inclusive, `to` exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Bounds {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

impl Bounds {
    /// All keys that start with these bytes.
    pub fn prefix(prefix: Vec<u8>) -> Self {
        Self { to: prefix_end(&prefix), from: prefix }
    }

    /// What is left of the range, read forward, when `last` was the last key read.
    #[must_use]
    pub fn after(self, last: &[u8]) -> Self {
        Self { from: after(last), to: self.to }
    }

    /// A scan of the range, forward and with values. What it returns is bounded by rows and by bytes.
    pub fn scan(&self, space: Space, max_rows: usize, max_bytes: usize) -> Scan<'_> {
        let (reverse, keys_only) = (false, false);
        Scan { space, from: &self.from, to: &self.to, reverse, max_rows, max_bytes, keys_only }
    }
}

/// The first key after all that start with `prefix`.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    END.to_vec()
}

/// The key right after this one: nothing lies between a key and the key with a zero appended.
pub fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// What an item key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemKey<'k> {
    /// Hash of the partition key.
    pub effective: EffectiveKey,
    /// The partition key in its canonical bytes.
    pub partition: Vec<u8>,
    /// The item's id.
    pub id: &'k str,
}

/// Key of an item.
pub fn item(effective: &EffectiveKey, partition: &PartitionKey, id: &str) -> Vec<u8> {
    let mut key = logical_partition(ITEM, effective, partition);
    key.extend_from_slice(id.as_bytes());
    key
}

/// Takes an item key apart; `None` if it is not one.
pub fn parse_item(key: &[u8]) -> Option<ItemKey<'_>> {
    let rest = key.strip_prefix(&[ITEM])?;
    let (effective, rest) = unescape(rest)?;
    let (partition, rest) = unescape(rest)?;
    let id = std::str::from_utf8(rest).ok()?;
    Some(ItemKey { effective: EffectiveKey(effective), partition, id })
}

/// The effective key in what the keys of a logical partition's items start with.
pub fn parse_effective(prefix: &[u8]) -> Option<EffectiveKey> {
    let (effective, _) = unescape(prefix.strip_prefix(&[ITEM])?)?;
    Some(EffectiveKey(effective))
}

/// All items whose effective key lies in the range.
pub fn items_in(range: &KeyRange) -> Bounds {
    let place = |key: &EffectiveKey| {
        let mut bytes = Vec::with_capacity(key.0.len() + 1);
        bytes.push(ITEM);
        escape(&key.0, &mut bytes);
        bytes
    };
    Bounds { from: place(&range.min), to: place(&range.max) }
}

/// All items of one logical partition, by id.
pub fn items_of(effective: &EffectiveKey, partition: &PartitionKey) -> Bounds {
    Bounds::prefix(logical_partition(ITEM, effective, partition))
}

fn logical_partition(tag: u8, effective: &EffectiveKey, partition: &PartitionKey) -> Vec<u8> {
    let partition = partition.to_canonical();
    let mut key = Vec::with_capacity(effective.0.len() + partition.len() + 48);
    key.push(tag);
    escape_terminated(&effective.0, &mut key);
    escape_terminated(&partition, &mut key);
    key
}

/// Key under which a row number leads to its item's key.
pub fn row(row: Row) -> [u8; 9] {
    let mut key = [ROW; 9];
    key[1..].copy_from_slice(&row.0.to_be_bytes());
    key
}

/// The number in a row key; `None` if it is not one.
pub fn parse_row(key: &[u8]) -> Option<Row> {
    let number = key.strip_prefix(&[ROW])?;
    Some(Row(u64::from_be_bytes(number.try_into().ok()?)))
}

/// All row keys.
pub fn all_rows() -> Bounds {
    Bounds::prefix(vec![ROW])
}

/// Key of the values that an item has under the `ordinal`-th unique key of its container.
pub fn unique(
    ordinal: u8,
    effective: &EffectiveKey,
    partition: &PartitionKey,
    values: &[Value],
) -> Vec<u8> {
    let mut key = vec![UNIQUE, ordinal];
    key.extend_from_slice(&logical_partition(UNIQUE, effective, partition)[1..]);
    for value in values {
        encode(value, &mut key);
    }
    key
}

/// The effective key in a unique key; `None` if it is not one.
pub fn parse_unique(key: &[u8]) -> Option<EffectiveKey> {
    let (_, rest) = key.strip_prefix(&[UNIQUE])?.split_first()?;
    unescape(rest).map(|(effective, _)| EffectiveKey(effective))
}

/// Key of the `seq`-th change of the commit with this LSN.
pub fn feed(lsn: Lsn, seq: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&lsn.0.to_be_bytes());
    key[8..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// The LSN and place in its commit of a feed key; `None` if it is not one.
pub fn parse_feed(key: &[u8]) -> Option<(Lsn, u16)> {
    let (lsn, seq) = key.split_first_chunk::<8>()?;
    Some((Lsn(u64::from_be_bytes(*lsn)), u16::from_be_bytes(seq.try_into().ok()?)))
}

/// All changes of commits after an LSN.
pub fn feed_after(lsn: Lsn) -> Bounds {
    let from = feed(Lsn(lsn.0.saturating_add(1)), 0).to_vec();
    Bounds { from, to: vec![VERSION] }
}

/// Key of the `seq`-th version that the commit with this LSN left.
pub fn version(lsn: Lsn, seq: u16) -> [u8; 11] {
    let mut key = [VERSION; 11];
    key[1..].copy_from_slice(&feed(lsn, seq));
    key
}

/// The LSN and place in its commit of a version's key; `None` if it is not one.
pub fn parse_version(key: &[u8]) -> Option<(Lsn, u16)> {
    parse_feed(key.strip_prefix(&[VERSION])?)
}

/// All versions of commits after an LSN.
pub fn versions_after(lsn: Lsn) -> Bounds {
    let from = version(Lsn(lsn.0.saturating_add(1)), 0).to_vec();
    Bounds { from, to: prefix_end(&[VERSION]) }
}

/// What a commit leaves under its LSN, each kind with places of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum FeedPlace {
    Change,
    Version,
}

impl FeedPlace {
    /// The key at a place of a commit.
    pub fn key(self, lsn: Lsn, seq: u16) -> Vec<u8> {
        match self {
            Self::Change => feed(lsn, seq).to_vec(),
            Self::Version => version(lsn, seq).to_vec(),
        }
    }

    /// The LSN and place in its commit of a key; `None` if it is none of this kind.
    pub fn parse(self, key: &[u8]) -> Option<(Lsn, u16)> {
        match self {
            Self::Change => parse_feed(key),
            Self::Version => parse_version(key),
        }
    }

    /// All places of one commit.
    pub fn of_commit(self, lsn: Lsn) -> Bounds {
        Bounds { from: self.key(lsn, 0), to: after(&self.key(lsn, u16::MAX)) }
    }
}

/// Key saying that the item with this row expires at this second since 1970.
pub fn ttl(expiry_s: u64, row: Row) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&expiry_s.to_be_bytes());
    key[8..].copy_from_slice(&row.0.to_be_bytes());
    key
}

/// Expiry second and row of an expiry key; `None` if it is not one.
pub fn parse_ttl(key: &[u8]) -> Option<(u64, Row)> {
    let (second, row) = key.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*second), Row(u64::from_be_bytes(row.try_into().ok()?))))
}

/// Everything that has expired when the clock shows this second.
pub fn expired_at(now_s: u64) -> Bounds {
    Bounds { from: Vec::new(), to: ttl(now_s.saturating_add(1), Row(0)).to_vec() }
}
