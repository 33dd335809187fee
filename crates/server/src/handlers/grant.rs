//! What the holder of a resource token may touch. A grant names one resource by rids; it opens
//! that resource and what is inside it, and so much of what is around it as SDKs must read first:
//! the account, the container's definition and its ranges.

use orrery_engine::Engine;
use orrery_engine::expansion::Reach;
use orrery_types::ids::Address;
use orrery_types::{PartitionKey, Result};

use crate::api::Call;
use crate::auth::{Principal, denied};
use crate::link::{ContainerAddress, ResourceLink, ScriptKind, Target};

/// Refuses what the principal's grant does not cover; keys cover everything.
pub(crate) fn check(call: &Call) -> Result<()> {
    let Principal::Grant(grant) = &call.principal else { return Ok(()) };
    let target = &call.link.target;
    if matches!(target, Target::Account) {
        return Ok(());
    }
    let link = target_link(call.engine(), target).ok_or_else(denied)?;
    let is_around = matches!(target, Target::Container(_) | Target::Ranges(_));
    let reads_around = call.reads() && is_around;
    let around = reads_around && {
        let container = link.trim_end_matches("pkranges").trim_end_matches('/');
        grant.resource.trim_matches('/').starts_with(container)
    };
    if !around && !grant.covers(&link) {
        return Err(denied());
    }
    let Some(key) = &grant.partition_key else { return Ok(()) };
    // A grant for one partition key opens what belongs to that key alone. A container and its scripts
    // are everybody's: who may change them reaches the items of all keys.
    match target {
        Target::Items(_) | Target::Item(..) | Target::PartitionKeyDelete(_) => check_key(call, key),
        Target::Script(_, ScriptKind::Procedure, _) if runs(call) => check_key(call, key),
        Target::Scripts(..) | Target::Script(..) if call.reads() => check_key(call, key),
        _ if reads_around => Ok(()),
        _ => Err(denied()),
    }
}

/// Whether a procedure is executed, and not changed.
fn runs(call: &Call) -> bool {
    call.request.method == http::Method::POST
}

/// How far the principal may follow relations.
pub(crate) fn reach(call: &Call) -> Reach {
    let Principal::Grant(grant) = &call.principal else { return Reach::Database };
    let (Target::Items(at) | Target::Item(at, _)) = &call.link.target else {
        return Reach::Nothing;
    };
    let link = target_link(call.engine(), &Target::Items(at.clone()));
    let whole = link.is_some_and(|link| grant.covers(&link)) && grant.partition_key.is_none();
    if whole { Reach::Container } else { Reach::Nothing }
}

/// A grant for the first values of a hierarchical key opens all keys that begin with them.
fn check_key(call: &Call, granted: &str) -> Result<()> {
    let granted = PartitionKey::parse_header(granted).map_err(|_| denied())?;
    let is_covered = call.partition_key()?.is_some_and(|key| key.0.starts_with(&granted.0));
    if is_covered { Ok(()) } else { Err(denied()) }
}

/// The link by rids of a permission's resource; the text itself if it leads nowhere now.
pub(crate) fn granted_link(engine: &Engine, resource: &str) -> String {
    let path = format!("/{}", resource.trim_matches('/'));
    ResourceLink::parse(&path)
        .ok()
        .and_then(|link| target_link(engine, &link.target))
        .unwrap_or_else(|| resource.to_owned())
}

/// A target's link: database and container by rids, what is below by the address it was given.
fn target_link(engine: &Engine, target: &Target) -> Option<String> {
    let of_container = |at: &ContainerAddress| {
        let container = engine.read_container(&at.database, &at.container).ok()?;
        Some(container.self_link().trim_end_matches('/').to_owned())
    };
    let of_database = |db: &Address| {
        let database = engine.read_database(db).ok()?;
        Some(database.self_link().trim_end_matches('/').to_owned())
    };
    let text = |address: &Address| match address {
        Address::Name(name) => name.clone(),
        Address::Rid(rid) => rid.to_string(),
    };
    Some(match target {
        Target::Database(db) => of_database(db)?,
        Target::Containers(db) => format!("{}/colls", of_database(db)?),
        Target::Container(at) => of_container(at)?,
        Target::Items(at) => format!("{}/docs", of_container(at)?),
        Target::Item(at, id) => format!("{}/docs/{}", of_container(at)?, text(id)),
        Target::Ranges(at) => format!("{}/pkranges", of_container(at)?),
        Target::Scripts(at, _) | Target::Script(at, _, _) => {
            format!("{}/scripts", of_container(at)?)
        }
        Target::Conflicts(at) | Target::Conflict(at, _) => {
            format!("{}/conflicts", of_container(at)?)
        }
        Target::PartitionKeyDelete(at) => format!("{}/operations", of_container(at)?),
        _ => return None,
    })
}
