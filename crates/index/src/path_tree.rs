//! The numbers of paths that a partition has in memory, as a tree that is walked along with an item,
//! so that no path is ever spelled out.

use std::collections::HashMap;

use orrery_storage::key::{CompositeId, PathId, PathStep, ROOT_PATH};
use orrery_types::limits;

use crate::terms::PathIds;

/// Paths by step, and composite indexes by text.
#[derive(Debug)]
pub struct PathTree {
    nodes: Vec<Node>,
    places: HashMap<PathId, usize>,
    composites: HashMap<Box<str>, CompositeId>,
}

#[derive(Debug)]
struct Node {
    id: PathId,
    properties: HashMap<Box<str>, usize>,
    elements: Option<usize>,
}

impl Node {
    fn new(id: PathId) -> Self {
        Self { id, properties: HashMap::new(), elements: None }
    }

    fn child(&self, step: PathStep<'_>) -> Option<usize> {
        match step {
            PathStep::Elements => self.elements,
            PathStep::Property(name) => self.properties.get(name).copied(),
        }
    }
}

impl Default for PathTree {
    fn default() -> Self {
        let places = HashMap::from([(ROOT_PATH, 0)]);
        Self { nodes: vec![Node::new(ROOT_PATH)], places, composites: HashMap::new() }
    }
}

impl PathTree {
    /// The number of a path one step from another, if it is known here.
    pub fn child(&self, parent: PathId, step: PathStep<'_>) -> Option<PathId> {
        let child = self.nodes[*self.places.get(&parent)?].child(step)?;
        Some(self.nodes[child].id)
    }

    /// The number of a composite index, if it is known here.
    pub fn composite(&self, text: &str) -> Option<CompositeId> {
        self.composites.get(text).copied()
    }

    /// Whether there is no room for another path.
    pub fn is_full(&self) -> bool {
        self.nodes.len() >= limits::INDEX_PATHS_CACHED_MAX
    }

    /// Adds a path; not if there is no room, or its parent is not here.
    pub fn insert(&mut self, parent: PathId, step: PathStep<'_>, id: PathId) {
        let Some(parent) = self.places.get(&parent).copied() else { return };
        if self.is_full() || self.nodes[parent].child(step).is_some() {
            return;
        }
        let place = self.nodes.len();
        self.nodes.push(Node::new(id));
        self.places.insert(id, place);
        match step {
            PathStep::Elements => self.nodes[parent].elements = Some(place),
            PathStep::Property(name) => {
                self.nodes[parent].properties.insert(name.into(), place);
            }
        }
    }

    /// Adds a composite index. There are as many as policies name, so there is always room.
    pub fn insert_composite(&mut self, text: &str, id: CompositeId) {
        self.composites.insert(text.into(), id);
    }
}

/// What a path's number is asked for and the tree does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// Looks in the tree and nowhere else.
impl PathIds for &PathTree {
    type Node = usize;
    type Error = Unknown;

    fn root(&self) -> usize {
        0
    }

    fn child(&mut self, node: usize, step: PathStep<'_>) -> Result<usize, Unknown> {
        self.nodes[node].child(step).ok_or(Unknown)
    }

    fn id(&self, node: usize) -> PathId {
        self.nodes[node].id
    }

    fn composite(&mut self, text: &str) -> Result<CompositeId, Unknown> {
        PathTree::composite(self, text).ok_or(Unknown)
    }
}
