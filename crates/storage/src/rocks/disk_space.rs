//! Free disk space. On a full disk a write to the log fails, after which it is unknown what of it is
//! durable, or `RocksDB`'s background work stops, after which a write waits for an unknown time. So
//! commits are refused while there is still enough space to flush the memtables; nothing of a
//! refused commit is written, and commits are accepted again once there is space.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rocksdb::properties::{BACKGROUND_ERRORS, IS_WRITE_STOPPED};
use rocksdb::{WriteBatch, WriteOptions};

use super::Core;
use crate::StorageError;

/// Reserve for flushing the memtables, and for the log meanwhile.
const RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// On a small disk the reserve is this fraction of it.
const RESERVE_FRACTION: u64 = 4;
/// How often a commit polls for the end of a stall after an error of background work, which may recover.
const STALL_POLLS: u32 = 100;
const STALL_POLL: Duration = Duration::from_millis(5);

/// The state of the disk.
#[derive(Debug)]
pub(super) struct DiskSpace {
    folder: PathBuf,
    /// The disk was full, so background work may have failed and not have recovered.
    suspect: AtomicBool,
    /// Errors of background work that it has recovered from.
    errors_recovered: AtomicU64,
}

impl DiskSpace {
    pub(super) fn new(folder: &Path) -> Self {
        let (suspect, errors_recovered) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { folder: folder.to_owned(), suspect, errors_recovered }
    }

    /// Refuses a write while there is too little space.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let Some((free, required)) = free_and_required(&self.folder) else { return Ok(()) };
        if free >= required {
            return Ok(());
        }
        if !self.suspect.swap(true, SeqCst) {
            tracing::error!(
                free_bytes = free,
                required_bytes = required,
                "the disk is full; writes are refused"
            );
        }
        let (free, required) = (free >> 20, required >> 20);
        Err(StorageError::NoRoom(
            format!("{free} MiB of the disk are free, and writing needs {required} MiB").into(),
        ))
    }
}

/// The free bytes on the disk of a folder, and how many are required.
fn free_and_required(folder: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        // If the system does not report the free space, the write is attempted.
        let disk = rustix::fs::statvfs(folder).ok()?;
        let (free, all) = (disk.f_bavail, disk.f_blocks);
        let required = (all.saturating_mul(disk.f_frsize) / RESERVE_FRACTION).min(RESERVE_BYTES);
        Some((free.saturating_mul(disk.f_frsize), required))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// Whether there is too little space for anything that can wait.
pub(super) fn is_scarce(folder: &Path) -> bool {
    free_and_required(folder).is_some_and(|(free, required)| free < required.saturating_mul(2))
}

/// Refuses a commit while the disk is full, or while the database has not recovered from that.
pub(super) fn check(core: &Core) -> Result<(), StorageError> {
    core.disk_space.check()?;
    if !core.disk_space.suspect.load(SeqCst) {
        return Ok(());
    }
    // An empty batch changes nothing, and shows whether the database accepts writes.
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options.set_no_slowdown(true);
    match core.db.write_opt(WriteBatch::default(), &options) {
        Ok(()) => {
            core.disk_space.suspect.store(false, SeqCst);
            core.disk_space.errors_recovered.store(number(core, BACKGROUND_ERRORS), SeqCst);
            tracing::info!("the disk has free space again; writes are accepted");
            Ok(())
        }
        Err(error) => Err(StorageError::NoRoom(
            format!("the database has not recovered from a full disk yet: {error}").into(),
        )),
    }
}

/// Whether the database has stopped writes, as opposed to delaying them.
pub(super) fn is_stopped(core: &Core) -> bool {
    number(core, IS_WRITE_STOPPED) != 0
}

/// Waits while writes are stopped, unless an error is the cause: then that may be for ever.
pub(super) fn wait(core: &Core) -> Result<(), StorageError> {
    let mut polls = 0;
    while is_stopped(core) {
        core.disk_space.check()?;
        if core.queue.is_closed() {
            return Err(StorageError::NoRoom("the store is closing".into()));
        }
        if number(core, BACKGROUND_ERRORS) > core.disk_space.errors_recovered.load(SeqCst) {
            polls += 1;
            if polls == STALL_POLLS || core.disk_space.suspect.load(SeqCst) {
                core.disk_space.suspect.store(true, SeqCst);
                tracing::error!("the database cannot write its files; writes are refused");
                return Err(StorageError::NoRoom("the database cannot write its files".into()));
            }
        }
        std::thread::sleep(STALL_POLL);
    }
    Ok(())
}

/// Why writes are refused at this time, if they are.
pub(super) fn writable(core: &Core) -> Result<(), StorageError> {
    core.refuse_if_failed()?;
    core.disk_space.check()?;
    if core.disk_space.suspect.load(SeqCst) { check(core) } else { Ok(()) }
}

fn number(core: &Core, property: &rocksdb::properties::PropName) -> u64 {
    core.db.property_int_value(property).ok().flatten().unwrap_or(0)
}
