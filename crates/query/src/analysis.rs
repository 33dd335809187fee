//! What the engine and the gateway ask about a query without running it: which clauses it has, and
//! which partition keys its filter allows.

use std::collections::HashSet;

use orrery_types::{KeyComponent, PartitionKey, PropertyPath, Value, limits};

use crate::ast::{BinaryOp, OrderBy, Select, Selection};
use crate::bind::selects_aggregate;
use crate::bound::{BoundSelect, List, Node, Origin, Slot, Step};
use crate::query::{BoundQuery, Query};

/// The clauses of a query that matter for merging the results of several partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each a clause")]
pub struct QueryShape {
    /// Aggregates in the select list.
    pub aggregates: bool,
    /// DISTINCT, in the query or in the subquery it reads from.
    pub distinct: bool,
    /// GROUP BY, in the query or in the subquery it reads from.
    pub group_by: bool,
    /// OFFSET and LIMIT.
    pub offset_limit: bool,
    /// ORDER BY, by keys or by rank.
    pub order_by: bool,
    /// ORDER BY RANK.
    pub rank: bool,
    /// SELECT VALUE.
    pub select_value: bool,
    /// TOP.
    pub top: bool,
}

impl QueryShape {
    /// Whether the answer over several partitions is more than one partial answer after the other.
    pub fn needs_merge(self) -> bool {
        self.aggregates
            || self.distinct
            || self.group_by
            || self.offset_limit
            || self.order_by
            || self.top
    }

    /// Whether an aggregate stands in an object: SELECT COUNT(1), without VALUE.
    pub fn aggregates_into_properties(self) -> bool {
        self.aggregates && !self.select_value && !self.group_by
    }
}

impl Query {
    /// Which clauses it has.
    pub fn shape(&self) -> QueryShape {
        shape_of(self.select())
    }
}

fn shape_of(select: &Select) -> QueryShape {
    let inner = select.from.first().and_then(|source| match &source.collection {
        crate::ast::Collection::Subquery(inner) => Some(shape_of(inner)),
        crate::ast::Collection::Expr(_) => None,
    });
    let inner = inner.unwrap_or_default();
    QueryShape {
        aggregates: selects_aggregate(&select.selection) || inner.aggregates,
        distinct: select.distinct || inner.distinct,
        group_by: !select.group_by.is_empty() || inner.group_by,
        offset_limit: select.offset_limit.is_some(),
        order_by: select.order_by.is_some(),
        rank: matches!(select.order_by, Some(OrderBy::Rank(_))),
        select_value: matches!(select.selection, Selection::Value(_)),
        top: select.top.is_some(),
    }
}

impl BoundQuery {
    /// The partition keys that the filter allows, for as many leading paths as it fixes; `None`
    /// when it does not fix the first. An empty list means that no item can match.
    pub fn partition_keys(&self, paths: &[PropertyPath]) -> Option<Vec<PartitionKey>> {
        let mut keys = vec![PartitionKey::default()];
        let mut fixed = 0;
        for path in paths {
            let Some(values) = values_in(&self.bound.select, self.bound.item_slot, path) else {
                break;
            };
            let Some(longer) = longer_keys(&keys, values.iter().filter(|v| !v.is_undefined()))
            else {
                break;
            };
            keys = longer;
            fixed += 1;
        }
        (fixed > 0).then_some(keys)
    }
}

/// The values that a path must have for a row to come out; `None` without constraint.
fn values_in(select: &BoundSelect, item: Slot, path: &PropertyPath) -> Option<HashSet<Value>> {
    let own = select.filter.as_ref().and_then(|filter| allowed(filter, item, path));
    let inner = match select.sources.first().map(|s| &s.origin) {
        Some(Origin::Rows(inner)) if inner.reads_items => values_in(inner, item, path),
        _ => None,
    };
    both(own, inner)
}

fn both(a: Option<HashSet<Value>>, b: Option<HashSet<Value>>) -> Option<HashSet<Value>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(&b).cloned().collect()),
        (a, b) => a.or(b),
    }
}

fn allowed(node: &Node, item: Slot, path: &PropertyPath) -> Option<HashSet<Value>> {
    let is_path = |node: &Node| match node {
        Node::Path(slot, steps) => *slot == item && is_same(steps, path),
        _ => false,
    };
    match node {
        Node::And(operands) => {
            operands.iter().map(|operand| allowed(operand, item, path)).fold(None, both)
        }
        Node::Or(operands) => {
            let mut union = HashSet::new();
            for operand in operands {
                union.extend(allowed(operand, item, path)?);
            }
            Some(union)
        }
        Node::OneOf(one_of) => {
            let at = one_of.paths.iter().position(is_path)?;
            Some(one_of.column(at).cloned().collect())
        }
        Node::Binary(BinaryOp::Equal, parts) => match &**parts {
            [of, Node::Constant(value)] | [Node::Constant(value), of] if is_path(of) => {
                Some(HashSet::from([value.clone()]))
            }
            _ => None,
        },
        Node::In { needle, list: List::Set(set), negated: false } if is_path(needle) => {
            Some((**set).clone())
        }
        // A filter that is never true lets nothing pass.
        Node::Constant(value) if !value.is_true() => Some(HashSet::new()),
        _ => None,
    }
}

/// Whether steps from the item are a path of names.
pub(crate) fn is_same(steps: &[Step], path: &PropertyPath) -> bool {
    let names = steps.iter().map(|step| match step {
        Step::Name(name) => Some(&**name),
        Step::Index(_) => None,
    });
    names.eq(path.segments().iter().map(|segment| Some(&**segment)))
}

/// Every key with each of the values behind it; `None` if they are more than are looked up.
pub(crate) fn longer_keys<'v>(
    keys: &[PartitionKey],
    values: impl Iterator<Item = &'v Value>,
) -> Option<Vec<PartitionKey>> {
    let mut components: Vec<KeyComponent> = Vec::new();
    for value in values {
        // Items with an array or an object there are kept where those without a key are.
        let component = KeyComponent::from_value(value).unwrap_or(KeyComponent::Undefined);
        if !components.contains(&component) {
            components.push(component);
        }
        // Before the next comparison: a list may have any length.
        if keys.len().saturating_mul(components.len()) > limits::QUERY_KEYS_MAX {
            return None;
        }
    }
    let longer = |key: &PartitionKey| {
        let with = |component: &KeyComponent| {
            let mut key = key.clone();
            key.0.push(component.clone());
            key
        };
        components.iter().map(with).collect::<Vec<_>>()
    };
    Some(keys.iter().flat_map(longer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContainerFacts;

    fn check(filter: &str, paths: &[&str], expected: Option<&[&str]>) {
        let query = Query::parse(&format!("SELECT * FROM c WHERE {filter}")).expect(filter);
        let bound = query.bind(&[], &ContainerFacts::default()).expect(filter);
        let paths: Vec<_> = paths.iter().map(|p| PropertyPath::parse(p).unwrap()).collect();
        let keys = bound.partition_keys(&paths).map(|keys| {
            let mut keys: Vec<String> = keys.iter().map(PartitionKey::to_header).collect();
            keys.sort();
            keys
        });
        let expected = expected.map(|keys| keys.iter().map(|k| (*k).to_owned()).collect());
        assert_eq!(keys, expected, "{filter}");
    }

    #[test]
    fn filters_fix_partition_keys_by_equality_and_in() {
        check("c.pk = 'a'", &["/pk"], Some(&["[\"a\"]"]));
        check("1 = c['pk'] AND c.x > 2", &["/pk"], Some(&["[1]"]));
        check("c.pk IN ('a', 'b')", &["/pk"], Some(&["[\"a\"]", "[\"b\"]"]));
        check("c.pk = 'a' OR c.pk = null", &["/pk"], Some(&["[\"a\"]", "[null]"]));
        check("c.pk = 'a' OR c.x = 1", &["/pk"], None);
        check("c.pk = 'a' AND c.pk = 'b'", &["/pk"], Some(&[]));
        check("c.pk != 'a'", &["/pk"], None);
        check("NOT (c.pk = 'a')", &["/pk"], None);
        check("c.pk NOT IN ('a')", &["/pk"], None);
        check("c.pk = c.x", &["/pk"], None);
        check("c.pk = [1]", &["/pk"], Some(&["[{}]"]));
        check("c.pk IN ([1], {}, 1)", &["/pk"], Some(&["[1]", "[{}]"]));
        check("c.a = 'x' AND c.b IN ([1], 2)", &["/a", "/b"], Some(&["[\"x\",2]", "[\"x\",{}]"]));
        check("c.pk = undefined", &["/pk"], Some(&[]));
        check("c.a.b = 1 AND c.t = 2", &["/a/b", "/t"], Some(&["[1,2]"]));
        check("c.a.b = 1", &["/a/b", "/t"], Some(&["[1]"]));
        check("c.t = 1", &["/a/b", "/t"], None);
        check("false", &["/pk"], Some(&[]));
    }

    #[test]
    fn shapes_see_into_the_subquery_that_is_read() {
        let shape = |text: &str| Query::parse(text).expect(text).shape();
        assert_eq!(shape("SELECT * FROM c WHERE c.a = 1"), QueryShape::default());
        assert!(!shape("SELECT (SELECT VALUE COUNT(1) FROM t IN c.t) FROM c").needs_merge());
        assert!(shape("SELECT VALUE COUNT(1) FROM c").aggregates);
        assert!(shape("SELECT * FROM (SELECT DISTINCT c.a FROM c) s").distinct);
        assert!(shape("SELECT TOP 1 * FROM c").needs_merge());
    }
}
