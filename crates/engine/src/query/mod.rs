//! Queries: the text and parameters of a request, run over the items of a container or over a feed
//! of the catalog. The language itself is in the `query` crate; here it gets items and the time.

pub(crate) mod access;
pub mod continuation;
pub(crate) mod facts;
mod feed_page;
pub(crate) mod memory;
mod partition_cursor;
pub mod read_feed;
mod reader;
pub mod relations;
mod resume_position;
pub(crate) mod slices;

use std::cell::Cell;
use std::sync::Arc;

use orrery_query::plan::{Plan, PlanRequest};
use orrery_query::{
    BoundQuery, ContainerFacts, EvalContext, Followed, Geospatial, ItemSource, Page, PageLimits,
    Place, PlanTarget, Query, QueryError, RelationHost, Relations, Resume, ResumeFilter, Row, Run,
    SourceItem, UdfHost, execute, query_plan,
};
use orrery_types::ids::Rid;
use orrery_types::{CancellationToken, Error, PartitionKey, Result, Value, limits};

use crate::catalog::resource::require_object;
use crate::model::ModelContext;
use crate::partition::scope::Scope;
use crate::query::access::Shards;
use crate::query::access::index_facts::Facts;
use crate::query::access::prefetched::OpenLists;
use crate::query::read_feed::PageSize;
use crate::query::relations::{Expansion, Names, Reach};
use crate::script::UdfCalls;
use crate::throughput::charge::{self, QueryWork};
use crate::{Container, Engine};
use partition_cursor::Leg;
use reader::Reader;
use relations::expanding::Expanding;
use resume_position::ResumePosition;

pub use orrery_query::plan::PlanPath;
pub use reader::Report;

/// The names of all functions of the language, for those who complete what somebody types.
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
    pub report: Report,
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
        QueryError::Cancelled => Error::Timeout("The request was given up.".into()),
        QueryError::Exhausted => {
            Error::RateLimited { retry_after_ms: limits::QUERY_MEMORY_RETRY_MS }
        }
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
    /// Whether the client merges the answers of several partitions itself: then it is told to.
    pub merges: bool,
    /// Whether the plan is wanted with the answer.
    pub explains: bool,
    /// Whether all items are to be read, whatever the index has: for comparing the two.
    pub without_index: bool,
    /// Whether the page is only wanted if it takes next to nothing.
    pub if_cheap: bool,
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

/// The feature of clients that merge the components of a hybrid search without `orderByItems`.
const SKIP_ORDER_BY_REWRITE: &str = "HybridSearchSkipOrderByRewrite";

/// What a query may know of a container.
fn container_facts<'a>(
    container: &'a Container,
    has_udf: Option<&'a dyn Fn(&str) -> bool>,
    names: Option<&'a Names<'a>>,
) -> Result<ContainerFacts<'a>> {
    let facts = container.definition.query_facts.of(&container.definition)?;
    Ok(ContainerFacts {
        computed: &facts.computed,
        order: Some(&facts.order),
        vectors: &facts.vectors,
        has_udf,
        geospatial: facts.geospatial,
        relations: names.map(|names| names as &dyn Relations),
        planning: false,
    })
}

/// The query made ready for a container.
fn bind(
    container: &Container,
    request: &QueryRequest,
    udfs: &UdfCalls<'_>,
    names: Option<&Names<'_>>,
) -> Result<BoundQuery> {
    let has_udf = |name: &str| udfs.has(name);
    let facts = container_facts(container, Some(&has_udf), names)?;
    request.query.bind(&request.parameters, &facts).map_err(query_error)
}

/// Whose the tokens of a query are.
fn owner(container: &Container, scope: &Scope) -> String {
    format!("query {} {}", container.rid(), scope.logical_partition())
}

/// A query with what its sender wants of it.
struct Asked<'q, 'e> {
    bound: &'q BoundQuery,
    udfs: &'q UdfCalls<'e>,
    size: PageSize,
    paging: &'q Paging<'q>,
    expanding: Option<&'q Expanding<'q>>,
    filter: Option<ResumeFilter>,
}

/// The way that a query takes, and the lists that were begun to find it.
fn plan<'s>(
    bound: &BoundQuery,
    shards: &'s Shards<'_>,
    scope: &Scope,
    resume: Option<&Resume>,
    rows: usize,
    with_index: bool,
) -> (Plan, OpenLists<'s>) {
    let facts = Facts::new(shards, with_index);
    let definition = &shards.container.definition;
    let key = scope.partition_key.as_ref();
    let request = PlanRequest {
        facts: &facts,
        key,
        key_paths: &definition.partition_key.paths,
        is_whole: key.is_some() || shards.are_whole(),
        is_mortal: definition.default_ttl.is_some() || shards.hide_any(),
        rows,
    };
    let plan = bound.plan(&request, resume);
    (plan, facts.into_open())
}

/// The place that a token of this query names.
fn resume(bound: &BoundQuery, owner: &str, token: Option<&str>) -> Result<Option<Resume>> {
    let Some(token) = token else { return Ok(None) };
    let state = continuation::decode(owner, token)?;
    Resume::parse(&String::from_utf8_lossy(&state), bound).map(Some).map_err(query_error)
}

fn query_page(rows: &[Row], continuation: Option<String>, report: Report) -> QueryPage {
    // A row is often as long as the one before.
    let mut length = 0;
    let text = |row: &Row| {
        let text = row.to_json(length);
        length = text.len();
        text
    };
    let rows: Vec<String> = rows.iter().map(text).collect();
    let work = QueryWork {
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
        let paging = Paging { if_cheap: false, ..*paging };
        let page = self.try_query_items(container, scope, request, size, &paging)?;
        page.ok_or_else(|| Error::internal("a query was too dear, whatever it cost"))
    }

    /// The same; `None` if it is only wanted if it is cheap, and is not.
    pub fn try_query_items(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        size: PageSize,
        paging: &Paging<'_>,
    ) -> Result<Option<QueryPage>> {
        self.retry_on_gone_shard(container, &|now| {
            self.query_items_in(now, scope, request, size, paging)
        })
    }

    fn query_items_in(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        size: PageSize,
        paging: &Paging<'_>,
    ) -> Result<Option<QueryPage>> {
        let are_many = container.partitions.len() > limits::IN_PLACE_QUERY_PARTITIONS_MAX;
        if paging.if_cheap && (are_many || request.may_take_long()) {
            return Ok(None);
        }
        let database = self.database_of(container);
        let model = ModelContext::of(database.as_deref(), container);
        let names = model.map(|model| Names::new(model, container));
        let udfs = UdfCalls::new(self, container);
        let bound = bind(container, request, &udfs, names.as_ref())?;
        let expanding = Expanding::new(&bound, names.as_ref(), paging)?;
        let keys = bound.partition_keys(&container.definition.partition_key.paths);
        let definition = &container.definition.partition_key;
        // A prefix of a hierarchical key is not one key: it has any number of partitions under it.
        let single = keys.as_ref().is_some_and(|keys| match keys.as_slice() {
            [] => true,
            [key] => definition.is_complete(key),
            _ => false,
        });
        if !scope.confined && !single && !paging.crosses && bound.reads_items() {
            return Err(crossing_refused());
        }
        let crosses = !scope.confined && !single;
        let shape = request.query.shape();
        let merged = shape.needs_merge();
        let narrowed = keys.and_then(|keys| narrowed(container, scope, &keys));
        let reached = narrowed.as_ref().unwrap_or(scope);
        let owner = owner(container, reached);
        let state = paging.continuation.map(|t| continuation::decode(&owner, t)).transpose();
        // Also where there is one partition: so does the original, and a client that is told so today
        // has nothing new to learn when there are two. What was answered whole goes on as it began; a
        // client that merges resumes with a token of its own making and needs the plan again.
        let begins = !matches!(state, Ok(Some(_)));
        // A filter that names one key leaves nothing to merge, but an aggregate without VALUE is refused
        // before anybody looks at the filter: the Python SDK's tests have it so of the service.
        let planned = crosses || !scope.confined && shape.aggregates_into_properties();
        if planned && merged && paging.merges && begins && bound.reads_items() {
            return Err(Error::CrossPartition(self.query_plan(container, scope, request)?.into()));
        }
        let (scope, state) = (reached, state?);
        // What reads no items has one row, whatever partitions there are.
        let several = container.partitions.len() > 1 && bound.reads_items();
        let in_legs = crosses && !merged && several;
        let (leg, state) = Leg::parse(container, scope, state, in_legs)?;
        let resume = state.map(|text| Resume::parse(&text, &bound)).transpose();
        let resume = resume.map_err(query_error)?;
        let part = leg.as_ref().map_or(scope, |leg| &leg.scope);
        let expanding = expanding.as_ref();
        let filter = request.filter(container, &bound)?;
        let asked = Asked { bound: &bound, udfs: &udfs, size, paging, expanding, filter };
        let Some((page, report)) = self.read_part(container, part, &asked, resume)? else {
            return Ok(None);
        };
        let next = match &leg {
            None => page.continuation,
            Some(leg) => leg.next(container, scope, page.continuation),
        };
        let continuation = next.map(|state| continuation::encode(&owner, state.as_bytes()));
        let page = query_page(&page.rows, continuation, report);
        if self.workload.samples_query() {
            self.note_query(container, scope, request, &bound, &page);
        }
        Ok(Some(page))
    }

    /// Tells the advisor's notes of a query.
    fn note_query(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        bound: &BoundQuery,
        page: &QueryPage,
    ) {
        let asked = crate::insight::workload::Asked {
            text: request.query.text(),
            print: xxhash_rust::xxh3::xxh3_64(request.query.text().as_bytes()),
            charge: page.charge,
            key: scope.partition_key.as_ref(),
            paths: page.report.paths.iter().map(PlanPath::model_path).collect(),
            expands: bound.relations().into_iter().map(Followed::path_and_fields).collect(),
            aggregates: request.query.shape().aggregates,
            rows: &page.rows,
        };
        self.workload.asked(container, self.clock.now_s(), &asked);
    }

    /// A page of a query over one part of a container; `None` if it must be cheap and is not.
    fn read_part(
        &self,
        container: &Container,
        scope: &Scope,
        asked: &Asked<'_, '_>,
        resume: Option<Resume>,
    ) -> Result<Option<(Page, Report)>> {
        let bound = asked.bound;
        let if_cheap = asked.paging.if_cheap;
        let slice = (!if_cheap).then(|| self.slices.enter());
        let now_us = self.clock.now_us();
        let (shards, expansion) = match asked.expanding {
            None => (Shards::open(self, container, scope)?, None),
            Some(expanding) => expanding.open(self, container, scope)?,
        };
        let shards = &shards;
        let (rows, with_index) = (asked.size.items, !asked.paging.without_index);
        let (plan, open) = plan(bound, shards, scope, resume.as_ref(), rows, with_index);
        let expansion = expansion.as_ref();
        let stays_small = asked.expanding.is_none_or(|expanding| expanding.stays_small(&plan));
        if if_cheap && !(stays_small && plan.is_cheap()) {
            return Ok(None);
        }
        let out_of_time = || {
            let spent = expansion.is_some_and(Expansion::is_spent);
            spent || self.clock.now_us().saturating_sub(now_us) > limits::QUERY_PAGE_MS_MAX * 1000
        };
        // A join or a query within the query may take any time for a single item. It is first asked
        // after many steps, about a millisecond: whoever wanted little has waited enough by then.
        let too_dear = Cell::new(false);
        let gives_up = || {
            if let Some(slice) = &slice {
                slice.end();
            }
            too_dear.set(if_cheap);
            if_cheap || asked.paging.cancellation.is_some_and(CancellationToken::is_cancelled)
        };
        let (udfs, out_of_time) = (Some(asked.udfs as &dyn UdfHost), Some(&out_of_time as _));
        let relations = expansion.map(|expansion| expansion as &dyn RelationHost);
        let cancelled = Some(&gives_up as _);
        let context = EvalContext { udfs, relations, out_of_time, cancelled, ..self.context() };
        let run = Run::by(&plan, resume, asked.filter.clone());
        shards.need(bound.members(&run))?;
        let (context, found) = (&context, None);
        let reader = Reader { bound, run, shards, scope, plan, context, expansion, open, found };
        let read = reader.read(asked.size.limits(), asked.paging.explains);
        let is_too_dear = || too_dear.get() || expansion.is_some_and(Expansion::is_too_dear);
        if is_too_dear() {
            return Ok(None);
        }
        let (mut page, mut report) = read.map_err(|error| asked.udfs.failure(error))?;
        if let (Some(expanding), Some(expansion)) = (asked.expanding, expansion) {
            let rows = expanding.rows(expansion, page.rows);
            if is_too_dear() {
                return Ok(None);
            }
            page.rows = rows?;
            expanding.report(expansion, &mut report);
        }
        report.time_us = self.clock.now_us().saturating_sub(now_us);
        Ok(Some((page, report)))
    }

    /// A page of a query over the items of a source in the order of keys; `owner` tells whose its
    /// tokens are.
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
        let database = self.database_of(container);
        let model = ModelContext::of(database.as_deref(), container);
        let names = model.map(|model| Names::new(model, container));
        let bound = bind(container, request, &udfs, names.as_ref())?;
        if let Some(followed) = bound.relations().first() {
            return Err(out_of_transaction(&followed.navigation.path));
        }
        let mut run = Run::over_keys(resume(&bound, owner, token)?);
        run.filter = request.filter(container, &bound)?;
        let context = EvalContext { udfs: Some(&udfs), ..self.context() };
        let page = execute(&bound, source, &run, size.limits(), &context);
        let page = page.map_err(|error| udfs.failure(query_error(error)))?;
        let continuation = page.continuation.map(|s| continuation::encode(owner, s.as_bytes()));
        let (items, steps) = (page.items_read, page.steps);
        let report = Report { items, steps, ..Report::default() };
        Ok(query_page(&page.rows, continuation, report))
    }

    /// The plan for a client that can do what `features` name; an empty list names nothing.
    pub fn query_plan_for(
        &self,
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
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
    ) -> Result<String> {
        self.plan_of(container, scope, request, false)
    }

    fn plan_of(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        skip_order_by_rewrite: bool,
    ) -> Result<String> {
        let database = self.database_of(container);
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

    /// A page of a query over values that are in memory: a feed of the catalog, in the order of their
    /// rids; and the continuation. `owner` tells whose its tokens are.
    pub fn query_values(
        &self,
        values: Vec<Value>,
        request: &QueryRequest,
        size: PageSize,
        owner: &str,
        token: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>)> {
        if request.resume.is_some() {
            return Err(Error::invalid("A resumeFilter is only valid in a query over items."));
        }
        let facts = ContainerFacts::default();
        let bound = request.query.bind(&request.parameters, &facts).map_err(query_error)?;
        let mut source = ValueSource { values: values.into_iter().peekable(), given: 0 };
        let page_limits = PageLimits { rows_max: size.items, bytes_max: usize::MAX };
        let run = Run::over_keys(resume(&bound, owner, token)?);
        let page = execute(&bound, &mut source, &run, page_limits, &self.context());
        let page = page.map_err(query_error)?;
        let continuation = page.continuation.map(|s| continuation::encode(owner, s.as_bytes()));
        Ok((page.rows.into_iter().map(Row::into_value).collect(), continuation))
    }

    pub(crate) fn context(&self) -> EvalContext<'_> {
        let now_us = i64::try_from(self.clock.now_us()).unwrap_or(i64::MAX);
        EvalContext { now_us, memory: Some(&self.query_memory), ..EvalContext::default() }
    }
}

/// The condition of a patch: `FROM c WHERE …` over the one item.
#[derive(Debug)]
pub(crate) struct Condition {
    query: Query,
    /// Made ready for a container of the usual kind.
    bound: BoundQuery,
}

impl Condition {
    pub(crate) fn parse(text: &str) -> Result<Arc<Self>> {
        let query = Query::parse_condition(text).map_err(query_error)?;
        let bound = query.bind(&[], &ContainerFacts::default()).map_err(query_error)?;
        Ok(Arc::new(Self { query, bound }))
    }

    pub(crate) fn matches(
        &self,
        item: &Value,
        container: &Container,
        context: &EvalContext<'_>,
    ) -> Result<bool> {
        let geospatial = container.definition.geospatial();
        if geospatial == Geospatial::default() {
            return self.bound.matches(item, context).map_err(query_error);
        }
        let facts = ContainerFacts { geospatial, ..ContainerFacts::default() };
        let bound = self.query.bind(&[], &facts).map_err(query_error)?;
        bound.matches(item, context).map_err(query_error)
    }
}

struct ValueSource {
    values: std::iter::Peekable<std::vec::IntoIter<Value>>,
    given: u64,
}

/// What the values come in the order of.
fn rid_of(value: &Value) -> Option<Rid> {
    value.get("_rid").as_str()?.parse().ok()
}

impl ItemSource for ValueSource {
    fn seek(&mut self, place: Place<'_>) -> Result<()> {
        let first = std::str::from_utf8(place.key()?).ok().and_then(|rid| rid.parse::<Rid>().ok());
        let first = first.ok_or_else(|| Error::invalid("Invalid Continuation Token"))?;
        while self.values.next_if(|value| rid_of(value).is_some_and(|rid| rid < first)).is_some() {}
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let batch: Vec<Value> = self.values.by_ref().take(items_max).collect();
        let first = self.given;
        self.given += batch.len() as u64;
        let item = |(row, value): (u64, Value)| {
            let key = value.get("_rid").as_str().unwrap_or_default().as_bytes().into();
            SourceItem { value, text: None, row, key }
        };
        Ok((first..).zip(batch).map(item).collect())
    }
}
