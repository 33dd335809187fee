//! Why a cursor over the index failed: the store, or the reader's budget.

use orrery_storage::StorageError;
use orrery_types::Exceeded;

/// A read that ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The store failed.
    Storage(StorageError),
    /// The budget is exceeded.
    Exceeded(Exceeded),
}

impl From<StorageError> for ReadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<Exceeded> for ReadError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}
