//! Permissions over HTTP. Each is handed out with a token made for this answer.

use http::StatusCode;
use orrery_engine::{Resource, throughput::charge};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Result, Value, limits};

use super::grant::{check_body, granted};
use crate::call::Call;
use crate::wire::link::UserAddress;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "Permissions";

/// Seconds that tokens of this answer live.
fn token_life_s(call: &Call) -> Result<u64> {
    let life_s = call.headers.expiry_seconds.unwrap_or(limits::TOKEN_LIFE_S_DEFAULT);
    if limits::TOKEN_LIFE_S.contains(&life_s) {
        return Ok(life_s);
    }
    Err(Error::invalid(format!(
        "The life of a resource token must be from {} to {} seconds; it is {life_s}.",
        limits::TOKEN_LIFE_S.start(),
        limits::TOKEN_LIFE_S.end()
    )))
}

fn with_token(call: &Call, mut permission: Resource) -> Result<Resource> {
    let expires_s = call.shared.clock.now_s() + token_life_s(call)?;
    let grant = granted(call.engine(), &permission);
    let token = call.shared.authenticator.tokens().issue(&grant, expires_s);
    if let Some(body) = permission.body.as_object_mut() {
        body.set("_token", token.into());
    }
    Ok(permission)
}

fn listed(call: &Call, at: &UserAddress) -> Result<(Rid, Vec<Resource>)> {
    let (user, permissions) = call.engine().permissions().list(&at.database, &at.user)?;
    let permissions =
        permissions.into_iter().map(|p| with_token(call, p)).collect::<Result<_>>()?;
    Ok((user, permissions))
}

pub(crate) fn create(call: &Call, at: &UserAddress) -> Result<Reply> {
    token_life_s(call)?;
    let (body, upsert, engine) = (call.json()?, call.headers.is_upsert, call.engine());
    check_body(engine, &at.database, body)?;
    let (permission, created) =
        engine.permissions().create(&at.database, &at.user, body, upsert)?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let permission = with_token(call, permission)?;
    let reply = Reply::resource(status, &permission).charge(charge::catalog_write());
    Ok(call.owned_by_user(at, reply))
}

pub(crate) fn read(call: &Call, at: &UserAddress, id: &Address) -> Result<Reply> {
    let permission = call.engine().permissions().read(&at.database, &at.user, id)?;
    let permission = with_token(call, permission)?;
    let reply = Reply::resource(StatusCode::OK, &permission).charge(charge::catalog_read());
    Ok(call.owned_by_user(at, reply))
}

pub(crate) fn replace(call: &Call, at: &UserAddress, id: &Address) -> Result<Reply> {
    token_life_s(call)?;
    let (body, conditions) = (call.json()?, call.conditions());
    let engine = call.engine();
    check_body(engine, &at.database, body)?;
    let permission = engine.permissions().replace(&at.database, &at.user, id, body, &conditions)?;
    let permission = with_token(call, permission)?;
    let reply = Reply::resource(StatusCode::OK, &permission).charge(charge::catalog_write());
    Ok(call.owned_by_user(at, reply))
}

pub(crate) fn delete(call: &Call, at: &UserAddress, id: &Address) -> Result<Reply> {
    call.engine().permissions().delete(&at.database, &at.user, id, &call.conditions())?;
    let reply = Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write());
    Ok(call.owned_by_user(at, reply))
}

pub(crate) fn list(call: &Call, at: &UserAddress) -> Result<Reply> {
    let (user, permissions) = listed(call, at)?;
    let reply = resources::resources(Some(user), LIST, permissions, &call.headers)?;
    Ok(call.owned_by_user(at, reply))
}

pub(crate) fn query(call: &Call, at: &UserAddress) -> Result<Reply> {
    let (user, permissions) = listed(call, at)?;
    let bodies: Vec<Value> = permissions.into_iter().map(|p| p.body).collect();
    let reply = super::query::resources(call, &user.to_string(), LIST, bodies)?;
    Ok(call.owned_by_user(at, reply))
}
