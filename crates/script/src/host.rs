//! What a script may ask of the engine: the items of one logical partition, within one transaction.
//! An error of the host that a script can handle reaches its callback with the number that scripts
//! compare; any other ends the script.

use orrery_types::ids::Address;
use orrery_types::{Error, Result, Value};

/// The items that a script works on.
pub trait ScriptHost {
    /// Makes an item.
    fn create(&mut self, item: Value) -> Result<HostAnswer>;
    /// Makes an item or replaces the one with its id, if that has the etag.
    fn upsert(&mut self, item: Value, if_match: Option<&str>) -> Result<HostAnswer>;
    /// Reads an item, unless it still has the etag.
    fn read(&mut self, item: &Address, if_none_match: Option<&str>) -> Result<HostAnswer>;
    /// Replaces an item, if it has the etag.
    fn replace(&mut self, at: &Address, item: Value, if_match: Option<&str>) -> Result<HostAnswer>;
    /// Deletes an item, if it has the etag.
    fn delete(&mut self, item: &Address, if_match: Option<&str>) -> Result<HostAnswer>;
    /// A page of all items.
    fn list(&mut self, page: &PageRequest) -> Result<HostAnswer>;
    /// A page of a query; `query` has its text and parameters.
    fn query(&mut self, query: &Value, page: &PageRequest) -> Result<HostAnswer>;
    /// An id that no item has.
    fn new_id(&mut self) -> String;
}

/// Which page of a feed.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// How many items; `-1` leaves it to the server.
    pub size: i64,
    /// Where to go on.
    pub continuation: Option<String>,
}

/// What an operation gives the callback.
#[derive(Clone, Debug)]
pub struct HostAnswer {
    /// What happened.
    pub outcome: HostOutcome,
    /// The item, or the array of items, as JSON text; nothing after a delete.
    pub body: Vec<u8>,
    /// Where to go on.
    pub continuation: Option<String>,
}

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum HostOutcome {
    Read,
    Created,
    Replaced,
    Deleted,
    NotModified,
}

impl HostOutcome {
    /// The number under which scripts know it.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Read | Self::Replaced => 200,
            Self::Created => 201,
            Self::Deleted => 204,
            Self::NotModified => 304,
        }
    }
}

/// The number by which a script tells errors apart; none for those that end it.
pub(crate) fn number(error: &Error) -> Option<i32> {
    match error {
        Error::Invalid(_)
        | Error::Query(_)
        | Error::CrossPartition(_)
        | Error::PartitionKeyMismatch(_)
        | Error::ModelViolated(_)
        | Error::MethodNotAllowed
        | Error::NotImplemented(_)
        | Error::Script(_) => Some(400),
        Error::Denied(_) => Some(403),
        Error::NotFound | Error::OwnerNotFound => Some(404),
        Error::AlreadyExists
        | Error::UniqueKeyViolation
        | Error::DerivedKeyViolation(_)
        | Error::StillReferenced(_) => Some(409),
        Error::PreconditionFailed | Error::ConditionNotMet => Some(412),
        Error::TooLarge { .. }
        | Error::TransactionTooLarge { .. }
        | Error::ResponseTooLarge { .. } => Some(413),
        Error::ContainerRecreated
        | Error::ContainerStale
        | Error::RangeStale
        | Error::ReplicaGone
        | Error::Unauthenticated(_)
        | Error::OutsideTime(_)
        | Error::SessionNotAvailable
        | Error::Timeout(_)
        | Error::PartitionGone
        | Error::RateLimited { .. }
        | Error::BucketSpent { .. }
        | Error::RetryWith
        | Error::Unavailable(_)
        | Error::TokenRefused(..)
        | Error::RoleDenied(..)
        | Error::Internal(_) => None,
    }
}
