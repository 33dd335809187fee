//! The data folder: its lock, its format version, and how it is opened and copied.
//!
//! ```text
//! FORMAT   "orrery-format 1\n", written last when a folder is made
//! LOCK     locked by the process that has the store open
//! lsm/     RocksDB's files
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use orrery_files::FileAccess;
use orrery_types::ShardId;
use rocksdb::{ColumnFamily, DB, ReadOptions};

use super::layout::{self, Header};
use super::options::RocksOptions;
use super::preallocation::LogPreallocator;
use super::wal::{self, LogDamage, OnLogDamage};
use crate::{Space, StorageError};

const FORMAT_FILE: &str = "FORMAT";
const LOCK_FILE: &str = "LOCK";
const FILES: &str = "lsm";
const FORMAT: &str = "orrery-format 1\n";
const FORMAT_WORD: &str = "orrery-format ";

/// Why a folder cannot be opened. The messages are for the person who started the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another store has it open.
    #[error("{0} is in use by another process; stop that one or choose another folder")]
    InUse(Box<str>),
    /// It was written by a version of the server that keeps data differently.
    #[error("{folder} has the format '{found}', and this version of the server reads '{known}'; use the version that wrote it", known = FORMAT.trim())]
    #[expect(missing_docs, reason = "the message says it")]
    UnknownFormat { folder: Box<str>, found: Box<str> },
    /// Parts of it are missing.
    #[error("{folder} is not a whole data folder: {what}")]
    #[expect(missing_docs, reason = "the message says it")]
    NotWhole { folder: Box<str>, what: &'static str },
    /// Acknowledged commits lie behind damage in the write-ahead log. Nothing was changed.
    #[error("{0}")]
    LogDamaged(Box<LogDamage>),
    /// The data does not read.
    #[error("the data is damaged: {0}")]
    Corrupt(Box<str>),
    /// The system refused.
    #[error("{0}")]
    Io(Box<str>),
}

pub(super) struct Opened {
    pub(super) db: DB,
    pub(super) lock: FolderLock,
    pub(super) headers: Vec<(ShardId, Header)>,
}

/// Opens a folder, or makes it one. FORMAT is written when everything else is there, so a folder
/// with FORMAT and without files has lost them, and one with files and without FORMAT was never
/// finished, which is why it must be empty.
pub(super) fn open(path: &Path, options: &RocksOptions) -> Result<Opened, OpenError> {
    let folder: Box<str> = path.display().to_string().into();
    orrery_files::create_folders(path).map_err(|e| at(path, &e))?;
    let lock = lock(path)?;
    let known = read_format(path, &folder)?;
    let files = path.join(FILES);
    if known && !files.join("CURRENT").exists() {
        let what = "it has a FORMAT file, and the database files are gone";
        return Err(OpenError::NotWhole { folder, what });
    }
    let mut database = options.database(!known);
    let inspection = if known {
        wal::inspect(&files).map_err(|e| at(&files, &e))?
    } else {
        wal::Inspection::default()
    };
    if let Some(damage) = &inspection.damage {
        if options.on_log_damage == OnLogDamage::Refuse || damage.is_in_tables {
            return Err(OpenError::LogDamaged(damage.clone().into()));
        }
        let aside = path.join(format!("damaged-log-{:06}", damage.log));
        wal::set_aside(&files, damage, &aside).map_err(|e| at(&aside, &e))?;
        tracing::warn!(%damage, aside = %aside.display(), "the end of the log is dropped, as requested");
        // The log files that the MANIFEST lists are cut or set aside.
        database.set_track_and_verify_wals_in_manifest(false);
    }
    inspection.cut_remainders(&files).map_err(|e| at(&files, &e))?;
    let db = DB::open_cf_descriptors(&database, &files, options.families()).map_err(|e| match e
        .kind()
    {
        rocksdb::ErrorKind::Corruption => OpenError::Corrupt(e.to_string().into()),
        _ => OpenError::Io(e.to_string().into()),
    })?;
    let headers = read_headers(&db).map_err(|e| OpenError::Corrupt(e.to_string().into()))?;
    if !known {
        if !headers.is_empty() {
            let what = "it has data, and its FORMAT file is gone";
            return Err(OpenError::NotWhole { folder, what });
        }
        write_format(path).map_err(|e| at(path, &e))?;
    }
    Ok(Opened { db, lock, headers })
}

/// What extends the logs of an open folder. Zeros behind the last record look like a recycled file's remainder, so
/// there are none where logs are not recycled.
pub(super) fn preallocator(
    path: &Path,
    options: &RocksOptions,
) -> io::Result<Option<LogPreallocator>> {
    if options.recycled_logs == 0 || !cfg!(unix) {
        return Ok(None);
    }
    LogPreallocator::start(path.join(FILES), options.log_bytes_max).map(Some)
}

fn at(path: &Path, error: &io::Error) -> OpenError {
    OpenError::Io(format!("{}: {error}", path.display()).into())
}

/// The lock on a folder. It is given back by name, not by closing the file: a child that another
/// thread is just starting has the file open for a short time too.
#[derive(Debug)]
pub(super) struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the folder's lock is given back only when the process ends");
        }
    }
}

fn lock(path: &Path) -> Result<FolderLock, OpenError> {
    let name = path.join(LOCK_FILE);
    let file = orrery_files::open_or_create(&name).map_err(|e| at(&name, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.display().to_string().into())),
        Err(TryLockError::Error(e)) => Err(at(&name, &e)),
    }
}

/// Whether the folder says that it has our format. Another format is an error.
fn read_format(path: &Path, folder: &str) -> Result<bool, OpenError> {
    let name = path.join(FORMAT_FILE);
    match fs::read_to_string(&name) {
        Ok(text) if text == FORMAT => Ok(true),
        Ok(text) => {
            let first = text.lines().next().unwrap_or_default();
            let found = if first.starts_with(FORMAT_WORD) { first } else { "unknown" };
            Err(OpenError::UnknownFormat { folder: folder.into(), found: found.into() })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(at(&name, &e)),
    }
}

/// The file appears whole or not at all, and stays. Whatever stands beside it stays, too: its folder
/// is synced.
fn write_format(path: &Path) -> io::Result<()> {
    orrery_files::replace(&path.join(FORMAT_FILE), FORMAT.as_bytes(), FileAccess::Default)
}

/// The column family of a space.
pub(super) fn family(db: &DB, space: Space) -> &ColumnFamily {
    db.cf_handle(layout::name(space)).expect("a database is opened with every space")
}

fn read_headers(db: &DB) -> Result<Vec<(ShardId, Header)>, StorageError> {
    let mut options = ReadOptions::default();
    let (from, to) = layout::header_bounds();
    options.set_iterate_lower_bound(from);
    options.set_iterate_upper_bound(to);
    let mut headers = Vec::new();
    let mut iterator = db.raw_iterator_cf_opt(family(db, Space::Meta), options);
    iterator.seek_to_first();
    while let Some((key, value)) = iterator.item() {
        let shard = layout::header_shard(key)?;
        let header = Header::decode(value);
        headers.push((shard, header.map_err(|error| error.at(shard, Space::Meta, key))?));
        iterator.next();
    }
    iterator.status().map_err(super::read_error)?;
    Ok(headers)
}

/// Creates a data folder whose files `copy` writes; nothing is left of it if that fails.
pub(super) fn checkpoint(
    into: &Path,
    copy: impl FnOnce(&Path) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let io = |e: io::Error| StorageError::Io(format!("{}: {e}", into.display()).into());
    orrery_files::create_folder(into).map_err(io)?;
    let done = copy(&into.join(FILES)).and_then(|()| write_format(into).map_err(io));
    if done.is_err() {
        let _ = fs::remove_dir_all(into);
    }
    done
}
