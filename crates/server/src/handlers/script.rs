//! Scripts over HTTP: the three kinds as resources, and the execution of procedures.

use http::StatusCode;
use orrery_engine::script::CallFacts;
use orrery_engine::{Container, throughput::charge};
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use crate::call::Call;
use crate::wire::headers;
use crate::wire::link::{ContainerAddress, ScriptKind};
use crate::wire::reply::{Reply, ReplyNote};
use crate::wire::resources;

fn list_name(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Procedure => "StoredProcedures",
        ScriptKind::Trigger => "Triggers",
        ScriptKind::Udf => "UserDefinedFunctions",
    }
}

/// How many scripts and how much data the container may hold, and how much of that it does.
fn with_quota(call: &Call, container: &Container, reply: Reply) -> Result<Reply> {
    let (quota, used) = call.engine().scripts().quota(container)?;
    Ok(reply.note(ReplyNote::ResourceQuota, quota).note(ReplyNote::ResourceUsage, used))
}

pub(crate) fn create(call: &Call, at: &ContainerAddress, kind: ScriptKind) -> Result<Reply> {
    let container = call.container(at)?;
    let upsert = call.headers.is_upsert;
    let (script, created) =
        call.engine().scripts().create(container, kind, call.json()?, upsert)?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::resource(status, &script).charge(charge::catalog_write());
    with_quota(call, container, reply.of_container())
}

pub(crate) fn read(
    call: &Call,
    at: &ContainerAddress,
    kind: ScriptKind,
    id: &Address,
) -> Result<Reply> {
    let container = call.container(at)?;
    let script = call.engine().scripts().read(container, kind, id)?;
    let reply = if call.conditions().unmodified(script.stamp) {
        Reply::empty(StatusCode::NOT_MODIFIED).etag(script.stamp.etag)
    } else {
        Reply::resource(StatusCode::OK, &script)
    };
    with_quota(call, container, reply.charge(charge::catalog_read()).of_container())
}

pub(crate) fn replace(
    call: &Call,
    at: &ContainerAddress,
    kind: ScriptKind,
    id: &Address,
) -> Result<Reply> {
    let container = call.container(at)?;
    let (body, conditions) = (call.json()?, call.conditions());
    let script = call.engine().scripts().replace(container, kind, id, body, &conditions)?;
    let reply = Reply::resource(StatusCode::OK, &script);
    with_quota(call, container, reply.charge(charge::catalog_write()).of_container())
}

pub(crate) fn delete(
    call: &Call,
    at: &ContainerAddress,
    kind: ScriptKind,
    id: &Address,
) -> Result<Reply> {
    let container = call.container(at)?;
    call.engine().scripts().delete(container, kind, id, &call.conditions())?;
    let reply = Reply::empty(StatusCode::NO_CONTENT);
    with_quota(call, container, reply.charge(charge::catalog_write()).of_container())
}

pub(crate) fn list(call: &Call, at: &ContainerAddress, kind: ScriptKind) -> Result<Reply> {
    let container = call.container(at)?;
    let scripts = call.engine().scripts().list(container, kind)?;
    let reply =
        resources::resources(Some(container.rid()), list_name(kind), scripts, &call.headers)?;
    Ok(reply.of_container())
}

pub(crate) fn query(call: &Call, at: &ContainerAddress, kind: ScriptKind) -> Result<Reply> {
    let container = call.container(at)?;
    let scripts = call.engine().scripts().list(container, kind)?;
    let bodies: Vec<Value> = scripts.into_iter().map(|script| script.body).collect();
    let rid = container.rid().to_string();
    let reply = super::query::resources(call, &rid, list_name(kind), bodies)?;
    Ok(reply.of_container())
}

/// Runs a procedure. What it answered is the body, always as JSON.
pub(crate) fn execute(call: &Call, at: &ContainerAddress, id: &Address) -> Result<Reply> {
    let container = call.container(at)?;
    let key = call.partition_key()?;
    let facts = facts(call, container);
    let body = call.body()?;
    call.engine().models().must_stay_within(container, super::grant::reach(call))?;
    let executed =
        call.engine().scripts().execute_procedure(container, id, key.as_ref(), &body, &facts)?;
    Ok(Reply::json(StatusCode::OK, executed.body)
        .written()
        .script_log(&executed.log)
        .charge(executed.charge)
        .of_container()
        .place(container, executed.place))
}

/// The properties of the request that a script can read. Credentials are not among them.
pub(crate) fn facts(call: &Call, container: &Container) -> CallFacts {
    let told = |name: &str| name.starts_with(headers::PREFIX) || name == headers::IF_MATCH;
    let sent = call.request.headers.iter().filter(|(name, _)| told(name.as_str()));
    CallFacts {
        self_link: container.self_link().to_owned(),
        alt_link: container.alt_link().to_owned(),
        headers: sent
            .filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
            })
            .collect(),
        is_logging: call.headers.script_logging,
        ..CallFacts::default()
    }
}
