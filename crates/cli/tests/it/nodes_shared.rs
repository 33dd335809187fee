//! The nodes of a store of `PostgreSQL` that two processes share, from the shell.

use std::collections::BTreeSet;
use std::time::Duration;

use orrery_types::Value;
use orrery_types::stopwatch::Stopwatch;

use crate::client::Client;
use crate::place::Place;
use crate::process::{Running, orrery};
use crate::terminal::Terminal;

/// What takes longer than this does not happen: a node that died is gone after about 12 seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const CONTAINERS: usize = 8;

/// The number of a node, and its jobs.
type Node = (i64, Vec<String>);

/// The nodes as `orrery nodes` prints them for programs.
fn listed(server: &Running) -> Vec<Node> {
    let (endpoint, key) = (format!("http://{}", server.address()), server.key());
    let output = orrery(&["nodes", "--endpoint", &endpoint, "--key", &key]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let node = |line: &str| {
        let node = Value::parse(line.as_bytes()).unwrap();
        let jobs = node.get("jobs").as_array().unwrap().iter().map(Value::to_json).collect();
        (node.get("node").as_i64().unwrap(), jobs)
    };
    text.lines().map(node).collect()
}

/// Lists the nodes until they are as they should be.
#[track_caller]
fn until(server: &Running, is_so: impl Fn(&[Node]) -> bool) -> Vec<Node> {
    let watch = Stopwatch::start();
    loop {
        let nodes = listed(server);
        if is_so(&nodes) {
            return nodes;
        }
        assert!(watch.elapsed() < PATIENCE, "{nodes:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Two processes over one store of `PostgreSQL`; one is killed, and the other has all of the work.
#[test]
fn two_nodes_are_listed_in_a_table_and_the_work_of_one_that_is_killed_moves_to_the_other() {
    let Some(place) = Place::postgres() else { return };
    let (killed, left) = (place.serve(), place.serve());
    let mut client = Client::open(left.address(), &left.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    for number in 0..CONTAINERS {
        let key = r#"{"paths":["/p"],"kind":"Hash","version":2}"#;
        let body = format!(r#"{{"id":"c{number}","partitionKey":{key}}}"#);
        client.must("POST", "/dbs/d/colls", &[], &body);
    }
    let count = |nodes: &[Node]| nodes.iter().map(|(_, jobs)| jobs.len()).sum::<usize>();
    // The account has a job of its own.
    let all = CONTAINERS + 1;
    let shared = until(&killed, |nodes| {
        nodes.len() == 2 && nodes.iter().all(|(_, jobs)| jobs.len() > 1) && count(nodes) == all
    });
    let endpoint = format!("http://{}", left.address());
    let mut shown =
        Terminal::start(orrery(&["nodes", "--endpoint", &endpoint, "--key", &left.key()]));
    shown.wait_for("heartbeatAgeMs");
    let (status, rows) = shown.end();
    assert!(status.success(), "{rows}");
    for (number, _) in &shared {
        let number = number.to_string();
        let has = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.starts_with(&[&*number, "live"])
        };
        assert_eq!(rows.lines().filter(has).count(), 1, "node {number} in {rows}");
    }
    // As `kill -9` does.
    drop(killed);
    let one = until(&left, |nodes| nodes.len() == 1 && count(nodes) == all);
    let jobs = |nodes: &[Node]| {
        let jobs = nodes.iter().flat_map(|(_, jobs)| jobs.clone());
        jobs.collect::<BTreeSet<String>>()
    };
    assert_eq!(jobs(&one), jobs(&shared), "every job has another node");
    assert!(shared.iter().any(|(number, _)| *number == one[0].0), "it has kept its number");
}
