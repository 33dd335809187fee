//! `/_orrery/tasks`: background work that fails. Ours; `orrery tasks` asks for it.

use http::StatusCode;
use orrery_types::ids::Address;
use orrery_types::{Error, Object, Result, Value};

use crate::call::Call;
use crate::wire::reply::Reply;

/// Every unit that failed the last time: what, why, and when it is tried again.
pub(crate) fn list(call: &Call) -> Reply {
    let mut body = Object::new();
    body.set("tasks", call.engine().background().failing_work());
    Reply::json(StatusCode::OK, Value::object(body).to_json())
}

/// Tries them again, all or with `{"database": "shop"}` those of one database.
pub(crate) fn retry(call: &Call) -> Result<Reply> {
    let asked = if call.request.body.is_empty() { &Value::Undefined } else { call.json()? };
    let database = match asked.get("database") {
        Value::Undefined | Value::Null => None,
        Value::String(id) => Some(Address::Name(id.to_string())),
        _ => return Err(Error::invalid("'database' must be a string: the id of a database.")),
    };
    let retried = call.engine().background().retry_failing_work(database.as_ref())?;
    let mut body = Object::new();
    body.set("retried", Value::from(i64::try_from(retried).unwrap_or(i64::MAX)));
    Ok(Reply::json(StatusCode::OK, Value::object(body).to_json()))
}
