//! Queries: the text and parameters of a request, run over the items of a container or over a feed
//! of the catalog. The language itself is in the `query` crate; here it gets items and the time.

pub(crate) mod access;
pub mod continuation;
mod feed_page;
pub(crate) mod prepare;
pub mod read_feed;
mod reader;
pub mod relations;
pub(crate) mod slices;
mod times;
pub(crate) mod values;

use std::sync::Arc;

use orrery_query::plan::{Plan, PlanRequest};
use orrery_query::{
    BoundQuery, EvalContext, Followed, ItemSource, Page, PlanTarget, Query, QueryError,
    RelationHost, Resume, ResumeFilter, Row, Run, UdfHost, execute, query_plan,
};
use orrery_types::{
    BudgetLimits, CancellationToken, EffectiveKey, Error, ExecutionBudget, PropertyPath, Result,
    Value, limits,
};

use crate::catalog::resource::require_object;
use crate::model::ModelContext;
use crate::partition::scope::Scope;
use crate::query::access::Shards;
use crate::query::access::index_facts::Facts;
use crate::query::access::prefetched::PrefetchedPostings;
use crate::query::read_feed::PageSize;
use crate::query::relations::{Names, Reach};
use crate::script::UdfCalls;
use crate::throughput::charge::{self, ChargedQuery};
use crate::{Container, Engine};
use continuation::ResumePosition;
use prepare::{BoundPage, QueryParts, bind, container_facts};
use reader::Reader;
use times::timed;

pub use orrery_query::plan::PlanPath;
pub use prepare::PreparedQuery;
pub use reader::QueryReport;
pub use times::QueryTimes;

/// The names of all functions of the language, for completion in a shell.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    orrery_query::functions::registry().map(|(_, function)| function.name)
}

/// The query of a request.
#[derive(Clone, Debug)]
pub struct QueryRequest {
    query: Query,
    parameters: Vec<(String, Value)>,
    resume: Option<ResumePosition>,
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
    pub report: QueryReport,
}

impl QueryRequest {
    /// Reads `{"query": …, "parameters": [{"name": …, "value": …}], "resumeFilter": {…}}`.
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
        let resume = ResumePosition::parse(body.get("resumeFilter"))?;
        Ok(Self { query, parameters, resume })
    }

    /// The text without its values, for counting queries by what they are.
    pub fn shape(&self) -> Arc<str> {
        self.query.text_shape().into()
    }

    /// Whether it may take any time before its plan is known: it calls a function of the user's, or a
    /// pattern has to be compiled and may be matched while the query is bound. The words within a
    /// string count too; then it only goes the longer way.
    fn may_take_long(&self) -> bool {
        let text = self.query.text().as_bytes();
        let has = |word: &[u8]| text.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
        has(b"udf") || has(b"regex")
    }

    /// Where an ordered query is to go on, for a client that merges ranges itself.
    fn filter(&self, container: &Container, bound: &BoundQuery) -> Result<Option<ResumeFilter>> {
        let Some(position) = &self.resume else { return Ok(None) };
        let filter = position.within(container)?;
        filter.check(bound).map_err(query_error)?;
        Ok(Some(filter))
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
        QueryError::Exceeded(exceeded) => exceeded.into(),
        QueryError::Compile(_) | QueryError::Runtime(_) => Error::Query(error.to_json().into()),
    }
}

/// Where a page starts, and whether it may cross logical partitions.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the summary says it")]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Paging<'t> {
    pub continuation: Option<&'t str>,
    pub crosses: bool,
    /// Whether the client can merge the answers of several partitions; then it gets a query plan.
    pub merges: bool,
    /// Whether the plan is wanted with the answer.
    pub explains: bool,
    /// Whether all items are to be read, whatever the index has: for comparing the two.
    pub without_index: bool,
    /// Relations to expand in rows that are whole items.
    pub expand: Option<&'t str>,
    /// How far relations may lead.
    pub reach: Reach,
    /// Cancelled when the client no longer waits for the page.
    pub cancellation: Option<&'t CancellationToken>,
}

/// What a transaction reads is checked by its commit, and that ends at its logical partition.
fn out_of_transaction(path: &str) -> Error {
    Error::invalid(format!(
        "The query of a script names '{path}', a relation or bucketed array of the model. A script \
         reads the items of its logical partition alone: read what it needs before, and hand it over \
         as an argument, or declare a copy; the elements of a bucketed array stand in its buckets, \
         which the script can query."
    ))
}

/// The feature of clients that merge the components of a hybrid search without `orderByItems`.
const SKIP_ORDER_BY_REWRITE: &str = "HybridSearchSkipOrderByRewrite";

/// A query with the options of its request.
struct QueryExecution<'q, 'e> {
    bound: &'q BoundPage,
    names: Option<&'q Names<'q>>,
    udfs: &'q UdfCalls<'e>,
    size: PageSize,
    paging: &'q Paging<'q>,
    placement: Placement,
    budget: &'q ExecutionBudget<'q>,
}

/// The kind of thread that runs a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// That of a connection, on which others wait.
    Inline,
    /// One that may be kept busy.
    Blocking,
}

/// The plan of a query, and what was read to find it.
fn plan<'s>(
    bound: &BoundQuery,
    shards: &'s Shards<'_>,
    scope: &Scope,
    resume: Option<&Resume>,
    rows: usize,
    with_index: bool,
) -> (Plan, PrefetchedPostings<'s>) {
    let facts = Facts::new(shards, with_index);
    let definition = &shards.container.definition;
    let key = scope.partition_key.as_ref();
    let request = PlanRequest {
        facts: &facts,
        key,
        key_paths: &definition.partition_key.paths,
        is_whole: key.is_some() || shards.are_whole(),
        may_include_expired: definition.default_ttl.is_some() || shards.hide_any(),
        rows,
    };
    let plan = bound.plan(&request, resume);
    (plan, facts.into_prefetched())
}

/// The place that a token of this query names.
fn resume(bound: &BoundQuery, owner: &str, token: Option<&str>) -> Result<Option<Resume>> {
    let Some(token) = token else { return Ok(None) };
    let state = continuation::decode(owner, token)?;
    Resume::parse(&String::from_utf8_lossy(&state), bound).map(Some).map_err(query_error)
}

fn query_page(rows: &[Row], continuation: Option<String>, report: QueryReport) -> QueryPage {
    // A row is often as long as the one before.
    let mut length = 0;
    let text = |row: &Row| {
        let text = row.to_json(length);
        length = text.len();
        text
    };
    let rows: Vec<String> = rows.iter().map(text).collect();
    let work = ChargedQuery {
        partitions: report.partitions,
        items: report.items,
        items_bytes: report.items_bytes,
        entries: report.entries,
        steps: report.steps,
        output_bytes: rows.iter().map(|row| row.len() as u64).sum(),
    };
    QueryPage {
        charge: charge::query(&work),
        session_token: report.session_token.clone(),
        rows,
        continuation,
        items_read: report.items,
        report,
    }
}

/// The refusal of a query over several logical partitions to which the client did not consent.
pub fn crossing_refused() -> Error {
    Error::invalid(
        "Cross partition query is required but disabled. Please set \
         x-ms-documentdb-query-enablecrosspartition to true, specify \
         x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
    )
}

/// Queries and read feeds.
#[derive(Clone, Copy)]
pub struct Queries<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> Queries<'e> {
    /// A page of a query over the items of a scope, on a thread that may be kept busy. What the filter says
    /// about the partition key narrows the scope further; a query that says nothing of it and is not
    /// confined needs the client's consent to cross partitions.
    pub fn query_items(
        self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        size: PageSize,
        paging: &Paging<'_>,
    ) -> Result<QueryPage> {
        let parts = QueryParts { scope, request, size };
        self.run_in_slices(paging, |how| self.page_of(container, parts, &mut None, paging, how))
    }

    /// The same of a prepared query, which may have run inline before.
    pub fn run(self, query: &mut PreparedQuery, paging: &Paging<'_>) -> Result<QueryPage> {
        self.run_in_slices(paging, |how| query.run(self, paging, how))
    }

    /// The same on the thread of a connection; `None` if the query exceeds the inline budget.
    pub fn run_inline(
        self,
        query: &mut PreparedQuery,
        paging: &Paging<'_>,
    ) -> Result<Option<QueryPage>> {
        let partitions = query.container().partitions.len();
        if partitions > limits::IN_PLACE_QUERY_PARTITIONS_MAX || query.request().may_take_long() {
            return Ok(None);
        }
        let budget =
            &ExecutionBudget::new(BudgetLimits::inline()).with_pool(&self.engine.query_memory);
        let page = query.run(self, paging, (Placement::Inline, budget));
        if budget.exceeded().is_some() { Ok(None) } else { page }
    }

    /// Runs work with the budget of a page, in slices.
    fn run_in_slices(
        self,
        paging: &Paging<'_>,
        work: impl FnOnce((Placement, &ExecutionBudget<'_>)) -> Result<Option<QueryPage>>,
    ) -> Result<QueryPage> {
        let budget = self.page_budget(paging.cancellation);
        let slice = self.engine.slices.enter();
        let end_slice = || slice.end();
        let budget = &budget.with_slices(&end_slice);
        // A query that was cancelled while it waited for its slice does not begin.
        budget.check()?;
        let page = work((Placement::Blocking, budget))?;
        page.ok_or_else(|| Error::internal("a query exceeded the inline budget outside of it"))
    }

    /// The budget of a page on a blocking thread.
    pub(crate) fn page_budget<'a>(
        self,
        cancellation: Option<&'a CancellationToken>,
    ) -> ExecutionBudget<'a>
    where
        'e: 'a,
    {
        let (page_ms, all_ms) = (limits::QUERY_PAGE_MS_MAX, limits::QUERY_EXECUTION_MS_MAX);
        ExecutionBudget::default()
            .with_pool(&self.engine.query_memory)
            .with_time(&*self.engine.clock, page_ms, all_ms)
            .with_cancellation(cancellation)
    }

    /// A page under the current layout: if a shard is gone, the query is bound to the container as it is now
    /// and runs again. What it leaves in `bound` belongs to `container`.
    fn page_of(
        self,
        container: &Container,
        parts: QueryParts<'_>,
        bound: &mut Option<BoundPage>,
        paging: &Paging<'_>,
        how: (Placement, &ExecutionBudget<'_>),
    ) -> Result<Option<QueryPage>> {
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            if std::ptr::eq(now, container) {
                return self.page_in(now, parts, bound, paging, how);
            }
            *bound = None;
            self.page_in(now, parts, &mut None, paging, how)
        })
    }

    /// A page under the layout of `container`, by its bound form if it has one under the current model.
    fn page_in(
        self,
        container: &Container,
        parts: QueryParts<'_>,
        bound: &mut Option<BoundPage>,
        paging: &Paging<'_>,
        (placement, budget): (Placement, &ExecutionBudget<'_>),
    ) -> Result<Option<QueryPage>> {
        let database = self.engine.models().database_of(container);
        let model = ModelContext::of(database.as_deref(), container);
        let names = model.map(|model| Names::new(model, container));
        let (names, udfs) = (names.as_ref(), &UdfCalls::new(self.engine, container));
        let bound = match bound {
            Some(kept) if kept.is_under(model) => kept,
            _ => bound.insert(self.bind_page(container, parts, paging, udfs, names)?),
        };
        let scope = bound.scope(parts.scope);
        let size = parts.size;
        let execution = QueryExecution { bound, names, udfs, size, paging, placement, budget };
        let part = bound.cursor.as_ref().map_or(scope, |cursor| &cursor.scope);
        let Some((page, report)) = self.read_part(container, part, &execution)? else {
            return Ok(None);
        };
        let next = match &bound.cursor {
            None => page.continuation,
            Some(cursor) => cursor.next(container, scope, page.continuation),
        };
        let continuation = next.map(|state| continuation::encode(&bound.owner, state.as_bytes()));
        let page = query_page(&page.rows, continuation, report);
        if self.engine.workload.samples_query() {
            let is_first = paging.continuation.is_none();
            self.note_query(container, scope, parts.request, (&bound.query, is_first), &page);
        }
        Ok(Some(page))
    }

    /// Tells the advisor's notes of a query.
    fn note_query(
        self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        (bound, is_first): (&BoundQuery, bool),
        page: &QueryPage,
    ) {
        let paths: Vec<String> = page.report.paths.iter().map(PlanPath::model_path).collect();
        let key_paths = &container.definition.partition_key.paths;
        let names_key = scope.partition_key.is_some() || bound.partition_keys(key_paths).is_some();
        let begins = scope.range.as_ref().is_some_and(|range| range.min == EffectiveKey::min());
        let fixes = |path: &&String| {
            let path = PropertyPath::parse(path);
            !names_key && path.is_ok_and(|path| bound.partition_keys(&[path]).is_some())
        };
        let asked = crate::insight::workload::Asked {
            text: request.query.text(),
            print: xxhash_rust::xxh3::xxh3_64(request.query.text().as_bytes()),
            charge: page.charge,
            key: scope.partition_key.as_ref(),
            fixes: paths.iter().filter(fixes).cloned().collect(),
            begins: is_first && begins,
            paths,
            expands: bound.relations().into_iter().map(Followed::path_and_fields).collect(),
            aggregates: request.query.shape().aggregates,
            rows: &page.rows,
        };
        self.engine.workload.asked(container, self.engine.clock.now_s(), &asked);
    }

    /// A page of a query over one part of a container; `None` if its plan exceeds the inline budget.
    fn read_part(
        self,
        container: &Container,
        scope: &Scope,
        execution: &QueryExecution<'_, '_>,
    ) -> Result<Option<(Page, QueryReport)>> {
        let (BoundPage { query: bound, expanding, resume, .. }, budget) =
            (execution.bound, execution.budget);
        let now_us = self.engine.clock.now_us();
        let expanding = expanding.as_ref().zip(execution.names);
        let (opened, open) = timed(|| match expanding {
            None => Ok((Shards::open(self.engine, container, scope, budget)?, None)),
            Some((expanding, names)) => {
                expanding.open(names, self.engine, container, scope, budget)
            }
        });
        let (shards, expansion) = opened?;
        let shards = &shards;
        let (rows, with_index) = (execution.size.items, !execution.paging.without_index);
        let ((plan, prefetched), plan_time) =
            timed(|| plan(bound, shards, scope, resume.as_ref(), rows, with_index));
        let expansion = expansion.as_ref();
        let stays_small = expanding.is_none_or(|(expanding, _)| expanding.stays_small(&plan));
        if execution.placement == Placement::Inline && !(stays_small && plan.is_cheap()) {
            return Ok(None);
        }
        let udfs = Some(execution.udfs as &dyn UdfHost);
        let relations = expansion.map(|expansion| expansion as &dyn RelationHost);
        let context = EvalContext { udfs, relations, ..self.context(budget) };
        let run = Run::by(&plan, resume.clone(), execution.bound.filter.clone());
        shards.need(bound.members(&run))?;
        let (context, found) = (&context, None);
        let reader =
            Reader { bound, run, shards, scope, plan, context, expansion, prefetched, found };
        let read = reader.read(execution.size.limits(), execution.paging.explains);
        let (mut page, mut report) = read.map_err(|error| execution.udfs.failure(error))?;
        if let (Some((expanding, _)), Some(expansion)) = (expanding, expansion) {
            page.rows = expanding.rows(expansion, page.rows)?;
            expanding.report(expansion, &mut report);
        }
        let bind = execution.bound.bind_time;
        report.times = QueryTimes { bind, plan: plan_time, open, ..report.times };
        report.time_us = self.engine.clock.now_us().saturating_sub(now_us);
        Ok(Some((page, report)))
    }

    /// A page of a query over the items of a source in the order of keys; `owner` tells whose its
    /// tokens are.
    pub(crate) fn query_source(
        self,
        container: &Container,
        request: &QueryRequest,
        source: &mut dyn ItemSource,
        size: PageSize,
        owner: &str,
        token: Option<&str>,
    ) -> Result<QueryPage> {
        let udfs = UdfCalls::new(self.engine, container);
        let database = self.engine.models().database_of(container);
        let model = ModelContext::of(database.as_deref(), container);
        let names = model.map(|model| Names::new(model, container));
        let bound = bind(container, request, &udfs, names.as_ref())?;
        if let Some(followed) = bound.relations().first() {
            return Err(out_of_transaction(&followed.navigation.path));
        }
        let mut run = Run::over_keys(resume(&bound, owner, token)?);
        run.filter = request.filter(container, &bound)?;
        let budget = self.page_budget(None);
        let context = EvalContext { udfs: Some(&udfs), ..self.context(&budget) };
        let page = execute(&bound, source, &run, size.limits(), &context);
        let page = page.map_err(|error| udfs.failure(query_error(error)))?;
        let continuation = page.continuation.map(|s| continuation::encode(owner, s.as_bytes()));
        let (items, steps) = (page.items_read, page.steps);
        let report = QueryReport { items, steps, ..QueryReport::default() };
        Ok(query_page(&page.rows, continuation, report))
    }

    /// The plan for a client that can do what `features` name; an empty list names nothing.
    pub fn query_plan_for(
        self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        features: &[String],
    ) -> Result<String> {
        let lacks = |needed: &&&str| !features.iter().any(|f| f.eq_ignore_ascii_case(needed));
        let needed = request.query.merge_features();
        let lacking: Vec<&&str> = needed.iter().filter(lacks).collect();
        if !features.is_empty() && !lacking.is_empty() {
            let list = lacking.iter().fold(String::new(), |list, feature| {
                format!(
                    "{list}\nQuery contained {feature}, which the calling client does not support."
                )
            });
            return Err(Error::invalid(format!(
                "Query contains 1 or more unsupported features. Upgrade your SDK to a version that \
                 does support the requested features:{list}"
            )));
        }
        let skips = features.iter().any(|f| f.eq_ignore_ascii_case(SKIP_ORDER_BY_REWRITE));
        self.plan_of(container, scope, request, skips)
    }

    /// The plan by which a client merges the query over physical partitions itself, as JSON.
    pub fn query_plan(
        self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
    ) -> Result<String> {
        self.plan_of(container, scope, request, false)
    }

    fn plan_of(
        self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        skip_order_by_rewrite: bool,
    ) -> Result<String> {
        let database = self.engine.models().database_of(container);
        let model = ModelContext::of(database.as_deref(), container);
        let names = model.map(|model| Names::new(model, container));
        let facts = container_facts(container, None, names.as_ref())?;
        let target = PlanTarget {
            definition: &container.definition.partition_key,
            key: scope.partition_key.as_ref(),
            range: scope.range.as_ref(),
            skip_order_by_rewrite,
        };
        query_plan(&request.query, &request.parameters, &facts, &target).map_err(query_error)
    }

    pub(crate) fn context<'a>(self, budget: &'a ExecutionBudget<'a>) -> EvalContext<'a> {
        let now_us = i64::try_from(self.engine.clock.now_us()).unwrap_or(i64::MAX);
        EvalContext { now_us, ..EvalContext::new(budget) }
    }
}
