//! Walking over the entries of the feed, partition by partition, commit by commit.

use bytes::Bytes;
use orrery_storage::version::Version;
use orrery_storage::{Entry, ReadAt, Scan, Snapshot, Space, key, record};
use orrery_types::{Error, KeyRange, Lsn, PartitionKey, Result, limits};

use super::position::FeedPosition;
use super::{ChangesRequest, Mode, Shape, image};
use crate::change_feed::history::Horizon;
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::partition::scope::Scope;
use crate::query::read_feed::PageSize;
use crate::{Container, Engine};

/// Changes on their way to a client.
pub(super) struct Page {
    size: PageSize,
    pub(super) changes: Vec<Bytes>,
    bytes: usize,
    /// Whether there is more than was taken.
    pub(super) cut_short: bool,
    /// The partitions that were read, and how far each was then.
    pub(super) seen: Vec<(u32, Lsn)>,
    examined: usize,
}

impl Page {
    pub(super) fn new(size: PageSize) -> Self {
        Self {
            size,
            changes: Vec::new(),
            bytes: 0,
            cut_short: false,
            seen: Vec::new(),
            examined: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= self.size.items
            || self.bytes >= limits::PAGE_SIZE_BYTES_MAX
            || self.examined >= limits::CHANGES_EXAMINED_MAX
    }

    /// Takes the changes of one commit, all or none of them. A page takes one commit at least.
    fn take(&mut self, commit: Vec<Bytes>) -> bool {
        let bytes: usize = commit.iter().map(Bytes::len).sum();
        let fits = self.changes.len() + commit.len() <= self.size.items
            && self.bytes + bytes <= limits::PAGE_SIZE_BYTES_MAX;
        if !fits && !self.changes.is_empty() && !commit.is_empty() {
            return false;
        }
        self.bytes += bytes;
        self.changes.extend(commit);
        true
    }
}

/// One request on its way over the partitions.
pub(super) struct Reader<'e> {
    pub(super) engine: &'e Engine,
    pub(super) container: &'e Container,
    pub(super) scope: &'e Scope,
    pub(super) request: &'e ChangesRequest<'e>,
}

/// The changes of commits, in their order.
type Commits = Vec<(Lsn, Vec<Bytes>)>;

fn add(commits: &mut Commits, lsn: Lsn, change: Bytes) {
    match commits.last_mut().filter(|(last, _)| *last == lsn) {
        Some((_, changes)) => changes.push(change),
        None => commits.push((lsn, vec![change])),
    }
}

/// How much is read from the store at once.
#[derive(Clone, Copy)]
struct Step {
    rows: usize,
    bytes: usize,
}

impl Step {
    fn for_page(page: &Page) -> Self {
        let rows = page.size.items.saturating_add(1).clamp(32, limits::PAGE_ITEMS_MAX);
        Self { rows, bytes: limits::PAGE_SIZE_BYTES_MAX }
    }

    fn larger(self) -> Self {
        Self { rows: self.rows.saturating_mul(4), bytes: self.bytes.saturating_mul(4) }
    }
}

impl Reader<'_> {
    /// Fills a page and moves the position behind what it took.
    pub(super) fn read(
        &self,
        range: &KeyRange,
        position: &mut FeedPosition,
        page: &mut Page,
    ) -> Result<()> {
        let parts: Vec<_> = self
            .container
            .partitions
            .iter()
            .filter_map(|p| Some((p, range.intersect(&p.range)?)))
            .collect();
        let first = parts.iter().position(|(p, _)| p.range.contains(&position.turn)).unwrap_or(0);
        for i in 0..parts.len() {
            let (partition, part) = &parts[(first + i) % parts.len()];
            if page.is_full() {
                page.cut_short = true;
                position.turn = part.min.clone();
                return Ok(());
            }
            let reached = self.read_partition(partition, part, position, page)?;
            position.advance(part, reached);
        }
        if parts.len() > 1 {
            let next = &parts[(first + 1) % parts.len()].1;
            position.turn = next.min.clone();
        }
        Ok(())
    }

    /// Takes what a partition has; returns the LSN up to which it was taken.
    fn read_partition(
        &self,
        partition: &PhysicalPartition,
        part: &KeyRange,
        position: &FeedPosition,
        page: &mut Page,
    ) -> Result<Lsn> {
        let snapshot = self.snapshot(partition)?;
        let end = snapshot.lsn();
        page.seen.push((partition.id, end));
        let (least, most) = position.bounds(part);
        if most > end {
            return Err(Error::invalid(
                "Invalid Continuation Token: the position is ahead of the container.",
            ));
        }
        let behind = |(range, gone): (KeyRange, Lsn)| {
            range.intersect(part).is_some_and(|keys| position.bounds(&keys).0 < gone)
        };
        let all_versions = self.request.mode == Mode::AllVersions;
        if all_versions && Horizon::read(&*snapshot)?.pieces().any(behind) {
            return Err(Error::invalid(
                "The continuation is older than the container's changes are kept. Start from now.",
            ));
        }
        let mut reached = least;
        let mut step = Step::for_page(page);
        loop {
            let (entries, at_end) = self.scan(&*snapshot, reached, step)?;
            let whole = if at_end { &entries[..] } else { self.whole_commits(&entries) };
            let Some(last) = whole.last().map(|e| self.commit_of(e)).transpose()? else {
                if at_end {
                    return Ok(end);
                }
                // One commit is larger than the step.
                step = step.larger();
                continue;
            };
            page.examined += whole.len();
            let commits = match self.request.mode {
                Mode::Latest(shape) => self.latest(&*snapshot, part, position, whole, shape)?,
                Mode::AllVersions => self.versions(part, position, whole)?,
            };
            for (lsn, changes) in commits {
                if !page.take(changes) {
                    page.cut_short = true;
                    return Ok(Lsn(lsn.0 - 1));
                }
            }
            if at_end {
                return Ok(end);
            }
            reached = last;
            if page.is_full() {
                page.cut_short = true;
                return Ok(reached);
            }
        }
    }

    /// The newest versions that the request wants of some entries, commit by commit.
    fn latest(
        &self,
        snapshot: &dyn Snapshot,
        part: &KeyRange,
        position: &FeedPosition,
        entries: &[Entry],
        shape: Shape,
    ) -> Result<Commits> {
        let mut wanted: Vec<(Lsn, &[u8])> = Vec::new();
        for entry in entries {
            let (lsn, item_key) = (self.commit_of(entry)?, &entry.value.bytes[..]);
            if self.wants(part, position, lsn, item_key)? {
                wanted.push((lsn, item_key));
            }
        }
        let keys: Vec<&[u8]> = wanted.iter().map(|(_, key)| *key).collect();
        let items = snapshot.get_many(Space::Items, &keys).map_err(storage)?;
        let mut commits = Commits::new();
        for ((lsn, item_key), item) in wanted.into_iter().zip(items) {
            let item = item.ok_or_else(|| Error::internal("a feed entry leads to no item"))?;
            let (header, text) = record::decode(&item.bytes).map_err(storage)?;
            let hidden =
                self.engine.items().is_hidden(self.container, item_key, item.version, &header);
            if !hidden && !self.is_early(header.ts_s) {
                add(&mut commits, lsn, image::latest(shape, text, lsn, header.ts_s)?);
            }
        }
        Ok(commits)
    }

    /// All versions that the request wants of some entries, commit by commit.
    fn versions(
        &self,
        part: &KeyRange,
        position: &FeedPosition,
        entries: &[Entry],
    ) -> Result<Commits> {
        let mut commits = Commits::new();
        for entry in entries {
            let lsn = self.commit_of(entry)?;
            let version = Version::decode(&entry.value.bytes).map_err(storage)?;
            let wanted = self.wants(part, position, lsn, version.item_key)?;
            if wanted && !self.is_early(version.time_s) {
                add(&mut commits, lsn, image::version(self.container, &version, lsn)?);
            }
        }
        Ok(commits)
    }

    fn is_early(&self, time_s: u64) -> bool {
        self.request.since_s.is_some_and(|since_s| time_s <= since_s)
    }

    fn wants(
        &self,
        part: &KeyRange,
        position: &FeedPosition,
        lsn: Lsn,
        item_key: &[u8],
    ) -> Result<bool> {
        let place = key::parse_item(item_key).ok_or_else(corrupt)?;
        let named = |k: &PartitionKey| k.to_canonical() == place.partition;
        Ok(part.contains(&place.effective)
            && self.scope.partition_key.as_ref().is_none_or(named)
            && lsn > position.lsn_at(&place.effective))
    }

    fn snapshot(&self, partition: &PhysicalPartition) -> Result<Box<dyn Snapshot + '_>> {
        self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)
    }

    /// An LSN of a partition after which everything written at a second or later lies. Times rise
    /// with LSNs, but for writes that waited and clocks that were set; hence the slack.
    pub(super) fn start_of(&self, partition: &PhysicalPartition, since_s: u64) -> Result<Lsn> {
        let snapshot = self.snapshot(partition)?;
        let since_s = since_s.saturating_sub(limits::FEED_CLOCK_SLACK_S);
        // Up to where two parents were merged, their LSNs do not rise with time.
        let merged = merged_at(&*snapshot)?.0;
        let (mut low, mut high) = (merged, snapshot.lsn().0.max(merged));
        // Everything after the merge and up to `low` is too early; nothing after `high` is.
        while low < high {
            let middle = low + (high - low) / 2;
            let step = Step { rows: 1, bytes: usize::MAX };
            let Some(entry) = self.scan(&*snapshot, Lsn(middle), step)?.0.pop() else {
                high = middle;
                continue;
            };
            let lsn = self.commit_of(&entry)?;
            let item = snapshot.get(Space::Items, &entry.value.bytes).map_err(storage)?;
            let item = item.ok_or_else(corrupt)?;
            let (header, _) = record::decode(&item.bytes).map_err(storage)?;
            if header.ts_s < since_s {
                low = lsn.0;
            } else {
                high = middle;
            }
        }
        // Nothing of after the merge is too early: then what came before it has to be looked at.
        Ok(if low == merged { Lsn(0) } else { Lsn(low.min(snapshot.lsn().0)) })
    }

    /// Entries of commits after an LSN, and whether they are the last ones.
    fn scan(&self, snapshot: &dyn Snapshot, after: Lsn, step: Step) -> Result<(Vec<Entry>, bool)> {
        let bounds = match self.request.mode {
            Mode::Latest(_) => key::feed_after(after),
            Mode::AllVersions => key::versions_after(after),
        };
        let read = |from: &[u8], step: Step, keys_only: bool| {
            let scan = Scan {
                space: Space::Feed,
                from,
                to: &bounds.to,
                reverse: false,
                max_rows: step.rows,
                max_bytes: step.bytes,
                keys_only,
            };
            snapshot.scan(&scan).map_err(storage)
        };
        let entries = read(&bounds.from, step, false)?;
        let Some(last) = entries.last() else { return Ok((entries, true)) };
        let bytes: usize = entries.iter().map(|e| e.key.len() + e.value.bytes.len()).sum();
        if entries.len() < step.rows && bytes < step.bytes / 2 {
            return Ok((entries, true));
        }
        let at_end = read(&key::after(&last.key), Step { rows: 1, ..step }, true)?.is_empty();
        Ok((entries, at_end))
    }

    fn commit_of(&self, entry: &Entry) -> Result<Lsn> {
        let place = match self.request.mode {
            Mode::Latest(_) => key::parse_feed(&entry.key),
            Mode::AllVersions => key::parse_version(&entry.key),
        };
        place.map(|(lsn, _)| lsn).ok_or_else(corrupt)
    }

    /// The entries without the last commit's, of which the rest may still be to come.
    fn whole_commits<'s>(&self, entries: &'s [Entry]) -> &'s [Entry] {
        let commit = |e: &Entry| self.commit_of(e).ok();
        let Some(last) = entries.last().map(commit) else { return entries };
        let whole = entries.iter().take_while(|e| commit(e) != last).count();
        &entries[..whole]
    }
}

/// The LSN from which on a shard has counted alone.
fn merged_at(snapshot: &dyn Snapshot) -> Result<Lsn> {
    let stored = snapshot.get(Space::Meta, &key::merged_at()).map_err(storage)?;
    let Some(stored) = stored else { return Ok(Lsn(0)) };
    stored.bytes[..].try_into().map(|lsn| Lsn(u64::from_be_bytes(lsn))).map_err(|_| corrupt())
}

fn corrupt() -> Error {
    Error::internal("an entry of the feed is corrupt")
}
