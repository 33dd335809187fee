//! Queries over HTTP: of items, of the catalog's feeds, and the plans that SDKs ask for.

use http::StatusCode;
use orrery_engine::feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{Result, Value};

use super::item::scope;
use crate::api::Call;
use crate::headers;
use crate::link::ContainerAddress;
use crate::reply::Reply;
use crate::wire;

/// A page of a query over items, answered whole: every clause is computed here.
pub(crate) fn items(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let request = QueryRequest::parse(&call.json()?)?;
    let scope = scope(call, &container)?;
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let paging = Paging {
        continuation: call.headers.continuation.as_deref(),
        crosses: call.headers.enable_cross_partition,
    };
    let page = call.engine().query_items(&container, &scope, &request, size, &paging)?;
    let session = Some(page.session_token).filter(|t| !t.is_empty());
    Ok(wire::texts_of(container.rid_text(), "Documents", &page.rows)
        .header_if(headers::CONTINUATION, page.continuation.as_deref())
        .header_if(headers::SESSION_TOKEN, session.as_deref())
        .header(headers::REQUIRES_DISTRIBUTION, "False")
        .charge(page.charge)
        .container(&container))
}

/// The plan for clients that merge over physical partitions themselves.
pub(crate) fn plan(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let request = QueryRequest::parse(&call.json()?)?;
    let scope = scope(call, &container)?;
    let plan = call.engine().query_plan(&container, &scope, &request)?;
    Ok(Reply::json(StatusCode::OK, plan).charge(1.0).container(&container))
}

/// A query over resources of the catalog, whole.
pub(crate) fn resources(call: &Call, rid: &str, list: &str, bodies: Vec<Value>) -> Result<Reply> {
    let request = QueryRequest::parse(&call.json()?)?;
    let rows = call.engine().query_values(bodies, &request)?;
    Ok(wire::values(rid, list, &rows).charge(2.0))
}
