//! A data folder that no server has open, for commands that work on it themselves.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use orrery_engine::Engine;
use orrery_storage::{OpenError, RocksOptions, RocksStore, Store};
use orrery_types::{Error, SystemClock};
use uuid::Uuid;

use crate::exit::{Exit, Failure};

/// The store within a data folder.
pub(crate) const STORE: &str = "store";

/// Opens a folder that holds data; one that does not is not made into one.
pub(crate) fn open(folder: &Path) -> Result<Engine> {
    open_store(&existing(folder)?, &RocksOptions::default())
}

/// The store within a folder that holds data.
pub(crate) fn existing(folder: &Path) -> Result<PathBuf> {
    let store = folder.join(STORE);
    // One that has files of a database and no FORMAT has lost it, which opening tells.
    let is_folder = |entry: std::io::Result<DirEntry>| entry.is_ok_and(|e| e.path().is_dir());
    let has_files = std::fs::read_dir(&store).is_ok_and(|mut entries| entries.any(is_folder));
    if !store.join("FORMAT").exists() && !has_files {
        bail!(
            "{} holds no data; name the folder that --data of the server names",
            folder.display()
        );
    }
    Ok(store)
}

/// Opens the folder of a store, or makes one there.
pub(crate) fn open_store(store: &Path, options: &RocksOptions) -> Result<Engine> {
    open_engine(Arc::new(RocksStore::open(store, options).map_err(unopened)?))
}

/// The database in a store.
pub(crate) fn open_engine(store: Arc<dyn Store>) -> Result<Engine> {
    let node = u32::from_be_bytes(*Uuid::new_v4().as_bytes().first_chunk().expect("16 bytes"));
    Engine::open(store, Arc::new(SystemClock), node)
        .map_err(|error| unread(&error))
        .context("cannot read the catalog")
}

/// Why a data folder cannot be created or written, and what to do about it.
pub(crate) fn not_created(folder: &Path, error: &std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind;
    let folder = folder.display();
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => {
            "run it as the user who owns the folder, or choose another one with --data"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only; choose another folder with --data, or use --memory"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "there is no space left; free some, or choose another folder with --data"
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "something else has that name; choose another folder with --data"
        }
        _ => "choose another folder with --data",
    };
    anyhow!("cannot write to the data folder {folder}: {error}; {advice}")
}

/// The error of a disk that has no room left, if that is why something failed.
pub(crate) fn full_disk(error: &anyhow::Error) -> Option<&std::io::Error> {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.find(|cause| matches!(cause.kind(), StorageFull | QuotaExceeded))
}

/// Why a store does not open, and what to do about it.
pub(crate) fn unopened(error: OpenError) -> anyhow::Error {
    let text = match &error {
        OpenError::LogDamaged(damage) if !damage.is_in_tables => format!(
            "{error}; restore a backup, or start the server once with --accept-log-damage, which keeps \
             everything before the damage and sets the rest aside"
        ),
        OpenError::LogDamaged(_) | OpenError::Corrupt(_) | OpenError::NotWhole { .. } => {
            format!("{error}; restore a backup")
        }
        OpenError::InUse(_) | OpenError::UnknownFormat { .. } | OpenError::Io(_) => {
            return error.into();
        }
    };
    Failure::new(Exit::Damaged, text).into()
}

/// Why something in a folder cannot be read. Nothing but its own content is asked for, so what is
/// neither the machine's fault nor the asker's is damage.
pub(crate) fn unread(error: &Error) -> anyhow::Error {
    match error {
        Error::Internal(reason) if !reason.starts_with("storage failed") => {
            Failure::new(Exit::Damaged, format!("{reason}; restore a backup")).into()
        }
        other => anyhow!("{other}"),
    }
}
