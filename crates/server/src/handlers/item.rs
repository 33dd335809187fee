//! Items over HTTP: point operations and the feed.

use std::sync::Arc;

use http::StatusCode;
use orrery_engine::item::operation::ItemBody;
use orrery_engine::item::operation::ItemWrite;
use orrery_engine::item::patch::Patch;
use orrery_engine::item::read::{CommitPosition, Outcome, Written};
use orrery_engine::partition::scope::{Scope, ScopeRequest};
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::script::{TriggerNames, TriggeredWrite, WriteKind};
use orrery_engine::{Container, throughput::charge};
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, limits};

use crate::call::Call;
use crate::operation::Operation;
use crate::wire::headers::ReadKeyType;
use crate::wire::link::{ContainerAddress, Target};
use crate::wire::reply::{Reply, ReplyNote};
use crate::wire::resources;

pub(crate) fn read(call: &Call, at: &ContainerAddress, id: &Address) -> Result<Reply> {
    let container = call.container(at)?;
    let key = call.partition_key()?;
    let item = match &call.headers.model_expand {
        None => call.engine().items().read(container, key.as_ref(), id)?,
        Some(expand) => {
            let reach = super::grant::reach(call);
            call.engine().queries().read_item_expanded(
                container,
                key.as_ref(),
                id,
                expand,
                reach,
            )?
        }
    };
    let (at, charge) = ((&**container, item.place), call.read_charge(item.charge));
    // The etag is that of the item alone: what its relations lead to may have changed.
    if call.headers.model_expand.is_none() && call.conditions().unmodified(item.stamp) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED)
            .etag(item.stamp.etag)
            .charge(charge)
            .of_container()
            .place(container, item.place));
    }
    Ok(Reply::item(StatusCode::OK, item.body, item.stamp.etag, charge, at).located())
}

/// A write of one item, decoded.
pub(crate) struct WriteRequest {
    pub(crate) container: Arc<Container>,
    pub(crate) partition_key: Option<PartitionKey>,
    pub(crate) write: ItemWrite,
}

/// Decodes a request that writes one item.
pub(crate) fn decode_write(call: &Call) -> Result<WriteRequest> {
    let (Target::Items(at) | Target::Item(at, _)) = &call.link.target else {
        return Err(Error::MethodNotAllowed);
    };
    let container = call.container(at)?;
    let partition_key = call.partition_key()?;
    let body = || item_body(call, container);
    let conditions = call.conditions();
    let write = match (call.operation, &call.link.target) {
        (Operation::UpsertItem, _) => ItemWrite::Upsert(body()?, conditions),
        (Operation::CreateItem, _) => ItemWrite::Create(body()?),
        (Operation::ReplaceItem, Target::Item(_, id)) => {
            ItemWrite::Replace(id.clone(), body()?, conditions)
        }
        (Operation::PatchItem, Target::Item(_, id)) => {
            ItemWrite::Patch(id.clone(), Patch::parse(call.json()?)?, conditions)
        }
        (Operation::DeleteItem, Target::Item(_, id)) => ItemWrite::Delete(id.clone(), conditions),
        _ => return Err(Error::MethodNotAllowed),
    };
    Ok(WriteRequest { container: container.clone(), partition_key, write })
}

/// The item in the body of a write. Its key is kept for the headers of a failure, if the request names
/// none.
fn item_body(call: &Call, container: &Container) -> Result<ItemBody> {
    let body = call.body().and_then(|body| ItemBody::parse(container, &body));
    if call.headers.partition_key.is_none() {
        let key = || body.as_ref().ok().map(|body| body.key.clone());
        call.labels.body_key.get_or_init(key);
    }
    body
}

/// Whether a patch has a condition. The handler reports what is wrong with it.
pub(crate) fn has_condition(call: &Call) -> bool {
    call.json().is_ok_and(|body| !body.get("condition").is_undefined())
}

/// Writes one item and waits until it is durable.
pub(crate) fn write(call: &Call) -> Result<Reply> {
    if names_triggers(call) {
        return write_with_triggers(call);
    }
    run_write(call, &decode_write(call)?)
}

/// Runs a decoded write and waits until it is durable.
pub(crate) fn run_write(call: &Call, request: &WriteRequest) -> Result<Reply> {
    let WriteRequest { container, partition_key, write } = request;
    let written = call.engine().point_writes().write(container, partition_key.as_ref(), write)?;
    Ok(encode_write(call, container, written))
}

/// Deletes everything that has the key of the header.
pub(crate) fn delete_partition_key(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let key = call
        .partition_key()?
        .ok_or_else(|| Error::invalid("PartitionKey value must be supplied for this operation."))?;
    call.engine().models().must_stay_within(container, super::grant::reach(call))?;
    let places = call.engine().erasure().erase_partition_key(container, &key)?;
    let charge = charge::catalog_read();
    let reply = Reply::empty(StatusCode::OK).charge(charge).of_container();
    if let [place] = places[..] {
        return Ok(reply.place(container, place));
    }
    let tokens = places.iter().map(|place| container.token(place.partition, place.lsn));
    let tokens: Vec<String> = tokens.collect();
    Ok(reply.sessions(tokens.join(",")))
}

pub(crate) fn encode_write(call: &Call, container: &Container, written: Written) -> Reply {
    let status = match written.outcome {
        Outcome::Created => StatusCode::CREATED,
        Outcome::Replaced => StatusCode::OK,
        Outcome::Deleted => StatusCode::NO_CONTENT,
    };
    let deleted = written.outcome == Outcome::Deleted;
    let warnings = header_line(&written.warnings);
    if !deleted && !call.headers.prefer_minimal {
        let at = (container, written.place);
        let etag = written.stamp.etag;
        let reply = Reply::item(status, written.body, etag, written.charge, at).written();
        return reply.note_if(ReplyNote::ModelWarnings, warnings);
    }
    let reply = Reply::empty(status)
        .written()
        .charge(written.charge)
        .of_container()
        .note_if(ReplyNote::ModelWarnings, warnings)
        .place(container, written.place);
    if deleted { reply } else { reply.etag(written.stamp.etag) }
}

/// What the model has to say, in one line that a header may hold.
fn header_line(warnings: &[String]) -> Option<String> {
    if warnings.is_empty() {
        return None;
    }
    let text: String = warnings.join("; ").chars().take(limits::MODEL_WARNINGS_CHARS_MAX).collect();
    Some(text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect())
}

/// Whether the request names triggers, which run inside the write.
pub(crate) fn names_triggers(call: &Call) -> bool {
    !call.headers.pre_triggers.is_empty() || !call.headers.post_triggers.is_empty()
}

/// A write with its triggers. Its body is read when those before it have had their say.
fn write_with_triggers(call: &Call) -> Result<Reply> {
    let (Target::Items(at) | Target::Item(at, _)) = &call.link.target else {
        return Err(Error::MethodNotAllowed);
    };
    let container = call.container(at)?;
    let (kind, item) = match (call.operation, &call.link.target) {
        (Operation::UpsertItem, _) => (WriteKind::Upsert, None),
        (Operation::CreateItem, _) => (WriteKind::Create, None),
        (Operation::ReplaceItem, Target::Item(_, id)) => (WriteKind::Replace, Some(id.clone())),
        (Operation::PatchItem, Target::Item(_, id)) => (WriteKind::Patch, Some(id.clone())),
        (Operation::DeleteItem, Target::Item(_, id)) => (WriteKind::Delete, Some(id.clone())),
        _ => return Err(Error::MethodNotAllowed),
    };
    let write = TriggeredWrite { kind, item, text: call.body()?, conditions: call.conditions() };
    let names = TriggerNames {
        before: call.headers.pre_triggers.clone(),
        after: call.headers.post_triggers.clone(),
    };
    let key = call.partition_key()?;
    let facts = super::script::facts(call, container);
    let engine = call.engine();
    engine.models().must_stay_within(container, super::grant::reach(call))?;
    let written =
        engine.scripts().write_with_triggers(container, key.as_ref(), &write, &names, &facts)?;
    Ok(encode_write(call, container, written))
}

pub(crate) fn feed(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let scope = scope(call, container)?;
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let continuation = call.headers.continuation.as_deref();
    let cancellation = call.cancellation.as_ref();
    let page = call.engine().queries().read_items_until(
        container,
        &scope,
        size,
        continuation,
        cancellation,
    )?;
    let bytes = page.items.iter().map(bytes::Bytes::len).sum();
    let body = resources::feed_text(
        container.rid_text(),
        "Documents",
        page.items.iter().map(|i| &**i),
        bytes,
    );
    Ok(Reply::json(StatusCode::OK, body)
        .item_count(page.items.len())
        .continuation(page.continuation)
        .sessions_and_range(page.session_token)
        .charge(call.read_charge(page.charge))
        .of_container())
}

/// The partition that a request addresses, for the session of a client that was refused.
pub(crate) fn addressed(call: &Call, container: &Container) -> Option<CommitPosition> {
    let mut part = scope_request(call).unwrap_or_default();
    let (Target::Items(_) | Target::Item(..)) = &call.link.target else {
        return call.engine().sessions().addressed(container, &part);
    };
    // An item that is written may name its key in its body alone.
    if part.partition_key.is_none() && !call.operation.reads() && !call.headers.is_batch {
        let known = call.labels.body_key.get().cloned();
        part.partition_key =
            known.unwrap_or_else(|| item_body(call, container).ok().map(|body| body.key));
    }
    call.engine().sessions().addressed(container, &part)
}

/// The part of the container that a feed or query names.
pub(crate) fn scope(call: &Call, container: &Container) -> Result<Scope> {
    container.scope(&scope_request(call)?)
}

/// The same, as the request names it.
pub(crate) fn scope_request(call: &Call) -> Result<ScopeRequest> {
    let headers = &call.headers;
    let interval = headers.start_epk.is_some() || headers.end_epk.is_some();
    if interval && headers.read_key_type == Some(ReadKeyType::EffectivePartitionKey) {
        return Err(Error::invalid("One of the input values is invalid."));
    }
    let text = |header: &Option<String>| header.as_deref().map(Into::into);
    Ok(ScopeRequest {
        partition_key: call.partition_key()?,
        range_id: text(&headers.partition_key_range_id),
        start: text(&headers.start_epk),
        end: text(&headers.end_epk),
    })
}
