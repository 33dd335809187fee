//! What the roles of a directory principal permit. [`check`] compares the action of the operation
//! (`operation`) with the roles that are assigned at its place or above; whatever has no action is
//! refused. A batch is checked again once its operations are known, each for its own action.

use orrery_engine::catalog::role::{DataAction, RoleScope, RoleTable};
use orrery_engine::query::relations::Reach;
use orrery_engine::transaction::batch::{BatchAction, BatchOperation};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, RoleDenial};

use crate::auth::Principal;
use crate::auth::entra::DirectoryPrincipal;
use crate::call::Call;
use crate::handlers::{account, item};
use crate::operation::RequiredAction;
use crate::wire::link::{AddressesOf, ContainerAddress, Target};

/// Where refusals of the service send their readers.
const LEARN: &str = "Learn more: https://aka.ms/cosmos-native-rbac.";

/// The actions of operations on items, one of which a batch needs at least.
const ITEM_ACTIONS: [DataAction; 5] = [
    DataAction::ReadItem,
    DataAction::CreateItem,
    DataAction::UpsertItem,
    DataAction::ReplaceItem,
    DataAction::DeleteItem,
];

/// Refuses what the roles of a directory principal do not permit; other principals have none.
pub(crate) fn check(call: &Call) -> Result<()> {
    let Principal::Directory(principal) = &call.principal else { return Ok(()) };
    let roles = call.engine().roles().table();
    let place = place(call);
    let at = |action| require(&roles, principal, action, place.as_ref());
    let somewhere = |action| {
        if roles.permits_somewhere(principal.ids(), action) {
            return Ok(());
        }
        Err(denied(principal, action, "any scope", is_by_rid(call)))
    };
    match call.operation.required_action() {
        RequiredAction::KeyOnly => Err(not_data(call)),
        // Addresses of the catalog say no more than the account does.
        RequiredAction::One(action) if is_of_master(call) => somewhere(action),
        RequiredAction::Anywhere(action) => somewhere(action),
        RequiredAction::One(action) => {
            at(action)?;
            // A trigger is code that reads and writes what it likes.
            if item::names_triggers(call) { at(DataAction::ExecuteStoredProcedure) } else { Ok(()) }
        }
        // A transaction has no place of its own: each of its operations has one.
        RequiredAction::Listed if call.link.target == Target::Transactions => Ok(()),
        RequiredAction::Listed => {
            if ITEM_ACTIONS.into_iter().any(|action| at(action).is_ok()) {
                return Ok(());
            }
            at(DataAction::ReadItem)
        }
    }
}

/// Refuses a batch that has an operation which no role permits.
pub(crate) fn check_batch(
    call: &Call,
    at: &ContainerAddress,
    operations: &[BatchOperation],
) -> Result<()> {
    operations.iter().try_for_each(|operation| check_listed(call, at, &operation.action))
}

/// Refuses an operation of a batch or a transaction that no role permits.
pub(crate) fn check_listed(call: &Call, at: &ContainerAddress, action: &BatchAction) -> Result<()> {
    let Principal::Directory(principal) = &call.principal else { return Ok(()) };
    let roles = call.engine().roles().table();
    require(&roles, principal, action_of(action), place_of_container(call, at).as_ref())
}

/// The action of an operation of a batch.
fn action_of(action: &BatchAction) -> DataAction {
    match action {
        BatchAction::Create(_) => DataAction::CreateItem,
        BatchAction::Upsert(_) => DataAction::UpsertItem,
        BatchAction::Read(_) => DataAction::ReadItem,
        BatchAction::Replace(..) | BatchAction::Patch(..) => DataAction::ReplaceItem,
        BatchAction::Delete(_) => DataAction::DeleteItem,
    }
}

/// How far a principal may follow relations, and what follows from its writes may go: as far as its roles
/// permit it to do the same by itself.
pub(crate) fn reach(call: &Call, principal: &DirectoryPrincipal, at: &ContainerAddress) -> Reach {
    let roles = call.engine().roles().table();
    let needed: &[DataAction] = match call.operation.required_action() {
        RequiredAction::One(DataAction::ExecuteQuery) => &[DataAction::ExecuteQuery],
        _ if call.operation.reads() => &[DataAction::ReadItem],
        _ => &[DataAction::ReadItem, DataAction::ReplaceItem, DataAction::DeleteItem],
    };
    let has = |place: &RoleScope| {
        needed.iter().all(|action| roles.permits(principal.ids(), *action, place))
    };
    let Some(Place { scope, .. }) = place_of_container(call, at) else { return Reach::Nothing };
    let RoleScope::Container(database, _) = &scope else { return Reach::Nothing };
    if has(&RoleScope::Database(database.clone())) {
        Reach::Database
    } else if has(&scope) {
        Reach::Container
    } else {
        Reach::Partition
    }
}

/// Refuses an action that no role of the principal permits in a place. What does not exist under its rid
/// has no place, and no role is about it.
fn require(
    roles: &RoleTable,
    principal: &DirectoryPrincipal,
    action: DataAction,
    place: Option<&Place>,
) -> Result<()> {
    let by_rid = place.is_none_or(|place| place.by_rid);
    let shown = match place {
        Some(place) if roles.permits(principal.ids(), action, &place.scope) => return Ok(()),
        Some(Place { scope: RoleScope::Account, .. }) => "resource [/]".to_owned(),
        Some(place) => format!("resource [{}]", place.scope.to_string().trim_start_matches('/')),
        None => "a resource that does not exist".to_owned(),
    };
    Err(denied(principal, action, &shown, by_rid))
}

/// Where an operation takes place, by names, and whether the request had rids instead.
struct Place {
    scope: RoleScope,
    by_rid: bool,
}

/// The place of a request; none if it has a rid that nothing has.
fn place(call: &Call) -> Option<Place> {
    let target = &call.link.target;
    if let Some(at) = target.container() {
        return place_of_container(call, at);
    }
    let scope = match target.database() {
        Some(database) => RoleScope::Database(database_name(call, database)?),
        None => RoleScope::Account,
    };
    Some(Place { scope, by_rid: is_by_rid(call) })
}

fn place_of_container(call: &Call, at: &ContainerAddress) -> Option<Place> {
    let by_rid = matches!(at.container, Address::Rid(_));
    let container = match &at.container {
        Address::Name(name) => name.as_str().into(),
        Address::Rid(_) => {
            call.engine().containers().read(&at.database, &at.container).ok()?.id.clone()
        }
    };
    let database = database_name(call, &at.database)?;
    Some(Place { scope: RoleScope::Container(database, container), by_rid })
}

fn database_name(call: &Call, database: &Address) -> Option<Box<str>> {
    match database {
        Address::Name(name) => Some(name.as_str().into()),
        Address::Rid(_) => Some(call.engine().databases().read(database).ok()?.id.clone()),
    }
}

fn is_of_master(call: &Call) -> bool {
    matches!(call.link.target, Target::Addresses(AddressesOf::Master))
}

fn is_by_rid(call: &Call) -> bool {
    matches!(call.link.target.database(), Some(Address::Rid(_)))
}

/// The refusal of an operation that needs a key, in the words of the service.
fn not_data(call: &Call) -> Error {
    let path = call.request.path_and_query.path();
    let message = format!(
        "Request blocked by Auth {} : The given request [{} {path}] cannot be authorized by AAD token in \
         data plane. {LEARN}",
        account::ID,
        call.request.method
    );
    Error::RoleDenied(RoleDenial::NotData, message.into())
}

/// The refusal of an action that no role permits, in the words of the service.
fn denied(principal: &DirectoryPrincipal, action: DataAction, place: &str, by_rid: bool) -> Error {
    let message = format!(
        "Request blocked by Auth {} : Request is blocked because principal [{}] does not have required \
         RBAC permissions to perform action [{}] on {place}. {LEARN}",
        account::ID,
        principal.id,
        action.name()
    );
    let denial = match (action, by_rid) {
        (DataAction::ReadMetadata, _) => RoleDenial::Metadata,
        (_, false) => RoleDenial::DataByName,
        (_, true) => RoleDenial::DataByRid,
    };
    Error::RoleDenied(denial, message.into())
}
