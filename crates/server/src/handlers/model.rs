//! The model of a database over HTTP.

use http::StatusCode;
use orrery_engine::item::read::Outcome;
use orrery_engine::model::{ModelVerification, Verification, VerificationProgress, Verified};
use orrery_engine::throughput::charge;
use orrery_types::ids::Address;
use orrery_types::{Object, Result, Value};

use crate::call::Call;
use crate::wire::headers::ModelVerify;
use crate::wire::reply::Reply;

pub(crate) fn read(call: &Call, db: &Address) -> Result<Reply> {
    match call.headers.model_verify {
        ModelVerify::No => {}
        ModelVerify::Wait => {
            let found = call
                .engine()
                .model_verification()
                .verify_watched(db, &VerificationProgress::default())?;
            return Ok(answered(StatusCode::OK, findings(&found)));
        }
        ModelVerify::Start => {
            return verification(&ModelVerification::start(&call.shared.engine, db)?);
        }
        ModelVerify::State => return verification(&call.engine().model_verification().newest(db)?),
    }
    let model = call.engine().models().read(db)?;
    if call.conditions().unmodified(model.stamp) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).etag(model.stamp.etag));
    }
    Ok(Reply::resource(StatusCode::OK, &model).charge(charge::catalog_read()))
}

/// Findings about the database. The data is read for it.
pub(crate) fn advise(call: &Call, db: &Address) -> Result<Reply> {
    let report = call.engine().insight().advise(db)?;
    Ok(Reply::json(StatusCode::OK, report.to_json()).charge(charge::catalog_read()))
}

/// How far a verification is, or what it has found.
fn verification(state: &Verification) -> Result<Reply> {
    let state = match state {
        Verification::Running(percent) => {
            let mut body = Object::new();
            body.set("state", "running".into());
            body.set("progress", count(*percent));
            return Ok(answered(StatusCode::ACCEPTED, body));
        }
        Verification::Ended(result) => result.clone()?,
    };
    let mut body = findings(&state);
    body.set("state", "done".into());
    Ok(answered(StatusCode::OK, body))
}

/// Everything that is not as the model promises.
fn findings(found: &Verified) -> Object {
    let list = found.drift.iter().map(|text| Value::from(text.as_str())).collect();
    let mut body = Object::new();
    body.set("drift", Value::array(list));
    body.set("driftCount", count(found.drift_count as u64));
    body.set("pending", count(found.pending as u64));
    body.set("items", count(found.items));
    body
}

fn count(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

fn answered(status: StatusCode, body: Object) -> Reply {
    Reply::json(status, Value::object(body).to_json()).charge(charge::catalog_read())
}

pub(crate) fn store(call: &Call, db: &Address) -> Result<Reply> {
    let (outcome, model) = call.engine().models().store(db, call.json()?, &call.conditions())?;
    let made = outcome == Outcome::Created;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::resource(status, &model).charge(charge::catalog_write()))
}

pub(crate) fn delete(call: &Call, db: &Address) -> Result<Reply> {
    call.engine().models().delete(db, &call.conditions())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write()))
}
