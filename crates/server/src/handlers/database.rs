//! Databases over HTTP.

use http::StatusCode;
use orrery_engine::throughput::charge;
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use crate::call::Call;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "Databases";

pub(crate) fn create(call: &Call) -> Result<Reply> {
    let database = call.engine().databases().create(call.json()?, &call.throughput())?;
    Ok(Reply::resource(StatusCode::CREATED, &database).charge(charge::catalog_write()))
}

pub(crate) fn read(call: &Call, db: &Address) -> Result<Reply> {
    let database = call.engine().databases().read(db)?.to_resource();
    if call.conditions().unmodified(database.stamp) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).etag(database.stamp.etag));
    }
    Ok(Reply::resource(StatusCode::OK, &database).charge(charge::catalog_read()))
}

pub(crate) fn replace(call: &Call, db: &Address) -> Result<Reply> {
    let database = call.engine().databases().replace(db, call.json()?, &call.conditions())?;
    Ok(Reply::resource(StatusCode::OK, &database).charge(charge::catalog_write()))
}

pub(crate) fn delete(call: &Call, db: &Address) -> Result<Reply> {
    call.engine().databases().delete(db, &call.conditions())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write()))
}

pub(crate) fn list(call: &Call) -> Result<Reply> {
    resources::resources(None, LIST, call.engine().databases().list(), &call.headers)
}

pub(crate) fn query(call: &Call) -> Result<Reply> {
    let all = call.engine().databases().list();
    let bodies: Vec<Value> = all.into_iter().map(|d| d.body).collect();
    super::query::resources(call, "", LIST, bodies)
}
