//! The change feed over HTTP: a read of items that says `A-IM`. The position stands in the etag, and
//! 304 says that there is nothing after it yet.

use http::StatusCode;
use orrery_engine::change_feed::{ChangesRequest, Mode, Shape};
use orrery_engine::query::read_feed::PageSize;
use orrery_types::{Error, Result};

use super::item::scope_request;
use crate::call::Call;
use crate::wire::headers::{self, FeedMode};
use crate::wire::link::ContainerAddress;
use crate::wire::reply::Reply;
use crate::wire::resources;

/// The version of the format that has the metadata of a change beside the item, as SDKs name it.
const ENVELOPE_FORMAT: &str = "2021-09-15";

pub(crate) fn feed(call: &Call, at: &ContainerAddress, mode: FeedMode) -> Result<Reply> {
    let container = call.container(at)?;
    let mode = match (mode, shape(call)?) {
        (FeedMode::Incremental, shape) => Mode::Latest(shape),
        // There is one shape for them, whether it is named or not.
        (FeedMode::FullFidelity, _) => Mode::AllVersions,
    };
    let page = call.engine().change_feed().read_changes(
        container,
        &ChangesRequest {
            scope: scope_request(call)?,
            mode,
            after: call.headers.if_none_match.as_deref(),
            since_s: call.headers.if_modified_since_s,
            size: PageSize::from_header(call.headers.max_item_count)?,
        },
    )?;
    let reply = if page.changes.is_empty() && page.at_end {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        let bytes = page.changes.iter().map(bytes::Bytes::len).sum();
        let rid = container.rid().to_string();
        let body =
            resources::feed_text(&rid, "Documents", page.changes.iter().map(|c| &**c), bytes);
        Reply::json(StatusCode::OK, body)
    };
    let (range, lsn) = page.partition.unzip();
    Ok(reply
        .etag_text(page.etag)
        .item_count(page.changes.len())
        .range(range)
        .lsn(lsn)
        .sessions(page.session_token)
        .charge(call.read_charge(page.charge))
        .of_container())
}

fn shape(call: &Call) -> Result<Shape> {
    match call.headers.change_feed_format.as_deref() {
        None => Ok(Shape::Bare),
        Some(ENVELOPE_FORMAT) => Ok(Shape::Envelope),
        Some(other) => Err(Error::invalid(format!(
            "The header '{}' holds '{other}'; the known format is '{ENVELOPE_FORMAT}'.",
            headers::CHANGE_FEED_FORMAT
        ))),
    }
}
