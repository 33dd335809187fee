//! Queries over HTTP: of items, of the catalog's feeds, and the plans that SDKs ask for.

use orrery_engine::feed::PageSize;
use orrery_engine::query::QueryRequest;
use orrery_types::{Error, Result, Value};

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
    if !scope.confined && !call.headers.enable_cross_partition {
        return Err(Error::invalid(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        ));
    }
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let continuation = call.headers.continuation.as_deref();
    let page = call.engine().query_items(&container, &scope, &request, size, continuation)?;
    let session = Some(page.session_token).filter(|t| !t.is_empty());
    Ok(wire::values(&container.rid().to_string(), "Documents", &page.rows)
        .header_if(headers::CONTINUATION, page.continuation.as_deref())
        .header_if(headers::SESSION_TOKEN, session.as_deref())
        .header(headers::REQUIRES_DISTRIBUTION, "False")
        .charge(page.charge)
        .container(&container))
}

/// Plans come with the query capability; until then a client is told plainly.
pub(crate) fn plan(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    call.container(at)?;
    Err(Error::NotImplemented(
        "Query plans: this version of the server does not have them; it answers queries whole."
            .into(),
    ))
}

/// A query over resources of the catalog, whole.
pub(crate) fn resources(call: &Call, rid: &str, list: &str, bodies: Vec<Value>) -> Result<Reply> {
    let request = QueryRequest::parse(&call.json()?)?;
    let rows = call.engine().query_values(bodies, &request)?;
    Ok(wire::values(rid, list, &rows).charge(2.0))
}
