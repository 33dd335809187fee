//! Walking over the entries of the feed, partition by partition, commit by commit.

use bytes::Bytes;
use orrery_storage::{Entry, ReadAt, Scan, Snapshot, Space, key, record};
use orrery_types::{Error, KeyRange, Lsn, Result, limits};

use super::position::Position;
use super::{ChangesRequest, image};
use crate::feed::PageSize;
use crate::partition::PhysicalPartition;
use crate::scope::Scope;
use crate::storage_error::storage;
use crate::{Container, Engine};

/// Changes on their way to a client.
pub(super) struct Page {
    size: PageSize,
    pub(super) changes: Vec<Bytes>,
    pub(super) bytes: usize,
    /// Whether there is more than was taken.
    pub(super) cut_short: bool,
    /// The partitions that were read, and how far each was then.
    pub(super) seen: Vec<(u32, Lsn)>,
    /// Items read from the store.
    pub(super) loaded: usize,
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
            loaded: 0,
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

/// An entry that the request wants.
struct Wanted<'s> {
    lsn: Lsn,
    item_key: &'s [u8],
}

/// Entries read at once, at least and at most.
const ROWS: (usize, usize) = (32, 1000);

impl Reader<'_> {
    /// Fills a page and moves the position behind what it took.
    pub(super) fn read(
        &self,
        range: &KeyRange,
        position: &mut Position,
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
        position: &Position,
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
        let mut reached = least;
        let mut rows = (page.size.items + 1).clamp(ROWS.0, ROWS.1);
        loop {
            let entries = scan(&*snapshot, key::feed_after(reached), rows)?;
            let at_end = entries.len() < rows;
            let whole = if at_end { &entries[..] } else { whole_commits(&entries) };
            if whole.is_empty() && !at_end {
                // One commit is larger than the step.
                rows *= 4;
                continue;
            }
            page.examined += whole.len();
            let commits = self.render(&*snapshot, part, position, whole, page)?;
            for (lsn, changes) in commits {
                if !page.take(changes) {
                    page.cut_short = true;
                    return Ok(Lsn(lsn.0 - 1));
                }
            }
            if at_end {
                return Ok(end);
            }
            reached = whole.last().and_then(|e| key::parse_feed(&e.key)).ok_or_else(corrupt)?.0;
            if page.is_full() {
                page.cut_short = true;
                return Ok(reached);
            }
        }
    }

    /// The changes that the request wants of some entries, commit by commit.
    fn render(
        &self,
        snapshot: &dyn Snapshot,
        part: &KeyRange,
        position: &Position,
        entries: &[Entry],
        page: &mut Page,
    ) -> Result<Vec<(Lsn, Vec<Bytes>)>> {
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        for entry in entries {
            let (lsn, _) = key::parse_feed(&entry.key).ok_or_else(corrupt)?;
            let item_key = &entry.value.bytes[..];
            let place = key::parse_item(item_key).ok_or_else(corrupt)?;
            if self.wants(part, &place) && lsn > position.lsn_at(&place.effective) {
                wanted.push(Wanted { lsn, item_key });
            }
        }
        let keys: Vec<&[u8]> = wanted.iter().map(|w| w.item_key).collect();
        let items = snapshot.get_many(Space::Items, &keys).map_err(storage)?;
        page.loaded += items.len();
        let mut commits: Vec<(Lsn, Vec<Bytes>)> = Vec::new();
        for (Wanted { lsn, .. }, item) in wanted.iter().zip(items) {
            let item = item.ok_or_else(|| Error::internal("a feed entry leads to no item"))?;
            let (header, text) = record::decode(&item.bytes).map_err(storage)?;
            let early = self.request.since_s.is_some_and(|since_s| header.ts_s < since_s);
            if early || self.engine.is_expired(self.container, &header) {
                continue;
            }
            let change = image::latest(self.request.shape, text, *lsn, header.ts_s)?;
            match commits.last_mut().filter(|(last, _)| last == lsn) {
                Some((_, changes)) => changes.push(change),
                None => commits.push((*lsn, vec![change])),
            }
        }
        Ok(commits)
    }

    fn wants(&self, part: &KeyRange, place: &key::ItemKey<'_>) -> bool {
        let named = |k: &orrery_types::PartitionKey| k.to_canonical() == place.partition;
        part.contains(&place.effective) && self.scope.partition_key.as_ref().is_none_or(named)
    }

    fn snapshot(&self, partition: &PhysicalPartition) -> Result<Box<dyn Snapshot + '_>> {
        self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)
    }

    /// An LSN of a partition after which everything written at a second or later lies. Times rise
    /// with LSNs, but for writes that waited and clocks that were set; hence the slack.
    pub(super) fn start_of(&self, partition: &PhysicalPartition, since_s: u64) -> Result<Lsn> {
        let snapshot = self.snapshot(partition)?;
        let since_s = since_s.saturating_sub(limits::FEED_CLOCK_SLACK_S);
        let (mut low, mut high) = (0, snapshot.lsn().0);
        // Everything up to `low` is too early; nothing after `high` is.
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = scan(&*snapshot, key::feed_after(Lsn(middle)), 1)?.pop();
            let Some(entry) = entry else {
                high = middle;
                continue;
            };
            let (lsn, _) = key::parse_feed(&entry.key).ok_or_else(corrupt)?;
            let item = snapshot.get(Space::Items, &entry.value.bytes).map_err(storage)?;
            let item = item.ok_or_else(corrupt)?;
            let (header, _) = record::decode(&item.bytes).map_err(storage)?;
            if header.ts_s < since_s {
                low = lsn.0;
            } else {
                high = middle;
            }
        }
        Ok(Lsn(low.min(snapshot.lsn().0)))
    }
}

fn scan(snapshot: &dyn Snapshot, bounds: key::Bounds, rows: usize) -> Result<Vec<Entry>> {
    let scan = Scan {
        space: Space::Feed,
        from: &bounds.from,
        to: &bounds.to,
        reverse: false,
        max_rows: rows,
        max_bytes: usize::MAX,
        keys_only: false,
    };
    snapshot.scan(&scan).map_err(storage)
}

/// The entries without the last commit's, of which the rest may still be to come.
fn whole_commits(entries: &[Entry]) -> &[Entry] {
    let commit = |e: &Entry| key::parse_feed(&e.key).map(|(lsn, _)| lsn);
    let Some(last) = entries.last().map(commit) else { return entries };
    let whole = entries.iter().take_while(|e| commit(e) != last).count();
    &entries[..whole]
}

fn corrupt() -> Error {
    Error::internal("an entry of the feed is corrupt")
}
