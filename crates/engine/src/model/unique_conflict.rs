//! Why a commit of derived writes loses. If another item has a unique key that the commit needs, no
//! retry helps as long as it has: the write that follows is refused like a client's would be. A holder
//! that has expired is in the way until the sweeper has removed it.

use orrery_storage::{FailedPrecondition, Space};
use orrery_types::{Error, Result};

use crate::Engine;
use crate::error::storage;
use crate::maintain::unique_keys::UniqueKeyCheck;

impl Engine {
    /// The refusal that a failed precondition means; `None` if the commit may be tried again.
    pub(crate) fn refusal_of(
        &self,
        unique: &[UniqueKeyCheck<'_>],
        failed: &FailedPrecondition,
    ) -> Result<Option<Error>> {
        let Some(unique) = unique.iter().find(|unique| unique.is(failed)) else {
            return Ok(None);
        };
        let shard = unique.entry.at.partition.shard;
        let holder = self.store.get(shard, Space::Index, &unique.key).map_err(storage)?.1;
        Ok(holder.map(|_| unique.violation()))
    }
}
