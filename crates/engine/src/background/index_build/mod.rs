//! Index build after a change of the indexing policy, or for items that were written without an index. Writers
//! maintain the terms of both policies from the change on (see `partition/epoch`), so existing items are
//! scanned once, in small commits that also record the progress, from which a restart continues. The
//! container's record names the older policies until the build is done, and no query uses a new path before.

use orrery_index::maintain::{TermImage, maintain};
use orrery_index::{IndexState, IndexingPolicy};
use orrery_storage::key::{self, Bounds, RecordKind};
use orrery_storage::{
    Commit, Entry, Part, Precondition, Put, ReadAt, Scan, Snapshot, Space, StorageError,
};
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Lsn, Result, limits};

use crate::background::{BATCHES_PER_STEP, UnitProgress};
use crate::catalog::container::index_state;
use crate::error::storage;
use crate::item::image::BeforeImage;
use crate::maintain::index_terms::{Indexer, PathIdAllocation};
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

/// How far a partition is: everything up to the key has been built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rebuilt {
    items: u64,
    last: Vec<u8>,
}

impl Rebuilt {
    fn encode(&self, epoch: Epoch) -> Vec<u8> {
        let mut bytes = epoch.0.to_be_bytes().to_vec();
        bytes.extend(self.items.to_be_bytes());
        bytes.extend_from_slice(&self.last);
        bytes
    }

    /// Progress under another epoch was that of another change.
    fn decode(bytes: &[u8], epoch: Epoch) -> Option<Self> {
        let (of, rest) = bytes.split_first_chunk::<8>()?;
        let (items, last) = rest.split_first_chunk::<8>()?;
        let rebuilt = Self { items: u64::from_be_bytes(*items), last: last.to_vec() };
        (u64::from_be_bytes(*of) == epoch.0).then_some(rebuilt)
    }
}

/// Indexes that are built over older items.
#[derive(Clone, Copy)]
pub struct IndexBuild<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> IndexBuild<'e> {
    /// Builds a part of a container's index.
    pub(crate) fn reindex(
        self,
        container: &Container,
        stop: &dyn Fn() -> bool,
    ) -> Result<UnitProgress> {
        let database = Address::Rid(container.database_rid());
        let container =
            match self.engine.catalog.container(&database, &Address::Rid(container.rid())) {
                Ok(container) => container,
                // It was deleted meanwhile.
                Err(Error::NotFound | Error::OwnerNotFound) => return Ok(UnitProgress::Done),
                Err(error) => return Err(error),
            };
        if container.index.is_complete() {
            return Ok(UnitProgress::Done);
        }
        let mut batches = 0..BATCHES_PER_STEP;
        for partition in &container.partitions {
            while self.reindex_batch(&container, partition)? == UnitProgress::Unfinished {
                if stop() || batches.next().is_none() {
                    return Ok(UnitProgress::Unfinished);
                }
            }
        }
        self.reindexed(&container)
    }

    /// Builds the terms of the next items of a partition.
    fn reindex_batch(
        self,
        container: &Container,
        partition: &PhysicalPartition,
    ) -> Result<UnitProgress> {
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let noted = snapshot.get(Space::Meta, &key::index_rebuilt()).map_err(storage)?;
        let version = noted.as_ref().map(|value| value.version);
        let rebuilt = noted.and_then(|value| Rebuilt::decode(&value.bytes, partition.epoch));
        let mut bounds = key::items_in(&partition.range);
        if let Some(rebuilt) = &rebuilt {
            bounds = bounds.after(&rebuilt.last);
        }
        let scan = scan_items(&bounds);
        let entries = snapshot.scan(&scan).map_err(storage)?;
        drop(snapshot);
        let Some(last) = entries.last() else { return Ok(UnitProgress::Done) };
        let items = rebuilt.map_or(0, |rebuilt| rebuilt.items) + entries.len() as u64;
        let rebuilt = Rebuilt { items, last: last.key.clone() };
        let note = Note { version, value: rebuilt.encode(partition.epoch) };
        let items = self.read_for_reindex(container, partition, entries)?;
        self.commit_batch(container, partition, items, &note)?;
        Ok(UnitProgress::Unfinished)
    }

    /// Commits the changes of a batch. An item that was written concurrently is left out: it was written
    /// under this epoch, so its terms are right.
    fn commit_batch(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        mut items: Vec<(Vec<u8>, BeforeImage)>,
        note: &Note,
    ) -> Result<()> {
        loop {
            let part = self.batch_part(container, partition, &items, note)?;
            let failed = match self.engine.store.commit(Commit::new(vec![part])) {
                Ok(_) => return Ok(()),
                Err(StorageError::Conflict(failed)) => failed.precondition,
                Err(error) => return Err(storage(error)),
            };
            let changed = failed.key().filter(|(space, _)| *space == Space::Items);
            let changed = changed.and_then(|(_, key)| items.iter().position(|(k, _)| k == key));
            match changed {
                Some(item) => drop(items.remove(item)),
                // Another process builds the same index.
                None => return Err(Error::RetryWith),
            }
        }
    }

    /// The part of a batch. It requires that the note is unchanged, and each item that it writes for.
    fn batch_part(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        items: &[(Vec<u8>, BeforeImage)],
        note: &Note,
    ) -> Result<Part> {
        let indexer = self.indexer(container, partition);
        let mut part = Part::new(partition.shard, partition.epoch);
        let (space, key) = (Space::Meta, key::index_rebuilt());
        part.preconditions.push(Precondition::unchanged(space, key.clone(), note.version));
        part.puts.push(Put { space, key, value: note.value.clone() });
        for (key, before) in items {
            let writes = part.puts.len() + part.deletes.len();
            let image = TermImage { terms: before.terms(&indexer)?, row: before.header.row };
            maintain(Some(image), Some(image), container.index.rules().all(), &mut part);
            if part.puts.len() + part.deletes.len() > writes {
                let (space, key, lsn) = (Space::Items, key.clone(), before.version);
                part.preconditions.push(Precondition::Version { space, key, lsn });
            }
        }
        Ok(part)
    }

    fn read_for_reindex(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: Vec<Entry>,
    ) -> Result<Vec<(Vec<u8>, BeforeImage)>> {
        let indexer = self.indexer(container, partition);
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            let before = BeforeImage::read(entry.value)?;
            before.terms(&indexer)?;
            items.push((entry.key, before));
        }
        Ok(items)
    }

    fn indexer(self, container: &'e Container, partition: &'e PhysicalPartition) -> Indexer<'e> {
        Indexer {
            store: &*self.engine.store,
            container,
            partition,
            path_ids: PathIdAllocation::Immediate,
        }
    }

    /// Notes in the catalog that it is done, unless the policy has changed again.
    fn reindexed(self, container: &Container) -> Result<UnitProgress> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let found = change.state.database(&Address::Rid(container.database_rid()));
            let Some(mut database) = found.map(|d| (**d).clone()) else {
                return Ok(UnitProgress::Done);
            };
            let Some(current) = database.container(&Address::Rid(container.rid())) else {
                return Ok(UnitProgress::Done);
            };
            if current.shards() != container.shards() {
                return Ok(UnitProgress::Unfinished);
            }
            let mut current = (**current).clone();
            current.index = index_state(&current.definition, vec![]);
            let (kind, parent) = (RecordKind::Container, u64::from(database.number));
            let version = change.record(kind, parent, u64::from(current.number))?.version;
            change.replace(kind, parent, &current.record(version))?;
            database.insert(current);
            change.state.insert(database);
            change.commit()?;
            Ok(UnitProgress::Done)
        })
    }

    /// How much of a container's index has been built, in percent.
    pub fn index_progress(self, container: &Container) -> Result<u8> {
        let epochs = self.engine.epochs();
        epochs.retry_on_gone_shard(container, &mut |now| self.progress_in(now))
    }

    /// The same under one layout.
    fn progress_in(self, container: &Container) -> Result<u8> {
        if container.index.is_complete() {
            return Ok(100);
        }
        let (mut built, mut total) = (0, 0);
        for partition in &container.partitions {
            let snapshot =
                self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let noted = snapshot.get(Space::Meta, &key::index_rebuilt()).map_err(storage)?;
            let rebuilt = noted.and_then(|value| Rebuilt::decode(&value.bytes, partition.epoch));
            built += rebuilt.map_or(0, |rebuilt| rebuilt.items);
            total += items_of(&*snapshot)?;
        }
        let percent = built.saturating_mul(100) / total.max(1);
        // It is 100 when queries may rely on it.
        Ok(u8::try_from(percent.min(99)).unwrap_or(99))
    }
}

/// Items of a partition: counted if they are few, else guessed.
fn items_of(snapshot: &dyn Snapshot) -> Result<u64> {
    let rows = key::all_rows();
    let counted = Scan { keys_only: true, max_rows: ITEMS_COUNTED_MAX, ..scan_items(&rows) };
    let counted = snapshot.scan(&counted).map_err(storage)?.len();
    if counted < ITEMS_COUNTED_MAX {
        return Ok(counted as u64);
    }
    let guessed = snapshot.estimate(Space::Items, &rows.from, &rows.to).map_err(storage)?;
    Ok(guessed.max(counted as u64))
}

const ITEMS_COUNTED_MAX: usize = 5000;

/// How far the batch gets, and what stood there before.
struct Note {
    version: Option<Lsn>,
    value: Vec<u8>,
}

fn scan_items(bounds: &Bounds) -> Scan<'_> {
    bounds.scan(Space::Items, limits::REBUILD_ITEMS_MAX, limits::REBUILD_BYTES_MAX)
}

impl Container {
    /// Takes the state of the index that follows from a change of the policy; whether the index
    /// has to be rebuilt.
    pub(crate) fn change_index(&mut self, old: &Container) -> Result<bool> {
        let (before, now) = (&old.definition.indexing, &self.definition.indexing);
        let older: Vec<IndexingPolicy> = old.index.older_after(before, now);
        // The policy of now is in effect beside them.
        if older.len() >= limits::INDEX_POLICIES_MAX {
            return Err(Error::RateLimited { retry_after_ms: 1000 });
        }
        self.index = index_state(&self.definition, older);
        Ok(!IndexState::same_terms(before, now))
    }
}

#[cfg(test)]
mod tests;
