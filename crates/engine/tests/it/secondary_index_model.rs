//! Random operations on a source, its layout and its indexes against a model that is a map: on memory, on disk, and
//! on a store that fails now and then. `ORRERY_SEED` repeats a run, `ORRERY_STEPS` lengthens it.
//!
//! The model knows the source. What each index is to hold follows from it here once more, and both are compared with
//! what the query that defines the index returns.

use std::collections::BTreeMap;

use orrery_engine::catalog::resource::Preconditions;
use orrery_types::{Clock as _, Error, PartitionKey, Result};

use crate::random::Random;
use crate::secondary_index_view::{assert_sound, defined, shown, try_shown};
use crate::world::{World, json, name};

const KEYS: usize = 4;
const IDS: usize = 8;
const VALUES: usize = 5;
/// Beyond so many they are merged.
const PARTITIONS_MAX: usize = 5;

/// Indexes: id, path of the partition key, definition, names of its items.
const INDEXES: [(&str, &str, &str, &[&str]); 2] = [
    ("whole", "/v", "SELECT * FROM c", &[]),
    ("part", "/w", "SELECT c.p, c.o.w, c.id FROM c", &["p", "w", "_id"]),
];

#[test]
fn indexes_on_memory_follow_the_model() {
    Run::new(World::memory(), Random::from_environment("indexes on memory")).run(1500);
}

#[test]
fn indexes_on_disk_follow_the_model() {
    Run::new(World::rocks(), Random::from_environment("indexes on disk")).run(400);
}

#[test]
fn indexes_on_a_failing_store_follow_the_model() {
    let mut random = Random::from_environment("indexes on a failing store");
    Run::new(World::faulty(random.next()), random).run(1200);
}

#[derive(Clone, Debug)]
struct Item {
    v: usize,
    w: Option<usize>,
    ttl: Option<u64>,
    written_s: u64,
}

impl Item {
    fn text(&self, p: usize, id: usize) -> String {
        let w = self.w.map(|w| format!(r#","o":{{"w":"w{w}"}}"#)).unwrap_or_default();
        let ttl = self.ttl.map(|ttl| format!(r#","ttl":{ttl}"#)).unwrap_or_default();
        format!(r#"{{"id":"i{id}","p":"p{p}","v":{}{w}{ttl}}}"#, self.v)
    }

    /// What the index `whole` shows of it, and `part`.
    fn shown(&self, p: usize, id: usize) -> [String; 2] {
        let w = self.w.map(|w| format!(r#"o={{"w":"w{w}"}} "#)).unwrap_or_default();
        let ttl = self.ttl.map(|ttl| format!("ttl={ttl} ")).unwrap_or_default();
        let whole = format!(r#"_id="i{id}" {w}p="p{p}" {ttl}v={}"#, self.v);
        let w = self.w.map_or("null".into(), |w| format!(r#""w{w}""#));
        [whole, format!(r#"_id="i{id}" p="p{p}" w={w}"#)]
    }
}

struct Run {
    world: World,
    random: Random,
    items: BTreeMap<(usize, usize), Item>,
}

impl Run {
    fn new(mut world: World, random: Random) -> Self {
        world.database();
        let source = r#"{"id":"source","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
            "defaultTtl":-1}"#;
        world.create_container(source, Some(12_000));
        let mut run = Self { world, random, items: BTreeMap::new() };
        for index in INDEXES {
            run.create_index(index);
        }
        run
    }

    fn create_index(&mut self, (id, path, definition, _): (&str, &str, &str, &[&str])) {
        let body = format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["{path}"],"kind":"Hash","version":2}},
            "globalSecondaryIndexDefinition":{{"sourceCollectionId":"source",
            "definition":"{definition}"}}}}"#
        );
        self.world.create_container(&body, None);
    }

    fn run(mut self, steps: usize) {
        let steps = std::env::var("ORRERY_STEPS").map_or(steps, |n| n.parse().expect("a number"));
        for step in 0..steps {
            self.step();
            if step % 100 == 99 {
                self.check(step);
            }
        }
        self.check(steps);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.upsert(),
            45..60 => self.delete(),
            60..70 => self.rename(),
            70..73 => self.erase(),
            73..78 => self.world.clock.advance_s(1 + self.random.next() % 3),
            78..84 => self.layout(),
            84..94 => drop(self.world.engine().background().run_tasks(&|| false)),
            94..96 => self.recreate_index(),
            96..98 => self.change_index(),
            _ => self.world.reopen(),
        }
    }

    fn now_s(&self) -> u64 {
        self.world.clock.now_us() / 1_000_000
    }

    fn is_there(&self, at: (usize, usize)) -> bool {
        let now_s = self.now_s();
        let lives = |item: &Item| item.ttl.is_none_or(|ttl| item.written_s + ttl > now_s);
        self.items.get(&at).is_some_and(lives)
    }

    fn item(&mut self) -> Item {
        let w = (!self.random.one_in(4)).then(|| self.random.below(VALUES));
        let ttl = self.random.one_in(5).then(|| 2 + self.random.next() % 4);
        Item { v: self.random.below(VALUES), w, ttl, written_s: self.now_s() }
    }

    fn place(&mut self) -> (usize, usize) {
        (self.random.below(KEYS), self.random.below(IDS))
    }

    /// Writes until the answer is known: each operation may be repeated.
    fn write(&mut self, work: impl Fn(&World) -> Result<()>) {
        let mut last = None;
        for _ in 0..100 {
            match work(&self.world) {
                Ok(()) => return,
                Err(error) => {
                    assert!(self.world.is_faulty(), "{error}");
                    last = Some(error);
                }
            }
            self.world.reopen();
        }
        panic!("the store fails all the time: {last:?}");
    }

    fn upsert(&mut self) {
        let (at, item) = (self.place(), self.item());
        let text = item.text(at.0, at.1);
        self.write(|world| {
            let (source, none) = (world.container("source"), Preconditions::default());
            world.engine().items().upsert(&source, None, text.as_bytes(), &none).map(drop)
        });
        self.items.insert(at, item);
    }

    fn delete(&mut self) {
        let at = self.place();
        if !self.is_there(at) {
            return;
        }
        self.write(|world| {
            let (source, none) = (world.container("source"), Preconditions::default());
            let id = name(&format!("i{}", at.1));
            match world.engine().items().delete(&source, Some(&key(at.0)), &id, &none) {
                // An earlier try was lost, and has happened.
                Err(Error::NotFound) if world.is_faulty() => Ok(()),
                other => other.map(drop),
            }
        });
        self.items.remove(&at);
    }

    fn rename(&mut self) {
        let (at, id) = (self.place(), self.random.below(IDS));
        if !self.is_there(at) || self.is_there((at.0, id)) {
            return;
        }
        let item = self.item();
        let text = item.text(at.0, id);
        self.write(|world| {
            let (source, none) = (world.container("source"), Preconditions::default());
            let from = name(&format!("i{}", at.1));
            let items = world.engine().items();
            match items.replace(&source, Some(&key(at.0)), &from, text.as_bytes(), &none) {
                Err(Error::NotFound | Error::AlreadyExists) if world.is_faulty() => Ok(()),
                other => other.map(drop),
            }
        });
        self.items.remove(&at);
        self.items.insert((at.0, id), item);
    }

    fn erase(&mut self) {
        let p = self.random.below(KEYS);
        self.write(|world| {
            let source = world.container("source");
            match world.engine().erasure().erase_partition_key(&source, &key(p)) {
                // As many wait as may.
                Err(Error::RateLimited { .. }) => {
                    world.engine().background().run_tasks(&|| false)?;
                    world.engine().erasure().erase_partition_key(&source, &key(p)).map(drop)
                }
                other => other.map(drop),
            }
        });
        self.items.retain(|at, _| at.0 != p);
    }

    fn layout(&mut self) {
        let id = ["source", "whole", "part"][self.random.below(3)];
        let count = self.world.container(id).range_ids().len();
        let merges = count > 1 && (count >= PARTITIONS_MAX || self.random.one_in(2));
        // A change that a failing store has interrupted is repeated: its shards may be frozen.
        self.write(|world| {
            let layouts = world.engine().layouts();
            let changed = if merges && world.container(id).range_ids().len() > 1 {
                layouts.merge_partitions(&name("d"), &name(id), None)
            } else {
                layouts.split_partition(&name("d"), &name(id), None, None)
            };
            match changed {
                // A range of one key cannot be split.
                Err(Error::Invalid(_)) => Ok(()),
                other => other.map(drop),
            }
        });
    }

    fn recreate_index(&mut self) {
        let index = INDEXES[self.random.below(INDEXES.len())];
        self.write(|world| {
            let none = Preconditions::default();
            match world.engine().containers().delete(&name("d"), &name(index.0), &none) {
                Err(Error::NotFound) if world.is_faulty() => Ok(()),
                other => other,
            }
        });
        if self.random.one_in(2) {
            self.upsert();
        }
        self.create_index(index);
    }

    /// Another indexing policy of an index.
    fn change_index(&mut self) {
        let (id, ..) = INDEXES[self.random.below(INDEXES.len())];
        let excluded = ["/v/?", "/o/*", "/p/?"][self.random.below(3)];
        let policy = format!(r#"{{"excludedPaths":[{{"path":"{excluded}"}}]}}"#);
        let body = format!(r#"{{"id":"{id}","indexingPolicy":{policy}}}"#);
        self.write(|world| {
            let none = Preconditions::default();
            let containers = world.engine().containers();
            match containers.replace(&name("d"), &name(id), &json(&body), &none) {
                Err(Error::RateLimited { .. }) => Ok(()),
                other => other.map(drop),
            }
        });
    }

    /// Everything that waits is done; then indexes, definitions and model agree.
    fn check(&mut self, step: usize) {
        self.world.run_tasks();
        // A unit that failed once is due in the next pass.
        self.world.run_tasks();
        for _ in 0..100 {
            if self.world.engine().background().failing_units().retrying == 0 {
                break;
            }
            self.world.clock.advance_s(1);
            self.world.run_tasks();
        }
        // Items may have expired while failed units waited.
        let now_s = self.now_s();
        self.items.retain(|_, item| item.ttl.is_none_or(|ttl| item.written_s + ttl > now_s));
        if self.world.is_faulty() {
            return self.check_faulty(step);
        }
        let engine = self.world.engine();
        let source = self.world.container("source");
        for (n, (id, _, definition, names)) in INDEXES.into_iter().enumerate() {
            let index = self.world.container(id);
            let mut expected: Vec<String> =
                self.items.iter().map(|((p, id), item)| item.shown(*p, *id)[n].clone()).collect();
            expected.sort();
            assert_eq!(defined(engine, &source, definition, names), expected, "step {step}");
            assert_eq!(shown(engine, &index), expected, "step {step}: {id}");
            assert_sound(engine, &[&index]);
        }
        assert_sound(engine, &[&source]);
        assert_eq!(engine.secondary_indexes().lag_s(), 0);
    }

    /// The same where a read may fail: it is repeated until none does.
    fn check_faulty(&mut self, step: usize) {
        let model: Vec<[String; 2]> =
            self.items.iter().map(|((p, id), item)| item.shown(*p, *id)).collect();
        for (n, (id, ..)) in INDEXES.into_iter().enumerate() {
            let mut expected: Vec<String> = model.iter().map(|shown| shown[n].clone()).collect();
            expected.sort();
            self.world.insist(|engine| {
                let index = engine.containers().read(&name("d"), &name(id))?;
                let faults = engine.insight().verify(&index)?;
                assert!(faults.is_empty(), "step {step}: {id}: {faults:#?}");
                let items = try_shown(engine, &index)?;
                assert_eq!(items, expected, "step {step}: {id}");
                Ok(())
            });
        }
    }
}

fn key(p: usize) -> PartitionKey {
    PartitionKey::parse_header(&format!(r#"["p{p}"]"#)).expect("a key")
}
