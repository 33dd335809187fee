//! The embedded engine: `RocksDB` with a column family for each space, and one thread at a time that commits.
//!
//! ```text
//! writers ──▶ queue ──▶ committer: validation, LSNs, one synced batch ──▶ head ──▶ answers
//! a writer without others does the same on its own thread, without the queue
//! readers ──▶ RocksDB directly; a snapshot reads the shard's LSN from its own view
//! ```
//!
//! - `folder`     the data folder: its lock, its FORMAT file, opening
//! - `options`    options of `RocksDB`
//! - `memory`     how much of it there is
//! - `layout`     keys and values as `RocksDB` sees them
//! - `wal`        damage in the log, found before it is replayed
//! - `commit_queue`  group commit: where commits wait, so that one sync serves many
//! - `committer`  the thread that writes
//! - `validation` preconditions of a group of commits, and its write batch
//! - `batch`      write batches as bytes
//! - `preallocation`  zeros ahead of the records of a new log
//! - `snapshot`   reads
//! - `disk_space` refuses writes before the disk is full
//! - `row_cache`  items that were read recently; and the numbers of writes, by which readers detect concurrent ones
//! - `table_file` sorted entries as table files
//! - `reclaim`    the space of dropped shards
//! - `idle_compaction`  merges new files once nobody writes
//! - `space_size` sizes after a full compaction
//! - `export`     a folder written from another engine

mod batch;
mod commit_queue;
mod committer;
#[cfg(test)]
mod damage_tests;
mod disk_space;
mod export;
mod folder;
mod idle_compaction;
mod layout;
pub mod memory;
mod options;
mod preallocation;
mod reclaim;
mod row_cache;
mod snapshot;
mod space_size;
mod table_file;
mod validation;
mod wal;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use foldhash::HashMap;
use orrery_types::{Epoch, Lsn, ShardId};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{ColumnFamily, DB, FlushOptions, Range, WriteBatch, WriteOptions};

pub(crate) use export::{Export, export};
pub use folder::OpenError;
pub use options::RocksOptions;
pub use space_size::SpaceSize;
pub use wal::{LogDamage, OnLogDamage};

use crate::commit_log::CommitLog;
use crate::journal::{Copied, Journal};
use crate::shard_head::ShardHead;
use crate::store::{OnCommitted, SHARD_RESERVED};
use crate::{
    Commit, CommitId, Committed, CopyRun, EmbeddedStore, Head, ReadAt, Resolution, ShardStats,
    Snapshot, Space, StorageError, Store, Value,
};
use batch::FamilyIds;
use commit_queue::{Answer, CommitQueue, Work};
use committer::CommitLock;
use disk_space::DiskSpace;
use layout::Header;
use preallocation::LogPreallocator;
use reclaim::Reclaimer;
use row_cache::RowCache;
use row_cache::WriteSequence;
use snapshot::RocksSnapshot;
use table_file::{TableFileWriter, TableFiles};

type Shards = HashMap<ShardId, Arc<ShardHead>>;

const NO_SHARD: StorageError = StorageError::Gone { epoch: None };
/// Copied entries are written in batches of this size.
const COPY_BATCH_BYTES: usize = 1024 * 1024;

/// A store in a folder of this machine.
#[derive(Debug)]
pub struct RocksStore {
    core: Arc<Core>,
    committer: Option<JoinHandle<()>>,
    reclaimer: Option<Reclaimer>,
    /// Held locked as long as the store is open.
    _lock: folder::FolderLock,
}

/// What the committer and the callers share.
struct Core {
    /// Dropped before the database. None where logs are not recycled.
    preallocator: Option<LogPreallocator>,
    db: DB,
    family_ids: FamilyIds,
    folder: PathBuf,
    /// Changed by the committer alone, and seldom; looked up by everybody, all the time.
    shards: ArcSwap<Shards>,
    queue: CommitQueue,
    commit_lock: CommitLock,
    table_files: TableFiles,
    sequence: WriteSequence,
    row_cache: RowCache,
    disk_space: DiskSpace,
    /// The outcomes of the last commits. The committer holds it while it writes a group, so that nobody
    /// asks for the outcome of a commit in progress.
    log: Mutex<CommitLog>,
    /// Why writes are refused, once they are.
    failed: OnceLock<Box<str>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl RocksStore {
    /// Opens the store in a folder, or makes one there.
    pub fn open(path: &Path, options: &RocksOptions) -> Result<Self, OpenError> {
        let folder::Opened { db, lock, headers } = folder::open(path, options)?;
        let table_files =
            TableFiles::new(path, options).map_err(|e| OpenError::Io(e.to_string().into()))?;
        let shards = headers.into_iter().map(|(shard, Header { epoch, lsn, state })| {
            (shard, Arc::new(ShardHead::new(epoch, lsn, state.recovered())))
        });
        let preallocator =
            folder::preallocator(path, options).map_err(|e| OpenError::Io(e.to_string().into()))?;
        let core = Arc::new(Core {
            preallocator,
            family_ids: FamilyIds::of(&db),
            db,
            folder: path.to_owned(),
            shards: ArcSwap::from_pointee(shards.collect()),
            queue: CommitQueue::default(),
            commit_lock: CommitLock::default(),
            table_files,
            sequence: WriteSequence::default(),
            row_cache: RowCache::new(options.row_cache_bytes),
            disk_space: DiskSpace::new(path),
            log: Mutex::default(),
            failed: OnceLock::new(),
        });
        let shared = core.clone();
        let committer = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || committer::run(&shared))
            .map_err(|e| OpenError::Io(e.to_string().into()))?;
        let mut store = Self { core, committer: Some(committer), reclaimer: None, _lock: lock };
        let reclaimer = Reclaimer::start(&store.core);
        store.reclaimer = Some(reclaimer.map_err(|e| OpenError::Io(e.to_string().into()))?);
        Ok(store)
    }

    /// Why the store refuses writes, if it does.
    pub fn failure(&self) -> Option<&str> {
        self.core.failed.get().map(|reason| &**reason)
    }
}

impl Drop for RocksStore {
    /// Ends the committer, then writes out what is in memory, so that the next start has no log
    /// to replay. Everything acknowledged is in the log already; a failure here loses nothing.
    fn drop(&mut self) {
        self.core.queue.close();
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
        if disk_space::writable(&self.core).is_ok()
            && let Err(error) = self.core.flush()
        {
            tracing::warn!(%error, "the store was closed without writing out its memory");
        }
        self.core.db.cancel_all_background_work(true);
        if let Some(reclaimer) = self.reclaimer.take() {
            reclaimer.end();
        }
    }
}

impl Core {
    fn cf(&self, space: Space) -> &ColumnFamily {
        folder::family(&self.db, space)
    }

    // Poisoned only if the committer panicked, and then it refuses writes: see `failed`.
    fn log(&self) -> MutexGuard<'_, CommitLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self, shard: ShardId) -> Result<Arc<ShardHead>, StorageError> {
        self.shards.load().get(&shard).cloned().ok_or(NO_SHARD)
    }

    /// The header as the database has it now, which is never older than a value that
    /// was read before the call.
    fn stored_header(&self, shard: ShardId) -> Result<Header, StorageError> {
        let key = layout::header_key(shard);
        let at = |error: StorageError| error.at(shard, Space::Meta, &key);
        let bytes = self.db.get_pinned_cf(self.cf(Space::Meta), key);
        let bytes = bytes.map_err(|error| at(read_error(error)))?.ok_or(NO_SHARD)?;
        Header::decode(&bytes).map_err(at)
    }

    fn refuse_if_failed(&self) -> Result<(), StorageError> {
        self.failed.get().map_or(Ok(()), |reason| Err(StorageError::ReadOnly(reason.clone())))
    }

    /// Refuses to copy into a shard that is in use, or onto a disk with too little space.
    fn refuse_copies(&self, shard: ShardId) -> Result<(), StorageError> {
        self.refuse_if_failed().and_then(|()| self.disk_space.check())?;
        self.head(shard)?.takes_copies()
    }

    fn submit(&self, work: Work, size_bytes: usize) -> Result<Vec<Lsn>, StorageError> {
        self.refuse_if_failed()?;
        self.queue.submit(work, size_bytes)
    }

    /// Writes every memtable to a file and waits for it.
    fn flush(&self) -> Result<(), rocksdb::Error> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let families = Space::ALL.map(|space| self.cf(space));
        self.db.flush_cfs_opt(&families, &options)
    }

    /// Writes a batch to the log and the memtables.
    fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<(), rocksdb::Error> {
        let size_bytes = batch.size_in_bytes();
        self.db.write_opt(batch, options)?;
        if let Some(preallocator) = &self.preallocator {
            preallocator.wrote(size_bytes);
        }
        Ok(())
    }

    /// Writes copied entries into a shard that nobody reads yet.
    fn copy(&self, shard: ShardId, entries: &[Copied]) -> Result<(), rocksdb::Error> {
        let mut options = WriteOptions::default();
        // Where logs are recycled every write is logged. Of two unsynced records the second could
        // reach the disk without the first: see `wal`.
        options.set_sync(true);
        let mut batch = WriteBatch::default();
        let (mut physical, mut stored) = (Vec::new(), Vec::new());
        for Copied { space, key, value } in entries {
            layout::write_key(shard, key, &mut physical);
            match value {
                Some(value) => {
                    layout::write_value(*space, value.version, &value.bytes, &mut stored);
                    batch.put_cf(self.cf(*space), &physical, &stored);
                }
                None => batch.delete_cf(self.cf(*space), &physical),
            }
            if batch.size_in_bytes() >= COPY_BATCH_BYTES {
                self.write(std::mem::take(&mut batch), &options)?;
            }
        }
        self.write(batch, &options)
    }
}

/// What a failed read means to the caller, which adds the shard and the key.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn read_error(error: rocksdb::Error) -> StorageError {
    let text = error.to_string().into();
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StorageError::Corrupt(text),
        _ => StorageError::Io(text),
    }
}

impl Store for RocksStore {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Result<Box<dyn Snapshot + '_>, StorageError> {
        let snapshot = RocksSnapshot::new(&self.core, shard)?;
        match at {
            ReadAt::AtLeast(least) if snapshot.lsn() < least => {
                Err(StorageError::Behind(snapshot.lsn()))
            }
            _ => Ok(Box::new(snapshot)),
        }
    }

    fn snapshots(&self, shards: &[ShardId]) -> Result<Vec<Box<dyn Snapshot + '_>>, StorageError> {
        let views = RocksSnapshot::of_one_instant(&self.core, shards)?;
        Ok(views.into_iter().map(|view| Box::new(view) as Box<dyn Snapshot + '_>).collect())
    }

    fn get(
        &self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<(Head, Option<Value>), StorageError> {
        let core = &*self.core;
        let shards = core.shards.load();
        let head = shards.get(&shard).ok_or(NO_SHARD)?;
        let physical = layout::key(shard, key);
        let (use_cache, point) = (space == Space::Items, core.sequence.point());
        if use_cache && let Some(value) = core.row_cache.get(&physical, Lsn(u64::MAX)) {
            return Ok((head.head().at_least(value.version), Some(value)));
        }
        let damaged = |error: StorageError| error.at(shard, space, key);
        let found = core.db.get_pinned_cf(core.cf(space), &physical);
        let found = found.map_err(|error| damaged(read_error(error)))?;
        // A commit is visible an instant before its LSN is published, so what was found may be
        // newer than the published LSN. Its own version says so, or else the stored header does.
        match found {
            Some(bytes) if space.is_versioned() => {
                let value = layout::value(space, &bytes).map_err(damaged)?;
                if use_cache {
                    core.row_cache.insert(&physical, &value, point);
                }
                Ok((head.head().at_least(value.version), Some(value)))
            }
            Some(bytes) => {
                let value = layout::value(space, &bytes).map_err(damaged)?;
                Ok((head.head().at_least(core.stored_header(shard)?.lsn), Some(value)))
            }
            None => Ok((head.head().at_least(core.stored_header(shard)?.lsn), None)),
        }
    }

    fn commit_once(&self, commit: Commit) -> Result<Committed, StorageError> {
        let size_bytes = commit.validate()?;
        self.core.refuse_if_failed()?;
        let answer = match committer::try_commit(&self.core, commit, size_bytes) {
            Ok(answer) => answer,
            Err(commit) => self.core.queue.submit(Work::Commit(commit), size_bytes),
        };
        answer.map(|lsns| Committed { lsns })
    }

    fn try_commit(&self, commit: Commit) -> Result<Result<Committed, StorageError>, Commit> {
        let size_bytes = match self.core.refuse_if_failed().and_then(|()| commit.validate()) {
            Ok(size_bytes) => size_bytes,
            Err(error) => return Ok(Err(error)),
        };
        let answer = committer::try_commit(&self.core, commit, size_bytes)?;
        Ok(answer.map(|lsns| Committed { lsns }))
    }

    fn resolve(&self, _: &[ShardId], id: CommitId) -> Result<Resolution, StorageError> {
        let mut log = self.core.log();
        // What a failed write left on the disk shows when the store is opened again.
        if self.core.failed.get().is_some() {
            return Ok(log.known(id));
        }
        Ok(log.resolve(id))
    }

    fn writable(&self) -> Result<(), StorageError> {
        disk_space::writable(&self.core)
    }

    fn submit(&self, commit: Commit, done: OnCommitted) {
        match self.core.refuse_if_failed().and_then(|()| commit.validate()) {
            Ok(size_bytes) => {
                let done = Box::new(|answer: Answer| done(answer.map(|lsns| Committed { lsns })));
                self.core.queue.enqueue(Work::Commit(commit), size_bytes, done);
            }
            Err(error) => done(Err(error)),
        }
    }

    fn heads(&self, shards: &[ShardId]) -> Result<Vec<Option<Head>>, StorageError> {
        let all = self.core.shards.load();
        Ok(shards.iter().map(|shard| all.get(shard).map(|head| head.head())).collect())
    }

    fn lsn(&self, shard: ShardId) -> Result<Lsn, StorageError> {
        Ok(self.core.shards.load().get(&shard).ok_or(NO_SHARD)?.lsn())
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        self.core.head(shard)?.watch(after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
        assert!(shard != SHARD_RESERVED, "the last shard number is reserved");
        self.core.submit(Work::Create(shard, epoch), 0).map(drop)
    }

    fn drop_shard(&self, shard: ShardId) -> Result<(), StorageError> {
        self.core.submit(Work::Drop(shard), 0)?;
        if let Some(reclaimer) = &self.reclaimer {
            reclaimer.reclaim(shard);
        }
        Ok(())
    }

    fn shards(&self) -> Result<Vec<(ShardId, Head)>, StorageError> {
        let shards = self.core.shards.load();
        let mut list: Vec<_> = shards.iter().map(|(id, head)| (*id, head.head())).collect();
        list.sort_unstable_by_key(|(id, _)| *id);
        Ok(list)
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Result<Arc<dyn Journal>, StorageError> {
        let head = self.core.head(shard)?;
        head.begin_journal(bytes_max).map(|journal| journal as _).ok_or(StorageError::JournalInUse)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Result<(), StorageError> {
        self.core.refuse_copies(shard)?;
        self.core
            .copy(shard, entries)
            .map_err(|error| StorageError::unknown(None, error.to_string()))
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.core.refuse_if_failed().and_then(|()| self.core.disk_space.check())?;
        self.core.flush().map_err(|error| StorageError::unknown(None, error.to_string()))
    }

    fn stats(&self, shard: ShardId) -> Result<ShardStats, StorageError> {
        let lsn = self.core.head(shard)?.lsn();
        let (from, to) = layout::shard_bounds(shard);
        let size_bytes = |space| {
            let ranges = [Range::new(&from, &to)];
            self.core.db.get_approximate_sizes_cf(self.core.cf(space), &ranges).iter().sum()
        };
        Ok(ShardStats {
            lsn,
            items_bytes: size_bytes(Space::Items),
            index_bytes: size_bytes(Space::Index),
        })
    }

    fn embedded(&self) -> Option<&dyn EmbeddedStore> {
        Some(self)
    }
}

impl EmbeddedStore for RocksStore {
    fn copy_run(
        &self,
        shard: ShardId,
        space: Space,
    ) -> Result<Box<dyn CopyRun + '_>, StorageError> {
        self.core.refuse_copies(shard)?;
        Ok(Box::new(TableFileWriter::new(&self.core, shard, space)))
    }

    fn checkpoint(&self, into: &Path) -> Result<(), StorageError> {
        folder::checkpoint(into, |files| {
            let checkpoint = Checkpoint::new(&self.core.db);
            let written = checkpoint.and_then(|checkpoint| checkpoint.create_checkpoint(files));
            written.map_err(|error| StorageError::Io(error.to_string().into()))
        })
    }
}
