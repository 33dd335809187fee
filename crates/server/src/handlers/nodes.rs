//! `GET /_orrery/nodes`: the processes that serve the same store, and who of them does what beside requests. Ours;
//! `orrery nodes` asks for it.

use http::StatusCode;
use orrery_types::Result;

use crate::call::Call;
use crate::wire::reply::Reply;

/// The nodes as the store has them, whichever of them is asked; none if the store is of one process.
pub(crate) fn list(call: &Call) -> Result<Reply> {
    Ok(Reply::json(StatusCode::OK, call.engine().nodes().report()?.to_json()))
}
