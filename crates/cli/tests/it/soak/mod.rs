//! A soak: clients of every kind work on a real server for as long as is asked for, while ranges split and
//! merge and the server is killed or stopped and started again. Each client predicts every answer from what it
//! has written; after each start everything is read back and compared, and in the end the folder is verified
//! record by record. `ORRERY_SOAK_SECONDS` sets how long, `ORRERY_SEED` repeats a run's choices; `cargo xtask
//! soak` sets both.

mod connection;
mod follower;
mod items;
mod library;
mod oracle;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use orrery_engine::Engine;
use orrery_storage::{RocksOptions, RocksStore};
use orrery_types::ids::Address;
use orrery_types::{Clock as _, SystemClock};

use crate::client::Client;
use crate::process::{Running, orrery};
use crate::random::Random;
use connection::{Connection, Query, Request, Target};
use follower::Follower;
use items::ItemClient;
use library::LibraryClient;

const SECONDS: u64 = 6;
const ITEM_CLIENTS: usize = 6;
const LIBRARY_CLIENTS: usize = 3;
/// How long a server runs before it is ended.
const ROUND_MS_MIN: usize = 500;
const ROUND_MS_MAX: usize = 12_000;
/// One folder in so many is verified between two rounds; the last one always is.
const VERIFIED_ONE_IN: usize = 10;

/// Everybody who works on the server, and what happened so far.
struct Soak {
    items: Vec<ItemClient>,
    libraries: Vec<LibraryClient>,
    follower: Follower,
    /// Answers by kind.
    counts: BTreeMap<&'static str, u64>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// `kill -9` under load.
    Kill,
    /// SIGTERM under load.
    Stop,
    /// SIGTERM after all clients have stopped.
    Rest,
}

impl Soak {
    fn new(random: &mut Random) -> Self {
        Self {
            items: (0..ITEM_CLIENTS).map(|n| ItemClient::new(n, random.next())).collect(),
            libraries: (0..LIBRARY_CLIENTS).map(|n| LibraryClient::new(n, random.next())).collect(),
            follower: Follower::default(),
            counts: BTreeMap::new(),
        }
    }

    fn add(&mut self, counts: &BTreeMap<&'static str, u64>) {
        for (kind, count) in counts {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// Compares everything that is stored with what the clients know, while nobody writes.
    fn settle(&mut self, target: &Target) {
        let mut connection = Connection::open(target).unwrap();
        self.items.iter_mut().for_each(|client| client.settle(&mut connection).unwrap());
        self.libraries.iter_mut().for_each(|client| client.settle(&mut connection).unwrap());
        self.follower.settle(&mut connection, &self.items).unwrap();
        let known = self.libraries.iter().map(LibraryClient::counts);
        let [authors, books] =
            known.fold([0, 0], |[a, b], [more_a, more_b]| [a + more_a, b + more_b]);
        let items: usize = self.items.iter().map(|client| client.items().count()).sum();
        for (path, known) in
            [(items::ITEMS, items), (library::AUTHORS, authors), (library::BOOKS, books)]
        {
            let query =
                Query { text: "SELECT VALUE c.id FROM c", partition: None, page_size: 1000 };
            let found = connection.query("comparison", path, &query).unwrap().len();
            assert_eq!(found, known, "items of {path}, of all clients together");
        }
        self.add(&connection.counts);
    }

    /// Lets everybody work for so long, and ends the server.
    fn work(&mut self, mut server: Running, target: &Target, time: Duration, end: End, seed: u64) {
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for client in &mut self.items {
                threads.push(scope.spawn(|| on(target, |c| client.run(c, || target.is_over()))));
            }
            for client in &mut self.libraries {
                threads.push(scope.spawn(|| on(target, |c| client.run(c, || target.is_over()))));
            }
            let follower = &mut self.follower;
            threads.push(scope.spawn(|| on(target, |c| follower.run(c, || target.is_over()))));
            threads.push(scope.spawn(move || on(target, |c| change_layouts(c, target, seed))));
            std::thread::sleep(time);
            let flag = if end == End::Rest { &target.is_over } else { &target.is_ending };
            flag.store(true, Ordering::SeqCst);
            match end {
                End::Kill => server.child.kill().unwrap(),
                End::Stop => server.signal("-TERM"),
                End::Rest => {}
            }
            all.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        });
        for counts in &all {
            self.add(counts);
        }
        if end == End::Rest {
            self.settle(target);
            target.is_ending.store(true, Ordering::SeqCst);
            server.signal("-TERM");
        }
    }
}

/// Runs a client on a connection of its own, and gives what it was answered.
fn on(target: &Target, work: impl FnOnce(&mut Connection<'_>)) -> BTreeMap<&'static str, u64> {
    let Ok(mut connection) = Connection::open(target) else { return BTreeMap::new() };
    work(&mut connection);
    connection.counts
}

/// Splits and merges ranges of all containers until the server is ended.
fn change_layouts(connection: &mut Connection<'_>, target: &Target, seed: u64) {
    let mut random = Random::new(seed);
    while !target.is_over() {
        let container = ["c", "authors", "books"][random.below(3)];
        let operation = ["split", "merge"][random.below(2)];
        let path = format!("/dbs/d/colls/{container}/operations/{operation}");
        let request = Request { method: "POST", path: &path, headers: &[], body: "" };
        let Ok(answer) = connection.send(operation, &request) else { return };
        let has_none =
            answer.body.contains("cannot be split") || answer.body.contains("nothing to merge");
        let is_done = answer.status == 200 || answer.status == 400 && has_none;
        assert!(is_done, "{operation} of {container}: {answer:?}");
        if answer.status == 400 {
            *connection.counts.entry(operation).or_default() -= 1;
            *connection.counts.entry("split or merge that is not possible").or_default() += 1;
        }
        std::thread::sleep(Duration::from_millis(20 + random.next() % 200));
    }
}

fn prepare(folder: &Path) {
    let mut server = Running::serve(folder);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let unique = r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
    for (id, key, more) in [("c", "/p", unique), ("authors", "/id", ""), ("books", "/shelf", "")] {
        let body = format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["{key}"],"kind":"Hash","version":2}}{more}}}"#
        );
        client.must("POST", "/dbs/d/colls", &[("x-ms-offer-throughput", "18000")], &body);
    }
    client.must("PUT", "/dbs/d/_model", &[], library::MODEL);
    server.signal("-TERM");
}

/// Reads every record of the folder, which no server has open, and recomputes what the model promises.
fn verify(folder: &Path) {
    let output = orrery(&["inspect", "--verify", folder.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let store = RocksStore::open(&folder.join("store"), &RocksOptions::default()).unwrap();
    let engine = Engine::open(Arc::new(store), Arc::new(SystemClock), 1).unwrap();
    let drift = engine.model_verification().verify(&Address::Name("d".into())).unwrap();
    assert!(drift.is_empty(), "{drift:#?}");
}

#[cfg(unix)]
#[test]
fn every_answer_is_that_of_an_oracle_for_as_long_as_it_runs() {
    let seconds = std::env::var("ORRERY_SOAK_SECONDS");
    let seconds =
        seconds.map_or(SECONDS, |text| text.parse().expect("ORRERY_SOAK_SECONDS is a number"));
    let mut random = Random::from_environment("soak");
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut soak = Soak::new(&mut random);
    let until_us = SystemClock.now_us() + seconds * 1_000_000;
    let (mut rounds, mut verified) = (0, 0);
    let mut ends = BTreeMap::from([("kills", 0), ("stops under load", 0), ("stops at rest", 0)]);
    loop {
        let left_ms = until_us.saturating_sub(SystemClock.now_us()) / 1000;
        let is_last = left_ms == 0;
        let server = Running::serve(folder.path());
        let target = Target {
            address: server.address(),
            key: server.key(),
            is_ending: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        };
        soak.settle(&target);
        let end = match random.below(8) {
            _ if is_last => End::Rest,
            0 => End::Stop,
            1 => End::Rest,
            _ => End::Kill,
        };
        let spread = usize::try_from(left_ms).unwrap_or(ROUND_MS_MAX).clamp(1, ROUND_MS_MAX);
        let time_ms = ROUND_MS_MIN + random.below(spread);
        let time = Duration::from_millis(u64::try_from(time_ms).unwrap());
        soak.work(server, &target, time, end, random.next());
        rounds += 1;
        let name = match end {
            End::Kill => "kills",
            End::Stop => "stops under load",
            End::Rest => "stops at rest",
        };
        *ends.entry(name).or_default() += 1;
        if is_last || random.one_in(VERIFIED_ONE_IN) {
            verify(folder.path());
            verified += 1;
        }
        if is_last {
            break;
        }
    }
    let answers: u64 = soak.counts.values().sum();
    let unanswered: u64 = soak.items.iter().map(|client| client.unanswered).sum::<u64>()
        + soak.libraries.iter().map(|client| client.unanswered).sum::<u64>();
    eprintln!(
        "soak: {rounds} rounds, {ends:?}, {answers} answers as the oracle has them, {unanswered} writes without \
         an answer, each executed as a whole or not at all; {} changes read; folder verified {verified} times",
        soak.follower.changes
    );
    for (kind, count) in &soak.counts {
        eprintln!("  {kind}: {count}");
    }
}
