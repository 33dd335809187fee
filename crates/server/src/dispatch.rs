//! The routing table: each [`Operation`] to its handler, and the check whether its principal may do it,
//! which `execute` makes before anything else.

use orrery_types::{Error, Result};

use crate::auth::Principal;
use crate::call::Call;
use crate::handlers::{
    account, addresses, backup, batch, change, container, copy, database, encryption_key, grant,
    item, model, nodes, offer, permission, query, range, role, role_check, script, statistics,
    tasks, transaction, user,
};
use crate::operation::Operation;
use crate::wire::link::Target;
use crate::wire::reply::Reply;

/// Whether an operation is charged to the throughput of its container: those on items are, those on the
/// container's definition are not.
pub(crate) fn spends(call: &Call) -> bool {
    match &call.link.target {
        Target::Items(_) => call.operation != Operation::PlanQuery,
        Target::Item(..) | Target::PartitionKeyDelete(_) => true,
        _ => call.operation == Operation::ExecuteProcedure,
    }
}

/// Whether an operation is about what the catalog holds: everything but items, ranges and the
/// account itself.
pub(crate) fn is_of_catalog(call: &Call) -> bool {
    match &call.link.target {
        Target::Databases
        | Target::Database(_)
        | Target::Containers(_)
        | Target::Container(_)
        | Target::Scripts(..)
        | Target::Users(_)
        | Target::User(_)
        | Target::Permissions(_)
        | Target::Permission(..)
        | Target::EncryptionKeys(_)
        | Target::EncryptionKey(..)
        | Target::Offers
        | Target::Offer(_) => true,
        Target::Script(..) => !spends(call),
        _ => false,
    }
}

/// Whether the answer rests on the catalog alone, or on the roles of the sender: then it must not be an older
/// catalog than the newest of any process. Whatever is read of items is compared with it by the store.
fn goes_by_catalog(call: &Call) -> bool {
    let of_roles = matches!(
        call.link.target,
        Target::RoleDefinitions
            | Target::RoleDefinition(_)
            | Target::RoleAssignments
            | Target::RoleAssignment(_)
    );
    matches!(call.principal, Principal::Directory(_))
        || is_of_catalog(call)
        || of_roles
        || matches!(call.link.target, Target::Model(_))
}

/// Refuses what the principal may not do.
pub(crate) fn authorize(call: &Call) -> Result<()> {
    if goes_by_catalog(call) {
        call.engine().refresh_catalog()?;
    }
    call.principal.allow(call.operation.access())?;
    grant::check(call)?;
    role_check::check(call)?;
    let is_of_copy = matches!(
        call.operation,
        Operation::BeginCopy | Operation::ContinueCopy | Operation::EndCopy
    );
    if call.operation.reads() || is_of_copy { Ok(()) } else { call.shared.copies.allow_write() }
}

/// Runs the handler of an authorized request.
pub(crate) fn dispatch(call: &Call) -> Result<Reply> {
    match &call.link.target {
        Target::Items(_) | Target::Item(..) => of_items(call),
        Target::Databases | Target::Database(_) | Target::Containers(_) | Target::Container(_) => {
            of_containers(call)
        }
        Target::Users(_) | Target::User(_) | Target::Permissions(_) | Target::Permission(..) => {
            of_users(call)
        }
        Target::Scripts(..) | Target::Script(..) => of_scripts(call),
        Target::RoleDefinitions
        | Target::RoleDefinition(_)
        | Target::RoleAssignments
        | Target::RoleAssignment(_) => of_roles(call),
        _ => of_rest(call),
    }
}

fn of_items(call: &Call) -> Result<Reply> {
    match (call.operation, &call.link.target) {
        (Operation::ReadItem, Target::Item(at, id)) => item::read(call, at, id),
        (Operation::ListItems, Target::Items(at)) => item::feed(call, at),
        (Operation::ReadChanges, Target::Items(at)) => match call.headers.a_im {
            None => item::feed(call, at),
            Some(mode) => change::feed(call, at, mode),
        },
        (Operation::PlanQuery, Target::Items(at)) => query::plan(call, at),
        (Operation::RunBatch, Target::Items(at)) => batch::run(call, at),
        (Operation::QueryItems, Target::Items(at)) => query::items(call, at),
        (
            Operation::CreateItem
            | Operation::UpsertItem
            | Operation::ReplaceItem
            | Operation::PatchItem
            | Operation::DeleteItem,
            _,
        ) => item::write(call),
        _ => Err(Error::MethodNotAllowed),
    }
}

fn of_containers(call: &Call) -> Result<Reply> {
    match (call.operation, &call.link.target) {
        (Operation::ListDatabases, _) => database::list(call),
        (Operation::QueryDatabases, _) => database::query(call),
        (Operation::CreateDatabase, _) => database::create(call),
        (Operation::ReadDatabase, Target::Database(db)) => database::read(call, db),
        (Operation::ReplaceDatabase, Target::Database(db)) => database::replace(call, db),
        (Operation::DeleteDatabase, Target::Database(db)) => database::delete(call, db),
        (Operation::ListContainers, Target::Containers(db)) => container::list(call, db),
        (Operation::QueryContainers, Target::Containers(db)) => container::query(call, db),
        (Operation::CreateContainer, Target::Containers(db)) => container::create(call, db),
        (Operation::ReadContainer, Target::Container(at)) => container::read(call, at),
        (Operation::ReplaceContainer, Target::Container(at)) => container::replace(call, at),
        (Operation::DeleteContainer, Target::Container(at)) => container::delete(call, at),
        _ => Err(Error::MethodNotAllowed),
    }
}

fn of_users(call: &Call) -> Result<Reply> {
    match (call.operation, &call.link.target) {
        (Operation::ListUsers, Target::Users(db)) => user::list(call, db),
        (Operation::QueryUsers, Target::Users(db)) => user::query(call, db),
        (Operation::CreateUser, Target::Users(db)) => user::create(call, db),
        (Operation::ReadUser, Target::User(at)) => user::read(call, at),
        (Operation::ReplaceUser, Target::User(at)) => user::replace(call, at),
        (Operation::DeleteUser, Target::User(at)) => user::delete(call, at),
        (Operation::ListPermissions, Target::Permissions(at)) => permission::list(call, at),
        (Operation::QueryPermissions, Target::Permissions(at)) => permission::query(call, at),
        (Operation::CreatePermission, Target::Permissions(at)) => permission::create(call, at),
        (Operation::ReadPermission, Target::Permission(at, id)) => permission::read(call, at, id),
        (Operation::ReplacePermission, Target::Permission(at, id)) => {
            permission::replace(call, at, id)
        }
        (Operation::DeletePermission, Target::Permission(at, id)) => {
            permission::delete(call, at, id)
        }
        _ => Err(Error::MethodNotAllowed),
    }
}

fn of_scripts(call: &Call) -> Result<Reply> {
    match (call.operation, &call.link.target) {
        (Operation::ListScripts, Target::Scripts(at, kind)) => script::list(call, at, *kind),
        (Operation::QueryScripts, Target::Scripts(at, kind)) => script::query(call, at, *kind),
        (Operation::CreateScript, Target::Scripts(at, kind)) => script::create(call, at, *kind),
        (Operation::ReadScript, Target::Script(at, kind, id)) => script::read(call, at, *kind, id),
        (Operation::ReplaceScript, Target::Script(at, kind, id)) => {
            script::replace(call, at, *kind, id)
        }
        (Operation::DeleteScript, Target::Script(at, kind, id)) => {
            script::delete(call, at, *kind, id)
        }
        (Operation::ExecuteProcedure, Target::Script(at, _, id)) => script::execute(call, at, id),
        _ => Err(Error::MethodNotAllowed),
    }
}

fn of_roles(call: &Call) -> Result<Reply> {
    match (call.operation, &call.link.target) {
        (Operation::ListRoleDefinitions, _) => Ok(role::list_definitions(call)),
        (Operation::CreateRoleDefinition, _) => role::create_definition(call),
        (Operation::ReadRoleDefinition, Target::RoleDefinition(id)) => {
            role::read_definition(call, id)
        }
        (Operation::StoreRoleDefinition, Target::RoleDefinition(id)) => {
            role::store_definition(call, id)
        }
        (Operation::DeleteRoleDefinition, Target::RoleDefinition(id)) => {
            role::delete_definition(call, id)
        }
        (Operation::ListRoleAssignments, _) => Ok(role::list_assignments(call)),
        (Operation::CreateRoleAssignment, _) => role::create_assignment(call),
        (Operation::ReadRoleAssignment, Target::RoleAssignment(id)) => {
            role::read_assignment(call, id)
        }
        (Operation::StoreRoleAssignment, Target::RoleAssignment(id)) => {
            role::store_assignment(call, id)
        }
        (Operation::DeleteRoleAssignment, Target::RoleAssignment(id)) => {
            role::delete_assignment(call, id)
        }
        _ => Err(Error::MethodNotAllowed),
    }
}

fn of_rest(call: &Call) -> Result<Reply> {
    match (call.operation, &call.link.target) {
        (Operation::ReadAccount, _) => account::read(call),
        (Operation::ListAddresses, _) => addresses::list(call),
        (Operation::DeletePartitionKey, Target::PartitionKeyDelete(at)) => {
            item::delete_partition_key(call, at)
        }
        (Operation::ReadTransaction | Operation::CommitTransaction, _) => transaction::run(call),
        (Operation::ListRanges, Target::Ranges(at)) => range::list(call, at),
        (Operation::QueryRanges, Target::Ranges(at)) => range::query(call, at),
        (Operation::SplitRange, Target::Split(at)) => range::split(call, at),
        (Operation::MergeRanges, Target::Merge(at)) => range::merge(call, at),
        (Operation::ListConflicts | Operation::QueryConflicts, Target::Conflicts(at)) => {
            container::conflicts(call, at)
        }
        (Operation::ReadConflict | Operation::DeleteConflict, Target::Conflict(at, _)) => {
            call.container(at).and(Err(Error::NotFound))
        }
        (Operation::Attachments, _) => Err(not_built("Attachments")),
        (Operation::ListEncryptionKeys, Target::EncryptionKeys(db)) => {
            encryption_key::list(call, db)
        }
        (Operation::QueryEncryptionKeys, Target::EncryptionKeys(db)) => {
            encryption_key::query(call, db)
        }
        (Operation::CreateEncryptionKey, Target::EncryptionKeys(db)) => {
            encryption_key::create(call, db)
        }
        (Operation::ReadEncryptionKey, Target::EncryptionKey(db, id)) => {
            encryption_key::read(call, db, id)
        }
        (Operation::ReplaceEncryptionKey, Target::EncryptionKey(db, id)) => {
            encryption_key::replace(call, db, id)
        }
        (Operation::DeleteEncryptionKey, Target::EncryptionKey(db, id)) => {
            encryption_key::delete(call, db, id)
        }
        (Operation::ListOffers, _) => offer::list(call),
        (Operation::QueryOffers, _) => offer::query(call),
        (Operation::ReadOffer, Target::Offer(rid)) => offer::read(call, *rid),
        (Operation::ReplaceOffer, Target::Offer(rid)) => offer::replace(call, *rid),
        (Operation::ReadStatistics, _) => Ok(statistics::read(call)),
        (Operation::ListTasks, _) => Ok(tasks::list(call)),
        (Operation::RetryTasks, _) => tasks::retry(call),
        (Operation::ListNodes, _) => nodes::list(call),
        (Operation::BeginBackup, _) => backup::begin(call),
        (Operation::EndBackup, Target::Backup(id)) => backup::end(call, id),
        (Operation::ReadBackupFile, Target::BackupFile(id, file)) => backup::read(call, id, *file),
        (Operation::BeginCopy, _) => copy::begin(call),
        (Operation::ContinueCopy, Target::CopyStep(id, step)) => copy::step(call, id, *step),
        (Operation::EndCopy, Target::Copy(id)) => copy::end(call, id),
        (Operation::ReadModel, Target::Model(db)) => model::read(call, db),
        (Operation::StoreModel, Target::Model(db)) => model::store(call, db),
        (Operation::DeleteModel, Target::Model(db)) => model::delete(call, db),
        (Operation::ReadAdvice, Target::Advisor(db)) => model::advise(call, db),
        _ => Err(Error::MethodNotAllowed),
    }
}

fn not_built(what: &str) -> Error {
    Error::NotImplemented(format!("{what}: this version of the server does not have them.").into())
}

/// The name of the operation in the statistics.
pub(crate) fn statistic(call: &Call) -> &'static str {
    match call.operation {
        Operation::ReadItem => "read",
        Operation::ReplaceItem => "replace",
        Operation::PatchItem => "patch",
        Operation::DeleteItem => "delete",
        Operation::ReadChanges => "change feed",
        Operation::ListItems => "read feed",
        Operation::PlanQuery => "query plan",
        Operation::RunBatch => "batch",
        Operation::ReadTransaction => "transactional read",
        Operation::CommitTransaction => "transaction",
        Operation::QueryItems => "query",
        Operation::UpsertItem => "upsert",
        Operation::CreateItem => "create",
        Operation::ExecuteProcedure => "execute",
        _ => name(&call.link.target),
    }
}

/// The name of a target in logs and metrics.
pub(crate) fn name(target: &Target) -> &'static str {
    match target {
        Target::Account => "account",
        Target::Addresses(_) => "addresses",
        Target::Transactions => "transaction",
        Target::Databases | Target::Database(_) => "database",
        Target::Containers(_) | Target::Container(_) => "container",
        Target::Items(_) | Target::Item(..) => "item",
        Target::Ranges(_) => "range",
        Target::Scripts(..) | Target::Script(..) => "script",
        Target::Conflicts(_) | Target::Conflict(..) => "conflict",
        Target::PartitionKeyDelete(_) => "partition key delete",
        Target::Split(_) | Target::Merge(_) => "layout",
        Target::Attachments(..) | Target::Attachment(..) => "attachment",
        Target::Users(_) | Target::User(_) => "user",
        Target::Permissions(_) | Target::Permission(..) => "permission",
        Target::EncryptionKeys(_) | Target::EncryptionKey(..) => "encryption key",
        Target::Offers | Target::Offer(_) => "offer",
        Target::Backups | Target::Backup(_) | Target::BackupFile(..) => "backup",
        Target::Copies | Target::Copy(_) | Target::CopyStep(..) => "copy",
        Target::RoleDefinitions
        | Target::RoleDefinition(_)
        | Target::RoleAssignments
        | Target::RoleAssignment(_) => "role",
        Target::Model(_) => "model",
        Target::Statistics => "statistics",
        Target::Tasks => "tasks",
        Target::Nodes => "nodes",
        Target::Advisor(_) => "advisor",
    }
}
