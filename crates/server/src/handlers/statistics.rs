//! `GET /_orrery/statistics`: what requests did since the start. Ours; `orrery top` asks for it.

use http::StatusCode;
use orrery_types::Result;

use crate::api::Call;
use crate::reply::Reply;

pub(crate) fn read(call: &Call) -> Result<Reply> {
    let statistics = call.shared.statistics.to_value(call.shared.clock.now_us());
    Ok(Reply::json(StatusCode::OK, statistics.to_json()))
}
