//! A query made ready to run: parsed from its request, bound to its container and model, and placed where its
//! continuation token says. It owns all it holds, so one that exceeds the inline budget moves to a blocking
//! thread as it is, and nothing of it is parsed or bound twice.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orrery_index::vector::Embedding;
use orrery_query::{
    BoundQuery, ComputedProperty, ContainerFacts, Geospatial, IndexedOrder, Metric, Relations,
    Resume, ResumeFilter, VectorPath,
};
use orrery_types::{Error, ExecutionBudget, PartitionKey, PropertyPath, Result};

use super::continuation::PartitionRangeCursor;
use super::read_feed::PageSize;
use super::relations::Names;
use super::relations::expansion_request::ExpansionRequest;
use super::times::timed;
use super::{
    Paging, Placement, Queries, QueryPage, QueryRequest, continuation, crossing_refused,
    query_error,
};
use crate::Container;
use crate::catalog::container::definition::ContainerDef;
use crate::catalog::resource::Stamp;
use crate::model::ModelContext;
use crate::partition::scope::Scope;
use crate::script::UdfCalls;

/// A page of a query over items, as its request asks for it.
pub struct PreparedQuery {
    container: Arc<Container>,
    scope: Scope,
    request: QueryRequest,
    size: PageSize,
    /// The bound form, from the first time it runs.
    bound: Option<BoundPage>,
}

impl PreparedQuery {
    /// A parsed query over a scope of a container. It is bound where it runs first.
    pub fn new(
        container: Arc<Container>,
        scope: Scope,
        request: QueryRequest,
        size: PageSize,
    ) -> Self {
        Self { container, scope, request, size, bound: None }
    }

    /// The container whose items are read.
    pub fn container(&self) -> &Arc<Container> {
        &self.container
    }

    /// The parsed request.
    pub fn request(&self) -> &QueryRequest {
        &self.request
    }

    pub(super) fn parts(&self) -> QueryParts<'_> {
        QueryParts { scope: &self.scope, request: &self.request, size: self.size }
    }

    /// Runs it, and again under the current layout if a shard is gone. `paging` is the same each time.
    pub(super) fn run(
        &mut self,
        queries: Queries<'_>,
        paging: &Paging<'_>,
        how: (Placement, &ExecutionBudget<'_>),
    ) -> Result<Option<QueryPage>> {
        let mut bound = self.bound.take();
        let page = queries.page_of(&self.container, self.parts(), &mut bound, paging, how);
        self.bound = bound;
        page
    }
}

/// What a request asks of a container.
#[derive(Clone, Copy)]
pub(super) struct QueryParts<'q> {
    pub(super) scope: &'q Scope,
    pub(super) request: &'q QueryRequest,
    pub(super) size: PageSize,
}

/// A query bound to a container and its model, at the position where its page begins.
pub(super) struct BoundPage {
    pub(super) query: BoundQuery,
    /// The version of the model whose names it uses.
    model: Option<Stamp>,
    pub(super) expanding: Option<ExpansionRequest>,
    /// The scope, if the filter names the one partition key that is read.
    narrowed: Option<Scope>,
    /// Whose its continuation tokens are.
    pub(super) owner: String,
    pub(super) cursor: Option<PartitionRangeCursor>,
    pub(super) resume: Option<Resume>,
    pub(super) filter: Option<ResumeFilter>,
    /// Time that binding took.
    pub(super) bind_time: Duration,
}

impl BoundPage {
    /// What is read of the scope that the request names.
    pub(super) fn scope<'a>(&'a self, asked: &'a Scope) -> &'a Scope {
        self.narrowed.as_ref().unwrap_or(asked)
    }

    /// Whether the names it uses are those of the model.
    pub(super) fn is_under(&self, model: Option<ModelContext<'_>>) -> bool {
        self.model == version(model)
    }
}

fn version(model: Option<ModelContext<'_>>) -> Option<Stamp> {
    model.map(|context| context.model.stamp)
}

impl Queries<'_> {
    /// Binds a query, finds what of the scope it reads, and where its page begins. Refuses what the client
    /// did not consent to, or has to merge itself.
    pub(super) fn bind_page(
        self,
        container: &Container,
        QueryParts { scope, request, .. }: QueryParts<'_>,
        paging: &Paging<'_>,
        udfs: &UdfCalls<'_>,
        names: Option<&Names<'_>>,
    ) -> Result<BoundPage> {
        let (bound, bind_time) = timed(|| bind(container, request, udfs, names));
        let bound = bound?;
        let expanding = ExpansionRequest::new(&bound, names, paging)?;
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
        // Also where there is one partition: so does the original, and a client that gets a plan today has
        // nothing new to learn when there are two. What was answered whole goes on as it began; a client
        // that merges resumes with a token of its own making and needs the plan again.
        let begins = !matches!(state, Ok(Some(_)));
        // A filter that names one key leaves nothing to merge, but an aggregate without VALUE is refused
        // before anybody looks at the filter: the Python SDK's tests have it so of the service.
        let planned = crosses || !scope.confined && shape.aggregates_into_properties();
        if planned && merged && paging.merges && begins && bound.reads_items() {
            return Err(Error::CrossPartition(self.query_plan(container, scope, request)?.into()));
        }
        // What reads no items has one row, whatever partitions there are.
        let several = container.partitions.len() > 1 && bound.reads_items();
        let by_range = crosses && !merged && several;
        let (cursor, state) = PartitionRangeCursor::parse(container, reached, state?, by_range)?;
        let resume = state.map(|text| Resume::parse(&text, &bound)).transpose();
        let resume = resume.map_err(query_error)?;
        let filter = request.filter(container, &bound)?;
        let model = version(names.map(|names| names.scope));
        Ok(BoundPage {
            query: bound,
            model,
            expanding,
            narrowed,
            owner,
            cursor,
            resume,
            filter,
            bind_time,
        })
    }
}

/// What a query may know of a container.
pub(super) fn container_facts<'a>(
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

/// Binds a query to a container.
pub(super) fn bind(
    container: &Container,
    request: &QueryRequest,
    udfs: &UdfCalls<'_>,
    names: Option<&Names<'_>>,
) -> Result<BoundQuery> {
    let has_udf = |name: &str| udfs.has(name);
    let facts = container_facts(container, Some(&has_udf), names)?;
    request.query.bind(&request.parameters, &facts).map_err(query_error)
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

/// Whose the tokens of a query are.
fn owner(container: &Container, scope: &Scope) -> String {
    format!("query {} {}", container.rid(), scope.logical_partition())
}

#[cfg(test)]
mod tests;

/// Filled in when the first query asks. All are equal, since each follows from its definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryFacts(Arc<OnceLock<DefinedFacts>>);

/// Computed properties, which orders the index serves, how vectors are compared, and what figures lie
/// on.
#[derive(Debug)]
pub(crate) struct DefinedFacts {
    pub(crate) computed: Vec<ComputedProperty>,
    pub(crate) order: IndexedOrder,
    pub(crate) vectors: Vec<VectorPath>,
    pub(crate) geospatial: Geospatial,
}

impl PartialEq for QueryFacts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl QueryFacts {
    /// The facts of the definition that they are part of.
    pub(crate) fn of(&self, definition: &ContainerDef) -> Result<&DefinedFacts> {
        if let Some(facts) = self.0.get() {
            return Ok(facts);
        }
        let definitions: Vec<(String, String)> =
            definition.computed.iter().map(|c| (c.name.to_string(), c.query.to_string())).collect();
        let computed = ComputedProperty::parse_all(&definitions).map_err(query_error)?;
        let order = IndexedOrder::new(&definition.indexing);
        let embeddings = &definition.vectors.embeddings;
        // The policy was checked when it was given.
        let vector = |embedding: &Embedding| {
            let path = PropertyPath::parse(&embedding.path).ok()?;
            Some(VectorPath { path, metric: Metric::parse(embedding.distance())? })
        };
        let vectors = embeddings.iter().filter_map(vector).collect();
        let geospatial = definition.geospatial();
        Ok(self.0.get_or_init(|| DefinedFacts { computed, order, vectors, geospatial }))
    }
}
