//! Random operations on every store beside a plain map that says what they should do. A failing
//! run repeats with the seed it prints; `ORRERY_STEPS` makes it longer.

use std::collections::BTreeMap;

use orrery_storage::{
    Commit, Entry, MemoryStore, Part, Precondition, Put, Scan, Space, StorageError, Store, Value,
    key,
};
use orrery_types::{Lsn, ShardId};

use crate::nodes::Nodes;
use crate::postgres_store;
use crate::random::Random;
use crate::stores::{EPOCH, conflict, latest, open};

const SHARDS: u32 = 2;
const STEPS: usize = 1500;

type Map = BTreeMap<(ShardId, Space, Vec<u8>), (Lsn, Vec<u8>)>;

#[derive(Clone, Default)]
struct Model {
    map: Map,
    lsns: BTreeMap<ShardId, Lsn>,
    stripes: BTreeMap<(ShardId, u8), Lsn>,
}

impl Model {
    fn lsn(&self, shard: ShardId) -> Lsn {
        self.lsns.get(&shard).copied().unwrap_or_default()
    }

    fn holds(&self, shard: ShardId, precondition: &Precondition) -> bool {
        let version = |space: &Space, key: &[u8]| {
            self.map.get(&(shard, *space, key.to_vec())).map(|(version, _)| *version)
        };
        match precondition {
            Precondition::Absent { space, key } => version(space, key).is_none(),
            Precondition::Version { space, key, lsn } => version(space, key) == Some(*lsn),
            Precondition::StripeUnchanged { stripe, since } => {
                self.stripes.get(&(shard, *stripe)).is_none_or(|lsn| lsn <= since)
            }
        }
    }

    fn commit(&mut self, commit: &Commit) -> Result<Vec<Lsn>, StorageError> {
        for part in &commit.parts {
            if let Some(failed) = part.preconditions.iter().find(|p| !self.holds(part.shard, p)) {
                return Err(conflict(part.shard, failed));
            }
        }
        Ok(commit.parts.iter().map(|part| self.apply(part)).collect())
    }

    fn apply(&mut self, part: &Part) -> Lsn {
        if part.only_validates() {
            return self.lsn(part.shard);
        }
        let lsn = Lsn(self.lsn(part.shard).0 + 1);
        self.lsns.insert(part.shard, lsn);
        self.stripes.extend(part.stripes.iter().map(|stripe| ((part.shard, *stripe), lsn)));
        for (space, key) in &part.deletes {
            self.map.remove(&(part.shard, *space, key.clone()));
        }
        let mut put = |space: Space, key: Vec<u8>, value: &[u8]| {
            let version = if space.is_versioned() { lsn } else { Lsn(0) };
            self.map.insert((part.shard, space, key), (version, value.to_vec()));
        };
        for entry in &part.puts {
            put(entry.space, entry.key.clone(), &entry.value);
        }
        for (seq, entry) in (0..).zip(&part.feed) {
            put(Space::Feed, key::feed(lsn, seq).to_vec(), entry);
        }
        lsn
    }

    fn scan(&self, shard: ShardId, scan: &Scan<'_>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self
            .map
            .iter()
            .filter(|((s, space, key), _)| {
                *s == shard && *space == scan.space && scan.from <= &key[..] && &key[..] < scan.to
            })
            .map(|((_, _, key), (version, bytes))| Entry {
                key: key.clone(),
                value: Value { version: *version, bytes: bytes.clone().into() },
            })
            .collect();
        if scan.reverse {
            entries.reverse();
        }
        entries.truncate(scan.max_rows);
        entries
    }
}

/// Short keys over few letters, so that operations meet; zero and 0xff among them.
fn random_key(random: &mut Random) -> Vec<u8> {
    let length = random.below(4);
    (0..length).map(|_| [0, 1, b'a', 0xff][random.below(4)]).collect()
}

fn random_precondition(random: &mut Random, model: &Model, shard: ShardId) -> Precondition {
    let lsn = model.lsn(shard);
    if random.one_in(5) {
        let since = Lsn(lsn.0.saturating_sub(random.below(4) as u64));
        return Precondition::StripeUnchanged { stripe: [0, 7, 255][random.below(3)], since };
    }
    let space = if random.one_in(2) { Space::Items } else { Space::Meta };
    let key = random_key(random);
    let found = model.map.get(&(shard, space, key.clone()));
    let version = match found {
        Some((version, _)) if !random.one_in(8) => Some(*version),
        None if random.one_in(8) => Some(lsn),
        _ => None,
    };
    Precondition::unchanged(space, key, version)
}

fn random_commit(random: &mut Random, model: &Model) -> Commit {
    let first = random.below(SHARDS as usize);
    let count = 1 + random.below(SHARDS as usize);
    let part = |i: usize| {
        let shard = ShardId(u32::try_from((first + i) % SHARDS as usize).expect("few shards"));
        let mut part = Part::new(shard, EPOCH);
        let spaces = [Space::Items, Space::Index, Space::Ttl, Space::Meta];
        part.preconditions =
            (0..random.below(3)).map(|_| random_precondition(random, model, shard)).collect();
        part.deletes =
            (0..random.below(3)).map(|_| (spaces[random.below(4)], random_key(random))).collect();
        part.puts = (0..random.below(5))
            .map(|_| Put {
                space: spaces[random.below(4)],
                key: random_key(random),
                value: random.next().to_be_bytes()[..random.below(9)].to_vec(),
            })
            .collect();
        part.feed = (0..random.below(3)).map(|_| vec![1]).collect();
        part.stripes = (0..random.below(2)).map(|_| [0, 7, 255][random.below(3)]).collect();
        part
    };
    Commit::new((0..count).map(part).collect())
}

fn check_scan(random: &mut Random, store: &dyn Store, model: &Model) {
    let shard = ShardId(u32::try_from(random.below(SHARDS as usize)).expect("few shards"));
    let (from, to) = (random_key(random), random_key(random));
    let scan = Scan {
        space: Space::ALL[random.below(5)],
        from: &from,
        to: if random.one_in(3) { key::END } else { &to },
        reverse: random.one_in(2),
        max_rows: 1 + random.below(20),
        max_bytes: usize::MAX,
        keys_only: false,
    };
    let found = latest(store, shard).scan(&scan).expect("a scan");
    assert_eq!(found, model.scan(shard, &scan), "{scan:?}");
}

fn check_all(store: &dyn Store, model: &Model) {
    for shard in (0..SHARDS).map(ShardId) {
        let snapshot = latest(store, shard);
        assert_eq!(snapshot.lsn(), model.lsn(shard));
        for space in Space::ALL {
            let (max_rows, max_bytes) = (usize::MAX, usize::MAX);
            let (from, to, reverse, keys_only) = (&[][..], key::END, false, false);
            let scan = Scan { space, from, to, reverse, max_rows, max_bytes, keys_only };
            assert_eq!(snapshot.scan(&scan).expect("a scan"), model.scan(shard, &scan));
        }
    }
}

/// Runs `steps` random operations.
fn run(random: &mut Random, store: &dyn Store, model: &mut Model, steps: usize) {
    for _ in 0..steps {
        match random.below(4) {
            0 => check_scan(random, store, model),
            1 => {
                let key = random_key(random);
                let found = store.get(ShardId(0), Space::Items, &key).expect("a read").1;
                let expected = model.map.get(&(ShardId(0), Space::Items, key));
                let expected = expected.map(|(lsn, bytes)| (*lsn, bytes.clone()));
                assert_eq!(found.map(|v| (v.version, v.bytes.into())), expected);
            }
            _ => {
                let commit = random_commit(random, model);
                let expected = model.commit(&commit);
                assert_eq!(store.commit(commit.clone()).map(|c| c.lsns), expected, "{commit:?}");
            }
        }
    }
}

fn steps() -> usize {
    std::env::var("ORRERY_STEPS").map_or(STEPS, |n| n.parse().expect("ORRERY_STEPS is a number"))
}

fn create_shards(store: &dyn Store) {
    for shard in (0..SHARDS).map(ShardId) {
        store.create_open_shard(shard, EPOCH).expect("a shard");
    }
}

#[test]
fn the_memory_store_does_what_the_model_says() {
    let mut random = Random::from_environment("model of memory");
    let (store, mut model) = (MemoryStore::new(), Model::default());
    create_shards(&store);
    run(&mut random, &store, &mut model, steps());
    check_all(&store, &model);
}

#[test]
fn two_nodes_of_postgres_do_what_the_model_says_and_keep_it_when_reopened() {
    let Some((address, options)) = postgres_store::new_store() else { return };
    let mut random = Random::from_environment("model of postgres");
    let mut model = Model::default();
    for round in 0..3 {
        let store = Nodes::open(&address, &options);
        if round == 0 {
            create_shards(&store);
        }
        check_all(&store, &model);
        run(&mut random, &store, &mut model, steps() / 3);
        check_all(&store, &model);
    }
}

#[test]
fn the_rocks_store_does_what_the_model_says_and_keeps_it_when_reopened() {
    let mut random = Random::from_environment("model of rocks");
    let folder = tempfile::tempdir().expect("a folder");
    let mut model = Model::default();
    for round in 0..3 {
        let store = open(folder.path());
        if round == 0 {
            create_shards(&store);
        }
        // Stripes are kept in memory: no snapshot is older than the store that was opened.
        model.stripes.clear();
        check_all(&store, &model);
        run(&mut random, &store, &mut model, steps() / 3);
        // A snapshot of this moment stays while the store moves on.
        let (snapshot, moment) = (latest(&store, ShardId(0)), model.clone());
        run(&mut random, &store, &mut model, 50);
        let scan = Scan {
            space: Space::Items,
            from: &[],
            to: key::END,
            reverse: false,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            keys_only: false,
        };
        assert_eq!(snapshot.scan(&scan).expect("a scan"), moment.scan(ShardId(0), &scan));
        check_all(&store, &model);
    }
}
