//! The one place where the tests of the engine get a store: memory and `RocksDB`, or, if `ORRERY_STORE` is
//! `postgres`, `PostgreSQL` in the place of both. Tests of a disk that fails stay on memory, which can forget.

use std::sync::Arc;

use orrery_postgres::{PostgresOptions, PostgresStore};
use orrery_storage::{MemoryStore, RocksOptions, RocksStore, Store};

use crate::interposed::Interposed;
use crate::postgres_store;

/// Where the data lies between two lives of an engine.
pub(crate) enum Disk {
    /// The store itself outlives the engine.
    Memory(Arc<MemoryStore>),
    Rocks(tempfile::TempDir),
    /// Its address and options.
    Postgres(String, PostgresOptions),
}

impl Disk {
    /// What a test runs on that does not care.
    pub(crate) fn memory() -> Self {
        postgres().unwrap_or_else(|| Self::Memory(Arc::new(MemoryStore::new())))
    }

    /// What several engines run on at the same time.
    pub(crate) fn shared() -> Self {
        postgres().unwrap_or_else(|| Self::Memory(Arc::new(MemoryStore::shared())))
    }

    /// What a test runs on whose store is closed and opened.
    pub(crate) fn rocks() -> Self {
        postgres().unwrap_or_else(|| Self::Rocks(tempfile::tempdir().expect("a folder")))
    }

    /// Opens the store. Nobody else has it open, but for memory.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Rocks(folder) => {
                let options = RocksOptions::default();
                Arc::new(RocksStore::open(folder.path(), &options).expect("the folder opens"))
            }
            Self::Postgres(address, options) => {
                let store = PostgresStore::open(address, options).expect("the store opens");
                Arc::new(Interposed::without_clock(Arc::new(store)))
            }
        }
    }
}

/// A new and empty store that stays open as long as it is held.
pub(crate) fn new_store() -> Arc<dyn Store> {
    Disk::memory().open()
}

/// A store of `PostgreSQL`, if the tests are to run on it.
fn postgres() -> Option<Disk> {
    match std::env::var("ORRERY_STORE").as_deref() {
        Err(_) | Ok("memory") => None,
        Ok("postgres") => {
            let (address, options) = postgres_store::new_store().expect("PostgreSQL is installed");
            Some(Disk::Postgres(address, options))
        }
        Ok(other) => panic!("ORRERY_STORE is {other}; it may be memory or postgres"),
    }
}
