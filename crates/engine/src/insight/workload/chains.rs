//! Chains of reads: an answer is watched for a while, and point reads whose id stood in it are counted
//! by where in the answer it stood.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use orrery_modeling::advisor::Chain;
use orrery_types::{Value, limits};
use xxhash_rust::xxh3::xxh3_64;

/// Reads by different ids of one answer that make a chain.
const READS_MIN: usize = 5;
/// Of the reads of a container after an answer, one in so many at least takes its id from there;
/// otherwise it is chance.
const SHARE_MIN: usize = 2;
/// How long an answer is watched: in seconds, and in point reads that come after it.
const WATCHED_S: u64 = 10;
const WATCHED_READS: usize = 48;

/// Answers that are watched, and what came of earlier ones.
#[derive(Debug, Default)]
pub(super) struct Chains {
    watched: VecDeque<Watch>,
    /// How many were begun in which second.
    begun: (u64, usize),
    found: BTreeMap<(u32, String, u32), Chain>,
}

/// One answer.
#[derive(Debug)]
struct Watch {
    container: u32,
    since_s: u64,
    paths: Vec<String>,
    /// Values that could be ids, and the path of each.
    values: HashMap<u64, usize>,
    /// Point reads since, by container.
    reads: HashMap<u32, usize>,
    /// Ids that were read, by the path where they stood and by the container that was read.
    hits: HashMap<(usize, u32), HashSet<u64>>,
    /// Of these, the ones that are a chain already.
    counted: HashSet<(usize, u32)>,
}

impl Chains {
    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Watches an answer.
    pub(super) fn watch<'r>(
        &mut self,
        container: u32,
        now_s: u64,
        rows: impl Iterator<Item = &'r [u8]>,
    ) {
        if self.begun.0 != now_s {
            self.begun = (now_s, 0);
        }
        if self.begun.1 >= limits::WORKLOAD_WATCHED_PER_S_MAX {
            return;
        }
        self.begun.1 += 1;
        let mut watch = Watch {
            container,
            since_s: now_s,
            paths: vec![],
            values: HashMap::new(),
            reads: HashMap::new(),
            hits: HashMap::new(),
            counted: HashSet::new(),
        };
        for row in rows.filter(|row| row.len() <= limits::WORKLOAD_ROW_BYTES_MAX) {
            if watch.values.len() >= limits::WORKLOAD_VALUES_MAX {
                break;
            }
            if let Ok(row) = Value::parse(row) {
                watch.collect(&row, &mut String::new());
            }
        }
        if watch.values.len() < READS_MIN {
            return;
        }
        if self.watched.len() >= limits::WORKLOAD_WATCHED_MAX {
            self.end_first();
        }
        self.watched.push_back(watch);
    }

    /// Stops watching the oldest answer.
    fn end_first(&mut self) {
        let Some(watch) = self.watched.pop_front() else { return };
        for (path, to) in watch.hits.keys() {
            if watch.reads.get(to).is_some_and(|reads| *reads >= READS_MIN)
                && let Some(chain) = self.chain(watch.container, &watch.paths[*path], *to)
            {
                chain.watched += 1;
            }
        }
    }

    fn chain(&mut self, from: u32, path: &str, to: u32) -> Option<&mut Chain> {
        let place = (from, path.to_owned(), to);
        let room = self.found.len() < limits::WORKLOAD_CHAINS_MAX;
        if !room && !self.found.contains_key(&place) {
            return None;
        }
        Some(self.found.entry(place).or_default())
    }

    /// A point read: does its id stand in an answer?
    pub(super) fn read(&mut self, container: u32, id: &str, charge: f64, now_s: u64) {
        let is_over = |w: &Watch| {
            w.since_s + WATCHED_S < now_s || w.reads.values().sum::<usize>() >= WATCHED_READS
        };
        while self.watched.front().is_some_and(is_over) {
            self.end_first();
        }
        for watch in &mut self.watched {
            *watch.reads.entry(container).or_default() += 1;
        }
        let hash = xxh3_64(id.as_bytes());
        let hit = |watch: &&mut Watch| watch.values.contains_key(&hash);
        let Some(watch) = self.watched.iter_mut().rev().find(hit) else { return };
        let Some(path) = watch.values.get(&hash).copied() else { return };
        // The items of the answer themselves are read again: no relation would help.
        if watch.container == container && watch.paths[path] == "/id" {
            return;
        }
        let place = (path, container);
        let ids = watch.hits.entry(place).or_default();
        if !ids.insert(hash) {
            return;
        }
        let (hits, reads) = (ids.len(), watch.reads.get(&container).copied().unwrap_or(0));
        if hits < READS_MIN || hits * SHARE_MIN < reads {
            return;
        }
        let first = watch.counted.insert(place);
        let (from, path) = (watch.container, watch.paths[path].clone());
        let new = if first { hits } else { 1 };
        let Some(chain) = self.chain(from, &path, container) else { return };
        chain.times += u64::from(first);
        chain.reads += new as u64;
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let share = new as f64;
        chain.charge += charge * share;
        if chain.samples.len() < 3 && !chain.samples.iter().any(|known| known == id) {
            chain.samples.push(id.to_owned());
        }
    }

    /// The chains that start in a container. Only some answers are watched: these are the least.
    pub(super) fn of(&self, container: u32, name: &dyn Fn(u32) -> Option<Box<str>>) -> Vec<Chain> {
        let own = self.found.iter().filter(|((from, ..), _)| *from == container);
        own.filter_map(|((_, path, to), chain)| {
            let to = name(*to)?.into();
            Some(Chain { path: path.clone(), to, ..chain.clone() })
        })
        .collect()
    }
}

impl Watch {
    fn collect(&mut self, value: &Value, path: &mut String) {
        match value {
            Value::Object(object) => {
                for (name, value) in object.iter().filter(|(name, _)| !name.starts_with('_')) {
                    let length = path.len();
                    path.push('/');
                    path.push_str(name);
                    self.collect(value, path);
                    path.truncate(length);
                }
            }
            Value::Array(elements) => {
                let length = path.len();
                path.push_str("/*");
                elements.iter().for_each(|element| self.collect(element, path));
                path.truncate(length);
            }
            Value::String(text) if text.len() <= 255 => self.add(text, path),
            // Ids are strings; what refers to them may be a number all the same.
            Value::Number(_) => self.add(&value.to_json(), path),
            _ => {}
        }
    }

    fn add(&mut self, text: &str, path: &str) {
        if self.values.len() >= limits::WORKLOAD_VALUES_MAX || path.is_empty() {
            return;
        }
        let at = self.paths.iter().position(|known| known == path).unwrap_or_else(|| {
            self.paths.push(path.to_owned());
            self.paths.len() - 1
        });
        self.values.insert(xxh3_64(text.as_bytes()), at);
    }
}
