//! The record of an item, with its row, its expiry entry and its feed entry; and its versions, in containers
//! whose change feed policy keeps them.

use orrery_storage::record::{self, Header};
use orrery_storage::version::{Version, VersionOperation};
use orrery_storage::{Part, Put, Space, StorageError, key};
use orrery_types::{Lsn, Result};

use super::{CommitContext, CommitMaintainer};
use crate::Container;
use crate::background::expiry_sweep::expiry;
use crate::error::storage;
use crate::item::image::{AfterImage, BeforeImage};
use crate::transaction::write_buffer::ItemEntry;

#[derive(Debug)]
pub(super) struct ItemRecord;

impl CommitMaintainer for ItemRecord {
    fn maintain(
        &self,
        entry: &ItemEntry<'_>,
        context: &CommitContext<'_>,
        part: &mut Part,
    ) -> Result<()> {
        let container = context.indexer.container;
        if let Some(before) = &entry.before {
            remove(container, entry, before, part);
        }
        match entry.after() {
            Some(after) => put(container, entry, after, part),
            None => Ok(()),
        }
    }
}

/// Removes what the before image had written beside its record.
fn remove(container: &Container, entry: &ItemEntry<'_>, before: &BeforeImage, part: &mut Part) {
    let header = &before.header;
    // The feed names every item once, at its latest change.
    part.deletes.push((Space::Feed, key::feed(before.version, header.feed_seq).to_vec()));
    if let Some(expiry_s) = expiry(&container.definition, header) {
        part.deletes.push((Space::Ttl, key::ttl(expiry_s, header.row).to_vec()));
    }
    if !entry.keeps_row() {
        part.deletes.push((Space::Items, key::row(header.row).to_vec()));
    }
    if entry.after().is_none() {
        part.deletes.push((Space::Items, entry.at.key.clone()));
    }
}

fn put(
    container: &Container,
    entry: &ItemEntry<'_>,
    after: &AfterImage,
    part: &mut Part,
) -> Result<()> {
    let feed_seq = u16::try_from(part.feed.len()).map_err(|_| storage(StorageError::TooLarge))?;
    let header = Header {
        etag: after.stamp.etag,
        ts_s: after.stamp.ts,
        row: after.row,
        feed_seq,
        ttl_s: after.ttl,
    };
    let key = &entry.at.key;
    let value = record::encode(&header, &after.text);
    part.puts.push(Put { space: Space::Items, key: key.clone(), value });
    if !entry.keeps_row() {
        let row = key::row(after.row).to_vec();
        part.puts.push(Put { space: Space::Items, key: row, value: key.clone() });
    }
    if let Some(expiry_s) = expiry(&container.definition, &header) {
        let expiry = key::ttl(expiry_s, after.row).to_vec();
        part.puts.push(Put { space: Space::Ttl, key: expiry, value: key.clone() });
    }
    part.feed.push(key.clone());
    Ok(())
}

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
                keep(version_of(VersionOperation::Replace, key, after, before.map(|b| b.version)));
            }
            after => {
                if let Some(before) = before {
                    keep(removal_of(context, key, before, &before.text()));
                }
                if let Some(after) = after {
                    keep(version_of(VersionOperation::Create, key, after, None));
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
    let expired = engine.items().is_expired(container, &before.header);
    let operation = if expired { VersionOperation::Expire } else { VersionOperation::Delete };
    let (time_s, previous) = (engine.clock.now_s(), Some(before.version));
    Version { operation, time_s, previous, item_key, body }
}

fn version_of<'v>(
    operation: VersionOperation,
    item_key: &'v [u8],
    after: &'v AfterImage,
    previous: Option<Lsn>,
) -> Version<'v> {
    Version { operation, time_s: after.stamp.ts, previous, item_key, body: &after.text }
}
