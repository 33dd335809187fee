//! A folder for another engine's data: how a store in memory is written out. What it makes opens
//! like any other data folder.

use std::path::Path;

use orrery_types::{Epoch, Lsn, ShardId};
use rocksdb::{DB, FlushOptions, WriteBatch, WriteOptions};

use super::layout::{self, Header};
use super::options::RocksOptions;
use super::{LOAD_BATCH_BYTES, folder};
use crate::{Space, StorageError};

/// Takes entries for a folder that does not exist yet.
pub(crate) struct Export<'d> {
    db: &'d DB,
    batch: WriteBatch,
}

/// Makes the folder and lets `fill` write into it; nothing is left of it if that fails.
pub(crate) fn export(
    into: &Path,
    fill: impl FnOnce(&mut Export<'_>) -> Result<(), rocksdb::Error>,
) -> Result<(), StorageError> {
    folder::checkpoint(into, |files| {
        // Writes without the log are refused where logs are recycled.
        let options = RocksOptions { recycled_logs: 0, ..RocksOptions::default() };
        let db = DB::open_cf_descriptors(&options.database(true), files, options.families())?;
        let mut export = Export { db: &db, batch: WriteBatch::default() };
        fill(&mut export)?;
        export.write()?;
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        let families = Space::ALL.map(|space| folder::family(&db, space));
        db.flush_cfs_opt(&families, &flush)
    })
}

impl Export<'_> {
    /// Adds a shard.
    pub(crate) fn shard(&mut self, shard: ShardId, epoch: Epoch, lsn: Lsn) {
        let header = Header { epoch, lsn }.encode();
        let meta = folder::family(self.db, Space::Meta);
        self.batch.put_cf(meta, layout::header_key(shard), header);
    }

    /// Adds an entry with the version it has.
    pub(crate) fn entry(
        &mut self,
        (shard, space): (ShardId, Space),
        key: &[u8],
        version: Lsn,
        value: &[u8],
    ) -> Result<(), rocksdb::Error> {
        let mut stored = Vec::with_capacity(8 + value.len());
        layout::write_value(space, version, value, &mut stored);
        self.batch.put_cf(folder::family(self.db, space), layout::key(shard, key), stored);
        if self.batch.size_in_bytes() >= LOAD_BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), rocksdb::Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(std::mem::take(&mut self.batch), &options)
    }
}
