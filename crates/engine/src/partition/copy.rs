//! Copies shards that are being written to. Each chunk comes from its own snapshot; changes of keys that are
//! already copied are in the journal and are applied afterwards. The last change of a key is always
//! applied last, so the copy ends up equal to the parent.
//!
//! ```text
//! keys of a space:        copied  │ in the run │ ahead
//! a change of such a key: applied │ deferred   │ skipped, its chunk will contain it
//! ```
//!
//! Where entries reach a child in key order, chunks are collected in *runs*, which the store ingests as table
//! files. A run must be ingested before later changes of its keys are applied.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{
    Copied, CopyRun, Journal, JournalError, ReadAt, Snapshot, Space, Store, copy_run,
};
use orrery_types::{Clock, Error, Lsn, Result, limits};

use crate::error::storage;
use crate::partition::PhysicalPartition;

/// Leads from a row to its item's key.
pub(super) type FindRow<'f> = &'f dyn Fn(Row) -> Result<Option<Vec<u8>>>;

/// Routes entries of the parents to the children, and rewrites them where necessary.
pub(super) trait EntryRouter {
    /// Whether the entries of a space come to each child in the order of their keys.
    const KEEPS_ORDER: bool;

    /// Takes an entry of the `parent`-th parent.
    fn route(
        &mut self,
        parent: usize,
        entry: Copied,
        find_row: FindRow<'_>,
        out: &mut RoutedEntries,
    ) -> Result<()>;

    /// Called after the path ids in the journals, and before the rest of them.
    fn finish_path_ids(&mut self, _: &mut RoutedEntries) -> Result<()> {
        Ok(())
    }

    /// Adds the entries that only the children have. The parents are closed; the children continue from
    /// this LSN.
    fn conclude(&mut self, _: &[&dyn Snapshot], _: Lsn, _: &mut RoutedEntries) -> Result<()> {
        Ok(())
    }
}

/// Entries to be written, by child.
pub(super) struct RoutedEntries {
    batches: Vec<Vec<Copied>>,
    bytes: usize,
}

impl RoutedEntries {
    fn new(children: usize) -> Self {
        Self { batches: vec![Vec::new(); children], bytes: 0 }
    }

    pub(super) fn push(&mut self, child: usize, entry: Copied) {
        self.bytes += entry.size_bytes();
        if let Some(batch) = self.batches.get_mut(child) {
            batch.push(entry);
        }
    }

    pub(super) fn push_to_all(&mut self, entry: &Copied) {
        for child in 0..self.batches.len() {
            self.push(child, entry.clone());
        }
    }
}

/// Path ids come first, then items with their rows, then entries that refer to rows.
const ORDER: [Space; 5] = [Space::Meta, Space::Items, Space::Ttl, Space::Index, Space::Feed];

/// How far a copy has come.
struct CopyPosition {
    /// The place of the space in [`ORDER`].
    space: usize,
    parent: usize,
    /// Keys up to here are in the children.
    copied: Vec<u8>,
    /// Keys up to here are in the children or in the run.
    read: Vec<u8>,
}

/// Whether a key is copied at a position.
#[derive(PartialEq, Eq)]
enum CopyState {
    Copied,
    InRun,
    Ahead,
}

impl CopyPosition {
    fn state_of(&self, parent: usize, entry: &Copied) -> CopyState {
        let space = ORDER.iter().position(|space| *space == entry.space);
        match (space, parent).cmp(&(Some(self.space), self.parent)) {
            Ordering::Less => CopyState::Copied,
            Ordering::Equal if entry.key <= self.copied => CopyState::Copied,
            Ordering::Equal if entry.key <= self.read => CopyState::InRun,
            Ordering::Equal | Ordering::Greater => CopyState::Ahead,
        }
    }
}

/// A copy in progress.
pub(super) struct ShardCopier<'e, C> {
    store: &'e dyn Store,
    clock: &'e dyn Clock,
    parents: Vec<(&'e PhysicalPartition, Arc<dyn Journal>)>,
    children: &'e [PhysicalPartition],
    router: C,
    routed: RoutedEntries,
    at: CopyPosition,
    /// The open run of each child, and the bytes in all of them.
    runs: Vec<Option<Box<dyn CopyRun + 'e>>>,
    runs_bytes: usize,
    /// Changes of keys in the run, in their order.
    deferred: Vec<(usize, Copied)>,
}

impl<'e, C: EntryRouter> ShardCopier<'e, C> {
    /// Starts the journals.
    pub(super) fn begin(
        store: &'e dyn Store,
        clock: &'e dyn Clock,
        parents: &'e [PhysicalPartition],
        children: &'e [PhysicalPartition],
        router: C,
    ) -> Result<Self> {
        let journal = |parent: &'e PhysicalPartition| {
            let journal = store.journal(parent.shard, limits::COPY_JOURNAL_BYTES_MAX);
            Ok((parent, journal.map_err(storage)?))
        };
        let parents = parents.iter().map(journal).collect::<Result<_>>()?;
        Ok(Self {
            store,
            clock,
            parents,
            children,
            router,
            routed: RoutedEntries::new(children.len()),
            at: CopyPosition { space: 0, parent: 0, copied: Vec::new(), read: Vec::new() },
            runs: children.iter().map(|_| None).collect(),
            runs_bytes: 0,
            deferred: Vec::new(),
        })
    }

    /// Copies everything, pausing after each chunk as long as it took, so that requests get half of the time.
    pub(super) fn all(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        for (place, space) in ORDER.into_iter().enumerate() {
            for parent in 0..self.parents.len() {
                self.at =
                    CopyPosition { space: place, parent, copied: Vec::new(), read: Vec::new() };
                loop {
                    let began_us = self.clock.now_us();
                    if !self.copy_chunk(parent, space)? {
                        break;
                    }
                    // Path ids are copied together.
                    if space != Space::Meta {
                        self.catch_up()?;
                    }
                    if stop() {
                        return Err(Error::Timeout("The server is stopping.".into()));
                    }
                    let took_us = self.clock.now_us().saturating_sub(began_us);
                    std::thread::sleep(Duration::from_micros(took_us));
                }
                self.finish_runs()?;
            }
        }
        self.at =
            CopyPosition { space: ORDER.len(), parent: 0, copied: Vec::new(), read: Vec::new() };
        self.store.flush().map_err(storage)
    }

    /// Copies the next chunk of a space; false at its end.
    fn copy_chunk(&mut self, parent: usize, space: Space) -> Result<bool> {
        let Some((partition, _)) = self.parents.get(parent) else { return Ok(false) };
        let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let all = Bounds { from: Vec::new(), to: key::END.to_vec() };
        let bounds = if self.at.read.is_empty() { all } else { all.after(&self.at.read) };
        let scan = bounds.scan(space, limits::COPY_CHUNK_ENTRIES, limits::COPY_CHUNK_BYTES);
        let entries = snapshot.scan(&scan).map_err(storage)?;
        let Some(last) = entries.last().map(|entry| entry.key.clone()) else { return Ok(false) };
        let find_row = |row: Row| {
            let found = snapshot.get(Space::Items, &key::row(row)).map_err(storage)?;
            Ok(found.map(|value| value.bytes.into()))
        };
        for entry in entries {
            let entry = Copied { space, key: entry.key, value: Some(entry.value) };
            self.router.route(parent, entry, &find_row, &mut self.routed)?;
        }
        drop(snapshot);
        self.at.read = last;
        if C::KEEPS_ORDER && space != Space::Meta {
            self.write_to_runs(space)?;
            if self.runs_bytes >= limits::COPY_RUN_BYTES {
                self.finish_runs()?;
            }
        } else {
            self.write()?;
            self.at.copied.clone_from(&self.at.read);
        }
        Ok(true)
    }

    /// Applies the journals; returns their size in bytes.
    pub(super) fn catch_up(&mut self) -> Result<usize> {
        let mut bytes = 0;
        for parent in 0..self.parents.len() {
            let (_, journal) = &self.parents[parent];
            let mut changes = journal.take().map_err(journal_error)?;
            let place = |space| ORDER.iter().position(|s| *s == space);
            changes.sort_by_key(|change| place(change.space));
            let names = changes.partition_point(|change| change.space == Space::Meta);
            let rest = changes.split_off(names);
            for (settles, changes) in [(true, changes), (false, rest)] {
                for entry in changes {
                    bytes += entry.size_bytes();
                    match self.at.state_of(parent, &entry) {
                        CopyState::Copied => self.route_change(parent, entry)?,
                        CopyState::InRun => self.deferred.push((parent, entry)),
                        CopyState::Ahead => {}
                    }
                }
                if settles {
                    self.router.finish_path_ids(&mut self.routed)?;
                }
            }
        }
        self.write()?;
        Ok(bytes)
    }

    fn route_change(&mut self, parent: usize, entry: Copied) -> Result<()> {
        let (store, shard) = (self.store, self.parents[parent].0.shard);
        let find_row = |row: Row| {
            let (_, found) = store.get(shard, Space::Items, &key::row(row)).map_err(storage)?;
            Ok(found.map(|value| value.bytes.into()))
        };
        self.router.route(parent, entry, &find_row, &mut self.routed)
    }

    /// Applies the journals until little is left, for a bounded number of rounds; the rest is applied during
    /// the cutover.
    pub(super) fn catch_up_with_writers(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        for _ in 0..limits::COPY_ROUNDS_MAX {
            if stop() {
                return Err(Error::Timeout("The server is stopping.".into()));
            }
            if self.catch_up()? <= limits::CUTOVER_REST_BYTES {
                break;
            }
        }
        Ok(())
    }

    /// Adds the entries that only the children have.
    pub(super) fn conclude(&mut self, lsn: Lsn) -> Result<()> {
        let snapshot = |(parent, _): &(&PhysicalPartition, _)| {
            self.store.snapshot(parent.shard, ReadAt::Latest).map_err(storage)
        };
        let snapshots = self.parents.iter().map(snapshot).collect::<Result<Vec<_>>>()?;
        let snapshots: Vec<&dyn Snapshot> = snapshots.iter().map(|s| &**s).collect();
        self.router.conclude(&snapshots, lsn, &mut self.routed)?;
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        for (child, batch) in self.children.iter().zip(&mut self.routed.batches) {
            if !batch.is_empty() {
                self.store.copy_into(child.shard, batch).map_err(storage)?;
                batch.clear();
            }
        }
        self.routed.bytes = 0;
        Ok(())
    }

    /// Appends the routed entries to the runs of a space.
    fn write_to_runs(&mut self, space: Space) -> Result<()> {
        let (store, children) = (self.store, self.children);
        let batches = self.routed.batches.iter_mut();
        for ((child, run), batch) in children.iter().zip(&mut self.runs).zip(batches) {
            for Copied { key, value, .. } in batch.drain(..) {
                let value = value.ok_or_else(|| Error::internal("a copied entry has no value"))?;
                let run = match run {
                    Some(run) => run,
                    None => run.insert(copy_run(store, child.shard, space).map_err(storage)?),
                };
                run.add(&key, &value).map_err(storage)?;
            }
        }
        self.runs_bytes += std::mem::take(&mut self.routed.bytes);
        Ok(())
    }

    /// Ingests the runs, then applies the changes that were deferred for them.
    fn finish_runs(&mut self) -> Result<()> {
        for run in self.runs.iter_mut().filter_map(Option::take) {
            run.finish().map_err(storage)?;
        }
        self.runs_bytes = 0;
        self.at.copied.clone_from(&self.at.read);
        for (parent, entry) in std::mem::take(&mut self.deferred) {
            self.route_change(parent, entry)?;
        }
        self.write()
    }
}

fn journal_error(error: JournalError) -> Error {
    match error {
        JournalError::Overflown => Error::Unavailable(
            "The partition was written to faster than it could be copied. Try again when there are \
             fewer writes."
                .into(),
        ),
        JournalError::Failed(error) => storage(error),
    }
}
