//! Split and merge: a physical partition becomes two, or two become one, while the container is read
//! and written.
//!
//! 1. Create shards for the children, which the catalog does not name yet, and start a *journal* of the
//!    keys that change in each parent.
//! 2. Copy all entries in chunks, each from its own snapshot, and apply the journal (`copy`). `split`
//!    decides which child an entry belongs to, `merge` how an entry changes in the one child.
//! 3. Cut over when the journal is nearly empty (`cutover`): writers wait for the partition locks, a
//!    commit closes the parents, the rest of the journal is applied, and one commit replaces the
//!    parents with the children.
//!
//! Before that commit the old layout is in force; if the process ends, the next start drops the new shards
//! and opens the parents again. After it the new layout is in force. A writer that still has the old layout
//! is refused by the closed or dropped parent, reloads the layout and runs again, invisibly to its client.
//! The parents are kept for a while for reads that started before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orrery_storage::StorageError;
use orrery_types::ids::Address;
use orrery_types::{EffectiveKey, Epoch, Error, KeyRange, Result, ShardId, limits};

use super::copy::{EntryRouter, ShardCopier};
use super::cutover::CutoverError;
use super::merge::MergeRouter;
use super::split::SplitRouter;
use crate::background::units::{UnitKey, UnitKind};
use crate::background::{BackgroundPass, UnitProgress};
use crate::error::storage;
use crate::nodes::layout_lease::LayoutLease;
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

pub use super::automatic::LayoutPolicy;
pub(crate) use super::automatic::SplitMonitor;

/// The result of a split or a merge, by partition ids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LayoutChangeResult {
    pub parents: Vec<u32>,
    pub children: Vec<u32>,
}

/// State of the engine about splits and merges.
#[derive(Default)]
pub(crate) struct LayoutChanges {
    /// Held by the split or merge in progress: there is one at a time in a process.
    running: Mutex<()>,
    /// Parents of finished splits and merges, with the time of their cutover.
    retired: Mutex<Vec<(ShardId, u64)>>,
    /// Work of the thread for automatic splits.
    pub(crate) monitor: SplitMonitor,
}

/// A split or merge: the partitions before and after it.
pub(super) struct LayoutChange {
    pub(super) parents: Vec<PhysicalPartition>,
    pub(super) children: Vec<PhysicalPartition>,
    announced_ms: u64,
}

/// Which partition to split, at which key, and how long clients see it as splitting at least.
pub(crate) struct SplitRequest<'c> {
    pub(super) id: Option<&'c str>,
    pub(super) at: Option<&'c EffectiveKey>,
    pub(super) announced_ms: u64,
}

/// Physical partitions of containers: splits and merges.
#[derive(Clone, Copy)]
pub struct Layouts<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> Layouts<'e> {
    /// Splits a physical partition in two: the named one, or the largest. The second child begins
    /// at `at`, or where it gets about half of the data.
    pub fn split_partition(
        self,
        database: &Address,
        container: &Address,
        id: Option<&str>,
        at: Option<&EffectiveKey>,
    ) -> Result<LayoutChangeResult> {
        let cut = SplitRequest { id, at, announced_ms: 0 };
        self.split_while(database, container, &cut, &|| {
            self.engine.layout_changes.monitor.is_stopped()
        })
    }

    /// The same, aborted when `stop` returns true.
    pub(crate) fn split_while(
        self,
        database: &Address,
        container: &Address,
        cut: &SplitRequest<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<LayoutChangeResult> {
        let _running =
            self.engine.layout_changes.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.erasure().load_all_changed()?;
        let container = self.engine.catalog.container(database, container)?;
        self.unless_deleted(&container, self.split(&container, cut, stop))
    }

    fn split(
        self,
        container: &Container,
        cut: &SplitRequest<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<LayoutChangeResult> {
        let parent = match cut.id {
            Some(id) => container.partition_by_id(id)?,
            None => self.largest_partition(container)?,
        };
        let at = match cut.at {
            Some(at) => check_boundary(parent, at)?.clone(),
            None => self.boundary(container, parent)?,
        };
        let ranges = [
            KeyRange { min: parent.range.min.clone(), max: at.clone() },
            KeyRange { min: at, max: parent.range.max.clone() },
        ];
        let parents = vec![parent.clone()];
        let children = self.new_partitions(container, &parents, &ranges)?;
        let router = SplitRouter::new(&children);
        let change = LayoutChange { parents, children, announced_ms: cut.announced_ms };
        self.change_layout(container, &change, router, stop)
    }

    /// Merges two neighbouring partitions: the named ones, or those with the least data.
    pub fn merge_partitions(
        self,
        database: &Address,
        container: &Address,
        ids: Option<(&str, &str)>,
    ) -> Result<LayoutChangeResult> {
        self.merge_while(database, container, ids, &|| {
            self.engine.layout_changes.monitor.is_stopped()
        })
    }

    /// The same, aborted when `stop` returns true.
    fn merge_while(
        self,
        database: &Address,
        container: &Address,
        ids: Option<(&str, &str)>,
        stop: &dyn Fn() -> bool,
    ) -> Result<LayoutChangeResult> {
        let _running =
            self.engine.layout_changes.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.erasure().load_all_changed()?;
        let container = self.engine.catalog.container(database, container)?;
        self.unless_deleted(&container, self.merge(&container, ids, stop))
    }

    fn merge(
        self,
        container: &Container,
        ids: Option<(&str, &str)>,
        stop: &dyn Fn() -> bool,
    ) -> Result<LayoutChangeResult> {
        let (first, second) = match ids {
            Some((a, b)) => {
                neighbours(container.partition_by_id(a)?, container.partition_by_id(b)?)?
            }
            None => self.smallest_neighbours(container)?,
        };
        let range = KeyRange { min: first.range.min.clone(), max: second.range.max.clone() };
        let parents = vec![first.clone(), second.clone()];
        let children = self.new_partitions(container, &parents, &[range])?;
        let router = MergeRouter::begin(&**self.engine.unchecked_store(), first, second)?;
        let change = LayoutChange { parents, children, announced_ms: 0 };
        self.change_layout(container, &change, router, stop)
    }

    /// If the container was deleted meanwhile, reports that instead of what failed because of it.
    fn unless_deleted(
        self,
        container: &Container,
        outcome: Result<LayoutChangeResult>,
    ) -> Result<LayoutChangeResult> {
        outcome.or_else(|error| {
            let owner = Address::Rid(container.database_rid());
            self.engine.catalog.container(&owner, &Address::Rid(container.rid()))?;
            Err(error)
        })
    }

    /// New partitions, with ids and shards that were never used.
    fn new_partitions(
        self,
        container: &Container,
        parents: &[PhysicalPartition],
        ranges: &[KeyRange],
    ) -> Result<Vec<PhysicalPartition>> {
        // The newest partition of a container is always there, so its number is the greatest.
        let next = container.partitions.iter().map(|p| p.id).max().map_or(0, |id| id + 1);
        let count = u32::try_from(ranges.len()).map_err(|_| Error::internal("too many ranges"))?;
        let first_shard = {
            let _alone = self.engine.catalog.change()?;
            self.engine.catalog.reserve_numbers("shard", count)?
        };
        let mut ancestors: Vec<u32> = Vec::new();
        for id in parents.iter().flat_map(|p| p.parents.iter().chain([&p.id])) {
            if !ancestors.contains(id) {
                ancestors.push(*id);
            }
        }
        ancestors.sort_unstable();
        let epoch = newest_epoch(parents);
        let partition = |(i, range): (u32, &KeyRange)| {
            let shard = ShardId(first_shard + i);
            let mut child = PhysicalPartition::new(next + i, range.clone(), shard, epoch);
            child.parents.clone_from(&ancestors);
            child
        };
        Ok((0..).zip(ranges).map(partition).collect())
    }

    /// Runs a split or merge; on failure the old layout stays in force.
    fn change_layout<C: EntryRouter>(
        self,
        container: &Container,
        change: &LayoutChange,
        router: C,
        stop: &dyn Fn() -> bool,
    ) -> Result<LayoutChangeResult> {
        let ids = |list: &[PhysicalPartition]| list.iter().map(|p| p.id).collect::<Vec<_>>();
        let (parents, children) = (ids(&change.parents), ids(&change.children));
        tracing::info!(
            container = container.alt_link(),
            ?parents,
            ?children,
            "partition layout change started"
        );
        // Before any child is made: who cleans up finds them in its record.
        let nodes = self.engine.nodes();
        let lease = nodes.lease_layout(container, &change.parents, &change.children)?;
        let _announced = SplitAnnouncement::new(change);
        match self.copy_and_cut_over(container, change, router, &lease, stop) {
            Ok(()) => {
                let now_s = self.engine.clock.now_s();
                let retired = change.parents.iter().map(|p| (p.shard, now_s));
                self.retired().extend(retired);
                tracing::info!(
                    container = container.alt_link(),
                    ?children,
                    "partition layout change finished"
                );
                Ok(LayoutChangeResult { parents, children })
            }
            Err(CutoverError { error, drop_children }) => {
                tracing::warn!(
                    %error,
                    container = container.alt_link(),
                    ?parents,
                    ?children,
                    "partition layout change aborted"
                );
                if drop_children {
                    for child in &change.children {
                        // What cannot be dropped now is dropped by a later start.
                        drop(self.engine.store.drop_shard(child.shard));
                    }
                }
                Err(error)
            }
        }
    }

    fn copy_and_cut_over<C: EntryRouter>(
        self,
        container: &Container,
        change: &LayoutChange,
        router: C,
        lease: &LayoutLease<'_>,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<(), CutoverError> {
        for child in &change.children {
            self.engine.store.create_shard(child.shard, child.epoch).map_err(storage)?;
        }
        let mut copy = ShardCopier::begin(
            &**self.engine.unchecked_store(),
            &*self.engine.clock,
            &change.parents,
            &change.children,
            router,
        )?;
        let began_us = self.engine.clock.now_us();
        copy.all(stop)?;
        copy.catch_up_with_writers(stop)?;
        let took_us = self.engine.clock.now_us().saturating_sub(began_us);
        let announced_us = change.announced_ms * 1000;
        std::thread::sleep(Duration::from_micros(announced_us.saturating_sub(took_us)));
        copy.catch_up_with_writers(stop)?;
        self.cut_over(container, change, lease, &mut copy)
    }

    fn retired(self) -> std::sync::MutexGuard<'e, Vec<(ShardId, u64)>> {
        self.engine.layout_changes.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the parents of splits and merges once no read can still use them. On a shared store one node does it for
    /// all, by what the store has.
    pub(crate) fn drop_retired(self, run: &mut BackgroundPass<'_>) {
        let unit = UnitKey::account(UnitKind::RetiredShards);
        if self.engine.store.is_shared() {
            // Changes of the catalog without an answer are resolved on the way.
            drop(self.engine.catalog.take_unneeded());
            self.retired().clear();
            if let Err(error) = self.engine.nodes().clean_up_own() {
                tracing::warn!(%error, "what a split or merge has left is cleaned up later");
            }
            self.engine.background().run_unit(run, &unit, 0, &mut |_| {
                self.engine.nodes().clean_up()?;
                Ok(UnitProgress::Done)
            });
            return;
        }
        self.engine.background().run_unit(run, &unit, 0, &mut |_| {
            let now_s = self.engine.clock.now_s();
            let unneeded = self.engine.catalog.take_unneeded();
            self.retired().extend(unneeded.into_iter().map(|shard| (shard, now_s)));
            let over = |since_s: u64| since_s + limits::SHARD_RETIRED_S <= now_s;
            let due: Vec<ShardId> =
                self.retired().iter().filter(|(_, since_s)| over(*since_s)).map(|r| r.0).collect();
            let mut failed = None;
            for shard in due {
                match self.engine.store.drop_shard(shard) {
                    // A later attempt at a change has put it to use.
                    Ok(()) | Err(StorageError::Gone { .. }) => {
                        self.retired().retain(|(retired, _)| *retired != shard);
                    }
                    Err(error) => failed = Some(storage(error)),
                }
            }
            failed.map_or(Ok(UnitProgress::Done), |error| Err(error.into()))
        });
    }
}

/// Shows a partition as splitting to clients until it is dropped.
struct SplitAnnouncement(Option<Arc<AtomicBool>>);

impl SplitAnnouncement {
    fn new(change: &LayoutChange) -> Self {
        let parent = match &change.parents[..] {
            [parent] => Some(parent.splitting.clone()),
            _ => None,
        };
        let announced = Self(parent);
        announced.set(true);
        announced
    }

    fn set(&self, splitting: bool) {
        if let Some(flag) = &self.0 {
            flag.store(splitting, Ordering::SeqCst);
        }
    }
}

impl Drop for SplitAnnouncement {
    fn drop(&mut self) {
        self.set(false);
    }
}

pub(super) fn newest_epoch(partitions: &[PhysicalPartition]) -> Epoch {
    partitions.iter().map(|p| p.epoch).max().unwrap_or_default()
}

/// Two partitions in the order of their keys, of which the second begins where the first ends.
fn neighbours<'c>(
    a: &'c PhysicalPartition,
    b: &'c PhysicalPartition,
) -> Result<(&'c PhysicalPartition, &'c PhysicalPartition)> {
    let (first, second) = if a.range.min <= b.range.min { (a, b) } else { (b, a) };
    if first.range.max == second.range.min && first.id != second.id {
        return Ok((first, second));
    }
    Err(Error::invalid(format!(
        "Ranges that lie side by side can be merged; '{}' and '{}' do not.",
        a.id, b.id
    )))
}

fn check_boundary<'k>(
    parent: &PhysicalPartition,
    at: &'k EffectiveKey,
) -> Result<&'k EffectiveKey> {
    if *at > parent.range.min && *at < parent.range.max {
        return Ok(at);
    }
    Err(Error::invalid(format!(
        "A range is split at a key within it; '{at}' does not lie between '{}' and '{}'.",
        parent.range.min, parent.range.max
    )))
}
