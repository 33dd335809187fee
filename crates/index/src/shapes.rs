//! Shapes: which paths an item has. Most items of a container have one of a few sets of paths, so a
//! number for each set, as a term of its own, leads to all rows that *lack* a path, which no term of
//! the path itself can. Paths through arrays are not counted. A partition tells so many sets apart;
//! items with further ones share the shape *any* and have to be looked at.

use std::collections::HashMap;

use orrery_storage::key::{self, PathId, ShapeId};
use orrery_storage::{Scan, Snapshot, Space, StorageError};
use orrery_types::limits;

type Result<T> = std::result::Result<T, StorageError>;

/// Every shape of a snapshot's shard, with its paths in ascending order.
pub fn all(snapshot: &dyn Snapshot) -> Result<HashMap<Box<[PathId]>, ShapeId>> {
    let bounds = key::shape_names();
    let scan = Scan {
        space: Space::Meta,
        from: &bounds.from,
        to: &bounds.to,
        reverse: false,
        max_rows: limits::INDEX_SHAPES_MAX,
        max_bytes: usize::MAX,
        keys_only: false,
    };
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
    let lacking = all.into_iter().filter(|(paths, _)| paths.binary_search(&path).is_err());
    let mut shapes: Vec<ShapeId> = lacking.map(|(_, id)| id).chain([ShapeId::ANY]).collect();
    shapes.sort_unstable();
    Ok(shapes)
}
