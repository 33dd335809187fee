//! Writes another engine's data as a data folder, which opens like any other.

use std::path::Path;

use orrery_types::{Epoch, Lsn, ShardId};
use rocksdb::{DB, FlushOptions, WriteBatch, WriteOptions};

use super::layout::{self, Header};
use super::options::RocksOptions;
use super::{COPY_BATCH_BYTES, folder};
use crate::{ShardState, Space, StorageError};

/// Receives the entries of a new data folder.
pub(crate) struct Export<'d> {
    db: &'d DB,
    batch: WriteBatch,
}

/// Creates the folder and lets `fill` write into it; nothing is left of it if that fails.
pub(crate) fn export(
    into: &Path,
    fill: impl FnOnce(&mut Export<'_>) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    folder::checkpoint(into, |files| {
        // Writes without the log are refused where logs are recycled.
        let options = RocksOptions { recycled_logs: 0, ..RocksOptions::default() };
        let io = |error: rocksdb::Error| StorageError::Io(error.to_string().into());
        let database = options.database(true);
        let db = DB::open_cf_descriptors(&database, files, options.families()).map_err(io)?;
        let mut export = Export { db: &db, batch: WriteBatch::default() };
        fill(&mut export)?;
        export.write()?;
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        let families = Space::ALL.map(|space| folder::family(&db, space));
        db.flush_cfs_opt(&families, &flush).map_err(io)
    })
}

impl Export<'_> {
    /// Adds a shard.
    pub(crate) fn shard(&mut self, shard: ShardId, epoch: Epoch, lsn: Lsn) {
        // One that no container names is dropped when the folder is opened.
        let header = Header { epoch, lsn, state: ShardState::Open }.encode();
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
    ) -> Result<(), StorageError> {
        let mut stored = Vec::with_capacity(8 + value.len());
        layout::write_value(space, version, value, &mut stored);
        self.batch.put_cf(folder::family(self.db, space), layout::key(shard, key), stored);
        if self.batch.size_in_bytes() >= COPY_BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StorageError> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        let written = self.db.write_opt(std::mem::take(&mut self.batch), &options);
        written.map_err(|error| StorageError::Io(error.to_string().into()))
    }
}
