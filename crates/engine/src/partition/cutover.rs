//! Cutover of a split or merge: writers wait for the partition locks, the parents are frozen, the rest of the
//! journal is copied, and one catalog commit replaces the parents with the children.

use orrery_storage::Store;
use orrery_storage::key::RecordKind;
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Lsn, Result, ShardId};

use super::copy::{EntryRouter, ShardCopier};
use super::layout::{LayoutChange, newest_epoch};
use crate::Container;
use crate::catalog::UndecidedLayout;
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::partition::layout::Layouts;
use crate::transaction::locks::LockGuard;

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
        copy: &mut ShardCopier<'_, C>,
    ) -> std::result::Result<(), CutoverError> {
        let mut change = self.engine.catalog.change();
        let found = change.state.database(&Address::Rid(container.database_rid()));
        let mut database = (**found.ok_or(Error::OwnerNotFound)?).clone();
        let found = database.container(&Address::Rid(container.rid()));
        let mut next = (**found.ok_or(Error::NotFound)?).clone();
        let parents = next.take_partitions(&layout.parents)?;
        // Writers in progress finish first; later ones wait here and then read the new layout.
        let _guards: Vec<LockGuard> = parents.iter().flat_map(|p| p.locks.lock_all()).collect();
        let mut frozen = FrozenShards { store: &*self.engine.store, shards: vec![] };
        for parent in &parents {
            frozen.freeze(parent.shard)?;
        }
        copy.catch_up()?;
        let mut lsn = Lsn(0);
        for parent in &parents {
            lsn = lsn.max(self.engine.sessions().shard_lsn(parent)?);
        }
        copy.conclude(lsn)?;
        let epoch = newest_epoch(&parents);
        for child in &layout.children {
            self.engine.store.fence_shard(child.shard, epoch).map_err(storage)?;
            self.engine.store.advance_shard(child.shard, lsn).map_err(storage)?;
        }
        next.put_partitions(&layout.children, epoch);
        let (kind, owner) = (RecordKind::Container, u64::from(database.number));
        let version = change.record(kind, owner, u64::from(next.number))?.version;
        change.replace(kind, owner, &next.record(version))?;
        database.insert(next);
        change.state.insert(database);
        if let Err(failed) = change.write() {
            if failed.unknown {
                // Either layout may be the stored one: neither may be written to or dropped before the
                // catalog has found out.
                let shards = |list: &[PhysicalPartition]| list.iter().map(|p| p.shard).collect();
                let (parents, children) = (shards(&parents), shards(&layout.children));
                change.decides_about(UndecidedLayout { parents, children });
                frozen.keep();
            }
            let drop_children = !failed.unknown;
            return Err(CutoverError { error: storage(failed.error), drop_children });
        }
        change.publish();
        frozen.keep();
        Ok(())
    }
}

/// Frozen shards, which refuse commits; dropping it unfreezes them.
struct FrozenShards<'s> {
    store: &'s dyn Store,
    shards: Vec<ShardId>,
}

impl FrozenShards<'_> {
    fn freeze(&mut self, shard: ShardId) -> Result<()> {
        self.shards.push(shard);
        self.store.freeze_shard(shard, true).map_err(storage)
    }

    /// Leaves the shards frozen.
    fn keep(&mut self) {
        self.shards.clear();
    }
}

impl Drop for FrozenShards<'_> {
    fn drop(&mut self) {
        for shard in &self.shards {
            if let Err(error) = self.store.freeze_shard(*shard, false) {
                tracing::error!(%error, shard = shard.0, "a shard could not be unfrozen and refuses writes until the server is restarted");
            }
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
