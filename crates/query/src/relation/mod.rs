//! Relations of a model as the language sees them: names that hang on an object of an item and lead
//! to other items. They are virtual: absent from the item itself, there when a query names them. The
//! binder knows where in which item a value stands and asks [`Relations`] whether a name leads on
//! from there; the evaluator asks the [`RelationHost`] for what it leads to.
//!
//! `semi_join` finds the parts of a filter that only look at what a relation leads to; `parts` looks
//! into lists that need not be loaded whole.

pub(crate) mod parts;
mod semi_join;

use std::sync::Arc;

use orrery_types::Value;

use crate::bound::{BoundSelect, Component, List, Node, Order, Origin, Projection, Step};
use crate::query::BoundQuery;

pub use semi_join::SemiJoin;

/// One step from an item to the object that a name hangs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderStep {
    /// To a property.
    Name(Arc<str>),
    /// To an element of an array.
    Element,
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub struct Navigation {
    /// By which the host knows it.
    pub number: usize,
    /// The container of the items that it leads to, by the number that [`Relations`] gave it.
    pub target: usize,
    /// Whether it leads to a list of items.
    pub many: bool,
    /// Members of the item that the host has to see.
    pub members: Arc<[Arc<str>]>,
    /// For reports: the path of the name from the item.
    pub path: Arc<str>,
}

/// The relations that queries of a container can follow.
pub trait Relations {
    /// The container of the query.
    fn root(&self) -> usize;
    /// What a name leads to on an object of an item of a container.
    fn find(&self, container: usize, holder: &[HolderStep], name: &str) -> Option<Navigation>;
}

/// Follows relations while a query runs.
pub trait RelationHost {
    /// What the name of a navigation is for an item and the object in it that the name hangs on.
    fn follow(&self, number: usize, item: &Value, holder: &Value) -> orrery_types::Result<Value>;

    /// The lengths of the parts in which a list is kept; `None` if it is not kept in parts.
    fn parts(
        &self,
        _number: usize,
        _item: &Value,
        _holder: &Value,
    ) -> orrery_types::Result<Option<Vec<u64>>> {
        Ok(None)
    }

    /// Called after each item of the query: whether so much was loaded for it and those before it that
    /// the page should end here.
    fn end_item(&self) -> bool {
        false
    }

    /// The elements of one of these parts.
    fn part(
        &self,
        _number: usize,
        _item: &Value,
        _holder: &Value,
        _at: usize,
    ) -> orrery_types::Result<Vec<Value>> {
        Ok(vec![])
    }
}

/// A relation followed.
#[derive(Clone, Debug)]
pub(crate) struct Follow {
    pub(crate) navigation: Navigation,
    /// The item.
    pub(crate) item: Node,
    /// The object in it that the name hangs on.
    pub(crate) holder: Node,
    /// How many relations lead here, this one included.
    pub(crate) depth: usize,
}

/// A relation that a query follows.
#[derive(Clone, Debug)]
pub struct Followed {
    /// What it leads to.
    pub navigation: Navigation,
    /// Whether it starts at the items of the query themselves.
    pub from_items: bool,
    /// Properties that are read of what it leads to; none if the whole is.
    pub fields: Vec<Arc<str>>,
    /// How often it stands in the query, and how often a property is read of it.
    uses: (usize, usize),
}

impl Followed {
    /// Whether nothing but properties is read of what it leads to.
    pub fn reads_fields(&self) -> bool {
        self.uses.0 <= self.uses.1
    }

    /// The path of the name, and the properties that are read there.
    pub fn path_and_fields(self) -> (String, Vec<String>) {
        let fields = if self.reads_fields() { self.fields } else { vec![] };
        let fields = fields.iter().map(ToString::to_string).collect();
        (self.navigation.path.to_string(), fields)
    }
}

impl BoundQuery {
    /// The relations that the query follows, each once, those that start at its items first.
    pub fn relations(&self) -> Vec<Followed> {
        let item = self.bound.item_slot;
        let mut found: Vec<Followed> = Vec::new();
        let mut read: Vec<(usize, Arc<str>)> = Vec::new();
        self.bound.select.for_each_node(&mut |node| {
            if let Node::Step(of, Step::Name(field)) = node
                && let Node::Follow(follow) = &**of
            {
                read.push((follow.navigation.number, field.clone()));
            }
            let Node::Follow(follow) = node else { return };
            let is = |f: &Followed| f.navigation.number == follow.navigation.number;
            let from_items =
                matches!(&follow.item, Node::Path(slot, steps) if *slot == item && steps.is_empty());
            match found.iter_mut().find(|f| is(f)) {
                Some(known) => {
                    known.from_items |= from_items;
                    known.uses.0 += 1;
                }
                None => found.push(Followed {
                    navigation: follow.navigation.clone(),
                    from_items,
                    fields: vec![],
                    uses: (1, 0),
                }),
            }
        });
        for (number, field) in read {
            let Some(known) = found.iter_mut().find(|f| f.navigation.number == number) else {
                continue;
            };
            known.uses.1 += 1;
            if !known.fields.contains(&field) {
                known.fields.push(field);
            }
        }
        found.sort_by_key(|f| !f.from_items);
        found
    }

    /// Whether each row is a whole item.
    pub fn selects_items(&self) -> bool {
        let select = &self.bound.select;
        let is_item = matches!(&select.projection, Projection::Value(Node::Path(slot, steps))
            if *slot == self.bound.item_slot && steps.is_empty());
        is_item && select.grouping.is_none()
    }

    /// Whether the filter decides about items that a scan reads.
    pub fn filters(&self) -> bool {
        self.bound.select.filter.is_some()
    }
}

impl Node {
    /// Calls back for the node and everything in it.
    pub(crate) fn for_each_node(&self, f: &mut dyn FnMut(&Node)) {
        f(self);
        match self {
            Self::Constant(_) | Self::Path(..) => {}
            Self::Step(of, _) | Self::Unary(_, of) => of.for_each_node(f),
            Self::Binary(_, parts) | Self::Vector(_, parts) | Self::Like { parts, .. } => {
                parts.iter().for_each(|node| node.for_each_node(f));
            }
            Self::Between { parts, .. } | Self::Conditional(parts) => {
                parts.iter().for_each(|node| node.for_each_node(f));
            }
            Self::And(list)
            | Self::Or(list)
            | Self::Call(_, list)
            | Self::Udf(_, list)
            | Self::Array(list) => list.iter().for_each(|node| node.for_each_node(f)),
            Self::OneOf(one_of) => one_of.paths.iter().for_each(|node| node.for_each_node(f)),
            Self::In { needle, list, .. } => {
                needle.for_each_node(f);
                if let List::Nodes(nodes) = list {
                    for node in nodes {
                        node.for_each_node(f);
                    }
                }
            }
            Self::Object(list) => list.iter().for_each(|(_, node)| node.for_each_node(f)),
            Self::Subquery(_, select) => select.for_each_node(f),
            Self::Follow(follow) => {
                follow.item.for_each_node(f);
                follow.holder.for_each_node(f);
            }
        }
    }

    /// The path of the first relation that it follows.
    pub(crate) fn relation(&self) -> Option<Arc<str>> {
        let mut found = None;
        self.for_each_node(&mut |node| {
            if let Node::Follow(follow) = node {
                found.get_or_insert_with(|| follow.navigation.path.clone());
            }
        });
        found
    }
}

impl BoundSelect {
    /// Calls back for every node of every clause.
    pub(crate) fn for_each_node(&self, f: &mut dyn FnMut(&Node)) {
        for source in &self.sources {
            match &source.origin {
                Origin::Value(node) => node.for_each_node(f),
                Origin::Rows(inner) => inner.for_each_node(f),
            }
        }
        self.filter.iter().for_each(|node| node.for_each_node(f));
        if let Some(grouping) = &self.grouping {
            grouping.keys.iter().for_each(|(_, node)| node.for_each_node(f));
            grouping.aggregates.iter().for_each(|(_, _, node)| node.for_each_node(f));
        }
        match &self.order {
            Order::None => {}
            Order::Keys(keys) => keys.iter().for_each(|(node, _)| node.for_each_node(f)),
            Order::Rank(rank) => {
                for component in &rank.components {
                    match component {
                        Component::Text(node, _) => node.for_each_node(f),
                        Component::Vector(_, parts) => {
                            parts.iter().for_each(|node| node.for_each_node(f));
                        }
                    }
                }
            }
        }
        match &self.projection {
            Projection::Value(node) => node.for_each_node(f),
            Projection::Properties(list) => list.iter().for_each(|(_, node)| node.for_each_node(f)),
        }
    }
}

#[cfg(test)]
mod tests;
