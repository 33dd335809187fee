//! The server is killed while clients write and ranges split and merge, over and over. What it acknowledged is there afterwards
//! with exactly its content, what it did not acknowledge is there whole or not at all, and the store
//! has no fault. `ORRERY_KILLS` sets how often, `ORRERY_SEED` repeats a run's choices; with `ORRERY_STORE=postgres` the
//! data is in `PostgreSQL`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use orrery_engine::Engine;
use orrery_types::ids::Address;
use orrery_types::{SystemClock, Value};

use crate::client::Client;
use crate::place::Place;
use crate::process::Running;
use crate::random::Random;

const KILLS: usize = 20;
pub(crate) const WRITERS: usize = 8;
/// Items of each writer. The last few live a second, so that the sweeper works meanwhile.
const SLOTS: usize = 20;
const SLOTS_LIVING: usize = 17;
pub(crate) const ITEMS: &str = "/dbs/d/colls/c/docs";

/// What a slot holds: the number of the write that made it, or nothing.
pub(crate) type Content = Option<u64>;

/// A write of one item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemWrite<'a> {
    /// `POST` creates, `PUT` replaces and `DELETE` deletes.
    pub(crate) method: &'static str,
    pub(crate) id: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) body: &'a str,
}

/// A client through which a writer writes.
pub(crate) trait ItemClient {
    /// The status of a write; `None` if no answer came.
    fn write(&mut self, write: &ItemWrite<'_>) -> Option<u16>;
}

impl ItemClient for Client {
    fn write(&mut self, write: &ItemWrite<'_>) -> Option<u16> {
        let ItemWrite { method, id, partition_key, body } = *write;
        let key = ("x-ms-documentdb-partitionkey", partition_key);
        let item = format!("{ITEMS}/{id}");
        let path = if method == "POST" { ITEMS } else { &*item };
        self.send(method, path, &[key], body).ok().map(|answer| answer.status)
    }
}

/// One writer's part of the container, as it was told.
#[derive(Clone)]
pub(crate) struct Writer {
    number: usize,
    random: u64,
    writes: u64,
    known: [Content; SLOTS],
    /// The write whose answer did not come.
    pending: Option<(usize, Content)>,
}

impl Writer {
    pub(crate) fn new(number: usize, random: u64) -> Self {
        Self { number, random, writes: 0, known: [None; SLOTS], pending: None }
    }

    fn next(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.random >> 33).unwrap() % end
    }

    fn id(&self, slot: usize) -> String {
        format!("{}-{slot}", self.number)
    }

    /// Writers share logical partitions.
    fn partition(&self) -> String {
        format!("p{}", self.number % 3)
    }

    /// Unique keys come back after a delete and go round with the writes.
    fn body(&self, slot: usize, n: u64) -> String {
        let (id, partition) = (self.id(slot), self.partition());
        let unique = format!("{id}-{}", n % 3);
        let ttl = if slot < SLOTS_LIVING { 1_000_000 } else { 1 };
        let filler = "x".repeat(usize::try_from(n % 1500).unwrap());
        format!(
            r#"{{"id":"{id}","p":"{partition}","u":"{unique}","n":{n},"ttl":{ttl},"f":"{filler}"}}"#
        )
    }

    /// Writes until the server is gone.
    pub(crate) fn run(&mut self, address: SocketAddr, key: &str, acknowledged: &Sender<()>) {
        if let Ok(mut client) = Client::open(address, key) {
            self.run_with(&mut client, acknowledged);
        }
    }

    /// The same through any client.
    pub(crate) fn run_with(&mut self, client: &mut impl ItemClient, acknowledged: &Sender<()>) {
        loop {
            let slot = self.next(SLOTS);
            let deletes = self.known[slot].is_some() && self.next(4) == 0;
            self.writes += 1;
            let after = (!deletes).then_some(self.writes);
            self.pending = Some((slot, after));
            let Some(()) = self.write(client, slot, after) else { return };
            self.pending = None;
            if acknowledged.send(()).is_err() {
                return;
            }
        }
    }

    /// One write; `None` if no answer came.
    fn write(&mut self, client: &mut impl ItemClient, slot: usize, after: Content) -> Option<()> {
        let method = match (self.known[slot], after) {
            (None, Some(_)) => "POST",
            (Some(_), Some(_)) => "PUT",
            (_, None) => "DELETE",
        };
        let (id, partition_key) = (self.id(slot), format!(r#"["{}"]"#, self.partition()));
        let body = after.map(|n| self.body(slot, n)).unwrap_or_default();
        let write = ItemWrite { method, id: &id, partition_key: &partition_key, body: &body };
        match client.write(&write)? {
            200 | 201 | 204 => self.known[slot] = after,
            // It lived its second.
            404 if slot >= SLOTS_LIVING => self.known[slot] = None,
            // The server is stopping in order.
            503 => return None,
            status => panic!("slot {slot} of {}: {status} for {write:?}", self.number),
        }
        Some(())
    }

    /// Whether a write has had no answer.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Compares with what is there after a restart, and goes on from that.
    pub(crate) fn settle(&mut self, found: &BTreeMap<String, Value>, lost: &mut usize) {
        let pending = self.pending.take();
        for slot in 0..SLOTS {
            let item = found.get(&self.id(slot));
            let there = item.map(|item| item.get("n").as_i64().unwrap().unsigned_abs());
            let maybe = pending.filter(|(of, _)| *of == slot).map(|(_, after)| after);
            let may_expire = slot >= SLOTS_LIVING && there.is_none();
            if there != self.known[slot] && Some(there) != maybe && !may_expire {
                let id = self.id(slot);
                eprintln!("{id}: {there:?}, acknowledged {:?}, sent {maybe:?}", self.known[slot]);
                *lost += 1;
            }
            if let (Some(item), Some(n)) = (item, there) {
                let sent = Value::parse(self.body(slot, n).as_bytes()).unwrap();
                for (name, value) in sent.as_object().unwrap().iter() {
                    assert_eq!(item.get(name), value, "{name} of {}", self.id(slot));
                }
            }
            self.known[slot] = there;
        }
    }
}

/// A database with a container of three partitions, unique keys and lives.
pub(crate) fn prepare(place: &Place) {
    let server = place.serve();
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let throughput = [("x-ms-offer-throughput", "18000")];
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "defaultTtl":-1,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    client.must("POST", "/dbs/d/colls", &throughput, body);
}

/// Opens the place that no server has open, and looks at every record.
pub(crate) fn faults(place: &Place) -> usize {
    let engine = Engine::open(place.open(), Arc::new(SystemClock), 1).unwrap();
    let name = |text: &str| Address::Name(text.into());
    let container = engine.containers().read(&name("d"), &name("c")).unwrap();
    let faults = engine.insight().verify(&container).unwrap();
    for fault in &faults {
        eprintln!("{fault}");
    }
    faults.len()
}

/// Splits and merges ranges until the server is gone; returns how often.
pub(crate) fn change_layout(address: SocketAddr, key: &str) -> usize {
    let done = AtomicUsize::new(0);
    change_layout_counted(address, key, &done);
    done.into_inner()
}

/// The same, counted while it goes on.
pub(crate) fn change_layout_counted(address: SocketAddr, key: &str, done: &AtomicUsize) {
    let Ok(mut client) = Client::open(address, key) else { return };
    for turn in 0.. {
        let operation = if turn % 2 == 0 { "split" } else { "merge" };
        let path = format!("/dbs/d/colls/c/operations/{operation}");
        match client.send("POST", &path, &[], "") {
            Ok(answer) if answer.status == 200 => {
                done.fetch_add(1, Ordering::Relaxed);
            }
            // Many kills after a split leave ranges of one key; a merge goes on from there.
            Ok(answer) if answer.status == 400 && answer.body.contains("cannot be split") => {}
            // The server is stopping in order.
            Ok(answer) if answer.status == 503 => return,
            Ok(answer) => panic!("{operation}: {answer:?}"),
            Err(_) => return,
        }
    }
}

/// Lets all writers write until so many writes are acknowledged, then ends the server.
fn write_and_end(
    mut server: Running,
    writers: &mut [Writer],
    after: usize,
    kill: bool,
    layouts: &mut usize,
) -> usize {
    let (address, key) = (server.address(), server.key());
    let (sender, receiver): (Sender<()>, Receiver<()>) = channel();
    std::thread::scope(|scope| {
        for writer in writers {
            let (sender, key) = (sender.clone(), key.clone());
            scope.spawn(move || writer.run(address, &key, &sender));
        }
        drop(sender);
        let layout_changer = scope.spawn(|| change_layout(address, &key));
        let counted = receiver.iter().take(after).count();
        assert_eq!(counted, after, "the server ended by itself");
        if kill {
            drop(server);
        } else {
            server.signal("-TERM");
        }
        let counted = counted + receiver.iter().count();
        *layouts += layout_changer.join().unwrap();
        counted
    })
}

#[cfg(unix)]
#[test]
fn acknowledged_writes_outlive_the_server() {
    let kills = std::env::var("ORRERY_KILLS");
    let kills = kills.map_or(KILLS, |text| text.parse().expect("ORRERY_KILLS is a number"));
    let mut random = Random::from_environment("kill");
    let folder = tempfile::tempdir().unwrap();
    let place = Place::chosen(folder.path());
    prepare(&place);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|w| Writer::new(w, random.next())).collect();
    let (mut acknowledged, mut unknown, mut lost, mut faulty) = (0, 0, 0, 0);
    let mut layouts = 0;
    for round in 0..=kills {
        faulty += faults(&place);
        let server = place.serve();
        let mut client = Client::open(server.address(), &server.key()).unwrap();
        let items = client.feed(ITEMS, "Documents").into_iter();
        let found = items.map(|item| (item.get("id").as_str().unwrap().to_owned(), item)).collect();
        for writer in &mut writers {
            unknown += usize::from(writer.has_pending());
            writer.settle(&found, &mut lost);
        }
        assert_eq!((lost, faulty), (0, 0), "after round {round}");
        if round < kills {
            let after = 1 + random.below(300);
            let kill = !random.one_in(8);
            acknowledged += write_and_end(server, &mut writers, after, kill, &mut layouts);
        }
    }
    eprintln!(
        "{kills} kills, {layouts} splits and merges: {acknowledged} acknowledged writes, lost \
         {lost}; {unknown} writes without an answer, each whole or not there; faults in the store {faulty}"
    );
}
