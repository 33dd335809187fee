//! Changes of a container's layout: a physical partition becomes two, or two become one, while the
//! container is read and written.
//!
//! 1. New shards are made that no catalog names, and a *journal* of each parent is begun.
//! 2. Everything is copied, a piece at a time, each from a snapshot of its moment; what is written
//!    meanwhile is in the journal and follows (`copy`). `split` says which child of a split an
//!    entry goes to, `merge` what it becomes in the child of a merge.
//! 3. When the journal is nearly empty (`cutover`), writers wait at the gates, the parents take no more commits,
//!    the rest of the journal follows, and one commit of the catalog names the children in the place
//!    of the parents.
//!
//! Until that commit the old layout holds and the new shards are nobody's: a process that ends leaves
//! them to be dropped at the next start. After it the new layout holds. Writers that come too late
//! are refused by the frozen parent, take the new layout and start over; their clients notice
//! nothing. The parents stay for a while, for reads that began before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orrery_types::ids::Address;
use orrery_types::{EffectiveKey, Epoch, Error, KeyRange, Result, ShardId, limits};

use super::copy::{Carrier, Copy};
use super::cutover::Failed;
use super::merge::Unite;
use super::split::Divide;
use crate::background::units::{UnitKey, Work};
use crate::background::{Run, Turn};
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

pub use super::automatic::LayoutPolicy;
pub(crate) use super::automatic::Watch;

/// What a split or a merge came to, in the numbers of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Reshaped {
    pub parents: Vec<u32>,
    pub children: Vec<u32>,
}

/// What the engine remembers of changes of layouts.
#[derive(Default)]
pub(crate) struct Reshapes {
    /// One at a time.
    turn: Mutex<()>,
    /// Shards whose partitions are no more, and since when.
    retired: Mutex<Vec<(ShardId, u64)>>,
    /// What the thread that splits by itself is to look at.
    pub(crate) watch: Watch,
}

/// Partitions that take the place of others.
pub(super) struct Reshape {
    pub(super) parents: Vec<PhysicalPartition>,
    pub(super) children: Vec<PhysicalPartition>,
    announced_ms: u64,
}

/// Which partition to split, where, and for how long clients are to see it at least.
pub(crate) struct Cut<'c> {
    pub(super) id: Option<&'c str>,
    pub(super) at: Option<&'c EffectiveKey>,
    pub(super) announced_ms: u64,
}

impl Engine {
    /// Splits a physical partition in two: the named one, or the largest. The second child begins
    /// at `at`, or where it gets about half of the data.
    pub fn split_partition(
        &self,
        database: &Address,
        container: &Address,
        id: Option<&str>,
        at: Option<&EffectiveKey>,
    ) -> Result<Reshaped> {
        let cut = Cut { id, at, announced_ms: 0 };
        self.split_while(database, container, &cut, &|| self.reshapes.watch.is_stopped())
    }

    /// The same, given up when `stop` says so.
    pub(crate) fn split_while(
        &self,
        database: &Address,
        container: &Address,
        cut: &Cut<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reshaped> {
        let _turn = self.reshapes.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let container = self.catalog.container(database, container)?;
        self.unless_deleted(&container, self.split(&container, cut, stop))
    }

    fn split(
        &self,
        container: &Container,
        cut: &Cut<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reshaped> {
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
        let carrier = Divide::new(&children);
        let reshape = Reshape { parents, children, announced_ms: cut.announced_ms };
        self.reshape(container, &reshape, carrier, stop)
    }

    /// Merges two neighbouring partitions: the named ones, or those with the least data.
    pub fn merge_partitions(
        &self,
        database: &Address,
        container: &Address,
        ids: Option<(&str, &str)>,
    ) -> Result<Reshaped> {
        self.merge_while(database, container, ids, &|| self.reshapes.watch.is_stopped())
    }

    /// The same, given up when `stop` says so.
    fn merge_while(
        &self,
        database: &Address,
        container: &Address,
        ids: Option<(&str, &str)>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reshaped> {
        let _turn = self.reshapes.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let container = self.catalog.container(database, container)?;
        self.unless_deleted(&container, self.merge(&container, ids, stop))
    }

    fn merge(
        &self,
        container: &Container,
        ids: Option<(&str, &str)>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reshaped> {
        let (first, second) = match ids {
            Some((a, b)) => {
                neighbours(container.partition_by_id(a)?, container.partition_by_id(b)?)?
            }
            None => self.smallest_neighbours(container)?,
        };
        let range = KeyRange { min: first.range.min.clone(), max: second.range.max.clone() };
        let parents = vec![first.clone(), second.clone()];
        let children = self.new_partitions(container, &parents, &[range])?;
        let carrier = Unite::begin(&*self.store, first, second)?;
        let reshape = Reshape { parents, children, announced_ms: 0 };
        self.reshape(container, &reshape, carrier, stop)
    }

    /// Whatever failed while a container was deleted, that is what happened.
    fn unless_deleted(&self, container: &Container, outcome: Result<Reshaped>) -> Result<Reshaped> {
        outcome.or_else(|error| {
            let owner = Address::Rid(container.database_rid());
            self.catalog.container(&owner, &Address::Rid(container.rid()))?;
            Err(error)
        })
    }

    /// Partitions with numbers and shards that none ever had.
    fn new_partitions(
        &self,
        container: &Container,
        parents: &[PhysicalPartition],
        ranges: &[KeyRange],
    ) -> Result<Vec<PhysicalPartition>> {
        // The newest partition of a container is always there, so its number is the greatest.
        let next = container.partitions.iter().map(|p| p.id).max().map_or(0, |id| id + 1);
        let count = u32::try_from(ranges.len()).map_err(|_| Error::internal("too many ranges"))?;
        let first_shard = {
            let _alone = self.catalog.change();
            self.catalog.reserve_numbers("shard", count)?
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

    /// Does it, or leaves everything as it was.
    fn reshape<C: Carrier>(
        &self,
        container: &Container,
        reshape: &Reshape,
        carrier: C,
        stop: &dyn Fn() -> bool,
    ) -> Result<Reshaped> {
        let ids = |list: &[PhysicalPartition]| list.iter().map(|p| p.id).collect::<Vec<_>>();
        let (parents, children) = (ids(&reshape.parents), ids(&reshape.children));
        tracing::info!(container = container.alt_link(), ?parents, ?children, "a layout changes");
        let _announced = Announced::new(reshape);
        match self.copy_and_switch(container, reshape, carrier, stop) {
            Ok(()) => {
                let now_s = self.clock.now_s();
                let retired = reshape.parents.iter().map(|p| (p.shard, now_s));
                self.retired().extend(retired);
                tracing::info!(container = container.alt_link(), ?children, "a layout has changed");
                Ok(Reshaped { parents, children })
            }
            Err(Failed { error, drop_children }) => {
                tracing::warn!(%error, container = container.alt_link(), "a layout stays");
                if drop_children {
                    for child in &reshape.children {
                        // What cannot be dropped now is dropped at the next start.
                        drop(self.store.drop_shard(child.shard));
                    }
                }
                Err(error)
            }
        }
    }

    fn copy_and_switch<C: Carrier>(
        &self,
        container: &Container,
        reshape: &Reshape,
        carrier: C,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<(), Failed> {
        for child in &reshape.children {
            self.store.create_shard(child.shard, child.epoch).map_err(storage)?;
        }
        let mut copy =
            Copy::begin(&*self.store, &*self.clock, &reshape.parents, &reshape.children, carrier)?;
        let began_us = self.clock.now_us();
        copy.all(stop)?;
        copy.follow(stop)?;
        let took_us = self.clock.now_us().saturating_sub(began_us);
        let announced_us = reshape.announced_ms * 1000;
        std::thread::sleep(Duration::from_micros(announced_us.saturating_sub(took_us)));
        copy.follow(stop)?;
        self.switch(container, reshape, &mut copy)
    }

    fn retired(&self) -> std::sync::MutexGuard<'_, Vec<(ShardId, u64)>> {
        self.reshapes.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees shards that were split or merged so long ago that nobody reads them any more.
    pub(crate) fn drop_retired(&self, run: &mut Run<'_>) {
        let unit = UnitKey::account(Work::RetiredShards);
        self.run_unit(run, &unit, 0, &mut |_| {
            let now_s = self.clock.now_s();
            let over = |since_s: u64| since_s + limits::SHARD_RETIRED_S <= now_s;
            let due: Vec<ShardId> =
                self.retired().iter().filter(|(_, since_s)| over(*since_s)).map(|r| r.0).collect();
            let mut failed = None;
            for shard in due {
                match self.store.drop_shard(shard) {
                    Ok(()) => self.retired().retain(|(retired, _)| *retired != shard),
                    Err(error) => failed = Some(storage(error)),
                }
            }
            failed.map_or(Ok(Turn::Done), |error| Err(error.into()))
        });
    }
}

/// Tells clients that a partition is being split, as long as it is held.
struct Announced(Option<Arc<AtomicBool>>);

impl Announced {
    fn new(reshape: &Reshape) -> Self {
        let parent = match &reshape.parents[..] {
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

impl Drop for Announced {
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
