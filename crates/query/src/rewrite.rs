//! Constant folding: a node whose parts are constants and whose value depends on nothing else
//! becomes a constant while it is bound, so that it is computed once and not per item.

use orrery_types::ExecutionBudget;

use crate::bound::{List, Node};
use crate::eval::{EvalContext, Evaluator};
use crate::functions::Dependence;

/// Folds one node whose children are folded already.
pub(crate) fn fold(node: Node) -> Node {
    let node = match node {
        Node::Conditional(parts) if matches!(parts[0], Node::Constant(_)) => {
            let [condition, yes, no] = *parts;
            let is_true = matches!(condition, Node::Constant(value) if value.is_true());
            return if is_true { yes } else { no };
        }
        node => node,
    };
    if !is_foldable(&node) {
        return node;
    }
    let budget = ExecutionBudget::default();
    let context = EvalContext::new(&budget);
    let evaluator = Evaluator::new(&context);
    // A constant that cannot be computed within the limits is left to fail when it runs.
    match evaluator.eval(&node, &mut Vec::new()) {
        Ok(value) => Node::Constant(value),
        Err(_) => node,
    }
}

fn is_foldable(node: &Node) -> bool {
    let constant = |node: &Node| matches!(node, Node::Constant(_));
    match node {
        // Plans of the service take nothing for granted of LIKE with an escape.
        Node::Constant(_)
        | Node::Like { escape: Some(_), .. }
        | Node::Path(..)
        | Node::OneOf(_)
        | Node::Udf(..)
        | Node::Subquery(..)
        | Node::Follow(_) => false,
        Node::Step(of, _) | Node::Unary(_, of) => constant(of),
        Node::Binary(_, parts)
        | Node::Vector(_, parts)
        | Node::Like { parts, escape: None, .. } => parts.iter().all(constant),
        Node::Between { parts, .. } | Node::Conditional(parts) => parts.iter().all(constant),
        Node::And(nodes) | Node::Or(nodes) | Node::Array(nodes) => nodes.iter().all(constant),
        Node::Object(properties) => properties.iter().all(|(_, value)| constant(value)),
        Node::In { needle, list, .. } => constant(needle) && matches!(list, List::Set(_)),
        Node::Call(function, arguments) => {
            function.dependence == Dependence::Arguments && arguments.iter().all(constant)
        }
    }
}
