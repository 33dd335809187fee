//! The record of this node and its heartbeat. A node gets a number from a counter when it starts, which is never
//! given again. A heartbeat renews the record under the version that the node wrote itself. A record whose time is
//! over is removed by whoever finds it, under its version: so a number that was taken for dead never comes back to
//! life. A node that finds its own record gone, or its time over, registers under a new number, has no leases any
//! more, and goes on serving.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use orrery_storage::key::{self, Job};
use orrery_storage::{Commit, Part, Precondition, Put, Space, StorageError, Store};
use orrery_types::{Clock, Error, Lsn, Result, limits};

use super::NodeRegistry;
use super::clock::StoreClock;
use super::janitor::UnusedShards;
use super::record::{NodeDescription, NodeRecord};
use crate::catalog::{SYSTEM_EPOCH, SYSTEM_SHARD, records};
use crate::error::storage;

/// What this process is among the nodes of a shared store.
pub(super) struct Membership {
    clock: Arc<dyn Clock>,
    /// The same, if it is that of the store.
    store_clock: Option<Arc<StoreClock>>,
    /// Held by the heartbeat in progress.
    own: Mutex<OwnRecord>,
    /// What it holds, as the last heartbeat has left it.
    pub(super) held: ArcSwap<HeldLeases>,
    description: Mutex<NodeDescription>,
    /// The split or merge of this process.
    pub(super) running_layout: Mutex<Option<Job>>,
    pub(super) unused: Mutex<UnusedShards>,
}

/// The record of this node.
pub(super) struct OwnRecord {
    pub(super) number: u32,
    version: Lsn,
    started_us: u64,
    expires_us: u64,
    next_us: u64,
    /// The last change of the catalog that it has seen.
    control: Lsn,
}

/// The leases of this node.
#[derive(Default)]
pub(super) struct HeldLeases {
    pub(super) number: u32,
    /// Until when they count, unless another heartbeat comes.
    pub(super) expires_us: u64,
    pub(super) jobs: BTreeMap<Job, Lsn>,
    /// Jobs that were held by other nodes.
    pub(super) elsewhere: BTreeMap<Job, u32>,
}

impl Membership {
    pub(super) fn join(
        store: &dyn Store,
        own: Arc<dyn Clock>,
        store_clock: Option<Arc<StoreClock>>,
    ) -> Result<Self> {
        let clock = store_clock.clone().map_or(own, |clock| clock as Arc<dyn Clock>);
        let registered = register(store, &*clock, clock.now_us(), &NodeRecord::default())?;
        let held = HeldLeases {
            number: registered.number,
            expires_us: registered.expires_us,
            ..HeldLeases::default()
        };
        Ok(Self {
            clock,
            store_clock,
            own: Mutex::new(registered),
            held: ArcSwap::from_pointee(held),
            description: Mutex::default(),
            running_layout: Mutex::default(),
            unused: Mutex::default(),
        })
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    pub(super) fn number(&self) -> u32 {
        self.held.load().number
    }

    /// Whether it holds the lease of a job, as far as it can know without asking.
    pub(super) fn holds(&self, job: Job) -> bool {
        let held = self.held.load();
        held.jobs.contains_key(&job) && self.clock.now_us() < held.expires_us
    }

    pub(super) fn own(&self) -> MutexGuard<'_, OwnRecord> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next heartbeat is due.
    pub(super) fn is_due(&self) -> bool {
        self.clock.now_us() >= self.own().next_us
    }

    /// Renews the record of this node, or registers under a new number if its time is over.
    pub(super) fn renew(
        &self,
        store: &dyn Store,
        own: &mut OwnRecord,
        said: NodeRecord,
    ) -> Result<()> {
        if let Some(clock) = &self.store_clock {
            clock.adjust(store).map_err(storage)?;
        }
        let description = self.description.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let record = NodeRecord { started_us: own.started_us, description, ..said };
        let now_us = self.clock.now_us();
        if now_us < own.expires_us {
            let record = record.clone().at(now_us);
            let (space, key) = (Space::Meta, key::node(own.number));
            let before = Precondition::Version { space, key, lsn: own.version };
            match store.commit(put_node(own.number, before, &record)) {
                Ok(committed) => {
                    own.version = committed.lsns.first().copied().unwrap_or_default();
                    own.expires_us = record.expires_us;
                    own.next_us = now_us + limits::NODE_HEARTBEAT_MS * 1000;
                    return Ok(());
                }
                Err(StorageError::Conflict(_)) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        let before = own.number;
        *own = register(store, &*self.clock, own.started_us, &record)?;
        self.held.store(Arc::new(HeldLeases {
            number: own.number,
            expires_us: own.expires_us,
            ..HeldLeases::default()
        }));
        tracing::warn!(before, number = own.number, "the heartbeat lapsed; registered anew");
        Ok(())
    }
}

impl OwnRecord {
    pub(super) fn expires_us(&self) -> u64 {
        self.expires_us
    }

    /// Whether the catalog has changed since this was asked before.
    pub(super) fn see_control(&mut self, control: Lsn) -> bool {
        std::mem::replace(&mut self.control, control) != control
    }

    pub(super) fn version(&self) -> Lsn {
        self.version
    }
}

impl NodeRecord {
    fn at(self, now_us: u64) -> Self {
        let expires_us = now_us + limits::NODE_EXPIRY_MS * 1000;
        Self { beat_us: now_us, expires_us, ..self }
    }

    /// Whether its node counts as dead.
    pub(super) fn is_over(&self, now_us: u64) -> bool {
        self.expires_us <= now_us
    }
}

fn put_node(number: u32, before: Precondition, record: &NodeRecord) -> Commit {
    let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
    part.preconditions.push(before);
    let (space, key) = (Space::Meta, key::node(number));
    part.puts.push(Put { space, key, value: record.to_bytes() });
    Commit::new(vec![part])
}

/// Takes a new number, and writes the record of the node under it.
fn register(
    store: &dyn Store,
    clock: &dyn Clock,
    started_us: u64,
    record: &NodeRecord,
) -> Result<OwnRecord> {
    for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
        let now_us = clock.now_us();
        let record = NodeRecord { started_us, ..record.clone() }.at(now_us);
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        let number = records::next_numbers(store, &mut part, "node", 1)?;
        let (space, key) = (Space::Meta, key::node(number));
        part.puts.push(Put { space, key, value: record.to_bytes() });
        match store.commit(Commit::new(vec![part])) {
            Ok(committed) => {
                let version = committed.lsns.first().copied().unwrap_or_default();
                let expires_us = record.expires_us;
                // At once: what it may hold is not known yet.
                let (next_us, control) = (now_us, Lsn(0));
                return Ok(OwnRecord { number, version, started_us, expires_us, next_us, control });
            }
            // Another node registers at the same time.
            Err(StorageError::Conflict(_)) => {}
            Err(error) => return Err(storage(error)),
        }
    }
    Err(Error::RetryWith)
}

impl NodeRegistry<'_> {
    /// Says what this node is, from its next heartbeat on.
    pub fn describe(self, description: NodeDescription) {
        if let Some(membership) = &self.engine.nodes.membership {
            *membership.description.lock().unwrap_or_else(PoisonError::into_inner) = description;
        }
    }
}
