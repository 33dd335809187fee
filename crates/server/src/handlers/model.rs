//! The model of a database over HTTP.

use http::StatusCode;
use orrery_engine::charge;
use orrery_engine::items::Outcome;
use orrery_types::ids::Address;
use orrery_types::{Object, Result, Value};

use crate::api::Call;
use crate::reply::Reply;

pub(crate) fn read(call: &Call, db: &Address) -> Result<Reply> {
    if call.headers.model_verify {
        return verify(call, db);
    }
    let model = call.engine().read_model(db)?;
    if call.conditions().unmodified(model.stamp) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).etag(model.stamp.etag));
    }
    Ok(Reply::resource(StatusCode::OK, &model).charge(charge::catalog_read()))
}

/// Findings about the database. The data is read for it.
pub(crate) fn advise(call: &Call, db: &Address) -> Result<Reply> {
    let report = call.engine().advise(db)?;
    Ok(Reply::json(StatusCode::OK, report.to_json()).charge(charge::catalog_read()))
}

/// Everything that is not as the model promises.
fn verify(call: &Call, db: &Address) -> Result<Reply> {
    let drift = call.engine().verify_model(db)?;
    let list = drift.iter().map(|text| Value::from(text.as_str())).collect();
    let mut body = Object::new();
    body.set("drift", Value::array(list));
    let text = Value::object(body).to_json();
    Ok(Reply::json(StatusCode::OK, text).charge(charge::catalog_read()))
}

pub(crate) fn store(call: &Call, db: &Address) -> Result<Reply> {
    let (outcome, model) = call.engine().store_model(db, &call.json()?, &call.conditions())?;
    let made = outcome == Outcome::Created;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::resource(status, &model).charge(charge::catalog_write()))
}

pub(crate) fn delete(call: &Call, db: &Address) -> Result<Reply> {
    call.engine().delete_model(db, &call.conditions())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write()))
}
