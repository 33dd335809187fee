//! Leases of background work. The lease of a job is a key of the system shard: its value names the node, and its
//! version is the fencing token. Whoever finds it absent, or its node dead, takes it by `Absent` or `Version`, so
//! one node wins. Nothing renews it but the heartbeat of its node.
//!
//! After each heartbeat a node compares what it holds with its share, the number of jobs divided by that of live
//! nodes, rounded up, and one: it takes free jobs up to that and gives back what is above.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orrery_storage::key::{self, Bounds, Job};
use orrery_storage::{
    Commit, Entry, Part, Precondition, Put, ReadAt, Snapshot, Space, StorageError, Store,
};
use orrery_types::{Error, Lsn, Result, limits};

use super::NodeRegistry;
use super::membership::{HeldLeases, Membership, OwnRecord};
use super::record::{LeaseRecord, NodeRecord, Versioned};
use crate::catalog::{SYSTEM_EPOCH, SYSTEM_SHARD};
use crate::error::storage;
use crate::throughput::throttle::Demands;

/// All nodes and leases as of one instant.
pub(super) struct Cluster {
    /// The last commit that has changed the catalog.
    control: Lsn,
    pub(super) nodes: BTreeMap<u32, Versioned<NodeRecord>>,
    pub(super) leases: BTreeMap<Job, Versioned<LeaseRecord>>,
}

impl Cluster {
    pub(super) fn read(store: &dyn Store) -> Result<Self> {
        let snapshot = store.snapshot(SYSTEM_SHARD, ReadAt::Latest).map_err(storage)?;
        let (mut nodes, mut leases) = (BTreeMap::new(), BTreeMap::new());
        for entry in entries(&*snapshot, key::nodes())? {
            let number = key::parse_node(&entry.key).ok_or_else(corrupt)?;
            let (version, record) = (entry.value.version, &entry.value.bytes);
            let record = NodeRecord::from_bytes(record)?;
            nodes.insert(number, Versioned { version, record });
        }
        for entry in entries(&*snapshot, key::leases())? {
            let job = key::parse_lease(&entry.key).ok_or_else(corrupt)?;
            let (version, record) = (entry.value.version, &entry.value.bytes);
            let record = LeaseRecord::from_bytes(record)?;
            leases.insert(job, Versioned { version, record });
        }
        Ok(Self { control: snapshot.head().control, nodes, leases })
    }

    /// Removes nodes whose time is over; those that have sent a heartbeat meanwhile stay.
    pub(super) fn bury(&mut self, store: &dyn Store, now_us: u64) -> Result<()> {
        let dead = self.nodes.iter().filter(|(_, node)| node.record.is_over(now_us));
        let dead: Vec<(u32, Lsn)> = dead.map(|(number, node)| (*number, node.version)).collect();
        for (number, version) in dead {
            if remove(store, key::node(number), version)? {
                self.nodes.remove(&number);
                tracing::warn!(node = number, "a node counts as dead; its leases are free");
            }
        }
        Ok(())
    }

    /// Whether nobody holds a job. Nodes that are over have been removed.
    pub(super) fn is_free(&self, job: Job) -> bool {
        let lease = self.leases.get(&job);
        lease.is_none_or(|lease| !self.nodes.contains_key(&lease.record.node))
    }
}

fn entries(snapshot: &dyn Snapshot, mut bounds: Bounds) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let scan = bounds.scan(Space::Meta, ROWS, usize::MAX);
        let entries = snapshot.scan(&scan).map_err(storage)?;
        let last = entries.last().filter(|_| entries.len() == ROWS).map(|last| last.key.clone());
        all.extend(entries);
        let Some(last) = last else { return Ok(all) };
        bounds = bounds.after(&last);
    }
}

const ROWS: usize = 1000;

/// Removes a key that still has a version; whether it had.
pub(super) fn remove(store: &dyn Store, key: Vec<u8>, lsn: Lsn) -> Result<bool> {
    let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
    let space = Space::Meta;
    part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
    part.deletes.push((space, key));
    match store.commit(Commit::new(vec![part])) {
        Ok(_) => Ok(true),
        Err(StorageError::Conflict(_)) => Ok(false),
        Err(error) => Err(storage(error)),
    }
}

fn corrupt() -> Error {
    Error::internal("the key of a node or of a lease is corrupt")
}

/// What one node is to take and to give back.
#[derive(Default)]
struct Transfers {
    /// Jobs to take, each with the version of the lease that a dead node has left.
    taken: BTreeMap<Job, Option<Lsn>>,
    given_back: BTreeMap<Job, Lsn>,
}

impl Transfers {
    /// Compares what a node holds with its share.
    fn of(own: u32, jobs: &BTreeSet<Job>, cluster: &Cluster) -> Self {
        let mut transfers = Self::default();
        let live = cluster.nodes.len().max(1);
        let mut room = jobs.len().div_ceil(live) + 1;
        // Every node begins with another job, so that they seldom want the same.
        let mut order: Vec<Job> = jobs.iter().copied().collect();
        let first = order.len() * (own as usize % live) / live;
        order.rotate_left(first);
        let is_own = |job: &Job| cluster.leases.get(job).filter(|l| l.record.node == own);
        for job in &order {
            let Some(lease) = is_own(job) else { continue };
            match room.checked_sub(1) {
                Some(left) => room = left,
                None => drop(transfers.given_back.insert(*job, lease.version)),
            }
        }
        for (job, lease) in &cluster.leases {
            let is_known = jobs.contains(job) || matches!(job, Job::Layout { .. });
            if lease.record.node == own && !is_known {
                transfers.given_back.insert(*job, lease.version);
            }
        }
        for job in order.iter().filter(|job| cluster.is_free(**job)).take(room) {
            let left = cluster.leases.get(job).map(|lease| lease.version);
            transfers.taken.insert(*job, left);
        }
        transfers
    }

    /// Makes them durable, and `held` with them. What another node was faster with is left out.
    fn commit(mut self, store: &dyn Store, own: u32, held: &mut HeldLeases) -> Result<()> {
        while !self.taken.is_empty() || !self.given_back.is_empty() {
            let taken: Vec<(Job, Option<Lsn>)> =
                self.taken.iter().map(|(job, left)| (*job, *left)).collect();
            let taken = &taken[..taken.len().min(limits::LEASES_PER_COMMIT)];
            let given: Vec<(Job, Lsn)> = self.given_back.iter().map(|(j, v)| (*j, *v)).collect();
            let given = &given[..given.len().min(limits::LEASES_PER_COMMIT)];
            match store.commit(Commit::new(vec![part_of(own, taken, given)])) {
                Ok(committed) => {
                    let version = committed.lsns.first().copied().unwrap_or_default();
                    for (job, _) in taken {
                        self.taken.remove(job);
                        held.jobs.insert(*job, version);
                    }
                    for (job, _) in given {
                        self.given_back.remove(job);
                    }
                }
                Err(StorageError::Conflict(failed)) => {
                    let key = failed.precondition.key().map(|(_, key)| key);
                    let job = key.and_then(key::parse_lease).ok_or_else(corrupt)?;
                    self.taken.remove(&job);
                    self.given_back.remove(&job);
                }
                Err(error) => return Err(storage(error)),
            }
        }
        Ok(())
    }
}

/// The part that takes leases for a node and gives others back.
fn part_of(own: u32, taken: &[(Job, Option<Lsn>)], given: &[(Job, Lsn)]) -> Part {
    let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
    let space = Space::Meta;
    for (job, left) in taken {
        let key = key::lease(*job);
        part.preconditions.push(Precondition::unchanged(space, key.clone(), *left));
        part.puts.push(Put { space, key, value: LeaseRecord::of(own).to_bytes() });
    }
    for (job, lsn) in given {
        let key = key::lease(*job);
        part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn: *lsn });
        part.deletes.push((space, key));
    }
    part
}

impl NodeRegistry<'_> {
    /// Sends the heartbeat of this node, and takes and gives back leases. Nothing on a store of this process.
    pub fn beat(self) -> Result<()> {
        let Some(membership) = &self.engine.nodes.membership else { return Ok(()) };
        let mut own = membership.own();
        self.beat_with(membership, &mut own)
    }

    fn beat_with(self, membership: &Membership, own: &mut OwnRecord) -> Result<()> {
        let store = self.store();
        let lag_s = self.engine.secondary_indexes().lag_s();
        let demands = self.engine.throttle.demands(self.engine.clock.now_us());
        let said = NodeRecord { lag_s, demands: demands.clone(), ..NodeRecord::default() };
        membership.renew(store, own, said)?;
        let mut cluster = Cluster::read(store)?;
        cluster.bury(store, self.engine.clock.now_us())?;
        let others = cluster.nodes.iter().filter(|(number, _)| **number != own.number);
        let others: Vec<&Demands> = others.map(|(_, node)| &node.record.demands).collect();
        self.engine.throttle.set_shares(&demands, &others);
        if own.see_control(cluster.control) {
            self.engine.throttle.refresh(store)?;
        }
        let transfers = Transfers::of(own.number, &self.jobs(), &cluster);
        let mut held = HeldLeases {
            number: own.number,
            expires_us: own.expires_us(),
            ..HeldLeases::default()
        };
        for (job, lease) in &cluster.leases {
            if lease.record.node != own.number {
                held.elsewhere.insert(*job, lease.record.node);
            } else if !transfers.given_back.contains_key(job) {
                held.jobs.insert(*job, lease.version);
            }
        }
        let done = transfers.commit(store, own.number, &mut held);
        held.elsewhere.retain(|job, _| !held.jobs.contains_key(job));
        membership.held.store(Arc::new(held));
        done
    }

    /// Before a pass of background work: sends the heartbeat if it is due, or if there is a job of which this node does not know
    /// who does it.
    pub(crate) fn before_pass(self) {
        let Some(membership) = &self.engine.nodes.membership else { return };
        let held = membership.held.load();
        let is_known = |job: &Job| held.jobs.contains_key(job) || held.elsewhere.contains_key(job);
        if !membership.is_due() && self.jobs().iter().all(is_known) {
            return;
        }
        if let Err(error) = self.beat() {
            tracing::warn!(%error, "the heartbeat failed; it is retried");
        }
    }

    /// The jobs that nodes share out among themselves.
    fn jobs(self) -> BTreeSet<Job> {
        let state = self.engine.catalog.state();
        let of_model = state.databases().filter(|database| database.model.is_some());
        let mut jobs: BTreeSet<Job> =
            of_model.map(|database| Job::Database(database.number)).collect();
        jobs.extend(state.containers().map(|container| container.job()));
        jobs.insert(Job::Account);
        jobs
    }

    /// Gives back all leases and the number of this node: the orderly end. What is left out is found by the
    /// others when its heartbeat is over.
    pub fn leave(self) -> Result<()> {
        let Some(membership) = &self.engine.nodes.membership else { return Ok(()) };
        let own = membership.own();
        let held = membership.held.load_full();
        let nothing = HeldLeases { number: held.number, ..HeldLeases::default() };
        membership.held.store(Arc::new(nothing));
        let given_back: BTreeMap<Job, Lsn> = held.jobs.clone();
        let transfers = Transfers { given_back, ..Transfers::default() };
        transfers.commit(self.store(), own.number, &mut HeldLeases::default())?;
        remove(self.store(), key::node(own.number), own.version()).map(drop)
    }
}
