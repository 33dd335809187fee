//! The moment in which the children of a split or merge take over: writers wait, the parents are
//! frozen, the rest is copied, and one commit of the catalog decides.

use orrery_storage::Store;
use orrery_storage::key::RecordKind;
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Lsn, Result, ShardId};

use super::copy::{Carrier, Copy};
use super::layout::{Reshape, newest_epoch};
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::transaction::locks::Pass;
use crate::{Container, Engine};

/// Why a layout stays, and whether the shards of the new one may be dropped.
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) drop_children: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, drop_children: true }
    }
}

impl Engine {
    /// Brings it about, or leaves everything as it was.
    pub(super) fn switch<C: Carrier>(
        &self,
        container: &Container,
        reshape: &Reshape,
        copy: &mut Copy<'_, C>,
    ) -> std::result::Result<(), Failed> {
        let mut change = self.catalog.change();
        let found = change.state.database(&Address::Rid(container.database_rid()));
        let mut database = (**found.ok_or(Error::OwnerNotFound)?).clone();
        let found = database.container(&Address::Rid(container.rid()));
        let mut next = (**found.ok_or(Error::NotFound)?).clone();
        let parents = next.take_partitions(&reshape.parents)?;
        // Whoever is inside ends first; whoever comes waits, and then takes the new layout.
        let _passes: Vec<Pass> = parents.iter().flat_map(|p| p.gates.close()).collect();
        let mut frozen = Frozen { store: &*self.store, shards: vec![] };
        for parent in &parents {
            frozen.freeze(parent.shard)?;
        }
        copy.catch_up()?;
        let mut lsn = Lsn(0);
        for parent in &parents {
            lsn = lsn.max(self.shard_lsn(parent)?);
        }
        copy.conclude(lsn)?;
        let epoch = newest_epoch(&parents);
        for child in &reshape.children {
            self.store.fence_shard(child.shard, epoch).map_err(storage)?;
            self.store.advance_shard(child.shard, lsn).map_err(storage)?;
        }
        next.put_partitions(&reshape.children, epoch);
        let (kind, owner) = (RecordKind::Container, u64::from(database.number));
        let version = change.record(kind, owner, u64::from(next.number))?.version;
        change.replace(kind, owner, &next.record(version))?;
        database.insert(next);
        change.state.insert(database);
        if let Err(failed) = change.write() {
            if failed.unknown {
                // Either layout may be the stored one: neither may be written to or dropped.
                frozen.stay();
            }
            let drop_children = !failed.unknown;
            return Err(Failed { error: storage(failed.error), drop_children });
        }
        change.publish();
        frozen.stay();
        Ok(())
    }
}

/// Shards that take no commits as long as this is held, or longer.
struct Frozen<'s> {
    store: &'s dyn Store,
    shards: Vec<ShardId>,
}

impl Frozen<'_> {
    fn freeze(&mut self, shard: ShardId) -> Result<()> {
        self.shards.push(shard);
        self.store.freeze_shard(shard, true).map_err(storage)
    }

    fn stay(&mut self) {
        self.shards.clear();
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        for shard in &self.shards {
            if let Err(error) = self.store.freeze_shard(*shard, false) {
                tracing::error!(%error, shard = shard.0, "a shard takes no writes until the server is restarted");
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
