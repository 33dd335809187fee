//! The domain error: what happened, never an HTTP status. Lower crates have narrow errors of
//! their own, which become this one in `engine`; `server/wire/error` turns it into status,
//! sub-status and body in one match without wildcard, so that a new variant does not compile
//! until someone has decided what it looks like on the wire.

/// A result with the domain error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as the caller needs to know it. Messages are written for the sender of the
/// request; what only the log should know stays in [`Error::Internal`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request is wrong in itself; the text says where and what to do.
    #[error("{0}")]
    Invalid(Box<str>),
    /// A query is wrong; the text is the JSON list of errors with their positions.
    #[error("{0}")]
    Query(Box<str>),
    /// The query needs the client to fetch a plan and merge; the text is that plan.
    #[error("The provided cross partition query can not be directly served by the gateway.")]
    CrossPartition(Box<str>),
    /// Header and item disagree on the partition key, or it has the wrong number of values.
    #[error("{0}")]
    PartitionKeyMismatch(Box<str>),
    /// The client means a container that was deleted and recreated under the same name.
    #[error("The container was recreated; its resource id is no longer the one in the request.")]
    ContainerRecreated,
    /// A client in Direct mode means a container that has the same name no longer.
    #[error("The name of the container stands for another one now. Read the container again.")]
    ContainerStale,
    /// No credentials, or credentials that prove nothing.
    #[error("{0}")]
    Unauthenticated(Box<str>),
    /// A token of a directory that is not accepted, or a key where only such tokens are.
    #[error("{1}")]
    TokenRefused(TokenFault, Box<str>),
    /// No role of a directory principal allows this.
    #[error("{1}")]
    RoleDenied(RoleDenial, Box<str>),
    /// The credentials are genuine but their time is over or has not come.
    #[error("{0}")]
    OutsideTime(Box<str>),
    /// The credentials do not allow this.
    #[error("{0}")]
    Denied(Box<str>),
    /// The resource itself is not there.
    #[error("Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found")]
    NotFound,
    /// The database or container that should hold the resource is not there.
    #[error("Owner resource does not exist")]
    OwnerNotFound,
    /// The session token is ahead of what this server has.
    #[error("The read/write session is not available for the input session token.")]
    SessionNotAvailable,
    /// The path exists, the method is not for it.
    #[error("The request verb is not supported for this resource.")]
    MethodNotAllowed,
    /// The time for a request ran out.
    #[error("{0}")]
    Timeout(Box<str>),
    /// The id is taken.
    #[error("Entity with the specified id already exists in the system.")]
    AlreadyExists,
    /// Another item of the logical partition has the same unique key.
    #[error("Unique index constraint violation.")]
    UniqueKeyViolation,
    /// What follows from a write by the model of its database would give an item a unique key that
    /// another one has; the text names container and unique key.
    #[error("{0}")]
    DerivedKeyViolation(Box<str>),
    /// The item breaks the model of its database; the text names rule and path.
    #[error("{0}")]
    ModelViolated(Box<str>),
    /// Items refer to the one that shall go; the text names some.
    #[error("{0}")]
    StillReferenced(Box<str>),
    /// The physical partition was split, merged or moved.
    #[error("The requested resource is no longer available at the server.")]
    PartitionGone,
    /// A client in Direct mode means a physical partition that was split or merged.
    #[error("The partition key range was split or merged. Read the ranges again.")]
    RangeStale,
    /// This server takes no requests now; another address, or this one later, does.
    #[error("This replica takes no requests now. Try again soon.")]
    ReplicaGone,
    /// An etag condition does not hold.
    #[error(
        "One of the specified pre-condition is not met. Learn more: \
         https://aka.ms/CosmosDB/sql/errors/precondition-failed"
    )]
    PreconditionFailed,
    /// A patch's filter does not hold.
    #[error("The condition of the patch is not met by the item.")]
    ConditionNotMet,
    /// Something is larger than its limit.
    #[error("Request size is too large: {what} is {size} bytes, the limit is {limit}.")]
    #[expect(missing_docs, reason = "the message says it")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    /// The operations of a batch have written as much as one transaction may.
    #[error("The operations before have written {size} bytes; a transaction may write {limit}.")]
    #[expect(missing_docs, reason = "the message says it")]
    TransactionTooLarge { size: usize, limit: usize },
    /// The results of a batch are as large as an answer may be.
    #[error("The results before hold {size} bytes of items; the answer may hold {limit}.")]
    #[expect(missing_docs, reason = "the message says it")]
    ResponseTooLarge { size: usize, limit: usize },
    /// The throughput of the resource is used up.
    #[error("Request rate is large. Retry after {retry_after_ms} ms.")]
    #[expect(missing_docs, reason = "the message says it")]
    RateLimited { retry_after_ms: u64 },
    /// The share of the throughput bucket that the request names is used up.
    #[error(
        "Request rate of throughput bucket {bucket} is large. Retry after {retry_after_ms} ms."
    )]
    #[expect(missing_docs, reason = "the message says it")]
    BucketSpent { bucket: u8, retry_after_ms: u64 },
    /// Other writers were faster too often.
    #[error("Conflicting request to resource has been attempted. Retry to avoid conflicts.")]
    RetryWith,
    /// The store takes no writes now; the text says why and until when.
    #[error("{0}")]
    Unavailable(Box<str>),
    /// A script failed; nothing that it did was kept.
    #[error("{0}")]
    Script(Box<ScriptFailure>),
    /// The operation is known and not built.
    #[error("{0}")]
    NotImplemented(Box<str>),
    /// A fault of ours. The text is for the log only.
    #[error("{0}")]
    Internal(Box<str>),
}

/// What is wrong with a token of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// The server has no directory.
    NoDirectory,
    /// It cannot be read as a token.
    NotAToken,
    /// Its signature is not that of the key it names.
    Signature,
    /// Its time has not come.
    NotYetValid,
    /// Its time is over.
    Expired,
    /// It comes from an issuer that is not accepted.
    Issuer,
    /// It is for another server.
    Audience,
    /// It names no principal.
    NoPrincipal,
    /// It names a key that no issuer publishes.
    UnknownKey,
    /// It is no token but a key, and keys are switched off.
    KeysDisabled,
}

impl TokenFault {
    /// Every fault.
    pub const ALL: [Self; 10] = [
        Self::NoDirectory,
        Self::NotAToken,
        Self::Signature,
        Self::NotYetValid,
        Self::Expired,
        Self::Issuer,
        Self::Audience,
        Self::NoPrincipal,
        Self::UnknownKey,
        Self::KeysDisabled,
    ];
}

/// What the roles of a principal do not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleDenial {
    /// An operation that no role can allow: it needs a key.
    NotData,
    /// To read what databases and containers there are.
    Metadata,
    /// An operation on items that are addressed by names.
    DataByName,
    /// An operation on items that are addressed by rids.
    DataByRid,
}

impl RoleDenial {
    /// Every denial.
    pub const ALL: [Self; 4] = [Self::NotData, Self::Metadata, Self::DataByName, Self::DataByRid];
}

/// How a script failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScriptFailure {
    /// What was thrown and where, or what does not compile.
    pub message: Box<str>,
    /// The number that the script gave its error, or zero.
    pub number: u16,
    /// What the script had logged until then.
    pub log: Box<str>,
}

impl Error {
    /// A wrong request.
    pub fn invalid(message: impl Into<Box<str>>) -> Self {
        Self::Invalid(message.into())
    }

    /// A fault of ours; the text goes to the log.
    pub fn internal(message: impl Into<Box<str>>) -> Self {
        Self::Internal(message.into())
    }

    /// Whether the same request may succeed when it is sent again unchanged.
    pub fn retryable(&self) -> bool {
        match self {
            Self::SessionNotAvailable
            | Self::Timeout(_)
            | Self::PartitionGone
            | Self::ReplicaGone
            | Self::RateLimited { .. }
            | Self::BucketSpent { .. }
            | Self::RetryWith
            | Self::Unavailable(_) => true,
            Self::Invalid(_)
            | Self::Query(_)
            | Self::CrossPartition(_)
            | Self::PartitionKeyMismatch(_)
            | Self::ContainerRecreated
            | Self::ContainerStale
            | Self::RangeStale
            | Self::Unauthenticated(_)
            | Self::TokenRefused(..)
            | Self::RoleDenied(..)
            | Self::OutsideTime(_)
            | Self::Denied(_)
            | Self::NotFound
            | Self::OwnerNotFound
            | Self::MethodNotAllowed
            | Self::AlreadyExists
            | Self::UniqueKeyViolation
            | Self::DerivedKeyViolation(_)
            | Self::ModelViolated(_)
            | Self::StillReferenced(_)
            | Self::PreconditionFailed
            | Self::ConditionNotMet
            | Self::TooLarge { .. }
            | Self::TransactionTooLarge { .. }
            | Self::ResponseTooLarge { .. }
            | Self::Script(_)
            | Self::NotImplemented(_)
            | Self::Internal(_) => false,
        }
    }
}
