//! Backfill of expiry entries after a change of a container's default time to live: writes the entry of every
//! item for the new default and removes those of the old one. Only the expiry sweep needs the entries; reads
//! decide by the clock. The container's record says that the backfill is pending, so it continues after a
//! restart.

use orrery_storage::key::{self, Bounds};
use orrery_storage::{
    Commit, Part, Precondition, Put, ReadAt, Scan, Space, StorageError, key::RecordKind, record,
};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, limits};

use crate::background::expiry_sweep::expiry;
use crate::background::units::UnitKey;
use crate::background::{BATCHES_PER_STEP, BackgroundPass, UnitProgress};
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

/// What a step does with one entry of a scan: its part of a commit.
type Step<'e> =
    fn(TtlBackfill<'e>, &Container, &PhysicalPartition, &Scanned, &mut Part) -> Result<()>;

/// A scanned entry, without its version: a step reads it again.
struct Scanned {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Expiry entries of items that are older than the default time to live.
#[derive(Clone, Copy)]
pub(crate) struct TtlBackfill<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> TtlBackfill<'e> {
    /// Backfills some of the expiry entries of a container, by its current definition.
    pub(crate) fn backfill_ttl(
        self,
        container: &Container,
        run: &mut BackgroundPass<'_>,
        unit: &UnitKey,
    ) -> Result<UnitProgress> {
        let database = Address::Rid(container.database_rid());
        let container =
            match self.engine.catalog.container(&database, &Address::Rid(container.rid())) {
                Ok(container) => container,
                // It was deleted meanwhile.
                Err(Error::NotFound | Error::OwnerNotFound) => return Ok(UnitProgress::Done),
                Err(error) => return Err(error),
            };
        for _ in 0..BATCHES_PER_STEP {
            if (run.stop)() {
                return Ok(UnitProgress::Unfinished);
            }
            // Of each partition first the items, and then the entries.
            let cursor = run.cursor(unit, &container);
            let Some(partition) = container.partitions.get(cursor.range / 2) else {
                self.ttl_backfill_done(&container)?;
                return Ok(UnitProgress::Done);
            };
            let (space, bounds, step): (_, _, Step<'e>) = if cursor.range.is_multiple_of(2) {
                (Space::Items, key::items_in(&partition.range), Self::add_entry)
            } else {
                let entries = Bounds { from: Vec::new(), to: key::END.to_vec() };
                (Space::Ttl, entries, Self::drop_entry)
            };
            let bounds = match &cursor.last {
                Some(last) => bounds.after(last),
                None => bounds,
            };
            match self.backfill_batch(&container, partition, space, &bounds, step)? {
                Some(last) => cursor.last = Some(last),
                None => cursor.next_range(),
            }
        }
        Ok(UnitProgress::Unfinished)
    }

    /// The next entries of a range; the key of the last, or `None` if there are no more.
    fn backfill_batch(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        space: Space,
        bounds: &Bounds,
        step: Step<'e>,
    ) -> Result<Option<Vec<u8>>> {
        // Its own writes are refused if it goes by what another process has changed.
        let store = self.engine.unchecked_store();
        let snapshot = match store.snapshot(partition.shard, ReadAt::Latest) {
            // The container was deleted meanwhile.
            Err(StorageError::Gone { .. }) => return Ok(None),
            other => other.map_err(storage)?,
        };
        let scan = Scan {
            space,
            from: &bounds.from,
            to: &bounds.to,
            reverse: false,
            max_rows: limits::SWEEP_ITEMS_MAX,
            max_bytes: limits::PAGE_SIZE_BYTES_MAX,
            keys_only: space == Space::Items,
        };
        let entries = snapshot.scan(&scan).map_err(storage)?;
        drop(snapshot);
        let Some(last) = entries.last().map(|entry| entry.key.clone()) else { return Ok(None) };
        let scanned =
            |e: orrery_storage::Entry| Scanned { key: e.key, value: e.value.bytes.into() };
        let entries: Vec<Scanned> = entries.into_iter().map(scanned).collect();
        if self.try_batch(container, partition, &entries, step)? {
            return Ok(Some(last));
        }
        // Somebody wrote to one of them: one by one, the others are not held up.
        for entry in &entries {
            let entry = std::slice::from_ref(entry);
            let mut attempts = 0..limits::COMMIT_ATTEMPTS_MAX;
            while !self.try_batch(container, partition, entry, step)? {
                attempts.next().ok_or(Error::RetryWith)?;
            }
        }
        Ok(Some(last))
    }

    /// One commit for all entries; false if a check failed.
    fn try_batch(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: &[Scanned],
        step: Step<'e>,
    ) -> Result<bool> {
        let mut part = Part::new(partition.shard, partition.epoch);
        for entry in entries {
            step(self, container, partition, entry, &mut part)?;
        }
        if part.puts.is_empty() && part.deletes.is_empty() {
            return Ok(true);
        }
        match self.engine.store.commit(Commit::new(vec![part])) {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict(_)) => Ok(false),
            Err(error) => Err(storage(error)),
        }
    }

    /// The entry that an item should have.
    fn add_entry(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        item: &Scanned,
        part: &mut Part,
    ) -> Result<()> {
        let found =
            self.engine.store.get(partition.shard, Space::Items, &item.key).map_err(storage)?.1;
        let Some(found) = found else { return Ok(()) };
        let (header, _) = record::decode(&found.bytes).map_err(storage)?;
        let Some(expiry_s) = expiry(&container.definition, &header) else { return Ok(()) };
        let (space, key, lsn) = (Space::Items, item.key.clone(), found.version);
        part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
        let entry = key::ttl(expiry_s, header.row).to_vec();
        part.puts.push(Put { space: Space::Ttl, key: entry, value: key });
        Ok(())
    }

    /// Removes an entry whose item is gone or expires at another time.
    fn drop_entry(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entry: &Scanned,
        part: &mut Part,
    ) -> Result<()> {
        let key = &entry.value;
        let found = self.engine.store.get(partition.shard, Space::Items, key).map_err(storage)?.1;
        let mut version = None;
        if let Some(found) = found {
            let (header, _) = record::decode(&found.bytes).map_err(storage)?;
            let place = expiry(&container.definition, &header).map(|at| (at, header.row));
            if place.is_some() && place == key::parse_ttl(&entry.key) {
                return Ok(());
            }
            version = Some(found.version);
        }
        let check = Precondition::unchanged(Space::Items, key.clone(), version);
        // Two entries of one item ask for the same.
        if !part.preconditions.contains(&check) {
            part.preconditions.push(check);
        }
        part.deletes.push((Space::Ttl, entry.key.clone()));
        Ok(())
    }

    /// Notes in the catalog that it is done, unless the default has changed again.
    fn ttl_backfill_done(self, container: &Container) -> Result<()> {
        let is_same_layout = self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let found = change.state.database(&Address::Rid(container.database_rid()));
            let Some(mut database) = found.map(|d| (**d).clone()) else { return Ok(true) };
            let Some(current) = database.container(&Address::Rid(container.rid())) else {
                return Ok(true);
            };
            // After a split or a merge there may be items elsewhere that were not seen.
            if current.shards() != container.shards() {
                return Ok(false);
            }
            let same = current.definition.default_ttl == container.definition.default_ttl;
            if !current.ttl_backfill_pending || !same {
                return Ok(true);
            }
            let mut current = (**current).clone();
            current.ttl_backfill_pending = false;
            let (kind, parent) = (RecordKind::Container, u64::from(database.number));
            let version = change.record(kind, parent, u64::from(current.number))?.version;
            change.replace(kind, parent, &current.record(version))?;
            database.insert(current);
            change.state.insert(database);
            change.commit()?;
            Ok(true)
        })?;
        if is_same_layout { Ok(()) } else { Err(Error::PartitionGone) }
    }
}
