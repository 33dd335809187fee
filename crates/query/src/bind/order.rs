//! ORDER BY: keys must be paths of the item or scores, and the index must serve their order.

use orrery_index::IndexStep;

use super::{Binder, Columns, ITEM_SLOT, selects_aggregate, visit};
use crate::ast::{Direction, Expr, ExprKind, OrderBy, Select, SortKey, Span};
use crate::bound::{Node, Order, Step};
use crate::error::QueryError;
use crate::facts::OrderKey;

pub(super) fn order<'a>(binder: &mut Binder<'a>, select: &'a Select) -> Result<Order, QueryError> {
    let keys = match &select.order_by {
        None => return Ok(Order::None),
        Some(OrderBy::Rank(score)) => return super::rank::rank(binder, select, score),
        Some(OrderBy::Keys(keys)) => keys,
    };
    if !select.group_by.is_empty() {
        return grouped_order(binder, select, keys);
    }
    if selects_aggregate(&select.selection) {
        // One row has no order; its keys only have to mean something.
        for key in keys {
            check_names(binder, &key.expr)?;
            let by_vector = super::call_of(&key.expr, "VectorDistance").is_some();
            if by_vector && key.direction.is_some() {
                return Err(directed(binder, "VectorDistance", key.span));
            }
        }
        return Ok(Order::None);
    }
    if let [key @ SortKey { expr, .. }] = keys.as_slice()
        && let ExprKind::Call(name, _) = &*expr.kind
        && (name.eq_ignore_ascii_case("VectorDistance")
            || name.eq_ignore_ascii_case("_VectorScore")
            || name.eq_ignore_ascii_case("_FullTextScore"))
    {
        return score_order(binder, name, key);
    }
    let mut bound = Vec::with_capacity(keys.len());
    let mut paths = Vec::with_capacity(keys.len());
    for key in keys {
        let direction = key.direction.unwrap_or(Direction::Ascending);
        let node = binder.expr(&key.expr)?;
        if !is_planned_key(binder, &key.expr, &node) {
            let branch = chosen_branch(binder, &key.expr)?;
            let path = order_path(binder, branch)?;
            paths.extend(path.map(|(path, computed)| OrderKey { path, direction, computed }));
        }
        super::relation::refuse_relation(&node)?;
        bound.push((node, direction));
    }
    check_support(binder, &paths)?;
    Ok(Order::Keys(bound))
}

/// The keys of a grouped query are among those of its groups.
fn grouped_order<'a>(
    binder: &mut Binder<'a>,
    select: &'a Select,
    keys: &'a [SortKey],
) -> Result<Order, QueryError> {
    let mut bound = Vec::with_capacity(keys.len());
    for key in keys {
        check_names(binder, &key.expr)?;
        if !is_names(&key.expr) || !select.group_by.contains(&key.expr) {
            let (mut outside, mut seen) = (None, Vec::<Span>::new());
            visit(&key.expr, &mut |e| {
                let is_part = seen.iter().any(|s| s.start <= e.span.start && e.span.end <= s.end);
                if !is_names(e) || is_part {
                    return;
                }
                seen.push(e.span);
                if outside.is_none() && !select.group_by.contains(e) {
                    outside = Some(e);
                }
            });
            let Some(outside) = outside else { return Err(unmapped()) };
            let reference = &binder.text[outside.span.start..outside.span.end];
            let message = format!(
                "Property reference '{reference}' is invalid in the ORDER BY clause because it \
                 is not contained in either an aggregate function or the GROUP BY clause."
            );
            return Err(binder.error(outside.span, "SC2103", message));
        }
        let node = binder.expr(&key.expr)?;
        bound.push((node, key.direction.unwrap_or(Direction::Ascending)));
    }
    Ok(Order::Keys(bound))
}

/// Refuses names that mean nothing.
pub(super) fn check_names<'a>(binder: &mut Binder<'a>, key: &'a Expr) -> Result<(), QueryError> {
    let mut error = None;
    visit(key, &mut |e| {
        if let ExprKind::Identifier(name) = &*e.kind
            && binder.alias(name).is_none()
        {
            let message = format!("Identifier '{name}' could not be resolved.");
            error = Some(binder.error(e.span, "SC2001", message));
        }
    });
    error.map_or(Ok(()), Err)
}

/// The branch that a key amounts to, where conditions decide that do not depend on the item.
fn chosen_branch<'a>(binder: &mut Binder<'a>, mut expr: &'a Expr) -> Result<&'a Expr, QueryError> {
    while let ExprKind::Conditional(condition, yes, no) = &*expr.kind {
        let Node::Constant(value) = binder.expr(condition)? else { break };
        expr = if value.is_true() { yes } else { no };
    }
    Ok(expr)
}

/// What is planned although it is refused when it runs: a distance on Earth, the item itself, elements
/// of an array of the item; and what amounts to a path.
fn is_planned_key(binder: &Binder<'_>, expr: &Expr, node: &Node) -> bool {
    if !binder.facts.planning {
        return false;
    }
    match &*expr.kind {
        ExprKind::Call(name, _) => name.eq_ignore_ascii_case("ST_DISTANCE"),
        ExprKind::Identifier(name) => binder.alias(name).is_some_and(|(_, alias)| {
            (!alias.correlated || alias.path.is_none())
                && !matches!(alias.columns, Some(Columns::Named(_)))
        }),
        ExprKind::Conditional(..) => matches!(node, Node::Path(..)),
        _ => false,
    }
}

fn directed(binder: &Binder<'_>, name: &str, span: Span) -> QueryError {
    let message =
        format!("Specifying a sorting order (ASC or DESC) with {name} function is not supported.");
    binder.error(span, "SC2210", message)
}

fn check_support(binder: &Binder<'_>, keys: &[OrderKey]) -> Result<(), QueryError> {
    let Some(support) = binder.facts.order else { return Ok(()) };
    match keys {
        [key] if !support.is_indexed(key) => Err(QueryError::runtime(
            "The index path corresponding to the specified order-by item is excluded.",
        )),
        [_, _, ..] if !support.has_composite(keys) => Err(QueryError::runtime(
            "The order by query does not have a corresponding composite index that it can be \
             served from.",
        )),
        _ => Ok(()),
    }
}

/// Nearest first: what that means is the metric's affair, so no direction may be written.
fn score_order<'a>(
    binder: &mut Binder<'a>,
    name: &str,
    key: &'a SortKey,
) -> Result<Order, QueryError> {
    let direction = key.direction;
    let node = binder.expr(&key.expr)?;
    if name.eq_ignore_ascii_case("_VectorScore") {
        let direction = direction.unwrap_or(Direction::Descending);
        return Ok(Order::Keys(vec![(node, direction)]));
    }
    let Node::Vector(metric, _) = &node else {
        return Ok(Order::Keys(vec![(node, direction.unwrap_or(Direction::Ascending))]));
    };
    if direction.is_some() {
        return Err(directed(binder, name, key.span));
    }
    let direction =
        if metric.greater_is_nearer() { Direction::Descending } else { Direction::Ascending };
    Ok(Order::Keys(vec![(node, direction)]))
}

/// The path of a key from the root of the item, and whether it is a computed property; `None` for a
/// value that a subquery computes.
fn order_path(
    binder: &Binder<'_>,
    expr: &Expr,
) -> Result<Option<(Vec<IndexStep>, bool)>, QueryError> {
    let mut steps = Vec::new();
    let mut at = expr;
    let name = loop {
        match &*at.kind {
            ExprKind::Identifier(name) => break name,
            ExprKind::Member(of, name) => {
                steps.push(IndexStep::Property((**name).into()));
                at = of;
            }
            ExprKind::Index(of, index) => match &*index.kind {
                ExprKind::Literal(value) if value.as_i64().is_some() => {
                    steps.push(IndexStep::Elements);
                    at = of;
                }
                _ => return Err(unmapped()),
            },
            _ => return Err(unmapped()),
        }
    };
    steps.reverse();
    let Some((_, alias)) = binder.alias(name) else {
        let message = format!("Identifier '{name}' could not be resolved.");
        return Err(binder.error(at.span, "SC2001", message));
    };
    if alias.correlated && !(binder.facts.planning && alias.columns.is_some()) {
        return Err(QueryError::runtime("Order-by over correlated collections is not supported."));
    }
    let (prefix, steps) = match (&alias.path, &alias.columns, steps.split_first()) {
        (Some(path), ..) => (path.clone(), steps.as_slice()),
        (None, Some(Columns::Any), _) => return Ok(None),
        (None, Some(Columns::Named(list)), Some((IndexStep::Property(name), rest))) => {
            match list.iter().find(|(column, _)| **column == **name) {
                Some((_, Some(path))) => (path.clone(), rest),
                Some((_, None)) => return Ok(None),
                None => return Err(unmapped()),
            }
        }
        _ => return Err(unmapped()),
    };
    if prefix.is_empty() && steps.is_empty() {
        return Err(unmapped());
    }
    let computed = alias.is_item()
        && matches!(steps.last(), Some(IndexStep::Property(name))
            if binder.facts.computed.iter().any(|p| p.name() == &**name));
    let prefix = prefix.iter().map(|step| match step {
        Step::Name(name) => IndexStep::Property((**name).into()),
        Step::Index(_) => IndexStep::Elements,
    });
    debug_assert!(alias.slot == ITEM_SLOT || !alias.is_item());
    Ok(Some((prefix.chain(steps.iter().cloned()).collect(), computed)))
}

/// The code of a key that is no path.
pub(super) const UNMAPPED: &str = "2206";

fn unmapped() -> QueryError {
    let message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a \
                   document path.";
    QueryError::unplaced(UNMAPPED, message)
}

/// Whether it is a path of names alone.
fn is_names(expr: &Expr) -> bool {
    match &*expr.kind {
        ExprKind::Identifier(_) => true,
        ExprKind::Member(of, _) => is_names(of),
        _ => false,
    }
}
