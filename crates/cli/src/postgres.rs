//! A store in `PostgreSQL` as the commands see it: how its errors end a command, and what it keeps of the account.

use orrery_postgres::{AccountTable, PostgresOpenError, PostgresOptions};
use orrery_server::auth::records::AccountRecords;
use orrery_server::config::StoreSettings;

use crate::exit::{Exit, Failure};

/// How the store of the settings is opened.
pub(crate) fn options(store: &StoreSettings) -> PostgresOptions {
    PostgresOptions {
        schema: store.schema.clone(),
        password_file: store.password_file.clone(),
        ..PostgresOptions::with_connections(store.connections)
    }
}

/// Why a store cannot be used, with the exit code that says who must act.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(crate) fn failure(error: PostgresOpenError) -> anyhow::Error {
    let exit = match &error {
        PostgresOpenError::Address(_)
        | PostgresOpenError::Name(_)
        | PostgresOpenError::Password(_)
        | PostgresOpenError::Certificates(_) => Exit::Usage,
        PostgresOpenError::Connect(_) => Exit::Unreachable,
        PostgresOpenError::Refused(_)
        | PostgresOpenError::ServerTooOld(_)
        | PostgresOpenError::Standby
        | PostgresOpenError::Unsafe { .. }
        | PostgresOpenError::NoStore(_)
        | PostgresOpenError::Version { .. }
        | PostgresOpenError::Exists(_)
        | PostgresOpenError::InUse(_)
        | PostgresOpenError::Changing
        | PostgresOpenError::TooFewConnections { .. }
        | PostgresOpenError::Statement(_) => Exit::Refused,
        PostgresOpenError::Incomplete { .. } => Exit::Damaged,
    };
    Failure::new(exit, error.to_string()).into()
}

/// What the store keeps of the account beside its data.
pub(crate) struct StoreRecords(AccountTable);

impl StoreRecords {
    pub(crate) fn open(store: &StoreSettings) -> anyhow::Result<Self> {
        AccountTable::open(&store.address, &options(store)).map(Self).map_err(failure)
    }
}

impl AccountRecords for StoreRecords {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        self.0.read(name).map_err(|error| error.to_string())
    }

    fn create(&self, name: &str, text: &str) -> Result<String, String> {
        self.0.create(name, text).map_err(|error| error.to_string())
    }

    fn replace(&self, name: &str, old: &str, new: &str) -> Result<bool, String> {
        self.0.replace(name, old, new).map_err(|error| error.to_string())
    }

    fn place(&self) -> String {
        self.0.place().to_owned()
    }
}
