//! The table of errors, and what bodies hold.

use std::fmt::Write as _;
use std::path::Path;

use orrery_types::{RoleDenial, ScriptFailure, TokenFault};

use super::*;

fn every_error() -> Vec<Error> {
    let mut all = vec![
        Error::invalid("The field is wrong."),
        Error::Query("[{\"severity\":\"Error\",\"code\":\"SC1001\"}]".into()),
        Error::CrossPartition("{\"partitionedQueryExecutionInfoVersion\":2}".into()),
        Error::PartitionKeyMismatch("The keys differ.".into()),
        Error::ContainerRecreated,
        Error::ContainerStale,
        Error::RangeStale,
        Error::ReplicaGone,
        Error::Unauthenticated("No credentials.".into()),
        Error::OutsideTime("Too late.".into()),
        Error::Denied("Not allowed.".into()),
        Error::NotFound,
        Error::OwnerNotFound,
        Error::SessionNotAvailable,
        Error::MethodNotAllowed,
        Error::Timeout("It took too long.".into()),
        Error::AlreadyExists,
        Error::UniqueKeyViolation,
        Error::DerivedKeyViolation("An order has that label.".into()),
        Error::ModelViolated("No such author.".into()),
        Error::StillReferenced("Books refer to it.".into()),
        Error::PartitionGone,
        Error::PreconditionFailed,
        Error::ConditionNotMet,
        Error::TooLarge { what: "the item", size: 3, limit: 2 },
        Error::TransactionTooLarge { size: 3, limit: 2 },
        Error::ResponseTooLarge { size: 3, limit: 2 },
        Error::RateLimited { retry_after_ms: 12 },
        Error::BucketSpent { bucket: 3, retry_after_ms: 12 },
        Error::RetryWith,
        Error::Unavailable("No writes now.".into()),
        Error::Script(Box::new(ScriptFailure {
            message: "Exception = Error: no".into(),
            number: 404,
            log: "".into(),
        })),
        Error::NotImplemented("Not built.".into()),
        Error::internal("a secret"),
    ];
    all.extend(TokenFault::ALL.map(|fault| Error::TokenRefused(fault, "No such token.".into())));
    all.extend(RoleDenial::ALL.map(|denial| Error::RoleDenied(denial, "No such role.".into())));
    // A variant that is missing above does not compile here.
    for error in &all {
        match error {
            Error::Invalid(_)
            | Error::Query(_)
            | Error::CrossPartition(_)
            | Error::PartitionKeyMismatch(_)
            | Error::ContainerRecreated
            | Error::ContainerStale
            | Error::RangeStale
            | Error::ReplicaGone
            | Error::Unauthenticated(_)
            | Error::TokenRefused(..)
            | Error::RoleDenied(..)
            | Error::OutsideTime(_)
            | Error::Denied(_)
            | Error::NotFound
            | Error::OwnerNotFound
            | Error::SessionNotAvailable
            | Error::MethodNotAllowed
            | Error::Timeout(_)
            | Error::AlreadyExists
            | Error::UniqueKeyViolation
            | Error::DerivedKeyViolation(_)
            | Error::ModelViolated(_)
            | Error::StillReferenced(_)
            | Error::PartitionGone
            | Error::PreconditionFailed
            | Error::ConditionNotMet
            | Error::TooLarge { .. }
            | Error::TransactionTooLarge { .. }
            | Error::ResponseTooLarge { .. }
            | Error::RateLimited { .. }
            | Error::BucketSpent { .. }
            | Error::RetryWith
            | Error::Unavailable(_)
            | Error::Script(_)
            | Error::NotImplemented(_)
            | Error::Internal(_) => {}
        }
    }
    all
}

#[test]
fn the_table_is_the_golden_one() {
    let mut table = String::from("# status/sub-status code retry-after-ms: body\n");
    for error in every_error() {
        let wire = WireError::of(&error);
        let retry = wire.retry_after_ms.map_or("-".into(), |ms| ms.to_string());
        let shown = format!("{error:?}");
        let name = shown.split(['(', ' ']).next().unwrap_or_default();
        let body = body(&error, Uuid::nil(), "/dbs/d").to_string();
        let body = body.replace(env!("CARGO_PKG_VERSION"), "<version>");
        writeln!(table, "\n{name}").unwrap();
        writeln!(table, "{}/{} {} {retry}: {body}", wire.status, wire.sub_status, wire.code)
            .unwrap();
    }
    let path = Path::new("../../golden/errors/table.txt");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &table).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    assert_eq!(table, golden, "run with UPDATE_GOLDENFILES=1, read the difference, commit it");
}

fn answer(error: &Error) -> (Reply, Value) {
    let reply = reply(error, Uuid::nil(), "/dbs/d");
    let body = serde_json::from_slice(&reply.body).unwrap();
    (reply, body)
}

#[test]
fn a_query_error_embeds_its_json() {
    let (_, body) = answer(&Error::Query("[{\"code\":\"SC1001\"}]".into()));
    let message = body["message"].as_str().unwrap();
    assert!(message.starts_with("Message: {\"errors\":[{\"code\":\"SC1001\"}]}\r\n"), "{message}");
}

#[test]
fn a_cross_partition_error_carries_the_plan() {
    let (reply, body) = answer(&Error::CrossPartition("{\"a\":1}".into()));
    assert_eq!(reply.sub_status, 1004);
    assert_eq!(body["additionalErrorInfo"], "{\"a\":1}");
}

#[test]
fn a_rate_limit_says_when_to_come_back() {
    let (reply, body) = answer(&Error::RateLimited { retry_after_ms: 12 });
    assert_eq!((reply.status.as_u16(), &body["code"]), (429, &json!("429")));
    assert_eq!(reply.details.unwrap().retry_after_ms, Some(12));
}

#[test]
fn an_internal_error_tells_the_client_no_more_than_the_activity_id() {
    let (reply, body) = answer(&Error::internal("a secret path"));
    assert_eq!(reply.status.as_u16(), 500);
    let text = body.to_string();
    assert!(!text.contains("secret") && text.contains(&Uuid::nil().to_string()), "{text}");
}
