//! Which members of an item a query looks at: the others need not be read.

use std::sync::Arc;

use crate::bound::{BoundSelect, Component, List, Node, Order, Origin, Projection, Slot, Step};
use crate::exec::Run;
use crate::query::BoundQuery;

/// What a source gives of each item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredMembers {
    /// Names at the top of the item; `None` for all.
    pub names: Option<Vec<Arc<str>>>,
    /// Whether the text of the item is wanted: it is the row.
    pub texts: bool,
}

impl BoundQuery {
    /// What one run of the query needs.
    pub fn members(&self, run: &Run) -> RequiredMembers {
        let select = &self.bound.select;
        let item = self.bound.item_slot;
        let is_item = matches!(&select.projection, Projection::Value(Node::Path(slot, steps))
            if *slot == item && steps.is_empty());
        let texts = is_item && select.streams_in_order() && !run.is_counted();
        let mut needed = Needed { item, names: Some(Vec::new()) };
        needed.select(select, !texts);
        if let Some(path) = &run.chosen_order
            && let Some(Step::Name(name)) = crate::plan::steps_of(path).first()
        {
            needed.name(name);
        }
        RequiredMembers { names: needed.names, texts }
    }
}

struct Needed {
    item: Slot,
    names: Option<Vec<Arc<str>>>,
}

impl Needed {
    fn name(&mut self, name: &Arc<str>) {
        if let Some(names) = &mut self.names
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }

    fn select(&mut self, select: &BoundSelect, with_projection: bool) {
        for source in &select.sources {
            match &source.origin {
                Origin::Value(Node::Path(slot, steps))
                    if *slot == self.item && steps.is_empty() && source.slot == self.item => {}
                Origin::Value(node) => self.node(node),
                Origin::Rows(inner) => self.select(inner, true),
            }
        }
        select.filter.iter().for_each(|node| self.node(node));
        if let Some(grouping) = &select.grouping {
            grouping.keys.iter().for_each(|(_, node)| self.node(node));
            grouping.aggregates.iter().for_each(|(_, _, node)| self.node(node));
        }
        match &select.order {
            Order::None => {}
            Order::Keys(keys) => keys.iter().for_each(|(node, _)| self.node(node)),
            Order::Rank(rank) => {
                for component in &rank.components {
                    match component {
                        Component::Text(node, _) => self.node(node),
                        Component::Vector(_, parts) => parts.iter().for_each(|n| self.node(n)),
                    }
                }
            }
        }
        match &select.projection {
            _ if !with_projection => {}
            Projection::Value(node) => self.node(node),
            Projection::Properties(list) => list.iter().for_each(|(_, node)| self.node(node)),
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Path(slot, steps) if *slot == self.item => match steps.first() {
                Some(Step::Name(name)) => self.name(name),
                // An item is no array; what remains is the item itself.
                Some(Step::Index(_)) => {}
                None => self.names = None,
            },
            Node::Constant(_) | Node::Path(..) => {}
            Node::Step(of, _) | Node::Unary(_, of) => self.node(of),
            Node::Binary(_, parts) | Node::Vector(_, parts) | Node::Like { parts, .. } => {
                parts.iter().for_each(|node| self.node(node));
            }
            Node::Between { parts, .. } | Node::Conditional(parts) => {
                parts.iter().for_each(|node| self.node(node));
            }
            Node::And(list)
            | Node::Or(list)
            | Node::Call(_, list)
            | Node::Udf(_, list)
            | Node::Array(list) => list.iter().for_each(|node| self.node(node)),
            Node::OneOf(one_of) => one_of.paths.iter().for_each(|node| self.node(node)),
            Node::In { needle, list, .. } => {
                self.node(needle);
                if let List::Nodes(nodes) = list {
                    for node in nodes {
                        self.node(node);
                    }
                }
            }
            Node::Object(list) => list.iter().for_each(|(_, node)| self.node(node)),
            Node::Subquery(_, select) => self.select(select, true),
            Node::Follow(follow) => {
                for node in [&follow.item, &follow.holder] {
                    match node {
                        // Of the item itself the relation needs a few members.
                        Node::Path(slot, steps) if *slot == self.item && steps.is_empty() => {
                            follow.navigation.members.iter().for_each(|name| self.name(name));
                        }
                        node => self.node(node),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContainerFacts, Query};

    #[test]
    fn only_what_is_named_is_needed() {
        let check = |text: &str, names: Option<&[&str]>, texts: bool| {
            let bound = Query::parse(text).unwrap().bind(&[], &ContainerFacts::default()).unwrap();
            let members = bound.members(&Run::over_keys(None));
            let got = members.names.map(|names| names.iter().map(ToString::to_string).collect());
            let names: Option<Vec<String>> =
                names.map(|names| names.iter().map(|n| (*n).to_owned()).collect());
            assert_eq!((got, members.texts), (names, texts), "{text}");
        };
        check("SELECT * FROM c", Some(&[]), true);
        check("SELECT * FROM c WHERE c.a.b = 1 ORDER BY c.d", Some(&["a", "d"]), true);
        check("SELECT VALUE c FROM c WHERE c.a = 1", Some(&["a"]), true);
        check("SELECT c FROM c", None, false);
        check("SELECT DISTINCT * FROM c", None, false);
        check(
            "SELECT VALUE c.a FROM c JOIN t IN c.t WHERE t.x = c.y",
            Some(&["t", "y", "a"]),
            false,
        );
        check("SELECT VALUE COUNT(1) FROM c", Some(&[]), false);
        check(
            "SELECT VALUE EXISTS(SELECT 1 FROM t IN c.l WHERE t = c.m) FROM c",
            Some(&["l", "m"]),
            false,
        );
        check("SELECT VALUE udf.f(c) FROM c", None, false);
        check("SELECT VALUE s.a FROM (SELECT VALUE c FROM c) s", None, false);
        check("SELECT c.a, SUM(c.b) FROM c GROUP BY c.a", Some(&["a", "b"]), false);
    }
}
