//! What an error of the server means: what certainly did not happen, what nobody knows, and who must act.

use orrery_storage::{CommitId, StorageError};
use orrery_types::Epoch;
use postgres::Error;

/// A failed statement, by what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatementFailure {
    /// The shard is gone or has another epoch. Nothing was written.
    Gone { epoch: Option<Epoch> },
    /// The commit was resolved as one that never happens, or may have been: its id is not above one that the log has
    /// forgotten. Nothing was written.
    Late { forgotten: Option<CommitId> },
    /// Nothing was written; the same may be tried at once.
    Again(Box<str>),
    /// Nothing was written; the same may be tried after a pause.
    Later(Box<str>),
    /// The disk of the server is full. Nothing was written.
    NoRoom(Box<str>),
    /// The connection was lost. What was sent may have happened.
    Connection(Box<str>),
    /// Stored data is damaged.
    Corrupt(Box<str>),
    /// The statement is wrong or a table is missing.
    Broken(Box<str>),
}

impl StatementFailure {
    pub(crate) fn of(error: &Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return Self::Connection(with_cause(error).into());
        };
        let reason: Box<str> = format!("{} ({})", db.message(), db.code().code()).into();
        match db.code().code() {
            "KV002" => {
                let epoch = db.detail().and_then(|epoch| epoch.parse().ok()).map(Epoch);
                Self::Gone { epoch }
            }
            "KV003" => Self::Late { forgotten: db.detail().and_then(commit_id) },
            "23505" if db.constraint() == Some("log_pkey") => Self::Late { forgotten: None },
            "40001" | "40P01" | "55P03" => Self::Again(reason),
            // Too many connections, starting up, out of memory, a standby in the place of the primary.
            "53300" | "57P03" | "53200" | "25006" => Self::Later(reason),
            "53100" => Self::NoRoom(reason),
            "57P01" | "57P02" | "25P03" => Self::Connection(reason),
            code if code.starts_with("08") => Self::Connection(reason),
            "XX001" | "XX002" => Self::Corrupt(reason),
            _ => Self::Broken(reason),
        }
    }

    /// The answer to a read, or to a write of which it is certain that it did not happen.
    pub(crate) fn into_error(self) -> StorageError {
        match self {
            Self::Gone { epoch } => StorageError::Gone { epoch },
            Self::Late { .. } => StorageError::NotCommitted("the commit came too late".into()),
            Self::Again(reason) | Self::Later(reason) | Self::Connection(reason) => {
                StorageError::Unavailable(reason)
            }
            Self::NoRoom(reason) => StorageError::NoRoom(reason),
            Self::Corrupt(reason) => StorageError::Corrupt(reason),
            Self::Broken(reason) => StorageError::Io(reason),
        }
    }
}

/// Why a node answers nothing any more.
pub(crate) const OUTDATED: &str = "another release has changed the tables of the store";

/// An id in the server's words.
fn commit_id(text: &str) -> Option<CommitId> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    Some(CommitId::from_bytes(number.to_be_bytes()))
}

/// What went wrong, without the text of the connection, which may hold a password.
fn with_cause(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The answer to a failed read.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(crate) fn read_error(error: Error) -> StorageError {
    StatementFailure::of(&error).into_error()
}
