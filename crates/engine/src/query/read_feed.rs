//! Reading items page by page, over all or part of a container.

use bytes::Bytes;
use orrery_query::PageLimits;
use orrery_storage::{Entry, ReadAt, Scan, Space, key, record};
use orrery_types::budget::ITEM_READS;
use orrery_types::{
    CancellationToken, EffectiveKey, Error, ExecutionBudget, KeyRange, Lsn, Result, limits,
};

use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::partition::scope::Scope;
use crate::query::Queries;
use crate::query::continuation;
use crate::query::feed_page::read_item_ranges;
use crate::throughput::charge;
use crate::{Container, Engine};

/// How much a page may hold.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    /// Items.
    pub items: usize,
}

impl PageSize {
    /// From the header: absent or 0 means the default, `-1` leaves it to the server.
    pub fn from_header(max_item_count: Option<i64>) -> Result<Self> {
        let items = match max_item_count {
            None | Some(0) => limits::PAGE_ITEMS_DEFAULT,
            Some(-1) => limits::PAGE_ITEMS_MAX,
            Some(n) => usize::try_from(n).map_err(|_| {
                Error::invalid(format!("The max item count must be -1, 0 or positive; it is {n}."))
            })?,
        };
        Ok(Self { items })
    }

    pub(crate) fn limits(self) -> PageLimits {
        PageLimits { rows_max: self.items, ..PageLimits::default() }
    }
}

/// A page of a feed of items.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ItemPage {
    pub items: Vec<Bytes>,
    pub continuation: Option<String>,
    pub session_token: String,
    pub charge: f64,
}

impl Queries<'_> {
    /// A page of items, from the beginning or where the last page ended.
    pub fn read_items(
        self,
        container: &Container,
        scope: &Scope,
        size: PageSize,
        continuation: Option<&str>,
    ) -> Result<ItemPage> {
        self.read_items_until(container, scope, size, continuation, None)
    }

    /// The same, ended by a cancellation token.
    pub fn read_items_until(
        self,
        container: &Container,
        scope: &Scope,
        size: PageSize,
        continuation: Option<&str>,
        cancellation: Option<&CancellationToken>,
    ) -> Result<ItemPage> {
        let budget = &self.page_budget(cancellation);
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            self.read_items_in(now, scope, size, continuation, budget)
        })
    }

    fn read_items_in(
        self,
        container: &Container,
        scope: &Scope,
        size: PageSize,
        continuation: Option<&str>,
        budget: &ExecutionBudget<'_>,
    ) -> Result<ItemPage> {
        let owner = format!("items {} {}", container.rid(), scope.logical_partition());
        let state = continuation.map(|t| continuation::decode(&owner, t)).transpose()?;
        match state {
            // A token of an earlier version: its feed goes on in the order of keys.
            Some(last) if key::parse_item(&last).is_some() => {
                read_items_by_key(self.engine, container, scope, size, last, &owner, budget)
            }
            state => read_item_ranges(self.engine, container, scope, size, state, &owner, budget),
        }
    }
}

/// A page in the order of keys, behind an item key.
fn read_items_by_key(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    size: PageSize,
    last: Vec<u8>,
    owner: &str,
    budget: &ExecutionBudget<'_>,
) -> Result<ItemPage> {
    let mut cursor = ItemCursor::new(engine, container, scope, Some(last), budget)?;
    let mut items: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    let mut more = false;
    while let Some(item) = cursor.next()? {
        let full = items.len() >= size.items
            || (!items.is_empty() && bytes + item.body.len() > limits::PAGE_SIZE_BYTES_MAX);
        if full {
            more = true;
            break;
        }
        bytes += item.body.len();
        items.push(item.body);
        cursor.taken(item.key);
    }
    let continuation = more.then(|| continuation::encode(owner, cursor.last()));
    let charge = charge::feed(items.iter().map(Bytes::len));
    Ok(ItemPage { items, continuation, session_token: cursor.session_token(), charge })
}

/// One stored item on the way through a feed.
pub(crate) struct FeedItem {
    pub(crate) key: Vec<u8>,
    pub(crate) row: u64,
    pub(crate) body: Bytes,
}

/// Walks over the items of a scope. Reads in batches, partition by partition; never holds a
/// snapshot beyond a batch.
pub(crate) struct ItemCursor<'e> {
    engine: &'e Engine,
    container: &'e Container,
    budget: &'e ExecutionBudget<'e>,
    scope: Scope,
    from: Vec<u8>,
    last: Vec<u8>,
    batch: std::vec::IntoIter<Entry>,
    partition: Option<&'e PhysicalPartition>,
    seen: Vec<(u32, Lsn)>,
    rows: usize,
    /// Items read from the store so far.
    pub(crate) loaded: usize,
    /// And their bytes.
    pub(crate) loaded_bytes: u64,
}

impl<'e> ItemCursor<'e> {
    /// A cursor after the item key `resume`, or at the beginning.
    pub(crate) fn new(
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
        resume: Option<Vec<u8>>,
        budget: &'e ExecutionBudget<'e>,
    ) -> Result<Self> {
        let invalid = || Error::invalid("Invalid Continuation Token");
        let (from, place) = match &resume {
            Some(last) => {
                let place = key::parse_item(last).ok_or_else(invalid)?;
                (key::after(last), Some(place.effective))
            }
            None => (Vec::new(), None),
        };
        let partition = first_partition(container, scope, place.as_ref())?;
        let mut cursor = Self::starting(engine, container, scope, from, partition, budget);
        cursor.last = resume.unwrap_or_default();
        Ok(cursor)
    }

    /// A cursor at an item key itself.
    pub(crate) fn at(
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
        key: &[u8],
        budget: &'e ExecutionBudget<'e>,
    ) -> Result<Self> {
        let place =
            key::parse_item(key).ok_or_else(|| Error::invalid("Invalid Continuation Token"))?;
        let partition = first_partition(container, scope, Some(&place.effective))?;
        Ok(Self::starting(engine, container, scope, key.to_vec(), partition, budget))
    }

    fn starting(
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
        from: Vec<u8>,
        partition: Option<&'e PhysicalPartition>,
        budget: &'e ExecutionBudget<'e>,
    ) -> Self {
        Self {
            engine,
            container,
            budget,
            scope: scope.clone(),
            from,
            last: Vec::new(),
            batch: Vec::new().into_iter(),
            partition,
            seen: Vec::new(),
            rows: FIRST_BATCH,
            loaded: 0,
            loaded_bytes: 0,
        }
    }

    /// The next item that is to be seen.
    pub(crate) fn next(&mut self) -> Result<Option<FeedItem>> {
        loop {
            for entry in self.batch.by_ref() {
                self.budget.read(ITEM_READS)?;
                self.loaded += 1;
                self.loaded_bytes += entry.value.bytes.len() as u64;
                let (header, _) = record::decode(&entry.value.bytes).map_err(storage)?;
                let version = entry.value.version;
                if self.engine.items().is_hidden(self.container, &entry.key, version, &header) {
                    continue;
                }
                let body = entry.value.bytes.slice(record::BODY_AT..);
                return Ok(Some(FeedItem { key: entry.key, row: header.row.0, body }));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Marks an item as delivered: the place to go on is behind it.
    pub(crate) fn taken(&mut self, key: Vec<u8>) {
        self.last = key;
    }

    /// The last item that was delivered.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// What a session has seen after this walk.
    pub(crate) fn session_token(&self) -> String {
        let tokens: Vec<String> =
            self.seen.iter().map(|(id, lsn)| self.container.token(*id, *lsn)).collect();
        tokens.join(",")
    }

    /// Loads the next batch; false at the end of the scope.
    fn fill(&mut self) -> Result<bool> {
        while let Some(partition) = self.partition {
            let Some(bounds) = self.bounds(partition) else {
                self.partition = None;
                return Ok(false);
            };
            let from = bounds.from.max(std::mem::take(&mut self.from));
            let store = &self.engine.store;
            let snapshot = store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            self.saw(partition.id, snapshot.lsn());
            let scan = Scan {
                space: Space::Items,
                from: &from,
                to: &bounds.to,
                reverse: false,
                max_rows: self.rows,
                max_bytes: limits::PAGE_SIZE_BYTES_MAX,
                keys_only: false,
            };
            let entries = snapshot.scan(&scan).map_err(storage)?;
            self.rows = (self.rows * 4).min(limits::PAGE_ITEMS_MAX);
            if let Some(last) = entries.last() {
                self.from = key::after(&last.key);
                self.batch = entries.into_iter();
                return Ok(true);
            }
            self.partition = self.following(partition);
        }
        Ok(false)
    }

    /// The keys of the scope that lie in a partition.
    fn bounds(&self, partition: &PhysicalPartition) -> Option<key::Bounds> {
        let range: KeyRange = self.scope.range.as_ref()?.intersect(&partition.range)?;
        Some(match &self.scope.partition_key {
            Some(partition_key) => {
                let definition = &self.container.definition.partition_key;
                key::items_of(&definition.effective(partition_key), partition_key)
            }
            None => key::items_in(&range),
        })
    }

    fn following(&self, partition: &PhysicalPartition) -> Option<&'e PhysicalPartition> {
        self.container.partitions.iter().find(|p| p.range.min >= partition.range.max)
    }

    fn saw(&mut self, id: u32, lsn: Lsn) {
        match self.seen.iter_mut().find(|(seen, _)| *seen == id) {
            Some((_, at)) => *at = lsn.max(*at),
            None => self.seen.push((id, lsn)),
        }
    }
}

/// The partition to begin with, at a place or at the beginning of the scope, whichever is later: a
/// place in a partition that was split lies in one of the children, and the other is read too.
fn first_partition<'c>(
    container: &'c Container,
    scope: &Scope,
    place: Option<&EffectiveKey>,
) -> Result<Option<&'c PhysicalPartition>> {
    let Some(range) = &scope.range else { return Ok(None) };
    let at = place.map_or(&range.min, |place| place.max(&range.min));
    container.partition_of(at).map(Some)
}

/// Most feeds are short or stop early: the first batch is small, later ones grow.
const FIRST_BATCH: usize = 101;
