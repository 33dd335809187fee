//! Whether there is room to write. A disk that is really full makes a write of the log fail, after which
//! nobody knows what of it is durable, or stops `RocksDB`'s background work, after which a write waits
//! for as long as that takes. So commits are refused while room is left for what is in memory
//! already; nothing of them is written then, and they are taken again once there is room.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rocksdb::properties::{BACKGROUND_ERRORS, IS_WRITE_STOPPED};
use rocksdb::{WriteBatch, WriteOptions};

use super::Core;
use crate::StorageError;

/// Room for the memory that is to be written out, and for the log meanwhile.
const ROOM_BYTES: u64 = 64 * 1024 * 1024;
/// Of a small disk, this part.
const ROOM_PART: u64 = 4;
/// How long a commit waits for compactions that have met an error: they may go on.
const STALL_LOOKS: u32 = 100;
const STALL_PAUSE: Duration = Duration::from_millis(5);

/// What is known of the disk.
#[derive(Debug)]
pub(super) struct Room {
    folder: PathBuf,
    /// There was no room, so the background work may have met it and not be over it.
    suspect: AtomicBool,
    /// Errors of background work that are over.
    errors_over: AtomicU64,
}

impl Room {
    pub(super) fn new(folder: &Path) -> Self {
        let (suspect, errors_over) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { folder: folder.to_owned(), suspect, errors_over }
    }

    /// Refuses what needs room while there is too little.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let Some((free, wanted)) = free_and_wanted(&self.folder) else { return Ok(()) };
        if free >= wanted {
            return Ok(());
        }
        if !self.suspect.swap(true, SeqCst) {
            tracing::error!(
                free_bytes = free,
                wanted_bytes = wanted,
                "the disk is full; writes are refused"
            );
        }
        let (free, wanted) = (free >> 20, wanted >> 20);
        Err(StorageError::NoRoom(
            format!("{free} MiB of the disk are free, and writing needs {wanted} MiB").into(),
        ))
    }
}

/// The bytes that are free on the disk of a folder, and those that have to be.
fn free_and_wanted(folder: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        // A disk that does not say has room: writing shows.
        let disk = rustix::fs::statvfs(folder).ok()?;
        let (free, all) = (disk.f_bavail, disk.f_blocks);
        let wanted = (all.saturating_mul(disk.f_frsize) / ROOM_PART).min(ROOM_BYTES);
        Some((free.saturating_mul(disk.f_frsize), wanted))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// Refuses a commit while there is no room, or while the database has not recovered from that.
pub(super) fn check(core: &Core) -> Result<(), StorageError> {
    core.room.check()?;
    if !core.room.suspect.load(SeqCst) {
        return Ok(());
    }
    // Nothing is written by a batch without entries; what the database says to it counts for others.
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options.set_no_slowdown(true);
    match core.db.write_opt(WriteBatch::default(), &options) {
        Ok(()) => {
            core.room.suspect.store(false, SeqCst);
            core.room.errors_over.store(number(core, BACKGROUND_ERRORS), SeqCst);
            tracing::info!("there is room again; writes are taken");
            Ok(())
        }
        Err(error) => Err(StorageError::NoRoom(
            format!("the database has not recovered from a full disk yet: {error}").into(),
        )),
    }
}

/// Whether writes wait because the database has stopped them, not because it slows them down.
pub(super) fn is_stopped(core: &Core) -> bool {
    number(core, IS_WRITE_STOPPED) != 0
}

/// Waits while writes are stopped, unless that is due to an error: then it may be for ever.
pub(super) fn wait(core: &Core) -> Result<(), StorageError> {
    let mut looks = 0;
    while is_stopped(core) {
        core.room.check()?;
        if core.queue.is_closed() {
            return Err(StorageError::NoRoom("the store is closing".into()));
        }
        if number(core, BACKGROUND_ERRORS) > core.room.errors_over.load(SeqCst) {
            looks += 1;
            if looks == STALL_LOOKS || core.room.suspect.load(SeqCst) {
                core.room.suspect.store(true, SeqCst);
                tracing::error!("the database cannot write its files; writes are refused");
                return Err(StorageError::NoRoom("the database cannot write its files".into()));
            }
        }
        std::thread::sleep(STALL_PAUSE);
    }
    Ok(())
}

/// Why writes are refused now, if they are.
pub(super) fn writable(core: &Core) -> Result<(), StorageError> {
    core.refuse_if_failed()?;
    core.room.check()?;
    if core.room.suspect.load(SeqCst) { check(core) } else { Ok(()) }
}

fn number(core: &Core, property: &rocksdb::properties::PropName) -> u64 {
    core.db.property_int_value(property).ok().flatten().unwrap_or(0)
}
