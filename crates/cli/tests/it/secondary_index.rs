//! A global secondary index is built and kept while clients write, the ranges of both containers split and merge, and
//! the server is killed, over and over; then a backup that was made under writes is restored. In the end, and in what was
//! restored, the index is what the query that defines it returns. `ORRERY_INDEX_ITEMS` sets how many items there are
//! to begin with, `ORRERY_INDEX_KILLS` how often the server is killed, `ORRERY_SEED` repeats a run's choices.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use orrery_engine::item::operation::ItemBody;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::transaction::bulk_load::Existing;
use orrery_engine::{Container, Engine};
use orrery_storage::{RocksOptions, RocksStore};
use orrery_types::ids::Address;
use orrery_types::{SystemClock, Value};

use crate::client::Client;
use crate::process::Running;
use crate::random::Random;
use crate::tool::{Tool, at, with};

const ITEMS: usize = 1500;
const KILLS: usize = 3;
const WRITERS: usize = 6;
const KEYS: usize = 97;
const CITIES: usize = 211;
const DEFINITION: &str = "SELECT c.p, c.address.city, c.id, c.n FROM c";
const INDEX: &str = r#"{"id":"by_city","partitionKey":{"paths":["/city"],"kind":"Hash","version":2},
    "globalSecondaryIndexDefinition":{"sourceCollectionId":"orders",
    "definition":"SELECT c.p, c.address.city, c.id, c.n FROM c"}}"#;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn name(text: &str) -> Address {
    Address::Name(text.into())
}

fn item(id: &str, p: usize, city: usize, n: usize) -> String {
    format!(r#"{{"id":"{id}","p":"p{p}","address":{{"city":"c{city}"}},"n":{n}}}"#)
}

/// One client: what it does follows from its numbers.
struct Writer {
    random: Random,
    items: usize,
}

impl Writer {
    /// Writes until the server is gone.
    fn run(&mut self, address: SocketAddr, key: &str, acknowledged: &Sender<()>) {
        let Ok(mut client) = Client::open(address, key) else { return };
        while self.write(&mut client).is_some() && acknowledged.send(()).is_ok() {}
    }

    /// One write; `None` if no answer came, or the server stops.
    fn write(&mut self, client: &mut Client) -> Option<()> {
        let number = self.random.below(self.items + self.items / 10);
        let (id, p, n) = (format!("i{number}"), number % KEYS, self.random.below(1000));
        let key = format!(r#"["p{p}"]"#);
        let key = [("x-ms-documentdb-partitionkey", &*key)];
        let path = "/dbs/d/colls/orders/docs";
        let body = item(&id, p, self.random.below(CITIES), n);
        let answer = match self.random.below(10) {
            0 => client.send("DELETE", &format!("{path}/{id}"), &key, ""),
            1 => {
                let other = format!("r{number}");
                let body = item(&other, p, self.random.below(CITIES), n);
                client.send("PUT", &format!("{path}/{id}"), &key, &body)
            }
            2 => {
                let other = item(&format!("b{number}"), p, self.random.below(CITIES), n);
                let upsert =
                    |body: &str| format!(r#"{{"operationType":"Upsert","resourceBody":{body}}}"#);
                let batch = [
                    key[0],
                    ("x-ms-cosmos-is-batch-request", "True"),
                    ("x-ms-cosmos-batch-atomic", "True"),
                ];
                client.send("POST", path, &batch, format!("[{},{}]", upsert(&body), upsert(&other)))
            }
            _ => client.send("POST", path, &[key[0], ("x-ms-documentdb-is-upsert", "true")], &body),
        };
        match answer.ok()? {
            answer if answer.status == 503 => None,
            answer => {
                let expected = matches!(answer.status, 200 | 201 | 204 | 404 | 409 | 449);
                assert!(expected, "{answer:?}");
                Some(())
            }
        }
    }
}

/// Splits and merges ranges of both containers until the server is gone; returns how often.
fn change_layouts(address: SocketAddr, key: &str, first: usize) -> usize {
    let Ok(mut client) = Client::open(address, key) else { return 0 };
    let mut done = 0;
    for turn in first.. {
        let container = if turn % 2 == 0 { "orders" } else { "by_city" };
        let operation = if turn % 4 < 2 { "split" } else { "merge" };
        let path = format!("/dbs/d/colls/{container}/operations/{operation}");
        match client.send("POST", &path, &[], "") {
            Ok(answer) if answer.status == 200 => done += 1,
            // A kill in between leaves layouts that the next change does not fit.
            Ok(answer) if answer.status == 400 => {}
            Ok(answer) if answer.status == 503 => return done,
            Ok(answer) => panic!("{operation} of {container}: {answer:?}"),
            Err(_) => return done,
        }
    }
    done
}

fn open(folder: &Path) -> Engine {
    let store = RocksStore::open(&folder.join("store"), &RocksOptions::default()).unwrap();
    Engine::open(Arc::new(store), Arc::new(SystemClock), 1).unwrap()
}

fn container(engine: &Engine, id: &str) -> Arc<Container> {
    engine.containers().read(&name("d"), &name(id)).unwrap()
}

/// All rows of a query, sorted, without the ids that items of the index have themselves.
fn rows(engine: &Engine, container: &Container, query: &str) -> Vec<String> {
    let body = Value::parse(format!(r#"{{"query":"{query}"}}"#).as_bytes()).unwrap();
    let request = QueryRequest::parse(&body).unwrap();
    let whole = container.scope(&ScopeRequest::default()).unwrap();
    let (mut rows, mut from) = (Vec::new(), None);
    loop {
        let paging = Paging { crosses: true, continuation: from.as_deref(), ..Paging::default() };
        let size = PageSize { items: 1000 };
        let page =
            engine.queries().query_items(container, &whole, &request, size, &paging).unwrap();
        rows.extend(page.rows);
        from = page.continuation;
        if from.is_none() {
            rows.sort();
            return rows;
        }
    }
}

/// The index is the query that defines it, and every record is as it should be.
fn compare(engine: &Engine, what: &str) -> usize {
    let (source, index) = (container(engine, "orders"), container(engine, "by_city"));
    for one in [&source, &index] {
        let faults = engine.insight().verify(one).unwrap();
        assert!(faults.is_empty(), "{what}: {faults:#?}");
    }
    engine.background().run_tasks(&|| false).unwrap();
    assert_eq!(engine.background().failing_work(), Value::array(vec![]), "{what}");
    for one in [&source, &index] {
        let faults = engine.insight().verify(one).unwrap();
        assert!(faults.is_empty(), "{what}, after all has followed: {faults:#?}");
    }
    let defined = rows(engine, &source, DEFINITION);
    let shown = rows(engine, &index, "SELECT c.p, c.city, c._id AS id, c.n FROM c");
    assert!(defined == shown, "{what}: {} items for {} rows", shown.len(), defined.len());
    shown.len()
}

/// Fills the source, which no server has open.
fn fill(folder: &Path, items: usize) {
    let engine = open(folder);
    let source = container(&engine, "orders");
    let numbers: Vec<usize> = (0..items).collect();
    for some in numbers.chunks(1000) {
        let body = |n: &usize| {
            let text = item(&format!("i{n}"), n % KEYS, n % CITIES, *n);
            ItemBody::parse(&source, text.as_bytes()).unwrap()
        };
        let bodies = some.iter().map(body).collect();
        engine.transactions().load_items(&source, bodies, Existing::Refuse).unwrap();
    }
}

/// Lets all writers write until so many writes are acknowledged, then kills the server.
fn write_and_kill(server: Running, writers: &mut [Writer], after: usize, turn: usize) -> usize {
    let (address, key) = (server.address(), server.key());
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for writer in writers {
            let (sender, key) = (sender.clone(), key.clone());
            scope.spawn(move || writer.run(address, &key, &sender));
        }
        drop(sender);
        let layouts = scope.spawn(|| change_layouts(address, &key, turn));
        let counted = receiver.iter().take(after).count();
        assert_eq!(counted, after, "the server ended by itself");
        drop(server);
        drop(receiver);
        layouts.join().unwrap()
    })
}

fn is_active(client: &mut Client) -> bool {
    let answer = client.must("GET", "/dbs/d/colls/by_city", &[], "");
    let body = Value::parse(answer.body.as_bytes()).unwrap();
    assert!(body.get("lagInSeconds").as_i64().is_some(), "{}", answer.body);
    body.get("materializedViewDefinition").get("status").as_str() == Some("Active")
}

#[cfg(unix)]
#[test]
fn an_index_outlives_kills_splits_merges_and_a_restore() {
    let (items, kills) =
        (setting("ORRERY_INDEX_ITEMS", ITEMS), setting("ORRERY_INDEX_KILLS", KILLS));
    let mut random = Random::from_environment("secondary_index");
    let tool = Tool::new();
    let folder = tool.folder.path().join("data");
    let server = Running::serve(&folder);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let throughput = [("x-ms-offer-throughput", "12000")];
    let body = r#"{"id":"orders","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &throughput, body);
    drop(server);
    fill(&folder, items);
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|_| Writer { random: Random::new(random.next()), items }).collect();
    let mut layouts = 0;
    for round in 0..kills {
        let server = Running::serve(&folder);
        if round == 0 {
            let mut client = Client::open(server.address(), &server.key()).unwrap();
            client.must("POST", "/dbs/d/colls", &throughput, INDEX);
        }
        let after = items / 10 + random.below(300);
        layouts += write_and_kill(server, &mut writers, after, round);
    }
    let server = Running::serve(&folder);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let file = tool.path("backup.tar.zst");
    let (address, key) = (server.address(), server.key());
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let writer = &mut writers[0];
        scope.spawn(move || writer.run(address, &key, &sender));
        assert_eq!(receiver.iter().take(50).count(), 50);
        tool.must(&with(&["backup", &file], &at(&server)));
        // The writer ends when its channel is closed.
        drop(receiver);
    });
    let patience = orrery_types::stopwatch::Stopwatch::start();
    while !is_active(&mut client) {
        assert!(patience.elapsed().as_secs() < 300, "the index is not built");
        std::thread::yield_now();
    }
    drop(server);
    let kept = compare(&open(&folder), "after the kills");
    let restored = tool.path("restored");
    let said = tool.must(&["restore", &file, "--data", &restored]);
    assert!(said.contains("verified"), "{said}");
    let engine = open(Path::new(&restored));
    let found = compare(&engine, "restored");
    // The index goes on where it was.
    let source = container(&engine, "orders");
    for n in 0..100 {
        let text = item(&format!("new{n}"), n % KEYS, n % CITIES, n);
        engine.items().create(&source, None, text.as_bytes()).unwrap();
    }
    assert_eq!(compare(&engine, "restored and written to"), found + 100);
    eprintln!("{kills} kills, {layouts} splits and merges: {kept} items, {found} in the backup");
}
