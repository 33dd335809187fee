//! Advice out of the data itself: a stream of items goes in, findings with their evidence come out.
//! Memory is bounded whatever the number of items: sketches and samples, see `sketch`. Where the
//! evidence does not suffice the report says so and makes no guess.
//!
//! The rules that need nothing but data: M01 unbounded array, M02 item size, M03 hot duplicate, M07
//! weak link, M08 wrong side, M09 join items, M10 stored counter, M13 type drift. Those that need to
//! see a server at work are in `workload`.

mod arrays;
mod counter;
mod drift;
mod duplicate;
mod finding;
mod growth;
mod links;
mod other_key;
mod report;
mod shape;
mod sketch;
mod tree;
mod workload;

use orrery_types::{JsonError, Value};

use crate::document::Model;
use counter::ArrayCounters;
use duplicate::Duplicates;
use growth::Growths;
use shape::{TypeKey, Types};
use sketch::{HashSample, Histogram};
use tree::{Subject, Tree, id_hash};

pub use finding::{Cost, Finding, Severity};
pub use report::{InferredLink, InferredType, Report, Window};
pub use workload::{Chain, ContainerWork, QueryWork, Workload, add_workload};

/// Ids that are remembered to find references; beyond, a fair part of them.
const IDS_MAX: usize = 2_000_000;
/// Types that share an id.
const SHARERS_MAX: usize = 3;
/// Fewer items than this say nothing about their type.
const ITEMS_MIN: u64 = 20;

/// Versions of items as they are written, for a caller that sees writes and not the data.
#[derive(Debug, Default)]
pub struct GrowthWatch {
    types: Types,
    growths: Vec<Growths>,
}

impl GrowthWatch {
    /// Takes in a version of an item.
    pub fn add(&mut self, container: &str, item: &Value) {
        let index = self.types.of(container, item);
        if index == self.growths.len() {
            self.growths.push(Growths::default());
        }
        let hash = id_hash(item.get("id").as_str().unwrap_or_default());
        if let Some(growths) = self.growths.get_mut(index) {
            growths.add(hash, item);
        }
    }
}

/// Everything that was seen of one type.
#[derive(Debug)]
struct TypeStats {
    name: Box<str>,
    container: Box<str>,
    filter: Option<Box<str>>,
    items: u64,
    sizes: Histogram,
    largest: (usize, Box<str>),
    tree: Tree,
    growths: Growths,
    duplicates: Duplicates,
    counters: ArrayCounters,
}

/// Looks at items one after the other.
#[derive(Debug)]
pub struct Advisor {
    types: Types,
    stats: Vec<TypeStats>,
    /// The types of the items with an id.
    ids: HashSample<[u8; SHARERS_MAX]>,
    items: u64,
    /// Versions of items that were there before.
    versions: u64,
    first_s: i64,
    last_s: i64,
}

impl Default for Advisor {
    fn default() -> Self {
        Self {
            types: Types::default(),
            stats: vec![],
            ids: HashSample::new(IDS_MAX),
            items: 0,
            versions: 0,
            first_s: i64::MAX,
            last_s: i64::MIN,
        }
    }
}

impl Advisor {
    /// Takes in one item of a container, as JSON text. The same id may come several times: as later
    /// versions of the item.
    pub fn add(&mut self, container: &str, text: &[u8]) -> Result<(), JsonError> {
        let item = Value::parse(text)?;
        if item.as_object().is_some() {
            self.add_item(container, &item, text.len());
        }
        Ok(())
    }

    fn add_item(&mut self, container: &str, item: &Value, size: usize) {
        self.items += 1;
        if let Some(ts) = item.get("_ts").as_i64() {
            self.first_s = self.first_s.min(ts);
            self.last_s = self.last_s.max(ts);
        }
        let index = self.types.of(container, item);
        if index == self.stats.len() {
            self.stats.push(TypeStats::new(self.types.key(index)));
        }
        let id = item.get("id").as_str().unwrap_or_default();
        let hash = id_hash(id);
        let number = u8::try_from(index + 1).unwrap_or(u8::MAX);
        let mut seen = false;
        if !id.is_empty()
            && let Some(sharers) = self.ids.entry(hash, || [0; SHARERS_MAX])
        {
            seen = sharers.contains(&number);
            if !seen && let Some(free) = sharers.iter_mut().find(|sharer| **sharer == 0) {
                *free = number;
            }
        }
        self.versions += u64::from(seen);
        let stats = &mut self.stats[index];
        stats.add(&Subject { id, hash, seen }, item, size);
    }

    /// Takes in how arrays grew from one written version to the next, as a server has seen it.
    pub fn add_growth(&mut self, seen: &GrowthWatch) {
        for (index, growths) in seen.growths.iter().enumerate() {
            let key = seen.types.key(index);
            let same = (0..self.stats.len()).find(|at| self.types.key(*at) == key);
            if let Some(at) = same {
                self.stats[at].growths.add_versions(growths);
            }
        }
    }

    /// What was found. Relations that the model declares are not found again.
    pub fn finish(self, model: Option<&Model>) -> Report {
        report::make(&self, model)
    }

    /// The types that have an item with this id; `None` if it is not remembered.
    fn holders(&self, hash: u64) -> Option<impl Iterator<Item = usize> + use<>> {
        let sharers = match self.ids.get(hash) {
            Some(sharers) => *sharers,
            None if self.ids.covers(hash) => [0; SHARERS_MAX],
            None => return None,
        };
        Some(sharers.into_iter().filter(|n| *n > 0).map(|n| usize::from(n) - 1))
    }
}

impl TypeStats {
    fn new(key: &TypeKey) -> Self {
        let (name, container, filter) = match key {
            TypeKey::Discriminator { container, property, value } => {
                let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
                let filter = format!("c[\"{property}\"] = '{quoted}'");
                (value.clone(), container.clone(), Some(filter.into()))
            }
            TypeKey::Shape { container, number: 1 } => (container.clone(), container.clone(), None),
            TypeKey::Shape { container, number } => {
                (format!("{container}{number}").into(), container.clone(), None)
            }
        };
        Self {
            name,
            container,
            filter,
            items: 0,
            sizes: Histogram::default(),
            largest: (0, "".into()),
            tree: Tree::new(),
            growths: Growths::default(),
            duplicates: Duplicates::default(),
            counters: ArrayCounters::default(),
        }
    }

    fn add(&mut self, subject: &Subject<'_>, item: &Value, size: usize) {
        self.items += u64::from(!subject.seen);
        self.sizes.add(size);
        if size > self.largest.0 {
            self.largest = (size, subject.id.into());
        }
        self.tree.add(subject, item);
        self.growths.add(subject.hash, item);
        self.duplicates.add(subject.id, item);
        self.counters.add(subject.id, item);
    }
}

#[cfg(test)]
mod tests;
