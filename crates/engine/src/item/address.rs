//! Where an item lies: its key within its container, and its address within the database.

use std::sync::Arc;

use orrery_storage::key::{self, Row};
use orrery_storage::{Space, Value as Stored, record};
use orrery_types::ids::{Address, ChildKind, Rid};
use orrery_types::{Error, Lsn, PartitionKey, Result, limits};

use crate::Container;
use crate::error::storage;
use crate::item::image::stored_value;
use crate::item::operation::check_item_id;
use crate::item::read::ItemAccess;
use crate::partition::PhysicalPartition;
use crate::transaction::locks::{StripeLock, stripe_of};

/// An item's key in the store, and where the store has it, whether the item exists or not.
#[derive(Clone, Debug)]
pub(crate) struct ItemKey<'c> {
    pub(crate) partition: &'c PhysicalPartition,
    pub(crate) partition_key: PartitionKey,
    pub(crate) key: Vec<u8>,
}

impl<'c> ItemKey<'c> {
    /// The key of an item with an id, and the physical partition that holds it.
    pub(crate) fn of(
        container: &'c Container,
        partition_key: PartitionKey,
        id: &str,
    ) -> Result<Self> {
        check_item_id(id)?;
        let effective = container.definition.partition_key.effective(&partition_key);
        let partition = container.partition_of(&effective)?;
        let key = key::item(&effective, &partition_key, id);
        Ok(Self { partition, partition_key, key })
    }

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

/// An item's place in the database: its container and its key there.
#[derive(Clone)]
pub(crate) struct ItemAddress<'e> {
    pub(crate) container: &'e Container,
    pub(crate) at: ItemKey<'e>,
}

impl ItemAddress<'_> {
    pub(crate) fn is(&self, other: &ItemAddress<'_>) -> bool {
        self.container.number == other.container.number && self.at.key == other.at.key
    }

    /// Whether both are in one logical partition.
    pub(crate) fn is_beside(&self, other: &ItemAddress<'_>) -> bool {
        self.container.number == other.container.number
            && self.at.partition_key == other.at.partition_key
    }

    pub(crate) fn id(&self) -> Box<str> {
        key::parse_item(&self.at.key).map_or_else(Box::default, |key| key.id.into())
    }
}

impl ItemAccess<'_> {
    /// The key of an item that a URL names, under the partition key that the header gives.
    pub(crate) fn locate<'c>(
        self,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
    ) -> Result<ItemKey<'c>> {
        if let Address::Name(id) = item {
            let key = partition_key.ok_or_else(key_missing)?;
            let key = complete_key(container, key)?;
            return ItemKey::of(container, key, id);
        }
        let row = item_row(item)?.ok_or(Error::NotFound)?;
        self.item_of_row(container, partition_key, row).map(|(at, ..)| at)
    }

    /// An item by its number, with an LSN of its shard that is not older: the row leads to the key, and
    /// the item there must have that row. If it has moved in between, the row is looked up again.
    pub(crate) fn item_of_row<'c>(
        self,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
        row: Row,
    ) -> Result<(ItemKey<'c>, Lsn, Stored)> {
        'partitions: for partition in &container.partitions {
            let get = |key: &[u8]| self.engine.store.get(partition.shard, Space::Items, key);
            for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
                let Some(entry) = get(&key::row(row)).map_err(storage)?.1 else {
                    continue 'partitions;
                };
                let corrupt = || Error::internal("a row leads to no item");
                key::parse_item(&entry.bytes).ok_or_else(corrupt)?;
                let (head, Some(stored)) = get(&entry.bytes).map_err(storage)? else { continue };
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
                return Ok((ItemKey { partition, partition_key: own, key }, head.lsn, stored));
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
