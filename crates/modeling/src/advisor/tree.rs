//! What was seen of the items of one type, path by path. A *node* is a path; elements of an array
//! share one.

use std::collections::HashMap;

use orrery_types::Value;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::sketch::{HashSample, Histogram, ValueSample};
use crate::path::{ModelPath, ModelStep};

/// Paths of one type that are looked at; items with keys for names would have no end of them.
const NODES_MAX: usize = 600;
/// Longest text that could be an id.
const ID_BYTES_MAX: usize = 255;
/// Targets of a path whose counts are kept.
const TALLY_MAX: usize = 8192;

/// The kinds of JSON values, in the order of [`PathNode::kinds`].
pub(crate) const KINDS: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// One path.
#[derive(Debug)]
pub(crate) struct PathNode {
    pub(crate) path: ModelPath,
    pub(crate) parent: usize,
    /// Occurrences by kind.
    pub(crate) kinds: [u64; 6],
    /// For each kind an item that has it.
    pub(crate) kind_samples: [Option<Box<str>>; 6],
    /// Lengths of arrays.
    pub(crate) lengths: Histogram,
    /// An item with a long array.
    pub(crate) longest: (usize, Box<str>),
    /// Bytes of values, roughly.
    pub(crate) bytes: u64,
    /// Distinct strings and whole numbers that could be ids.
    pub(crate) values: ValueSample,
    /// How many items name a value, for the values whose hash is low enough.
    pub(crate) tally: HashSample<u32>,
    /// Whole numbers by the id of their item, to compare with counts.
    pub(crate) numbers: HashSample<(i64, Box<str>)>,
    /// Values equal to the item's own id.
    pub(crate) own_id: u64,
}

impl PathNode {
    pub(crate) fn count(&self) -> u64 {
        self.kinds.iter().sum()
    }

    /// Occurrences of strings and numbers.
    pub(crate) fn scalars(&self) -> u64 {
        self.kinds[2] + self.kinds[3]
    }
}

/// All paths of one type.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<PathNode>,
    children: HashMap<u64, usize>,
    /// Whether there were more paths than are looked at.
    pub(crate) overflowed: bool,
}

/// The hash under which ids and what refers to them meet: a number counts as its text.
pub(crate) fn id_hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

pub(crate) fn kind(value: &Value) -> usize {
    match value {
        Value::Undefined | Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// The item that is being looked at.
pub(crate) struct Subject<'i> {
    pub(crate) id: &'i str,
    pub(crate) hash: u64,
    /// Whether an earlier version of it was seen.
    pub(crate) seen: bool,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = PathNode::new(ModelPath::of(vec![]), 0);
        Self { nodes: vec![root], children: HashMap::new(), overflowed: false }
    }

    pub(crate) fn find(&self, path: &ModelPath) -> Option<usize> {
        self.nodes.iter().position(|node| node.path == *path)
    }

    /// Takes in a whole item.
    pub(crate) fn add(&mut self, subject: &Subject<'_>, item: &Value) {
        self.value(0, subject, item);
    }

    fn child(&mut self, parent: usize, step: &ModelStep) -> Option<usize> {
        let seed = parent as u64 + 1;
        let hash = match step {
            ModelStep::Each => seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ModelStep::Name(name) => xxh3_64_with_seed(name.as_bytes(), seed),
        };
        if let Some(node) = self.children.get(&hash) {
            return Some(*node);
        }
        if self.nodes.len() >= NODES_MAX {
            self.overflowed = true;
            return None;
        }
        let mut steps = self.nodes[parent].path.steps().to_vec();
        steps.push(step.clone());
        self.nodes.push(PathNode::new(ModelPath::of(steps), parent));
        self.children.insert(hash, self.nodes.len() - 1);
        Some(self.nodes.len() - 1)
    }

    /// Looks at a value; returns its bytes, roughly.
    fn value(&mut self, at: usize, subject: &Subject<'_>, value: &Value) -> u64 {
        let kind = kind(value);
        let node = &mut self.nodes[at];
        node.kinds[kind] += 1;
        if node.kind_samples[kind].is_none() {
            node.kind_samples[kind] = Some(subject.id.into());
        }
        let bytes = match value {
            Value::Object(object) => {
                let mut bytes = 2;
                for (name, value) in object.iter() {
                    let system = at == 0 && (&**name == "id" || name.starts_with('_'));
                    let size = name.len() as u64 + 4;
                    bytes += size;
                    if system {
                        continue;
                    }
                    if let Some(child) = self.child(at, &ModelStep::Name((&**name).into())) {
                        bytes += self.value(child, subject, value);
                    }
                }
                bytes
            }
            Value::Array(elements) => {
                node.lengths.add(elements.len());
                if elements.len() > node.longest.0 {
                    node.longest = (elements.len(), subject.id.into());
                }
                let mut bytes = 2;
                if let Some(child) = self.child(at, &ModelStep::Each) {
                    for element in elements.iter() {
                        bytes += self.value(child, subject, element) + 1;
                    }
                }
                bytes
            }
            Value::String(text) => {
                if text.len() <= ID_BYTES_MAX && !text.is_empty() {
                    node.scalar(subject, text);
                }
                text.len() as u64 + 2
            }
            Value::Number(number) => {
                if let Some(whole) = number.as_i64() {
                    node.scalar(subject, &whole.to_string());
                    if let Some(entry) =
                        node.numbers.entry(subject.hash, || (whole, subject.id.into()))
                    {
                        entry.0 = whole;
                    }
                }
                8
            }
            Value::Undefined | Value::Null | Value::Bool(_) => 4,
        };
        self.nodes[at].bytes += bytes;
        bytes
    }
}

impl PathNode {
    fn new(path: ModelPath, parent: usize) -> Self {
        Self {
            path,
            parent,
            kinds: [0; 6],
            kind_samples: Default::default(),
            lengths: Histogram::default(),
            longest: (0, "".into()),
            bytes: 0,
            values: ValueSample::default(),
            tally: HashSample::new(TALLY_MAX),
            numbers: HashSample::new(TALLY_MAX),
            own_id: 0,
        }
    }

    fn scalar(&mut self, subject: &Subject<'_>, text: &str) {
        if text == subject.id {
            self.own_id += 1;
        }
        let hash = id_hash(text);
        self.values.add(hash, subject.id, || text.into());
        // Another version of an item does not refer once more.
        if !subject.seen
            && let Some(tally) = self.tally.entry(hash, || 0)
        {
            *tally += 1;
        }
    }
}
