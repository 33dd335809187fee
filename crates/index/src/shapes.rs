//! Shapes: which paths an item has. Most items of a container have one of a few sets of paths. Each set has an
//! id and is a term of its own, so it leads to all rows *without* a path, which no term of that path can.
//! Paths through arrays are left out. A partition distinguishes a limited number of sets; items with further
//! sets share the shape *any* and have to be loaded.

use foldhash::{HashMap, HashMapExt as _};

use orrery_storage::key::{self, PathId, ShapeId};
use orrery_storage::{Snapshot, Space, StorageError};
use orrery_types::limits;

type Result<T> = std::result::Result<T, StorageError>;

/// Every shape of a snapshot's shard, with its paths in ascending order.
pub fn all(snapshot: &dyn Snapshot) -> Result<HashMap<Box<[PathId]>, ShapeId>> {
    let bounds = key::shape_names();
    let scan = bounds.scan(Space::Meta, limits::INDEX_SHAPES_MAX, usize::MAX);
    let corrupt = || StorageError::Corrupt("a shape of the index is malformed".into());
    let mut shapes = HashMap::new();
    for entry in snapshot.scan(&scan)? {
        let paths = key::parse_shape_name(&entry.key).ok_or_else(corrupt)?;
        let id = entry.value.bytes[..].try_into().map_err(|_| corrupt())?;
        shapes.insert(paths.into(), ShapeId(u32::from_be_bytes(id)));
    }
    Ok(shapes)
}

/// The shapes whose items lack a path. The rows of [`ShapeId::ANY`], which is always among them, may
/// lack it or not. Relies on every item having its shape: see `IndexState::has_shapes`.
pub fn without(snapshot: &dyn Snapshot, path: PathId) -> Result<Vec<ShapeId>> {
    let all = all(snapshot)?;
    let missing = all.into_iter().filter(|(paths, _)| paths.binary_search(&path).is_err());
    let mut shapes: Vec<ShapeId> = missing.map(|(_, id)| id).chain([ShapeId::ANY]).collect();
    shapes.sort_unstable();
    Ok(shapes)
}
