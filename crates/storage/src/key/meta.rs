//! Keys of the Meta space: the catalog, which lives in the system shard, and the counters. The
//! layout stands at the head of `key`; the engine decides what the records hold.

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
}

const RECORD: u8 = 0x01;
const NAME: u8 = 0x02;
const COUNTER: u8 = 0x10;
const ROWS_RESERVED: u8 = 0x11;
const VERSIONS_HORIZON: u8 = 0x12;

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

/// Key, in every shard, of how many row numbers have been handed out.
pub fn rows_reserved() -> Vec<u8> {
    vec![ROWS_RESERVED]
}

/// Key, in every shard, of the LSN up to which versions may be gone.
pub fn versions_horizon() -> Vec<u8> {
    vec![VERSIONS_HORIZON]
}
