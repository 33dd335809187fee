//! The versions of an item, in containers whose change feed policy keeps them.

use orrery_storage::Part;
use orrery_storage::version::{Operation, Version};
use orrery_types::{Lsn, Result};

use super::{CommitContext, CommitMaintainer};
use crate::item::image::{AfterImage, BeforeImage};
use crate::transaction::write_buffer::ItemEntry;

/// A commit has one change for each item, however often its transaction wrote to it, but for an item that
/// takes the place of one that has expired: then there are two.
#[derive(Debug)]
pub(super) struct VersionHistory;

impl CommitMaintainer for VersionHistory {
    fn maintain(
        &self,
        entry: &ItemEntry<'_>,
        context: &CommitContext<'_>,
        part: &mut Part,
    ) -> Result<()> {
        if context.indexer.container.definition.versions_kept_s().is_none() {
            return Ok(());
        }
        let key = &entry.at.key;
        let mut keep = |version: Version<'_>| part.versions.push(version.encode());
        let before = entry.before.as_ref();
        match entry.after() {
            Some(after) if entry.keeps_row() => {
                keep(version_of(Operation::Replace, key, after, before.map(|b| b.version)));
            }
            after => {
                if let Some(before) = before {
                    keep(removal_of(context, key, before, &before.text()));
                }
                if let Some(after) = after {
                    keep(version_of(Operation::Create, key, after, None));
                }
            }
        }
        Ok(())
    }
}

fn removal_of<'v>(
    context: &CommitContext<'_>,
    item_key: &'v [u8],
    before: &BeforeImage,
    body: &'v [u8],
) -> Version<'v> {
    let (engine, container) = (context.engine, context.indexer.container);
    let expired = engine.is_expired(container, &before.header);
    let operation = if expired { Operation::Expire } else { Operation::Delete };
    let (time_s, previous) = (engine.clock.now_s(), Some(before.version));
    Version { operation, time_s, previous, item_key, body }
}

fn version_of<'v>(
    operation: Operation,
    item_key: &'v [u8],
    after: &'v AfterImage,
    previous: Option<Lsn>,
) -> Version<'v> {
    Version { operation, time_s: after.stamp.ts, previous, item_key, body: &after.text }
}
