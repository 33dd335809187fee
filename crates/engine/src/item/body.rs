//! The body of an item: what a client may send, and what is stored. The stored text is what reads
//! send, so the system properties are in it, behind the client's own.

use std::fmt::Write as _;

use orrery_storage::key::Row;
use orrery_types::ids::{ChildKind, Rid};
use orrery_types::json::write_json_string;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::Container;
use crate::catalog::resource::{missing_id, require_object, wrong_id_type};
use crate::stamp::Stamp;

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
        let object = require_object(&value)?;
        let id = match object.get("id") {
            None | Some(Value::Null) => return Err(missing_id()),
            Some(Value::String(id)) => id,
            Some(other) => return Err(wrong_id_type(other)),
        };
        check_item_id(id)?;
        let id = (**id).into();
        let ttl = match object.get("ttl") {
            None => None,
            // Checked whether the container has a policy or not, as by the service: what it says of a
            // life counts from when the container gets one.
            Some(given) => Some(check_ttl(given)?),
        };
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
