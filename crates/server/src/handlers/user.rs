//! Users over HTTP.

use http::StatusCode;
use orrery_engine::throughput::charge;
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use crate::call::Call;
use crate::wire::link::UserAddress;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "Users";

pub(crate) fn create(call: &Call, db: &Address) -> Result<Reply> {
    let (user, created) = call.engine().users().create(db, call.json()?, call.headers.is_upsert)?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::resource(status, &user).charge(charge::catalog_write());
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn read(call: &Call, at: &UserAddress) -> Result<Reply> {
    let user = call.engine().users().read(&at.database, &at.user)?;
    if call.conditions().unmodified(user.stamp) {
        let reply = Reply::empty(StatusCode::NOT_MODIFIED).etag(user.stamp.etag);
        return Ok(call.owned_by_database(&at.database, reply));
    }
    let reply = Reply::resource(StatusCode::OK, &user).charge(charge::catalog_read());
    Ok(call.owned_by_database(&at.database, reply))
}

pub(crate) fn replace(call: &Call, at: &UserAddress) -> Result<Reply> {
    let conditions = call.conditions();
    let user = call.engine().users().replace(&at.database, &at.user, call.json()?, &conditions)?;
    let reply = Reply::resource(StatusCode::OK, &user).charge(charge::catalog_write());
    Ok(call.owned_by_database(&at.database, reply))
}

pub(crate) fn delete(call: &Call, at: &UserAddress) -> Result<Reply> {
    call.engine().users().delete(&at.database, &at.user, &call.conditions())?;
    let reply = Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write());
    Ok(call.owned_by_database(&at.database, reply))
}

pub(crate) fn list(call: &Call, db: &Address) -> Result<Reply> {
    let (database, users) = call.engine().users().list(db)?;
    let reply = resources::resources(Some(database), LIST, users, &call.headers)?;
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn query(call: &Call, db: &Address) -> Result<Reply> {
    let (database, users) = call.engine().users().list(db)?;
    let bodies: Vec<Value> = users.into_iter().map(|u| u.body).collect();
    let reply = super::query::resources(call, &database.to_string(), LIST, bodies)?;
    Ok(call.owned_by_database(db, reply))
}
