//! How much a container holds, for those who ask.

use orrery_storage::{ReadAt, Scan, Space, key};
use orrery_types::Result;

use crate::storage_error::storage;
use crate::{Container, Engine};

/// What a container holds: items exactly, bytes as the store estimates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Usage {
    pub items: u64,
    pub kilobytes: u64,
}

impl Engine {
    /// Counts the rows of a container; takes time in proportion to them.
    pub fn usage(&self, container: &Container) -> Result<Usage> {
        const ROWS: usize = 10_000;
        let mut usage = Usage::default();
        let mut bytes = 0;
        for partition in &container.partitions {
            bytes += self.store.stats(partition.shard).map_err(storage)?.items_bytes;
            let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let mut bounds = key::all_rows();
            loop {
                let scan = Scan {
                    space: Space::Items,
                    from: &bounds.from,
                    to: &bounds.to,
                    reverse: false,
                    max_rows: ROWS,
                    max_bytes: usize::MAX,
                    keys_only: true,
                };
                let entries = snapshot.scan(&scan).map_err(storage)?;
                usage.items += entries.len() as u64;
                match entries.last() {
                    Some(last) if entries.len() == ROWS => bounds = bounds.after(&last.key),
                    _ => break,
                }
            }
        }
        usage.kilobytes = bytes.div_ceil(1024);
        Ok(usage)
    }
}
