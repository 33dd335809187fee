//! Parts of a filter that look at nothing but what one relation leads to: `b.publisher.name = 'x'`.
//! Such a part is a query over the targets, and whoever finds those finds the items that refer to
//! them without looking at the others.

use orrery_types::{ExecutionBudget, Value};

use super::{Follow, Navigation};
use crate::bind::Bound;
use crate::bound::{BoundSelect, BoundSource, List, Node, Order, Origin, Projection, Slot, Step};
use crate::eval::{EvalContext, Evaluator};
use crate::functions::Dependence;
use crate::query::BoundQuery;

/// A part of a filter as a query over the targets of a relation.
#[derive(Debug)]
pub struct SemiJoin {
    /// The relation.
    pub navigation: Navigation,
    /// The targets for which the part is true, with all their members.
    pub targets: BoundQuery,
}

/// Where the target stands in the query over targets.
const TARGET: Slot = 0;

impl BoundQuery {
    /// The parts of the filter that every row needs and that only look at targets of a relation of
    /// the item. For an item to yield a row, one of its references must lead to such a target.
    pub fn semi_joins(&self) -> Vec<SemiJoin> {
        let parts = match &self.bound.select.filter {
            None => return vec![],
            Some(Node::And(parts)) => parts.as_slice(),
            Some(other) => std::slice::from_ref(other),
        };
        parts.iter().filter_map(|part| semi_join(part, self.bound.item_slot)).collect()
    }
}

fn semi_join(part: &Node, item: Slot) -> Option<SemiJoin> {
    let mut first: Option<&Follow> = None;
    find(part, &mut first);
    let follow = first?;
    let from_item =
        matches!(&follow.item, Node::Path(slot, steps) if *slot == item && steps.is_empty());
    if follow.navigation.many || !from_item {
        return None;
    }
    let filter = over_target(part, follow)?;
    // Where the relation leads nowhere the part must not hold, or items without target are missed.
    let budget = ExecutionBudget::default();
    let context = EvalContext::new(&budget);
    let mut nothing = vec![Value::Undefined; 1];
    if Evaluator::new(&context).eval(&filter, &mut nothing).ok()?.is_true() {
        return None;
    }
    let select = BoundSelect {
        sources: vec![BoundSource {
            slot: TARGET,
            origin: Origin::Value(Node::Path(TARGET, vec![])),
            iterates: false,
        }],
        filter: Some(filter),
        grouping: None,
        order: Order::None,
        projection: Projection::Value(Node::Path(TARGET, vec![])),
        distinct: false,
        top: None,
        offset: 0,
        limit: None,
        reads_items: true,
    };
    let targets = BoundQuery::of(Bound { select, slots: 1, item_slot: TARGET });
    Some(SemiJoin { navigation: follow.navigation.clone(), targets })
}

/// The first relation that a part follows, outside of subqueries.
fn find<'n>(node: &'n Node, found: &mut Option<&'n Follow>) {
    if found.is_some() {
        return;
    }
    match node {
        Node::Follow(follow) => *found = Some(follow),
        Node::Step(of, _) | Node::Unary(_, of) => find(of, found),
        Node::Binary(_, parts) | Node::Like { parts, .. } => {
            parts.iter().for_each(|n| find(n, found));
        }
        Node::Between { parts, .. } | Node::Conditional(parts) => {
            parts.iter().for_each(|n| find(n, found));
        }
        Node::And(list) | Node::Or(list) | Node::Call(_, list) | Node::Array(list) => {
            for n in list {
                find(n, found);
            }
        }
        Node::In { needle, .. } => find(needle, found),
        _ => {}
    }
}

fn all(list: &[Node], follow: &Follow) -> Option<Vec<Node>> {
    list.iter().map(|node| over_target(node, follow)).collect()
}

fn three(parts: &[Node; 3], follow: &Follow) -> Option<Box<[Node; 3]>> {
    let [a, b, c] = parts;
    Some(Box::new([over_target(a, follow)?, over_target(b, follow)?, over_target(c, follow)?]))
}

fn two(parts: &[Node; 2], follow: &Follow) -> Option<Box<[Node; 2]>> {
    let [a, b] = parts;
    Some(Box::new([over_target(a, follow)?, over_target(b, follow)?]))
}

/// The part with the target in place of the relation; `None` if it looks at anything else.
fn over_target(node: &Node, follow: &Follow) -> Option<Node> {
    Some(match node {
        Node::Constant(value) => Node::Constant(value.clone()),
        Node::Follow(other) if is_same(other, follow) => Node::Path(TARGET, vec![]),
        Node::Step(of, step) => match over_target(of, follow)? {
            Node::Path(slot, mut steps) => {
                steps.push(step.clone());
                Node::Path(slot, steps)
            }
            other => Node::Step(Box::new(other), step.clone()),
        },
        Node::Unary(op, of) => Node::Unary(*op, Box::new(over_target(of, follow)?)),
        Node::Binary(op, parts) => Node::Binary(*op, two(parts, follow)?),
        Node::Like { parts, escape, negated } => {
            Node::Like { parts: two(parts, follow)?, escape: *escape, negated: *negated }
        }
        Node::Between { parts, negated } => {
            Node::Between { parts: three(parts, follow)?, negated: *negated }
        }
        Node::Conditional(parts) => Node::Conditional(three(parts, follow)?),
        Node::And(list) => Node::And(all(list, follow)?),
        Node::Or(list) => Node::Or(all(list, follow)?),
        Node::Array(list) => Node::Array(all(list, follow)?),
        Node::Call(function, list) if function.dependence == Dependence::Arguments => {
            Node::Call(function, all(list, follow)?)
        }
        Node::In { needle, list: List::Set(set), negated } => Node::In {
            needle: Box::new(over_target(needle, follow)?),
            list: List::Set(set.clone()),
            negated: *negated,
        },
        _ => return None,
    })
}

fn is_same(a: &Follow, b: &Follow) -> bool {
    let path = |node: &Node| -> Option<(Slot, Vec<Step>)> {
        match node {
            Node::Path(slot, steps) => Some((*slot, steps.clone())),
            _ => None,
        }
    };
    a.navigation.number == b.navigation.number
        && path(&a.item).is_some()
        && path(&a.item) == path(&b.item)
        && path(&a.holder).is_some()
        && path(&a.holder) == path(&b.holder)
}
