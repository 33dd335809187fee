//! Derived data: everything that is written because an item changes, in the commit of that change. Each
//! kind has a maintainer, which is given the before image and the after image.
//!
//! There are two lists, each in one order:
//!
//! - [`COMMIT_MAINTAINERS`] run once for each item, when the transaction commits, from the image that is
//!   stored and the final one. They write in the item's own shard: record, row, expiry and feed entry,
//!   index terms of every kind, versions, deletions that indexes follow. Derived data of another sort is one more of these.
//! - [`cascade::RELATION_MAINTAINERS`] run for every change of an item under a model, for each relation:
//!   what is kept on targets, copies, and what follows from a deletion. They change other items, whose
//!   changes are followed in turn (`cascade`).
//!
//! Two kinds look at more than one item: `unique_keys`, since a value that one item frees another may
//! take, and `references`, whose entries stand in the shard of the target. `commit::assemble` calls
//! them after the others.

pub(crate) mod buckets;
pub(crate) mod cascade;
mod copies;
pub(crate) mod deferred;
pub(crate) mod index_terms;
mod item_record;
pub(crate) mod kept_on_target;
mod on_delete;
pub(crate) mod own_references;
pub(crate) mod references;
mod secondary_index;
pub(crate) mod unique_keys;

use std::fmt::Debug;

use orrery_storage::Part;
use orrery_types::Result;

use self::index_terms::{IndexTerms, Indexer};
use self::item_record::ItemRecord;
use self::item_record::VersionHistory;
use self::secondary_index::IndexDeletions;
use crate::Engine;
use crate::transaction::write_buffer::ItemEntry;

/// What the maintainers of a commit need beside the item.
pub(crate) struct CommitContext<'c> {
    pub(crate) engine: &'c Engine,
    /// Terms of the items of the shard; it also names the shard and its container.
    pub(crate) indexer: Indexer<'c>,
}

/// Writes what follows from the change of one item in its own shard.
pub(crate) trait CommitMaintainer: Debug + Sync {
    /// Adds to a part what changes between the stored image and the final one.
    fn maintain(
        &self,
        entry: &ItemEntry<'_>,
        context: &CommitContext<'_>,
        part: &mut Part,
    ) -> Result<()>;
}

/// The maintainers of a commit, in their order: the feed numbers of records come before versions.
pub(crate) const COMMIT_MAINTAINERS: [&dyn CommitMaintainer; 4] =
    [&ItemRecord, &IndexTerms, &VersionHistory, &IndexDeletions];

#[cfg(test)]
mod tests;
