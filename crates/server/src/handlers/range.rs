//! Physical partitions over HTTP. SDKs read the list again and again until it answers 304, so the
//! etag must say when nothing changed. Splits and merges are asked for here too; they answer when they
//! are done.

use http::StatusCode;
use orrery_engine::partition::layout::LayoutChangeResult;
use orrery_types::{EffectiveKey, Error, Result, Value};

use crate::call::Call;
use crate::wire::link::ContainerAddress;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "PartitionKeyRanges";

pub(crate) fn list(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let etag = call.engine().layouts().ranges_etag(container)?;
    let unchanged = call.headers.if_none_match.as_deref() == Some(etag.as_str());
    let reply = if unchanged {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        let ranges = call.engine().layouts().list_ranges(container)?;
        let bodies: Vec<Value> = ranges.into_iter().map(|r| r.body).collect();
        resources::values(container.rid_text(), LIST, &bodies)
    };
    Ok(reply
        .etag_text(etag)
        .charge(orrery_engine::throughput::charge::catalog_read())
        .of_container())
}

pub(crate) fn query(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let ranges = call.engine().layouts().list_ranges(container)?;
    let bodies: Vec<Value> = ranges.into_iter().map(|r| r.body).collect();
    let reply = super::query::resources(call, container.rid_text(), LIST, bodies)?;
    Ok(reply.of_container())
}

/// `{"range": "0", "at": "20…"}`: both may be left out.
pub(crate) fn split(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let body = asked(call)?;
    let range = optional_text(body, "range")?;
    let boundary = optional_text(body, "at")?.map(effective_key).transpose()?;
    let engine = call.engine();
    let done =
        engine.layouts().split_partition(&at.database, &at.container, range, boundary.as_ref())?;
    layout_changed(call, at, &done)
}

/// `{"ranges": ["1", "2"]}`, which may be left out.
pub(crate) fn merge(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let body = asked(call)?;
    let ranges = match body.get("ranges") {
        Value::Undefined | Value::Null => None,
        given => match given.as_array().unwrap_or_default() {
            [first, second] => first.as_str().zip(second.as_str()),
            _ => None,
        }
        .map(Some)
        .ok_or_else(|| Error::invalid("'ranges' must be an array of two ids of ranges."))?,
    };
    let done = call.engine().layouts().merge_partitions(&at.database, &at.container, ranges)?;
    layout_changed(call, at, &done)
}

/// The body of such a request; an empty one leaves everything out.
fn asked(call: &Call) -> Result<&Value> {
    if call.request.body.is_empty() {
        return Ok(&Value::Undefined);
    }
    let body = call.json()?;
    if body.as_object().is_none() {
        return Err(Error::invalid("The request body must be a JSON object."));
    }
    Ok(body)
}

fn optional_text<'v>(body: &'v Value, name: &str) -> Result<Option<&'v str>> {
    match body.get(name) {
        Value::Undefined | Value::Null => Ok(None),
        given => given
            .as_str()
            .map(Some)
            .ok_or_else(|| Error::invalid(format!("'{name}' must be a string."))),
    }
}

fn effective_key(hex: &str) -> Result<EffectiveKey> {
    EffectiveKey::parse(hex)
        .ok_or_else(|| Error::invalid(format!("'{hex}' is not an effective key in hex.")))
}

fn layout_changed(call: &Call, at: &ContainerAddress, done: &LayoutChangeResult) -> Result<Reply> {
    // The reply names it, as it is now.
    call.container(at)?;
    let ids = |ids: &[u32]| Value::array(ids.iter().map(|id| id.to_string().into()).collect());
    let mut body = orrery_types::Object::new();
    body.set("parents", ids(&done.parents));
    body.set("children", ids(&done.children));
    let body = Value::object(body).to_json();
    Ok(Reply::json(StatusCode::OK, body).charge(1.0).of_container())
}
