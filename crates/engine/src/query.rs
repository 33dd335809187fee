//! Queries: the text and parameters of a request, run over the items of a container or over a feed
//! of the catalog. The language itself is in the `query` crate; here it gets items and the time.

use std::sync::Arc;

use orrery_query::{
    ComputedProperty, ContainerFacts, EvalContext, IndexedOrder, ItemSource, PageLimits, Query,
    QueryError, SourceItem, execute,
};
use orrery_types::{Error, Result, Value, limits};

use crate::charge;
use crate::feed::{ItemCursor, PageSize};
use crate::resource::require_object;
use crate::scope::Scope;
use crate::{Container, Engine};

/// The query of a request.
#[derive(Clone, Debug)]
pub struct QueryRequest {
    query: Query,
    parameters: Vec<(String, Value)>,
}

/// A page of a query's rows.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct QueryPage {
    pub rows: Vec<Value>,
    pub continuation: Option<String>,
    pub session_token: String,
    pub charge: f64,
    /// Items that were read to find the rows.
    pub items_read: u64,
}

impl QueryRequest {
    /// Reads `{"query": …, "parameters": [{"name": …, "value": …}]}`.
    pub fn parse(body: &Value) -> Result<Self> {
        require_object(body)?;
        let text = body
            .get("query")
            .as_str()
            .ok_or_else(|| Error::invalid("The request body has no string 'query'."))?;
        let parameters = match body.get("parameters") {
            Value::Undefined | Value::Null => vec![],
            Value::Array(list) => list.iter().map(parameter).collect::<Result<_>>()?,
            _ => return Err(Error::invalid("'parameters' must be an array.")),
        };
        let query = Query::parse(text).map_err(query_error)?;
        Ok(Self { query, parameters })
    }

    /// The parsed text.
    pub fn query(&self) -> &Query {
        &self.query
    }
}

fn parameter(value: &Value) -> Result<(String, Value)> {
    let name = value.get("name").as_str().filter(|n| n.starts_with('@')).ok_or_else(|| {
        Error::invalid("A parameter must be an object with a 'name' that starts with '@'.")
    })?;
    Ok((name.to_owned(), value.get("value").clone()))
}

/// What a query's failure is for the sender of the request.
pub(crate) fn query_error(error: QueryError) -> Error {
    match error {
        QueryError::Source(error) => *error,
        QueryError::Token => Error::invalid("Invalid Continuation Token"),
        QueryError::Cancelled => Error::Timeout("The request was given up.".into()),
        QueryError::Compile(_) | QueryError::Runtime(_) => Error::Query(error.to_json().into()),
    }
}

/// Checks the computed properties of a container, all together.
pub(crate) fn check_computed(definitions: &[(String, String)]) -> Result<()> {
    ComputedProperty::parse_all(definitions).map(drop).map_err(query_error)
}

impl Engine {
    /// A page of a query over the items of a scope.
    pub fn query_items(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        size: PageSize,
        continuation: Option<&str>,
    ) -> Result<QueryPage> {
        let definitions: Vec<(String, String)> = container
            .definition
            .computed
            .iter()
            .map(|c| (c.name.to_string(), c.query.to_string()))
            .collect();
        let computed = ComputedProperty::parse_all(&definitions).map_err(query_error)?;
        let order = IndexedOrder::from_policy(&container.definition.indexing.to_value());
        let facts =
            ContainerFacts { computed: &computed, order: Some(&order), ..Default::default() };
        let bound = request.query.bind(&request.parameters, &facts).map_err(query_error)?;
        let cursor = ItemCursor::new(self, container, scope, None)?;
        let mut source = CursorSource { engine: self, container, scope, cursor };
        let context = self.context();
        let page_limits = PageLimits { rows_max: size.items, ..PageLimits::default() };
        let page = execute(&bound, &mut source, continuation, page_limits, &context);
        let page = page.map_err(query_error)?;
        let bytes: usize = page.rows.iter().map(|r| r.to_json().len()).sum();
        let loaded = usize::try_from(page.items_read).unwrap_or(usize::MAX);
        Ok(QueryPage {
            charge: charge::page(loaded, bytes),
            session_token: source.cursor.session_token(),
            rows: page.rows,
            continuation: page.continuation,
            items_read: page.items_read,
        })
    }

    /// A whole query over values that are in memory: a feed of the catalog.
    pub fn query_values(&self, values: Vec<Value>, request: &QueryRequest) -> Result<Vec<Value>> {
        let facts = ContainerFacts::default();
        let bound = request.query.bind(&request.parameters, &facts).map_err(query_error)?;
        let mut source = ValueSource { values: values.into_iter() };
        let page_limits = PageLimits { rows_max: usize::MAX, bytes_max: usize::MAX };
        let page = execute(&bound, &mut source, None, page_limits, &self.context());
        Ok(page.map_err(query_error)?.rows)
    }

    pub(crate) fn context(&self) -> EvalContext<'static> {
        let now_us = i64::try_from(self.clock.now_us()).unwrap_or(i64::MAX);
        EvalContext { now_us, ..EvalContext::default() }
    }
}

/// The condition of a patch: `FROM c WHERE …` over the one item.
#[derive(Debug)]
pub(crate) struct Condition(orrery_query::BoundQuery);

impl Condition {
    pub(crate) fn parse(text: &str) -> Result<Arc<Self>> {
        let query = Query::parse_condition(text).map_err(query_error)?;
        let bound = query.bind(&[], &ContainerFacts::default()).map_err(query_error)?;
        Ok(Arc::new(Self(bound)))
    }

    pub(crate) fn matches(&self, item: &Value, context: &EvalContext<'_>) -> Result<bool> {
        self.0.matches(item, context).map_err(query_error)
    }
}

/// Items of a scope as the query crate pulls them; a place is an item key.
struct CursorSource<'e> {
    engine: &'e Engine,
    container: &'e Container,
    scope: &'e Scope,
    cursor: ItemCursor<'e>,
}

impl ItemSource for CursorSource<'_> {
    fn seek(&mut self, position: &[u8]) -> Result<()> {
        self.cursor = ItemCursor::at(self.engine, self.container, self.scope, position)?;
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let mut batch = Vec::with_capacity(items_max.min(limits::PAGE_ITEMS_MAX));
        while batch.len() < items_max {
            let Some(item) = self.cursor.next()? else { break };
            let value = Value::parse(&item.body)
                .map_err(|e| Error::internal(format!("a stored item: {e}")))?;
            batch.push(SourceItem { value, position: item.key.into() });
        }
        Ok(batch)
    }
}

struct ValueSource {
    values: std::vec::IntoIter<Value>,
}

impl ItemSource for ValueSource {
    fn seek(&mut self, _: &[u8]) -> Result<()> {
        Err(Error::invalid("Invalid Continuation Token"))
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let batch = self.values.by_ref().take(items_max);
        Ok(batch.map(|value| SourceItem { value, position: Box::default() }).collect())
    }
}
