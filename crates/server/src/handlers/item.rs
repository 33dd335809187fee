//! Items over HTTP: point operations and the feed.

use http::StatusCode;
use orrery_engine::Container;
use orrery_engine::feed::PageSize;
use orrery_engine::items::{Outcome, Written};
use orrery_engine::patch::Patch;
use orrery_engine::scope::{Scope, ScopeRequest};
use orrery_types::ids::Address;
use orrery_types::{Error, Result};

use crate::api::Call;
use crate::headers::{self, ReadKeyType};
use crate::link::ContainerAddress;
use crate::reply::Reply;
use crate::wire;

pub(crate) fn read(call: &Call, at: &ContainerAddress, id: &Address) -> Result<Reply> {
    let container = call.container(at)?;
    let key = call.partition_key()?;
    let item = call.engine().read_item(&container, key.as_ref(), id)?;
    let reply = if call.conditions().unmodified(item.stamp) {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        Reply::json(StatusCode::OK, item.body)
    };
    Ok(reply
        .etag(item.stamp.etag)
        .charge(item.charge)
        .container(&container)
        .place(&container, item.place))
}

pub(crate) fn create(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    check_triggers(call)?;
    let (key, body) = (call.partition_key()?, call.body()?);
    let written = if call.headers.is_upsert {
        call.engine().upsert_item(&container, key.as_ref(), &body, &call.conditions())
    } else {
        call.engine().create_item(&container, key.as_ref(), &body)
    };
    Ok(wrote(call, &container, written?))
}

pub(crate) fn replace(call: &Call, at: &ContainerAddress, id: &Address) -> Result<Reply> {
    let container = call.container(at)?;
    check_triggers(call)?;
    let (key, body) = (call.partition_key()?, call.body()?);
    let conditions = call.conditions();
    let written = call.engine().replace_item(&container, key.as_ref(), id, &body, &conditions)?;
    Ok(wrote(call, &container, written))
}

pub(crate) fn patch(call: &Call, at: &ContainerAddress, id: &Address) -> Result<Reply> {
    let container = call.container(at)?;
    check_triggers(call)?;
    let key = call.partition_key()?;
    let patch = Patch::parse(&call.json()?)?;
    let conditions = call.conditions();
    let written = call.engine().patch_item(&container, key.as_ref(), id, &patch, &conditions)?;
    Ok(wrote(call, &container, written))
}

pub(crate) fn delete(call: &Call, at: &ContainerAddress, id: &Address) -> Result<Reply> {
    let container = call.container(at)?;
    check_triggers(call)?;
    let key = call.partition_key()?;
    let written = call.engine().delete_item(&container, key.as_ref(), id, &call.conditions())?;
    Ok(wrote(call, &container, written))
}

fn wrote(call: &Call, container: &Container, written: Written) -> Reply {
    let status = match written.outcome {
        Outcome::Created => StatusCode::CREATED,
        Outcome::Replaced => StatusCode::OK,
        Outcome::Deleted => StatusCode::NO_CONTENT,
    };
    let deleted = written.outcome == Outcome::Deleted;
    let reply = if deleted || call.headers.prefer_minimal {
        Reply::empty(status)
    } else {
        Reply::json(status, written.body)
    };
    let reply = reply.charge(written.charge).container(container).place(container, written.place);
    if deleted { reply } else { reply.etag(written.stamp.etag) }
}

/// Triggers run inside the write; a server without them must not write as if they had run.
fn check_triggers(call: &Call) -> Result<()> {
    if call.headers.pre_triggers.is_empty() && call.headers.post_triggers.is_empty() {
        return Ok(());
    }
    Err(Error::NotImplemented(
        "The request names triggers; this version of the server does not have them.".into(),
    ))
}

pub(crate) fn feed(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let scope = scope(call, &container)?;
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let continuation = call.headers.continuation.as_deref();
    let page = call.engine().read_items(&container, &scope, size, continuation)?;
    let bytes = page.items.iter().map(bytes::Bytes::len).sum();
    let rid = container.rid().to_string();
    let body = wire::feed_text(&rid, "Documents", page.items.iter().map(|i| &**i), bytes);
    let count = page.items.len().to_string();
    let session = Some(page.session_token).filter(|t| !t.is_empty());
    Ok(Reply::json(StatusCode::OK, body)
        .header(headers::ITEM_COUNT, &count)
        .header_if(headers::CONTINUATION, page.continuation.as_deref())
        .header_if(headers::SESSION_TOKEN, session.as_deref())
        .charge(page.charge)
        .container(&container))
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
