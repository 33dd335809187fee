//! Names of relations. While a query is bound, the binder knows for many values in which container's item they
//! are and by which path. At such a value a name may be that of a relation.

use std::sync::Arc;

use orrery_types::limits;

use super::{Binder, ITEM_SLOT};
use crate::ast::Span;
use crate::bound::{BoundSelect, Node, Origin, Projection, Slot, Step};
use crate::error::QueryError;
use crate::relation::{Follow, HolderStep};

/// Where a value stands.
#[derive(Clone)]
pub(super) struct Standing {
    /// The container of the item.
    container: usize,
    /// The item.
    item: Node,
    /// From the item to the value.
    steps: Vec<HolderStep>,
    /// Relations that led to the item.
    depth: usize,
    /// Whether the value is a list of items, and not in one.
    is_list: bool,
}

impl Standing {
    /// The same, one step further; `node` is the value there.
    fn further(mut self, step: &Step, node: impl FnOnce() -> Node) -> Option<Self> {
        match (step, self.is_list) {
            (Step::Index(_), true) => {
                self.is_list = false;
                self.item = node();
            }
            (Step::Name(_), true) => return None,
            (Step::Index(_), false) => self.steps.push(HolderStep::Element),
            (Step::Name(name), false) => self.steps.push(HolderStep::Name(name.clone())),
        }
        Some(self)
    }

    fn is_item(&self) -> bool {
        self.steps.is_empty() && !self.is_list
    }
}

/// Whether the item of a value is still at hand behind the subquery that gave the value: it is the
/// value itself, or that of the whole query while the subquery's rows come one by one.
fn is_bound_behind(at: &Standing, rows: &BoundSelect) -> bool {
    let of_query = matches!(&at.item, Node::Path(ITEM_SLOT, steps) if steps.is_empty());
    at.is_item() || (of_query && (!rows.reads_items || rows.streams()))
}

impl Binder<'_> {
    /// Where the value of an expression stands, if that is known.
    fn standing(&self, node: &Node) -> Option<Standing> {
        let relations = self.facts.relations?;
        match node {
            Node::Path(slot, steps) => {
                let mut at = match self.standings.get(slot) {
                    Some(known) => known.clone(),
                    None if *slot == ITEM_SLOT => Standing {
                        container: relations.root(),
                        item: Node::Path(ITEM_SLOT, vec![]),
                        steps: vec![],
                        depth: 0,
                        is_list: false,
                    },
                    None => return None,
                };
                for (number, step) in steps.iter().enumerate() {
                    at = at.further(step, || Node::Path(*slot, steps[..=number].to_vec()))?;
                }
                Some(at)
            }
            Node::Step(of, step) => self.standing(of)?.further(step, || node.clone()),
            Node::Follow(follow) => Some(Standing {
                container: follow.navigation.target,
                item: node.clone(),
                steps: vec![],
                depth: follow.depth,
                is_list: follow.navigation.many,
            }),
            _ => None,
        }
    }

    /// What a name leads to from a value, if it is that of a relation.
    pub(super) fn relation(
        &self,
        of: &Node,
        name: &Arc<str>,
        span: Span,
    ) -> Result<Option<Node>, QueryError> {
        let Some(relations) = self.facts.relations else { return Ok(None) };
        let Some(at) = self.standing(of).filter(|at| !at.is_list) else { return Ok(None) };
        let Some(navigation) = relations.find(at.container, &at.steps, name) else {
            return Ok(None);
        };
        let depth = at.depth + 1;
        if depth > limits::MODEL_EXPAND_DEPTH_MAX {
            let message = format!(
                "'{name}' is the relation number {depth} in a row; at most {} may follow one another.",
                limits::MODEL_EXPAND_DEPTH_MAX
            );
            return Err(self.error(span, "SC2001", message));
        }
        let follow = Follow { navigation, item: at.item, holder: of.clone(), depth };
        Ok(Some(Node::Follow(Box::new(follow))))
    }

    /// Remembers where the values of a source stand.
    pub(super) fn stand(&mut self, slot: Slot, origin: &Origin, iterates: bool) {
        if slot == ITEM_SLOT {
            return;
        }
        let own = || Node::Path(slot, vec![]);
        let at = match origin {
            Origin::Value(node) => self.standing(node),
            Origin::Rows(rows) => match &rows.projection {
                Projection::Value(node) if rows.grouping.is_none() => {
                    self.standing(node).filter(|at| is_bound_behind(at, rows))
                }
                _ => None,
            },
        };
        let Some(mut at) = at else { return };
        match (at.is_list, iterates) {
            (true, true) => {
                at.is_list = false;
                at.item = own();
            }
            (false, true) if at.is_item() => return,
            (false, true) => at.steps.push(HolderStep::Element),
            (_, false) if at.is_item() => at.item = own(),
            (_, false) => {}
        }
        self.standings.insert(slot, at);
    }
}

/// An order by what a relation leads to would have to load everything first.
pub(super) fn refuse_relation(node: &Node) -> Result<(), QueryError> {
    let Some(path) = node.relation() else { return Ok(()) };
    Err(QueryError::runtime(format!(
        "ORDER BY over the relation '{path}' is not supported: declare a copy of the property in \
         the model (\"copies\") and order by the copy."
    )))
}
