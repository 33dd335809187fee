//! The path ids of one snapshot, for reading an index without changing it.

use std::collections::HashMap;

use orrery_storage::key::{self, CompositeId, PathId, PathStep, ROOT_PATH, ShapeId};
use orrery_storage::{Snapshot, Space, StorageError};
use orrery_types::limits;

use crate::shapes;
use crate::terms::PathIds;

/// Why a number was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoNumber {
    /// It was never given: no index has this path.
    Unknown,
    /// The store could not say.
    Failed(StorageError),
}

impl From<StorageError> for NoNumber {
    fn from(error: StorageError) -> Self {
        Self::Failed(error)
    }
}

/// The numbers of a snapshot; what was found is kept.
pub struct StoredIds<'s> {
    snapshot: &'s dyn Snapshot,
    found: HashMap<Vec<u8>, u32>,
}

impl<'s> StoredIds<'s> {
    /// Numbers of the shard that the snapshot shows.
    pub fn new(snapshot: &'s dyn Snapshot) -> Self {
        Self { snapshot, found: HashMap::new() }
    }

    /// Whether there are as many shapes as there may be.
    fn has_all_shapes(&self) -> Result<bool, StorageError> {
        Ok(shapes::all(self.snapshot)?.len() >= limits::INDEX_SHAPES_MAX)
    }

    fn number(&mut self, key: Vec<u8>) -> Result<u32, NoNumber> {
        if let Some(number) = self.found.get(&key) {
            return Ok(*number);
        }
        let found = self.snapshot.get(Space::Meta, &key)?.ok_or(NoNumber::Unknown)?;
        let corrupt = |_| StorageError::Corrupt("a number of the index is malformed".into());
        let number = u32::from_be_bytes(found.bytes[..].try_into().map_err(corrupt)?);
        self.found.insert(key, number);
        Ok(number)
    }
}

impl PathIds for StoredIds<'_> {
    type Node = PathId;
    type Error = NoNumber;

    fn root(&self) -> PathId {
        ROOT_PATH
    }

    fn child(&mut self, node: PathId, step: PathStep<'_>) -> Result<PathId, NoNumber> {
        self.number(key::path_node(node, step)).map(PathId)
    }

    fn id(&self, node: PathId) -> PathId {
        node
    }

    fn composite(&mut self, text: &str) -> Result<CompositeId, NoNumber> {
        self.number(key::composite_name(text)).map(CompositeId)
    }

    fn shape(&mut self, paths: &[PathId]) -> Result<ShapeId, NoNumber> {
        match self.number(key::shape_name(paths)) {
            Err(NoNumber::Unknown) if self.has_all_shapes()? => Ok(ShapeId::ANY),
            number => number.map(ShapeId),
        }
    }
}
