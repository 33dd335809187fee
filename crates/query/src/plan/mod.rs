//! The planner: from a bound query to an access path. `condition` reads what the filter asks of
//! single paths, `cost` prices the ways that the index offers, `access` says what they are,
//! `scan` reads all items or those that the filter names, `index_only` queries that need no item at all, `explain` prints the choice.
//!
//! An access path may lead to more items than match, and never to fewer: the whole filter runs over
//! every item, whatever way it came. So a wrong estimate costs time and not rows.

pub mod access;
pub mod condition;
mod cost;
mod explain;
pub mod index_only;
mod scan;

use orrery_index::IndexStep;
use orrery_index::value_range::ValueRange;
use orrery_types::{KeyComponent, PartitionKey, PropertyPath, Value, limits};

use crate::ast::Direction;
use crate::bound::{BoundSelect, Node, Order, Step};
use crate::exec::Resume;
use crate::query::BoundQuery;
use access::{AccessPath, OrderedAccess, OrderedIndex, ScanPath, SourceOrder};
use condition::{Condition, Filter, ItemPath, Paths, Values, is_plural};
use cost::{LOAD, RowSetCost, SCANNED, SEEK, count, whole};
use index_only::IndexOnly;

pub use explain::PlanNode;

/// What the planner asks about the index, over all partitions that the query reads.
pub trait IndexFacts {
    /// Whether every item with a value at the path has its term there.
    fn is_usable(&self, path: &[IndexStep]) -> bool;
    /// Terms in a range of a path, roughly.
    fn estimate(&self, path: &[IndexStep], range: &ValueRange) -> u64;
    /// The exact number of terms in a range, if it is at most `most` and cheap to count.
    fn count_up_to(&self, path: &[IndexStep], range: &ValueRange, most: usize) -> Option<u64>;
    /// The exact number of items in the one logical partition that is read, if it is at most `most`. The
    /// items are prefetched for a scan of the partition.
    fn count_partition_up_to(&self, most: usize) -> Option<u64>;
    /// Composite indexes in which every item has its entry.
    fn composites(&self) -> Vec<Vec<(ItemPath, Direction)>>;
    /// Items, roughly.
    fn items(&self) -> u64;
    /// Items that a scan would read, roughly.
    fn scope_items(&self) -> u64;
    /// Whether the index finds the items without a value at a path, without a scan.
    fn indexes_missing(&self) -> bool;
}

/// Where and how much a query is to read.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The index.
    pub facts: &'a dyn IndexFacts,
    /// The one logical partition that is read, if it is one.
    pub key: Option<&'a PartitionKey>,
    /// The paths of the container's partition key; none if items are not found by it.
    pub key_paths: &'a [PropertyPath],
    /// Whether the scope is made of whole physical partitions.
    pub is_whole: bool,
    /// Whether the index may include expired items.
    pub may_include_expired: bool,
    /// Rows that the page takes.
    pub rows: usize,
}

/// A way to the items of one query.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The way.
    pub access: AccessPath,
    /// Rows that are expected to pass the filter.
    pub estimate: u64,
    /// What the page is expected to cost, in index entries.
    pub cost: f64,
    /// The answer without any item, where that is possible.
    pub only: Option<IndexOnly>,
    /// The path by whose values the items come although the query names no order.
    pub chosen_order: Option<ItemPath>,
    /// Paths of the filter and of the order, and whether the plan uses an index on them.
    pub paths: Vec<PlanPath>,
}

impl Plan {
    /// Whether a page takes so little that handing it to another thread would cost more. An answer
    /// out of the index alone counts all entries, however many there are.
    pub fn is_cheap(&self) -> bool {
        self.only.is_none() && self.cost <= limits::IN_PLACE_QUERY_COST_MAX
    }
}

/// A path that an index could serve, and whether it did.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct PlanPath {
    pub path: ItemPath,
    pub is_indexed: bool,
    pub is_exact: bool,
}

impl PlanPath {
    /// The path as a model writes it: `*` for the elements of an array.
    pub fn model_path(&self) -> String {
        let step = |step: &IndexStep| match step {
            IndexStep::Property(name) => format!("/{name}"),
            IndexStep::Elements => "/*".to_owned(),
            IndexStep::Tuple(names) => format!("/{}", names.join(",")),
        };
        self.path.iter().map(step).collect()
    }

    /// The index as a policy would name it.
    pub fn index_spec(&self) -> String {
        format!("{}/?", access::ShownPath(&self.path))
    }
}

impl BoundQuery {
    /// Finds the cheapest way that can go on where a page ended.
    pub fn plan(&self, request: &PlanRequest<'_>, resume: Option<&Resume>) -> Plan {
        Planner::new(self, request).plan(resume)
    }
}

struct Planner<'a> {
    query: &'a BoundQuery,
    select: &'a BoundSelect,
    request: &'a PlanRequest<'a>,
    filter: Filter,
    paths: Paths,
    /// The filter confines the query to its logical partition by itself.
    covers_key: bool,
}

/// A way and its price.
struct Candidate {
    access: AccessPath,
    cost: f64,
    chosen_order: Option<ItemPath>,
}

impl<'a> Planner<'a> {
    fn new(query: &'a BoundQuery, request: &'a PlanRequest<'a>) -> Self {
        let select = &query.bound.select;
        let (filter, paths) = condition::of_select(select, query.bound.item_slot);
        let (filter, covers_key) = match request.key {
            None => (filter, true),
            Some(key) => with_key(filter, key, request.key_paths),
        };
        Self { query, select, request, filter, paths, covers_key }
    }

    fn plan(&self, resume: Option<&Resume>) -> Plan {
        let order = resume.and_then(Resume::source_order);
        let points = || self.points(order).or_else(|| self.keys(order));
        if let Some(best) = Some(points).filter(|_| self.is_plain()).and_then(|f| f()) {
            return Plan {
                access: best.access,
                estimate: 1,
                cost: best.cost,
                only: None,
                chosen_order: resume.and_then(Resume::chosen_order),
                paths: self.plan_paths(),
            };
        }
        let facts = self.request.facts;
        let only = self.index_only().filter(|_| resume.is_none_or(Resume::counts_by_value));
        if let Some(plan) = self.at_once(only.as_ref(), resume) {
            return plan;
        }
        let priced = cost::price(&self.filter.condition, facts);
        let items = count(self.scope_items()).min(count(facts.items()));
        let matches = priced.as_ref().map_or(items, |p| p.rows.min(items));
        let best = self.best(priced.as_ref(), matches, resume);
        Plan {
            access: best.access,
            estimate: whole(matches),
            cost: best.cost,
            only,
            chosen_order: best.chosen_order,
            paths: self.plan_paths(),
        }
    }

    /// The way where it is found without comparing many: a value that few items have leads to them,
    /// and a small logical partition is read whole.
    fn at_once(&self, only: Option<&IndexOnly>, resume: Option<&Resume>) -> Option<Plan> {
        // An order by several paths requires a composite index, and the plan has to show it.
        let has_composite = matches!(&self.select.order, Order::Keys(keys) if keys.len() > 1);
        if !self.is_plain() || has_composite || self.filter.condition == Condition::Nothing {
            return None;
        }
        let order = resume.and_then(Resume::source_order);
        let facts = self.request.facts;
        let mut found: Option<(Candidate, f64)> = None;
        if order != Some(SourceOrder::Keys) {
            let selective = cost::selective(&self.filter.condition, facts);
            found = selective.map(|priced| (Self::rows(&priced, f64::INFINITY), priced.rows));
        }
        let is_cheap = found.as_ref().is_some_and(|(rows, _)| rows.cost <= AT_ONCE);
        if !is_cheap {
            let items = self.key_term().and_then(|(path, range)| match (only, &found) {
                (Some(_), _) => facts.count_up_to(&path, &range, SMALL_PARTITION),
                (None, None) => facts.count_partition_up_to(SMALL_PARTITION),
                // More of them are not worth reading.
                (None, Some((rows, _))) => {
                    let most = whole((rows.cost - SEEK) / SCANNED);
                    let most = usize::try_from(most).unwrap_or(usize::MAX);
                    facts.count_partition_up_to(SMALL_PARTITION.min(most))
                }
            });
            let items = items.map(count);
            let scan = items.map(|items| {
                let cost = SEEK + items * SCANNED;
                // What was read is in memory, and comes in any order.
                let path = match (order, only) {
                    (Some(SourceOrder::Keys), _) => ScanPath::Keys,
                    (_, None) => ScanPath::Directory,
                    (_, Some(_)) => self.scan_path(order),
                };
                (Candidate { access: AccessPath::Scan(path), cost, chosen_order: None }, items)
            });
            let cheaper = |(scan, _): &(Candidate, f64)| {
                found.as_ref().is_none_or(|(rows, _)| scan.cost < rows.cost)
            };
            found = scan.filter(cheaper).or(found);
        }
        let (best, rows) = found?;
        Some(Plan {
            access: best.access,
            estimate: whole(rows),
            cost: best.cost,
            only: only.cloned(),
            chosen_order: resume.and_then(Resume::chosen_order),
            paths: self.plan_paths(),
        })
    }

    /// Whether the filter decides alone which items are read.
    fn is_plain(&self) -> bool {
        self.select.reads_items && !matches!(self.select.order, Order::Rank(_))
    }

    fn best(
        &self,
        priced: Option<&RowSetCost>,
        matches: f64,
        resume: Option<&Resume>,
    ) -> Candidate {
        let plain = |access, cost| Candidate { access, cost, chosen_order: None };
        if !self.select.reads_items || self.filter.condition == Condition::Nothing {
            return plain(AccessPath::Nothing, 0.0);
        }
        let order = resume.and_then(Resume::source_order);
        // Statistics for scores are over all items, whatever the filter says.
        if matches!(self.select.order, Order::Rank(_)) {
            return self.scan(0.0, 0.0, order);
        }
        let sorted = resume.and_then(Resume::chosen_order);
        let wanted = self.wanted(sorted.is_some());
        let mut candidates = vec![self.scan(matches, wanted, order)];
        candidates.extend(self.points(order));
        if order != Some(SourceOrder::Keys) {
            candidates.extend(priced.map(|p| Self::rows(p, wanted)));
        }
        if order.is_none() {
            candidates.extend(self.ordered(priced, matches, sorted.clone()));
        }
        // An order that the query does not ask for must save more than insertion order is worth.
        let worth = |candidate: &Candidate| {
            let is_chosen = candidate.chosen_order.is_some() && sorted.is_none();
            candidate.cost * if is_chosen { ROW_ORDER_WORTH } else { 1.0 }
                + if is_chosen { ROW_ORDER_WORTH_MIN } else { 0.0 }
        };
        let cheapest = candidates.into_iter().min_by(|a, b| worth(a).total_cmp(&worth(b)));
        let mut best =
            cheapest.unwrap_or_else(|| plain(AccessPath::Scan(ScanPath::Keys), f64::MAX));
        if best.chosen_order.is_none() {
            best.chosen_order = sorted;
        }
        best
    }

    /// Rows that are read before the page is full; without end where all have to be seen first.
    fn wanted(&self, sorted: bool) -> f64 {
        if !self.select.streams() || sorted { f64::INFINITY } else { self.wanted_in_order() }
    }

    fn wanted_in_order(&self) -> f64 {
        let select = self.select;
        let most = crate::exec::wanted(select).unwrap_or(u64::MAX);
        count(most.min(self.request.rows as u64 + 1))
    }

    fn rows(priced: &RowSetCost, wanted: f64) -> Candidate {
        let share = if priced.rows > 0.0 { (wanted / priced.rows).min(1.0) } else { 1.0 };
        let cost = priced.opening + share * (priced.reading + priced.rows * LOAD);
        Candidate { access: AccessPath::Rows(priced.set.clone()), cost, chosen_order: None }
    }

    /// Walks along an index that give the order of the query; or, where it has none, the order of
    /// the values that the filter asks for.
    fn ordered(
        &self,
        priced: Option<&RowSetCost>,
        matches: f64,
        sorted: Option<ItemPath>,
    ) -> Vec<Candidate> {
        let keys = match &self.select.order {
            Order::Keys(keys) if self.select.streams_in_order() => self.order_keys(keys),
            Order::None if self.select.streams() => {
                let path = sorted.or_else(|| self.ranged_path());
                return path.into_iter().filter_map(|p| self.chosen(p, priced, matches)).collect();
            }
            _ => None,
        };
        let Some(keys) = keys else { return vec![] };
        let mut found = Vec::new();
        if let [(path, direction)] = keys.as_slice() {
            found.extend(self.along_path(path, *direction, priced, matches));
        }
        for components in self.request.facts.composites() {
            found.extend(self.along_composite(&components, &keys, priced, matches));
        }
        found
    }

    fn order_keys(&self, keys: &[(Node, Direction)]) -> Option<Vec<(ItemPath, Direction)>> {
        let path = |(node, direction): &(Node, Direction)| {
            Some((self.paths.of(node).filter(|p| !is_plural(p))?, *direction))
        };
        keys.iter().map(path).collect()
    }

    /// The path that the filter confines to an interval of values.
    fn ranged_path(&self) -> Option<ItemPath> {
        let ranged = |c: &Condition| match c {
            Condition::Values(Values { path, ranges }) if !is_plural(path) => {
                match ranges.as_slice() {
                    [range] if !range.codes().single => Some(path.clone()),
                    _ => None,
                }
            }
            _ => None,
        };
        match &self.filter.condition {
            Condition::And(list) => list.iter().find_map(ranged),
            other => ranged(other),
        }
    }

    fn chosen(
        &self,
        path: ItemPath,
        priced: Option<&RowSetCost>,
        matches: f64,
    ) -> Option<Candidate> {
        let found = self.along_path(&path, Direction::Ascending, priced, matches)?;
        Some(Candidate { chosen_order: Some(path), ..found })
    }

    fn along_path(
        &self,
        path: &ItemPath,
        direction: Direction,
        priced: Option<&RowSetCost>,
        matches: f64,
    ) -> Option<Candidate> {
        let facts = self.request.facts;
        if !facts.is_usable(path) {
            return None;
        }
        let range = cost::confined(&self.filter.condition, path).unwrap_or(ValueRange::Defined);
        let entries = count(facts.estimate(path, &range));
        let with_undefined = !cost::demands(&self.filter.condition, path);
        let reverse = direction == Direction::Descending;
        let includes_missing = with_undefined && (!reverse || entries < self.wanted_in_order());
        let missing = if !includes_missing {
            0.0
        } else if facts.indexes_missing() {
            SEEK
        } else {
            count(facts.items()) * 2.0
        };
        let index = OrderedIndex::Path { path: path.clone(), range };
        Some(self.walk(index, reverse, with_undefined, entries, missing, priced, matches))
    }

    /// A composite index serves an order whose keys are its components, after some that the filter
    /// fixes, in its directions or all of them turned.
    fn along_composite(
        &self,
        components: &[(ItemPath, Direction)],
        keys: &[(ItemPath, Direction)],
        priced: Option<&RowSetCost>,
        matches: f64,
    ) -> Option<Candidate> {
        let condition = &self.filter.condition;
        // Behind the keys nothing may stand: it would order what is to be ordered by row.
        let first = components.len().checked_sub(keys.len())?;
        let own = &components[first..];
        if own.iter().zip(keys).any(|(c, k)| c.0 != k.0) {
            return None;
        }
        let same = own.iter().zip(keys).filter(|(c, k)| c.1 == k.1).count();
        if same != 0 && same != keys.len() {
            return None;
        }
        let mut fixed: Vec<Value> = Vec::new();
        for (path, _) in components {
            match cost::fixed(condition, path) {
                Some(value) => fixed.push(value),
                None => break,
            }
        }
        if fixed.len() < first {
            return None;
        }
        let range = components.get(fixed.len()).and_then(|(p, _)| cost::confined(condition, p));
        let items = count(self.request.facts.items());
        let share = components[..fixed.len()]
            .iter()
            .zip(&fixed)
            .map(|((path, _), value)| self.share(path, &ValueRange::Point(value.clone())));
        let span_share = range.as_ref().zip(components.get(fixed.len()));
        let span_share = span_share.map_or(1.0, |(range, (path, _))| self.share(path, range));
        let entries = items * share.product::<f64>() * span_share;
        let index = OrderedIndex::Composite {
            components: components.to_vec(),
            fixed,
            range,
            keys: first..components.len(),
        };
        Some(self.walk(index, same == 0, false, entries, 0.0, priced, matches))
    }

    /// Which part of all items has a value in a range.
    fn share(&self, path: &ItemPath, range: &ValueRange) -> f64 {
        let facts = self.request.facts;
        if !facts.is_usable(path) {
            return 1.0;
        }
        (count(facts.estimate(path, range)) / count(facts.items()).max(1.0)).min(1.0)
    }

    #[expect(clippy::too_many_arguments, reason = "all that a walk is priced by")]
    fn walk(
        &self,
        index: OrderedIndex,
        reverse: bool,
        with_undefined: bool,
        entries: f64,
        missing: f64,
        priced: Option<&RowSetCost>,
        matches: f64,
    ) -> Candidate {
        let wanted = self.wanted_in_order();
        let share = if matches > 0.0 { (wanted / matches).min(1.0) } else { 1.0 };
        let walked = entries * share;
        let mut only = None;
        let mut loads = walked * LOAD;
        // Where the filter finds few rows by itself, the walk need load no others.
        if let Some(priced) = priced {
            let gathering = priced.opening + priced.reading;
            let filtered = wanted.min(priced.rows) * LOAD + gathering;
            if filtered < loads {
                loads = filtered;
                only = Some(priced.set.clone());
            }
        }
        let access = OrderedAccess {
            index,
            reverse,
            with_undefined,
            only,
            estimate: whole(walked.min(entries)),
        };
        let cost = SEEK + missing + walked + loads;
        Candidate { access: AccessPath::Ordered(access), cost, chosen_order: None }
    }

    fn plan_paths(&self) -> Vec<PlanPath> {
        let mut paths = Vec::new();
        let facts = self.request.facts;
        let mut add = |path: &ItemPath, is_exact: bool| {
            if !paths.iter().any(|p: &PlanPath| p.path == *path) {
                let is_indexed = facts.is_usable(path);
                paths.push(PlanPath { path: path.clone(), is_indexed, is_exact });
            }
        };
        visit(&self.filter.condition, &mut |values| {
            add(&values.path, values.ranges.iter().all(|range| range.codes().exact));
        });
        if let Order::Keys(keys) = &self.select.order {
            keys.iter().filter_map(|(node, _)| self.paths.of(node)).for_each(|p| add(&p, true));
        }
        paths
    }

    fn index_only(&self) -> Option<IndexOnly> {
        if self.request.may_include_expired || !self.request.is_whole || !self.covers_key {
            return None;
        }
        index_only::find(self.query, &self.filter, &self.paths, self.request)
    }
}

fn visit(condition: &Condition, f: &mut dyn FnMut(&Values)) {
    match condition {
        Condition::All | Condition::Nothing => {}
        Condition::Values(values) => f(values),
        Condition::And(list) | Condition::Or(list) => list.iter().for_each(|c| visit(c, f)),
    }
}

/// The filter with the logical partition put as a condition on its key's paths, and whether that
/// says all of it.
fn with_key(filter: Filter, key: &PartitionKey, paths: &[PropertyPath]) -> (Filter, bool) {
    let mut parts = vec![filter];
    let mut covers = key.0.len() == paths.len();
    for (path, component) in paths.iter().zip(&key.0) {
        // Numbers that share a hash need not share a term, and nothing stands for what is missing.
        let Some(value) = key_value(component) else {
            covers = false;
            continue;
        };
        let steps = path.segments().iter().map(|name| IndexStep::Property(name.clone()));
        let values = Values { path: steps.collect(), ranges: vec![ValueRange::Point(value)] };
        parts.push(Filter { condition: Condition::Values(values), exact: true });
    }
    (condition::and(parts), covers)
}

/// The value whose term stands for a part of a partition key.
fn key_value(component: &KeyComponent) -> Option<Value> {
    Some(match component {
        KeyComponent::Null => Value::Null,
        KeyComponent::Bool(b) => Value::Bool(*b),
        KeyComponent::String(s) => Value::string(&**s),
        KeyComponent::Number(n) if n.abs() < EXACT_MAX => Value::from(*n),
        KeyComponent::Number(_) | KeyComponent::Undefined => return None,
    })
}

/// How much dearer the order of rows may be than one that the plan chooses itself: so many times, and
/// so many entries, which take less time than a request does otherwise.
const ROW_ORDER_WORTH: f64 = 1.3;
const ROW_ORDER_WORTH_MIN: f64 = 300.0;
/// A way that costs no more is taken without looking for another.
const AT_ONCE: f64 = 200.0;

/// Items of a logical partition that are sooner read than compared with what an index leads to.
const SMALL_PARTITION: usize = 127;

/// From here on different integers have the same double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

impl BoundSelect {
    /// Whether rows can be given one by one when items come in the order of ORDER BY.
    pub(crate) fn streams_in_order(&self) -> bool {
        // Nothing comes in the order of ranks: they are known when all items are.
        let by_keys = matches!(self.order, Order::Keys(_));
        self.streams()
            || (by_keys && self.grouping.is_none() && !self.distinct && {
                match self.sources.first().map(|s| &s.origin) {
                    Some(crate::bound::Origin::Rows(inner)) if inner.reads_items => inner.streams(),
                    _ => true,
                }
            })
    }
}

/// The steps of a path without elements, as an expression of the item takes them.
pub(crate) fn steps_of(path: &[IndexStep]) -> Vec<Step> {
    let name = |step: &IndexStep| match step {
        IndexStep::Property(name) => Some(Step::Name((&**name).into())),
        IndexStep::Elements | IndexStep::Tuple(_) => None,
    };
    path.iter().filter_map(name).collect()
}
