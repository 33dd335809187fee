//! What binding needs to know about the container: computed properties, user-defined functions,
//! which orders its index can serve, its vectors, and what its figures lie on. The engine fills it
//! in from its catalogue.

use orrery_index::IndexStep;
use orrery_types::PropertyPath;

use crate::ast::Direction;
use crate::computed::ComputedProperty;
use crate::functions::vector::Metric;
use crate::relation::Relations;

/// The container as a query sees it. The default has nothing and serves every order.
#[derive(Clone, Copy, Default)]
pub struct ContainerFacts<'a> {
    /// Its computed properties.
    pub computed: &'a [ComputedProperty],
    /// Whether it has a user-defined function of that name; `None` leaves it to the call.
    pub has_udf: Option<&'a dyn Fn(&str) -> bool>,
    /// Which orders are served; `None` serves all.
    pub order: Option<&'a dyn OrderSupport>,
    /// Its vectors and their metrics.
    pub vectors: &'a [VectorPath],
    /// What its figures lie on.
    pub geospatial: Geospatial,
    /// The relations that lead from its items to others.
    pub relations: Option<&'a dyn Relations>,
    /// Whether the query is only planned: a parameter without a value is a matter of the run.
    pub planning: bool,
}

/// The `geospatialConfig` of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Geospatial {
    /// The Earth: longitude and latitude in degrees, lengths in metres.
    #[default]
    Geography,
    /// A plane: lengths in the units of the coordinates.
    Geometry,
}

/// One entry of the vector embedding policy.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorPath {
    /// Where the vectors stand.
    pub path: PropertyPath,
    /// How they are compared unless the query says otherwise.
    pub metric: Metric,
}

/// One key of ORDER BY as the index sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// From the root of the item.
    pub path: Vec<IndexStep>,
    /// Which way.
    pub direction: Direction,
    /// Whether the path is a computed property, which is indexed only when named explicitly.
    pub computed: bool,
}

/// What the indexing policy says about orders.
pub trait OrderSupport {
    /// Whether the path of a single key is in the index.
    fn is_indexed(&self, key: &OrderKey) -> bool;
    /// Whether a composite index has exactly these keys, all directions equal or all inverted.
    fn has_composite(&self, keys: &[OrderKey]) -> bool;
}
