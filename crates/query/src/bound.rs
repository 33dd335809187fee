//! The bound tree: names resolved to slots, parameters to constants, calls to functions. The
//! binder makes it, the evaluator and executor read it.
//!
//! A *slot* is a place in the environment of one execution: one for the item, one for each alias,
//! each group key and each aggregate, in all subqueries together. Binding an alias is writing its
//! slot, so a correlated subquery sees the outer aliases without further ado.

use std::collections::HashSet;
use std::sync::Arc;

use orrery_types::Value;

use crate::ast::{BinaryOp, Direction, SubqueryKind, UnaryOp};
use crate::functions::Function;
use crate::functions::aggregate::AggregateFunction;
use crate::functions::vector::Metric;
use crate::relation::Follow;

/// A place in the environment.
pub(crate) type Slot = usize;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    Name(Arc<str>),
    Index(usize),
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Constant(Value),
    /// A slot and the steps from its value.
    Path(Slot, Vec<Step>),
    /// A step from a computed value.
    Step(Box<Node>, Step),
    Unary(UnaryOp, Box<Node>),
    Binary(BinaryOp, Box<[Node; 2]>),
    And(Vec<Node>),
    Or(Vec<Node>),
    /// Any of many conjunctions of equalities.
    OneOf(Arc<OneOf>),
    In {
        needle: Box<Node>,
        list: List,
        negated: bool,
    },
    /// The value, the least and the greatest.
    Between {
        parts: Box<[Node; 3]>,
        negated: bool,
    },
    Like {
        parts: Box<[Node; 2]>,
        escape: Option<char>,
        negated: bool,
    },
    Conditional(Box<[Node; 3]>),
    Call(&'static Function, Vec<Node>),
    Udf(Arc<str>, Vec<Node>),
    Vector(Metric, Box<[Node; 2]>),
    Array(Vec<Node>),
    /// Names are distinct.
    Object(Vec<(Arc<str>, Node)>),
    Subquery(SubqueryKind, Box<BoundSelect>),
    /// What a relation leads to.
    Follow(Box<Follow>),
}

/// The right side of IN.
#[derive(Clone, Debug)]
pub(crate) enum List {
    /// All constants: one lookup however long the list.
    Set(Arc<HashSet<Value>>),
    Nodes(Vec<Node>),
}

/// Many conjunctions of equalities over the same paths: one lookup however many there are.
#[derive(Debug)]
pub(crate) struct OneOf {
    /// The paths, each once.
    pub(crate) paths: Vec<Node>,
    /// The values at the paths, one list for each conjunction, in the order of the text.
    pub(crate) list: Vec<Arc<[Value]>>,
    /// The same for looking up.
    pub(crate) set: HashSet<Arc<[Value]>>,
}

impl OneOf {
    /// The values at one of the paths.
    pub(crate) fn column(&self, path: usize) -> impl Iterator<Item = &Value> {
        self.list.iter().filter_map(move |values| values.get(path))
    }
}

/// A query or subquery.
#[derive(Clone, Debug)]
pub(crate) struct BoundSelect {
    pub(crate) sources: Vec<BoundSource>,
    pub(crate) filter: Option<Node>,
    pub(crate) grouping: Option<Grouping>,
    pub(crate) order: Order,
    pub(crate) projection: Projection,
    pub(crate) distinct: bool,
    pub(crate) top: Option<u64>,
    pub(crate) offset: u64,
    pub(crate) limit: Option<u64>,
    /// Whether it draws on the items of the container, itself or through its first source.
    pub(crate) reads_items: bool,
}

impl BoundSelect {
    /// Whether it gives a row whatever its filter says: an aggregate over nothing is a value.
    pub(crate) fn always_gives_a_row(&self) -> bool {
        self.grouping.as_ref().is_some_and(|grouping| grouping.always_one)
    }
}

/// One source of FROM.
#[derive(Clone, Debug)]
pub(crate) struct BoundSource {
    /// Where each of its values goes.
    pub(crate) slot: Slot,
    pub(crate) origin: Origin,
    /// Whether elements of arrays are taken one by one.
    pub(crate) iterates: bool,
}

/// Where a source's values come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Value(Node),
    Rows(Box<BoundSelect>),
}

/// GROUP BY, or the one group of a query that only aggregates.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) keys: Vec<(Slot, Node)>,
    pub(crate) aggregates: Vec<(Slot, AggregateFunction, Node)>,
    /// Without GROUP BY there is one group even over nothing.
    pub(crate) always_one: bool,
}

/// ORDER BY.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    None,
    Keys(Vec<(Node, Direction)>),
    Rank(Rank),
}

/// ORDER BY RANK.
#[derive(Clone, Debug)]
pub(crate) struct Rank {
    pub(crate) components: Vec<Component>,
    /// As many as components.
    pub(crate) weights: Vec<f64>,
}

/// One score.
#[derive(Clone, Debug)]
pub(crate) enum Component {
    /// The text and the terms of each searched phrase.
    Text(Node, Vec<Vec<String>>),
    Vector(Metric, Box<[Node; 2]>),
}

/// What a row becomes.
#[derive(Clone, Debug)]
pub(crate) enum Projection {
    Value(Node),
    /// Names are distinct.
    Properties(Vec<(Arc<str>, Node)>),
}

impl BoundSelect {
    /// Whether its rows come out in the order of its input, one input at a time.
    pub(crate) fn streams(&self) -> bool {
        let first_streams = match self.sources.first().map(|s| &s.origin) {
            Some(Origin::Rows(inner)) if inner.reads_items => inner.streams(),
            _ => true,
        };
        self.grouping.is_none()
            && matches!(self.order, Order::None)
            && !self.distinct
            && first_streams
    }
}
