//! What binding needs to know about the container: computed properties, user-defined functions, which orders
//! its index serves, its vectors, and its geospatial configuration. The engine fills it in from its catalog.
//! [`IndexedOrder`] says which orders an indexing policy serves.

use orrery_index::path::PathEnd;
use orrery_index::{IndexPath, IndexStep, IndexingMode, IndexingPolicy};
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

/// The paths of an indexing policy that matter to ORDER BY.
#[derive(Clone, Debug)]
pub struct IndexedOrder {
    none: bool,
    included: Vec<IndexPath>,
    excluded: Vec<IndexPath>,
    composites: Vec<Vec<(Vec<IndexStep>, Direction)>>,
}

impl IndexedOrder {
    /// Of a policy.
    pub fn new(policy: &IndexingPolicy) -> Self {
        let direction = |descending: bool| {
            if descending { Direction::Descending } else { Direction::Ascending }
        };
        let composite = |paths: &Vec<orrery_index::CompositePath>| {
            paths.iter().map(|p| (p.path.steps.clone(), direction(p.descending))).collect()
        };
        Self {
            none: policy.mode == IndexingMode::None,
            included: policy.included.clone(),
            excluded: policy.excluded.clone(),
            composites: policy.composite.iter().map(composite).collect(),
        }
    }
}

fn covers(own: &IndexPath, path: &[IndexStep]) -> bool {
    match own.end {
        PathEnd::Subtree => path.starts_with(&own.steps),
        PathEnd::Scalar => path == own.steps.as_slice(),
    }
}

/// More steps are more precise; at the same depth the value beats everything below.
fn precision(path: &IndexPath) -> (usize, bool) {
    (path.steps.len(), path.end == PathEnd::Scalar)
}

impl OrderSupport for IndexedOrder {
    fn is_indexed(&self, key: &OrderKey) -> bool {
        if self.none {
            return false;
        }
        let always = ["id", "_ts"].map(|name| IndexStep::Property(name.into()));
        if let [only] = key.path.as_slice()
            && always.contains(only)
        {
            return true;
        }
        let best = |paths: &[IndexPath]| {
            let explicit = |p: &&IndexPath| !key.computed || !p.steps.is_empty();
            let covering = paths.iter().filter(|p| covers(p, &key.path)).filter(explicit);
            covering.map(precision).max()
        };
        let included = best(&self.included);
        included.is_some() && included >= best(&self.excluded)
    }

    fn has_composite(&self, keys: &[OrderKey]) -> bool {
        self.composites.iter().any(|index| {
            let same_paths = index.len() == keys.len()
                && index.iter().zip(keys).all(|((path, _), key)| *path == key.path);
            let same = index.iter().zip(keys).filter(|((_, d), key)| *d == key.direction).count();
            same_paths && (same == 0 || same == keys.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str, direction: Direction) -> OrderKey {
        let path = IndexPath::parse(path, true).unwrap().steps;
        OrderKey { path, direction, computed: false }
    }

    fn policy(text: &str) -> IndexedOrder {
        let policy = orrery_types::Value::parse(text.as_bytes()).unwrap();
        IndexedOrder::new(&IndexingPolicy::parse(&policy).unwrap())
    }

    #[test]
    fn the_more_precise_path_wins() {
        let order = policy(
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/\"c d\"/?"}]}"#,
        );
        let check = |path: &str, expected: bool| {
            assert_eq!(order.is_indexed(&key(path, Direction::Ascending)), expected, "{path}");
        };
        check("/x", true);
        check("/a", false);
        check("/a/c", false);
        check("/a/b", true);
        check("/\"c d\"", false);
        let nothing = policy(r#"{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}"#);
        assert!(nothing.is_indexed(&key("/id", Direction::Ascending)));
        assert!(!nothing.is_indexed(&key("/a", Direction::Ascending)));
    }

    #[test]
    fn a_composite_index_serves_its_own_order_and_the_inverse() {
        use Direction::{Ascending, Descending};
        let order =
            policy(r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]}"#);
        let check = |keys: &[(&str, Direction)], expected: bool| {
            let keys: Vec<_> = keys.iter().map(|(p, d)| key(p, *d)).collect();
            assert_eq!(order.has_composite(&keys), expected, "{keys:?}");
        };
        check(&[("/a", Ascending), ("/b", Descending)], true);
        check(&[("/a", Descending), ("/b", Ascending)], true);
        check(&[("/a", Ascending), ("/b", Ascending)], false);
        check(&[("/b", Descending), ("/a", Ascending)], false);
        check(&[("/a", Ascending)], false);
    }
}
