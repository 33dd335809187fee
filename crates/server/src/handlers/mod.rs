//! One file a resource: decode the request, call one method of the engine, encode the answer.

pub(crate) mod account;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod change;
pub(crate) mod container;
pub(crate) mod database;
pub(crate) mod encryption_key;
pub(crate) mod grant;
pub(crate) mod item;
pub(crate) mod model;
pub(crate) mod offer;
pub(crate) mod permission;
pub(crate) mod query;
pub(crate) mod range;
pub(crate) mod script;
pub(crate) mod statistics;
pub(crate) mod tasks;
pub(crate) mod user;

use orrery_engine::resource::Preconditions;
use orrery_engine::throughput::ThroughputRequest;

use crate::call::Call;

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

    /// The throughput that a create asks for.
    pub(crate) fn throughput(&self) -> ThroughputRequest {
        ThroughputRequest {
            manual: self.headers.offer_throughput,
            autoscale: self.headers.offer_autopilot.as_deref().map(Into::into),
        }
    }
}
