//! What an account keeps beside its data, as texts by name. No node owns them: a command may change one while a node
//! runs, and the node reads it again.

use std::sync::{Mutex, PoisonError};

use orrery_storage::StorageError;

use crate::connection::{Connector, Parameters, ServerConnection};
use crate::failure::read_error;
use crate::schema::{self, PostgresOpenError};
use crate::store::PostgresOptions;

/// The texts of an account.
pub struct AccountTable {
    connector: Connector,
    connection: Mutex<Option<ServerConnection>>,
    place: String,
}

impl AccountTable {
    /// Those of a store, which is checked first as when it is opened.
    pub fn open(address: &str, options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let (address, connector) = schema::connector(address, options)?;
        let connection = schema::check(&connector, options)?;
        let place = format!("{address}, schema {}", options.schema);
        Ok(Self { connector, connection: Mutex::new(Some(connection)), place })
    }

    /// Where they are: hosts, database and schema.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Runs a statement, once more on another connection if the first one was lost: all of them may be repeated.
    fn text(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Option<String>, StorageError> {
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attempt = 0;
        loop {
            let mut connection = match held.take().filter(ServerConnection::is_usable) {
                Some(connection) => connection,
                None => self.connector.connect().map_err(read_error)?,
            };
            match connection.query(text, parameters) {
                Ok(rows) => {
                    *held = Some(connection);
                    return Ok(rows.first().map(|row| row.get(0)));
                }
                Err(_) if attempt == 0 && !connection.is_usable() => attempt += 1,
                Err(error) => return Err(read_error(error)),
            }
        }
    }

    /// A text, if there is one of the name.
    pub fn read(&self, name: &str) -> Result<Option<String>, StorageError> {
        self.text("SELECT value FROM account WHERE name = $1", &[&name])
    }

    /// Keeps a text unless there is one of the name already, and returns the one that is kept.
    pub fn create(&self, name: &str, value: &str) -> Result<String, StorageError> {
        let text = "INSERT INTO account (name, value) VALUES ($1, $2) \
            ON CONFLICT (name) DO NOTHING RETURNING value";
        if let Some(kept) = self.text(text, &[&name, &value])? {
            return Ok(kept);
        }
        let gone = || StorageError::Corrupt(format!("the account has no '{name}'").into());
        self.read(name)?.ok_or_else(gone)
    }

    /// Replaces a text by another if it is still the one that was read; false if it is not.
    pub fn replace(&self, name: &str, old: &str, new: &str) -> Result<bool, StorageError> {
        let text = "UPDATE account SET value = $3 WHERE name = $1 AND value IN ($2, $3) \
            RETURNING value";
        Ok(self.text(text, &[&name, &old, &new])?.is_some())
    }
}
