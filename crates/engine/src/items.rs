//! Point operations on items: read, create, replace, upsert, delete, patch. Each finds its logical
//! partition, then reads the store once or goes through the write pipeline.

use bytes::Bytes;
use orrery_storage::key::{self, Row};
use orrery_storage::{Space, record};
use orrery_types::ids::{Address, ChildKind, Rid};
use orrery_types::{Error, Lsn, PartitionKey, Result, Value};

use crate::charge;
use crate::item_body::{ItemBody, check_item_id};
use crate::partition::PhysicalPartition;
use crate::patch::Patch;
use crate::resource::Preconditions;
use crate::stamp::Stamp;
use crate::storage_error::storage;
use crate::write::Decision;
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
pub(crate) struct Located<'c> {
    pub(crate) partition: &'c PhysicalPartition,
    pub(crate) partition_key: PartitionKey,
    pub(crate) key: Vec<u8>,
}

impl Engine {
    /// Reads one item.
    pub fn read_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemRead> {
        let located = self.locate(container, partition_key, item)?;
        let partition = located.partition;
        let (lsn, value) =
            self.store.get(partition.shard, Space::Items, &located.key).map_err(storage)?;
        let value = value.ok_or(Error::NotFound)?;
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        if self.is_expired(container, &header) {
            return Err(Error::NotFound);
        }
        let body = Bytes::from(value.bytes).slice(record::BODY_AT..);
        Ok(ItemRead {
            charge: charge::read(body.len()),
            body,
            stamp: Stamp { etag: header.etag, ts: header.ts_s },
            place: Place { partition: partition.id, lsn, item_lsn: value.version },
        })
    }

    /// Makes an item; an item with its id must not be there.
    pub fn create_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        text: &[u8],
    ) -> Result<Written> {
        let body = ItemBody::parse(container, text)?;
        let located = locate_body(container, partition_key, &body)?;
        self.write(container, &located, &|current| match current {
            Some(_) => Err(Error::AlreadyExists),
            None => Ok(Decision::Put(body.clone())),
        })
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
        let located = locate_body(container, partition_key, &body)?;
        self.write(container, &located, &|current| {
            conditions.check_upsert(current.map(|c| c.stamp))?;
            Ok(Decision::Put(body.clone()))
        })
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
        let given = partition_key.unwrap_or(&body.key);
        let located = self.locate(container, Some(given), item)?;
        check_same_key(&located.partition_key, &body.key)?;
        // A body with another id renames the item, within its logical partition.
        let target = place_of(container, body.key.clone(), &body.id)?;
        self.write_to(container, &located, &target, &|current| {
            let current = current.ok_or(Error::NotFound)?;
            conditions.check_write(Some(current.stamp))?;
            Ok(Decision::Put(body.clone()))
        })
    }

    /// Deletes an item that is there.
    pub fn delete_item(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        conditions: &Preconditions,
    ) -> Result<Written> {
        let located = self.locate(container, partition_key, item)?;
        self.write(container, &located, &|current| {
            let current = current.ok_or(Error::NotFound)?;
            conditions.check_write(Some(current.stamp))?;
            Ok(Decision::Delete)
        })
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
        patch.check_paths(container)?;
        let located = self.locate(container, partition_key, item)?;
        self.write(container, &located, &|current| {
            let current = current.ok_or(Error::NotFound)?;
            conditions.check_write(Some(current.stamp))?;
            let before = current.value()?;
            patch.check_condition(&before, &self.context())?;
            let after = patch.apply(before)?;
            Ok(Decision::Put(ItemBody::check(container, after)?))
        })
    }

    /// The place of an item that a URL names, under the key that the header gives.
    pub(crate) fn locate<'c>(
        &self,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<Located<'c>> {
        let row = match item {
            Address::Name(id) => {
                let key = partition_key.ok_or_else(key_missing)?;
                let key = complete_key(container, key)?;
                return place_of(container, key, id);
            }
            Address::Rid(Rid::Child { kind: ChildKind::Item, number, .. }) => Row(*number),
            Address::Rid(_) => return Err(Error::NotFound),
        };
        self.locate_row(container, partition_key, row)
    }

    /// The place of an item by its number: the row leads to the key.
    fn locate_row<'c>(
        &self,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
        row: Row,
    ) -> Result<Located<'c>> {
        for partition in &container.partitions {
            let found = self.store.get(partition.shard, Space::Items, &key::row(row));
            let Some(value) = found.map_err(storage)?.1 else { continue };
            let corrupt = || Error::internal("a row leads to no item");
            key::parse_item(&value.bytes).ok_or_else(corrupt)?;
            let (_, stored) =
                self.store.get(partition.shard, Space::Items, &value.bytes).map_err(storage)?;
            let stored = stored.ok_or(Error::NotFound)?;
            let (_, text) = record::decode(&stored.bytes).map_err(storage)?;
            let body = Value::parse(text).map_err(|e| Error::internal(e.to_string()))?;
            let own = container.definition.partition_key.extract(&body);
            if let Some(given) = partition_key {
                let given = complete_key(container, given)?;
                if given != own {
                    return Err(Error::NotFound);
                }
            }
            return Ok(Located { partition, partition_key: own, key: value.bytes });
        }
        Err(Error::NotFound)
    }
}

/// The place of an item that a body brings with it.
fn locate_body<'c>(
    container: &'c Container,
    partition_key: Option<&PartitionKey>,
    body: &ItemBody,
) -> Result<Located<'c>> {
    if let Some(given) = partition_key {
        let given = complete_key(container, given)?;
        check_same_key(&given, &body.key)?;
    }
    place_of(container, body.key.clone(), &body.id)
}

/// The place of an item in its container.
fn place_of<'c>(
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
fn complete_key(container: &Container, key: &PartitionKey) -> Result<PartitionKey> {
    let definition = &container.definition.partition_key;
    let key = definition.normalize(key.clone());
    if definition.is_complete(&key) {
        return Ok(key);
    }
    Err(Error::PartitionKeyMismatch(
        format!(
            "Partition key provided either doesn't correspond to definition in the collection or \
             doesn't match partition key field values specified in the document: it has {} \
             values, the container declares {}.",
            key.0.len(),
            definition.paths.len()
        )
        .into(),
    ))
}

fn check_same_key(given: &PartitionKey, own: &PartitionKey) -> Result<()> {
    if given == own {
        return Ok(());
    }
    Err(Error::PartitionKeyMismatch(
        "PartitionKey extracted from document doesn't match the one specified in the header".into(),
    ))
}

fn key_missing() -> Error {
    Error::invalid("PartitionKey value must be supplied for this operation.")
}
