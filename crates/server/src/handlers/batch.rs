//! Several operations in one request: a transactional batch, or bulk.

use http::StatusCode;
use orrery_engine::Container;
use orrery_engine::transaction::batch::{Answers, BatchAction, BatchAnswer, Content};
use orrery_engine::transaction::bulk::OnError;
use orrery_types::{Error, Result, limits};

use crate::call::Call;
use crate::handlers::role_check;
use crate::wire::batch_body::{self, BatchFormat};
use crate::wire::error;
use crate::wire::link::ContainerAddress;
use crate::wire::reply::Reply;

pub(crate) fn run(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    if !call.headers.pre_triggers.is_empty() || !call.headers.post_triggers.is_empty() {
        return Err(Error::invalid("A batch runs no triggers; the request names some."));
    }
    let (size, limit) = (call.request.body.len(), limits::BATCH_SIZE_BYTES_MAX);
    if size > limit {
        return Err(Error::TooLarge { what: "the batch", size, limit });
    }
    let of_writes = if call.headers.prefer_minimal { Content::Minimal } else { Content::Full };
    let (form, mut operations) = batch_body::decode(&call.request.body, of_writes)?;
    role_check::check_batch(call, at, &operations)?;
    let reads = operations.iter().any(|operation| matches!(operation.action, BatchAction::Read(_)));
    if let Some(token) = call.headers.session_token.as_ref().filter(|_| reads) {
        call.engine().sessions().check(container, token)?;
    }
    let reach = super::grant::reach(call);
    for operation in &mut operations {
        operation.conditions.reach = reach;
    }
    let key = call.partition_key()?;
    let answers = if call.headers.batch_atomic == Some(false) {
        let id = call.headers.partition_key_range_id.as_deref();
        let partition = id.map(|id| container.partition_by_id(id)).transpose()?;
        let on_error =
            if call.headers.batch_continue_on_error { OnError::Continue } else { OnError::Stop };
        call.engine().transactions().bulk(
            container,
            partition,
            key.as_ref(),
            &operations,
            on_error,
        )?
    } else {
        call.engine().transactions().batch(container, key.as_ref(), &operations)?
    };
    for answer in &answers.answers {
        if let BatchAnswer::Failed(failure) = answer {
            error::log(failure, call.request.activity_id, call.request.path_and_query.as_str());
        }
    }
    Ok(reply(container, form, &answers))
}

fn reply(container: &Container, form: BatchFormat, answers: &Answers) -> Reply {
    // As the service has it, an item that was not sent because the client has it is a case of its own.
    let is_plain = |a: &BatchAnswer| a.is_success() && !matches!(a, BatchAnswer::NotModified(_));
    let all = answers.answers.iter().all(is_plain);
    let status = if all { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    let body = batch_body::encode(form, &answers.answers);
    let reply = match form {
        BatchFormat::Json => Reply::json(status, body),
        BatchFormat::HybridRow => Reply::binary(status, body),
    };
    let reply = reply.written().charge(answers.charge).of_container();
    match &answers.places[..] {
        [place] => reply.place(container, *place),
        places => {
            let tokens = places.iter().map(|p| container.token(p.partition, p.lsn));
            let tokens = tokens.collect::<Vec<_>>().join(",");
            reply.sessions(tokens)
        }
    }
}
