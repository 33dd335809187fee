//! The form that every resource but an item takes on its way out: user properties first, then
//! `_rid`, `_self`, `_etag`, `_ts`; the rules for the ids that people give; and the [`Stamp`] that every write gives
//! a resource, a new etag and the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_types::ids::Rid;
use orrery_types::{Clock, Error, Etag, Object, Result, Value, limits};

use crate::query::relations::Reach;

/// A resource as a client sees it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The `id`.
    pub id: Box<str>,
    /// The `_rid`.
    pub rid: Rid,
    /// The version.
    pub stamp: Stamp,
    /// The whole body.
    pub body: Value,
}

impl Resource {
    /// Adds the system properties to a body; `self_link` has no slash in front and one behind.
    pub(crate) fn new(rid: Rid, stamp: Stamp, self_link: &str, mut body: Object) -> Self {
        let id = body.get("id").and_then(Value::as_str).unwrap_or_default().into();
        body.set("_rid", rid.to_string().into());
        body.set("_self", self_link.into());
        body.set("_etag", stamp.etag.to_string().into());
        body.set("_ts", seconds(stamp.ts));
        Self { id, rid, stamp, body: Value::object(body) }
    }

    /// Adds one more property, behind the others.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if let Some(body) = self.body.as_object_mut() {
            body.set(name, value.into());
        }
        self
    }
}

/// A count of seconds as a JSON number.
pub(crate) fn seconds(seconds: u64) -> Value {
    Value::from(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// An object out of names and values; undefined ones are left out.
pub(crate) fn object<'n>(pairs: impl IntoIterator<Item = (&'n str, Value)>) -> Object {
    pairs.into_iter().map(|(name, value)| (Arc::from(name), value)).collect()
}

/// The body of a request as an object.
pub(crate) fn require_object(body: &Value) -> Result<&Object> {
    body.as_object().ok_or_else(|| Error::invalid("The request body must be a JSON object."))
}

/// The `id` of a database, container, user, permission, script or key, checked.
pub(crate) fn resource_id(body: &Value) -> Result<Box<str>> {
    let object = require_object(body)?;
    let id = match object.get("id") {
        None | Some(Value::Null) => return Err(missing_id()),
        Some(Value::String(id)) => id,
        Some(other) => return Err(wrong_id_type(other)),
    };
    if id.is_empty() {
        return Err(missing_id());
    }
    if id.chars().count() > limits::RESOURCE_ID_CHARS_MAX {
        return Err(Error::invalid(format!(
            "The input name '{id}' is invalid: it is {} characters long. Ensure to provide a unique \
             non-empty string less than '{}' characters.",
            id.chars().count(),
            limits::RESOURCE_ID_CHARS_MAX
        )));
    }
    check_characters(id)?;
    Ok((**id).into())
}

/// Refuses names that clients cannot put into a URL.
fn check_characters(id: &str) -> Result<()> {
    let is_bad = |c: &char| ['/', '\\', '?', '#'].contains(c) || c.is_control();
    if let Some(bad) = id.chars().find(is_bad) {
        return Err(Error::invalid(format!(
            "The id '{id}' contains the illegal character {bad:?}."
        )));
    }
    if id.ends_with(' ') {
        return Err(Error::invalid(format!("The id '{id}' must not end with a space.")));
    }
    Ok(())
}

pub(crate) fn missing_id() -> Error {
    Error::invalid(
        "The input content is invalid because the required properties - 'id; ' - are missing",
    )
}

pub(crate) fn wrong_id_type(given: &Value) -> Error {
    Error::invalid(format!("The property 'id' must be a string; it is {}.", given.to_json()))
}

/// What a request says about the version it wants to meet.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// `If-Match`: an etag, or `*` for any.
    pub if_match: Option<Box<str>>,
    /// `If-None-Match`: an etag, or `*` for none at all.
    pub if_none_match: Option<Box<str>>,
    /// How far what follows from the write by a model may go.
    pub reach: Reach,
}

impl Preconditions {
    /// Before a write to a resource with this version, or to none.
    pub(crate) fn check_write(&self, current: Option<Stamp>) -> Result<()> {
        let holds = |text: &str| current.is_some_and(|s| text == "*" || s.etag.matches(text));
        let matched = self.if_match.as_deref().is_none_or(holds);
        let unmatched = self.if_none_match.as_deref().is_none_or(|text| !holds(text));
        if matched && unmatched { Ok(()) } else { Err(Error::PreconditionFailed) }
    }

    /// Before a write that may make the resource: `If-Match` binds only what is there.
    pub(crate) fn check_upsert(&self, current: Option<Stamp>) -> Result<()> {
        if current.is_none() { Ok(()) } else { self.check_write(current) }
    }

    /// Before a read inside a batch: `If-Match` must hold there, since the batch relies on it.
    pub(crate) fn check_read(&self, current: Stamp) -> Result<()> {
        let holds = |text: &str| text == "*" || current.etag.matches(text);
        if self.if_match.as_deref().is_none_or(holds) {
            Ok(())
        } else {
            Err(Error::PreconditionFailed)
        }
    }

    /// Whether a read may answer "not modified".
    pub fn unmodified(&self, stamp: Stamp) -> bool {
        self.if_none_match.as_deref().is_some_and(|text| stamp.etag.matches(text))
    }
}

/// The version of a resource: its etag and the second it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Stamp {
    pub etag: Etag,
    pub ts: u64,
}

/// Makes stamps. Etags rise with the clock, so that a restart never repeats one.
pub(crate) struct Stamper {
    clock: Arc<dyn Clock>,
    node: u32,
    last: AtomicU64,
}

/// Etags that one microsecond has room for.
const PER_MICROSECOND: u64 = 16;

impl Stamper {
    pub(crate) fn new(clock: Arc<dyn Clock>, node: u32) -> Self {
        Self { clock, node, last: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> Stamp {
        let now_us = self.clock.now_us();
        let least = now_us.wrapping_mul(PER_MICROSECOND);
        let raise = |last: u64| Some(least.max(last.wrapping_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
        let stamp = last.map_or(least, |last| least.max(last.wrapping_add(1)));
        Stamp { etag: Etag { node: self.node, stamp }, ts: now_us / 1_000_000 }
    }
}

#[cfg(test)]
mod tests {
    use orrery_types::ManualClock;

    use super::*;

    #[test]
    fn ids_are_checked() {
        let id = |json: &str| resource_id(&Value::parse(json.as_bytes()).expect(json));
        assert_eq!(id(r#"{"id":"db 1"}"#).as_deref(), Ok("db 1"));
        let long = "x".repeat(limits::RESOURCE_ID_CHARS_MAX);
        assert!(id(&format!(r#"{{"id":"{long}"}}"#)).is_ok());
        assert!(id(&format!(r#"{{"id":"{long}x"}}"#)).is_err());
        for bad in [
            "[]",
            "{}",
            r#"{"id":null}"#,
            r#"{"id":""}"#,
            r#"{"id":7}"#,
            r#"{"id":"a/b"}"#,
            r#"{"id":"a\\b"}"#,
            r#"{"id":"a?"}"#,
            r##"{"id":"#"}"##,
            r#"{"id":"a "}"#,
            r#"{"id":"a\n"}"#,
        ] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_stamps_have_the_same_etag() {
        let stamper = Stamper::new(Arc::new(ManualClock::at_s(5)), 7);
        let (a, b) = (stamper.next(), stamper.next());
        assert_ne!(a.etag, b.etag);
        assert_eq!((a.ts, b.ts), (5, 5));
    }
}
