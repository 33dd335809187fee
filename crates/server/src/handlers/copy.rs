//! A copy of the whole store over HTTP: `POST /_copies` begins one, `POST /_copies/{id}/steps/{step}` reads of it or closes
//! it, `DELETE /_copies/{id}` ends it. Ours alone, for `orrery copy`; only a read-write key opens it.

use http::StatusCode;
use orrery_types::Result;

use crate::call::Call;
use crate::copies::CopyStep;
use crate::wire::reply::Reply;

pub(crate) fn begin(call: &Call) -> Result<Reply> {
    let copy = call.shared.copies.begin(call.engine(), call.shared.clock.now_s())?;
    Ok(Reply::json(StatusCode::CREATED, copy.to_json()))
}

pub(crate) fn step(call: &Call, id: &str, step: CopyStep) -> Result<Reply> {
    let now_s = call.shared.clock.now_s();
    let answer = call.shared.copies.step((id, step), &call.request.body, now_s)?;
    Ok(Reply::binary(StatusCode::OK, answer))
}

pub(crate) fn end(call: &Call, id: &str) -> Result<Reply> {
    call.shared.copies.end(id)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
