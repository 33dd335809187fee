//! Syntax tree to bound tree: resolves aliases and parameters, finds functions, and enforces every
//! static rule of the language with the service's codes. `select` binds clauses, `expr` binds
//! expressions, `order` ORDER BY and `rank` its scoring form.

mod expr;
mod order;
mod rank;
mod relation;
mod select;

pub(crate) use rank::call_of;
pub(crate) use select::{selects_aggregate, selects_such, visit};

use std::collections::HashMap;
use std::sync::Arc;

use orrery_types::{Value, limits};

use crate::ast::{Expr, Select, Span};
use crate::bound::{BoundSelect, Grouping, Node, Projection, Slot, Step};
use crate::computed::ComputedProperty;
use crate::error::QueryError;
use crate::facts::ContainerFacts;
use relation::Standing;

/// A bound query and the size of the environment it runs in.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) select: BoundSelect,
    pub(crate) slots: usize,
    /// Where the item goes.
    pub(crate) item_slot: Slot,
}

pub(crate) fn bind(
    text: &str,
    select: &Select,
    parameters: &[(String, Value)],
    facts: &ContainerFacts<'_>,
) -> Result<Bound, QueryError> {
    let parameters = parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let mut binder = Binder {
        text,
        parameters,
        facts,
        scopes: Vec::new(),
        slots: 1,
        udf_calls: 0,
        joins: 0,
        root: Root::None,
        standings: HashMap::new(),
    };
    let select = binder.select(select, Position::Main)?;
    Ok(Bound { select, slots: binder.slots, item_slot: ITEM_SLOT })
}

/// The item has the first slot.
const ITEM_SLOT: Slot = 0;

struct Binder<'a> {
    text: &'a str,
    parameters: HashMap<&'a str, &'a Value>,
    facts: &'a ContainerFacts<'a>,
    scopes: Vec<Scope<'a>>,
    slots: usize,
    udf_calls: usize,
    joins: usize,
    root: Root,
    /// Where the values of slots stand, if that is in an item of a known container.
    standings: HashMap<Slot, Standing>,
}

/// Whether an unknown name may mean the container; only in the first source of the main query.
#[derive(Clone, PartialEq)]
enum Root {
    None,
    /// Any name, whatever the container is called.
    Any,
    /// The name taken for it.
    Named(Arc<str>),
}

/// Where a query stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Main,
    /// A subquery that is the first source of the main query, and so draws on its items.
    First,
    /// Any other subquery.
    Nested,
}

/// The aliases of one query.
#[derive(Default)]
struct Scope<'a> {
    aliases: Vec<(Arc<str>, Alias)>,
    /// Set while the select list of a grouped query is bound.
    group: Option<GroupScope<'a>>,
}

/// What an alias stands for.
#[derive(Clone)]
struct Alias {
    slot: Slot,
    /// Its path from the item; `None` for elements of arrays and rows of subqueries.
    path: Option<Vec<Step>>,
    /// Whether it iterates or joins, so that no order over items can use it.
    correlated: bool,
}

impl Alias {
    fn is_item(&self) -> bool {
        self.path.as_ref().is_some_and(Vec::is_empty)
    }
}

struct GroupScope<'a> {
    keys: &'a [Expr],
    grouping: Grouping,
}

impl Binder<'_> {
    fn error(&self, span: Span, code: &'static str, message: impl Into<Box<str>>) -> QueryError {
        QueryError::at(self.text, span, code, message)
    }

    fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    /// The alias of that name in the nearest query around, and the number of that scope.
    fn alias(&self, name: &str) -> Option<(usize, &Alias)> {
        self.scopes.iter().enumerate().rev().find_map(|(depth, scope)| {
            let found = scope.aliases.iter().rev().find(|(n, _)| &**n == name)?;
            Some((depth, &found.1))
        })
    }

    fn parameter(&self, name: &str, span: Span) -> Result<Value, QueryError> {
        match self.parameters.get(name) {
            Some(value) => Ok((*value).clone()),
            None => Err(self.error(
                span,
                "SC2011",
                format!("The query parameter '{name}' is not defined in the parameters list."),
            )),
        }
    }

    fn count_join(&mut self) -> Result<(), QueryError> {
        self.joins += 1;
        if self.joins > limits::QUERY_JOINS_MAX {
            return Err(QueryError::runtime(format!(
                "The number of JOINs exceeded the maximum allowed limit of {}.",
                limits::QUERY_JOINS_MAX
            )));
        }
        Ok(())
    }

    fn count_udf(&mut self) -> Result<(), QueryError> {
        self.udf_calls += 1;
        if self.udf_calls > limits::QUERY_UDFS_MAX {
            return Err(QueryError::runtime(format!(
                "The number of user-defined function calls exceeded the maximum allowed limit of \
                 {}.",
                limits::QUERY_UDFS_MAX
            )));
        }
        Ok(())
    }
}

/// The value of a computed property as an expression over the item. It has no parameters, no
/// subqueries and no other computed properties, so it can stand wherever the item is bound.
fn bind_computed(property: &ComputedProperty) -> Result<Node, QueryError> {
    let facts = ContainerFacts::default();
    let bound = bind(property.text(), property.select(), &[], &facts)?;
    match bound.select.projection {
        Projection::Value(node) => Ok(node),
        Projection::Properties(_) => Err(QueryError::runtime("a computed property is a VALUE")),
    }
}
