//! A plan in words: what EXPLAIN prints, as a tree of nodes, each with what was expected of it and
//! what it took.

use std::fmt::Write as _;
use std::sync::Arc;

use orrery_types::{Object, Value};

use super::Plan;
use super::access::{AccessPath, OrderedAccess, OrderedIndex, RowSet, ShownPath};
use super::index_only::{IndexAggregate, IndexOnly};
use crate::ast::Direction;
use crate::bound::Order;
use crate::query::BoundQuery;

/// One step of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanNode {
    /// What it does.
    pub text: String,
    /// Rows that were expected of it.
    pub estimated: Option<u64>,
    /// What it gave and took, by name.
    pub actual: Vec<(&'static str, u64)>,
    /// What it draws on.
    pub inputs: Vec<PlanNode>,
}

impl PlanNode {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    fn over(text: impl Into<String>, input: Self) -> Self {
        Self { inputs: vec![input], ..Self::new(text) }
    }

    /// The node at the bottom, which reads items.
    pub fn access_mut(&mut self) -> &mut Self {
        let deeper = self.inputs.len() == 1 && !self.is_access();
        if deeper { self.inputs[0].access_mut() } else { self }
    }

    /// Notes what its inner steps gave: the access the items that it found, the others the rows that
    /// passed the filter. What the whole gave stands at the root.
    pub fn note_rows(&mut self, items: u64, passed: u64) {
        let rows = if self.is_access() { items } else { passed };
        let is_known = self.is_access() || PASSING.iter().any(|name| self.text.starts_with(name));
        if is_known && !self.actual.iter().any(|(name, _)| *name == "rows") {
            self.actual.insert(0, ("rows", rows));
        }
        if !self.is_access() {
            self.inputs.iter_mut().for_each(|input| input.note_rows(items, passed));
        }
    }

    fn is_access(&self) -> bool {
        ACCESSES.iter().any(|name| self.text.starts_with(name))
    }

    /// As indented lines.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(0, &mut out);
        out
    }

    fn write(&self, depth: usize, out: &mut String) {
        let _ = writeln!(out, "{:1$}{2}", "", depth * 2, self.text);
        self.inputs.iter().for_each(|input| input.write(depth + 1, out));
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        let mut object = Object::new();
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        object.set("node", self.text.as_str().into());
        if let Some(estimated) = self.estimated {
            object.set("estimatedRows", number(estimated));
        }
        for (name, n) in &self.actual {
            object.set(name, number(*n));
        }
        if !self.inputs.is_empty() {
            let inputs = self.inputs.iter().map(Self::to_value).collect();
            object.set("inputs", Value::array(inputs));
        }
        Value::object(object)
    }
}

/// Steps that give every row that passed the filter.
const PASSING: [&str; 3] = ["Filter", "Sort", "Rank"];
const ACCESSES: [&str; 10] = [
    "Nothing",
    "PointRead",
    "ContainerScan",
    "PartitionScan",
    "IndexSeek",
    "IndexRange",
    "Intersect",
    "Union",
    "IndexOrder",
    "CompositeOrder",
];

impl Plan {
    /// The plan of a query as a tree.
    pub fn explain(&self, query: &BoundQuery, single: bool) -> PlanNode {
        if let Some(only) = &self.only {
            return index_only(only);
        }
        let mut node = access(&self.access, single);
        let select = &query.bound.select;
        if select.filter.is_some() {
            node = PlanNode::over("Filter", node);
            node.estimated = Some(self.estimate);
        }
        let served = matches!(self.access, AccessPath::Ordered(_));
        match &select.order {
            Order::Keys(keys) if !served => {
                node = PlanNode::over(format!("Sort by {}", count(keys.len(), "key")), node);
            }
            Order::Rank(_) => node = PlanNode::over("Rank", node),
            Order::None if !served && self.chosen_order.is_some() => {
                node = PlanNode::over("Sort by 1 key", node);
            }
            Order::Keys(_) | Order::None => {}
        }
        if let Some(grouping) = &select.grouping {
            let text = match grouping.keys.len() {
                0 => "Aggregate".to_owned(),
                keys => format!("Group by {}", count(keys, "key")),
            };
            node = PlanNode::over(text, node);
        }
        if select.distinct {
            node = PlanNode::over("Distinct", node);
        }
        let limits = [("Top", select.top), ("Limit", select.limit)];
        for (name, limit) in limits.into_iter().filter_map(|(n, l)| Some((n, l?))) {
            node = PlanNode::over(format!("{name} {limit}"), node);
        }
        node
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn access(access: &AccessPath, single: bool) -> PlanNode {
    match access {
        AccessPath::Nothing => PlanNode::new("Nothing"),
        AccessPath::Keys { keys, .. } => PlanNode {
            estimated: Some(keys.len() as u64),
            ..PlanNode::new(format!("PointRead of {}", count(keys.len(), "item")))
        },
        AccessPath::Points { ids, .. } => PlanNode {
            estimated: Some(ids.len() as u64),
            ..PlanNode::new(match ids.as_slice() {
                [id] => format!("PointRead {}", Value::from(id.as_str()).to_json()),
                ids => format!("PointRead of {}", count(ids.len(), "item")),
            })
        },
        AccessPath::Scan(_) if single => PlanNode::new("PartitionScan"),
        AccessPath::Scan(_) => PlanNode::new("ContainerScan"),
        AccessPath::Rows(set) => rows(set),
        AccessPath::Ordered(ordered) => along(ordered),
    }
}

fn rows(set: &RowSet) -> PlanNode {
    let mut node = match set {
        RowSet::Terms(terms) => {
            let single = terms.ranges.iter().all(|range| range.codes().single);
            let name = if single { "IndexSeek" } else { "IndexRange" };
            PlanNode::new(format!("{name} {terms}"))
        }
        RowSet::And(list) => {
            PlanNode { inputs: list.iter().map(rows).collect(), ..PlanNode::new("Intersect") }
        }
        RowSet::Or(list) => {
            PlanNode { inputs: list.iter().map(rows).collect(), ..PlanNode::new("Union") }
        }
    };
    node.estimated = Some(set.estimate());
    node
}

fn along(ordered: &OrderedAccess) -> PlanNode {
    let mut text = match &ordered.index {
        OrderedIndex::Path { path, range } => {
            let direction = if ordered.reverse { "DESC" } else { "ASC" };
            format!("IndexOrder {} {direction}, {range}", ShownPath(path))
        }
        OrderedIndex::Composite { components, fixed, range, .. } => {
            let shown = |(path, direction): &(Arc<[_]>, Direction)| {
                let down = (*direction == Direction::Descending) != ordered.reverse;
                format!("{} {}", ShownPath(path), if down { "DESC" } else { "ASC" })
            };
            let list: Vec<String> = components.iter().map(shown).collect();
            let mut text = format!("CompositeOrder ({})", list.join(", "));
            for value in fixed {
                let _ = write!(text, ", {}", orrery_index::ValueRange::Point(value.clone()));
            }
            if let Some(range) = range {
                let _ = write!(text, ", {range}");
            }
            text
        }
    };
    if ordered.with_undefined {
        text.push_str(", undefined too");
    }
    let mut node = PlanNode::new(text);
    node.estimated = Some(ordered.estimate);
    node.inputs.extend(ordered.only.as_ref().map(rows));
    node
}

fn index_only(only: &IndexOnly) -> PlanNode {
    match only {
        IndexOnly::Distinct { path, range, .. } => {
            PlanNode::new(format!("IndexDistinct {} {range}", ShownPath(path)))
        }
        IndexOnly::Aggregates(list) => {
            let one = |aggregate: &IndexAggregate| match aggregate {
                IndexAggregate::CountAll => PlanNode::new("IndexCount of all items"),
                IndexAggregate::Count(set) => PlanNode::over("IndexCount", rows(set)),
                IndexAggregate::Extreme { path, range, greatest } => {
                    let name = if *greatest { "IndexMax" } else { "IndexMin" };
                    PlanNode::new(format!("{name} {} {range}", ShownPath(path)))
                }
                IndexAggregate::Sum { path, of, average } => {
                    let name = if *average { "IndexAverage" } else { "IndexSum" };
                    let of_all = if of.is_none() { " of all items" } else { "" };
                    let mut node = PlanNode::new(format!("{name} {}{of_all}", ShownPath(path)));
                    node.inputs.extend(of.as_ref().map(rows));
                    node
                }
            };
            let mut nodes: Vec<PlanNode> = list.iter().map(one).collect();
            if nodes.len() == 1 {
                nodes.remove(0)
            } else {
                PlanNode { inputs: nodes, ..PlanNode::new("IndexAggregate") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_says_how_many_rows_it_gave() {
        let access = PlanNode { actual: vec![("entriesRead", 9)], ..PlanNode::new("IndexSeek /a") };
        let filter = PlanNode::over("Filter", access);
        let mut root = PlanNode::over("Top 2", filter);
        root.actual.push(("rows", 2));
        root.note_rows(7, 3);
        assert_eq!(root.actual, [("rows", 2)]);
        let filter = &root.inputs[0];
        assert_eq!(filter.actual, [("rows", 3)]);
        assert_eq!(filter.inputs[0].actual, [("rows", 7), ("entriesRead", 9)]);
    }
}
