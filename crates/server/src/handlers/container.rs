//! Containers over HTTP, and the feed of conflicts, which one region never has.

use http::StatusCode;
use orrery_engine::query::crossing_refused;
use orrery_engine::{Container, throughput::charge};
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use super::item::scope;
use crate::call::Call;
use crate::wire::link::ContainerAddress;
use crate::wire::reply::{Reply, ReplyNote};
use crate::wire::resources;

const LIST: &str = "DocumentCollections";

/// A container's answers name its database as owner.
fn with_owner(reply: Reply, container: &Container) -> Reply {
    let names = format!("dbs/{}", container.database_id);
    reply.owner(container.database_rid().to_string(), names)
}

pub(crate) fn create(call: &Call, db: &Address) -> Result<Reply> {
    let engine = call.engine();
    let container = engine.containers().create(db, call.json()?, &call.throughput())?;
    let shares = !engine.offers().has_throughput(container.rid)?;
    let reply = Reply::resource(StatusCode::CREATED, &container)
        .charge(charge::catalog_write())
        .note_if(ReplyNote::ShareThroughput, shares.then_some("true"));
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn read(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.engine().containers().read(&at.database, &at.container)?;
    if call.conditions().unmodified(container.stamp) {
        let reply = Reply::empty(StatusCode::NOT_MODIFIED).etag(container.stamp.etag);
        return Ok(with_owner(reply, &container));
    }
    let mut resource = container.to_resource();
    if let Some(lag_s) = call.engine().secondary_indexes().lag_of(&container)
        && let Some(body) = resource.body.as_object_mut()
    {
        body.set("lagInSeconds", Value::from(i64::try_from(lag_s).unwrap_or(i64::MAX)));
    }
    if call.headers.populate_range_statistics {
        let statistics = call.engine().insight().statistics(&container)?;
        if let Some(body) = resource.body.as_object_mut() {
            body.set("statistics", statistics);
        }
    }
    let mut reply = Reply::resource(StatusCode::OK, &resource).charge(charge::catalog_read());
    if call.headers.populate_quota_info {
        let progress = call.engine().index_build().index_progress(&container)?;
        let usage = call.engine().insight().usage(&container)?;
        let used = format!(
            "functions=0;storedProcedures=0;triggers=0;documentSize={};documentsSize={};\
             documentsCount={};collectionSize={};",
            usage.kilobytes / 1024,
            usage.kilobytes,
            usage.items,
            usage.kilobytes
        );
        let quota = "functions=50;storedProcedures=100;triggers=25;documentSize=10240;\
                     documentsSize=10485760;documentsCount=-1;collectionSize=10485760;";
        reply = reply
            .index_progress(progress)
            .note(ReplyNote::ResourceQuota, quota)
            .note(ReplyNote::ResourceUsage, used);
    }
    Ok(with_owner(reply, &container))
}

pub(crate) fn replace(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let engine = call.engine();
    let container = engine.containers().replace(
        &at.database,
        &at.container,
        call.json()?,
        &call.conditions(),
    )?;
    let reply = Reply::resource(StatusCode::OK, &container).charge(charge::catalog_write());
    Ok(call.owned_by_database(&at.database, reply))
}

pub(crate) fn delete(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    call.engine().containers().delete(&at.database, &at.container, &call.conditions())?;
    let reply = Reply::empty(StatusCode::NO_CONTENT).charge(charge::catalog_write());
    Ok(call.owned_by_database(&at.database, reply))
}

pub(crate) fn list(call: &Call, db: &Address) -> Result<Reply> {
    let (database, containers) = call.engine().containers().list(db)?;
    let reply = resources::resources(Some(database), LIST, containers, &call.headers)?;
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn query(call: &Call, db: &Address) -> Result<Reply> {
    let (database, containers) = call.engine().containers().list(db)?;
    let bodies: Vec<Value> = containers.into_iter().map(|c| c.body).collect();
    let reply = super::query::resources(call, &database.to_string(), LIST, bodies)?;
    Ok(call.owned_by_database(db, reply))
}

pub(crate) fn conflicts(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let queries = call.headers.is_query;
    if queries && !scope(call, container)?.confined && !call.headers.enable_cross_partition {
        return Err(crossing_refused());
    }
    Ok(resources::values(container.rid_text(), "Conflicts", &[]).of_container())
}
