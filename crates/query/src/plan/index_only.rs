//! Queries that the index answers without any item: counts of exact conditions, the extremes of a
//! path, sums of its numbers, and its distinct values.

use std::sync::Arc;

use orrery_index::stored_numbers;
use orrery_index::value_range::ValueRange;
use orrery_types::{Number, Value};

use super::PlanRequest;
use super::access::{RowSet, TermSet};
use super::condition::{Condition, Filter, ItemPath, Paths, Values, is_plural};
use super::cost;
use crate::bound::{BoundSelect, Grouping, Node, Order, Projection};
use crate::functions::aggregate::AggregateFunction;
use crate::query::BoundQuery;

/// An answer out of the index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexOnly {
    /// One value for each aggregate of the query, in order.
    Aggregates(Vec<IndexAggregate>),
    /// Each value at a path once. A row is the value, or an object with it under a name.
    Distinct {
        /// The path.
        path: ItemPath,
        /// The part of it.
        range: ValueRange,
        /// The name, if rows are objects.
        name: Option<Arc<str>>,
    },
}

/// An aggregate out of the index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexAggregate {
    /// How many items there are.
    CountAll,
    /// How many rows a set has.
    Count(RowSet),
    /// The least value of a path, or the greatest.
    Extreme {
        /// The path.
        path: ItemPath,
        /// The part of it.
        range: ValueRange,
        /// Whether the greatest is asked for.
        greatest: bool,
    },
    /// The sum of the numbers at a path, or their average; undefined if one item has something else.
    Sum {
        /// The path.
        path: ItemPath,
        /// The items; all, if there is no set.
        of: Option<RowSet>,
        /// Whether the average is asked for.
        average: bool,
    },
}

impl IndexAggregate {
    /// The value of a sum or an average, from the sum of so many numbers.
    #[expect(clippy::cast_precision_loss, reason = "no count reaches 2^53")]
    pub fn total(average: bool, sum: f64, count: u64) -> Value {
        match (average, count) {
            (false, _) => Value::Number(Number::Float(sum)),
            (true, 0) => Value::Undefined,
            (true, count) => Value::from(sum / count as f64),
        }
    }
}

pub(super) fn find(
    query: &BoundQuery,
    filter: &Filter,
    paths: &Paths,
    request: &PlanRequest<'_>,
) -> Option<IndexOnly> {
    let select = &query.bound.select;
    let whole_item = match select.sources.as_slice() {
        [source] => source.slot == query.bound.item_slot && !source.iterates,
        _ => false,
    };
    if !filter.exact || !whole_item || !matches!(select.order, Order::None) {
        return None;
    }
    match &select.grouping {
        Some(grouping) => aggregates(grouping, filter, paths, request),
        None if select.distinct => distinct(select, filter, paths, request),
        None => None,
    }
}

fn aggregates(
    grouping: &Grouping,
    filter: &Filter,
    paths: &Paths,
    request: &PlanRequest<'_>,
) -> Option<IndexOnly> {
    if !grouping.always_one || grouping.aggregates.is_empty() {
        return None;
    }
    let mut list = Vec::new();
    for (_, kind, argument) in &grouping.aggregates {
        list.push(match (kind, argument) {
            (AggregateFunction::Count, Node::Constant(value)) if !value.is_undefined() => {
                counted(filter.clone(), request)?
            }
            (AggregateFunction::Count, argument) => {
                let path = paths.of(argument).filter(|p| !is_plural(p))?;
                let ranges = vec![ValueRange::Defined];
                let defined = Condition::Values(Values { path, ranges });
                let defined = Filter { condition: defined, exact: true };
                counted(super::condition::and(vec![filter.clone(), defined]), request)?
            }
            (AggregateFunction::Min | AggregateFunction::Max, argument) => {
                let path = paths.of(argument).filter(|p| !is_plural(p))?;
                let range = only_range(&filter.condition, &path, request)?;
                let greatest = *kind == AggregateFunction::Max;
                IndexAggregate::Extreme { path, range, greatest }
            }
            (AggregateFunction::Sum | AggregateFunction::Average, argument) => {
                let path = paths.of(argument)?;
                summed(filter, path, *kind == AggregateFunction::Average, request)?
            }
            _ => return None,
        });
    }
    Some(IndexOnly::Aggregates(list))
}

/// The part of a path that a condition speaks of, if it speaks of nothing else.
fn only_range(
    condition: &Condition,
    path: &ItemPath,
    request: &PlanRequest<'_>,
) -> Option<ValueRange> {
    if !request.facts.is_usable(path) {
        return None;
    }
    match condition {
        Condition::All => Some(ValueRange::Defined),
        Condition::Values(values) if values.path == *path => match values.ranges.as_slice() {
            [range] if range.codes().exact => Some(range.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn counted(filter: Filter, request: &PlanRequest<'_>) -> Option<IndexAggregate> {
    // A logical partition is among the conditions, so a query without any is about all items.
    match filter.condition {
        Condition::All => Some(IndexAggregate::CountAll),
        Condition::Nothing => Some(IndexAggregate::Count(no_rows())),
        condition => exact_set(&condition, request).map(IndexAggregate::Count),
    }
}

/// A sum of numbers that are kept in the index.
fn summed(
    filter: &Filter,
    path: ItemPath,
    average: bool,
    request: &PlanRequest<'_>,
) -> Option<IndexAggregate> {
    let facts = request.facts;
    if !stored_numbers::are_stored(&path) || !facts.is_usable(&path) || !facts.indexes_missing() {
        return None;
    }
    let of = match &filter.condition {
        Condition::All => None,
        Condition::Nothing => Some(no_rows()),
        condition => Some(exact_set(condition, request)?),
    };
    Some(IndexAggregate::Sum { path, of, average })
}

fn no_rows() -> RowSet {
    RowSet::Terms(TermSet { path: [].into(), ranges: vec![], estimate: 0 })
}

/// The set of rows of a condition, all of it.
fn exact_set(condition: &Condition, request: &PlanRequest<'_>) -> Option<RowSet> {
    let all = |list: &[Condition]| {
        let mut parts: Vec<RowSet> =
            list.iter().map(|c| exact_set(c, request)).collect::<Option<_>>()?;
        parts.sort_by_key(RowSet::estimate);
        Some(parts)
    };
    match condition {
        Condition::All | Condition::Nothing => None,
        Condition::Values(values) => {
            let exact = values.ranges.iter().all(|range| range.codes().exact);
            if !exact || is_plural(&values.path) || !request.facts.is_usable(&values.path) {
                return None;
            }
            let estimate = cost::whole(cost::size(values, request.facts));
            let Values { path, ranges } = values.clone();
            Some(RowSet::Terms(TermSet { path, ranges, estimate }))
        }
        Condition::And(list) => all(list).map(RowSet::And),
        Condition::Or(list) => all(list).map(RowSet::Or),
    }
}

fn distinct(
    select: &BoundSelect,
    filter: &Filter,
    paths: &Paths,
    request: &PlanRequest<'_>,
) -> Option<IndexOnly> {
    let (node, name) = match &select.projection {
        Projection::Value(node) => (node, None),
        Projection::Properties(properties) => match properties.as_slice() {
            [(name, node)] => (node, Some(name.clone())),
            _ => return None,
        },
    };
    let path = paths.of(node).filter(|p| !is_plural(p) && !p.is_empty())?;
    let range = only_range(&filter.condition, &path, request)?;
    // As an object, an item without the property has a row too.
    let lacking = name.is_some() && filter.condition == Condition::All;
    (!lacking).then_some(IndexOnly::Distinct { path, range, name })
}

impl IndexOnly {
    /// The row of one distinct value.
    pub fn row(name: Option<&Arc<str>>, value: Value) -> Value {
        match name {
            None => value,
            Some(name) => {
                let mut object = orrery_types::Object::new();
                object.set(name, value);
                Value::object(object)
            }
        }
    }
}
