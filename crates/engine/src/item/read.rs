//! Point operations on items: read, create, replace, upsert, delete, patch. Each finds its logical
//! partition, then reads the store once or goes through the write pipeline.

use bytes::Bytes;
use orrery_storage::record::Header;
use orrery_storage::{Space, record};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, PartitionKey, Result};

use crate::background::expiry_sweep::expiry;
use crate::catalog::resource::Preconditions;
use crate::catalog::resource::Stamp;
use crate::error::storage;
use crate::item::address::{ItemKey, item_row};
use crate::item::operation::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::patch::Patch;
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

/// Single items: reads, and writes that are given as text.
#[derive(Clone, Copy)]
pub struct ItemAccess<'e> {
    pub(crate) engine: &'e Engine,
}

impl ItemAccess<'_> {
    /// Reads one item.
    pub fn read(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        self.engine
            .epochs()
            .retry_on_gone_shard(container, &mut |now| self.read_in(now, partition_key, item))
    }

    fn read_in(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        let (at, lsn, value) = if let Some(row) = item_row(item)? {
            self.item_of_row(container, partition_key, row)?
        } else {
            let at = self.locate(container, partition_key, item)?;
            let shard = at.partition.shard;
            let found = self.engine.store.get(shard, Space::Items, &at.key);
            let (head, value) = found.map_err(storage)?;
            (at, head.lsn, value.ok_or(Error::NotFound)?)
        };
        let partition = at.partition;
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        if self.is_hidden(container, &at.key, value.version, &header) {
            return Err(Error::NotFound);
        }
        let body = value.bytes.slice(record::BODY_AT..);
        let charge = charge::read(body.len());
        if let Some(noted) = self.engine.workload.notes_read() {
            let now_s = self.engine.clock.now_s();
            self.engine.workload.read(noted, container, &at, charge, now_s, &body);
        }
        Ok(ItemRead {
            charge,
            body,
            stamp: Stamp { etag: header.etag, ts: header.ts_s },
            place: CommitPosition { partition: partition.id, lsn, item_lsn: value.version },
        })
    }

    /// Whether an item is there to be seen.
    pub(crate) fn exists(self, container: &Container, at: &ItemKey<'_>) -> Result<bool> {
        let found =
            self.engine.store.get(at.partition.shard, Space::Items, &at.key).map_err(storage)?.1;
        let Some(value) = found else { return Ok(false) };
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        Ok(!self.is_hidden(container, &at.key, value.version, &header))
    }

    /// Makes an item; an item with its id must not be there.
    pub fn create(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        text: &[u8],
    ) -> Result<Written> {
        let write = ItemWrite::Create(ItemBody::parse(container, text)?);
        self.engine.point_writes().write(container, partition_key, &write)
    }

    /// Makes an item or replaces the one with its id.
    pub fn upsert(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        text: &[u8],
        conditions: &Preconditions,
    ) -> Result<Written> {
        let body = ItemBody::parse(container, text)?;
        let write = ItemWrite::Upsert(body, conditions.clone());
        self.engine.point_writes().write(container, partition_key, &write)
    }

    /// Replaces an item that is there.
    pub fn replace(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        text: &[u8],
        conditions: &Preconditions,
    ) -> Result<Written> {
        let body = ItemBody::parse(container, text)?;
        let write = ItemWrite::Replace(item.clone(), body, conditions.clone());
        self.engine.point_writes().write(container, partition_key, &write)
    }

    /// Deletes an item that is there.
    pub fn delete(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        conditions: &Preconditions,
    ) -> Result<Written> {
        let write = ItemWrite::Delete(item.clone(), conditions.clone());
        self.engine.point_writes().write(container, partition_key, &write)
    }

    /// Changes parts of an item that is there.
    pub fn patch(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        patch: &Patch,
        conditions: &Preconditions,
    ) -> Result<Written> {
        let write = ItemWrite::Patch(item.clone(), patch.clone(), conditions.clone());
        self.engine.point_writes().write(container, partition_key, &write)
    }

    /// Whether the time of an item is over, by the clock and the definition that the container has now.
    pub(crate) fn is_expired(self, container: &Container, header: &Header) -> bool {
        expiry(&container.definition, header).is_some_and(|at| at <= self.engine.clock.now_s())
    }

    /// Whether an item is stored and not to be seen: its time is over, or its key was erased.
    pub(crate) fn is_hidden(
        self,
        container: &Container,
        item_key: &[u8],
        version: Lsn,
        header: &Header,
    ) -> bool {
        self.is_expired(container, header) || container.erasures.hide(item_key, version)
    }
}
