//! `GET /_orrery/statistics`: what requests did since the start. Ours; `orrery top` asks for it.

use http::StatusCode;

use crate::call::Call;
use crate::wire::reply::Reply;

pub(crate) fn read(call: &Call) -> Reply {
    let statistics = call.shared.statistics.to_value(call.shared.clock.now_us());
    Reply::json(StatusCode::OK, statistics.to_json())
}
