//! Keys of the Meta space: the catalog, which lives in the system shard, and the counters. The
//! layout stands at the head of `key`; the engine decides what the records hold.

use orrery_types::{EffectiveKey, PartitionKey};

use super::{Bounds, PathId};
use crate::encode::escape_terminated;

/// What a record of the catalog is about, as keys spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RecordKind {
    Database = 1,
    Container = 2,
    User = 3,
    Permission = 4,
    Offer = 5,
    EncryptionKey = 6,
    Procedure = 7,
    Trigger = 8,
    Udf = 9,
    Model = 10,
    RoleDefinition = 11,
    RoleAssignment = 12,
}

const RECORD: u8 = 0x01;
const NAME: u8 = 0x02;
const COUNTER: u8 = 0x10;
const ROWS_RESERVED: u8 = 0x11;
const PATH_NODE: u8 = 0x12;
const COMPOSITE_NAME: u8 = 0x13;
const SHAPE_NAME: u8 = 0x14;
const INDEX_IDS: u8 = 0x15;
const INDEX_REBUILT: u8 = 0x16;
const VERSIONS_HORIZON: u8 = 0x17;
const ERASURE: u8 = 0x18;
const MERGED_AT: u8 = 0x1a;
// 0x1b to 0x1e are in `model`.
const TRANSACTION_OUTCOME: u8 = 0x1f;
const OUTCOME_EXPIRY: u8 = 0x20;
// 0x21 to 0x23 are in `secondary_index`.

fn key(tag: u8, kind: RecordKind, parent: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(18);
    key.extend([tag, kind as u8]);
    key.extend(parent.to_be_bytes());
    key
}

/// Key of a record by its number under a parent.
pub fn record(kind: RecordKind, parent: u64, number: u64) -> Vec<u8> {
    let mut key = key(RECORD, kind, parent);
    key.extend(number.to_be_bytes());
    key
}

/// What the keys of all records of a kind under a parent start with.
pub fn records(kind: RecordKind, parent: u64) -> Vec<u8> {
    key(RECORD, kind, parent)
}

/// Key under which a name leads to the number of its record.
pub fn record_name(kind: RecordKind, parent: u64, name: &str) -> Vec<u8> {
    let mut key = key(NAME, kind, parent);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Key of a named counter.
pub fn counter(name: &str) -> Vec<u8> {
    let mut key = vec![COUNTER];
    key.extend_from_slice(name.as_bytes());
    key
}

/// Key that every change of the catalog writes where several processes make them.
pub fn catalog_head() -> Vec<u8> {
    counter("catalog")
}

/// Key, in every shard, of how many row numbers have been handed out.
pub fn rows_reserved() -> Vec<u8> {
    vec![ROWS_RESERVED]
}

/// One step of a property path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathStep<'n> {
    /// To the elements of an array.
    Elements,
    /// To a property of an object.
    Property(&'n str),
}

/// Key, in every shard, under which a path and a step lead to the number of the path that they make.
pub fn path_node(parent: PathId, step: PathStep<'_>) -> Vec<u8> {
    let mut key = vec![PATH_NODE];
    key.extend(parent.0.to_be_bytes());
    match step {
        PathStep::Elements => key.push(0),
        PathStep::Property(name) => {
            key.push(1);
            key.extend_from_slice(name.as_bytes());
        }
    }
    key
}

/// The path and the step in the key of a path; `None` if it is not one.
pub fn parse_path_node(key: &[u8]) -> Option<(PathId, PathStep<'_>)> {
    let (parent, step) = key.strip_prefix(&[PATH_NODE])?.split_first_chunk::<4>()?;
    let step = match step.split_first()? {
        (0, []) => PathStep::Elements,
        (1, name) => PathStep::Property(std::str::from_utf8(name).ok()?),
        _ => return None,
    };
    Some((PathId(u32::from_be_bytes(*parent)), step))
}

/// Whether a key leads to the number of a path, a composite index or a shape.
pub fn is_index_name(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(PATH_NODE | COMPOSITE_NAME | SHAPE_NAME)))
}

/// All such keys.
pub fn index_names() -> Bounds {
    Bounds { from: vec![PATH_NODE], to: vec![SHAPE_NAME + 1] }
}

/// Key, in every shard, under which a composite index's canonical text leads to its number.
pub fn composite_name(text: &str) -> Vec<u8> {
    let mut key = vec![COMPOSITE_NAME];
    key.extend_from_slice(text.as_bytes());
    key
}

/// Key, in every shard, under which a set of paths, ascending, leads to the number of the shape.
pub fn shape_name(paths: &[PathId]) -> Vec<u8> {
    let mut key = vec![SHAPE_NAME];
    key.extend(paths.iter().flat_map(|path| path.0.to_be_bytes()));
    key
}

/// The paths of a shape's key; `None` if it is not one.
pub fn parse_shape_name(key: &[u8]) -> Option<Vec<PathId>> {
    let (paths, rest) = key.strip_prefix(&[SHAPE_NAME])?.as_chunks::<4>();
    rest.is_empty().then(|| paths.iter().map(|id| PathId(u32::from_be_bytes(*id))).collect())
}

/// The keys of all shapes.
pub fn shape_names() -> Bounds {
    Bounds::prefix(vec![SHAPE_NAME])
}

/// Key, in every shard, of the last number given to a path, a composite index or a shape.
pub fn index_ids() -> Vec<u8> {
    vec![INDEX_IDS]
}

/// Key, in every shard, of the progress of the index build.
pub fn index_rebuilt() -> Vec<u8> {
    vec![INDEX_REBUILT]
}

/// Key, in every shard, of the LSN up to which versions may be gone.
pub fn versions_horizon() -> Vec<u8> {
    vec![VERSIONS_HORIZON]
}

/// Key, in a shard that was merged or came of one, of the LSN from which on it counts alone.
pub fn merged_at() -> Vec<u8> {
    vec![MERGED_AT]
}

/// Key, in every shard, that the items whose keys start with a prefix are being deleted.
pub fn erasure(prefix: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 1);
    key.push(ERASURE);
    key.extend_from_slice(prefix);
    key
}

/// The name of an erasure of all keys under a prefix of a partition key, from an effective key on. It
/// reads as no item key's beginning: the two zeros stand where none has them.
pub fn erasure_of_prefix(items: &[u8], from: &EffectiveKey, prefix: &PartitionKey) -> Vec<u8> {
    let mut name = items.to_vec();
    name.extend([0, 0]);
    escape_terminated(&from.0, &mut name);
    name.extend(prefix.to_canonical());
    name
}

/// The prefix in the key of an erasure; `None` if it is not one.
pub fn parse_erasure(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[ERASURE])
}

/// The keys of all erasures.
pub fn erasures() -> Bounds {
    Bounds::prefix(vec![ERASURE])
}

/// Key, in the system shard, of what became of the distributed transaction with an idempotency token.
pub fn transaction_outcome(token: &[u8; 16]) -> Vec<u8> {
    let mut key = vec![TRANSACTION_OUTCOME];
    key.extend(token);
    key
}

/// Key, in the system shard, that the outcome of a distributed transaction may go at a time.
pub fn outcome_expiry(at_s: u64, token: &[u8; 16]) -> Vec<u8> {
    let mut key = vec![OUTCOME_EXPIRY];
    key.extend(at_s.to_be_bytes());
    key.extend(token);
    key
}

/// The token in the key of an expiry; `None` if it is not one.
pub fn parse_outcome_expiry(key: &[u8]) -> Option<[u8; 16]> {
    key.strip_prefix(&[OUTCOME_EXPIRY])?.get(8..)?.try_into().ok()
}

/// The keys of all outcomes that may go at a time.
pub fn outcomes_expired_at(now_s: u64) -> Bounds {
    let mut to = vec![OUTCOME_EXPIRY];
    to.extend(now_s.saturating_add(1).to_be_bytes());
    Bounds { from: vec![OUTCOME_EXPIRY], to }
}
