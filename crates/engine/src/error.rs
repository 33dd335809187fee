//! The store's errors become the domain's in this one place.

use orrery_storage::StorageError;
use orrery_types::Error;

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
        StorageError::Unknown(reason) => {
            tracing::error!(%reason, "the outcome of a commit is unknown");
            Error::Unavailable(
                "It is not known whether the write happened; read before you retry.".into(),
            )
        }
        StorageError::Corrupt(reason) => Error::internal(format!("corrupt data: {reason}")),
        StorageError::Io(reason) => Error::internal(format!("storage failed: {reason}")),
    }
}
