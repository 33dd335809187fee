//! One file a resource: decode the request, call one method of the engine, encode the answer.

pub(crate) mod account;
pub(crate) mod addresses;
pub(crate) mod backup;
pub(crate) mod copy;
pub(crate) mod batch;
pub(crate) mod change;
pub(crate) mod container;
pub(crate) mod database;
pub(crate) mod encryption_key;
pub(crate) mod grant;
pub(crate) mod item;
pub(crate) mod model;
pub(crate) mod nodes;
pub(crate) mod offer;
pub(crate) mod permission;
pub(crate) mod query;
pub(crate) mod range;
pub(crate) mod role;
pub(crate) mod role_check;
pub(crate) mod script;
pub(crate) mod statistics;
pub(crate) mod tasks;
pub(crate) mod transaction;
pub(crate) mod user;

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::throughput::ThroughputRequest;

use orrery_types::ids::Address;

use crate::call::Call;
use crate::wire::link::UserAddress;
use crate::wire::reply::Reply;

impl Call {
    /// The etag conditions of the request.
    pub(crate) fn conditions(&self) -> Preconditions {
        let text = |header: &Option<String>| header.as_deref().map(Into::into);
        Preconditions {
            if_match: text(&self.headers.if_match),
            if_none_match: text(&self.headers.if_none_match),
            reach: grant::reach(self),
        }
    }

    /// Names the database that owns the resources of a reply; it may be gone by now.
    pub(crate) fn owned_by_database(&self, db: &Address, reply: Reply) -> Reply {
        match self.engine().databases().read(db) {
            Ok(database) => reply.owner(database.rid().to_string(), format!("dbs/{}", database.id)),
            Err(_) => reply,
        }
    }

    /// Names the user that owns the permissions of a reply.
    pub(crate) fn owned_by_user(&self, at: &UserAddress, reply: Reply) -> Reply {
        let engine = self.engine();
        let found =
            (engine.databases().read(&at.database), engine.users().read(&at.database, &at.user));
        let (Ok(database), Ok(user)) = found else { return reply };
        let id = user.body.get("id").as_str().unwrap_or_default();
        reply.owner(user.rid.to_string(), format!("dbs/{}/users/{id}", database.id))
    }

    /// The throughput that a create asks for.
    pub(crate) fn throughput(&self) -> ThroughputRequest {
        ThroughputRequest {
            manual: self.headers.offer_throughput,
            autoscale: self.headers.offer_autopilot.as_deref().map(Into::into),
        }
    }
}
