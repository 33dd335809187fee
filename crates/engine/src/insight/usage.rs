//! How much data a container holds.

use orrery_storage::{ReadAt, Scan, ShardStats, Space, key};
use orrery_types::{Result, Value};

use crate::Container;
use crate::catalog::resource::object;
use crate::error::storage;
use crate::insight::Insight;
use crate::partition::PhysicalPartition;

/// What a container holds: items exactly, bytes as the store estimates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Usage {
    pub items: u64,
    pub kilobytes: u64,
}

impl Insight<'_> {
    /// What the store knows of each physical partition, in little time.
    pub fn shard_sizes(self, container: &Container) -> Result<Vec<ShardStats>> {
        let stats = |partition: &PhysicalPartition| self.engine.store.stats(partition.shard);
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            now.partitions.iter().map(|p| stats(p).map_err(storage)).collect()
        })
    }

    /// Counts the rows of a container; takes time in proportion to them.
    pub fn usage(self, container: &Container) -> Result<Usage> {
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            let mut total = Usage::default();
            for partition in &now.partitions {
                let usage = self.partition_usage(partition)?;
                total.items += usage.items;
                total.kilobytes += usage.kilobytes;
            }
            Ok(total)
        })
    }

    /// The same by physical partition, in the form that clients get it.
    pub fn statistics(self, container: &Container) -> Result<Value> {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let of = |partition: &PhysicalPartition| {
            let usage = self.partition_usage(partition)?;
            Ok(Value::object(object([
                ("id", partition.id.to_string().into()),
                ("sizeInKB", number(usage.kilobytes)),
                ("documentCount", number(usage.items)),
                ("partitionKeys", Value::array(vec![])),
            ])))
        };
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            Ok(Value::array(now.partitions.iter().map(of).collect::<Result<_>>()?))
        })
    }

    fn partition_usage(self, partition: &PhysicalPartition) -> Result<Usage> {
        const ROWS: usize = 10_000;
        let bytes = self.engine.store.stats(partition.shard).map_err(storage)?.items_bytes;
        let mut usage = Usage { items: 0, kilobytes: bytes.div_ceil(1024) };
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let mut bounds = key::all_rows();
        loop {
            let scan = Scan { keys_only: true, ..bounds.scan(Space::Items, ROWS, usize::MAX) };
            let entries = snapshot.scan(&scan).map_err(storage)?;
            usage.items += entries.len() as u64;
            match entries.last() {
                Some(last) if entries.len() == ROWS => bounds = bounds.after(&last.key),
                _ => return Ok(usage),
            }
        }
    }
}
