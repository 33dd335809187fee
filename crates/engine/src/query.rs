//! Queries: the text and parameters of a request, run over the items of a container or over a feed
//! of the catalog. The language itself is in the `query` crate; here it gets items and the time.

use std::sync::Arc;

use orrery_query::{
    BoundQuery, ComputedProperty, ContainerFacts, EvalContext, IndexedOrder, ItemSource,
    PageLimits, PlanRange, PlanScope, Query, QueryError, SourceItem, execute, query_plan,
};
use orrery_types::{Error, KeyRange, PartitionKey, Result, Value, limits};

use crate::charge;
use crate::continuation;
use crate::feed::{ItemCursor, PageSize};
use crate::resource::require_object;
use crate::scope::Scope;
use crate::script::UdfCalls;
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
    /// Each row as JSON text.
    pub rows: Vec<String>,
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

/// Where a page starts, and whether it may cross logical partitions.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Paging<'t> {
    pub continuation: Option<&'t str>,
    pub crosses: bool,
}

/// The scope of a query whose filter names one partition key, if it is not that key's already.
fn narrowed(container: &Container, scope: &Scope, keys: &[PartitionKey]) -> Option<Scope> {
    let [key] = keys else { return None };
    let definition = &container.definition.partition_key;
    if scope.partition_key.is_some() || !definition.is_complete(key) {
        return None;
    }
    let range = scope.range.as_ref().and_then(|r| r.intersect(&definition.range_of(key)));
    Some(Scope { range, partition_key: Some(key.clone()), confined: true })
}

/// The query made ready for a container.
fn bind(container: &Container, request: &QueryRequest, udfs: &UdfCalls<'_>) -> Result<BoundQuery> {
    let definitions: Vec<(String, String)> = container
        .definition
        .computed
        .iter()
        .map(|c| (c.name.to_string(), c.query.to_string()))
        .collect();
    let computed = ComputedProperty::parse_all(&definitions).map_err(query_error)?;
    let order = IndexedOrder::from_policy(&container.definition.indexing.to_value());
    let has_udf = |name: &str| udfs.has(name);
    let facts = ContainerFacts {
        computed: &computed,
        order: Some(&order),
        has_udf: Some(&has_udf),
        ..Default::default()
    };
    request.query.bind(&request.parameters, &facts).map_err(query_error)
}

impl Engine {
    /// A page of a query over the items of a scope. What the filter says about the partition key
    /// narrows the scope further; a query that says nothing of it and is not confined needs the
    /// client's consent to cross partitions.
    pub fn query_items(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        size: PageSize,
        paging: &Paging<'_>,
    ) -> Result<QueryPage> {
        let udfs = UdfCalls::new(self, container);
        let bound = bind(container, request, &udfs)?;
        let keys = bound.partition_keys(&container.definition.partition_key.paths);
        let single = keys.as_ref().is_some_and(|keys| keys.len() <= 1);
        if !scope.confined && !single && !paging.crosses && bound.reads_items() {
            return Err(Error::invalid(
                "Cross partition query is required but disabled. Please set \
                 x-ms-documentdb-query-enablecrosspartition to true, specify \
                 x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
            ));
        }
        let narrowed = keys.and_then(|keys| narrowed(container, scope, &keys));
        let scope = narrowed.as_ref().unwrap_or(scope);
        let cursor = ItemCursor::new(self, container, scope, None)?;
        let mut source = CursorSource { engine: self, container, scope, cursor };
        // A token belongs to its container and logical partition. Within those it may be used for
        // a part of what it was given for: ranges split, and the place it names stays.
        let key = scope.partition_key.as_ref().map(PartitionKey::to_header);
        let owner = format!("query {} {}", container.rid(), key.unwrap_or_default());
        let mut page = self.run(&bound, &mut source, &udfs, size, &owner, paging.continuation)?;
        page.session_token = source.cursor.session_token();
        Ok(page)
    }

    /// A page of a query over the items of a source; `owner` tells whose its tokens are.
    pub(crate) fn query_source(
        &self,
        container: &Container,
        request: &QueryRequest,
        source: &mut dyn ItemSource,
        size: PageSize,
        owner: &str,
        token: Option<&str>,
    ) -> Result<QueryPage> {
        let udfs = UdfCalls::new(self, container);
        let bound = bind(container, request, &udfs)?;
        self.run(&bound, source, &udfs, size, owner, token)
    }

    fn run(
        &self,
        bound: &BoundQuery,
        source: &mut dyn ItemSource,
        udfs: &UdfCalls<'_>,
        size: PageSize,
        owner: &str,
        token: Option<&str>,
    ) -> Result<QueryPage> {
        let page_limits = PageLimits { rows_max: size.items, ..PageLimits::default() };
        let state = token.map(|t| continuation::decode(owner, t)).transpose()?;
        let state = state.as_deref().map(String::from_utf8_lossy);
        let context = EvalContext { udfs: Some(udfs), ..self.context() };
        let page = execute(bound, source, state.as_deref(), page_limits, &context);
        let page = page.map_err(|error| udfs.failure(query_error(error)))?;
        let continuation = page.continuation.map(|s| continuation::encode(owner, s.as_bytes()));
        let rows: Vec<String> = page.rows.iter().map(Value::to_json).collect();
        let bytes = rows.iter().map(String::len).sum();
        let loaded = usize::try_from(page.items_read).unwrap_or(usize::MAX);
        Ok(QueryPage {
            charge: charge::page(loaded, bytes),
            session_token: String::new(),
            rows,
            continuation,
            items_read: page.items_read,
        })
    }

    /// The plan by which a client merges the query over physical partitions itself, as JSON.
    pub fn query_plan(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
    ) -> Result<String> {
        let bound = bind(container, request, &UdfCalls::new(self, container))?;
        let definition = &container.definition.partition_key;
        let point = |key: &PartitionKey| {
            let place = definition.effective(key).to_string();
            PlanRange { min: place.clone(), max: place, max_inclusive: true }
        };
        let keys = match &scope.partition_key {
            Some(key) => Some(vec![key.clone()]),
            None => bound.partition_keys(&definition.paths),
        };
        let (plan_scope, mut ranges) = match keys {
            Some(keys) if !keys.is_empty() => {
                let one = if keys.len() == 1 {
                    PlanScope::SinglePartition
                } else {
                    PlanScope::CrossPartition
                };
                (one, keys.iter().map(point).collect())
            }
            _ => {
                let whole = KeyRange::full();
                let range = scope.range.as_ref().unwrap_or(&whole);
                let (min, max) = (range.min.to_string(), range.max.to_string());
                (PlanScope::CrossPartition, vec![PlanRange { min, max, max_inclusive: false }])
            }
        };
        ranges.sort_by(|a, b| a.min.cmp(&b.min));
        query_plan(&request.query, &bound, plan_scope, &ranges).map_err(query_error)
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
