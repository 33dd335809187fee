//! What the server has seen of its requests, for the advisor: in bounded memory, sampled, and nothing
//! at all when it is switched off. One request in sixteen is looked at; the numbers are scaled up when
//! they are asked for. Nobody waits: where the notes are in use, a sample is left out.
//!
//! `chains` finds point reads that take their ids out of an answer.

mod chains;
mod top;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use orrery_modeling::advisor::{ContainerWork, GrowthWatch, QueryWork};
use orrery_types::thread_slot::{CachePadded, THREAD_SLOTS, thread_slot};
use orrery_types::{PartitionKey, Value, limits};

use crate::Container;
use crate::item::address::ItemKey;
use chains::Chains;
use top::Top;

/// One request in so many is looked at.
const SAMPLED: u64 = 16;
/// And stands for so many.
const SCALE: f64 = 16.0;

/// Notes on requests.
#[derive(Debug)]
pub(crate) struct WorkloadRecorder {
    is_on: AtomicBool,
    /// By thread.
    requests: [CachePadded<AtomicU64>; THREAD_SLOTS],
    /// Whether an answer is being watched for the reads that follow it.
    watching: AtomicBool,
    notes: Mutex<Notes>,
}

impl Default for WorkloadRecorder {
    fn default() -> Self {
        Self {
            is_on: AtomicBool::new(true),
            requests: Default::default(),
            watching: AtomicBool::new(false),
            notes: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Notes {
    since_s: Option<u64>,
    containers: BTreeMap<u32, Seen>,
    chains: Chains,
}

/// What was seen of one container, not scaled.
#[derive(Debug, Default)]
struct Seen {
    reads: u64,
    queries: u64,
    writes: u64,
    read_charge: f64,
    write_charge: f64,
    derived_charge: f64,
    keys: Top<String>,
    queried: BTreeSet<String>,
    texts: HashMap<u64, QueryWork>,
    growth: GrowthWatch,
}

/// Why a point read is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is one of the sample.
    Sampled,
    /// It may take its id out of an answer that is watched.
    Watched,
}

/// A query that was answered.
pub(crate) struct Asked<'a> {
    pub(crate) text: &'a str,
    /// Tells queries apart, whatever their parameters.
    pub(crate) print: u64,
    pub(crate) charge: f64,
    pub(crate) key: Option<&'a PartitionKey>,
    pub(crate) paths: Vec<String>,
    pub(crate) expands: Vec<(String, Vec<String>)>,
    pub(crate) aggregates: bool,
    /// Paths that the filter fixes, where nothing fixes the partition key.
    pub(crate) fixes: Vec<String>,
    /// Whether it is the first page, and begins with the first physical partition.
    pub(crate) begins: bool,
    pub(crate) rows: &'a [String],
}

/// A write of one item.
pub(crate) struct Wrote<'a> {
    pub(crate) key: &'a PartitionKey,
    pub(crate) charge: f64,
    /// The part that followed for other items.
    pub(crate) derived: f64,
    pub(crate) item: Option<&'a Value>,
}

/// A number that looks random: what comes round at a fixed pace must not always be the sample.
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 29
}

/// What is known of one container.
pub(crate) struct Known {
    pub(crate) work: ContainerWork,
    pub(crate) growth: Option<GrowthWatch>,
}

impl WorkloadRecorder {
    pub(crate) fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
        if !on {
            self.watching.store(false, Ordering::Relaxed);
            if let Ok(mut notes) = self.notes.lock() {
                *notes = Notes::default();
            }
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.iter().map(|of| of.0.load(Ordering::Relaxed)).sum()
    }

    /// Whether this request is one of the sample.
    fn is_sampled(&self) -> bool {
        let Some(requests) = self.requests.get(thread_slot()) else { return false };
        self.is_on() && mixed(requests.0.fetch_add(1, Ordering::Relaxed)).is_multiple_of(SAMPLED)
    }

    fn note(&self, now_s: u64, f: impl FnOnce(&mut Notes)) {
        if let Ok(mut notes) = self.notes.try_lock() {
            notes.since_s.get_or_insert(now_s);
            f(&mut notes);
            self.watching.store(!notes.chains.is_empty(), Ordering::Relaxed);
        }
    }

    /// Whether a point read is of interest, and in which way.
    pub(crate) fn notes_read(&self) -> Option<Noted> {
        if self.is_sampled() {
            return Some(Noted::Sampled);
        }
        self.watching.load(Ordering::Relaxed).then_some(Noted::Watched)
    }

    /// A point read.
    pub(crate) fn read(
        &self,
        noted: Noted,
        container: &Container,
        at: &ItemKey<'_>,
        charge: f64,
        now_s: u64,
        body: &[u8],
    ) {
        let Some(place) = orrery_storage::key::parse_item(&at.key) else { return };
        self.note(now_s, |notes| {
            notes.chains.read(container.number, place.id, charge, now_s);
            if noted == Noted::Sampled
                && let Some(seen) = notes.seen(container.number)
            {
                seen.reads += 1;
                seen.read_charge += charge;
                seen.keys.add(at.partition_key.to_header(), charge);
                notes.chains.watch(container.number, now_s, std::iter::once(body));
            }
        });
    }

    /// Whether the next query is one of the sample.
    pub(crate) fn samples_query(&self) -> bool {
        self.is_sampled()
    }

    /// A page of a query that is one of the sample.
    pub(crate) fn asked(&self, container: &Container, now_s: u64, asked: &Asked<'_>) {
        self.note(now_s, |notes| {
            let rows = asked.rows.iter().map(String::as_bytes);
            notes.chains.watch(container.number, now_s, rows);
            let Some(seen) = notes.seen(container.number) else { return };
            seen.queries += 1;
            seen.read_charge += asked.charge;
            if let Some(key) = asked.key {
                seen.keys.add(key.to_header(), asked.charge);
            }
            for path in &asked.paths {
                if seen.queried.len() < limits::WORKLOAD_PATHS_MAX {
                    seen.queried.insert(path.clone());
                }
            }
            seen.text(asked);
        });
    }

    /// A write.
    pub(crate) fn wrote(&self, container: &Container, now_s: u64, wrote: &Wrote<'_>) {
        // All versions of an item are of the sample or none, so that it shows what grows.
        let id = wrote.item.map(|item| item.get("id").as_str().unwrap_or_default());
        let followed =
            id.is_some_and(|id| xxhash_rust::xxh3::xxh3_64(id.as_bytes()).is_multiple_of(SAMPLED));
        let sampled = self.is_sampled();
        if !self.is_on() || !(sampled || followed) {
            return;
        }
        self.note(now_s, |notes| {
            let Some(seen) = notes.seen(container.number) else { return };
            if let Some(item) = wrote.item.filter(|_| followed) {
                seen.growth.add(&container.id, item);
            }
            if sampled {
                seen.writes += 1;
                seen.write_charge += wrote.charge;
                seen.derived_charge += wrote.derived;
                seen.keys.add(wrote.key.to_header(), wrote.charge);
            }
        });
    }

    /// What was seen since when, by container; `name` says which are wanted, and what they are called.
    pub(crate) fn known(
        &self,
        name: &dyn Fn(u32) -> Option<Box<str>>,
    ) -> (Option<u64>, Vec<Known>) {
        let Ok(mut notes) = self.notes.lock() else { return (None, vec![]) };
        let notes = &mut *notes;
        let chains = &notes.chains;
        let of = |(number, seen): (&u32, &mut Seen)| {
            let mut work = seen.work(name(*number)?);
            work.chains = chains.of(*number, name);
            // What was followed stays; the report looks at it while nobody writes into it.
            let growth = std::mem::take(&mut seen.growth);
            Some(Known { work, growth: Some(growth) })
        };
        (notes.since_s, notes.containers.iter_mut().filter_map(of).collect())
    }

    /// Gives back what [`Self::known`] has lent.
    pub(crate) fn keep_growth(&self, container: u32, growth: GrowthWatch) {
        if let Ok(mut notes) = self.notes.lock()
            && let Some(seen) = notes.containers.get_mut(&container)
        {
            seen.growth = growth;
        }
    }
}

impl Notes {
    fn seen(&mut self, container: u32) -> Option<&mut Seen> {
        let room = self.containers.len() < limits::WORKLOAD_CONTAINERS_MAX;
        if !room && !self.containers.contains_key(&container) {
            return None;
        }
        Some(self.containers.entry(container).or_default())
    }
}

impl Seen {
    fn text(&mut self, asked: &Asked<'_>) {
        if self.texts.len() >= limits::WORKLOAD_TEXTS_MAX && !self.texts.contains_key(&asked.print)
        {
            // The least frequent makes room; a frequent one comes back.
            let least = self.texts.iter().min_by_key(|(_, query)| query.count).map(|(p, _)| *p);
            least.map(|print| self.texts.remove(&print));
        }
        let entry = self.texts.entry(asked.print).or_insert_with(|| QueryWork {
            text: asked.text.chars().take(500).collect(),
            expands: asked.expands.clone(),
            aggregates_by: match (asked.aggregates, asked.paths.as_slice()) {
                (true, [path]) => Some(path.clone()),
                _ => None,
            },
            fixes: asked.fixes.clone(),
            ..QueryWork::default()
        });
        entry.count += 1;
        entry.begun += u64::from(asked.begins);
        entry.charge += asked.charge;
    }

    fn work(&self, name: Box<str>) -> ContainerWork {
        let scale = SCALE;
        let mut texts: Vec<QueryWork> = self.texts.values().cloned().collect();
        texts.sort_by(|a, b| b.charge.total_cmp(&a.charge).then_with(|| a.text.cmp(&b.text)));
        for query in &mut texts {
            query.count *= SAMPLED;
            query.begun *= SAMPLED;
            query.charge *= scale;
        }
        ContainerWork {
            name,
            reads: self.reads * SAMPLED,
            queries: self.queries * SAMPLED,
            writes: self.writes * SAMPLED,
            read_charge: self.read_charge * scale,
            write_charge: self.write_charge * scale,
            derived_charge: self.derived_charge * scale,
            keys: self.keys.list().into_iter().map(|(key, n)| (key, n * scale)).collect(),
            queried: self.queried.iter().cloned().collect(),
            queries_seen: texts,
            ..ContainerWork::default()
        }
    }
}
