//! What the holder of a resource token may touch. [`granted`] reads the grammar of permissions, which
//! `docs/permissions.md` writes down; [`check`] compares a request with what its token grants, and
//! the token with the permission that it was issued for.

use std::sync::Arc;

use orrery_engine::query::relations::Reach;
use orrery_engine::transaction::batch::BatchAction;
use orrery_engine::{Container, Engine, Resource};
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, Value};

use crate::auth::token::{Grant, GrantMode};
use crate::auth::{Principal, denied};
use crate::call::Call;
use crate::handlers::role_check;
use crate::operation::TokenScope;
use crate::wire::link::{ContainerAddress, ResourceLink, Target};

/// Refuses what the principal's grant does not cover; keys cover everything.
pub(crate) fn check(call: &Call) -> Result<()> {
    let Principal::Grant(grant) = &call.principal else { return Ok(()) };
    check_permission(call.engine(), grant)?;
    let scope = call.operation.token_scope();
    // What a body lists is checked once it is decoded.
    if matches!(scope, TokenScope::Any | TokenScope::Listed) {
        return Ok(());
    }
    let target = &call.link.target;
    let container = target.container().and_then(|at| find_container(call.engine(), at));
    let container = container.ok_or_else(denied)?;
    let below = below_container(grant, &container).ok_or_else(denied)?;
    let is_container = below.is_empty();
    let is_resource =
        || is_container || target.path_in_container().is_some_and(|path| path == below);
    let has_key = grant.partition_key.is_some();
    let is_keyed = || is_under_key(grant, &container, call.partition_key()?);
    let is_allowed = match scope {
        TokenScope::None => false,
        TokenScope::Any | TokenScope::Listed | TokenScope::Around => true,
        TokenScope::Container => is_container && !has_key,
        TokenScope::Keyed => is_container && is_keyed()?,
        TokenScope::Item | TokenScope::KeyedScript => is_resource() && is_keyed()?,
        TokenScope::Script => is_resource() && !has_key,
    };
    if is_allowed { Ok(()) } else { Err(denied()) }
}

/// A token is as good as the permission that it was issued for: one that was deleted, with its user
/// or alone, or that allows something else by now, allows nothing to its old tokens.
fn check_permission(engine: &Engine, grant: &Grant) -> Result<()> {
    let permission = engine.permissions().by_rid(grant.permission)?;
    let is_unchanged = |permission: &Resource| {
        let etag = permission.stamp.etag.to_string();
        // Replaced by the same, as by an upsert that asks for a fresh token.
        etag == grant.etag || granted(engine, permission) == Grant { etag, ..grant.clone() }
    };
    if permission.as_ref().is_some_and(is_unchanged) {
        return Ok(());
    }
    let message = "Insufficient permissions provided in the authorization header for the \
                   corresponding request. The permission of this resource token was deleted or \
                   changed. Read the permission again to get a new token.";
    Err(Error::Denied(message.into()))
}

/// Refuses an operation of a transaction that the principal's grant does not cover.
pub(crate) fn check_listed(
    call: &Call,
    container: &Container,
    key: &PartitionKey,
    action: &BatchAction,
) -> Result<()> {
    let Principal::Grant(grant) = &call.principal else { return Ok(()) };
    let below = below_container(grant, container).ok_or_else(denied)?;
    let is_item = || match action.item() {
        Some(Address::Name(id)) => below.strip_prefix("docs/") == Some(id),
        _ => false,
    };
    let is_resource = below.is_empty() || is_item();
    let is_allowed = is_resource && is_under_key(grant, container, Some(key.clone()))?;
    if is_allowed { Ok(()) } else { Err(denied()) }
}

/// Refuses an operation of a transaction on a container that does not exist: no grant covers it.
pub(crate) fn check_nowhere(call: &Call) -> Result<()> {
    match &call.principal {
        Principal::Grant(_) => Err(denied()),
        Principal::Master | Principal::ReadOnly | Principal::Directory(_) => Ok(()),
    }
}

/// How far the principal may follow relations, and what follows from its writes may go.
pub(crate) fn reach(call: &Call) -> Reach {
    match call.link.target.container() {
        Some(at) => reach_in(call, at),
        None if matches!(call.principal, Principal::Master | Principal::ReadOnly) => {
            Reach::Database
        }
        None => Reach::Nothing,
    }
}

/// The same for an operation in a container.
pub(crate) fn reach_in(call: &Call, at: &ContainerAddress) -> Reach {
    let grant = match &call.principal {
        Principal::Master | Principal::ReadOnly => return Reach::Database,
        Principal::Directory(principal) => return role_check::reach(call, principal, at),
        Principal::Grant(grant) => grant,
    };
    let container = find_container(call.engine(), at);
    let below = container.as_ref().and_then(|container| below_container(grant, container));
    match below.is_some_and(str::is_empty) {
        false => Reach::Nothing,
        true if grant.partition_key.is_some() => Reach::Partition,
        true => Reach::Container,
    }
}

fn find_container(engine: &Engine, at: &ContainerAddress) -> Option<Arc<Container>> {
    engine.containers().read(&at.database, &at.container).ok()
}

/// What a grant names below the container, empty if it is the container itself; `None` if it lies
/// elsewhere.
fn below_container<'g>(grant: &'g Grant, container: &Container) -> Option<&'g str> {
    grant.resource.strip_prefix(container.self_link())
}

/// Whether the request names the only partition key that the grant opens. A grant for the first
/// values of a hierarchical key opens all keys that begin with them.
fn is_under_key(grant: &Grant, container: &Container, key: Option<PartitionKey>) -> Result<bool> {
    let Some(granted) = &grant.partition_key else { return Ok(true) };
    let definition = &container.definition.partition_key;
    let granted = PartitionKey::parse_header(granted).map_err(|_| denied())?;
    let granted = definition.normalize(granted);
    let Some(key) = key else { return Ok(false) };
    let key = definition.normalize(key);
    let is_prefix = !definition.is_complete(&granted) && !granted.0.is_empty();
    Ok(key == granted || (is_prefix && key.0.starts_with(&granted.0)))
}

/// What a permission grants. One for a container that does not exist, or that the grammar does not
/// have, grants nothing.
pub(crate) fn granted(engine: &Engine, permission: &Resource) -> Grant {
    let text = |name: &str| permission.body.get(name).as_str().unwrap_or_default();
    let all = text("permissionMode").eq_ignore_ascii_case("All");
    let partition_key = match permission.body.get("resourcePartitionKey") {
        Value::Undefined => None,
        key => Some(key.to_json()),
    };
    let resource = parse_resource(text("resource")).ok().and_then(|target| {
        let container = find_container(engine, target.container()?)?;
        check_key_of(&container, &target, partition_key.as_deref()).ok()?;
        Some(format!("{}{}", container.self_link(), target.path_in_container().unwrap_or_default()))
    });
    Grant {
        permission: permission.rid,
        etag: permission.stamp.etag.to_string(),
        resource: resource.unwrap_or_default(),
        mode: if all { GrantMode::All } else { GrantMode::Read },
        partition_key,
    }
}

/// Refuses the body of a permission whose resource or key is not in the grammar. What does not exist
/// may be named, as the service allows it; what exists must fit.
pub(crate) fn check_body(engine: &Engine, database: &Address, body: &Value) -> Result<()> {
    // Who reads the body properly says what is wrong with properties of another type.
    let Some(resource) = body.get("resource").as_str() else { return Ok(()) };
    let target = parse_resource(resource)?;
    let Some(container) = target.container().and_then(|at| find_container(engine, at)) else {
        return Ok(());
    };
    let is_own =
        engine.databases().read(database).is_ok_and(|db| db.rid() == container.database_rid());
    if !is_own {
        return Err(Error::invalid(format!(
            "resource must lie in the database of the user; '{resource}' lies in another one."
        )));
    }
    match body.get("resourcePartitionKey") {
        Value::Undefined | Value::Null => check_key_of(&container, &target, None),
        key @ Value::Array(values) if !values.is_empty() => {
            check_key_of(&container, &target, Some(&key.to_json()))
        }
        _ => Ok(()),
    }
}

/// The resource of a permission: a container, an item or a script, by names or by rids.
fn parse_resource(resource: &str) -> Result<Target> {
    let path = format!("/{}", resource.trim_matches('/'));
    let target = ResourceLink::parse(&path).map(|link| link.target);
    match target {
        Ok(target @ (Target::Container(_) | Target::Item(..) | Target::Script(..)))
            if !resource.contains('?') =>
        {
            Ok(target)
        }
        _ => Err(Error::invalid(format!(
            "resource must be the link of a container, an item, a stored procedure, a trigger or a \
             user-defined function, such as 'dbs/d/colls/c'; it is '{resource}'."
        ))),
    }
}

/// A key has no more values than the container's; that of an item has all of them. An item's key may
/// be left out where its link names a single item by itself: by its rid, or where the id is the key.
fn check_key_of(container: &Container, target: &Target, key: Option<&str>) -> Result<()> {
    let definition = &container.definition.partition_key;
    let declared = definition.paths.len();
    let Some(key) = key else {
        let is_id = || matches!(&definition.paths[..], [path] if path.to_string() == "/id");
        return match target {
            Target::Item(_, Address::Name(_)) if !is_id() => Err(Error::invalid(
                "resourcePartitionKey is required for an item: another partition key may have an \
                 item of the same id.",
            )),
            _ => Ok(()),
        };
    };
    let key = PartitionKey::parse_header(key).map_err(|e| Error::invalid(e.to_string()))?;
    let given = key.0.len();
    let fits = match target {
        Target::Item(..) => given == declared,
        _ => (1..=declared).contains(&given),
    };
    if fits {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "resourcePartitionKey has {given} values; the container's partition key has {declared}."
    )))
}
