//! What a reader of the change feed sees of one change, as JSON text.

use std::fmt::Write as _;

use bytes::Bytes;
use orrery_storage::version::{Version, VersionOperation};
use orrery_types::{Error, Lsn, Result, Value};

use crate::Container;
use crate::catalog::resource::object;
use crate::item::image::stored_value;

/// In which shape changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The item itself, with its `_lsn`.
    Bare,
    /// The item under `current`, and what is known of the change under `metadata`.
    Envelope,
}

/// The newest version of an item.
pub(super) fn latest(shape: Shape, item: &[u8], lsn: Lsn, ts_s: u64) -> Result<Bytes> {
    match shape {
        Shape::Bare => with_lsn(item, lsn),
        Shape::Envelope => {
            let mut text = Vec::with_capacity(item.len() + 80);
            text.extend_from_slice(b"{\"current\":");
            text.extend_from_slice(&with_lsn(item, lsn)?);
            let mut tail = String::new();
            let _ = write!(tail, ",\"metadata\":{{\"lsn\":{},\"crts\":{ts_s}}}}}", lsn.0);
            text.extend_from_slice(tail.as_bytes());
            Ok(text.into())
        }
    }
}

/// One version of an item: the item after a create or replace, or what was deleted.
pub(super) fn version(container: &Container, version: &Version<'_>, lsn: Lsn) -> Result<Bytes> {
    let (name, deleted) = match version.operation {
        VersionOperation::Create => ("create", None),
        VersionOperation::Replace => ("replace", None),
        VersionOperation::Delete => ("delete", Some(false)),
        VersionOperation::Expire => ("delete", Some(true)),
    };
    let mut text = Vec::with_capacity(version.body.len() + 128);
    let image: &[u8] =
        if deleted.is_some() { b"{\"current\":{},\"previous\":" } else { b"{\"current\":" };
    text.extend_from_slice(image);
    text.extend_from_slice(version.body);
    let mut metadata = object([
        ("lsn", number(lsn.0)),
        ("crts", number(version.time_s)),
        ("operationType", name.into()),
        ("previousImageLSN", version.previous.map_or(Value::Undefined, |lsn| number(lsn.0))),
    ]);
    if let Some(expired) = deleted {
        let body = stored_value(version.body)?;
        metadata.set("timeToLiveExpired", expired.into());
        metadata.set("id", body.get("id").clone());
        metadata.set("partitionKey", key_of(container, &body));
    }
    text.extend_from_slice(b",\"metadata\":");
    text.extend_from_slice(Value::object(metadata).to_json().as_bytes());
    text.push(b'}');
    Ok(text.into())
}

/// The values of a partition key under the paths that name them.
fn key_of(container: &Container, body: &Value) -> Value {
    let mut key = object([]);
    for path in &container.definition.partition_key.paths {
        let name = path.to_string();
        key.set(name.trim_start_matches('/'), path.value_in(body).clone());
    }
    Value::object(key)
}

fn number(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

const LSN: &str = "_lsn";

/// The stored text with the LSN as its last property. A client may have a property of that name:
/// what the feed says counts then.
fn with_lsn(item: &[u8], lsn: Lsn) -> Result<Bytes> {
    let own = item.windows(LSN.len()).any(|w| w == LSN.as_bytes());
    if own {
        let value = stored_value(item)?;
        if let Some(object) = value.as_object().filter(|o| o.get(LSN).is_some()) {
            let mut object = object.clone();
            object.set(LSN, number(lsn.0));
            return Ok(Value::object(object).to_json().into());
        }
    }
    let open = item.strip_suffix(b"}").ok_or_else(|| Error::internal("an item is no object"))?;
    let mut text = Vec::with_capacity(item.len() + 32);
    text.extend_from_slice(open);
    text.extend_from_slice(format!(",\"{LSN}\":{}}}", lsn.0).as_bytes());
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shape: Shape, item: &str, expected: &str) {
        let text = latest(shape, item.as_bytes(), Lsn(7), 1000).expect("an item");
        assert_eq!(std::str::from_utf8(&text), Ok(expected));
    }

    #[test]
    fn the_lsn_stands_last_and_once() {
        check(Shape::Bare, r#"{"id":"a"}"#, r#"{"id":"a","_lsn":7}"#);
        check(Shape::Bare, r#"{"_lsn":"mine","id":"a"}"#, r#"{"_lsn":7,"id":"a"}"#);
        check(Shape::Bare, r#"{"id":"_lsn"}"#, r#"{"id":"_lsn","_lsn":7}"#);
        let enveloped = r#"{"current":{"id":"a","_lsn":7},"metadata":{"lsn":7,"crts":1000}}"#;
        check(Shape::Envelope, r#"{"id":"a"}"#, enveloped);
    }
}
