//! The path ids that a partition has in memory, as a tree that is walked along with an item, so that no path is
//! built as a string.

use foldhash::{HashMap, HashMapExt as _};
use orrery_storage::key::{CompositeId, PathId, PathStep, ROOT_PATH, ShapeId};
use orrery_types::limits;

use crate::terms::PathIds;

/// Paths by step, composite indexes by text, and shapes by their paths.
#[derive(Debug)]
pub struct PathTree {
    nodes: Vec<Node>,
    places: HashMap<PathId, usize>,
    composites: HashMap<Box<str>, CompositeId>,
    shapes: HashMap<Box<[PathId]>, ShapeId>,
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
        let places = [(ROOT_PATH, 0)].into_iter().collect();
        let (composites, shapes) = (HashMap::new(), HashMap::new());
        Self { nodes: vec![Node::new(ROOT_PATH)], places, composites, shapes }
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

    /// The number of a shape, if it is known here. Once all that there may be are known, every other
    /// set of paths is any.
    pub fn shape(&self, paths: &[PathId]) -> Option<ShapeId> {
        let full = self.shapes.len() >= limits::INDEX_SHAPES_MAX;
        self.shapes.get(paths).copied().or(full.then_some(ShapeId::ANY))
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

impl PathTree {
    /// Takes the shapes as they are stored.
    pub fn set_shapes(&mut self, shapes: HashMap<Box<[PathId]>, ShapeId>) {
        self.shapes = shapes;
    }

    /// Forgets paths and composite indexes, to make room.
    pub fn forget(&mut self) {
        let shapes = std::mem::take(&mut self.shapes);
        *self = Self { shapes, ..Self::default() };
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

    fn shape(&mut self, paths: &[PathId]) -> Result<ShapeId, Unknown> {
        PathTree::shape(self, paths).ok_or(Unknown)
    }
}
