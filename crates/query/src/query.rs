//! The two things a caller holds: a [`Query`] is parsed text, a [`BoundQuery`] is one made ready
//! for a container and a set of parameters.

use orrery_types::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::ast::{ExprKind, OrderBy, Select};
use crate::bind::{self, Bound};
use crate::error::QueryError;
use crate::eval::{EvalContext, Evaluator};
use crate::exec::{self, Fingerprints};
use crate::facts::ContainerFacts;
use crate::parser;

/// A query that obeys the grammar.
#[derive(Clone, Debug)]
pub struct Query {
    text: Box<str>,
    select: Select,
}

impl Query {
    /// Reads a whole query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Ok(Self { text: text.into(), select: parser::parse_query(text)? })
    }

    /// Reads the condition of a patch, `FROM c WHERE …`.
    pub fn parse_condition(text: &str) -> Result<Self, QueryError> {
        Ok(Self { text: text.into(), select: parser::parse_condition(text)? })
    }

    /// The text as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text without its values: queries that differ in nothing else have the same.
    pub fn text_shape(&self) -> String {
        crate::shape::shape(&self.text)
    }

    /// The syntax tree.
    pub fn select(&self) -> &Select {
        &self.select
    }

    /// Resolves names and parameters and checks every static rule. Parameter names bear their `@`.
    pub fn bind(
        &self,
        parameters: &[(String, Value)],
        container: &ContainerFacts<'_>,
    ) -> Result<BoundQuery, QueryError> {
        let bound = bind::bind(&self.text, &self.select, parameters, container)?;
        let mut identity = self.select.to_string();
        for (name, value) in parameters {
            identity.push('\n');
            identity.push_str(name);
            value.write_json(&mut identity);
        }
        let whole = xxh3_64(identity.as_bytes());
        let order = self.order_fingerprint().unwrap_or(whole);
        Ok(BoundQuery { bound, fingerprints: Fingerprints { whole, order } })
    }
}

impl Query {
    /// What a place in the order of the query depends on: the rows of an item, and the paths by
    /// which items come. `None` if they do not come by paths: scores depend on parameters.
    fn order_fingerprint(&self) -> Option<u64> {
        let Some(order @ OrderBy::Keys(keys)) = &self.select.order_by else { return None };
        if keys.iter().any(|key| matches!(&*key.expr.kind, ExprKind::Call(..))) {
            return None;
        }
        let mut identity = format!("ORDER BY {order}");
        self.select.write_from(&mut identity).ok()?;
        Some(xxh3_64(identity.as_bytes()))
    }
}

/// A query ready to run.
#[derive(Debug)]
pub struct BoundQuery {
    pub(crate) bound: Bound,
    fingerprints: Fingerprints,
}

impl BoundQuery {
    /// A query that was made and not parsed; it gives no tokens.
    pub(crate) fn of(bound: Bound) -> Self {
        Self { bound, fingerprints: Fingerprints::default() }
    }

    /// What tells this query with these parameters from others.
    pub(crate) fn fingerprints(&self) -> Fingerprints {
        self.fingerprints
    }

    /// Whether it can stop after any row and go on later without repeating work.
    pub fn streams(&self) -> bool {
        self.bound.select.streams()
    }

    /// Whether it reads the items of the container at all.
    pub fn reads_items(&self) -> bool {
        self.bound.select.reads_items
    }

    /// Whether one item satisfies the query: it yields a row for it.
    pub fn matches(&self, item: &Value, context: &EvalContext<'_>) -> Result<bool, QueryError> {
        Ok(!self.rows_of(item, context)?.is_empty())
    }

    /// The first row that one item yields; undefined if it yields none.
    pub fn value_of(&self, item: &Value, context: &EvalContext<'_>) -> Result<Value, QueryError> {
        Ok(self.rows_of(item, context)?.pop().unwrap_or_default())
    }

    fn rows_of(&self, item: &Value, context: &EvalContext<'_>) -> Result<Vec<Value>, QueryError> {
        let evaluator = Evaluator::new(context);
        let mut env = vec![Value::Undefined; self.bound.slots];
        env[self.bound.item_slot] = item.clone();
        exec::subquery_rows(&evaluator, &self.bound.select, &mut env, 1)
    }
}
