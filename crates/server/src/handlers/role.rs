//! Role definitions and assignments over HTTP. Ours: the service has them in its management plane, and
//! the JSON is the same.

use http::StatusCode;
use orrery_engine::catalog::role::RoleResource;
use orrery_engine::item::read::Outcome;
use orrery_engine::throughput::charge;
use orrery_types::{Object, Result, Value};
use uuid::Uuid;

use crate::call::Call;
use crate::wire::reply::Reply;

pub(crate) fn list_definitions(call: &Call) -> Reply {
    list("RoleDefinitions", call.engine().roles().list_definitions())
}

pub(crate) fn list_assignments(call: &Call) -> Reply {
    list("RoleAssignments", call.engine().roles().list_assignments())
}

/// All of them on one page: their number is limited.
fn list(name: &str, all: Vec<RoleResource>) -> Reply {
    let mut body = Object::new();
    body.set("_count", i64::try_from(all.len()).unwrap_or(i64::MAX).into());
    body.set(name, Value::array(all.into_iter().map(|one| one.body).collect()));
    Reply::json(StatusCode::OK, Value::object(body).to_json()).charge(charge::catalog_read())
}

pub(crate) fn read_definition(call: &Call, id: &str) -> Result<Reply> {
    Ok(read(call, &call.engine().roles().read_definition(id)?))
}

pub(crate) fn read_assignment(call: &Call, id: &str) -> Result<Reply> {
    Ok(read(call, &call.engine().roles().read_assignment(id)?))
}

fn read(call: &Call, found: &RoleResource) -> Reply {
    if call.conditions().unmodified(found.stamp) {
        return Reply::empty(StatusCode::NOT_MODIFIED).etag(found.stamp.etag);
    }
    reply(StatusCode::OK, found).charge(charge::catalog_read())
}

fn reply(status: StatusCode, found: &RoleResource) -> Reply {
    Reply::json(status, found.body.to_json()).etag(found.stamp.etag)
}

pub(crate) fn create_definition(call: &Call) -> Result<Reply> {
    store_definition(call, &id_of(call.json()?))
}

pub(crate) fn create_assignment(call: &Call) -> Result<Reply> {
    store_assignment(call, &id_of(call.json()?))
}

/// The id that a body names, or a new one.
fn id_of(body: &Value) -> String {
    let named = [body.get("id"), body.get("Id"), body.get("name")];
    let named = named.into_iter().find_map(Value::as_str);
    named.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned)
}

pub(crate) fn store_definition(call: &Call, id: &str) -> Result<Reply> {
    let roles = call.engine().roles();
    let (outcome, role) = roles.store_definition(id, call.json()?, &call.conditions())?;
    Ok(stored(outcome, &role))
}

pub(crate) fn store_assignment(call: &Call, id: &str) -> Result<Reply> {
    let roles = call.engine().roles();
    let (outcome, assignment) = roles.store_assignment(id, call.json()?, &call.conditions())?;
    Ok(stored(outcome, &assignment))
}

fn stored(outcome: Outcome, found: &RoleResource) -> Reply {
    let is_new = outcome == Outcome::Created;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    reply(status, found).charge(charge::catalog_write())
}

pub(crate) fn delete_definition(call: &Call, id: &str) -> Result<Reply> {
    call.engine().roles().delete_definition(id, &call.conditions())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write()))
}

pub(crate) fn delete_assignment(call: &Call, id: &str) -> Result<Reply> {
    call.engine().roles().delete_assignment(id, &call.conditions())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write()))
}
