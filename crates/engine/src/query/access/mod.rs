//! From a plan to items: opens the access path in every partition that the query reads, and loads items in
//! batches. `index_facts` gives the planner its facts about the index; `rows` reads items by row, `sorted_scope` a small
//! part of a partition by row, `keys` by key, `points` the items that the filter names, `ordered` by value; `index_only` answers without items.

pub(crate) mod cardinality;
pub(crate) mod index_facts;
pub(crate) mod index_only;
pub(crate) mod keys;
pub(crate) mod ordered;
pub(crate) mod points;
pub(crate) mod prefetched;
pub(crate) mod rows;
pub(crate) mod sorted_scope;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use orrery_index::postings::{CollectedRows, Intersection, RowList, Rows, Union};
use orrery_index::{IndexStep, ValueRange};
use orrery_query::plan::access::{RowSet, TermSet};
use orrery_query::{RequiredMembers, SourceItem};
use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{Scan, Snapshot, Space, Store, Value as Stored, record};
use orrery_types::budget::ITEM_READS;
use orrery_types::{
    Error, ExecutionBudget, Lsn, Object, Reservation, Result, ShardId, Value, limits,
};

use crate::background::erasure::{Erasures, Pending};
use crate::error::{read, storage};
use crate::partition::PhysicalPartition;
use crate::partition::scope::Scope;
use crate::query::times::add_time;
use crate::{Container, Engine};
use prefetched::PrefetchedPostings;

/// The partitions that a query reads, each as of one moment.
pub(crate) struct Shards<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) container: &'e Container,
    /// What the query may use.
    pub(crate) budget: &'e ExecutionBudget<'e>,
    pub(crate) list: Vec<Shard<'e>>,
    pub(crate) taken: ReadCounters,
    /// Erasures that were not done when the snapshots were taken: just before, and just after.
    erasures: [Pending; 2],
    /// What the query needs of each item, as soon as it has a plan.
    members: OnceCell<RequiredMembers>,
}

/// One partition.
pub(crate) struct Shard<'e> {
    pub(crate) partition: &'e PhysicalPartition,
    pub(crate) snapshot: Box<dyn Snapshot + 'e>,
    pub(crate) budget: &'e ExecutionBudget<'e>,
    /// The item keys of the scope.
    pub(crate) bounds: Bounds,
    /// Whether those are all keys of the partition.
    is_whole: bool,
}

/// A partition that is to be opened.
struct Wanted<'e> {
    partition: &'e PhysicalPartition,
    bounds: Bounds,
    is_whole: bool,
}

fn wanted<'e>(container: &'e Container, scope: &Scope) -> Vec<Wanted<'e>> {
    let definition = &container.definition.partition_key;
    let part = |partition: &'e PhysicalPartition| {
        let range = scope.range.as_ref()?.intersect(&partition.range)?;
        let bounds = match &scope.partition_key {
            Some(key) => key::items_of(&definition.effective(key), key),
            None => key::items_in(&range),
        };
        let is_whole = scope.partition_key.is_none() && range == partition.range;
        Some(Wanted { partition, bounds, is_whole })
    };
    container.partitions.iter().filter_map(part).collect()
}

/// What was read from the store.
#[derive(Default)]
pub(crate) struct ReadCounters {
    pub(crate) entries: Cell<u64>,
    pub(crate) items: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
    /// Time that the source of items took.
    pub(crate) source_time: Cell<Duration>,
    /// What of it loading items took.
    pub(crate) load_time: Cell<Duration>,
}

impl ReadCounters {
    pub(crate) fn add(cell: &Cell<u64>, n: u64) {
        cell.set(cell.get() + n);
    }
}

impl<'e> Shards<'e> {
    /// The partitions that have a part of the scope.
    pub(crate) fn open(
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
        budget: &'e ExecutionBudget<'e>,
    ) -> Result<Self> {
        let mut one = Self::open_together(engine, &[(container, scope)], budget)?;
        one.pop().ok_or_else(|| Error::internal("one container was asked for"))
    }

    /// The same for several containers, all as of one moment.
    pub(crate) fn open_together(
        engine: &'e Engine,
        parts: &[(&'e Container, &Scope)],
        budget: &'e ExecutionBudget<'e>,
    ) -> Result<Vec<Self>> {
        let before: Vec<Pending> = parts.iter().map(|(c, _)| c.erasures.pending()).collect();
        let wanted: Vec<Vec<Wanted<'e>>> = parts.iter().map(|(c, s)| wanted(c, s)).collect();
        let shards: Vec<ShardId> = wanted.iter().flatten().map(|w| w.partition.shard).collect();
        let mut snapshots = engine.store.snapshots(&shards).map_err(storage)?.into_iter();
        let mut opened = Vec::with_capacity(parts.len());
        for (((container, _), before), wanted) in parts.iter().zip(before).zip(wanted) {
            let list = wanted.into_iter().zip(snapshots.by_ref()).map(|(wanted, snapshot)| {
                let Wanted { partition, bounds, is_whole } = wanted;
                Shard { partition, snapshot, budget, bounds, is_whole }
            });
            opened.push(Self {
                engine,
                container,
                budget,
                list: list.collect(),
                taken: ReadCounters::default(),
                erasures: [before, container.erasures.pending()],
                members: OnceCell::new(),
            });
        }
        Ok(opened)
    }

    /// Has only those parts of items parsed that the query needs; before any of them is loaded.
    pub(crate) fn need(&self, members: RequiredMembers) -> Result<()> {
        self.members.set(members).map_err(|_| Error::internal("a query was planned twice"))
    }

    pub(crate) fn members(&self) -> &RequiredMembers {
        self.members.get_or_init(RequiredMembers::default)
    }

    /// The partition that holds an item key, if it is read.
    pub(crate) fn shard_of(&self, item_key: &[u8]) -> Result<Option<&Shard<'e>>> {
        let place = key::parse_item(item_key).ok_or_else(|| Error::internal("no item key"))?;
        let holds = |shard: &&Shard<'_>| shard.partition.range.contains(&place.effective);
        Ok(self.list.iter().find(holds))
    }

    /// Items by key, in the order of the keys; `None` for what does not exist or is hidden. Their memory
    /// is added to what `held` holds.
    pub(crate) fn by_keys(
        &self,
        keys: &[Vec<u8>],
        held: &mut Reservation<'_>,
    ) -> Result<Vec<Option<SourceItem>>> {
        let mut found: Vec<Option<SourceItem>> = vec![None; keys.len()];
        let mut by_shard: BTreeMap<u32, (&Shard<'e>, Vec<usize>)> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            if let Some(shard) = self.shard_of(key)?
                && shard.bounds.from <= *key
                && *key < shard.bounds.to
            {
                by_shard.entry(shard.partition.id).or_insert((shard, vec![])).1.push(at);
            }
        }
        for (shard, places) in by_shard.into_values() {
            let mut places = &places[..];
            while !places.is_empty() {
                let (batch, rest) = places.split_at(self.batch(places.len()));
                places = rest;
                let before = self.taken.bytes.get();
                let wanted: Vec<&[u8]> = batch.iter().map(|at| &*keys[*at]).collect();
                let records = shard.snapshot.get_many(Space::Items, &wanted).map_err(storage)?;
                self.budget.read(batch.len() as u64)?;
                for (at, record) in batch.iter().zip(records) {
                    if let Some(record) = record {
                        found[*at] = self.item(keys[*at].clone(), &record)?;
                    }
                }
                held.add(self.loaded_since(before))?;
            }
        }
        Ok(found)
    }

    /// What a session has seen after this read.
    pub(crate) fn session_token(&self) -> String {
        let token = |shard: &Shard<'_>| {
            let lsn: Lsn = shard.snapshot.lsn();
            self.container.token(shard.partition.id, lsn)
        };
        self.list.iter().map(token).collect::<Vec<_>>().join(",")
    }

    /// Whether the snapshots hold items that were deleted.
    pub(crate) fn hide_any(&self) -> bool {
        self.erasures.iter().any(|pending| !pending.is_empty())
    }

    /// Whether the partitions are read in full.
    pub(crate) fn are_whole(&self) -> bool {
        self.list.iter().all(|shard| shard.is_whole)
    }

    /// Whether the index of every partition is what the container's definition says.
    pub(crate) fn are_indexed(&self) -> bool {
        self.list.iter().all(|shard| shard.snapshot.epoch() == shard.partition.epoch)
    }

    /// How many of the items that are wanted are loaded at once, so that they fit into memory whatever
    /// their size: by the size of those before.
    pub(crate) fn batch(&self, wanted: usize) -> usize {
        let (items, bytes) = (self.taken.items.get(), self.taken.bytes.get());
        let room = match bytes.checked_div(items) {
            None => limits::QUERY_FIRST_BATCH_MAX,
            Some(size) => {
                let room = limits::QUERY_BATCH_BYTES_MAX.checked_div(size).unwrap_or(u64::MAX);
                usize::try_from(room).unwrap_or(usize::MAX)
            }
        };
        wanted.min(room).max(1)
    }

    /// Memory of the items that were loaded since so many bytes had been read, roughly: a value takes
    /// about twice the bytes of its text.
    pub(crate) fn loaded_since(&self, bytes: u64) -> usize {
        let read = self.taken.bytes.get().saturating_sub(bytes);
        usize::try_from(read).unwrap_or(usize::MAX).saturating_mul(2)
    }

    /// Items by row, in the order of the rows, without those that are out of scope or expired.
    pub(crate) fn load(&self, shard: &Shard<'_>, rows: &[Row]) -> Result<Vec<SourceItem>> {
        self.load_keys(shard, shard.keys_of(rows)?)
    }

    /// Items by the keys that rows lead to, in the order of the keys given.
    fn load_keys(&self, shard: &Shard<'_>, keys: Vec<Bytes>) -> Result<Vec<SourceItem>> {
        let item_keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let records =
            add_time(&self.taken.load_time, || shard.snapshot.get_many(Space::Items, &item_keys));
        let records = records.map_err(storage)?;
        let mut items = Vec::with_capacity(records.len());
        for (key, record) in keys.into_iter().zip(records) {
            // A row leads to its item in the same snapshot.
            let Some(record) = record else {
                return Err(Error::internal("a row number leads to no item"));
            };
            items.extend(self.item(key.into(), &record)?);
        }
        Ok(items)
    }

    /// A stored item, unless it has expired or was erased.
    pub(crate) fn item(&self, key: Vec<u8>, stored: &Stored) -> Result<Option<SourceItem>> {
        self.budget.read(ITEM_READS)?;
        ReadCounters::add(&self.taken.items, 1);
        ReadCounters::add(&self.taken.bytes, stored.bytes.len() as u64);
        let (header, _) = record::decode(&stored.bytes).map_err(storage)?;
        let erased = self.erasures.iter().any(|e| Erasures::hide_in(e, &key, stored.version));
        if erased || self.engine.items().is_hidden(self.container, &key, stored.version, &header) {
            return Ok(None);
        }
        let body = stored.bytes.slice(record::BODY_AT..);
        source_item(self.members(), key, header.row.0, body).map(Some)
    }
}

impl Shard<'_> {
    /// The keys of items by row, in the order of the rows, without rows that lead to none in the scope.
    fn keys_of(&self, rows: &[Row]) -> Result<Vec<Bytes>> {
        let mut keys = keys_of(&*self.snapshot, rows)?;
        keys.retain(|key| self.holds(key));
        Ok(keys)
    }

    /// Whether an item key lies in the scope.
    fn holds(&self, item_key: &[u8]) -> bool {
        *self.bounds.from <= *item_key && *item_key < *self.bounds.to
    }

    /// Where the terms of a path begin; `None` if no item here ever had it.
    pub(crate) fn head(&self, store: &dyn Store, path: &[IndexStep]) -> Result<Option<Vec<u8>>> {
        let id = self.partition.path_id(store, path)?;
        Ok(id.map(|id| key::terms_of(id).from))
    }

    /// The least row that an item of this partition can have.
    fn first_row(&self) -> Row {
        let ids = self.partition.parents.iter().chain([&self.partition.id]);
        Row(u64::from(ids.min().copied().unwrap_or_default()) << crate::partition::ROW_BITS)
    }

    /// The rows of a set; `None` if they are too many to be brought into order.
    pub(crate) fn rows<'s>(
        &'s self,
        store: &dyn Store,
        set: &RowSet,
        prefetched: &PrefetchedPostings<'s>,
    ) -> Result<Option<Rows<'s>>> {
        match set {
            RowSet::Terms(terms) => self.terms(store, terms, prefetched),
            RowSet::And(list) => {
                let mut lists = Vec::new();
                for part in list {
                    lists.extend(self.rows(store, part, prefetched)?);
                }
                // Leaving a list out gives more rows, which the filter drops; but not all of them.
                let exact = lists.len() == list.len();
                Ok(exact.then(|| Box::new(Intersection::new(lists, self.budget)) as Rows<'s>))
            }
            RowSet::Or(list) => {
                let mut lists = Vec::new();
                for part in list {
                    let Some(rows) = self.rows(store, part, prefetched)? else { return Ok(None) };
                    lists.push(rows);
                }
                Ok(Some(Box::new(Union::new(lists))))
            }
        }
    }

    fn terms<'s>(
        &'s self,
        store: &dyn Store,
        terms: &TermSet,
        prefetched: &PrefetchedPostings<'s>,
    ) -> Result<Option<Rows<'s>>> {
        let snapshot = &*self.snapshot;
        let Some(head) = self.head(store, &terms.path)? else {
            return Ok(Some(Box::new(RowList::default())));
        };
        let mut lists: Vec<Rows<'s>> = Vec::new();
        let mut gathered = CollectedRows::new(self.budget);
        for range in &terms.ranges {
            let bounds = within(&head, range);
            if range.codes().single {
                lists.push(Box::new(prefetched.take(self, bounds.from)));
                continue;
            }
            let rows_max = limits::QUERY_ROWS_GATHERED_MAX;
            let all = gathered.add_range(snapshot, &bounds, rows_max, self.budget).map_err(read)?;
            if !all {
                return Ok(None);
            }
        }
        if !gathered.rows().is_empty() {
            lists.push(Box::new(RowList::new(gathered)));
        }
        Ok(Some(match lists.len() {
            1 => lists.remove(0),
            _ => Box::new(Union::new(lists)),
        }))
    }
}

/// Fewer rows than these are looked up one by one.
const SCANNED_ROWS_MIN: usize = 8;
/// Rows that lie so close together are found by reading all that lie between.
const SPARSE_ROWS: u64 = 4;

/// The keys of items by row, in the order of the rows, without rows that have no item.
fn keys_of(snapshot: &dyn Snapshot, rows: &[Row]) -> Result<Vec<Bytes>> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(vec![]) };
    let between = last.0.saturating_sub(first.0);
    let is_sorted = rows.is_sorted();
    let are_many = rows.len() >= SCANNED_ROWS_MIN;
    if are_many && is_sorted && between < SPARSE_ROWS * rows.len() as u64 {
        let (from, to) = (key::row(*first), key::row(Row(last.0.saturating_add(1))));
        let (space, reverse, keys_only) = (Space::Items, false, false);
        let (max_rows, max_bytes) = (usize::MAX, usize::MAX);
        let scan = Scan { space, from: &from, to: &to, reverse, max_rows, max_bytes, keys_only };
        let entries = snapshot.scan(&scan).map_err(storage)?;
        let mut wanted = rows.iter().map(|row| key::row(*row)).peekable();
        let mut keys = Vec::with_capacity(rows.len());
        for entry in entries {
            while wanted.next_if(|row| row[..] < entry.key[..]).is_some() {}
            if wanted.next_if(|row| row[..] == entry.key[..]).is_some() {
                keys.push(entry.value.bytes);
            }
        }
        return Ok(keys);
    }
    let row_keys: Vec<[u8; 9]> = rows.iter().map(|row| key::row(*row)).collect();
    let row_keys: Vec<&[u8]> = row_keys.iter().map(|key| &key[..]).collect();
    let found = snapshot.get_many(Space::Items, &row_keys).map_err(storage)?;
    Ok(found.into_iter().flatten().map(|value| value.bytes).collect())
}

/// An item as the query needs it.
pub(crate) fn source_item(
    members: &RequiredMembers,
    key: Vec<u8>,
    row: u64,
    body: Bytes,
) -> Result<SourceItem> {
    let value = match &members.names {
        Some(names) if names.is_empty() => Ok(Value::object(Object::new())),
        Some(names) => Value::parse_members(&body, names),
        None => Value::parse(&body),
    };
    let value = value.map_err(|e| Error::internal(format!("a stored item: {e}")))?;
    let text = members.texts.then_some(body);
    Ok(SourceItem { value, text, row, key: key.into() })
}

/// The keys of a range behind the head of a path.
pub(crate) fn within(head: &[u8], range: &ValueRange) -> Bounds {
    let codes = range.codes().bounds;
    Bounds { from: [head, &codes.from].concat(), to: [head, &codes.to].concat() }
}
