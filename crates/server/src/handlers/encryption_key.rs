//! Client encryption keys over HTTP.

use http::StatusCode;
use orrery_engine::charge;
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use crate::call::Call;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "ClientEncryptionKeys";

pub(crate) fn create(call: &Call, db: &Address) -> Result<Reply> {
    let key = call.engine().create_encryption_key(db, call.json()?)?;
    Ok(Reply::resource(StatusCode::CREATED, &key).charge(charge::catalog_write()))
}

pub(crate) fn read(call: &Call, db: &Address, id: &Address) -> Result<Reply> {
    let key = call.engine().read_encryption_key(db, id)?;
    if call.conditions().unmodified(key.stamp) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).etag(key.stamp.etag));
    }
    Ok(Reply::resource(StatusCode::OK, &key).charge(charge::catalog_read()))
}

pub(crate) fn replace(call: &Call, db: &Address, id: &Address) -> Result<Reply> {
    let conditions = call.conditions();
    let key = call.engine().replace_encryption_key(db, id, call.json()?, &conditions)?;
    Ok(Reply::resource(StatusCode::OK, &key).charge(charge::catalog_write()))
}

pub(crate) fn delete(call: &Call, db: &Address, id: &Address) -> Result<Reply> {
    call.engine().delete_encryption_key(db, id, &call.conditions())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write()))
}

pub(crate) fn list(call: &Call, db: &Address) -> Result<Reply> {
    let (database, keys) = call.engine().list_encryption_keys(db)?;
    resources::resources(Some(database), LIST, keys, &call.headers)
}

pub(crate) fn query(call: &Call, db: &Address) -> Result<Reply> {
    let (database, keys) = call.engine().list_encryption_keys(db)?;
    let bodies: Vec<Value> = keys.into_iter().map(|k| k.body).collect();
    super::query::resources(call, &database.to_string(), LIST, bodies)
}
