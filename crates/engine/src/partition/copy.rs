//! Copying shards while they are written to. Pieces come from snapshots of different moments; what
//! is written after a piece was read is in the journal and follows. The last thing that happened to a
//! key is always copied last, so in the end the copy is what the parent is.
//!
//! ```text
//! keys of a space:   copied │ in the run │ ahead
//! a change of one:   copied │ waits      │ comes with its piece
//! ```
//!
//! Where entries come to a child in their order, pieces are gathered in *runs*, which the store takes
//! as whole files; a run must be in the child before a later change of its keys is.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use orrery_storage::journal::Overflown;
use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{Copied, CopyLog, CopyRun, Journal, ReadAt, Scan, Snapshot, Space, Store};
use orrery_types::{Clock, Error, Lsn, Result, limits};

use crate::error::storage;
use crate::partition::PhysicalPartition;

/// Leads from a row to its item's key.
pub(super) type FindRow<'f> = &'f dyn Fn(Row) -> Result<Option<Vec<u8>>>;

/// Brings entries of parents to children, changed where they have to be.
pub(super) trait Carrier {
    /// Whether the entries of a space come to each child in the order of their keys.
    const KEEPS_ORDER: bool;

    /// Takes an entry of the `parent`-th parent.
    fn carry(
        &mut self,
        parent: usize,
        entry: Copied,
        find_row: FindRow<'_>,
        out: &mut Outbox,
    ) -> Result<()>;

    /// After all that the journals have of the numbers of paths, and before the rest.
    fn settle(&mut self, _: &mut Outbox) -> Result<()> {
        Ok(())
    }

    /// Adds what the children have beside their parents' entries. The parents do not change any
    /// more, and the children go on counting from the LSN.
    fn conclude(&mut self, _: &[&dyn Snapshot], _: Lsn, _: &mut Outbox) -> Result<()> {
        Ok(())
    }
}

/// Entries on their way, by child.
pub(super) struct Outbox {
    batches: Vec<Vec<Copied>>,
    bytes: usize,
}

impl Outbox {
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

/// Numbers of paths come first, then items with their rows, then what leads to rows.
const ORDER: [Space; 5] = [Space::Meta, Space::Items, Space::Ttl, Space::Index, Space::Feed];

/// How far a copy has come.
struct At {
    /// The place of the space in [`ORDER`].
    space: usize,
    parent: usize,
    /// Keys up to here are in the children.
    copied: Vec<u8>,
    /// Keys up to here are in the children or in the run.
    read: Vec<u8>,
}

/// Where a key lies, seen from where the copy is.
#[derive(PartialEq, Eq)]
enum Lies {
    Copied,
    InTheRun,
    Ahead,
}

impl At {
    fn sees(&self, parent: usize, entry: &Copied) -> Lies {
        let space = ORDER.iter().position(|space| *space == entry.space);
        match (space, parent).cmp(&(Some(self.space), self.parent)) {
            Ordering::Less => Lies::Copied,
            Ordering::Equal if entry.key <= self.copied => Lies::Copied,
            Ordering::Equal if entry.key <= self.read => Lies::InTheRun,
            Ordering::Equal | Ordering::Greater => Lies::Ahead,
        }
    }
}

/// A copy on its way.
pub(super) struct Copy<'e, C> {
    store: &'e dyn Store,
    clock: &'e dyn Clock,
    parents: Vec<(&'e PhysicalPartition, Arc<Journal>)>,
    children: &'e [PhysicalPartition],
    carrier: C,
    outbox: Outbox,
    log: CopyLog,
    at: At,
    /// A run into each child that has got anything of it, and the bytes in all of them.
    runs: Vec<Option<Box<dyn CopyRun + 'e>>>,
    runs_bytes: usize,
    /// Changes of keys in the run, in their order.
    waiting: Vec<(usize, Copied)>,
}

impl<'e, C: Carrier> Copy<'e, C> {
    /// Begins the journals.
    pub(super) fn begin(
        store: &'e dyn Store,
        clock: &'e dyn Clock,
        parents: &'e [PhysicalPartition],
        children: &'e [PhysicalPartition],
        carrier: C,
    ) -> Result<Self> {
        let journal = |parent: &'e PhysicalPartition| {
            let journal = store.journal(parent.shard, limits::RESHAPE_JOURNAL_BYTES_MAX);
            Ok((parent, journal.map_err(storage)?))
        };
        let parents = parents.iter().map(journal).collect::<Result<_>>()?;
        Ok(Self {
            store,
            clock,
            parents,
            children,
            carrier,
            outbox: Outbox::new(children.len()),
            log: CopyLog::None,
            at: At { space: 0, parent: 0, copied: Vec::new(), read: Vec::new() },
            runs: children.iter().map(|_| None).collect(),
            runs_bytes: 0,
            waiting: Vec::new(),
        })
    }

    /// Copies everything, at a pace that leaves half of the time to others.
    pub(super) fn all(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        for (place, space) in ORDER.into_iter().enumerate() {
            for parent in 0..self.parents.len() {
                self.at = At { space: place, parent, copied: Vec::new(), read: Vec::new() };
                loop {
                    let began_us = self.clock.now_us();
                    if !self.piece(parent, space)? {
                        break;
                    }
                    // The numbers of paths are copied together.
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
        self.at = At { space: ORDER.len(), parent: 0, copied: Vec::new(), read: Vec::new() };
        self.store.settle_copies().map_err(storage)?;
        self.log = CopyLog::Written;
        Ok(())
    }

    /// Copies what comes next of a space; whether there was anything.
    fn piece(&mut self, parent: usize, space: Space) -> Result<bool> {
        let Some((partition, _)) = self.parents.get(parent) else { return Ok(false) };
        let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let all = Bounds { from: Vec::new(), to: key::END.to_vec() };
        let bounds = if self.at.read.is_empty() { all } else { all.after(&self.at.read) };
        let scan = Scan {
            space,
            from: &bounds.from,
            to: &bounds.to,
            reverse: false,
            max_rows: limits::RESHAPE_PIECE_ENTRIES,
            max_bytes: limits::RESHAPE_PIECE_BYTES,
            keys_only: false,
        };
        let entries = snapshot.scan(&scan).map_err(storage)?;
        let Some(last) = entries.last().map(|entry| entry.key.clone()) else { return Ok(false) };
        let find_row = |row: Row| {
            let found = snapshot.get(Space::Items, &key::row(row)).map_err(storage)?;
            Ok(found.map(|value| value.bytes.into()))
        };
        for entry in entries {
            let entry = Copied { space, key: entry.key, value: Some(entry.value) };
            self.carrier.carry(parent, entry, &find_row, &mut self.outbox)?;
        }
        drop(snapshot);
        self.at.read = last;
        if C::KEEPS_ORDER && space != Space::Meta {
            self.write_to_runs(space)?;
            if self.runs_bytes >= limits::RESHAPE_RUN_BYTES {
                self.finish_runs()?;
            }
        } else {
            self.write()?;
            self.at.copied.clone_from(&self.at.read);
        }
        Ok(true)
    }

    /// Copies what the journals have; returns how many bytes that was.
    pub(super) fn catch_up(&mut self) -> Result<usize> {
        let mut bytes = 0;
        for parent in 0..self.parents.len() {
            let (_, journal) = &self.parents[parent];
            let mut changes = journal.take().map_err(|Overflown| overflown())?;
            let place = |space| ORDER.iter().position(|s| *s == space);
            changes.sort_by_key(|change| place(change.space));
            let names = changes.partition_point(|change| change.space == Space::Meta);
            let rest = changes.split_off(names);
            for (settles, changes) in [(true, changes), (false, rest)] {
                for entry in changes {
                    bytes += entry.size_bytes();
                    match self.at.sees(parent, &entry) {
                        Lies::Copied => self.carry_change(parent, entry)?,
                        Lies::InTheRun => self.waiting.push((parent, entry)),
                        Lies::Ahead => {}
                    }
                }
                if settles {
                    self.carrier.settle(&mut self.outbox)?;
                }
            }
        }
        self.write()?;
        Ok(bytes)
    }

    fn carry_change(&mut self, parent: usize, entry: Copied) -> Result<()> {
        let (store, shard) = (self.store, self.parents[parent].0.shard);
        let find_row = |row: Row| {
            let (_, found) = store.get(shard, Space::Items, &key::row(row)).map_err(storage)?;
            Ok(found.map(|value| value.bytes.into()))
        };
        self.carrier.carry(parent, entry, &find_row, &mut self.outbox)
    }

    /// Follows the writers until little is left to copy, or until it has tried long enough: then
    /// the rest is copied while they wait.
    pub(super) fn follow(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        for _ in 0..limits::RESHAPE_ROUNDS_MAX {
            if stop() {
                return Err(Error::Timeout("The server is stopping.".into()));
            }
            if self.catch_up()? <= limits::RESHAPE_REST_BYTES {
                break;
            }
        }
        Ok(())
    }

    /// Adds what only the children have.
    pub(super) fn conclude(&mut self, lsn: Lsn) -> Result<()> {
        let snapshot = |(parent, _): &(&PhysicalPartition, _)| {
            self.store.snapshot(parent.shard, ReadAt::Latest).map_err(storage)
        };
        let snapshots = self.parents.iter().map(snapshot).collect::<Result<Vec<_>>>()?;
        let snapshots: Vec<&dyn Snapshot> = snapshots.iter().map(|s| &**s).collect();
        self.carrier.conclude(&snapshots, lsn, &mut self.outbox)?;
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        for (child, batch) in self.children.iter().zip(&mut self.outbox.batches) {
            if !batch.is_empty() {
                self.store.copy_into(child.shard, batch, self.log).map_err(storage)?;
                batch.clear();
            }
        }
        self.outbox.bytes = 0;
        Ok(())
    }

    /// Adds the entries on their way to the runs of a space.
    fn write_to_runs(&mut self, space: Space) -> Result<()> {
        let (store, children) = (self.store, self.children);
        let batches = self.outbox.batches.iter_mut();
        for ((child, run), batch) in children.iter().zip(&mut self.runs).zip(batches) {
            for Copied { key, value, .. } in batch.drain(..) {
                let value = value.ok_or_else(|| Error::internal("a copied entry has no value"))?;
                let run = match run {
                    Some(run) => run,
                    None => run.insert(store.copy_run(child.shard, space).map_err(storage)?),
                };
                run.add(&key, &value).map_err(storage)?;
            }
        }
        self.runs_bytes += std::mem::take(&mut self.outbox.bytes);
        Ok(())
    }

    /// Brings the runs into the children, and then the changes that waited for them.
    fn finish_runs(&mut self) -> Result<()> {
        for run in self.runs.iter_mut().filter_map(Option::take) {
            run.finish().map_err(storage)?;
        }
        self.runs_bytes = 0;
        self.at.copied.clone_from(&self.at.read);
        for (parent, entry) in std::mem::take(&mut self.waiting) {
            self.carry_change(parent, entry)?;
        }
        self.write()
    }
}

fn overflown() -> Error {
    Error::Unavailable(
        "More was written to the range than could be copied meanwhile. Try again when there are \
         fewer writes."
            .into(),
    )
}
