//! Cutover of a split or merge: writers wait for the partition locks, a commit closes the parents, the rest of
//! the journal is copied, and one commit replaces the parents with the children: the container's record, the
//! children open, the parents dropped.

use orrery_storage::key::RecordKind;
use orrery_storage::{Commit, HeadChange, Part, ShardState, StorageError};
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Lsn, Result, ShardId, limits};

use super::copy::{EntryRouter, ShardCopier};
use super::layout::{LayoutChange, newest_epoch};
use crate::catalog::{Catalog, Change, UnsettledShards, WriteFailed};
use crate::error::storage;
use crate::nodes::layout_lease::LayoutLease;
use crate::partition::PhysicalPartition;
use crate::partition::layout::Layouts;
use crate::transaction::locks::LockGuard;
use crate::{Container, Database};

/// Why a split or merge was aborted, and whether the children's shards may be dropped.
pub(super) struct CutoverError {
    pub(super) error: Error,
    pub(super) drop_children: bool,
}

impl From<Error> for CutoverError {
    fn from(error: Error) -> Self {
        Self { error, drop_children: true }
    }
}

impl Layouts<'_> {
    /// Cuts over; on failure the old layout stays in force.
    pub(super) fn cut_over<C: EntryRouter>(
        self,
        container: &Container,
        layout: &LayoutChange,
        lease: &LayoutLease<'_>,
        copy: &mut ShardCopier<'_, C>,
    ) -> std::result::Result<(), CutoverError> {
        let mut change = self.engine.catalog.change()?;
        let parents = NextLayout::of(&change, container, layout)?.parents;
        // Writers in progress finish first; later ones wait here and then read the new layout.
        let _guards: Vec<LockGuard> = parents.iter().flat_map(|p| p.locks.lock_all()).collect();
        let mut closed = self.close(&parents, lease)?;
        copy.catch_up()?;
        let mut lsn = Lsn(0);
        for parent in &parents {
            lsn = lsn.max(self.engine.sessions().shard_lsn(parent)?);
        }
        copy.conclude(lsn)?;
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            match NextLayout::of(&change, container, layout)?.store(change, layout, lease, lsn)? {
                Ok(()) => {
                    closed.shards.clear();
                    return Ok(());
                }
                // Another process has changed the catalog. It has changed nothing of closed shards.
                Err(WriteFailed { error: StorageError::Conflict(failed), .. })
                    if self.engine.is_shared() && !lease.is_lost_by(&failed) =>
                {
                    change = self.engine.catalog.change()?;
                }
                Err(WriteFailed { error, unknown }) => {
                    if unknown {
                        // Either layout may be the stored one: neither may be written to or dropped before
                        // the catalog has found out.
                        closed.shards.clear();
                    }
                    return Err(CutoverError { error: storage(error), drop_children: !unknown });
                }
            }
        }
        Err(Error::RetryWith.into())
    }
}

/// A container without the parents of a split or merge.
struct NextLayout {
    database: Database,
    container: Container,
    parents: Vec<PhysicalPartition>,
}

impl NextLayout {
    /// As the picture of a change has it.
    fn of(change: &Change<'_>, container: &Container, layout: &LayoutChange) -> Result<Self> {
        let found = change.state.database(&Address::Rid(container.database_rid()));
        let database = (**found.ok_or(Error::OwnerNotFound)?).clone();
        let found = database.container(&Address::Rid(container.rid()));
        let mut container = (**found.ok_or(Error::NotFound)?).clone();
        let parents = container.take_partitions(&layout.parents)?;
        Ok(Self { database, container, parents })
    }

    /// Puts the children in the place of the parents.
    fn store(
        self,
        mut change: Change<'_>,
        layout: &LayoutChange,
        lease: &LayoutLease<'_>,
        lsn: Lsn,
    ) -> Result<std::result::Result<(), WriteFailed>> {
        let Self { mut database, container: mut next, parents } = self;
        let epoch = newest_epoch(&parents);
        for child in &layout.children {
            let open = HeadChange::state(ShardState::Building, ShardState::Open, epoch);
            let open = HeadChange { least_lsn: lsn, ..open };
            change.add(Part::of_head(child.shard, child.epoch, open));
        }
        for parent in &parents {
            change.add(change_state(parent, ShardState::Closed, ShardState::Dropped));
        }
        lease.conclude(&mut change.part);
        next.put_partitions(&layout.children, epoch);
        let (kind, owner) = (RecordKind::Container, u64::from(database.number));
        let version = change.record(kind, owner, u64::from(next.number))?.version;
        change.replace(kind, owner, &next.record(version))?;
        database.insert(next);
        change.state.insert(database);
        Ok(change.write().map(|_| change.publish()))
    }
}

impl<'e> Layouts<'e> {
    /// Closes partitions, until what is returned is dropped. Writers that have not heard of it are refused.
    fn close(
        self,
        partitions: &[PhysicalPartition],
        lease: &LayoutLease<'_>,
    ) -> Result<ClosedShards<'e>> {
        let catalog = &self.engine.catalog;
        let shards: Vec<ShardId> = partitions.iter().map(|partition| partition.shard).collect();
        let part = |p: &PhysicalPartition| change_state(p, ShardState::Open, ShardState::Closed);
        let mut parts: Vec<Part> = partitions.iter().map(part).collect();
        lease.fence(&mut parts);
        let commit = Commit::new(parts);
        let id = commit.id;
        match self.engine.store.commit(commit) {
            Ok(_) => Ok(ClosedShards { catalog, shards }),
            Err(error) => {
                if matches!(error, StorageError::Unknown(_)) {
                    catalog.leave(UnsettledShards { shards, closed_by: Some(id) });
                }
                Err(storage(error))
            }
        }
    }
}

/// A part that only changes the state of a partition.
fn change_state(partition: &PhysicalPartition, from: ShardState, to: ShardState) -> Part {
    let (shard, epoch) = (partition.shard, partition.epoch);
    Part::of_head(shard, epoch, HeadChange::state(from, to, epoch))
}

/// Shards that are closed; dropping it opens them again.
struct ClosedShards<'c> {
    catalog: &'c Catalog,
    shards: Vec<ShardId>,
}

impl Drop for ClosedShards<'_> {
    fn drop(&mut self) {
        if !self.shards.is_empty() {
            let shards = std::mem::take(&mut self.shards);
            self.catalog.leave(UnsettledShards { shards, closed_by: None });
        }
    }
}

impl Container {
    /// Takes out partitions, as they are now; [`Error::PartitionGone`] if one is not there.
    fn take_partitions(&mut self, taken: &[PhysicalPartition]) -> Result<Vec<PhysicalPartition>> {
        let is_taken = |p: &PhysicalPartition| taken.iter().any(|t| t.shard == p.shard);
        let (out, stay): (Vec<_>, Vec<_>) = self.partitions.drain(..).partition(is_taken);
        self.partitions = stay;
        if out.len() == taken.len() { Ok(out) } else { Err(Error::PartitionGone) }
    }

    fn put_partitions(&mut self, children: &[PhysicalPartition], epoch: Epoch) {
        for child in children {
            let mut child = child.clone();
            child.epoch = epoch;
            self.partitions.push(child);
        }
        self.partitions.sort_by(|a, b| a.range.min.cmp(&b.range.min));
    }
}
