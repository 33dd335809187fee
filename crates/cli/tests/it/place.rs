//! Where a server under test keeps its data: a folder, or a store of `PostgreSQL` if `ORRERY_STORE` is `postgres`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orrery_postgres::{PostgresOptions, PostgresStore};
use orrery_storage::{RocksOptions, RocksStore, Store};

use crate::postgres_store;
use crate::process::{Running, orrery};

pub(crate) enum Place {
    Folder(PathBuf),
    Postgres(String, PostgresOptions),
}

impl From<&Path> for Place {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl From<&PathBuf> for Place {
    fn from(folder: &PathBuf) -> Self {
        Self::Folder(folder.clone())
    }
}

impl Place {
    /// A store if the tests are to run on one, else the folder.
    pub(crate) fn chosen(folder: &Path) -> Self {
        match std::env::var("ORRERY_STORE").as_deref() {
            Ok("postgres") => Self::postgres().expect("PostgreSQL is installed"),
            _ => folder.into(),
        }
    }

    /// A new store of `PostgreSQL`; `None` where that is not installed.
    pub(crate) fn postgres() -> Option<Self> {
        postgres_store::new_store().map(|(address, options)| Self::Postgres(address, options))
    }

    /// The arguments that name it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match self {
            Self::Folder(folder) => vec!["--data".into(), folder.to_str().unwrap().into()],
            Self::Postgres(address, options) => {
                vec![
                    "--store".into(),
                    address.clone(),
                    "--store-schema".into(),
                    options.schema.clone(),
                ]
            }
        }
    }

    /// A plain server over it, on a port of its own.
    pub(crate) fn serve(&self) -> Running {
        let mut command =
            orrery(&["serve", "--listen", "127.0.0.1:0", "--no-tls", "--log", "error"]);
        command.args(self.arguments());
        Running::spawn(command)
    }

    /// The same behind TLS, too.
    pub(crate) fn serve_tls(&self) -> Running {
        let mut command = orrery(&["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
        command.args(self.arguments());
        Running::spawn(command)
    }

    /// The store, which no server has open.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Folder(folder) => {
                let options = RocksOptions::default();
                Arc::new(RocksStore::open(&folder.join("store"), &options).unwrap())
            }
            Self::Postgres(address, options) => {
                Arc::new(PostgresStore::open(address, options).unwrap())
            }
        }
    }
}
