//! Nodes: processes that serve the same store. What a node keeps in memory of the store is compared with what others
//! have changed ([`observed_store`]). Each one has a *number* for the time that it runs, a record with a
//! *heartbeat* ([`membership`]), and *leases* of background work ([`lease`]). Any node serves any request; a lease
//! decides only who does work beside requests. Leases save work and do not protect data: what a holder
//! writes is protected by the preconditions of its commits, as docs/store.md lists, so a holder that was paused
//! and wakes when another one has its lease has written nothing wrong.
//!
//! On a store of one process there is no registry and there are no leases: everything is held.

pub(crate) mod catalog_watch;
mod clock;
mod janitor;
pub(crate) mod layout_lease;
mod lease;
mod membership;
pub(crate) mod observed_store;
mod record;
mod report;

use std::sync::Arc;

use orrery_storage::Store;
use orrery_storage::key::Job;
use orrery_types::{Clock, Result};

use crate::Engine;
use crate::error::storage;
use clock::StoreClock;
use membership::Membership;

pub use record::NodeDescription;

/// What this process is among the nodes of its store.
pub(crate) struct Nodes {
    /// `None` on a store of this process.
    membership: Option<Membership>,
}

impl Nodes {
    /// Joins the nodes of a shared store under a new number. Its system shard exists.
    pub(crate) fn join(store: &dyn Store, clock: &Arc<dyn Clock>) -> Result<Self> {
        if !store.is_shared() {
            return Ok(Self { membership: None });
        }
        let store_clock = StoreClock::of(store, clock).map_err(storage)?;
        let membership = Membership::join(store, clock.clone(), store_clock)?;
        Ok(Self { membership: Some(membership) })
    }

    /// The clock by which all nodes go, in the place of this process's own.
    pub(crate) fn clock(&self, own: Arc<dyn Clock>) -> Arc<dyn Clock> {
        self.membership.as_ref().map_or(own, Membership::clock)
    }

    /// The number of this node, by which its etags differ from those of others.
    pub(crate) fn number(&self) -> Option<u32> {
        self.membership.as_ref().map(Membership::number)
    }

    /// Whether this process may do a job: on a shared store if it holds the lease.
    pub(crate) fn holds(&self, job: Job) -> bool {
        self.membership.as_ref().is_none_or(|membership| membership.holds(job))
    }
}

/// The nodes of the store, and what this one does among them.
#[derive(Clone, Copy)]
pub struct NodeRegistry<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> NodeRegistry<'e> {
    /// The store of the records, which are read as they are, whatever has changed beside them.
    fn store(self) -> &'e dyn Store {
        &**self.engine.unchecked_store()
    }
}
