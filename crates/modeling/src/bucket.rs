//! Arrays that are kept in items of their own, *buckets*, beside the item that they belong to. A
//! bucket is an item like others: the partition key of its parent, a link to it, and its share of the
//! elements at the array's own path. A marker tells it from the items that clients write.

use orrery_types::{Object, Value};

use crate::document::Bucket;
use crate::error::ModelError;
use crate::path::{ModelPath, ModelStep};

/// The property that every bucket has and no other item may have.
pub const BUCKET_MARKER: &str = "_bucket";

/// A bucketed array.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct BucketRule {
    pub def: Bucket,
    pub on: usize,
    /// How ids of buckets are made.
    pub ids: IdFormat,
    /// The paths of the partition key, which a bucket has from its parent.
    pub key_paths: Vec<ModelPath>,
}

/// What a bucket says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The id of its parent.
    pub of: Box<str>,
    /// The array's path.
    pub array: Box<str>,
    /// Its place among the buckets of its parent; gaps are allowed.
    pub seq: u64,
}

impl Marker {
    /// The marker of an item; `None` if it is no bucket.
    pub fn read(item: &Value) -> Option<Self> {
        let marker = item.get(BUCKET_MARKER);
        Some(Self {
            of: marker.get("of").as_str()?.into(),
            array: marker.get("array").as_str()?.into(),
            seq: u64::try_from(marker.get("seq").as_i64()?).ok()?,
        })
    }

    fn to_value(&self) -> Value {
        let mut object = Object::new();
        object.set("of", (&*self.of).into());
        object.set("array", (&*self.array).into());
        object.set("seq", Value::from(i64::try_from(self.seq).unwrap_or(i64::MAX)));
        Value::object(object)
    }
}

impl BucketRule {
    /// The names on the way to the array.
    pub fn array_names(&self) -> Vec<&str> {
        self.def
            .array
            .steps()
            .iter()
            .filter_map(|step| match step {
                ModelStep::Name(name) => Some(&**name),
                ModelStep::Each => None,
            })
            .collect()
    }

    /// A bucket of an item, with these elements.
    pub fn bucket(&self, parent: &Value, id: &str, seq: u64, elements: Vec<Value>) -> Value {
        let mut object = Object::new();
        object.set("id", self.ids.format(id, seq).into());
        let mut item = Value::object(object);
        for path in &self.key_paths {
            path.set(&mut item, &[], path.get(parent, &[]).clone());
        }
        if !self.key_paths.iter().any(|path| path.overlaps(&self.def.link)) {
            self.def.link.set(&mut item, &[], id.into());
        }
        let marker = Marker { of: id.into(), array: self.def.array.to_string().into(), seq };
        if let Some(object) = item.as_object_mut() {
            object.set(BUCKET_MARKER, marker.to_value());
        }
        self.def.array.set(&mut item, &[], Value::array(elements));
        item
    }

    /// The elements of a bucket.
    pub fn elements<'v>(&self, bucket: &'v Value) -> &'v [Value] {
        self.def.array.get(bucket, &[]).as_array().unwrap_or_default()
    }

    /// What an element is known by; the error is for the sender.
    pub fn element_key(&self, element: &Value) -> Result<Option<Box<str>>, String> {
        let Some(name) = &self.def.element_key else { return Ok(None) };
        match element.get(name) {
            Value::String(key) if !key.is_empty() => Ok(Some((**key).into())),
            number @ Value::Number(_) => Ok(Some(number.to_json().into())),
            _ => Err(format!(
                "each element of '{}' is an object with a string or a number as '{name}', by which \
                 it is changed and removed (elementKey); this one is not: {}",
                self.def.array,
                element.to_json().chars().take(100).collect::<String>()
            )),
        }
    }
}

/// Text with the parent's id and a number in it: `{id}~c{seq:06}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdFormat {
    parts: Vec<IdPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IdPart {
    Text(Box<str>),
    Id,
    Seq(usize),
}

impl IdFormat {
    /// Reads a format; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a '{' is not closed")?;
            if !before.is_empty() {
                parts.push(IdPart::Text(before.into()));
            }
            parts.push(match name {
                "id" => IdPart::Id,
                "seq" => IdPart::Seq(0),
                name => {
                    let width = name.strip_prefix("seq:0").and_then(|width| width.parse().ok());
                    let width = width.filter(|width| *width <= 20);
                    IdPart::Seq(width.ok_or("known are {id}, {seq} and {seq:06}")?)
                }
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(IdPart::Text(rest.into()));
        }
        let count = |is: fn(&IdPart) -> bool| parts.iter().filter(|part| is(part)).count();
        let id = count(|part| *part == IdPart::Id);
        let seq = count(|part| matches!(part, IdPart::Seq(_)));
        if (id, seq) != (1, 1) {
            return Err("it must have {id} and {seq} once each");
        }
        // Digits of one would run into digits of the other.
        let apart = |pair: &[IdPart]| {
            !matches!(pair, [IdPart::Id, IdPart::Seq(_)] | [IdPart::Seq(_), IdPart::Id])
        };
        if !parts.windows(2).all(apart) {
            return Err("there must be something between {id} and {seq}: {id}~{seq}");
        }
        Ok(Self { parts })
    }

    /// The id of a bucket.
    pub fn format(&self, id: &str, seq: u64) -> String {
        let part = |part: &IdPart| match part {
            IdPart::Text(text) => text.to_string(),
            IdPart::Id => id.to_owned(),
            IdPart::Seq(width) => format!("{seq:0width$}"),
        };
        self.parts.iter().map(part).collect()
    }
}

pub(crate) fn id_format(at: &str, def: &Bucket) -> Result<IdFormat, ModelError> {
    IdFormat::parse(&def.id_format).map_err(|reason| {
        let reason = format!("'{}' makes no ids: {reason}", def.id_format);
        ModelError::new(format!("{at}/bucket/idFormat"), reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_made_by_their_format() {
        let format = |text: &str| IdFormat::parse(text).expect(text).format("p1", 42);
        assert_eq!(format("{id}~c{seq:06}"), "p1~c000042");
        assert_eq!(format("b-{seq}-{id}"), "b-42-p1");
        for bad in ["{id}", "{seq}", "{id}{seq}", "{id}~{seq", "{id}~{seq}~{seq}", "{id}~{n}"] {
            assert!(IdFormat::parse(bad).is_err(), "{bad}");
        }
    }
}
