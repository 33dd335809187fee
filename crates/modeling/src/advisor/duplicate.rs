//! Objects that are embedded in many items under a key of their own: whether the copies agree.

use std::collections::HashMap;

use orrery_types::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::sketch::HashSample;
use super::tree::id_hash;
use crate::path::{ModelPath, ModelStep};

/// Properties that identify an embedded object, the most usual first.
const KEYS: [&str; 9] = ["id", "_id", "symbol", "code", "sku", "isbn", "ticker", "key", "number"];
/// Embedded objects of one path that are followed.
const FOLLOWED_MAX: usize = 4096;
/// Paths that are followed.
const PATHS_MAX: usize = 64;
/// Different contents of one object that are distinguished.
const CONTENTS_MAX: usize = 64;

/// Copies of one object.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) key: Box<str>,
    /// Items that have it, in any version.
    pub(crate) occurrences: u64,
    /// Hashes of what the copies say.
    pub(crate) contents: Vec<u64>,
    pub(crate) samples: Vec<Box<str>>,
    pub(crate) bytes: u64,
}

/// The embedded objects of one path.
#[derive(Debug)]
pub(crate) struct EmbeddedObjects {
    pub(crate) path: ModelPath,
    pub(crate) key: &'static str,
    pub(crate) copies: HashSample<Copies>,
}

/// All of one type.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    pub(crate) paths: HashMap<Vec<ModelStep>, EmbeddedObjects>,
}

impl Duplicates {
    pub(crate) fn add(&mut self, id: &str, item: &Value) {
        self.walk(id, item, &mut Vec::new());
    }

    fn walk(&mut self, id: &str, value: &Value, steps: &mut Vec<ModelStep>) {
        match value {
            Value::Object(object) => {
                if !steps.is_empty() && object.len() >= 3 {
                    self.embedded(id, value, steps);
                }
                for (name, value) in object.iter() {
                    if matches!(value, Value::Object(_) | Value::Array(_)) {
                        steps.push(ModelStep::Name((&**name).into()));
                        self.walk(id, value, steps);
                        steps.pop();
                    }
                }
            }
            Value::Array(elements) => {
                steps.push(ModelStep::Each);
                for element in elements.iter() {
                    self.walk(id, element, steps);
                }
                steps.pop();
            }
            _ => {}
        }
    }

    fn embedded(&mut self, id: &str, value: &Value, steps: &[ModelStep]) {
        let key_of = |name: &&str| matches!(value.get(name), Value::String(_) | Value::Number(_));
        let Some(key) = KEYS.iter().find(|name| key_of(name)) else { return };
        if !self.paths.contains_key(steps) {
            if self.paths.len() >= PATHS_MAX {
                return;
            }
            let path = ModelPath::of(steps.to_vec());
            let copies = HashSample::new(FOLLOWED_MAX);
            self.paths.insert(steps.to_vec(), EmbeddedObjects { path, key, copies });
        }
        let Some(embedded) = self.paths.get_mut(steps) else { return };
        let text = match value.get(embedded.key) {
            Value::String(text) => text.to_string(),
            other => other.to_json(),
        };
        let make = || Copies {
            key: text.as_str().into(),
            occurrences: 0,
            contents: vec![],
            samples: vec![],
            bytes: 0,
        };
        let Some(copies) = embedded.copies.entry(id_hash(&text), make) else { return };
        let json = value.to_json();
        copies.occurrences += 1;
        copies.bytes += json.len() as u64;
        let content = xxh3_64(json.as_bytes());
        if !copies.contents.contains(&content) && copies.contents.len() < CONTENTS_MAX {
            copies.contents.push(content);
        }
        if copies.samples.len() < 5 && !copies.samples.iter().any(|s| **s == *id) {
            copies.samples.push(id.into());
        }
    }
}
