//! [`Error`] becomes status, sub-status, code and body: the only place where HTTP codes of the
//! protocol appear. One match without wildcard, so that a new kind of error does not compile
//! until someone has decided what it looks like; `golden/errors/table.txt` shows the whole table.

use http::StatusCode;
use orrery_engine::item::read::Outcome;
use orrery_engine::transaction::batch::BatchAnswer;
use orrery_types::{Error, RoleDenial, TokenFault};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::wire::reply::Reply;

/// How long a client waits before it repeats a write that others were faster than.
const RETRY_WITH_MS: u64 = 10;

/// Sub-status of what the model of a database refuses. Ours: the original has none such.
const MODEL_VIOLATED: u16 = 5100;

/// An error as the wire shows it. A sub-status means something only beside its status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct WireError {
    pub status: u16,
    /// Zero is not sent.
    pub sub_status: u16,
    pub code: &'static str,
    pub retry_after_ms: Option<u64>,
}

impl WireError {
    /// What an error looks like.
    pub fn of(error: &Error) -> Self {
        let (status, sub_status, code) = match error {
            Error::Invalid(_) | Error::Query(_) => (400, 0, "BadRequest"),
            Error::PartitionKeyMismatch(_) => (400, 1001, "BadRequest"),
            Error::ModelViolated(_) => (400, MODEL_VIOLATED, "BadRequest"),
            Error::StillReferenced(_) => (409, MODEL_VIOLATED, "Conflict"),
            Error::CrossPartition(_) => (400, 1004, "BadRequest"),
            Error::ContainerRecreated => (400, 1024, "BadRequest"),
            Error::Unauthenticated(_) => (401, 0, "Unauthorized"),
            Error::TokenRefused(fault, _) => (401, token_fault(*fault), "Unauthorized"),
            Error::RoleDenied(denial, _) => (403, role_denial(*denial), "Forbidden"),
            Error::OutsideTime(_) | Error::Denied(_) => (403, 0, "Forbidden"),
            Error::NotFound => (404, 0, "NotFound"),
            Error::SessionNotAvailable => (404, 1002, "NotFound"),
            Error::OwnerNotFound => (404, 1003, "NotFound"),
            Error::MethodNotAllowed => (405, 0, "MethodNotAllowed"),
            Error::Timeout(_) => (408, 0, "RequestTimeout"),
            Error::AlreadyExists | Error::UniqueKeyViolation | Error::DerivedKeyViolation(_) => {
                (409, 0, "Conflict")
            }
            Error::PartitionGone => (410, 1002, "Gone"),
            Error::ContainerStale => (410, 1000, "Gone"),
            Error::RangeStale => (410, 1007, "Gone"),
            Error::ReplicaGone => (410, 0, "Gone"),
            Error::PreconditionFailed => (412, 0, "PreconditionFailed"),
            Error::ConditionNotMet => (412, 1110, "PreconditionFailed"),
            Error::TooLarge { .. } => (413, 0, "RequestEntityTooLarge"),
            Error::TransactionTooLarge { .. } => (413, 3401, "RequestEntityTooLarge"),
            Error::ResponseTooLarge { .. } => (413, 3402, "RequestEntityTooLarge"),
            Error::RateLimited { .. } => (429, 3200, "429"),
            Error::BucketSpent { .. } => (429, 3212, "429"),
            Error::RetryWith => (449, 0, "449"),
            Error::Internal(_) => (500, 0, "InternalServerError"),
            Error::Script(failure) => (400, failure.number, "BadRequest"),
            Error::NotImplemented(_) => (501, 0, "NotImplemented"),
            Error::Unavailable(_) => (503, 0, "ServiceUnavailable"),
        };
        let retry_after_ms = match error {
            Error::RateLimited { retry_after_ms } | Error::BucketSpent { retry_after_ms, .. } => {
                Some(*retry_after_ms)
            }
            Error::RetryWith => Some(RETRY_WITH_MS),
            _ => None,
        };
        Self { status, sub_status, code, retry_after_ms }
    }
}

/// Sub-status of a refused token of a directory.
fn token_fault(fault: TokenFault) -> u16 {
    match fault {
        TokenFault::NoDirectory => 5002,
        TokenFault::NotAToken => 5003,
        TokenFault::Signature => 5004,
        TokenFault::NotYetValid => 5005,
        TokenFault::Expired => 5006,
        TokenFault::Issuer => 5007,
        TokenFault::Audience => 5008,
        TokenFault::NoPrincipal => 5011,
        TokenFault::UnknownKey => 5200,
        TokenFault::KeysDisabled => 5202,
    }
}

/// Sub-status of what no role allows.
fn role_denial(denial: RoleDenial) -> u16 {
    match denial {
        RoleDenial::NotData => 5300,
        RoleDenial::Metadata => 5301,
        RoleDenial::DataByName => 5302,
        RoleDenial::DataByRid => 5303,
    }
}

/// Whether a request that was refused so costs nothing: it was turned away before it did anything, or
/// the server is to blame.
pub(crate) fn is_free(error: &Error) -> bool {
    matches!(
        error,
        Error::Unauthenticated(_)
            | Error::TokenRefused(..)
            | Error::RoleDenied(..)
            | Error::OutsideTime(_)
            | Error::Denied(_)
            | Error::MethodNotAllowed
            | Error::NotImplemented(_)
            | Error::ContainerStale
            | Error::RangeStale
            | Error::ReplicaGone
            | Error::RateLimited { .. }
            | Error::BucketSpent { .. }
            | Error::Unavailable(_)
    )
}

/// The status of one result of a batch.
pub(crate) fn status_of(answer: &BatchAnswer) -> u16 {
    match answer {
        BatchAnswer::Read(_) => 200,
        BatchAnswer::NotModified(_) => 304,
        BatchAnswer::Written(item) => match item.outcome {
            Outcome::Created => 201,
            Outcome::Replaced => 200,
            Outcome::Deleted => 204,
        },
        BatchAnswer::Failed(error) => WireError::of(error).status,
        BatchAnswer::Dependent(_) => 424,
    }
}

/// What the client reads; the log may know more.
fn message(error: &Error) -> String {
    match error {
        // Clients' tests look for these texts at the start of the message, bare.
        Error::Unauthenticated(text)
        | Error::TokenRefused(_, text)
        | Error::RoleDenied(_, text)
        | Error::OutsideTime(text)
        | Error::Denied(text) => text.to_string(),
        Error::CrossPartition(_) => error.to_string(),
        // The text is JSON already: the list of errors, or an object around it.
        Error::Query(text) if text.starts_with('{') => format!("Message: {text}"),
        Error::Query(text) if text.starts_with('[') => format!("Message: {{\"errors\":{text}}}"),
        other => list(&text(other)),
    }
}

/// What an error says, bare, to a client.
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::Internal(_) => "An unexpected error occurred. Give the activity id to whoever runs \
                               the server: its log has the reason."
            .to_owned(),
        other => other.to_string(),
    }
}

/// Logs what only the log may know.
pub(crate) fn log(error: &Error, activity_id: Uuid, uri: &str) {
    if let Error::Internal(reason) = error {
        tracing::error!(%activity_id, uri, reason = &**reason, "internal error");
    }
}

fn list(text: &str) -> String {
    format!("Message: {}", json!({ "Errors": [text] }))
}

/// The body of an error.
pub fn body(error: &Error, activity_id: Uuid, uri: &str) -> Value {
    let message = message(error);
    let version = env!("CARGO_PKG_VERSION");
    let message = format!(
        "{message}\r\nActivityId: {activity_id}, Request URI: {uri}, Server: orrery/{version}"
    );
    let mut body = json!({ "code": WireError::of(error).code, "message": message });
    if let Error::CrossPartition(plan) = error {
        body["additionalErrorInfo"] = Value::from(&**plan);
    }
    body
}

/// The whole answer to a request that failed.
pub fn reply(error: &Error, activity_id: Uuid, uri: &str) -> Reply {
    log(error, activity_id, uri);
    let wire = WireError::of(error);
    let body = body(error, activity_id, uri).to_string();
    let status =
        StatusCode::from_u16(wire.status).expect("every status of the table is a number of HTTP");
    let reply =
        Reply::json(status, body).sub_status(wire.sub_status).retry_after_ms(wire.retry_after_ms);
    match error {
        Error::Script(failure) => reply.script_log(&failure.log),
        _ => reply,
    }
}

/// The body of the response to a head that is refused by itself. That is no domain error: nothing
/// below the front sees it.
pub(crate) fn head_body(status: StatusCode, problem: &str, activity_id: Uuid) -> String {
    let message = format!("{}\r\nActivityId: {activity_id}", list(problem));
    let code = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "RequestHeaderFieldsTooLarge",
        StatusCode::URI_TOO_LONG => "UriTooLong",
        _ => "BadRequest",
    };
    json!({ "code": code, "message": message }).to_string()
}

/// The response to a head past its limits.
pub(crate) fn head_too_large(problem: &str, activity_id: Uuid) -> Reply {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Reply::json(status, head_body(status, problem, activity_id))
}

#[cfg(test)]
mod tests;
