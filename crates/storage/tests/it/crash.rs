//! A writing process is killed, over and over; what it was told is durable is there afterwards, and
//! nothing is there by half. `ORRERY_KILLS` sets how often, `ORRERY_SEED` repeats a run's choices.
//!
//! The child is this same test, started with a variable that makes it write instead. It prints a
//! line for every acknowledged commit; the parent reads the lines and kills it after some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use orrery_storage::{
    Commit, Part, Precondition, Put, RocksOptions, RocksStore, Space, Store, key,
};
use orrery_types::{Lsn, ShardId};

use crate::random::Random;
use crate::stores::{EPOCH, all, latest};

const CHILD: &str = "ORRERY_CRASH_CHILD";
const SMALL: &str = "ORRERY_CRASH_SMALL";
const KILLS: usize = 20;
const WRITERS: u32 = 8;
const TERMS: u8 = 4;
const HOME: ShardId = ShardId(1);
const AWAY: ShardId = ShardId(2);

/// One writer's n-th commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    writer: u32,
    n: u32,
}

impl Name {
    fn bytes(self) -> Vec<u8> {
        [self.writer.to_be_bytes(), self.n.to_be_bytes()].concat()
    }

    fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("a name"));
        Self { writer: word(0), n: word(4) }
    }

    /// Every third commit writes to both shards.
    fn is_double(self) -> bool {
        self.n.is_multiple_of(3)
    }

    /// Item, index terms, feed entry, and a head that each commit of the writer replaces.
    fn commit(self, head: Option<Lsn>) -> Commit {
        let mut part = Part::new(HOME, EPOCH);
        let space = Space::Meta;
        let key = self.writer.to_be_bytes().to_vec();
        part.preconditions.push(Precondition::unchanged(space, key.clone(), head));
        part.puts.push(Put { space, key, value: self.n.to_be_bytes().to_vec() });
        let value = vec![7; 100 + self.n as usize % 900];
        part.puts.push(Put { space: Space::Items, key: self.bytes(), value });
        for term in 0..TERMS {
            let key = [&[term][..], &self.bytes()].concat();
            part.puts.push(Put { space: Space::Index, key, value: vec![] });
        }
        part.feed.push(self.bytes());
        let mut parts = vec![part];
        if self.is_double() {
            let mut away = Part::new(AWAY, EPOCH);
            away.puts.push(Put { space: Space::Items, key: self.bytes(), value: vec![] });
            parts.push(away);
        }
        Commit::new(parts)
    }
}

fn head(store: &dyn Store, writer: u32) -> Option<(Lsn, u32)> {
    let (_, found) = store.get(HOME, Space::Meta, &writer.to_be_bytes()).expect("a read");
    let found = found?;
    let n = u32::from_be_bytes(found.bytes[..].try_into().expect("a number"));
    Some((found.version, n))
}

fn open(path: &Path, small: bool) -> RocksStore {
    let mut options = RocksOptions::default();
    if small {
        // Memory is written out all the time, so that kills fall into that as well.
        options.write_buffer_bytes = 512 * 1024;
        options.log_bytes_max = 256 * 1024;
    }
    RocksStore::open(path, &options).expect("the folder opens")
}

/// Writes until killed.
fn child(path: &Path) {
    let store = open(path, std::env::var_os(SMALL).is_some());
    store.create_open_shard(HOME, EPOCH).expect("a shard");
    store.create_open_shard(AWAY, EPOCH).expect("a shard");
    let store = &store;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let before = head(store, writer);
                let mut version = before.map(|(lsn, _)| lsn);
                for n in before.map_or(0, |(_, n)| n + 1).. {
                    let commit = Name { writer, n }.commit(version);
                    let lsn = store.commit(commit).expect("a commit").lsns[0];
                    version = Some(lsn);
                    let line = format!("\nack {writer} {n} {}\n", lsn.0);
                    std::io::stdout().write_all(line.as_bytes()).expect("the parent reads");
                }
            });
        }
    });
}

fn parse_ack(line: &str) -> Option<(Name, Lsn)> {
    let mut words = line.strip_prefix("ack ")?.split(' ').map(str::parse::<u64>);
    let mut word = || words.next()?.ok();
    let (writer, n, lsn) = (word()?, word()?, word()?);
    Some((Name { writer: writer.try_into().ok()?, n: n.try_into().ok()? }, Lsn(lsn)))
}

/// Runs a child until it has acknowledged so many commits, kills it, and returns all it had.
fn run_and_kill(path: &Path, small: bool, after: usize) -> Vec<(Name, Lsn)> {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "--nocapture", "crash::acknowledged_commits_outlive_the_process"]);
    command.env(CHILD, path).stdout(Stdio::piped()).stderr(Stdio::inherit());
    if small {
        command.env(SMALL, "1");
    }
    let mut child = command.spawn().expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut acks = Vec::new();
    for line in lines {
        acks.extend(parse_ack(&line.expect("text")));
        if acks.len() == after {
            child.kill().expect("a kill");
        }
    }
    child.wait().expect("an end");
    assert!(acks.len() >= after, "the child ended by itself after {} commits", acks.len());
    acks
}

/// Checks that every commit is there whole or not at all; returns those that are there.
fn verify(store: &dyn Store) -> BTreeMap<Name, Lsn> {
    let (home, away) = (latest(store, HOME), latest(store, AWAY));
    let items: BTreeMap<Name, Lsn> =
        all(&*home, Space::Items).iter().map(|e| (Name::parse(&e.key), e.value.version)).collect();
    let feed: Vec<(Name, Lsn)> = all(&*home, Space::Feed)
        .iter()
        .map(|e| (Name::parse(&e.value.bytes), key::parse_feed(&e.key).expect("a feed key").0))
        .collect();
    let lsns: Vec<u64> = feed.iter().map(|(_, lsn)| lsn.0).collect();
    assert_eq!(lsns, (1..=home.lsn().0).collect::<Vec<_>>(), "an LSN for each commit");
    assert_eq!(items, feed.into_iter().collect(), "feed and items are the same commits");
    let terms: BTreeSet<Vec<u8>> = all(&*home, Space::Index).into_iter().map(|e| e.key).collect();
    assert_eq!(terms.len(), items.len() * usize::from(TERMS));
    for (name, term) in items.keys().flat_map(|name| (0..TERMS).map(move |t| (name, t))) {
        assert!(terms.contains(&[&[term][..], &name.bytes()].concat()), "{name:?} is torn");
    }
    let doubles: Vec<Name> = items.keys().copied().filter(|name| name.is_double()).collect();
    let far = all(&*away, Space::Items);
    assert_eq!(far.iter().map(|e| Name::parse(&e.key)).collect::<Vec<_>>(), doubles);
    assert_eq!(away.lsn().0, doubles.len() as u64);
    items
}

#[test]
fn acknowledged_commits_outlive_the_process() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    let kills = std::env::var("ORRERY_KILLS");
    let kills = kills.map_or(KILLS, |n| n.parse().expect("ORRERY_KILLS is a number"));
    let mut random = Random::from_environment("crash");
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = 0;
    for kill in 0..kills {
        let (small, after) = (random.one_in(2), 1 + random.below(400));
        let acks = run_and_kill(folder.path(), small, after);
        acknowledged += acks.len();
        let store = open(folder.path(), small);
        let found = verify(&store);
        for (name, lsn) in acks {
            assert_eq!(found.get(&name), Some(&lsn), "{name:?} was lost by kill {kill}");
        }
    }
    eprintln!("{kills} kills, {acknowledged} acknowledged commits, none lost, none torn");
}
