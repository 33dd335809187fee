//! Deletions that global secondary indexes have to follow. The feed of latest versions leads to what exists; so the
//! end of an item is noted beside it, for each index, in the commit that deletes it.

use orrery_storage::{Part, Put, Space, key};
use orrery_types::Result;

use super::{CommitContext, CommitMaintainer};
use crate::transaction::write_buffer::ItemEntry;

#[derive(Debug)]
pub(super) struct IndexDeletions;

impl CommitMaintainer for IndexDeletions {
    fn maintain(
        &self,
        entry: &ItemEntry<'_>,
        context: &CommitContext<'_>,
        part: &mut Part,
    ) -> Result<()> {
        if entry.before.is_none() || entry.after().is_some() {
            return Ok(());
        }
        for (index, _) in &context.indexer.container.secondary.indexes {
            let key = key::secondary_deletion(*index, &entry.at.key);
            let value = context.engine.clock.now_s().to_be_bytes().to_vec();
            part.puts.push(Put { space: Space::Meta, key, value });
        }
        Ok(())
    }
}
