//! Where a copy goes: a new data folder, or a new store in `PostgreSQL`. It is filled beside its place, and gets its name when it is
//! whole and compared; what a copy that was killed has left behind is replaced by the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use orrery_postgres::{PostgresStore, StagingStore};
use orrery_server::auth::keys::AccountKeys;
use orrery_server::auth::private_file;
use orrery_server::auth::records::AccountRecords as _;
use orrery_server::config::StoreSettings;
use orrery_storage::{RocksOptions, RocksStore, Store};

use crate::data_folder::{self, STORE};
use crate::exit::{Exit, Failure};
use crate::interrupt::Unfinished;
use crate::postgres::{StoreRecords, failure, options};

/// The name of the keys among the records of an account.
const KEYS: &str = "keys";

/// A store that is filled.
pub(crate) enum CopyTarget {
    Folder { folder: PathBuf, beside: Unfinished },
    Postgres { settings: StoreSettings, staging: Box<StagingStore> },
}

impl CopyTarget {
    /// A place for a store in a folder that has none.
    pub(crate) fn folder(folder: &Path) -> Result<Self> {
        let store = folder.join(STORE);
        if store.exists() {
            let text = format!("{} holds data already; name a new folder", folder.display());
            return Err(Failure::new(Exit::Refused, text).into());
        }
        let beside = folder.join("copy-in-progress");
        let _ = std::fs::remove_dir_all(&beside);
        orrery_files::create_folders(&beside)
            .map_err(|error| data_folder::not_created(folder, &error))?;
        Ok(Self::Folder { folder: folder.to_owned(), beside: Unfinished::new(&beside) })
    }

    /// A place for a store in a schema that is not used.
    pub(crate) fn postgres(settings: StoreSettings) -> Result<Self> {
        let staging = StagingStore::create(&settings.address, &options(&settings));
        let staging = Box::new(staging.map_err(failure)?);
        Ok(Self::Postgres { settings, staging })
    }

    /// Opens the store, which is empty.
    pub(crate) fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Folder { beside, .. } => {
                let store = RocksStore::open(&beside.path().join(STORE), &RocksOptions::default());
                Arc::new(store.map_err(data_folder::unopened)?)
            }
            Self::Postgres { settings, staging } => {
                let store = PostgresStore::open(&settings.address, staging.options());
                Arc::new(store.map_err(failure)?)
            }
        })
    }

    /// Keeps the account's keys beside the data, before it gets its name.
    pub(crate) fn keep_keys(&self, keys: &str) -> Result<()> {
        match self {
            Self::Folder { folder, .. } => {
                let file = AccountKeys::file(folder);
                if file.exists() {
                    return Ok(());
                }
                private_file::write(&file, keys)
                    .with_context(|| format!("cannot write {}", file.display()))
            }
            Self::Postgres { settings, staging } => {
                let schema = staging.options().schema.clone();
                let records = StoreRecords::open(&StoreSettings { schema, ..settings.clone() })?;
                let kept = records.create(KEYS, keys).map_err(anyhow::Error::msg)?;
                anyhow::ensure!(kept == keys, "the new store has other keys already");
                Ok(())
            }
        }
    }

    /// Gives the store its name, after it was closed.
    pub(crate) fn publish(self) -> Result<()> {
        match self {
            Self::Folder { folder, beside } => {
                orrery_files::rename(&beside.path().join(STORE), &folder.join(STORE))
                    .context("cannot put the data in its place")
            }
            Self::Postgres { staging, .. } => staging.publish().map_err(failure),
        }
    }

    /// Removes what was filled so far.
    pub(crate) fn discard(self) {
        match self {
            Self::Folder { .. } => {}
            // The next copy does it otherwise.
            Self::Postgres { staging, .. } => drop(staging.discard()),
        }
    }

    /// Where the store will be.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Folder { folder, .. } => folder.display().to_string(),
            Self::Postgres { staging, .. } => staging.place().to_owned(),
        }
    }
}

/// The keys that a place keeps, if it keeps some.
pub(super) fn keys_of_folder(folder: &Path) -> Result<Option<String>> {
    let file = AccountKeys::file(folder);
    private_file::read(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// The same of a store.
pub(super) fn keys_of_store(settings: &StoreSettings) -> Result<Option<String>> {
    StoreRecords::open(settings)?.read(KEYS).map_err(anyhow::Error::msg)
}
