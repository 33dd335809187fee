//! Ways that need no condition of the index: all items of the scope, and items that the filter names.
//!
//! Without ORDER BY items come in the order of insertion, which is that of their rows, wherever that
//! takes about as long as the order of keys.

use orrery_index::IndexStep;
use orrery_index::span::Span;
use orrery_types::{KeyComponent, PropertyPath, limits};

use super::access::{Access, RowSet, ScanPath, SourceOrder, TermSet};
use super::condition::{Condition, ItemPath};
use super::cost::{ENTRY, SCANNED, SCANNED_BY_ROW, SEEK, count};
use super::{Candidate, Planner, SMALL_PARTITION, key_value, keyed};
use crate::bound::Order;

/// A part of a range is read along the directory of the whole range if that is no more times as large.
const DIRECTORY_PART: u64 = 4;
/// Or if the range has no more items than these.
const DIRECTORY_SMALL: u64 = 1_000;

impl Planner<'_> {
    /// All items of the scope.
    pub(super) fn scan(&self, matches: f64, wanted: f64, order: Option<SourceOrder>) -> Candidate {
        let items = count(self.scope_items());
        let share = if matches > 0.0 { (wanted / matches).min(1.0) } else { 1.0 };
        let path = self.scan_path(order);
        let cost = match &path {
            ScanPath::Keys => items * SCANNED,
            ScanPath::Entries(_) => items * SCANNED_BY_ROW,
            // The directory is of all items, in the scope or not.
            ScanPath::Directory => {
                let others = count(self.request.facts.items()) - items;
                items * SCANNED_BY_ROW + others.max(0.0) * ENTRY
            }
        };
        Candidate { access: Access::Scan(path), cost: SEEK + cost * share, chosen_order: None }
    }

    /// The way of a scan: by row where a token says so, or where the order of items shows and is not
    /// much dearer than the other.
    pub(super) fn scan_path(&self, order: Option<SourceOrder>) -> ScanPath {
        let shows_order = self.select.streams()
            || (self.select.distinct
                && self.select.grouping.is_none()
                && matches!(self.select.order, Order::None));
        match order {
            Some(SourceOrder::Keys) => ScanPath::Keys,
            Some(SourceOrder::Rows) => self.key_entries().unwrap_or(ScanPath::Directory),
            _ if !shows_order => ScanPath::Keys,
            _ if self.scope_items() > limits::QUERY_ROW_ORDER_ITEMS_MAX => ScanPath::Keys,
            _ if self.request.key.is_some() => self.key_entries().unwrap_or_else(|| {
                // What is read whole is in memory, and comes in any order.
                let is_small = self.request.facts.few_in_partition(SMALL_PARTITION).is_some();
                if is_small { ScanPath::Directory } else { ScanPath::Keys }
            }),
            _ => {
                let (all, own) = (self.request.facts.items(), self.scope_items());
                let is_affordable = all <= limits::QUERY_ROW_ORDER_ITEMS_MAX
                    && all <= own.saturating_mul(DIRECTORY_PART).max(DIRECTORY_SMALL);
                if is_affordable { ScanPath::Directory } else { ScanPath::Keys }
            }
        }
    }

    /// The entries that all items of the one logical partition have, where the index has some.
    fn key_entries(&self) -> Option<ScanPath> {
        let key = self.request.key?;
        let facts = self.request.facts;
        let term = |(path, component): (&PropertyPath, &KeyComponent)| {
            let steps = path.segments().iter().map(|name| IndexStep::Property(name.clone()));
            let (path, span): (ItemPath, _) = (steps.collect(), Span::Point(key_value(component)?));
            let is_usable = facts.is_usable(&path);
            let estimate = if is_usable { facts.estimate(&path, &span) } else { 0 };
            is_usable.then(|| RowSet::Terms(TermSet { path, spans: vec![span], estimate }))
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
        let spans = match &self.filter.condition {
            Condition::Values(values) if values.path == id => Some(&values.spans),
            Condition::And(list) => list.iter().find_map(|c| match c {
                Condition::Values(values) if values.path == id => Some(&values.spans),
                _ => None,
            }),
            _ => None,
        }?;
        let name = |span: &Span| match span {
            Span::Point(value) => Some(value.as_str().map(str::to_owned)),
            _ => None,
        };
        // What is no string is nobody's id.
        let ids: Vec<Option<String>> = spans.iter().map(name).collect::<Option<_>>()?;
        let mut ids: Vec<String> = ids.into_iter().flatten().collect();
        ids.sort_unstable();
        ids.dedup();
        let cost = count(ids.len() as u64) * SCANNED;
        // All of them are loaded at once, and come in any order.
        let by_row = order != Some(SourceOrder::Keys);
        Some(Candidate { access: Access::Points { ids, by_row }, cost, chosen_order: None })
    }

    /// Items that the filter names by partition key and id.
    pub(super) fn keys(&self, order: Option<SourceOrder>) -> Option<Candidate> {
        let keys = keyed::keys(self.select, self.query.bound.item_slot, self.request.key_paths)?;
        let cost = SEEK + count(keys.len() as u64) * SCANNED;
        // A few are loaded at once, and come in any order; many are loaded in batches, by key.
        let by_row = match order {
            None | Some(SourceOrder::Values) => keys.len() <= limits::QUERY_FIRST_BATCH_MAX,
            Some(order) => order == SourceOrder::Rows,
        };
        if by_row && keys.len() > limits::QUERY_FIRST_BATCH_MAX {
            return None;
        }
        Some(Candidate { access: Access::Keys { keys, by_row }, cost, chosen_order: None })
    }

    /// The term that all items of the one logical partition have, and no other.
    pub(super) fn key_term(&self) -> Option<(ItemPath, Span)> {
        let (key, [path]) = (self.request.key?, self.request.key_paths) else { return None };
        let path: ItemPath =
            path.segments().iter().map(|name| IndexStep::Property(name.clone())).collect();
        let value = key.0.first().and_then(key_value)?;
        self.request.facts.is_usable(&path).then_some((path, Span::Point(value)))
    }

    /// Items that a scan would read, roughly.
    pub(super) fn scope_items(&self) -> u64 {
        let facts = self.request.facts;
        match self.key_term() {
            Some((path, span)) => facts.estimate(&path, &span),
            None => facts.scope_items(),
        }
    }
}
