//! Point operations on items: read, create, replace, upsert, delete, patch. Each finds its logical
//! partition, then reads the store once or goes through the write pipeline.

use bytes::Bytes;
use orrery_storage::{Space, record};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, PartitionKey, Result};

use crate::catalog::resource::Preconditions;
use crate::error::storage;
use crate::item::address::{ItemKey, item_row};
use crate::item::body::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::patch::Patch;
use crate::stamp::Stamp;
use crate::throughput::charge;
use crate::{Container, Engine};

/// An item that was read.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ItemRead {
    pub body: Bytes,
    pub stamp: Stamp,
    pub place: CommitPosition,
    pub charge: f64,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Outcome {
    Created,
    Replaced,
    Deleted,
}

/// An item that was written. A deleted one has no body and keeps its last version.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Written {
    pub outcome: Outcome,
    pub body: Bytes,
    pub stamp: Stamp,
    pub place: CommitPosition,
    pub charge: f64,
    /// What the model of the database has to say about the item without refusing it.
    pub warnings: Vec<String>,
}

/// Where in the container something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitPosition {
    /// Number of the physical partition.
    pub partition: u32,
    /// The partition's LSN that a session has seen by it.
    pub lsn: Lsn,
    /// The LSN of the item itself.
    pub item_lsn: Lsn,
}

impl Engine {
    /// Reads one item.
    pub fn read_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        self.retry_on_gone_shard(container, &|now| self.read_item_in(now, partition_key, item))
    }

    fn read_item_in(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        let (at, lsn, value) = if let Some(row) = item_row(item)? {
            self.item_of_row(container, partition_key, row)?
        } else {
            let at = self.locate(container, partition_key, item)?;
            let shard = at.partition.shard;
            let found = self.store.get(shard, Space::Items, &at.key);
            let (lsn, value) = found.map_err(storage)?;
            (at, lsn, value.ok_or(Error::NotFound)?)
        };
        let partition = at.partition;
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        if self.is_hidden(container, &at.key, value.version, &header) {
            return Err(Error::NotFound);
        }
        let body = value.bytes.slice(record::BODY_AT..);
        let charge = charge::read(body.len());
        if let Some(noted) = self.workload.notes_read() {
            let now_s = self.clock.now_s();
            self.workload.read(noted, container, &at, charge, now_s, &body);
        }
        Ok(ItemRead {
            charge,
            body,
            stamp: Stamp { etag: header.etag, ts: header.ts_s },
            place: CommitPosition { partition: partition.id, lsn, item_lsn: value.version },
        })
    }

    /// Whether an item is there to be seen.
    pub(crate) fn is_there(&self, container: &Container, at: &ItemKey<'_>) -> Result<bool> {
        let found = self.store.get(at.partition.shard, Space::Items, &at.key).map_err(storage)?.1;
        let Some(value) = found else { return Ok(false) };
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        Ok(!self.is_hidden(container, &at.key, value.version, &header))
    }

    /// Makes an item; an item with its id must not be there.
    pub fn create_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        text: &[u8],
    ) -> Result<Written> {
        let write = ItemWrite::Create(ItemBody::parse(container, text)?);
        self.write_item(container, partition_key, &write)
    }

    /// Makes an item or replaces the one with its id.
    pub fn upsert_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        text: &[u8],
        conditions: &Preconditions,
    ) -> Result<Written> {
        let body = ItemBody::parse(container, text)?;
        let write = ItemWrite::Upsert(body, conditions.clone());
        self.write_item(container, partition_key, &write)
    }

    /// Replaces an item that is there.
    pub fn replace_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        text: &[u8],
        conditions: &Preconditions,
    ) -> Result<Written> {
        let body = ItemBody::parse(container, text)?;
        let write = ItemWrite::Replace(item.clone(), body, conditions.clone());
        self.write_item(container, partition_key, &write)
    }

    /// Deletes an item that is there.
    pub fn delete_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        conditions: &Preconditions,
    ) -> Result<Written> {
        let write = ItemWrite::Delete(item.clone(), conditions.clone());
        self.write_item(container, partition_key, &write)
    }

    /// Changes parts of an item that is there.
    pub fn patch_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        patch: &Patch,
        conditions: &Preconditions,
    ) -> Result<Written> {
        let write = ItemWrite::Patch(item.clone(), patch.clone(), conditions.clone());
        self.write_item(container, partition_key, &write)
    }
}
