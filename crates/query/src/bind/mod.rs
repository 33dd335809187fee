//! Syntax tree to bound tree: resolves aliases and parameters, finds functions, and enforces every
//! static rule of the language with the service's codes. `select` binds clauses, `expr` binds
//! expressions, `one_of` long disjunctions, `order` ORDER BY and `rank` its scoring form.

mod expr;
mod one_of;
mod order;
mod rank;
mod relation;
mod select;

pub(crate) use rank::call_of;
pub(crate) use select::{first_aggregate, selects_aggregate, selects_such, visit};

use std::collections::HashMap;
use std::sync::Arc;

use orrery_types::{Value, limits};

use crate::ast::{Expr, OrderBy, Select, Span};
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
    let parameters = distinct_parameters(parameters)?;
    let mut binder = Binder {
        text,
        parameters,
        facts,
        scopes: Vec::new(),
        slots: 1,
        udf_calls: 0,
        joins: 0,
        root: Root::None,
        ranks: matches!(select.order_by, Some(OrderBy::Rank(_))),
        orders: select.order_by.is_some(),
        standings: HashMap::new(),
        path: None,
    };
    let select = binder.select(select, Position::Main)?;
    check_joins(&binder)?;
    Ok(Bound { select, slots: binder.slots, item_slot: ITEM_SLOT })
}

/// Names that mean nothing are refused before too many joins are.
fn check_joins(binder: &Binder<'_>) -> Result<(), QueryError> {
    if binder.joins > limits::QUERY_JOINS_MAX {
        let message = format!(
            "The SQL query exceeded the maximum number of joins. The allowed limit is {}.",
            limits::QUERY_JOINS_MAX
        );
        return Err(binder.error(Span::new(0, binder.text.len()), "SC3002", message));
    }
    Ok(())
}

fn distinct_parameters(list: &[(String, Value)]) -> Result<HashMap<&str, &Value>, QueryError> {
    let mut parameters = HashMap::with_capacity(list.len());
    for (name, value) in list {
        if !is_parameter_name(name) {
            return Err(QueryError::runtime(format!(
                "Invalid query. Specified parameter name '{name}' is invalid. Parameter names should \
                 be in the format of symbol '@' followed by a valid identifier. E.g. @param1"
            )));
        }
        if parameters.insert(name.as_str(), value).is_some() {
            return Err(QueryError::runtime(format!(
                "Invalid query. Specified duplicate parameter name '{name}'."
            )));
        }
    }
    Ok(parameters)
}

fn is_parameter_name(name: &str) -> bool {
    let Some(word) = name.strip_prefix('@') else { return false };
    word.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && word.chars().all(|c| c == '_' || c.is_alphanumeric())
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
    /// Whether the query has an ORDER BY RANK.
    ranks: bool,
    /// Whether the query has an ORDER BY.
    orders: bool,
    /// Where the values of slots stand, if that is in an item of a known container.
    standings: HashMap<Slot, Standing>,
    /// The whole path whose beginning is being bound.
    path: Option<Span>,
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
    /// The container's own name, behind all aliases.
    roots: Vec<(Arc<str>, Alias)>,
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
    /// Whether the rows of a subquery are behind it, and which properties these have if that is known.
    columns: Option<Columns>,
}

/// What the rows of a subquery in FROM have.
#[derive(Clone)]
enum Columns {
    /// Values of any kind.
    Any,
    /// These properties, each with its path from the item if it is one.
    Named(Vec<(Arc<str>, Option<Vec<Step>>)>),
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
            let aliases = scope.aliases.iter().rev();
            let found = aliases.chain(&scope.roots).find(|(n, _)| &**n == name)?;
            Some((depth, &found.1))
        })
    }

    fn parameter(&self, name: &str, span: Span) -> Result<Value, QueryError> {
        match self.parameters.get(name) {
            Some(value) => Ok((*value).clone()),
            None if self.facts.planning => Ok(Value::Undefined),
            None => Err(self.error(
                span,
                "SC2011",
                format!("The query parameter '{name}' is not defined in the parameters list."),
            )),
        }
    }

    fn count_udf(&mut self) -> Result<(), QueryError> {
        self.udf_calls += 1;
        if self.udf_calls > limits::QUERY_UDFS_MAX {
            let message = format!(
                "The SQL query exceeded the maximum number of user-defined function calls. The \
                 allowed limit is {}.",
                limits::QUERY_UDFS_MAX
            );
            return Err(self.error(Span::new(0, self.text.len()), "SC3005", message));
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
