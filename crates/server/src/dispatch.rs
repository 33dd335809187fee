//! The routing table: method and target to handler, all in one match. Who may do it is decided
//! here too, before a handler runs.

use http::Method;
use orrery_types::{Error, Result, limits};

use crate::api::Call;
use crate::auth::Access;
use crate::handlers::{
    account, backup, batch, change, container, database, encryption_key, grant, item, model, offer,
    permission, query, range, script, statistics, user,
};
use crate::link::{ScriptKind, Target};
use crate::reply::Reply;

/// Where an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// On the thread of the connection: microseconds, as a rule without the disk.
    InPlace,
    /// On the thread of the connection up to its commit, which is awaited: a write of one item.
    Commit,
    /// On the thread of the connection if it turns out to take next to nothing, else on a blocking
    /// thread: a query.
    IfCheap,
    /// On a blocking thread.
    Blocking,
}

/// Whether an operation is short enough to run in place.
pub(crate) fn work(call: &Call) -> Work {
    let reads = call.request.method == Method::GET || call.request.method == Method::HEAD;
    match &call.link.target {
        // What relations lead to may be many items.
        Target::Item(..) if reads && call.headers.model_expand.is_some() => Work::Blocking,
        Target::Account | Target::Databases | Target::Database(_) | Target::Item(..) if reads => {
            Work::InPlace
        }
        Target::Containers(_) | Target::Ranges(_) if reads => Work::InPlace,
        Target::Container(_)
            if reads
                && !call.headers.populate_quota_info
                && !call.headers.populate_range_statistics =>
        {
            Work::InPlace
        }
        _ if call.request.body.len() <= limits::IN_PLACE_BODY_BYTES_MAX && writes_item(call) => {
            Work::Commit
        }
        Target::Items(_) if queries(call) && is_plain_query(call) => Work::IfCheap,
        _ => Work::Blocking,
    }
}

/// Whether a query may be tried in place; the engine has the last word.
fn is_plain_query(call: &Call) -> bool {
    !call.headers.is_query_plan && call.request.body.len() <= limits::IN_PLACE_QUERY_BYTES_MAX
}

/// Answers a query in place, if it is cheap.
pub(crate) fn if_cheap(call: &Call) -> Result<Option<Reply>> {
    authorize(call)?;
    match &call.link.target {
        Target::Items(at) => query::items_if_cheap(call, at),
        _ => Ok(None),
    }
}

/// Whether it is a write of one item and nothing else: no script runs before, in or after it.
fn writes_item(call: &Call) -> bool {
    let headers = &call.headers;
    if item::names_triggers(call) {
        return false;
    }
    match (call.request.method.as_str(), &call.link.target) {
        ("POST", Target::Items(_)) => {
            !headers.is_query && !headers.is_query_plan && !headers.is_batch
        }
        ("PUT" | "DELETE", Target::Item(..)) => true,
        // A condition is a query, and may take any time.
        ("PATCH", Target::Item(..)) => !item::has_condition(call),
        _ => false,
    }
}

/// Whether an operation spends the throughput of its container: what reads or writes items does, and
/// what only asks about the container does not.
pub(crate) fn spends(call: &Call) -> bool {
    match &call.link.target {
        Target::Items(_) => !call.headers.is_query_plan,
        Target::Item(..) | Target::PartitionKeyDelete(_) => true,
        Target::Script(_, ScriptKind::Procedure, _) => call.request.method == Method::POST,
        _ => false,
    }
}

/// Whether the principal may do it.
pub(crate) fn authorize(call: &Call) -> Result<()> {
    // A backup holds everything, keys of clients included: reading it is for those who may write.
    let reads = call.reads() && !matches!(call.link.target, Target::BackupFile(..));
    let access = if reads { Access::Read } else { Access::Write };
    call.principal.allow(access)?;
    grant::check(call)
}

/// A HEAD is a GET whose body the server keeps.
fn method(call: &Call) -> &str {
    match call.request.method.as_str() {
        "HEAD" => "GET",
        method => method,
    }
}

/// Finds the handler and runs it.
pub(crate) fn dispatch(call: &Call) -> Result<Reply> {
    authorize(call)?;
    let query = call.headers.is_query || call.headers.is_query_plan;
    match (method(call), &call.link.target) {
        ("GET", Target::Account) => account::read(call),

        ("GET", Target::Databases) => database::list(call),
        ("POST", Target::Databases) if query => database::query(call),
        ("POST", Target::Databases) => database::create(call),
        ("GET", Target::Database(db)) => database::read(call, db),
        ("PUT", Target::Database(db)) => database::replace(call, db),
        ("DELETE", Target::Database(db)) => database::delete(call, db),

        ("GET", Target::Containers(db)) => container::list(call, db),
        ("POST", Target::Containers(db)) if query => container::query(call, db),
        ("POST", Target::Containers(db)) => container::create(call, db),
        ("GET", Target::Container(at)) => container::read(call, at),
        ("PUT", Target::Container(at)) => container::replace(call, at),
        ("DELETE", Target::Container(at)) => container::delete(call, at),

        ("GET", Target::Items(at)) => match call.headers.a_im {
            None => item::feed(call, at),
            Some(mode) => change::feed(call, at, mode),
        },
        ("POST", Target::Items(at)) if call.headers.is_query_plan => query::plan(call, at),
        ("POST", Target::Items(at)) if call.headers.is_batch => batch::run(call, at),
        ("POST", Target::Items(at)) if call.headers.is_query => query::items(call, at),
        ("POST", Target::Items(_)) | ("PUT" | "PATCH" | "DELETE", Target::Item(..)) => {
            item::write(call)
        }
        ("GET", Target::Item(at, id)) => item::read(call, at, id),

        ("GET", Target::Ranges(at)) => range::list(call, at),
        ("POST", Target::Ranges(at)) if query => range::query(call, at),

        ("GET", Target::Users(db)) => user::list(call, db),
        ("POST", Target::Users(db)) if query => user::query(call, db),
        ("POST", Target::Users(db)) => user::create(call, db),
        ("GET", Target::User(at)) => user::read(call, at),
        ("PUT", Target::User(at)) => user::replace(call, at),
        ("DELETE", Target::User(at)) => user::delete(call, at),

        ("GET", Target::Permissions(at)) => permission::list(call, at),
        ("POST", Target::Permissions(at)) if query => permission::query(call, at),
        ("POST", Target::Permissions(at)) => permission::create(call, at),
        ("GET", Target::Permission(at, id)) => permission::read(call, at, id),
        ("PUT", Target::Permission(at, id)) => permission::replace(call, at, id),
        ("DELETE", Target::Permission(at, id)) => permission::delete(call, at, id),

        ("GET", Target::EncryptionKeys(db)) => encryption_key::list(call, db),
        ("POST", Target::EncryptionKeys(db)) if query => encryption_key::query(call, db),
        ("POST", Target::EncryptionKeys(db)) => encryption_key::create(call, db),
        ("GET", Target::EncryptionKey(db, id)) => encryption_key::read(call, db, id),
        ("PUT", Target::EncryptionKey(db, id)) => encryption_key::replace(call, db, id),
        ("DELETE", Target::EncryptionKey(db, id)) => encryption_key::delete(call, db, id),

        ("GET", Target::Offers) => offer::list(call),
        ("POST", Target::Offers) if query => offer::query(call),
        ("GET", Target::Offer(rid)) => offer::read(call, *rid),
        ("PUT", Target::Offer(rid)) => offer::replace(call, *rid),

        ("GET", Target::Conflicts(at)) => container::conflicts(call, at),
        ("POST", Target::Conflicts(at)) if query => container::conflicts(call, at),
        ("GET" | "DELETE", Target::Conflict(at, _)) => call.container(at).and(Err(Error::NotFound)),

        ("GET", Target::Scripts(at, kind)) => script::list(call, at, *kind),
        ("POST", Target::Scripts(at, kind)) if query => script::query(call, at, *kind),
        ("POST", Target::Scripts(at, kind)) => script::create(call, at, *kind),
        ("GET", Target::Script(at, kind, id)) => script::read(call, at, *kind, id),
        ("PUT", Target::Script(at, kind, id)) => script::replace(call, at, *kind, id),
        ("DELETE", Target::Script(at, kind, id)) => script::delete(call, at, *kind, id),
        ("POST", Target::Script(at, ScriptKind::Procedure, id)) => script::execute(call, at, id),
        ("POST", Target::PartitionKeyDelete(at)) => item::delete_partition_key(call, at),
        ("POST", Target::Split(at)) => range::split(call, at),
        ("POST", Target::Merge(at)) => range::merge(call, at),
        (_, Target::Attachments(..) | Target::Attachment(..)) => Err(not_built("Attachments")),
        ("GET", Target::Statistics) => Ok(statistics::read(call)),
        ("POST", Target::Backups) => backup::begin(call),
        ("DELETE", Target::Backup(id)) => backup::end(call, id),
        ("GET", Target::BackupFile(id, file)) => backup::read(call, id, *file),
        ("GET", Target::Model(db)) => model::read(call, db),
        ("PUT", Target::Model(db)) => model::store(call, db),
        ("DELETE", Target::Model(db)) => model::delete(call, db),
        ("GET", Target::Advisor(db)) => model::advise(call, db),
        _ => Err(Error::MethodNotAllowed),
    }
}

/// Whether a POST that says it is a query is one: elsewhere the header changes nothing, and must not
/// let a read-only key through.
pub(crate) fn queries(call: &Call) -> bool {
    let says_so = call.headers.is_query || call.headers.is_query_plan;
    says_so
        && match &call.link.target {
            Target::Items(_) => !call.headers.is_batch,
            Target::Databases
            | Target::Containers(_)
            | Target::Ranges(_)
            | Target::Scripts(..)
            | Target::Users(_)
            | Target::Permissions(_)
            | Target::EncryptionKeys(_)
            | Target::Offers
            | Target::Conflicts(_) => true,
            _ => false,
        }
}

fn not_built(what: &str) -> Error {
    Error::NotImplemented(format!("{what}: this version of the server does not have them.").into())
}

/// What a request does, in the words of the statistics.
pub(crate) fn operation(call: &Call) -> &'static str {
    let headers = &call.headers;
    match (method(call), &call.link.target) {
        ("GET", Target::Item(..)) => "read",
        ("PUT", Target::Item(..)) => "replace",
        ("PATCH", Target::Item(..)) => "patch",
        ("DELETE", Target::Item(..)) => "delete",
        ("GET", Target::Items(_)) if headers.a_im.is_some() => "change feed",
        ("GET", Target::Items(_)) => "read feed",
        ("POST", Target::Items(_)) if headers.is_query_plan => "query plan",
        ("POST", Target::Items(_)) if headers.is_batch => "batch",
        ("POST", Target::Items(_)) if headers.is_query => "query",
        ("POST", Target::Items(_)) if headers.is_upsert => "upsert",
        ("POST", Target::Items(_)) => "create",
        ("POST", Target::Script(_, ScriptKind::Procedure, _)) => "execute",
        (_, target) => name(target),
    }
}

/// What a target is called in logs and metrics.
pub(crate) fn name(target: &Target) -> &'static str {
    match target {
        Target::Account => "account",
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
        Target::Model(_) => "model",
        Target::Statistics => "statistics",
        Target::Advisor(_) => "advisor",
    }
}
