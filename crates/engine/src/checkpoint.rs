//! A copy of everything, as of one moment, while the engine is used.

use std::path::Path;

use orrery_types::Result;

use crate::Engine;
use crate::error::storage;

impl Engine {
    /// Writes a consistent copy of the whole store into a folder that does not exist yet. What was
    /// acknowledged before the call is in it; writers are not held up.
    pub fn checkpoint(&self, into: &Path) -> Result<()> {
        orrery_storage::checkpoint(&*self.store, into).map_err(storage)
    }
}
