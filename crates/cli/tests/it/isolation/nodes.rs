//! The same over several nodes of one store in `PostgreSQL`: each request goes to any of them, while nodes are killed and
//! stopped and come back. It runs where `ORRERY_NODES` says how many there are; `ORRERY_NODE_TRANSACTIONS` sets how many
//! transactions are made, and `ORRERY_PAUSE_MS` how long a node is stopped at most.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::door::Way;
use super::history::{History, Outcome, Transaction};
use super::{CLIENTS, Round, TRANSACTIONS_A_ROUND, prepare, start, verdict};
use crate::client::{Answer, Client};
use crate::kill::faults;
use crate::place::Place;
use crate::process::Running;
use crate::random::Random;

const TRANSACTIONS: usize = 1000;
const PAUSE_MS: usize = 3000;
/// A client waits no longer for one node.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two faults.
const QUIET_MS: usize = 700;

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Where the nodes are, as far as they run.
struct Nodes {
    addresses: Vec<Mutex<Option<SocketAddr>>>,
    key: String,
}

impl Nodes {
    fn address(&self, node: usize) -> Option<SocketAddr> {
        *self.addresses[node].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, node: usize, address: Option<SocketAddr>) {
        *self.addresses[node].lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

/// A client that sends each request to another node.
struct Wanderer<'n> {
    nodes: &'n Nodes,
    connections: Vec<Option<(SocketAddr, Client)>>,
    random: Random,
}

impl<'n> Wanderer<'n> {
    fn new(nodes: &'n Nodes, random: u64) -> Self {
        let connections = nodes.addresses.iter().map(|_| None).collect();
        Self { nodes, connections, random: Random::new(random) }
    }

    /// A connection to a node that runs.
    fn connect(&mut self) -> usize {
        loop {
            let node = self.random.below(self.connections.len());
            let Some(address) = self.nodes.address(node) else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let known = self.connections[node].as_ref();
            if known.is_some_and(|(known, _)| *known == address) {
                return node;
            }
            if let Ok(client) = Client::open_for(address, &self.nodes.key, PATIENCE) {
                self.connections[node] = Some((address, client));
                return node;
            }
        }
    }
}

impl Way for Wanderer<'_> {
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let node = self.connect();
        let (_, client) = self.connections[node].as_mut().expect("it is connected");
        let Ok(answer) = client.send(method, path, headers, body) else {
            // What was sent may still happen.
            self.connections[node] = None;
            return None;
        };
        assert!(answer.status < 500 || answer.status == 503, "{method} {path}: {answer:?}");
        (answer.status != 503).then_some(answer)
    }
}

fn signal(server: &Running, signal: &str) {
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

/// What was done to nodes.
#[derive(Default)]
struct Faults {
    kills: usize,
    pauses: usize,
}

/// Kills and stops nodes until enough transactions are answered.
fn disturb(
    place: &Place,
    nodes: &Nodes,
    servers: &mut [Running],
    is_over: &dyn Fn() -> bool,
    random: &mut Random,
) -> Faults {
    let mut made = Faults::default();
    let wait = |ms: usize| {
        for _ in 0..ms / 10 {
            if !is_over() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    };
    while !is_over() {
        wait(QUIET_MS + random.below(QUIET_MS));
        let node = random.below(servers.len());
        if random.one_in(2) {
            nodes.set(node, None);
            signal(&servers[node], "-KILL");
            servers[node] = place.serve();
            nodes.set(node, Some(servers[node].address()));
            made.kills += 1;
        } else {
            signal(&servers[node], "-STOP");
            wait(100 + random.below(number("ORRERY_PAUSE_MS", PAUSE_MS)));
            signal(&servers[node], "-CONT");
            made.pauses += 1;
        }
    }
    made
}

/// A logical partition with its accounts, from the start of the nodes to the verdict.
fn round(place: &Place, at: usize, transactions: usize, random: &mut Random) -> (History, Faults) {
    let round = Round::new(at);
    let mut servers: Vec<Running> =
        (0..number("ORRERY_NODES", 0).max(2)).map(|_| place.serve()).collect();
    let addresses = servers.iter().map(|server| Mutex::new(Some(server.address()))).collect();
    let nodes = &Nodes { addresses, key: servers[0].key() };
    let mut client = Client::open(servers[0].address(), &nodes.key).unwrap();
    round.open(&mut client);
    let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.next()).collect();
    let (done, faults) = std::thread::scope(|scope| {
        let round = &round;
        let visit = |seed| {
            scope.spawn(move || {
                let client = Box::new(Wanderer::new(nodes, seed));
                round.visit_by(client, transactions, seed, false)
            })
        };
        let clients: Vec<_> = seeds.into_iter().map(visit).collect();
        let is_over = || {
            round.answered.load(Ordering::Relaxed) >= transactions
                || clients.iter().all(std::thread::ScopedJoinHandle::is_finished)
        };
        let faults = disturb(place, nodes, &mut servers, &is_over, random);
        let done: Vec<Transaction> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (done, faults)
    });
    // What a node still does happens before the last look.
    drop(servers);
    let (_server, _, mut client) = start(place);
    let last = round.last(&mut client);
    (verdict(at, History { transactions: done, last }), faults)
}

#[test]
fn transactions_on_several_nodes_are_strictly_serializable_while_nodes_are_killed_and_stopped() {
    if std::env::var("ORRERY_NODES").is_err() {
        eprintln!("ORRERY_NODES says how many nodes there are: without it nothing is started");
        return;
    }
    let Some(place) = Place::postgres() else { return };
    let wanted = number("ORRERY_NODE_TRANSACTIONS", TRANSACTIONS);
    let mut random = Random::from_environment("isolation of nodes");
    prepare(&place);
    let (mut rounds, mut answered, mut unknown) = (0, 0, 0);
    let mut made = Faults::default();
    while answered < wanted {
        let transactions = TRANSACTIONS_A_ROUND.min(wanted - answered);
        let (history, faults) = round(&place, rounds, transactions, &mut random);
        rounds += 1;
        let open = history.transactions.iter().filter(|t| t.outcome == Outcome::Unknown).count();
        answered += history.transactions.len() - open;
        unknown += open;
        made.kills += faults.kills;
        made.pauses += faults.pauses;
    }
    let faulty = faults(&place);
    eprintln!(
        "{answered} transactions of {CLIENTS} clients, {unknown} without an answer, {} kills, {} \
         pauses: no anomaly, none lost; faults in the store: {faulty}",
        made.kills, made.pauses
    );
    assert_eq!(faulty, 0);
}
