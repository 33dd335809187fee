//! Items by value: a walk along an index in every partition, merged. Arrays, objects and long
//! strings share index entries that do not tell their order; where the walk meets such a group, it
//! loads the items' keys and sorts them.

use std::cmp::Ordering;
use std::collections::VecDeque;

use orrery_index::postings::{Difference, Postings, RowList, Rows, Union, collect_rows};
use orrery_index::range::{ValueCursor, ValueEntry};
use orrery_index::{CompositeIndex, IndexStep, Span, shapes};
use orrery_query::ast::Direction;
use orrery_query::plan::access::{OrderedAccess, OrderedIndex};
use orrery_query::plan::condition::ItemPath;
use orrery_query::{ItemSource, Place, SortValue, SourceItem};
use orrery_storage::key::{self, Bounds, Row, ShapeId};
use orrery_storage::term::{TermValue, decode_component, encode_component, is_whole};
use orrery_types::{Error, Result, Value, limits};

use super::prefetched::OpenLists;
use super::{Shard, Shards, Taken, within};
use crate::Container;
use crate::error::storage;
use crate::query::memory::Reservation;

/// An item's place in the order.
#[derive(Clone, Debug)]
struct Ranked {
    keys: Vec<SortValue>,
    row: Row,
}

impl Ranked {
    /// An item without the key.
    fn lacking(row: Row) -> Self {
        Self { keys: vec![SortValue::Scalar(Value::Undefined)], row }
    }
}

/// The items of an ordered access.
pub(crate) struct OrderedSource<'s, 'e> {
    shards: &'s Shards<'e>,
    access: &'s OrderedAccess,
    walks: Option<Vec<Walk<'s, 'e>>>,
    place: Option<Ranked>,
}

impl<'s, 'e> OrderedSource<'s, 'e> {
    pub(crate) fn new(shards: &'s Shards<'e>, access: &'s OrderedAccess) -> Self {
        Self { shards, access, walks: None, place: None }
    }

    fn walks(&mut self) -> Result<&mut Vec<Walk<'s, 'e>>> {
        if self.walks.is_none() {
            let open = |shard| Walk::open(self.shards, shard, self.access, self.place.clone());
            self.walks = Some(self.shards.list.iter().map(open).collect::<Result<_>>()?);
        }
        self.walks.as_mut().ok_or_else(|| Error::internal("no walk was opened"))
    }

    /// The partition of the next item in the order.
    fn nearest(&mut self) -> Result<Option<usize>> {
        let shape = Shape::of(self.access);
        let walks = self.walks()?;
        if let [only] = walks.as_mut_slice() {
            return Ok(only.peek()?.map(|_| 0));
        }
        let mut best: Option<(usize, Ranked)> = None;
        for (at, walk) in walks.iter_mut().enumerate() {
            let Some(head) = walk.peek()? else { continue };
            if best.as_ref().is_none_or(|(_, b)| shape.compare(head, b).is_lt()) {
                best = Some((at, head.clone()));
            }
        }
        Ok(best.map(|(at, _)| at))
    }

    fn next_rows(&mut self, rows_max: usize) -> Result<Vec<(usize, Row)>> {
        let mut rows = Vec::with_capacity(rows_max);
        while rows.len() < rows_max {
            let Some(at) = self.nearest()? else { break };
            let next = self.walks()?[at].next()?;
            rows.extend(next.map(|ranked| (at, ranked.row)));
        }
        Ok(rows)
    }
}

impl ItemSource for OrderedSource<'_, '_> {
    fn seek(&mut self, place: Place<'_>) -> Result<()> {
        let Place::Values { keys, row } = place else {
            return Err(Error::internal("items come in the order of values"));
        };
        self.place = Some(Ranked { keys: keys.to_vec(), row: Row(row) });
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        loop {
            let rows = self.next_rows(self.shards.batch(items_max))?;
            if rows.is_empty() {
                return Ok(vec![]);
            }
            let mut loaded: Vec<SourceItem> = Vec::with_capacity(rows.len());
            for (at, shard) in self.shards.list.iter().enumerate() {
                let own: Vec<Row> =
                    rows.iter().filter(|(of, _)| *of == at).map(|(_, row)| *row).collect();
                if !own.is_empty() {
                    loaded.extend(self.shards.load(shard, &own)?);
                }
            }
            if self.shards.list.len() > 1 {
                // Each partition's items are in order; together they are not.
                let place = |item: &SourceItem| {
                    rows.iter().position(|(_, row)| row.0 == item.row).unwrap_or(usize::MAX)
                };
                loaded.sort_by_cached_key(place);
            }
            if !loaded.is_empty() {
                return Ok(loaded);
            }
        }
    }
}

/// What orders items: paths of the keys, and their directions.
struct Shape<'a> {
    keys: Vec<(&'a ItemPath, bool)>,
    /// Whether equal keys come by descending rows.
    turned: bool,
}

impl<'a> Shape<'a> {
    fn of(access: &'a OrderedAccess) -> Self {
        let keys: Vec<(&ItemPath, bool)> = match &access.index {
            OrderedIndex::Path { path, .. } => vec![(path, access.reverse)],
            OrderedIndex::Composite { components, keys, .. } => components[keys.clone()]
                .iter()
                .map(|(path, d)| (path, (*d == Direction::Descending) != access.reverse))
                .collect(),
        };
        let turned = keys.first().is_some_and(|(_, descends)| *descends);
        Self { keys, turned }
    }

    fn compare(&self, a: &Ranked, b: &Ranked) -> Ordering {
        let turned = |order: Ordering, turn: bool| if turn { order.reverse() } else { order };
        for ((x, y), (_, descends)) in a.keys.iter().zip(&b.keys).zip(&self.keys) {
            let order = x.cmp(y);
            if order.is_ne() {
                return turned(order, *descends);
            }
        }
        turned(a.row.cmp(&b.row), self.turned)
    }
}

/// The walk in one partition.
struct Walk<'s, 'e> {
    shards: &'s Shards<'e>,
    shard: &'s Shard<'e>,
    access: &'s OrderedAccess,
    shape: Shape<'s>,
    /// Items without the key, if they come first.
    lacking_first: Option<Lacking<'s>>,
    entries: Option<ValueCursor<'s>>,
    /// Items without the key, if they come last; found when their turn has come.
    lacking_last: Option<VecDeque<Row>>,
    is_last_found: bool,
    /// A group that was sorted.
    group: VecDeque<Ranked>,
    ahead: Option<Ranked>,
    only: Option<Vec<Row>>,
    place: Option<Ranked>,
    /// The memory of the largest group.
    reserved: Reservation<'e>,
}

/// Items without a key, by ascending row.
struct Lacking<'s> {
    rows: Rows<'s>,
    next: Row,
}

impl<'s, 'e> Walk<'s, 'e> {
    fn open(
        shards: &'s Shards<'e>,
        shard: &'s Shard<'e>,
        access: &'s OrderedAccess,
        place: Option<Ranked>,
    ) -> Result<Self> {
        let mut walk = Self {
            shards,
            shard,
            access,
            shape: Shape::of(access),
            lacking_first: None,
            entries: None,
            lacking_last: None,
            is_last_found: !access.with_undefined || !access.reverse,
            group: VecDeque::new(),
            ahead: None,
            only: None,
            place,
            reserved: Reservation::of(&shards.engine.query_memory),
        };
        walk.only = walk.only_rows()?;
        walk.open_lacking()?;
        walk.open_entries()?;
        Ok(walk)
    }

    /// The rows that alone count, sorted; `None` if all do, or if they are too many to be kept.
    fn only_rows(&self) -> Result<Option<Vec<Row>>> {
        let Some(set) = &self.access.only else { return Ok(None) };
        let store = &*self.shards.engine.store;
        let Some(mut cursor) = self.shard.rows(store, set, &OpenLists::default())? else {
            return Ok(None);
        };
        let mut rows = Vec::new();
        let mut next = cursor.seek(Row(0)).map_err(storage)?;
        while let Some(row) = next {
            if rows.len() >= limits::QUERY_ROWS_GATHERED_MAX {
                return Ok(None);
            }
            rows.push(row);
            next = cursor.seek(Row(row.0.saturating_add(1))).map_err(storage)?;
        }
        Taken::add(&self.shards.taken.entries, cursor.entries_read());
        Ok(Some(rows))
    }

    fn counts(&self, row: Row) -> bool {
        self.only.as_ref().is_none_or(|rows| rows.binary_search(&row).is_ok())
    }

    /// Whether the place is among the items that lack the key.
    fn place_lacks(&self) -> bool {
        self.place.as_ref().is_some_and(|p| p.keys.first().is_none_or(SortValue::is_undefined))
    }

    fn open_lacking(&mut self) -> Result<()> {
        let OrderedIndex::Path { path, .. } = &self.access.index else { return Ok(()) };
        if !self.access.with_undefined || self.access.reverse {
            return Ok(());
        }
        if self.place.is_some() && !self.place_lacks() {
            return Ok(());
        }
        let next = self.place.as_ref().map_or(Row(0), |place| place.row);
        self.lacking_first = Some(Lacking { rows: self.lacking(path)?, next });
        Ok(())
    }

    /// The rows of items without a value at the path.
    fn lacking(&self, path: &[IndexStep]) -> Result<Rows<'s>> {
        let shard: &'s Shard<'e> = self.shard;
        let snapshot = &*shard.snapshot;
        let id = shard.partition.path_id(&*self.shards.engine.store, path)?;
        let Some(id) = id else { return Ok(Box::new(Postings::all(snapshot))) };
        let having = || -> Result<Rows<'s>> {
            let rows = collect_rows(snapshot, &key::terms_of(id), usize::MAX).map_err(storage)?;
            let rows = rows.unwrap_or_default();
            let read = rows.len() as u64;
            Ok(Box::new(RowList::new(rows, read)))
        };
        if !self.shards.container.index.has_shapes() {
            let all = Box::new(Postings::all(snapshot));
            return Ok(Box::new(Difference::new(all, having()?)));
        }
        let mut lists: Vec<Rows<'s>> = Vec::new();
        for shape in shapes::without(snapshot, id).map_err(storage)? {
            let mut rows: Rows<'s> = Box::new(Postings::of(snapshot, key::shapes_of(shape).from));
            // Items of a shape that is not noted may have the path all the same.
            if shape == ShapeId::ANY {
                if rows.seek(Row(0)).map_err(storage)?.is_none() {
                    continue;
                }
                rows = Box::new(Difference::new(rows, having()?));
            }
            lists.push(rows);
        }
        Ok(Box::new(Union::new(lists)))
    }

    fn open_entries(&mut self) -> Result<()> {
        if self.place_lacks() && self.access.reverse && self.access.with_undefined {
            return Ok(());
        }
        let store = &*self.shards.engine.store;
        let shard: &'s Shard<'e> = self.shard;
        let (head, bounds) = match &self.access.index {
            OrderedIndex::Path { path, span } => {
                let Some(head) = shard.head(store, path)? else { return Ok(()) };
                let bounds = within(&head, span);
                (head, bounds)
            }
            OrderedIndex::Composite { components, fixed, span, .. } => {
                let text = composite_text(self.shards.container, components)
                    .ok_or_else(|| Error::internal("a planned composite index is gone"))?;
                let Some(id) = shard.partition.composite_id(store, &text)? else { return Ok(()) };
                let head = key::composite_prefix(id);
                let bounds = composite_bounds(&head, components, fixed, span.as_ref());
                (head, bounds)
            }
        };
        let bounds = self.behind_place(&head, bounds);
        let cursor = ValueCursor::new(&*shard.snapshot, bounds, head.len(), self.access.reverse);
        self.entries = Some(cursor);
        Ok(())
    }

    /// The directions of the components of an entry's code.
    fn directions(&self) -> Vec<bool> {
        match &self.access.index {
            OrderedIndex::Path { .. } => vec![false],
            OrderedIndex::Composite { components, .. } => {
                components.iter().map(|(_, d)| *d == Direction::Descending).collect()
            }
        }
    }

    /// Where the keys of the order stand among the components.
    fn key_range(&self) -> std::ops::Range<usize> {
        match &self.access.index {
            OrderedIndex::Path { .. } => 0..1,
            OrderedIndex::Composite { keys, .. } => keys.clone(),
        }
    }

    /// The part of the range that lies at or behind the place.
    fn behind_place(&self, head: &[u8], bounds: Bounds) -> Bounds {
        let Some(place) = self.place.as_ref().filter(|_| !self.place_lacks_path()) else {
            return bounds;
        };
        let fixed: &[Value] = match &self.access.index {
            OrderedIndex::Path { .. } => &[],
            OrderedIndex::Composite { fixed, .. } => fixed,
        };
        let (keys, directions) = (self.key_range(), self.directions());
        let mut code = head.to_vec();
        let mut exact = true;
        let turns_ties = self.turns_ties();
        for (at, descending) in directions.iter().enumerate() {
            let value = if at < keys.start {
                fixed.get(at).cloned()
            } else {
                place.keys.get(at - keys.start).map(SortValue::in_index)
            };
            let Some(value) = value else { break };
            encode_component(&value, *descending, &mut code);
            // Behind a fixed value all entries belong together, whatever it was cut from.
            exact &= is_whole(&value) || at < keys.start;
            if !exact {
                break;
            }
        }
        let end = match (exact && !turns_ties, self.access.reverse) {
            (true, _) => {
                code.extend(place.row.0.to_be_bytes());
                if self.access.reverse { key::after(&code) } else { code }
            }
            (false, true) => key::prefix_end(&code),
            (false, false) => code,
        };
        if self.access.reverse {
            Bounds { to: bounds.to.min(end), from: bounds.from }
        } else {
            Bounds { from: bounds.from.max(end), to: bounds.to }
        }
    }

    /// Whether entries of equal keys stand in the other order of rows than items are to come.
    fn turns_ties(&self) -> bool {
        self.access.reverse != self.shape.turned
    }

    /// The place is before all entries of the path: composite entries hold undefined themselves.
    fn place_lacks_path(&self) -> bool {
        matches!(self.access.index, OrderedIndex::Path { .. }) && self.place_lacks()
    }

    fn peek(&mut self) -> Result<Option<&Ranked>> {
        if self.ahead.is_none() {
            self.ahead = self.advance()?;
        }
        Ok(self.ahead.as_ref())
    }

    fn next(&mut self) -> Result<Option<Ranked>> {
        self.peek()?;
        Ok(self.ahead.take())
    }

    fn advance(&mut self) -> Result<Option<Ranked>> {
        loop {
            if let Some(ranked) = self.group.pop_front() {
                return Ok(Some(ranked));
            }
            if let Some(lacking) = &mut self.lacking_first {
                let before = lacking.rows.entries_read();
                let found = lacking.rows.seek(lacking.next).map_err(storage)?;
                Taken::add(&self.shards.taken.entries, lacking.rows.entries_read() - before);
                let Some(row) = found else {
                    self.lacking_first = None;
                    continue;
                };
                lacking.next = Row(row.0.saturating_add(1));
                if self.counts(row) {
                    return Ok(Some(Ranked::lacking(row)));
                }
                continue;
            }
            if let Some(cursor) = &mut self.entries {
                let before = cursor.entries_read();
                let entry = cursor.advance().map_err(storage)?;
                Taken::add(&self.shards.taken.entries, cursor.entries_read() - before);
                match entry {
                    None => self.entries = None,
                    Some(entry) => {
                        if let Some(ranked) = self.entry(&entry)? {
                            return Ok(Some(ranked));
                        }
                    }
                }
                continue;
            }
            return self.next_lacking_last();
        }
    }

    fn next_lacking_last(&mut self) -> Result<Option<Ranked>> {
        if !self.is_last_found {
            self.is_last_found = true;
            self.lacking_last = Some(self.find_lacking_last()?);
        }
        let Some(rows) = &mut self.lacking_last else { return Ok(None) };
        Ok(rows.pop_front().map(Ranked::lacking))
    }

    /// Items without the key by descending row, from the place on.
    fn find_lacking_last(&mut self) -> Result<VecDeque<Row>> {
        let OrderedIndex::Path { path, .. } = &self.access.index else {
            return Ok(VecDeque::new());
        };
        let mut cursor = self.lacking(path)?;
        let until = self.place.as_ref().filter(|_| self.place_lacks()).map(|place| place.row);
        let mut rows = VecDeque::new();
        let mut next = cursor.seek(Row(0)).map_err(storage)?;
        while let Some(row) = next.filter(|row| until.is_none_or(|until| *row <= until)) {
            if self.counts(row) {
                rows.push_front(row);
            }
            next = cursor.seek(Row(row.0.saturating_add(1))).map_err(storage)?;
        }
        Taken::add(&self.shards.taken.entries, cursor.entries_read());
        Ok(rows)
    }

    /// The item of an entry, or nothing if it does not count, or if its group was sorted.
    fn entry(&mut self, entry: &ValueEntry) -> Result<Option<Ranked>> {
        let (keys, directions) = (self.key_range(), self.directions());
        let mut rest = &entry.code[..];
        let mut values = Vec::with_capacity(keys.len());
        for (at, descending) in directions.iter().enumerate() {
            let (value, after) = decode_component(rest, *descending).map_err(storage)?;
            rest = after;
            if !keys.contains(&at) {
                continue;
            }
            match value {
                TermValue::Whole(value) => values.push(SortValue::of(&value)),
                TermValue::Cut(_) | TermValue::Array | TermValue::Object => {
                    let shared = entry.code.len() - rest.len();
                    self.sort_group(entry, shared)?;
                    return Ok(None);
                }
            }
        }
        if self.turns_ties() {
            self.turn_group(entry, &values)?;
            return Ok(None);
        }
        Ok(self.counts(entry.row).then_some(Ranked { keys: values, row: entry.row }))
    }

    /// The rows of all entries that share the first bytes of a code with this one.
    fn gather(&mut self, first: &ValueEntry, shared: usize) -> Result<Vec<Row>> {
        let mut rows = vec![first.row];
        let prefix = first.code.get(..shared).unwrap_or_default();
        if let Some(cursor) = &mut self.entries {
            let before = cursor.entries_read();
            while let Some(next) = cursor.peek().map_err(storage)? {
                if next.code.get(..shared) != Some(prefix) {
                    break;
                }
                rows.push(next.row);
                cursor.advance().map_err(storage)?;
            }
            Taken::add(&self.shards.taken.entries, cursor.entries_read() - before);
        }
        Ok(rows)
    }

    /// Gives the items of equal keys in the other order.
    fn turn_group(&mut self, first: &ValueEntry, keys: &[SortValue]) -> Result<()> {
        let rows = self.gather(first, first.code.len())?;
        let counted = rows.into_iter().filter(|row| self.counts(*row));
        let group = counted.map(|row| Ranked { keys: keys.to_vec(), row }).collect();
        self.give_group(group);
        Ok(())
    }

    fn give_group(&mut self, mut group: Vec<Ranked>) {
        group.sort_by(|a, b| self.shape.compare(a, b));
        if let Some(place) = &self.place {
            group.retain(|ranked| self.shape.compare(ranked, place).is_ge());
        }
        self.group = group.into();
    }

    /// Sorts the items whose entries share the first bytes of a code by what the items have.
    fn sort_group(&mut self, first: &ValueEntry, shared: usize) -> Result<()> {
        let rows = self.gather(first, shared)?;
        let mut group = Vec::new();
        let mut bytes = rows.len() * size_of::<Row>();
        for batch in rows.chunks(limits::QUERY_FIRST_BATCH_MAX) {
            let counted: Vec<Row> = batch.iter().copied().filter(|row| self.counts(*row)).collect();
            for item in self.shards.load(self.shard, &counted)? {
                let key = |(path, _): &(&ItemPath, bool)| SortValue::of(follow(&item.value, path));
                let keys: Vec<SortValue> = self.shape.keys.iter().map(key).collect();
                let keys_bytes: usize = keys.iter().map(SortValue::size_bytes).sum();
                // The list of them grows by doubling.
                bytes += keys_bytes + 2 * size_of::<Ranked>();
                if bytes > limits::QUERY_MEMORY_BYTES_MAX {
                    return Err(Error::Query(TOO_LARGE.into()));
                }
                group.push(Ranked { keys, row: Row(item.row) });
            }
            self.reserved.grow_to(bytes)?;
        }
        self.give_group(group);
        Ok(())
    }
}

const TOO_LARGE: &str = "{\"Errors\":[\"The query exceeded the maximum memory for values that must be sorted. Narrow its filter or use TOP.\"]}";

/// The value at a path of names.
fn follow<'v>(item: &'v Value, path: &[IndexStep]) -> &'v Value {
    path.iter().fold(item, |value, step| match step {
        IndexStep::Property(name) => value.get(name),
        IndexStep::Elements | IndexStep::Tuple(_) => &Value::Undefined,
    })
}

/// The canonical text of the composite index with these components.
fn composite_text(container: &Container, components: &[(ItemPath, Direction)]) -> Option<String> {
    let same = |index: &&CompositeIndex| {
        let own = index.components();
        own.len() == components.len()
            && own.iter().zip(components).all(|(own, (path, direction))| {
                let names = path.iter().map(|step| match step {
                    IndexStep::Property(name) => Some(name),
                    IndexStep::Elements | IndexStep::Tuple(_) => None,
                });
                own.descending == (*direction == Direction::Descending)
                    && names.eq(own.names.iter().map(Some))
            })
    };
    container.index.usable_composites().find(same).map(|index| index.text().to_owned())
}

/// The keys of a composite index with these values first, and then one in the span.
fn composite_bounds(
    head: &[u8],
    components: &[(ItemPath, Direction)],
    fixed: &[Value],
    span: Option<&Span>,
) -> Bounds {
    let mut prefix = head.to_vec();
    for (value, (_, direction)) in fixed.iter().zip(components) {
        encode_component(value, *direction == Direction::Descending, &mut prefix);
    }
    let (Some(span), Some((_, direction))) = (span, components.get(fixed.len())) else {
        return Bounds::prefix(prefix);
    };
    let Bounds { from, to } = span.codes().bounds;
    let (from, to) = match direction {
        Direction::Ascending => (from, to),
        // Turned bytes run the other way; a code that begins like the first one comes last.
        Direction::Descending => (turned(&to), key::prefix_end(&turned(&from))),
    };
    Bounds { from: [&prefix[..], &from].concat(), to: [&prefix[..], &to].concat() }
}

fn turned(code: &[u8]) -> Vec<u8> {
    code.iter().map(|byte| !byte).collect()
}
