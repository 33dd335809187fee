//! A consistent copy of a whole store as a data folder of the embedded engine.

use std::path::Path;

use orrery_types::{Lsn, ShardId};

use crate::rocks::{self, Export};
use crate::{Scan, Snapshot, Space, StorageError, Store, key};

/// Entries and bytes that are read at once.
const PAGE_ROWS: usize = 4096;
const PAGE_BYTES: usize = 1024 * 1024;
/// A shard may be made or dropped while the shards are listed and their snapshots opened.
const ATTEMPTS: usize = 16;

/// Writes a consistent copy of the store into a folder that does not exist yet, by the best way that
/// the store has; nothing is left of it if that fails. Any store can be exported from snapshots of all
/// its shards as of one instant.
pub fn checkpoint(store: &dyn Store, into: &Path) -> Result<(), StorageError> {
    if let Some(embedded) = store.embedded() {
        return embedded.checkpoint(into);
    }
    let mut attempt = 0;
    let (shards, snapshots) = loop {
        let shards = list(store)?;
        match store.snapshots(&shards) {
            // A shard is made before a container names it: if there is no new one, the snapshots are of all
            // that the catalog names.
            Ok(snapshots)
                if attempt == ATTEMPTS || list(store)?.iter().all(|s| shards.contains(s)) =>
            {
                break (shards, snapshots);
            }
            Ok(_) => attempt += 1,
            Err(StorageError::Gone { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    };
    rocks::export(into, |export| {
        shards.iter().zip(&snapshots).try_for_each(|(shard, view)| copy(*shard, &**view, export))
    })
}

fn list(store: &dyn Store) -> Result<Vec<ShardId>, StorageError> {
    Ok(store.shards()?.into_iter().map(|(shard, _)| shard).collect())
}

fn copy(shard: ShardId, view: &dyn Snapshot, export: &mut Export<'_>) -> Result<(), StorageError> {
    export.shard(shard, view.epoch(), view.lsn());
    for space in Space::ALL {
        let mut from = Vec::new();
        loop {
            let (reverse, keys_only, to) = (false, false, key::END);
            let (max_rows, max_bytes) = (PAGE_ROWS, PAGE_BYTES);
            let scan = Scan { space, from: &from, to, reverse, max_rows, max_bytes, keys_only };
            let entries = view.scan(&scan)?;
            let Some(last) = entries.last() else { break };
            from = key::after(&last.key);
            for entry in &entries {
                let version = if space.is_versioned() { entry.value.version } else { Lsn(0) };
                export.entry((shard, space), &entry.key, version, &entry.value.bytes)?;
            }
        }
    }
    Ok(())
}
