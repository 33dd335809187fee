//! Where to split: at the key that has about half of the data on either side, and not within a
//! logical partition. A partition without data is split in the middle of its range.

use orrery_storage::key::{self, Bounds};
use orrery_storage::{ReadAt, Scan, Snapshot, Space};
use orrery_types::{EffectiveKey, Error, KeyRange, Result};

use crate::Container;
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::partition::layout::Layouts;

/// How finely the middle of the data is looked for.
const HALVINGS: usize = 48;

impl Layouts<'_> {
    /// The partition with the most data; the widest, if they have the same.
    pub(super) fn largest_partition(self, container: &Container) -> Result<&PhysicalPartition> {
        let share = |p: &PhysicalPartition| container.definition.partition_key.share(&p.range);
        let mut largest: Option<(u64, f64, &PhysicalPartition)> = None;
        for partition in &container.partitions {
            let (items, share) = (self.count_items(partition)?, share(partition));
            let larger = |most: u64, width: f64| items > most || (items == most && share > width);
            if largest.is_none_or(|(most, width, _)| larger(most, width)) {
                largest = Some((items, share, partition));
            }
        }
        largest.map(|(.., partition)| partition).ok_or(Error::PartitionGone)
    }

    /// The neighbours that have the least data together.
    pub(super) fn smallest_neighbours(
        self,
        container: &Container,
    ) -> Result<(&PhysicalPartition, &PhysicalPartition)> {
        let mut smallest: Option<(u64, (&PhysicalPartition, &PhysicalPartition))> = None;
        for pair in container.partitions.windows(2) {
            let [first, second] = pair else { continue };
            let items = self.count_items(first)? + self.count_items(second)?;
            if smallest.is_none_or(|(least, _)| items < least) {
                smallest = Some((items, (first, second)));
            }
        }
        let one = || Error::invalid("The container has one range; there is nothing to merge.");
        smallest.map(|(_, pair)| pair).ok_or_else(one)
    }

    fn count_items(self, partition: &PhysicalPartition) -> Result<u64> {
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        count(&*snapshot, &partition.range)
    }

    /// The key where the second child of a partition begins.
    pub(super) fn boundary(
        self,
        container: &Container,
        partition: &PhysicalPartition,
    ) -> Result<EffectiveKey> {
        if let Some(at) = self.middle_of_data(container, partition)? {
            return Ok(at);
        }
        let middle = container.definition.partition_key.middle(&partition.range);
        middle.ok_or_else(|| {
            Error::invalid(format!(
                "The range '{}' holds one partition key and cannot be split.",
                partition.id
            ))
        })
    }

    /// The same, only if the data can be divided.
    pub(super) fn middle_of_data(
        self,
        container: &Container,
        partition: &PhysicalPartition,
    ) -> Result<Option<EffectiveKey>> {
        // Sizes of ranges are known of what is in files.
        self.engine.store.flush().map_err(storage)?;
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let snapshot = &*snapshot;
        let definition = &container.definition.partition_key;
        let range = &partition.range;
        let half = count(snapshot, range)? / 2;
        let mut left = range.clone();
        for _ in 0..HALVINGS {
            let Some(middle) = definition.middle(&left) else { break };
            let before = KeyRange { min: range.min.clone(), max: middle.clone() };
            if count(snapshot, &before)? <= half {
                left.min = middle;
            } else {
                left.max = middle;
            }
        }
        let Some(first) = first_key(snapshot, &key::items_in(range))? else { return Ok(None) };
        let from = KeyRange { min: left.min, max: range.max.clone() };
        let found = match first_key(snapshot, &key::items_in(&from))? {
            Some(found) if found > first => Some(found),
            // The first logical partition has half of the data or more.
            _ => {
                let mut after = first.0;
                after.push(0);
                let rest = KeyRange { min: EffectiveKey(after), max: range.max.clone() };
                first_key(snapshot, &key::items_in(&rest))?
            }
        };
        Ok(found.filter(|at| *at > range.min && *at < range.max))
    }
}

fn count(snapshot: &dyn Snapshot, range: &KeyRange) -> Result<u64> {
    let bounds = key::items_in(range);
    snapshot.estimate(Space::Items, &bounds.from, &bounds.to).map_err(storage)
}

/// The effective key of the first item of a range.
fn first_key(snapshot: &dyn Snapshot, bounds: &Bounds) -> Result<Option<EffectiveKey>> {
    let scan = Scan { keys_only: true, ..bounds.scan(Space::Items, 1, usize::MAX) };
    let entries = snapshot.scan(&scan).map_err(storage)?;
    let Some(entry) = entries.first() else { return Ok(None) };
    let item = key::parse_item(&entry.key).ok_or_else(|| Error::internal("an item key is corrupt"));
    Ok(Some(item?.effective))
}
