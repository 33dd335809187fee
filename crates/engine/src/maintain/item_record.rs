//! The record of an item, with its row, its expiry entry and its feed entry.

use orrery_storage::record::{self, Header};
use orrery_storage::{Part, Put, Space, StorageError, key};
use orrery_types::Result;

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
