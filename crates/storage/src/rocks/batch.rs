//! A write batch, written as `RocksDB` stores it. A create has some twenty keys, and a call into the library
//! for each of them costs more than copying its bytes.
//!
//! ```text
//! batch    sequence u64 = 0 | records u32 | record…              both little-endian
//! put      05 | family varint | length varint, key | length varint, value
//! delete   04 | family varint | length varint, key
//! ```
//!
//! The library writes the same bytes into its log and checks them when it inserts them, so a batch that it cannot
//! read is refused as a whole. The tests compare with what the library writes itself.

use orrery_types::{Lsn, ShardId};
use rocksdb::{ColumnFamily, DB, WriteBatch};

use super::folder;
use super::layout::{Header, VERSION_BYTES};
use crate::Space;
use crate::store::SHARD_RESERVED;

const PUT: u8 = 5;
const DELETE: u8 = 4;
const COUNT_AT: usize = 8;
const HEADER_BYTES: usize = 12;

/// The numbers under which batches name the column families of the spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FamilyIds([u32; Space::ALL.len()]);

impl FamilyIds {
    /// Those of a database, read from batches that it makes.
    pub(super) fn of(db: &DB) -> Self {
        Self(Space::ALL.map(|space| id_of(folder::family(db, space))))
    }

    fn of_space(self, space: Space) -> u32 {
        self.0[space as usize]
    }
}

/// The number of a family, as a batch with a deletion of the empty key names it.
fn id_of(family: &ColumnFamily) -> u32 {
    let mut batch = WriteBatch::default();
    batch.delete_cf(family, b"");
    let record = batch.data().get(HEADER_BYTES + 1..).unwrap_or_default();
    let digits = record.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    record.iter().take(digits).rev().fold(0, |id, byte| id << 7 | u32::from(byte & 0x7f))
}

/// Collects writes.
#[derive(Debug)]
pub(super) struct BatchBuilder {
    ids: FamilyIds,
    bytes: Vec<u8>,
    records: u32,
}

impl BatchBuilder {
    /// `size_bytes` is the expected size, so that the buffer is allocated once.
    pub(super) fn new(ids: FamilyIds, size_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + size_bytes);
        bytes.resize(HEADER_BYTES, 0);
        Self { ids, bytes, records: 0 }
    }

    /// Puts a value; a key of a space with versions has the LSN before it.
    pub(super) fn put(&mut self, shard: ShardId, space: Space, key: &[u8], value: &[u8], lsn: Lsn) {
        self.begin(PUT, space, shard, key);
        if space.is_versioned() {
            self.write_length(VERSION_BYTES + value.len());
            self.bytes.extend(lsn.0.to_be_bytes());
        } else {
            self.write_length(value.len());
        }
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn delete(&mut self, shard: ShardId, space: Space, key: &[u8]) {
        self.begin(DELETE, space, shard, key);
    }

    /// Puts the header of a shard.
    pub(super) fn put_header(&mut self, shard: ShardId, header: Header) {
        let key = shard.0.to_be_bytes();
        self.begin(PUT, Space::Meta, SHARD_RESERVED, &key);
        let value = header.encode();
        self.write_length(value.len());
        self.bytes.extend(value);
    }

    pub(super) fn finish(mut self) -> WriteBatch {
        self.bytes[COUNT_AT..HEADER_BYTES].copy_from_slice(&self.records.to_le_bytes());
        WriteBatch::from_data(&self.bytes)
    }

    /// Writes a record up to the end of its key.
    fn begin(&mut self, kind: u8, space: Space, shard: ShardId, key: &[u8]) {
        self.records += 1;
        self.bytes.push(kind);
        self.write_varint(self.ids.of_space(space));
        let shard = shard.0.to_be_bytes();
        self.write_length(shard.len() + key.len());
        self.bytes.extend(shard);
        self.bytes.extend_from_slice(key);
    }

    fn write_length(&mut self, length: usize) {
        self.write_varint(u32::try_from(length).expect("a commit is far smaller than 4 GB"));
    }

    fn write_varint(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.bytes.push(low_bits(number));
    }
}

fn low_bits(number: u32) -> u8 {
    (number & 0x7f).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use orrery_types::Epoch;

    use super::super::{RocksOptions, RocksStore, layout};
    use super::*;

    #[test]
    fn a_batch_has_the_bytes_that_the_library_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        let db = &store.core.db;
        let ids = FamilyIds::of(db);
        let mut numbers = ids.0.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers[0] > 0), (Space::ALL.len(), true), "{ids:?}");
        let (mut own, mut theirs) = (BatchBuilder::new(ids, 0), WriteBatch::default());
        let shard = ShardId(7);
        // Lengths of one, two and three bytes.
        for (space, length) in Space::ALL.into_iter().zip([0, 1, 127, 128, 20_000]) {
            let (key, value) = (vec![b'k'; length], vec![b'v'; length]);
            let mut stored = Vec::new();
            layout::write_value(space, Lsn(9), &value, &mut stored);
            own.put(shard, space, &key, &value, Lsn(9));
            theirs.put_cf(folder::family(db, space), layout::key(shard, &key), &stored);
            own.delete(shard, space, &key);
            theirs.delete_cf(folder::family(db, space), layout::key(shard, &key));
        }
        let header = Header { epoch: Epoch(3), lsn: Lsn(9), state: crate::ShardState::Dropped };
        own.put_header(shard, header);
        let meta = folder::family(db, Space::Meta);
        theirs.put_cf(meta, layout::header_key(shard), header.encode());
        let own = own.finish();
        assert_eq!((own.data(), own.len()), (theirs.data(), theirs.len()));
    }
}
