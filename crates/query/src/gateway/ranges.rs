//! The ranges of effective keys that a query can reach: a point for each partition key that its filter
//! allows, all keys under a prefix of a hierarchical key, everything, or nothing.

use orrery_types::{EffectiveKey, KeyRange, Object, PartitionKey, PartitionKeyKind, Value};

use super::PlanTarget;
use super::keys::KeyPath;
use super::types::Inference;
use crate::analysis::longer_keys;
use crate::ast::{ExprKind, OrderBy, Select};
use crate::query::BoundQuery;

/// A range of effective keys as the plan writes it; `min` always belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlanRange {
    min: EffectiveKey,
    max: EffectiveKey,
    max_inclusive: bool,
}

impl PlanRange {
    /// The position before every key, for queries that read no items.
    fn beginning() -> Self {
        Self { min: EffectiveKey::min(), max: EffectiveKey::min(), max_inclusive: true }
    }

    fn part(range: &KeyRange) -> Self {
        Self { min: range.min.clone(), max: range.max.clone(), max_inclusive: false }
    }

    pub(super) fn to_value(&self) -> Value {
        let mut object = Object::new();
        object.set("min", self.min.to_string().into());
        object.set("max", self.max.to_string().into());
        object.set("isMinInclusive", true.into());
        object.set("isMaxInclusive", self.max_inclusive.into());
        Value::object(object)
    }
}

/// Where a query finds its items.
pub(super) struct Reach {
    pub(super) ranges: Vec<PlanRange>,
    /// Whether that is one logical partition.
    pub(super) is_one_key: bool,
    /// Whether no item can yield a row, or none is read.
    pub(super) is_nothing: bool,
}

impl Reach {
    fn nothing() -> Self {
        Self { ranges: vec![PlanRange::beginning()], is_one_key: false, is_nothing: true }
    }
}

pub(super) fn reach(written: &Select, bound: &BoundQuery, target: &PlanTarget<'_>) -> Reach {
    let definition = target.definition;
    let select = &bound.bound.select;
    let by_aggregate = matches!(&written.order_by, Some(OrderBy::Keys(keys))
        if keys.iter().any(|key| matches!(*key.expr.kind, ExprKind::Call(..))));
    let inference = Inference::new(select, !by_aggregate);
    if select.sources.is_empty() || inference.is_empty(select) {
        return Reach::nothing();
    }
    let keys = match target.key {
        Some(key) => Some(vec![key.clone()]),
        None => match allowed_keys(bound, target, &inference) {
            Some(keys) if keys.is_empty() => return Reach::nothing(),
            keys => keys,
        },
    };
    if let Some(keys) = keys.filter(|keys| keys.iter().all(|key| !key.0.is_empty())) {
        let is_one_key = keys.len() == 1 && definition.is_complete(&keys[0]);
        let range = |key: &PartitionKey| {
            let min = definition.effective(key);
            let is_complete = definition.is_complete(key);
            let max = if is_complete { min.clone() } else { min.after_prefix() };
            PlanRange { min, max, max_inclusive: true }
        };
        let mut ranges: Vec<PlanRange> = keys.iter().map(range).collect();
        ranges.sort();
        ranges.dedup();
        return Reach { ranges, is_one_key, is_nothing: false };
    }
    let range = PlanRange::part(target.range.unwrap_or(&KeyRange::full()));
    Reach { ranges: vec![range], is_one_key: false, is_nothing: false }
}

/// The keys that the filter allows, for as many leading paths as it fixes; `None` when it does not fix
/// the first, and an empty list when nothing is allowed.
fn allowed_keys(
    bound: &BoundQuery,
    target: &PlanTarget<'_>,
    inference: &Inference<'_>,
) -> Option<Vec<PartitionKey>> {
    let paths = &target.definition.paths;
    let item = bound.bound.item_slot;
    let allowed = |path| KeyPath { inference, item, path }.allowed(&bound.bound.select);
    let sets: Vec<_> = paths.iter().map(allowed).collect();
    if sets.iter().any(super::value_set::ValueSet::is_empty) {
        return Some(Vec::new());
    }
    let mut keys = vec![PartitionKey::default()];
    for set in sets {
        let Some(values) = set.values().filter(|v| can_be_keys(v, target)) else { break };
        let Some(longer) = longer_keys(&keys, values.iter()) else { break };
        keys = longer;
    }
    (!keys[0].0.is_empty()).then_some(keys)
}

/// Whether the values name partitions. An item without the path is found by no value; a number that JSON
/// does not know is looked for everywhere.
fn can_be_keys(values: &[Value], target: &PlanTarget<'_>) -> bool {
    let is_odd = |v: &Value| v.as_number().is_some_and(|n| !n.is_finite());
    let is_nan = |v: &Value| v.as_number().is_some_and(|n| n.as_f64().is_nan());
    let is_list = values.len() > 1 && target.definition.kind == PartitionKeyKind::Hash;
    values.iter().all(|v| !v.is_undefined() && !is_nan(v) && (is_list || !is_odd(v)))
}
