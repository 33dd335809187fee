//! Ways that need no condition of the index: all items of the scope, and items that the filter names.
//!
//! Without ORDER BY items come in the order of insertion, which is that of their rows, wherever their order
//! shows and they are not too many.

use orrery_index::IndexStep;
use orrery_index::value_range::ValueRange;
use orrery_types::{KeyComponent, PartitionKey, PropertyPath, Value, limits};

use super::access::{AccessPath, RowSet, ScanPath, SourceOrder, TermSet};
use super::condition::{Condition, ItemPath};
use super::cost::{ENTRY, LOAD, SCANNED, SCANNED_BY_ROW, SEEK, SORTED, count};
use super::{Candidate, Planner, SMALL_PARTITION, key_value};
use crate::analysis::is_same;
use crate::bound::{BoundSelect, List, Node, Order, Slot};

impl Planner<'_> {
    /// All items of the scope.
    pub(super) fn scan(&self, matches: f64, wanted: f64, order: Option<SourceOrder>) -> Candidate {
        let items = count(self.scope_items());
        let share = if matches > 0.0 { (wanted / matches).min(1.0) } else { 1.0 };
        let path = self.scan_path(order);
        // What is paid for the page however short it is, and for all items.
        let (once, all) = match &path {
            ScanPath::Keys => (0.0, items * SCANNED),
            ScanPath::Entries(_) => (0.0, items * SCANNED_BY_ROW),
            // The directory is of all items, in the scope or not.
            ScanPath::Directory => {
                let others = count(self.request.facts.items()) - items;
                (0.0, items * SCANNED_BY_ROW + others.max(0.0) * ENTRY)
            }
            ScanPath::Sorted => (items * SORTED, items * LOAD),
        };
        let cost = SEEK + once + all * share;
        Candidate { access: AccessPath::Scan(path), cost, chosen_order: None }
    }

    /// The way of a scan: by row where a token says so, or where the order of items shows.
    pub(super) fn scan_path(&self, order: Option<SourceOrder>) -> ScanPath {
        let shows_order = self.select.streams()
            || (self.select.distinct
                && self.select.grouping.is_none()
                && matches!(self.select.order, Order::None));
        let facts = self.request.facts;
        match order {
            Some(SourceOrder::Keys) => return ScanPath::Keys,
            Some(SourceOrder::Rows) => {}
            _ if !shows_order => return ScanPath::Keys,
            _ if self.scope_items() > limits::QUERY_ROW_ORDER_ITEMS_MAX => return ScanPath::Keys,
            _ => {}
        }
        if let Some(entries) = self.key_entries() {
            return entries;
        }
        // What is read whole is in memory, and comes in any order.
        if self.request.key.is_some() && facts.count_partition_up_to(SMALL_PARTITION).is_some() {
            return ScanPath::Directory;
        }
        let (all, own) = (count(facts.items()), count(self.scope_items()).max(1.0));
        // A page goes along the part of the directory that has its items, or along all items of the scope.
        let along_directory = count(self.request.rows as u64) * all / own * ENTRY;
        if own < all && own * SORTED < along_directory {
            ScanPath::Sorted
        } else {
            ScanPath::Directory
        }
    }

    /// The entries that all items of the one logical partition have, where the index has some.
    fn key_entries(&self) -> Option<ScanPath> {
        let key = self.request.key?;
        let facts = self.request.facts;
        let term = |(path, component): (&PropertyPath, &KeyComponent)| {
            let steps = path.segments().iter().map(|name| IndexStep::Property(name.clone()));
            let (path, range): (ItemPath, _) =
                (steps.collect(), ValueRange::Point(key_value(component)?));
            let is_usable = facts.is_usable(&path);
            let estimate = if is_usable { facts.estimate(&path, &range) } else { 0 };
            is_usable.then(|| RowSet::Terms(TermSet { path, ranges: vec![range], estimate }))
        };
        let mut terms: Vec<RowSet> =
            self.request.key_paths.iter().zip(&key.0).filter_map(term).collect();
        match terms.len() {
            0 => None,
            1 => terms.pop().map(ScanPath::Entries),
            _ => {
                terms.sort_by_key(RowSet::estimate);
                Some(ScanPath::Entries(RowSet::And(terms)))
            }
        }
    }

    /// Items of the logical partition that the filter names by id.
    pub(super) fn points(&self, order: Option<SourceOrder>) -> Option<Candidate> {
        self.request.key?;
        let id: ItemPath = [IndexStep::Property("id".into())].into();
        let ranges = match &self.filter.condition {
            Condition::Values(values) if values.path == id => Some(&values.ranges),
            Condition::And(list) => list.iter().find_map(|c| match c {
                Condition::Values(values) if values.path == id => Some(&values.ranges),
                _ => None,
            }),
            _ => None,
        }?;
        let name = |range: &ValueRange| match range {
            ValueRange::Point(value) => Some(value.as_str().map(str::to_owned)),
            _ => None,
        };
        // An id is a string; other values match no item.
        let ids: Vec<Option<String>> = ranges.iter().map(name).collect::<Option<_>>()?;
        let mut ids: Vec<String> = ids.into_iter().flatten().collect();
        ids.sort_unstable();
        ids.dedup();
        let cost = count(ids.len() as u64) * SCANNED;
        // All of them are loaded at once, and come in any order.
        let by_row = order != Some(SourceOrder::Keys);
        Some(Candidate { access: AccessPath::Points { ids, by_row }, cost, chosen_order: None })
    }

    /// Items that the filter names by partition key and id.
    pub(super) fn keys(&self, order: Option<SourceOrder>) -> Option<Candidate> {
        let keys = named_keys(self.select, self.query.bound.item_slot, self.request.key_paths)?;
        let cost = SEEK + count(keys.len() as u64) * SCANNED;
        // As many as a page takes are loaded at once, and come in any order; more are loaded in batches,
        // by key.
        let at_once_max = self.request.rows.max(limits::QUERY_FIRST_BATCH_MAX);
        let by_row = match order {
            None | Some(SourceOrder::Values) => keys.len() <= at_once_max,
            Some(order) => order == SourceOrder::Rows,
        };
        Some(Candidate { access: AccessPath::Keys { keys, by_row }, cost, chosen_order: None })
    }

    /// The term that all items of the one logical partition have, and no other.
    pub(super) fn key_term(&self) -> Option<(ItemPath, ValueRange)> {
        let (key, [path]) = (self.request.key?, self.request.key_paths) else { return None };
        let path: ItemPath =
            path.segments().iter().map(|name| IndexStep::Property(name.clone())).collect();
        let value = key.0.first().and_then(key_value)?;
        self.request.facts.is_usable(&path).then_some((path, ValueRange::Point(value)))
    }

    /// Items that a scan would read, roughly.
    pub(super) fn scope_items(&self) -> u64 {
        let facts = self.request.facts;
        match self.key_term() {
            Some((path, range)) => facts.estimate(&path, &range),
            None => facts.scope_items(),
        }
    }
}

/// The keys of all items that the filter lets pass, sorted; `None` if it does not name them.
fn named_keys(
    select: &BoundSelect,
    item: Slot,
    key_paths: &[PropertyPath],
) -> Option<Vec<(PartitionKey, String)>> {
    let filter = select.filter.as_ref()?;
    if key_paths.is_empty() {
        return None;
    }
    let parts = match filter {
        Node::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut keys = parts.iter().find_map(|part| named(part, item, key_paths))?;
    keys.sort_by(|a, b| (a.0.to_canonical(), &a.1).cmp(&(b.0.to_canonical(), &b.1)));
    keys.dedup();
    Some(keys)
}

fn named(
    node: &Node,
    item: Slot,
    key_paths: &[PropertyPath],
) -> Option<Vec<(PartitionKey, String)>> {
    let id = PropertyPath::parse("/id").ok()?;
    let is = |node: &Node, path: &PropertyPath| matches!(node, Node::Path(slot, steps) if *slot == item && is_same(steps, path));
    match node {
        Node::OneOf(one_of) => {
            let place = |path: &PropertyPath| one_of.paths.iter().position(|node| is(node, path));
            let id = place(&id)?;
            let places: Vec<usize> = key_paths.iter().map(place).collect::<Option<_>>()?;
            let key = |values: &std::sync::Arc<[Value]>| {
                let parts = places.iter().map(|at| component(values.get(*at)));
                // An id is a string; other values match no item.
                Some((PartitionKey(parts.collect()), values.get(id)?.as_str()?.to_owned()))
            };
            Some(one_of.list.iter().filter_map(key).collect())
        }
        // The id may be the partition key.
        Node::In { needle, list: List::Set(set), negated: false }
            if is(needle, &id) && matches!(key_paths, [only] if *only == id) =>
        {
            let key = |value: &Value| {
                Some((PartitionKey(vec![component(Some(value))]), value.as_str()?.to_owned()))
            };
            Some(set.iter().filter_map(key).collect())
        }
        _ => None,
    }
}

/// Items with an array or an object there are kept where those without a key are.
fn component(value: Option<&Value>) -> KeyComponent {
    value.and_then(KeyComponent::from_value).unwrap_or(KeyComponent::Undefined)
}
