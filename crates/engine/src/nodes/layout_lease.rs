//! The lease of a split or merge. Its record names the partitions and the shards that are replaced, and those that are
//! being made: so when its node dies, another one finds what was left half done. The cutover requires the version
//! of the lease and removes it in the same commit. Whoever takes the lease over therefore knows that the cutover
//! has not happened and will not: it drops the children and opens the parents again.

use std::sync::PoisonError;

use orrery_storage::key::{self, Job};
use orrery_storage::{
    Commit, FailedPrecondition, Head, HeadChange, Part, Precondition, Put, ShardState, Space,
    StorageError,
};
use orrery_types::{Error, Lsn, Result, ShardId};

use super::NodeRegistry;
use super::lease::remove;
use super::membership::Membership;
use super::record::{LeaseRecord, NodeRecord, Versioned};
use crate::catalog::{SYSTEM_EPOCH, SYSTEM_SHARD};
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

impl Container {
    /// The job of a split or merge.
    fn layout_job(&self) -> Job {
        Job::Layout { database: self.database, container: self.number }
    }

    /// Its background work.
    pub(crate) fn job(&self) -> Job {
        Job::Container { database: self.database, container: self.number }
    }
}

/// The lease of a split or merge, until it is dropped. It is empty on a store of this process.
pub(crate) struct LayoutLease<'e>(Option<HeldLayout<'e>>);

struct HeldLayout<'e> {
    engine: &'e Engine,
    membership: &'e Membership,
    job: Job,
    version: Lsn,
}

impl LayoutLease<'_> {
    /// Adds to a commit that it is valid only while the lease is held.
    pub(crate) fn fence(&self, parts: &mut Vec<Part>) {
        if let Some(held) = &self.0 {
            let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
            part.preconditions.push(held.precondition());
            parts.push(part);
        }
    }

    /// Whether a commit was refused because another node has taken the lease over.
    pub(crate) fn is_lost_by(&self, failed: &FailedPrecondition) -> bool {
        self.0.as_ref().is_some_and(|held| failed.precondition == held.precondition())
    }

    /// Adds to the commit of the cutover that it is valid only while the lease is held, and ends it.
    pub(crate) fn conclude(&self, part: &mut Part) {
        if let Some(held) = &self.0 {
            part.preconditions.push(held.precondition());
            part.deletes.push((Space::Meta, key::lease(held.job)));
        }
    }
}

impl HeldLayout<'_> {
    fn precondition(&self) -> Precondition {
        let (space, key) = (Space::Meta, key::lease(self.job));
        Precondition::Version { space, key, lsn: self.version }
    }
}

impl Drop for HeldLayout<'_> {
    fn drop(&mut self) {
        *self.membership.running_layout() = None;
        // If it is over nothing is there. What cannot be removed now is taken over later.
        let registry = self.engine.nodes();
        if let Ok(Some(lease)) = registry.layout_lease(self.job)
            && lease.version == self.version
            && let Err(error) = registry.clean_up_layout(self.job, lease)
        {
            tracing::warn!(%error, "what a split or merge has left is cleaned up later");
        }
    }
}

impl Membership {
    /// The split or merge of this process.
    pub(super) fn running_layout(&self) -> std::sync::MutexGuard<'_, Option<Job>> {
        self.running_layout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'e> NodeRegistry<'e> {
    /// Takes the lease of a split or merge, which names the parents and their children. Refused while another node
    /// splits or merges the container.
    pub(crate) fn lease_layout(
        self,
        container: &Container,
        parents: &[PhysicalPartition],
        children: &[PhysicalPartition],
    ) -> Result<LayoutLease<'e>> {
        let Some(membership) = &self.engine.nodes.membership else { return Ok(LayoutLease(None)) };
        let job = container.layout_job();
        if let Some(lease) = self.layout_lease(job)? {
            let node = lease.record.node;
            if node != membership.number() && !self.is_dead(node)? {
                return Err(busy(node));
            }
            self.clean_up_layout(job, lease)?;
        }
        let shards =
            |partitions: &[PhysicalPartition]| partitions.iter().map(|p| p.shard).collect();
        let record = LeaseRecord {
            node: membership.number(),
            partitions: parents.iter().map(|parent| parent.id).collect(),
            parents: shards(parents),
            children: shards(children),
        };
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        let (space, key) = (Space::Meta, key::lease(job));
        part.preconditions.push(Precondition::Absent { space, key: key.clone() });
        part.puts.push(Put { space, key, value: record.to_bytes() });
        *membership.running_layout() = Some(job);
        match self.store().commit(Commit::new(vec![part])) {
            Ok(committed) => {
                let version = committed.lsns.first().copied().unwrap_or_default();
                let engine = self.engine;
                Ok(LayoutLease(Some(HeldLayout { engine, membership, job, version })))
            }
            Err(error) => {
                *membership.running_layout() = None;
                let taken = matches!(error, StorageError::Conflict(_));
                let holder = if taken { self.layout_lease(job)? } else { None };
                Err(holder.map_or_else(|| storage(error), |lease| busy(lease.record.node)))
            }
        }
    }

    fn layout_lease(self, job: Job) -> Result<Option<Versioned<LeaseRecord>>> {
        let key = key::lease(job);
        let found = self.store().get(SYSTEM_SHARD, Space::Meta, &key).map_err(storage)?.1;
        let Some(found) = found else { return Ok(None) };
        let record = LeaseRecord::from_bytes(&found.bytes)?;
        Ok(Some(Versioned { version: found.version, record }))
    }

    /// The partitions of a container that another node is splitting.
    pub(crate) fn split_elsewhere(self, container: &Container) -> Result<Option<u32>> {
        if self.engine.nodes.membership.is_none() {
            return Ok(None);
        }
        let lease = self.layout_lease(container.layout_job())?;
        Ok(lease.and_then(|lease| match lease.record.partitions[..] {
            [parent] => Some(parent),
            _ => None,
        }))
    }

    /// Whether a node is no longer there; one whose time is over is removed.
    pub(crate) fn is_dead(self, number: u32) -> Result<bool> {
        let key = key::node(number);
        let found = self.store().get(SYSTEM_SHARD, Space::Meta, &key).map_err(storage)?.1;
        let Some(found) = found else { return Ok(true) };
        let is_over = NodeRecord::from_bytes(&found.bytes)?.is_over(self.engine.clock.now_us());
        Ok(is_over && remove(self.store(), key, found.version)?)
    }

    /// Takes over the lease of a split or merge that has ended early, and puts things back as they were before.
    /// Nothing if another node is faster, or the cutover.
    pub(super) fn clean_up_layout(self, job: Job, lease: Versioned<LeaseRecord>) -> Result<()> {
        let Some(membership) = &self.engine.nodes.membership else { return Ok(()) };
        let store = self.store();
        let record = LeaseRecord { node: membership.number(), ..lease.record };
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        let (space, key) = (Space::Meta, key::lease(job));
        let lsn = lease.version;
        part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
        part.puts.push(Put { space, key: key.clone(), value: record.to_bytes() });
        let version = match store.commit(Commit::new(vec![part])) {
            Ok(committed) => committed.lsns.first().copied().unwrap_or_default(),
            Err(StorageError::Conflict(_)) => return Ok(()),
            Err(error) => return Err(storage(error)),
        };
        for shard in &record.children {
            match store.drop_shard(*shard) {
                Ok(()) | Err(StorageError::Gone { .. }) => {}
                Err(error) => return Err(storage(error)),
            }
        }
        for shard in &record.parents {
            self.open_again(*shard)?;
        }
        remove(store, key, version).map(drop)
    }

    /// Opens a shard if it is closed.
    fn open_again(self, shard: ShardId) -> Result<()> {
        let store = self.store();
        let head = store.heads(&[shard]).map_err(storage)?.into_iter().next().flatten();
        let Some(Head { epoch, state: ShardState::Closed, .. }) = head else { return Ok(()) };
        let open = HeadChange::state(ShardState::Closed, ShardState::Open, epoch);
        match store.commit(Commit::new(vec![Part::of_head(shard, epoch, open)])) {
            Ok(_) | Err(StorageError::Gone { .. }) => Ok(()),
            Err(error) => Err(storage(error)),
        }
    }
}

fn busy(node: u32) -> Error {
    Error::Unavailable(
        format!(
            "Node {node} is splitting or merging ranges of the container at this time; retry when it is done."
        )
        .into(),
    )
}
