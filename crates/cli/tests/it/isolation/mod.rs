//! The isolation of transactions within a logical partition, under load and under `kill -9`. Many
//! clients move money between a few accounts in every way there is; what each of them saw must fit
//! one line of transactions, in an order that agrees with time, and nothing acknowledged may be
//! missing from it. `ORRERY_TRANSACTIONS` sets how many, `ORRERY_SEED` repeats a run's choices.

mod checker;
mod door;
mod history;
mod item;
#[cfg(unix)]
mod nodes;
mod planted;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use orrery_types::Value;
use orrery_types::json::write_json_string;

use crate::client::{Answer, Client};
use crate::kill::faults;
use crate::place::Place;
use crate::process::Running;
use crate::random::Random;
use door::{DOORS, Door, ITEMS, Visitor, Way, Wish};
use history::{History, Key, List, Outcome, Transaction};

const TRANSACTIONS: usize = 2000;
/// Each round has a logical partition of its own, so that lists stay short.
const TRANSACTIONS_A_ROUND: usize = 1000;
const CLIENTS: usize = 32;
const ACCOUNTS: usize = 10;

/// What the clients of a round share.
struct Round {
    partition: String,
    ticks: AtomicU64,
    elements: AtomicU64,
    /// Transactions that were answered.
    answered: AtomicUsize,
}

impl Round {
    fn wish(&self, random: &mut Random) -> Wish {
        let mut accounts: Vec<usize> = (0..ACCOUNTS).collect();
        for at in (1..ACCOUNTS).rev() {
            accounts.swap(at, random.below(at + 1));
        }
        let amount = i64::try_from(random.below(300)).unwrap();
        let mut wish = Wish::default();
        let element = |amount| item::element(self.elements.fetch_add(1, Ordering::Relaxed), amount);
        for (key, amount) in [(accounts[0], -amount), (accounts[1], amount)] {
            wish.appends.push((key, element(amount), amount));
        }
        let reads = 1 + random.below(3);
        wish.reads = accounts[2..2 + reads].to_vec();
        wish
    }

    fn new(number: usize) -> Self {
        Self {
            partition: format!("round-{number}"),
            ticks: AtomicU64::new(0),
            elements: AtomicU64::new(1),
            answered: AtomicUsize::new(0),
        }
    }

    /// One client of the one server: transactions until enough are answered, or the server is gone.
    fn visit(&self, at: &(SocketAddr, String), until: usize, random: u64) -> Vec<Transaction> {
        let Ok(client) = Client::open(at.0, &at.1) else { return vec![] };
        self.visit_by(Box::new(client), until, random, true)
    }

    /// One client: transactions until enough are answered, or, if `may_end`, until one is not.
    fn visit_by(
        &self,
        client: Box<dyn Way + '_>,
        until: usize,
        random: u64,
        may_end: bool,
    ) -> Vec<Transaction> {
        let mut random = Random::new(random);
        let mut visitor = Visitor { client, partition: &self.partition, ticks: &self.ticks };
        let ways: Vec<Door> =
            DOORS.iter().flat_map(|(door, times)| std::iter::repeat_n(*door, *times)).collect();
        let mut done = Vec::new();
        while self.answered.load(Ordering::Relaxed) < until {
            let way = ways[random.below(ways.len())];
            let transactions = way(&mut visitor, &self.wish(&mut random));
            let is_over = transactions.iter().any(|t| t.outcome == Outcome::Unknown);
            let answered = transactions.iter().filter(|t| t.outcome != Outcome::Unknown).count();
            done.extend(transactions);
            self.answered.fetch_add(answered, Ordering::Relaxed);
            if is_over && may_end {
                break;
            }
        }
        done
    }

    /// All clients at once until so many transactions are answered. With `kill` the server is killed
    /// then, while they go on; otherwise they stop.
    fn run(
        &self,
        at: &(SocketAddr, String),
        until: usize,
        kill: Option<Running>,
        random: &mut Random,
    ) -> Vec<Transaction> {
        let patience = if kill.is_some() { usize::MAX } else { until };
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.next()).collect();
        std::thread::scope(|scope| {
            let visit = |seed| scope.spawn(move || self.visit(at, patience, seed));
            let clients: Vec<_> = seeds.into_iter().map(visit).collect();
            if let Some(server) = kill {
                while self.answered.load(Ordering::Relaxed) < until {
                    assert!(
                        clients.iter().any(|client| !client.is_finished()),
                        "all clients ended"
                    );
                    std::thread::sleep(Duration::from_millis(1));
                }
                drop(server);
            }
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        })
    }

    /// Makes the accounts, in one batch.
    fn open(&self, client: &mut Client) {
        let create = |key| {
            let text = item::text(&self.partition, key, &[]);
            format!(r#"{{"operationType":"Create","resourceBody":{text}}}"#)
        };
        let creates: Vec<String> = (0..ACCOUNTS).map(create).collect();
        let answer = self.batch(client, &creates);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// What the accounts hold at the end; what they hold together never changes.
    fn last(&self, client: &mut Client) -> BTreeMap<Key, List> {
        let reads: Vec<String> = (0..ACCOUNTS).map(door::read).collect();
        let answer = self.batch(client, &reads);
        assert_eq!(answer.status, 200, "{answer:?}");
        let results = Value::parse(answer.body.as_bytes()).unwrap();
        let items = results.as_array().unwrap().iter().map(|r| item::read(r.get("resourceBody")));
        let last: BTreeMap<Key, List> = items.collect();
        let total: i64 = last.values().map(|list| item::balance(list)).sum();
        assert_eq!(total, item::INITIAL_BALANCE * i64::try_from(ACCOUNTS).unwrap());
        last
    }

    fn batch(&self, client: &mut Client, operations: &[String]) -> Answer {
        let key = format!("[\"{}\"]", self.partition);
        let headers = [
            ("x-ms-documentdb-partitionkey", &*key),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
        ];
        client.send("POST", ITEMS, &headers, format!("[{}]", operations.join(","))).unwrap()
    }
}

fn start(place: &Place) -> (Running, (SocketAddr, String), Client) {
    let server = place.serve();
    let at = (server.address(), server.key());
    let client = Client::open(at.0, &at.1).unwrap();
    (server, at, client)
}

fn prepare(place: &Place) {
    let (_server, _, mut client) = start(place);
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let throughput = [("x-ms-offer-throughput", "12000")];
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &throughput, body);
    let mut procedure = r#"{"id":"transfer","body":"#.to_owned();
    write_json_string(include_str!("transfer.js"), &mut procedure);
    client.must("POST", "/dbs/d/colls/c/sprocs", &[], &format!("{procedure}}}"));
}

/// One logical partition, from its accounts' making to the verdict; a kill comes in between.
fn round(place: &Place, number: usize, transactions: usize, random: &mut Random) -> History {
    let round = Round::new(number);
    let (server, at, mut client) = start(place);
    round.open(&mut client);
    let before_kill = 1 + random.below(transactions);
    let mut done = round.run(&at, before_kill, Some(server), random);
    let (_server, at, mut client) = start(place);
    done.extend(round.run(&at, transactions, None, random));
    verdict(number, History { transactions: done, last: round.last(&mut client) })
}

/// The history of a round, which has no anomaly.
fn verdict(number: usize, history: History) -> History {
    let anomalies = checker::check(&history);
    for anomaly in &anomalies {
        eprintln!("round {number}: {anomaly}");
        for transaction in anomaly.transactions() {
            eprintln!("  T{transaction}: {:?}", history.transactions[transaction]);
        }
    }
    assert_eq!(anomalies.len(), 0, "anomalies in round {number}");
    history
}

#[test]
fn transactions_are_strictly_serializable_and_outlive_the_server() {
    let wanted = std::env::var("ORRERY_TRANSACTIONS");
    let wanted = wanted.map_or(TRANSACTIONS, |text| text.parse().expect("a number"));
    let mut random = Random::from_environment("isolation");
    let folder = tempfile::tempdir().unwrap();
    let place = Place::chosen(folder.path());
    prepare(&place);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut rounds, mut answered) = (0, 0);
    while answered < wanted {
        let transactions = TRANSACTIONS_A_ROUND.min(wanted - answered);
        let history = round(&place, rounds, transactions, &mut random);
        rounds += 1;
        for transaction in &history.transactions {
            let outcome = match transaction.outcome {
                Outcome::Committed => "committed",
                Outcome::Aborted => "failed",
                Outcome::Unknown => "without an answer",
            };
            answered += usize::from(transaction.outcome != Outcome::Unknown);
            *counts.entry((transaction.door, outcome)).or_default() += 1;
        }
    }
    let faulty = faults(&place);
    eprintln!(
        "{answered} transactions of {CLIENTS} clients, {rounds} kills: no anomaly, none lost"
    );
    for ((door, outcome), count) in &counts {
        eprintln!("  {door}, {outcome}: {count}");
    }
    eprintln!("faults in the store: {faulty}");
    assert_eq!(faulty, 0);
    for (door, outcome) in [
        ("batch", "committed"),
        ("batch that fails", "failed"),
        ("etag batch", "committed"),
        ("etag loop", "committed"),
        ("procedure", "committed"),
        ("procedure with a query", "committed"),
    ] {
        assert!(counts.contains_key(&(door, outcome)), "no {door} was {outcome}");
    }
}
