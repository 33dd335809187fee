//! A data folder that no server has open, for commands that work on it themselves.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use orrery_engine::Engine;
use orrery_storage::{OpenError, RocksOptions, RocksStore};
use orrery_types::SystemClock;
use uuid::Uuid;

use crate::exit::{Exit, Failure};

/// The store within a data folder.
pub(crate) const STORE: &str = "store";

/// Opens a folder that holds data; one that does not is not made into one.
pub(crate) fn open(folder: &Path) -> Result<Engine> {
    let store = folder.join(STORE);
    if !store.join("FORMAT").exists() {
        bail!(
            "{} holds no data; name the folder that --data of the server names",
            folder.display()
        );
    }
    open_store(&store, &RocksOptions::default())
}

/// Opens the folder of a store, or makes one there.
pub(crate) fn open_store(store: &Path, options: &RocksOptions) -> Result<Engine> {
    let store = RocksStore::open(store, options).map_err(|error| match error {
        OpenError::Corrupt(_) | OpenError::NotWhole { .. } => {
            anyhow::Error::from(Failure::new(Exit::Damaged, error.to_string()))
        }
        other => other.into(),
    })?;
    let node = u32::from_be_bytes(*Uuid::new_v4().as_bytes().first_chunk().expect("16 bytes"));
    Engine::open(Arc::new(store), Arc::new(SystemClock), node)
        .map_err(|error| anyhow!("{error}"))
        .context("cannot read the catalog")
}
