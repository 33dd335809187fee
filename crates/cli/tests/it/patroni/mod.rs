//! A node over three `PostgreSQL` under Patroni, with a synchronous standby at all times: the leader is killed and cut off under
//! load, and nothing that was acknowledged is missing afterwards. `cargo xtask endure patroni` runs it; without
//! `ORRERY_PATRONI_KILLS` and `ORRERY_PATRONI_CUTS`, the numbers of both, it is skipped.

mod cluster;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use orrery_types::stopwatch::Stopwatch;

use crate::client::Client;
use crate::process::{Running, orrery};
use cluster::{NODES, PatroniCluster};

const WRITERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(180);
const DOCS: &str = "/dbs/d/colls/c/docs";

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What the writers have seen.
#[derive(Default)]
struct Load {
    acknowledged: Mutex<BTreeSet<String>>,
    count: AtomicU64,
    unanswered: AtomicU64,
    is_over: AtomicBool,
    /// When the last write was acknowledged, and the longest time between two of them since it was set to zero, both in ms.
    last_ms: AtomicU64,
    longest_ms: AtomicU64,
}

impl Load {
    fn acknowledge(&self, id: String, watch: &Stopwatch) {
        self.acknowledged.lock().unwrap().insert(id);
        let now_ms = u64::try_from(watch.elapsed().as_millis()).unwrap();
        let before_ms = self.last_ms.fetch_max(now_ms, SeqCst);
        self.longest_ms.fetch_max(now_ms.saturating_sub(before_ms), SeqCst);
        self.count.fetch_add(1, SeqCst);
    }

    /// Creates items until the load is over. A create that got no clear answer is not repeated.
    fn write(&self, writer: usize, (address, key): (SocketAddr, &str), watch: &Stopwatch) {
        let mut client = None;
        for n in 0.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            if client.is_none() {
                client = Client::open(address, key).ok();
            }
            let id = format!("{writer}-{n}");
            let partition = format!(r#"["{writer}"]"#);
            let headers = [("x-ms-documentdb-partitionkey", &*partition)];
            let body = format!(r#"{{"id":"{id}","p":"{writer}","n":{n}}}"#);
            match client.as_mut().map(|client| client.send("POST", DOCS, &headers, &body)) {
                Some(Ok(answer)) if answer.status == 201 => self.acknowledge(id, watch),
                Some(Ok(answer)) => {
                    assert_eq!(answer.status, 503, "{answer:?}");
                    self.unanswered.fetch_add(1, SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(Err(_)) | None => {
                    client = None;
                    self.unanswered.fetch_add(1, SeqCst);
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn wait_for_more(&self, what: &str) {
        let (before, watch) = (self.count.load(SeqCst), Stopwatch::start());
        while self.count.load(SeqCst) < before + 50 {
            assert!(watch.elapsed() < PATIENCE, "no write is acknowledged after {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server process alone.
    Server,
    /// The server and Patroni.
    Machine,
    /// The wire.
    Wire,
}

/// Ends the leader in one way, waits until another one leads and writes are acknowledged, and makes the cluster whole.
fn inflict(fault: Fault, cluster: &mut PatroniCluster, load: &Load) -> f64 {
    cluster.wait_until_whole();
    load.wait_for_more("the cluster was whole");
    let old = cluster.leader(&[0, 1, 2]).expect("a whole cluster has a leader");
    let others: Vec<usize> = (0..NODES).filter(|node| *node != old).collect();
    load.longest_ms.store(0, SeqCst);
    match fault {
        Fault::Server => cluster.kill_server(old),
        Fault::Machine => cluster.kill_machine(old),
        Fault::Wire => cluster.set_wire(old, false),
    }
    let watch = Stopwatch::start();
    while cluster.leader(&others).is_none_or(|leader| leader == old) {
        assert!(watch.elapsed() < PATIENCE, "nobody else leads after {fault:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    load.wait_for_more("another one leads");
    #[expect(clippy::cast_precision_loss, reason = "it is shown")]
    let seconds = load.longest_ms.load(SeqCst) as f64 / 1000.0;
    match fault {
        Fault::Server => {}
        Fault::Machine => cluster.start_machine(old),
        Fault::Wire => cluster.set_wire(old, true),
    }
    eprintln!("{fault:?}: {seconds:.1} s without an acknowledged write");
    seconds
}

#[test]
fn nothing_acknowledged_is_lost_while_leaders_are_killed_and_cut_off() {
    let (kills, cuts) = (setting("ORRERY_PATRONI_KILLS"), setting("ORRERY_PATRONI_CUTS"));
    if kills.is_none() && cuts.is_none() {
        eprintln!("skipped: cargo xtask endure patroni runs it");
        return;
    }
    if let Some(missing) = PatroniCluster::missing() {
        eprintln!("skipped: {missing}");
        return;
    }
    let mut cluster = PatroniCluster::start();
    let address = cluster.address();
    let init = orrery(&["store", "init", "--store", &address]).output().unwrap();
    assert!(init.status.success(), "{init:?}");
    let serve = || {
        let quiet = ["--listen", "127.0.0.1:0", "--no-tls", "--log", "error"];
        Running::start(&[&["serve", "--store", &address], &quiet[..]].concat())
    };
    let mut server = serve();
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    let (load, watch) = (Load::default(), Stopwatch::start());
    let place = (server.address(), server.key());
    let server_faults: Vec<Fault> = (0..kills.unwrap_or(0))
        .map(|kill| if kill % 2 == 0 { Fault::Server } else { Fault::Machine })
        .chain((0..cuts.unwrap_or(0)).map(|_| Fault::Wire))
        .collect();
    let mut seconds = std::thread::scope(|scope| {
        let ending = EndOfLoad(&load);
        for writer in 0..WRITERS {
            let (load, watch, place) = (&load, &watch, &place);
            scope.spawn(move || load.write(writer, (place.0, &place.1), watch));
        }
        let seconds: Vec<(Fault, f64)> = server_faults
            .into_iter()
            .map(|fault| (fault, inflict(fault, &mut cluster, &load)))
            .collect();
        drop(ending);
        seconds
    });
    assert!(server.child.try_wait().unwrap().is_none(), "the node ended");
    cluster.wait_until_whole();
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let found: BTreeSet<String> = client
        .feed(DOCS, "Documents")
        .iter()
        .map(|item| item.get("id").as_str().unwrap().to_owned())
        .collect();
    let acknowledged = load.acknowledged.into_inner().unwrap();
    let lost: Vec<&String> = acknowledged.difference(&found).collect();
    seconds.sort_by(|a, b| a.1.total_cmp(&b.1));
    eprintln!(
        "{} faults, {} writes acknowledged, {} lost, {} without a clear answer; seconds without acknowledgement: {seconds:?}",
        seconds.len(),
        acknowledged.len(),
        lost.len(),
        load.unanswered.load(SeqCst),
    );
    assert!(lost.is_empty(), "{lost:?}");
}

/// Ends the load, also when the test fails.
struct EndOfLoad<'l>(&'l Load);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}
