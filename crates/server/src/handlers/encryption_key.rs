//! Client encryption keys over HTTP.

use http::StatusCode;
use orrery_engine::throughput::charge;
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use crate::call::Call;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "ClientEncryptionKeys";

pub(crate) fn create(call: &Call, db: &Address) -> Result<Reply> {
    let key = call.engine().encryption_keys().create(db, call.json()?)?;
    let reply = Reply::resource(StatusCode::CREATED, &key).charge(charge::catalog_write());
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn read(call: &Call, db: &Address, id: &Address) -> Result<Reply> {
    let key = call.engine().encryption_keys().read(db, id)?;
    if call.conditions().unmodified(key.stamp) {
        let reply = Reply::empty(StatusCode::NOT_MODIFIED).etag(key.stamp.etag);
        return Ok(call.owned_by_database(db, reply));
    }
    let reply = Reply::resource(StatusCode::OK, &key).charge(charge::catalog_read());
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn replace(call: &Call, db: &Address, id: &Address) -> Result<Reply> {
    let conditions = call.conditions();
    let key = call.engine().encryption_keys().replace(db, id, call.json()?, &conditions)?;
    let reply = Reply::resource(StatusCode::OK, &key).charge(charge::catalog_write());
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn delete(call: &Call, db: &Address, id: &Address) -> Result<Reply> {
    call.engine().encryption_keys().delete(db, id, &call.conditions())?;
    let reply = Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write());
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn list(call: &Call, db: &Address) -> Result<Reply> {
    let (database, keys) = call.engine().encryption_keys().list(db)?;
    let reply = resources::resources(Some(database), LIST, keys, &call.headers)?;
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn query(call: &Call, db: &Address) -> Result<Reply> {
    let (database, keys) = call.engine().encryption_keys().list(db)?;
    let bodies: Vec<Value> = keys.into_iter().map(|k| k.body).collect();
    let reply = super::query::resources(call, &database.to_string(), LIST, bodies)?;
    Ok(call.owned_by_database(db, reply))
}
