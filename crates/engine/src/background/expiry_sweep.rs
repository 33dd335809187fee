//! Time to live. An expired item is invisible at once, by the clock and the container's current definition; the
//! expiry sweep removes it later, with everything derived from it.

use std::collections::HashSet;

use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::record::Header;
use orrery_storage::{Commit, Entry, Part, ReadAt, Space, StorageError};
use orrery_types::{Result, limits};

use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::background::{BATCHES_PER_STEP, BackgroundPass, UnitProgress};
use crate::catalog::container::definition::ContainerDef;
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::item::image::BeforeImage;
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

/// The second at which an item expires, if it does.
pub(crate) fn expiry(definition: &ContainerDef, header: &Header) -> Option<u64> {
    let default = definition.default_ttl?;
    let ttl = header.ttl_s.unwrap_or(default);
    let ttl = u64::try_from(ttl).ok()?;
    Some(header.ts_s.saturating_add(ttl))
}

/// Removal of expired items.
#[derive(Clone, Copy)]
pub(crate) struct ExpirySweep<'e> {
    pub(crate) engine: &'e Engine,
}

impl ExpirySweep<'_> {
    /// A step of the expiry sweep for every partition.
    pub(crate) fn sweep(self, run: &mut BackgroundPass<'_>) {
        for container in self.engine.catalog.state().containers() {
            if container.definition.default_ttl.is_none() {
                continue;
            }
            for partition in &container.partitions {
                let unit = UnitKey::of(container, UnitKind::Expiry, &partition.id.to_be_bytes());
                self.engine.background().run_unit(run, &unit, 0, &mut |run| {
                    self.sweep_partition(container, partition, run, &unit)
                });
            }
        }
    }

    /// A step for one partition.
    fn sweep_partition(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        run: &mut BackgroundPass<'_>,
        unit: &UnitKey,
    ) -> std::result::Result<UnitProgress, UnitFailure> {
        let bounds = key::expired_at(self.engine.clock.now_s());
        for _ in 0..BATCHES_PER_STEP {
            if (run.stop)() {
                return Ok(UnitProgress::Unfinished);
            }
            let mut bounds = bounds.clone();
            if let Some(last) = &run.cursor(unit, container).last {
                bounds = bounds.after(last);
            }
            let Some(entries) = self.expired_entries(partition, &bounds)? else {
                return Ok(UnitProgress::Done);
            };
            let Some(last) = entries.last() else { return Ok(UnitProgress::Done) };
            run.cursor(unit, container).last = Some(last.key.clone());
            self.sweep_entries(container, partition, &entries, run)?;
        }
        Ok(UnitProgress::Unfinished)
    }

    /// The next expiry entries of a partition; `None` if the container was deleted meanwhile.
    fn expired_entries(
        self,
        partition: &PhysicalPartition,
        bounds: &Bounds,
    ) -> Result<Option<Vec<Entry>>> {
        // Its own writes are refused if it goes by what another process has changed.
        let store = self.engine.unchecked_store();
        let snapshot = match store.snapshot(partition.shard, ReadAt::Latest) {
            Err(StorageError::Gone { .. }) => return Ok(None),
            other => other.map_err(storage)?,
        };
        let scan = bounds.scan(Space::Ttl, limits::SWEEP_ITEMS_MAX, usize::MAX);
        snapshot.scan(&scan).map(Some).map_err(storage)
    }

    /// Removes the items behind expiry entries, and the entries. Expiry is judged by the current definition:
    /// the commit is valid only under its epoch.
    fn sweep_entries(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: &[Entry],
        run: &mut BackgroundPass<'_>,
    ) -> Result<()> {
        let shard = partition.shard;
        let removed = self.engine.epochs().retry_on_stale_epoch(container, &mut |now| {
            // No model takes over during the commit.
            let _schema = self.engine.model_locks.schema_shared();
            if self.engine.models().is_modelled(now) {
                return Ok(None);
            }
            self.sweep_batch(now, now.partition_with(shard)?, entries).map(Some)
        })?;
        match removed {
            Some(removed) => run.removed += removed,
            None => self.sweep_modelled(container, partition, entries, run),
        }
        Ok(())
    }

    /// The same in one commit. If a writer was faster with one of them, or what is kept of them is
    /// too much for one commit, each is tried by itself, and what fails stays for the next run.
    fn sweep_batch(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: &[Entry],
    ) -> Result<usize> {
        let (part, removed) = self.sweep_part(container, partition, entries)?;
        match self.engine.store.commit(Commit::new(vec![part])) {
            Ok(_) => Ok(removed),
            // The terms of many large items may be more than one commit takes.
            Err(StorageError::Conflict(_) | StorageError::TooLarge) if entries.len() > 1 => {
                entries.chunks(1).map(|entry| self.sweep_batch(container, partition, entry)).sum()
            }
            Err(StorageError::Conflict(_)) => Ok(0),
            Err(error) => Err(storage(error)),
        }
    }

    /// The commit that removes what has expired; an item that lives on under a changed definition
    /// loses only its stale entry. With the number of items that it removes.
    fn sweep_part(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: &[Entry],
    ) -> Result<(Part, usize)> {
        let mut part = Part::new(partition.shard, partition.epoch);
        let mut removed = HashSet::new();
        for entry in entries {
            part.deletes.push((Space::Ttl, entry.key.clone()));
            let item_key = &entry.value.bytes;
            let row = key::parse_ttl(&entry.key).map(|(_, row)| row).unwrap_or_default();
            // Two entries may name one item, the first of them stale.
            if removed.contains(item_key) {
                continue;
            }
            if let Some((at, before)) = self.locate_hidden(container, partition, row, item_key)?
                && let Some(removal) =
                    self.engine.point_writes().removal_of_hidden(container, &at, before)?
            {
                removed.insert(item_key);
                part.preconditions.extend(removal.preconditions);
                part.deletes.extend(removal.deletes);
                part.puts.extend(removal.puts);
                part.versions.extend(removal.versions);
                part.stripes.extend(removal.stripes);
            }
        }
        Ok((part, removed.len()))
    }

    /// Removes the item with a row if it is hidden; whether it is gone afterwards.
    pub(crate) fn purge_hidden_row(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        row: Row,
    ) -> Result<bool> {
        let (_, value) = self
            .engine
            .store
            .get(partition.shard, Space::Items, &key::row(row))
            .map_err(storage)?;
        match value {
            None => Ok(true),
            Some(value) => self.purge_hidden_at(container, partition, row, &value.bytes),
        }
    }

    fn purge_hidden_at(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        row: Row,
        item_key: &[u8],
    ) -> Result<bool> {
        match self.locate_hidden(container, partition, row, item_key)? {
            Some((at, _)) => self.engine.point_writes().purge_hidden(container, &at),
            None => Ok(false),
        }
    }

    /// An item that is hidden and still has the row.
    pub(crate) fn locate_hidden<'c>(
        self,
        container: &Container,
        partition: &'c PhysicalPartition,
        row: Row,
        item_key: &[u8],
    ) -> Result<Option<(ItemKey<'c>, BeforeImage)>> {
        let (_, value) =
            self.engine.store.get(partition.shard, Space::Items, item_key).map_err(storage)?;
        let Some(value) = value else { return Ok(None) };
        let before = BeforeImage::read(value)?;
        let hidden =
            self.engine.items().is_hidden(container, item_key, before.version, &before.header);
        if before.header.row != row || !hidden {
            return Ok(None);
        }
        let partition_key = container.definition.partition_key.extract(before.value()?);
        Ok(Some((ItemKey { partition, partition_key, key: item_key.to_vec() }, before)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orrery_storage::{MemoryStore, Put};
    use orrery_types::ids::Address;
    use orrery_types::{ManualClock, Value};

    use super::*;
    use crate::catalog::offer::ThroughputRequest;

    #[test]
    fn a_damaged_item_keeps_no_other_container_from_being_swept() {
        let clock = Arc::new(ManualClock::at_s(1000));
        let engine = Engine::open(Arc::new(MemoryStore::new()), clock.clone(), 1).expect("open");
        let json = |text: &str| Value::parse(text.as_bytes()).expect("JSON");
        let (none, database) = (ThroughputRequest::default(), Address::Name("d".into()));
        engine.databases().create(&json(r#"{"id":"d"}"#), &none).expect("a database");
        let made = ["damaged", "sound"].map(|id| {
            let body = json(&format!(r#"{{"id":"{id}","defaultTtl":1}}"#));
            engine.containers().create(&database, &body, &none).expect("a container");
            let name = Address::Name(id.into());
            let container = engine.containers().read(&database, &name).expect("it was made");
            engine.items().create(&container, None, br#"{"id":"a"}"#).expect("an item");
            container
        });
        let partition = &made[0].partitions[0];
        let row = key::row(Row(1));
        let item = engine.store.get(partition.shard, Space::Items, &row).expect("a read").1;
        let mut part = Part::new(partition.shard, partition.epoch);
        let (space, value) = (Space::Items, b"nonsense".to_vec());
        part.puts.push(Put { space, key: item.expect("the row").bytes.into(), value });
        engine.store.commit(Commit::new(vec![part])).expect("a commit");
        clock.advance_s(1);
        engine.background().run_tasks(&|| false).expect_err("the damage is reported");
        assert_eq!(engine.insight().usage(&made[1]).expect("a count").items, 0);
    }
}
