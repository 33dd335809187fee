//! Long disjunctions: `(c.id = 1 AND c.pk = 2) OR (c.id = 3 AND c.pk = 4) OR …`, as SDKs generate them to read
//! many items at once. Conjunctions of equalities over the same paths become one lookup in a set, so the
//! cost of a row does not depend on their number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orrery_types::Value;

use crate::ast::BinaryOp;
use crate::bound::{List, Node, OneOf, Slot, Step};

/// Conjunctions that are looked up; fewer are sooner compared.
const CONJUNCTIONS_MIN: usize = 8;

type Path = (Slot, Vec<Step>);

/// Conjunctions over the same paths, each with its values.
type Members = Vec<(Node, Vec<Value>)>;

/// A conjunction of equalities, by its paths.
struct Conjunction {
    paths: Vec<Path>,
    values: Vec<Value>,
}

/// An OR, with lookups in place of conjunctions that are alike.
pub(super) fn disjunction(operands: Vec<Node>) -> Node {
    if operands.len() < CONJUNCTIONS_MIN {
        return Node::Or(operands);
    }
    let mut rest = Vec::new();
    let mut places: HashMap<Vec<Path>, usize> = HashMap::new();
    let mut groups: Vec<(Vec<Path>, Members)> = Vec::new();
    for operand in operands {
        let Some(Conjunction { paths, values }) = conjunction(&operand) else {
            rest.push(operand);
            continue;
        };
        let place = *places.entry(paths.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((paths, Vec::new()));
        }
        groups[place].1.push((operand, values));
    }
    for (paths, members) in groups {
        if members.len() < CONJUNCTIONS_MIN {
            rest.extend(members.into_iter().map(|(operand, _)| operand));
        } else {
            rest.push(lookup(paths, members.into_iter().map(|(_, values)| values)));
        }
    }
    match rest.len() {
        1 => rest.remove(0),
        _ => Node::Or(rest),
    }
}

fn lookup(paths: Vec<Path>, lists: impl Iterator<Item = Vec<Value>>) -> Node {
    let mut paths: Vec<Node> =
        paths.into_iter().map(|(slot, steps)| Node::Path(slot, steps)).collect();
    if paths.len() == 1 {
        let set = List::Set(Arc::new(lists.flatten().collect()));
        return Node::In { needle: Box::new(paths.remove(0)), list: set, negated: false };
    }
    let mut set: HashSet<Arc<[Value]>> = HashSet::new();
    let list =
        lists.map(Arc::<[Value]>::from).filter(|values| set.insert(values.clone())).collect();
    Node::OneOf(Arc::new(OneOf { paths, list, set }))
}

/// The equalities of an operand, sorted by path; `None` if it is anything else.
fn conjunction(operand: &Node) -> Option<Conjunction> {
    let parts = match operand {
        Node::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut pairs: Vec<(Path, Value)> = parts.iter().map(equality).collect::<Option<_>>()?;
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    if pairs.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let (paths, values) = pairs.into_iter().unzip();
    Some(Conjunction { paths, values })
}

/// A path and the value that it must have.
fn equality(node: &Node) -> Option<(Path, Value)> {
    let Node::Binary(BinaryOp::Equal, parts) = node else { return None };
    match &**parts {
        [Node::Path(slot, steps), Node::Constant(value)]
        | [Node::Constant(value), Node::Path(slot, steps)]
            if !value.is_undefined() =>
        {
            Some(((*slot, steps.clone()), value.clone()))
        }
        _ => None,
    }
}
