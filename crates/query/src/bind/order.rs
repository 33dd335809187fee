//! ORDER BY: keys must be paths of the item or scores, and the index must serve their order.

use orrery_index::IndexStep;

use super::{Binder, ITEM_SLOT};
use crate::ast::{Direction, Expr, ExprKind, OrderBy, Select, SortKey};
use crate::bound::{Node, Order, Step};
use crate::error::QueryError;
use crate::facts::OrderKey;

impl<'a> Binder<'a> {
    pub(super) fn order(&mut self, select: &'a Select) -> Result<Order, QueryError> {
        let keys = match &select.order_by {
            None => return Ok(Order::None),
            Some(OrderBy::Rank(scores)) => return self.rank(select, scores),
            Some(OrderBy::Keys(keys)) => keys,
        };
        if !select.group_by.is_empty() {
            return Err(QueryError::runtime(
                "'ORDER BY' is not supported together with 'GROUP BY'.",
            ));
        }
        if let [SortKey { expr, direction }] = keys.as_slice()
            && let ExprKind::Call(name, _) = &*expr.kind
            && (name.eq_ignore_ascii_case("VectorDistance")
                || name.eq_ignore_ascii_case("_FullTextScore"))
        {
            return self.score_order(name, expr, *direction);
        }
        let mut bound = Vec::with_capacity(keys.len());
        let mut paths = Vec::with_capacity(keys.len());
        for key in keys {
            let direction = key.direction.unwrap_or(Direction::Ascending);
            let (path, computed) = self.order_path(&key.expr)?;
            paths.push(OrderKey { path, direction, computed });
            let node = self.expr(&key.expr)?;
            super::relation::refuse_relation(&node)?;
            bound.push((node, direction));
        }
        self.check_support(&paths)?;
        Ok(Order::Keys(bound))
    }

    fn check_support(&self, keys: &[OrderKey]) -> Result<(), QueryError> {
        let Some(support) = self.facts.order else { return Ok(()) };
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
    fn score_order(
        &mut self,
        name: &str,
        expr: &'a Expr,
        direction: Option<Direction>,
    ) -> Result<Order, QueryError> {
        let node = self.expr(expr)?;
        let Node::Vector(metric, _) = &node else {
            return Ok(Order::Keys(vec![(node, direction.unwrap_or(Direction::Ascending))]));
        };
        if direction.is_some() {
            return Err(QueryError::runtime(format!(
                "Specifying a sorting order (ASC or DESC) with {name} function is not supported."
            )));
        }
        let direction =
            if metric.greater_is_nearer() { Direction::Descending } else { Direction::Ascending };
        Ok(Order::Keys(vec![(node, direction)]))
    }

    /// The path of a key from the root of the item, and whether it is a computed property.
    fn order_path(&self, expr: &Expr) -> Result<(Vec<IndexStep>, bool), QueryError> {
        let unmapped = || {
            let message = "Unsupported ORDER BY clause. ORDER BY item expression could not be \
                           mapped to a document path.";
            self.error(expr.span, "2206", message)
        };
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
        let Some((_, alias)) = self.alias(name) else {
            let message = format!("Identifier '{name}' could not be resolved.");
            return Err(self.error(at.span, "SC2001", message));
        };
        if alias.correlated {
            return Err(QueryError::runtime(
                "Order-by over correlated collections is not supported.",
            ));
        }
        let Some(prefix) = &alias.path else { return Err(unmapped()) };
        if prefix.is_empty() && steps.is_empty() {
            return Err(unmapped());
        }
        let computed = alias.is_item()
            && matches!(steps.last(), Some(IndexStep::Property(name))
                if self.facts.computed.iter().any(|p| p.name() == &**name));
        let prefix = prefix.iter().map(|step| match step {
            Step::Name(name) => IndexStep::Property((**name).into()),
            Step::Index(_) => IndexStep::Elements,
        });
        debug_assert!(alias.slot == ITEM_SLOT || !alias.is_item());
        Ok((prefix.chain(steps.into_iter().rev()).collect(), computed))
    }
}
