//! Looks for changes of the catalog that other processes make, so that requests seldom find them first.

use std::time::Duration;

use orrery_types::{Lsn, Result, limits};

use crate::Engine;
use crate::catalog::SYSTEM_SHARD;
use crate::error::storage;

impl Engine {
    /// Shows what other processes change in the catalog, until it is stopped.
    pub(crate) fn watch_catalog(&self, stop: &dyn Fn() -> bool) {
        let mut seen = Lsn(0);
        while !stop() {
            match self.next_catalog(seen) {
                Ok(lsn) => seen = lsn,
                Err(error) => {
                    tracing::warn!(%error, "changes of the catalog cannot be read");
                    std::thread::sleep(Duration::from_millis(limits::CATALOG_POLL_MS));
                }
            }
        }
    }

    /// Waits for a commit to the system shard, or for a moment, and shows what has changed.
    fn next_catalog(&self, seen: Lsn) -> Result<Lsn> {
        let watched = self.store.watch(SYSTEM_SHARD, seen, limits::CATALOG_POLL_MS);
        self.catalog.refresh()?;
        watched.map_err(storage)
    }
}
