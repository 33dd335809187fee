//! What ways to the items cost, in units of reading one index entry. The numbers are ratios measured
//! on small items; what matters is that they rank ways rightly when those differ much.

use orrery_index::value_range::ValueRange;
use orrery_types::limits;

use super::IndexFacts;
use super::access::{RowSet, TermSet};
use super::condition::{Condition, Values};

/// One entry of an index, read in sequence.
pub(super) const ENTRY: f64 = 1.0;
/// Going to a place in an index.
pub(super) const SEEK: f64 = 20.0;
/// One item by its row.
pub(super) const LOAD: f64 = 30.0;
/// One item in a scan along the items.
pub(super) const SCANNED: f64 = 15.0;
/// One item in a scan along rows: many are loaded at once.
pub(super) const SCANNED_BY_ROW: f64 = 19.0;
/// One item whose row is read and sorted.
pub(super) const SORTED: f64 = 3.0;

/// Ranges of one path whose sizes are asked for; of more, some stand for all.
const SAMPLES: usize = 16;

/// A row set and what it takes to read it.
#[derive(Clone, Debug)]
pub(super) struct RowSetCost {
    pub(super) set: RowSet,
    /// Rows that come out, expected.
    pub(super) rows: f64,
    /// Before the first row.
    pub(super) opening: f64,
    /// For all rows, without loading the items.
    pub(super) reading: f64,
}

/// The cheapest row set that holds every item of a condition; `None` if the index has none.
pub(super) fn price(condition: &Condition, facts: &dyn IndexFacts) -> Option<RowSetCost> {
    match condition {
        Condition::All | Condition::Nothing => None,
        Condition::Values(values) => price_values(values, facts),
        Condition::And(list) => {
            let mut parts: Vec<RowSetCost> = list.iter().filter_map(|c| price(c, facts)).collect();
            parts.sort_by(|a, b| a.rows.total_cmp(&b.rows));
            intersection(parts, facts)
        }
        Condition::Or(list) => {
            let parts: Vec<RowSetCost> =
                list.iter().map(|c| price(c, facts)).collect::<Option<_>>()?;
            Some(RowSetCost {
                rows: parts.iter().map(|p| p.rows).sum::<f64>().min(count(facts.items())),
                opening: parts.iter().map(|p| p.opening).sum(),
                reading: parts.iter().map(|p| p.reading).sum(),
                set: RowSet::Or(parts.into_iter().map(|p| p.set).collect()),
            })
        }
    }
}

/// A condition is selective if at most this many rows match it: loading them costs less than comparing
/// other access paths.
const SELECTIVE_ROWS_MAX: usize = 24;
/// Spans of a path that are counted to find out.
const SELECTIVE_RANGES_MAX: usize = 4;

/// The terms of a selective part of the condition, if it has one.
pub(super) fn selective(condition: &Condition, facts: &dyn IndexFacts) -> Option<RowSetCost> {
    match condition {
        Condition::Values(values) => {
            if values.ranges.len() > SELECTIVE_RANGES_MAX || !facts.is_usable(&values.path) {
                return None;
            }
            let mut entries = 0;
            for range in &values.ranges {
                entries += facts.count_up_to(&values.path, range, SELECTIVE_ROWS_MAX)?;
            }
            Some(priced_terms(values, count(entries)))
        }
        Condition::And(list) => {
            let values = list.iter().filter(|c| matches!(c, Condition::Values(_)));
            values.into_iter().find_map(|c| selective(c, facts))
        }
        Condition::All | Condition::Nothing | Condition::Or(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "estimates need no more than 53 bits")]
pub(super) fn count(n: u64) -> f64 {
    n as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate is small")]
pub(super) fn whole(n: f64) -> u64 {
    n.round() as u64
}

/// Entries in all ranges of one path.
pub(super) fn size(values: &Values, facts: &dyn IndexFacts) -> f64 {
    let step = values.ranges.len().div_ceil(SAMPLES).max(1);
    let sampled: Vec<f64> = values
        .ranges
        .iter()
        .step_by(step)
        .map(|range| count(facts.estimate(&values.path, range)))
        .collect();
    let share = count(values.ranges.len() as u64) / count(sampled.len().max(1) as u64);
    sampled.iter().sum::<f64>() * share
}

fn price_values(values: &Values, facts: &dyn IndexFacts) -> Option<RowSetCost> {
    if !facts.is_usable(&values.path) {
        return None;
    }
    let entries = size(values, facts);
    if is_gathered(values) && entries > count(limits::QUERY_ROWS_GATHERED_MAX as u64) / 2.0 {
        return None;
    }
    Some(priced_terms(values, entries))
}

/// Rows of several values have to be gathered and sorted before the first one is known.
fn is_gathered(values: &Values) -> bool {
    !values.ranges.iter().all(|range| range.codes().single)
}

fn priced_terms(values: &Values, entries: f64) -> RowSetCost {
    let seeks = SEEK * count(values.ranges.len() as u64);
    let terms = TermSet {
        path: values.path.clone(),
        ranges: values.ranges.clone(),
        estimate: whole(entries),
    };
    let (opening, reading) =
        if is_gathered(values) { (seeks + entries * ENTRY, 0.0) } else { (seeks, entries * ENTRY) };
    RowSetCost { set: RowSet::Terms(terms), rows: entries, opening, reading }
}

/// The smallest part, and those others that save more loads than they cost to read.
fn intersection(parts: Vec<RowSetCost>, facts: &dyn IndexFacts) -> Option<RowSetCost> {
    let items = count(facts.items()).max(1.0);
    let mut parts = parts.into_iter();
    let first = parts.next()?;
    let mut total = RowSetCost { set: RowSet::And(vec![]), ..first.clone() };
    let mut kept = vec![first.set];
    for part in parts {
        let share = (part.rows / items).min(1.0);
        let saved = total.rows * (1.0 - share) * LOAD;
        // A short list is looked up in a long one place by place.
        let reading = part.reading.min(total.rows * SEEK);
        if saved <= part.opening + reading {
            continue;
        }
        total.rows *= share;
        total.opening += part.opening;
        total.reading += reading;
        kept.push(part.set);
    }
    total.set = if kept.len() == 1 { kept.remove(0) } else { RowSet::And(kept) };
    Some(total)
}

/// Whether a condition that must hold rules out that nothing stands at a path.
pub(super) fn demands(condition: &Condition, path: &super::condition::ItemPath) -> bool {
    match condition {
        Condition::All | Condition::Nothing => false,
        Condition::Values(values) => values.path == *path,
        Condition::And(list) => list.iter().any(|c| demands(c, path)),
        Condition::Or(list) => list.iter().all(|c| demands(c, path)),
    }
}

/// The one range to which a condition confines the value at a path, if it does.
pub(super) fn confined(
    condition: &Condition,
    path: &super::condition::ItemPath,
) -> Option<ValueRange> {
    match condition {
        Condition::Values(Values { path: own, ranges }) if own == path => match ranges.as_slice() {
            [range] => Some(range.clone()),
            _ => None,
        },
        Condition::And(list) => list.iter().find_map(|c| confined(c, path)),
        _ => None,
    }
}

/// The one scalar that a condition asks for at a path, if it does.
pub(super) fn fixed(
    condition: &Condition,
    path: &super::condition::ItemPath,
) -> Option<orrery_types::Value> {
    match condition {
        Condition::Values(Values { path: own, ranges }) if own == path => match ranges.as_slice() {
            [ValueRange::Point(value)] => Some(value.clone()),
            _ => None,
        },
        Condition::And(list) => list.iter().find_map(|c| fixed(c, path)),
        _ => None,
    }
}
