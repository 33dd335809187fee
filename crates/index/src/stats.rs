//! Estimates of how many rows have a value, for the choice of an access path. They are cheap and rough; no
//! result may depend on them.

use std::ops::Bound;

use orrery_storage::key::{self, Bounds, PathId, prefix_end, term_prefix};
use orrery_storage::{Snapshot, Space, StorageError};
use orrery_types::Value;

type Result<T> = std::result::Result<T, StorageError>;

/// Statistics of one shard's index.
#[derive(Clone, Copy)]
pub struct IndexStats<'s> {
    snapshot: &'s dyn Snapshot,
}

impl<'s> IndexStats<'s> {
    /// Statistics of what a snapshot shows.
    pub fn new(snapshot: &'s dyn Snapshot) -> Self {
        Self { snapshot }
    }

    /// Items.
    pub fn rows(&self) -> Result<u64> {
        self.estimate(Space::Items, &key::all_rows())
    }

    /// Rows with any value at a path; elements of arrays count each.
    pub fn rows_with_path(&self, path: PathId) -> Result<u64> {
        self.terms(&key::terms_of(path))
    }

    /// Rows with this value at a path, or for a long string, an array or an object, with one of the
    /// same term.
    pub fn rows_with_value(&self, path: PathId, value: &Value) -> Result<u64> {
        self.terms(&Bounds::prefix(term_prefix(path, value)))
    }

    /// Rows with a value of a range at a path.
    pub fn rows_in_range(
        &self,
        path: PathId,
        from: Bound<&Value>,
        to: Bound<&Value>,
    ) -> Result<u64> {
        self.terms(&value_range(path, from, to))
    }

    /// Keys of the index between two bounds.
    pub fn terms(&self, bounds: &Bounds) -> Result<u64> {
        self.estimate(Space::Index, bounds)
    }

    fn estimate(&self, space: Space, bounds: &Bounds) -> Result<u64> {
        self.snapshot.estimate(space, &bounds.from, &bounds.to)
    }
}

/// The terms of a path from one value to another. A bound whose own term is not whole is always
/// within: the rows there have to be looked at.
pub fn value_range(path: PathId, from: Bound<&Value>, to: Bound<&Value>) -> Bounds {
    let all = key::terms_of(path);
    let whole = orrery_storage::term::is_whole;
    let from = match from {
        Bound::Unbounded => all.from,
        Bound::Excluded(value) if whole(value) => prefix_end(&term_prefix(path, value)),
        Bound::Included(value) | Bound::Excluded(value) => term_prefix(path, value),
    };
    let to = match to {
        Bound::Unbounded => all.to,
        Bound::Excluded(value) if whole(value) => term_prefix(path, value),
        Bound::Included(value) | Bound::Excluded(value) => prefix_end(&term_prefix(path, value)),
    };
    Bounds { from, to }
}
