//! The store's errors become the domain's in this one place.

use orrery_index::ReadError;
use orrery_storage::StorageError;
use orrery_types::Error;

/// Why a cursor over the index ended early.
pub(crate) fn read(error: ReadError) -> Error {
    match error {
        ReadError::Storage(error) => storage(error),
        ReadError::Exceeded(exceeded) => exceeded.into(),
    }
}

/// What a client may know of a failure of the store.
pub(crate) fn storage(error: StorageError) -> Error {
    match error {
        StorageError::Conflict(_) | StorageError::NotEmpty | StorageError::JournalInUse => {
            Error::RetryWith
        }
        StorageError::Gone { .. } => Error::PartitionGone,
        StorageError::Behind(_) => Error::SessionNotAvailable,
        StorageError::TooLarge => {
            Error::invalid("The write is larger than the store takes at once.")
        }
        StorageError::ReadOnly(reason) => {
            tracing::error!(%reason, "the store refuses writes");
            Error::Unavailable(
                "Writes are refused since the storage failed to make one durable; reads go on. \
                 Free disk space or replace the disk, then restart the server."
                    .into(),
            )
        }
        StorageError::NoRoom(reason) => Error::Unavailable(
            format!(
                "Writes are refused while the disk is full, {reason}; reads go on. Free disk space."
            )
            .into(),
        ),
        StorageError::NotCommitted(reason) => {
            tracing::warn!(%reason, "a commit did not happen");
            Error::Unavailable("The write did not happen; it may be retried.".into())
        }
        StorageError::Unavailable(reason) => {
            tracing::warn!(%reason, "the store cannot be reached");
            Error::Unavailable("The database cannot reach its storage; retry later.".into())
        }
        StorageError::Unknown(lost) => {
            let id = lost.commit.map(|id| id.to_string());
            tracing::error!(reason = %lost.reason, id, "the outcome of a commit is unknown");
            Error::Unavailable(
                "It is not known whether the write happened; read before you retry.".into(),
            )
        }
        StorageError::Corrupt(reason) => Error::internal(format!("corrupt data: {reason}")),
        StorageError::Io(reason) => Error::internal(format!("storage failed: {reason}")),
    }
}
