//! What a request wants done to one item, as data: a single write, an operation of a batch and a
//! call of a script are all one of these.

use orrery_query::EvalContext;
use orrery_storage::key::Row;
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result};

use crate::catalog::resource::Preconditions;
use crate::item::address::{ItemKey, check_same_key, complete_key, item_row};
use crate::item::body::ItemBody;
use crate::item::image::CurrentImage;
use crate::item::patch::Patch;
use crate::query::relations::Reach;
use crate::script::UdfCalls;
use crate::{Container, Engine};

/// A wanted change.
#[derive(Clone, Debug)]
pub enum ItemWrite {
    /// An item with its id must not be there.
    Create(ItemBody),
    /// Makes the item, or replaces the one with its id.
    Upsert(ItemBody, Preconditions),
    /// Replaces an item that is there; a body with another id renames it.
    Replace(Address, ItemBody, Preconditions),
    /// Changes parts of an item that is there.
    Patch(Address, Patch, Preconditions),
    /// Removes an item that is there.
    Delete(Address, Preconditions),
}

/// What to do with an item, given what is there.
pub(crate) enum Decision {
    Put(ItemBody),
    Delete,
}

impl ItemWrite {
    /// Where the item stands that it is about.
    pub(crate) fn locate<'c>(
        &self,
        engine: &Engine,
        container: &'c Container,
        partition_key: Option<&PartitionKey>,
    ) -> Result<ItemKey<'c>> {
        match self {
            Self::Create(body) | Self::Upsert(body, _) => {
                if let Some(given) = partition_key {
                    check_same_key(&complete_key(container, given)?, &body.key)?;
                }
                ItemKey::of(container, body.key.clone(), &body.id)
            }
            Self::Replace(item, body, _) => {
                let given = partition_key.unwrap_or(&body.key);
                let at = engine.locate(container, Some(given), item)?;
                if let Err(mismatch) = self.check(container, &at) {
                    // What is not there is not there, whatever is to take its place.
                    let there = engine.is_there(container, &at)?;
                    return Err(if there { mismatch } else { Error::NotFound });
                }
                Ok(at)
            }
            Self::Patch(item, ..) | Self::Delete(item, _) => {
                self.check_paths(container)?;
                engine.locate(container, partition_key, item)
            }
        }
    }

    /// Refuses what no item at this place could take.
    pub(crate) fn check(&self, container: &Container, at: &ItemKey<'_>) -> Result<()> {
        match self {
            Self::Replace(_, body, _) => check_same_key(&at.partition_key, &body.key),
            _ => self.check_paths(container),
        }
    }

    /// The row of the item, if the request names it by its rid.
    pub(crate) fn row(&self) -> Result<Option<Row>> {
        match self {
            Self::Create(_) | Self::Upsert(..) => Ok(None),
            Self::Replace(item, ..) | Self::Patch(item, ..) | Self::Delete(item, _) => {
                item_row(item)
            }
        }
    }

    /// How far what follows from it by a model may go. A new item ends nothing.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Create(_) => Reach::Database,
            Self::Upsert(_, conditions)
            | Self::Replace(_, _, conditions)
            | Self::Patch(_, _, conditions)
            | Self::Delete(_, conditions) => conditions.reach,
        }
    }

    /// Operations, if it is a patch.
    pub(crate) fn patched(&self) -> usize {
        if let Self::Patch(_, patch, _) = self { patch.operations() } else { 0 }
    }

    fn check_paths(&self, container: &Container) -> Result<()> {
        if let Self::Patch(_, patch, _) = self { patch.check_paths(container) } else { Ok(()) }
    }

    /// What to do, given what is there.
    pub(crate) fn decide(
        &self,
        engine: &Engine,
        container: &Container,
        current: Option<CurrentImage<'_>>,
    ) -> Result<Decision> {
        let stamp = current.map(CurrentImage::stamp);
        match self {
            Self::Create(_) if current.is_some() => Err(Error::AlreadyExists),
            Self::Create(body) => Ok(Decision::Put(body.clone())),
            Self::Upsert(body, conditions) => {
                conditions.check_upsert(stamp)?;
                Ok(Decision::Put(body.clone()))
            }
            Self::Replace(_, body, conditions) => {
                conditions.check_write(Some(stamp.ok_or(Error::NotFound)?))?;
                Ok(Decision::Put(body.clone()))
            }
            Self::Patch(_, patch, conditions) => {
                let current = current.ok_or(Error::NotFound)?;
                conditions.check_write(stamp)?;
                let before = current.value()?;
                let udfs = UdfCalls::new(engine, container);
                let context = EvalContext { udfs: Some(&udfs), ..engine.context() };
                let met = patch.check_condition(before, container, &context);
                met.map_err(|error| udfs.failure(error))?;
                let after = patch.apply(before.clone())?;
                Ok(Decision::Put(ItemBody::check(container, after)?))
            }
            Self::Delete(_, conditions) => {
                conditions.check_write(Some(stamp.ok_or(Error::NotFound)?))?;
                Ok(Decision::Delete)
            }
        }
    }
}
