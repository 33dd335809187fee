//! What a request wants done to one item, as data: a single write, an operation of a batch and a call of a script
//! are all an [`ItemWrite`], with the [`ItemBody`] that the client sent. The stored text is what reads send, so
//! the system properties are in it, behind the client's own.

use std::fmt::Write as _;

use orrery_query::EvalContext;
use orrery_storage::key::Row;
use orrery_types::ids::{Address, ChildKind, Rid};
use orrery_types::json::write_json_string;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::catalog::resource::Stamp;
use crate::catalog::resource::{Preconditions, missing_id, require_object, wrong_id_type};
use crate::item::address::{ItemKey, check_same_key, complete_key, item_row};
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
                let at = engine.items().locate(container, Some(given), item)?;
                if let Err(mismatch) = self.check(container, &at) {
                    // What is not there is not there, whatever is to take its place.
                    let there = engine.items().exists(container, &at)?;
                    return Err(if there { mismatch } else { Error::NotFound });
                }
                Ok(at)
            }
            Self::Patch(item, ..) | Self::Delete(item, _) => {
                self.check_paths(container)?;
                engine.items().locate(container, partition_key, item)
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
                let budget = engine.queries().page_budget(None);
                let context =
                    EvalContext { udfs: Some(&udfs), ..engine.queries().context(&budget) };
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

/// Properties that the server writes; what a client sends under these names is dropped.
pub(crate) const SYSTEM_PROPERTIES: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// A checked body.
#[derive(Clone, Debug)]
pub struct ItemBody {
    /// The whole value as it was sent.
    pub value: Value,
    /// Its `id`.
    pub id: Box<str>,
    /// Its partition key.
    pub key: PartitionKey,
    /// Its own time to live; `None` if it has none.
    pub ttl: Option<i64>,
}

impl ItemBody {
    /// Reads and checks the text of a request.
    pub fn parse(container: &Container, text: &[u8]) -> Result<Self> {
        if text.len() > limits::ITEM_SIZE_BYTES_MAX {
            return Err(too_large(text.len()));
        }
        let value = Value::parse(text)
            .map_err(|e| Error::invalid(format!("The request body is not valid JSON: {e}.")))?;
        Self::check(container, value)
    }

    /// Checks a value that is to become an item.
    pub fn check(container: &Container, value: Value) -> Result<Self> {
        let ttl = match require_object(&value)?.get("ttl") {
            None => None,
            // Checked whether the container has a policy or not, as by the service: what it says of a
            // life counts from when the container gets one.
            Some(given) => Some(check_ttl(given)?),
        };
        Self::with_ttl(container, value, ttl)
    }

    /// Checks everything but the time to live, which is known.
    pub(crate) fn with_ttl(container: &Container, value: Value, ttl: Option<i64>) -> Result<Self> {
        let object = require_object(&value)?;
        let id = match object.get("id") {
            None | Some(Value::Null) => return Err(missing_id()),
            Some(Value::String(id)) => id,
            Some(other) => return Err(wrong_id_type(other)),
        };
        check_item_id(id)?;
        let id = (**id).into();
        let key = container.definition.partition_key.extract(&value);
        check_key_size(&key)?;
        Ok(Self { value, id, key, ttl })
    }

    /// The text that is stored and sent.
    pub(crate) fn to_text(&self, container: &Container, row: Row, stamp: Stamp) -> Result<String> {
        let rid = item_rid(container, row);
        let mut text = String::with_capacity(1024);
        text.push('{');
        if let Some(object) = self.value.as_object() {
            for (name, value) in object.iter() {
                if SYSTEM_PROPERTIES.contains(&&**name) {
                    continue;
                }
                write_json_string(name, &mut text);
                text.push(':');
                value.write_json(&mut text);
                text.push(',');
            }
        }
        if text.len() > limits::ITEM_SIZE_BYTES_MAX {
            return Err(too_large(text.len()));
        }
        let etag = stamp.etag.to_string();
        let _ = write!(
            text,
            "\"_rid\":\"{rid}\",\"_self\":\"{}docs/{rid}/\",\"_etag\":\"\\\"{}\\\"\",\
             \"_attachments\":\"attachments/\",\"_ts\":{}}}",
            container.self_link(),
            etag.trim_matches('"'),
            stamp.ts
        );
        Ok(text)
    }
}

/// The `_rid` of an item.
pub(crate) fn item_rid(container: &Container, row: Row) -> Rid {
    let (database, number) = (container.database, row.0);
    Rid::Child { database, container: container.number, kind: ChildKind::Item, number }
}

fn too_large(size: usize) -> Error {
    Error::TooLarge { what: "the item", size, limit: limits::ITEM_SIZE_BYTES_MAX }
}

/// Items take any characters, as the service's do: in a URL they stand escaped.
pub(crate) fn check_item_id(id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(missing_id());
    }
    if id.len() > limits::ITEM_ID_BYTES_MAX {
        return Err(Error::invalid(format!(
            "The input name is invalid: it is {} bytes long. Ensure to provide a unique non-empty \
             string less than '{}' characters.",
            id.len(),
            limits::ITEM_ID_BYTES_MAX + 1
        )));
    }
    Ok(())
}

fn check_ttl(given: &Value) -> Result<i64> {
    let fits = |ttl: &i64| *ttl == -1 || (1..=limits::TTL_SECONDS_MAX).contains(ttl);
    given.as_i64().filter(fits).ok_or_else(|| {
        Error::invalid(format!(
            "The input ttl {} is invalid. Ensure to provide a nonzero positive integer within {}, or \
             -1.",
            given.to_json(),
            limits::TTL_SECONDS_MAX
        ))
    })
}

fn check_key_size(key: &PartitionKey) -> Result<()> {
    let (size, limit) = (key.size_bytes(), limits::PARTITION_KEY_BYTES_MAX);
    if size > limit {
        return Err(Error::invalid(format!(
            "The partition key is {size} bytes long; the limit is {limit}."
        )));
    }
    Ok(())
}
