//! What binding a query needs of a container's definition: read once for each version of it, and
//! shared by all queries.

use std::sync::{Arc, OnceLock};

use orrery_index::vector::Embedding;
use orrery_query::{ComputedProperty, Geospatial, IndexedOrder, Metric, VectorPath};
use orrery_types::{PropertyPath, Result};

use super::query_error;
use crate::catalog::container::definition::ContainerDef;

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
