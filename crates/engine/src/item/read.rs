//! Point operations on items: read, create, replace, upsert, delete, patch. Each finds its logical
//! partition, then reads the store once or goes through the write pipeline.

use std::sync::Arc;

use bytes::Bytes;
use orrery_storage::key::{self, Row};
use orrery_storage::{Space, Value as Stored, record};
use orrery_types::ids::{Address, ChildKind, Rid};
use orrery_types::{Error, Lsn, PartitionKey, Result, limits};

use crate::catalog::resource::Preconditions;
use crate::error::storage;
use crate::item::body::{ItemBody, check_item_id};
use crate::item::operation::ItemWrite;
use crate::item::patch::Patch;
use crate::partition::PhysicalPartition;
use crate::stamp::Stamp;
use crate::throughput::charge;
use crate::transaction::commit::stored_value;
use crate::transaction::locks::{StripeLock, stripe_of};
use crate::{Container, Engine};

/// An item that was read.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ItemRead {
    pub body: Bytes,
    pub stamp: Stamp,
    pub place: Place,
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
    pub place: Place,
    pub charge: f64,
    /// What the model of the database has to say about the item without refusing it.
    pub warnings: Vec<String>,
}

/// Where in the container something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the physical partition.
    pub partition: u32,
    /// The partition's LSN that a session has seen by it.
    pub lsn: Lsn,
    /// The LSN of the item itself.
    pub item_lsn: Lsn,
}

/// An item's place in the store.
#[derive(Clone, Debug)]
pub(crate) struct Located<'c> {
    pub(crate) partition: &'c PhysicalPartition,
    pub(crate) partition_key: PartitionKey,
    pub(crate) key: Vec<u8>,
}

impl<'c> Located<'c> {
    /// The lock of the item's logical partition.
    pub(crate) fn lock(&self) -> &'c Arc<StripeLock> {
        self.partition.locks.stripe(&self.partition_key.to_canonical())
    }

    /// The stripe of the item's logical partition.
    pub(crate) fn stripe(&self) -> u8 {
        stripe_of(&self.partition_key.to_canonical())
    }

    /// Whether the item has this id.
    pub(crate) fn id_is(&self, id: &str) -> bool {
        key::parse_item(&self.key).is_some_and(|key| key.id == id)
    }
}

impl Engine {
    /// Reads one item.
    pub fn read_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        self.reading(container, &|now| self.read_item_in(now, partition_key, item))
    }

    fn read_item_in(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        let (located, lsn, value) = if let Some(row) = item_row(item)? {
            self.item_of_row(container, partition_key, row)?
        } else {
            let located = self.locate(container, partition_key, item)?;
            let shard = located.partition.shard;
            let found = self.store.get(shard, Space::Items, &located.key);
            let (lsn, value) = found.map_err(storage)?;
            (located, lsn, value.ok_or(Error::NotFound)?)
        };
        let partition = located.partition;
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        if self.is_hidden(container, &located.key, value.version, &header) {
            return Err(Error::NotFound);
        }
        let body = value.bytes.slice(record::BODY_AT..);
        let charge = charge::read(body.len());
        if let Some(noted) = self.workload.notes_read() {
            let now_s = self.clock.now_s();
            self.workload.read(noted, container, &located, charge, now_s, &body);
        }
        Ok(ItemRead {
            charge,
            body,
            stamp: Stamp { etag: header.etag, ts: header.ts_s },
            place: Place { partition: partition.id, lsn, item_lsn: value.version },
        })
    }

    /// Whether an item is there to be seen.
    pub(crate) fn is_there(&self, container: &Container, at: &Located<'_>) -> Result<bool> {
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

    /// The place of an item that a URL names, under the key that the header gives.
    pub(crate) fn locate<'c>(
        &self,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<Located<'c>> {
        if let Address::Name(id) = item {
            let key = partition_key.ok_or_else(key_missing)?;
            let key = complete_key(container, key)?;
            return place_of(container, key, id);
        }
        let row = item_row(item)?.ok_or(Error::NotFound)?;
        self.item_of_row(container, partition_key, row).map(|(located, ..)| located)
    }

    /// An item by its number, with an LSN of its shard that is not older: the row leads to the key, and
    /// the item there must have that row. If it has moved in between, the row is looked up again.
    fn item_of_row<'c>(
        &self,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
        row: Row,
    ) -> Result<(Located<'c>, Lsn, Stored)> {
        'partitions: for partition in &container.partitions {
            let get = |key: &[u8]| self.store.get(partition.shard, Space::Items, key);
            for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
                let Some(entry) = get(&key::row(row)).map_err(storage)?.1 else {
                    continue 'partitions;
                };
                let corrupt = || Error::internal("a row leads to no item");
                key::parse_item(&entry.bytes).ok_or_else(corrupt)?;
                let (lsn, Some(stored)) = get(&entry.bytes).map_err(storage)? else { continue };
                let (header, text) = record::decode(&stored.bytes).map_err(storage)?;
                if header.row != row {
                    continue;
                }
                let own = container.definition.partition_key.extract(&stored_value(text)?);
                if let Some(given) = partition_key
                    && complete_key(container, given)? != own
                {
                    return Err(Error::NotFound);
                }
                let key = entry.bytes.into();
                return Ok((Located { partition, partition_key: own, key }, lsn, stored));
            }
            return Err(Error::RetryWith);
        }
        Err(Error::NotFound)
    }
}

/// The row of an item that is addressed by its rid; `None` if it is addressed by its id.
pub(crate) fn item_row(item: &Address) -> Result<Option<Row>> {
    match item {
        Address::Name(_) => Ok(None),
        Address::Rid(Rid::Child { kind: ChildKind::Item, number, .. }) => Ok(Some(Row(*number))),
        Address::Rid(_) => Err(Error::NotFound),
    }
}

/// The place of an item in its container.
pub(crate) fn place_of<'c>(
    container: &'c Container,
    partition_key: PartitionKey,
    id: &str,
) -> Result<Located<'c>> {
    check_item_id(id)?;
    let effective = container.definition.partition_key.effective(&partition_key);
    let partition = container.partition_of(&effective)?;
    let key = key::item(&effective, &partition_key, id);
    Ok(Located { partition, partition_key, key })
}

/// A header's key as the container spells it; a point operation needs all its values.
pub(crate) fn complete_key(container: &Container, key: &PartitionKey) -> Result<PartitionKey> {
    let definition = &container.definition.partition_key;
    let key = definition.normalize(key.clone());
    if definition.is_complete(&key) {
        return Ok(key);
    }
    Err(Error::PartitionKeyMismatch(
        format!(
            "Partition key provided either doesn't correspond to definition in the collection or \
             doesn't match partition key field values specified in the document. It has {} \
             values, the container declares {}.",
            key.0.len(),
            definition.paths.len()
        )
        .into(),
    ))
}

pub(crate) fn check_same_key(given: &PartitionKey, own: &PartitionKey) -> Result<()> {
    if given == own {
        return Ok(());
    }
    Err(Error::PartitionKeyMismatch(
        "PartitionKey extracted from document doesn't match the one specified in the header".into(),
    ))
}

pub(crate) fn key_missing() -> Error {
    Error::invalid("PartitionKey value must be supplied for this operation.")
}
