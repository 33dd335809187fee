//! Distributed transactions: reads, or writes, of any partitions and containers of the account in one commit.

use std::sync::Arc;

use http::StatusCode;
use orrery_engine::Container;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::partition::session::Sessions;
use orrery_engine::throughput::charge;
use orrery_engine::throughput::throttle::{Claim, Pass};
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer};
use orrery_engine::transaction::distributed::{
    DistributedAnswer, DistributedAnswers, DistributedOperation, IdempotencyToken,
};
use orrery_types::{Error, Result, limits};
use uuid::Uuid;

use crate::call::Call;
use crate::handlers::{grant, item, role_check};
use crate::operation::Operation;
use crate::wire::error;
use crate::wire::headers;
use crate::wire::reply::{Reply, ReplyNote};
use crate::wire::transaction_body::{
    self, Envelope, ListedOperation, ListedResult, TransactionKind,
};

/// What the header that names the kind of resource must say.
const RESOURCE: &str = "DistributedTransactionBatch";
/// What the header that names the kind of transaction may say, beside `Read`.
const COMMIT: &str = "CommitDistributedTransaction";

pub(crate) fn run(call: &Call) -> Result<Reply> {
    let (kind, token) = check_head(call)?;
    let operations = transaction_body::decode(&call.request.body)?;
    check_operations(kind, &operations)?;
    let containers = containers(call, &operations)?;
    let token_id = token.map(|token| IdempotencyToken(*token.as_bytes()));
    let (answers, charge) = match refused(call, &operations, &containers)? {
        Some(answers) => {
            let charge = answers.iter().map(BatchAnswer::charge).sum();
            let results = operations.iter().zip(answers);
            let results = results.map(|(operation, answer)| ListedResult {
                index: operation.index,
                answer,
                place: None,
            });
            (results.collect::<Vec<_>>(), charge)
        }
        None => match commit(call, &operations, &containers, token_id) {
            Ok(answers) => {
                let charge = answers.charge;
                (results(call, &operations, answers), charge)
            }
            Err(error) if error.retryable() => {
                let indexes: Vec<usize> =
                    operations.iter().map(|operation| operation.index).collect();
                return Ok(reply(
                    transaction_body::encode_retriable(&error, token, &indexes),
                    token,
                ));
            }
            Err(error) => return Err(error),
        },
    };
    let envelope = transaction_body::encode(kind, token, &answers, charge);
    Ok(reply(envelope, token).charge(charge))
}

/// Checks what the headers say.
fn check_head(call: &Call) -> Result<(TransactionKind, Option<Uuid>)> {
    let headers = &call.headers;
    if item::names_triggers(call) {
        return Err(Error::invalid("A transaction runs no triggers; the request names some."));
    }
    if let Some(other) = &headers.transaction_resource
        && !other.eq_ignore_ascii_case(RESOURCE)
    {
        let name = headers::TRANSACTION_RESOURCE;
        return Err(Error::invalid(format!(
            "The header '{name}' holds '{other}', not {RESOURCE}."
        )));
    }
    let kind = match (call.operation, headers.transaction_type.as_deref()) {
        (Operation::ReadTransaction, _) => TransactionKind::Read,
        (_, None) => TransactionKind::Write,
        (_, Some(kind)) if kind.eq_ignore_ascii_case(COMMIT) => TransactionKind::Write,
        (_, Some(other)) => {
            let name = headers::TRANSACTION_TYPE;
            return Err(Error::invalid(format!(
                "The header '{name}' holds '{other}', which is neither {COMMIT} nor Read."
            )));
        }
    };
    let name = headers::IDEMPOTENCY_TOKEN;
    let token = headers.idempotency_token.as_deref().map(|text| {
        let malformed =
            |_| Error::invalid(format!("The header '{name}' holds '{text}', not a GUID."));
        Uuid::parse_str(text).map_err(malformed)
    });
    let token = token.transpose()?;
    if kind == TransactionKind::Write && token.is_none() {
        return Err(Error::invalid(format!("A transaction needs the header '{name}', a GUID.")));
    }
    let (size, limit) = (call.request.body.len(), limits::BATCH_SIZE_BYTES_MAX);
    if size > limit {
        return Err(Error::TooLarge { what: "the transaction", size, limit });
    }
    Ok((kind, token))
}

fn check_operations(kind: TransactionKind, operations: &[ListedOperation]) -> Result<()> {
    if operations.is_empty() {
        return Err(Error::invalid("The transaction has no operations."));
    }
    let writes =
        |listed: &ListedOperation| !matches!(listed.operation.action, BatchAction::Read(_));
    if kind == TransactionKind::Read && operations.iter().any(writes) {
        return Err(Error::invalid(
            "The request says that it reads, and has an operation that writes.",
        ));
    }
    Ok(())
}

/// The container of each operation, none where it does not exist. Refuses what the principal may not do, and
/// rids that are not those of the containers with these names: another account has them, or had them.
fn containers(call: &Call, operations: &[ListedOperation]) -> Result<Vec<Option<Arc<Container>>>> {
    let mut found = Vec::with_capacity(operations.len());
    for listed in operations {
        let action = &listed.operation.action;
        role_check::check_listed(call, &listed.at, action)?;
        let container = call.engine().containers().read(&listed.at.database, &listed.at.container);
        let Ok(container) = container else {
            grant::check_nowhere(call)?;
            found.push(None);
            continue;
        };
        grant::check_listed(call, &container, &listed.partition_key, action)?;
        let is_other = |rid: &String| rid != container.rid_text();
        if listed.container_rid.as_ref().is_some_and(is_other) {
            return Err(Error::ContainerRecreated);
        }
        found.push(Some(container));
    }
    Ok(found)
}

/// The answers if an operation cannot be done whatever its item is: its container does not exist, or its
/// session is ahead.
fn refused(
    call: &Call,
    operations: &[ListedOperation],
    containers: &[Option<Arc<Container>>],
) -> Result<Option<Vec<BatchAnswer>>> {
    let mut answers = Vec::with_capacity(operations.len());
    for (listed, container) in operations.iter().zip(containers) {
        let is_read = matches!(listed.operation.action, BatchAction::Read(_));
        let checked = match (container, &listed.session_token) {
            (None, _) => Err(Error::OwnerNotFound),
            (Some(_), None) => Ok(()),
            (Some(container), Some(token)) => {
                Sessions::check_form(token)?;
                // A write needs nothing of what its client has seen.
                if is_read { call.engine().sessions().check(container, token) } else { Ok(()) }
            }
        };
        answers.push(match checked {
            Ok(()) => BatchAnswer::Dependent(0.0),
            Err(error) => BatchAnswer::Failed(error),
        });
    }
    let any = answers.iter().any(|answer| matches!(answer, BatchAnswer::Failed(_)));
    Ok(any.then_some(answers))
}

/// Runs the transaction, and charges each operation to the throughput of its container.
fn commit(
    call: &Call,
    operations: &[ListedOperation],
    containers: &[Option<Arc<Container>>],
    token: Option<IdempotencyToken>,
) -> Result<DistributedAnswers> {
    let passes = admit(call, operations, containers)?;
    let distributed = operations.iter().zip(containers).filter_map(|(listed, container)| {
        let mut operation = listed.operation.clone();
        operation.conditions.reach = grant::reach_in(call, &listed.at);
        let partition_key = listed.partition_key.clone();
        Some(DistributedOperation { container: container.clone()?, partition_key, operation })
    });
    let distributed: Vec<DistributedOperation> = distributed.collect();
    let answers = call.engine().transactions().distributed(&distributed, token);
    let throughput = call.engine().throughput();
    match &answers {
        // It was charged when it was committed.
        Ok(answers) if answers.is_repeated => {}
        Ok(answers) => {
            for (pass, answer) in passes.iter().zip(&answers.answers) {
                if let Some(pass) = pass {
                    throughput.spend(pass, answer.answer.charge(), Some(answer.place.partition));
                }
            }
        }
        Err(error) if error::is_free(error) => {}
        Err(_) => {
            for pass in passes.iter().flatten() {
                throughput.spend(pass, charge::REFUSED, None);
            }
        }
    }
    answers
}

/// Refuses the transaction if a partition that it is about has no throughput left.
fn admit(
    call: &Call,
    operations: &[ListedOperation],
    containers: &[Option<Arc<Container>>],
) -> Result<Vec<Option<Pass>>> {
    let throughput = call.engine().throughput();
    if !throughput.throttles() {
        return Ok(vec![]);
    }
    let priority = call.headers.priority.unwrap_or_default();
    let claim = Claim { priority, bucket: call.headers.throughput_bucket };
    let mut passes = Vec::with_capacity(operations.len());
    for (listed, container) in operations.iter().zip(containers) {
        let part = ScopeRequest {
            partition_key: Some(listed.partition_key.clone()),
            ..ScopeRequest::default()
        };
        let pass = container.as_ref().map(|container| throughput.admit(container, &part, claim));
        passes.push(pass.transpose()?.flatten());
    }
    Ok(passes)
}

fn results(
    call: &Call,
    operations: &[ListedOperation],
    answers: DistributedAnswers,
) -> Vec<ListedResult> {
    let result = |(listed, answered): (&ListedOperation, DistributedAnswer)| {
        let DistributedAnswer { answer, container, place } = answered;
        if let BatchAnswer::Failed(failure) = &answer {
            error::log(failure, call.request.activity_id, call.request.path_and_query.as_str());
        }
        let token = container.token(place.partition, place.lsn);
        ListedResult { index: listed.index, answer, place: Some((place.partition, token)) }
    };
    operations.iter().zip(answers.answers).map(result).collect()
}

fn reply(envelope: Envelope, token: Option<Uuid>) -> Reply {
    let Envelope { status, sub_status, retry_after_ms, body } = envelope;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reply = Reply::json(status, body).charge(0.0);
    let token = token.map(|token| token.to_string());
    reply
        .note_if(ReplyNote::IdempotencyToken, token)
        .sub_status(sub_status)
        .retry_after_ms(retry_after_ms)
}
