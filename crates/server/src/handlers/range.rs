//! Physical partitions over HTTP. SDKs read the list again and again until it answers 304, so the
//! etag must say when nothing changed.

use http::StatusCode;
use orrery_types::{Result, Value};

use crate::api::Call;
use crate::headers;
use crate::link::ContainerAddress;
use crate::reply::Reply;
use crate::wire;

const LIST: &str = "PartitionKeyRanges";

pub(crate) fn list(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let etag = container.ranges_etag();
    let unchanged = call.headers.if_none_match.as_deref() == Some(etag.as_str());
    let reply = if unchanged {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        let ranges = call.engine().list_ranges(&container)?;
        let bodies: Vec<Value> = ranges.into_iter().map(|r| r.body).collect();
        wire::values(container.rid_text(), LIST, &bodies)
    };
    Ok(reply
        .header(headers::ETAG, &etag)
        .charge(orrery_engine::charge::catalog_read())
        .container(&container))
}

pub(crate) fn query(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let ranges = call.engine().list_ranges(&container)?;
    let bodies: Vec<Value> = ranges.into_iter().map(|r| r.body).collect();
    super::query::resources(call, container.rid_text(), LIST, bodies)
}
