//! Background work that fails: for each kind of it one unit of one database is in trouble, and those of
//! another database go on. The one in trouble is retried with a backoff and then quarantined, and a
//! retry finishes it once what was in its way is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_engine::background::FailingUnits;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::{Container, Engine};
use orrery_storage::{Commit, Entry, Part, Put, ReadAt, Scan, Space, Store};
use orrery_types::{Error, ManualClock, PartitionKey, Value, limits};

use crate::interposed::{Interposed, Step};
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

struct Server {
    engine: Engine,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    commits: Arc<AtomicUsize>,
}

impl Server {
    fn new() -> Self {
        let (store, commits) = (new_store(), Arc::new(AtomicUsize::new(0)));
        let counted = commits.clone();
        let hook = Box::new(move |step: Step| {
            if step == Step::Commit {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
        let clock = Arc::new(ManualClock::at_s(START_S));
        let interposed = Arc::new(Interposed::writes(store.clone(), hook));
        let engine = Engine::open(interposed, clock.clone(), 1).expect("it opens");
        Self { engine, clock, store, commits }
    }

    fn create(&self, database: &str, id: &str, more: &str) {
        let made = self
            .engine
            .databases()
            .create(&json(&format!(r#"{{"id":"{database}"}}"#)), &manual(None));
        assert!(matches!(made, Ok(_) | Err(Error::AlreadyExists)));
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/p"]}}{more}}}"#);
        self.engine
            .containers()
            .create(&name(database), &json(&body), &manual(None))
            .expect("made");
    }

    fn replace(&self, database: &str, id: &str, more: &str) {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/p"]}}{more}}}"#);
        let none = Preconditions::default();
        let (database, id) = (name(database), name(id));
        self.engine.containers().replace(&database, &id, &json(&body), &none).expect("replaced");
    }

    fn container(&self, database: &str, id: &str) -> Arc<Container> {
        self.engine.containers().read(&name(database), &name(id)).expect("a container")
    }

    fn put(&self, database: &str, id: &str, item: &str) {
        let (container, none) = (self.container(database, id), Preconditions::default());
        self.engine.items().upsert(&container, None, item.as_bytes(), &none).expect("an item");
    }

    fn at(&self, database: &str, id: &str, item: &str, property: &str) -> String {
        let container = self.container(database, id);
        let read = self.engine.items().read(&container, Some(&key("p")), &name(item)).expect(item);
        Value::parse(&read.body).expect("JSON").get(property).to_json()
    }

    fn items(&self, database: &str) -> u64 {
        self.engine.insight().usage(&self.container(database, "c")).expect("a count").items
    }

    fn store_model(&self, database: &str, model: &str) {
        let none = Preconditions::default();
        self.engine.models().store(&name(database), &json(model), &none).expect("a model");
    }

    /// The states of all rules of a model.
    fn state(&self, database: &str) -> Vec<Value> {
        let model = self.engine.models().read(&name(database)).expect("a model");
        model.body.get("_state").as_array().expect("a list").to_vec()
    }

    /// The entries of a space, of the only shard of a container.
    fn entries(&self, database: &str, id: &str, space: Space) -> Vec<Entry> {
        let shard = self.container(database, id).partitions[0].shard;
        let scan = Scan {
            space,
            from: &[1],
            to: &[2],
            reverse: false,
            max_rows: 1000,
            max_bytes: usize::MAX,
            keys_only: false,
        };
        let snapshot = self.store.snapshot(shard, ReadAt::Latest).expect("a snapshot");
        snapshot.scan(&scan).expect("a scan")
    }

    /// Puts bytes under a key, as no engine would.
    fn overwrite(&self, database: &str, id: &str, space: Space, key: &[u8], value: &[u8]) {
        let partition = &self.container(database, id).partitions[0];
        let mut part = Part::new(partition.shard, partition.epoch);
        part.puts.push(Put { space, key: key.to_vec(), value: value.to_vec() });
        self.store.commit(Commit::new(vec![part])).expect("a commit");
    }

    /// Units that fail, as `/_orrery/tasks` shows them.
    fn failing(&self) -> Vec<Value> {
        self.engine.background().failing_work().as_array().expect("a list").to_vec()
    }

    /// Runs all that is due, every ten minutes, so often; returns how many commits that took.
    fn run_often(&self, times: usize) -> usize {
        let before = self.commits.load(Ordering::SeqCst);
        for _ in 0..times {
            self.clock.advance_s(600);
            drop(self.engine.background().run_tasks(&|| false));
        }
        self.commits.load(Ordering::SeqCst) - before
    }
}

fn key(p: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!("[\"{p}\"]")).expect("a key")
}

/// One kind of work: how it comes to be in a database, which records it reads, and whether it is done.
struct Kind {
    work: &'static str,
    definition: &'static str,
    begin: fn(&Server, &str),
    damage: Space,
    is_done: fn(&Server, &str) -> bool,
}

/// Why a copy does not follow.
const TAKEN: &str = "item 'o1' in 'orders': Unique index constraint violation: by the model";

const MODEL: &str = r#"{"version":1,"types":{"t":{"container":"c"}},"relations":[
    {"name":"other","from":"t","path":"/otherId","to":"t","partitionKey":["/p"]}]}"#;

const KINDS: [Kind; 6] = [
    Kind {
        work: "expiry",
        definition: r#","defaultTtl":10"#,
        begin: |server, _| server.clock.advance_s(11),
        damage: Space::Items,
        is_done: |server, database| server.items(database) == 0,
    },
    Kind {
        work: "expiryEntries",
        definition: "",
        begin: |server, database| server.replace(database, "c", r#","defaultTtl":1000000"#),
        damage: Space::Items,
        is_done: |server, database| {
            let shard = server.container(database, "c").partitions[0].shard;
            let snapshot = server.store.snapshot(shard, ReadAt::Latest).expect("a snapshot");
            snapshot.estimate(Space::Ttl, &[], &[0xff; 9]).expect("a count") == 3
        },
    },
    Kind {
        work: "index",
        definition: "",
        begin: |server, database| {
            let policy = r#","indexingPolicy":{"includedPaths":[{"path":"/a/?"}],
                "excludedPaths":[{"path":"/*"}]}"#;
            server.replace(database, "c", policy);
        },
        damage: Space::Items,
        is_done: |server, database| {
            server.engine.index_build().index_progress(&server.container(database, "c")) == Ok(100)
        },
    },
    Kind {
        work: "erasure",
        definition: "",
        begin: |server, database| {
            let container = server.container(database, "c");
            server
                .engine
                .erasure()
                .erase_partition_key(&container, &key("p"))
                .expect("it is erased");
        },
        damage: Space::Items,
        // What is written after it, as a repair is, is not erased.
        is_done: |server, database| {
            let shard = server.container(database, "c").partitions[0].shard;
            let snapshot = server.store.snapshot(shard, ReadAt::Latest).expect("a snapshot");
            snapshot.estimate(Space::Meta, &[0x18], &[0x19]).expect("a count") == 0
        },
    },
    Kind {
        work: "history",
        definition: r#","changeFeedPolicy":{"retentionDuration":1}"#,
        begin: |server, _| server.clock.advance_s(61),
        damage: Space::Feed,
        is_done: |server, database| server.entries(database, "c", Space::Feed).is_empty(),
    },
    Kind {
        work: "modelBuild",
        definition: "",
        begin: |server, database| server.store_model(database, MODEL),
        damage: Space::Items,
        is_done: |server, database| {
            let enforced = |rule: &Value| rule.get("state").as_str() == Some("enforced");
            server.state(database).iter().all(enforced)
        },
    },
];

#[test]
fn a_unit_that_fails_holds_up_no_other_is_quarantined_and_finished_by_a_retry() {
    for kind in &KINDS {
        let (work, server) = (kind.work, Server::new());
        for database in ["damaged", "sound"] {
            server.create(database, "c", kind.definition);
            for n in 0..3 {
                server.put(database, "c", &format!(r#"{{"id":"{n}","p":"p","a":{n}}}"#));
            }
        }
        let entry = server.entries("damaged", "c", kind.damage)[1].clone();
        server.overwrite("damaged", "c", kind.damage, &entry.key, b"nonsense");
        for database in ["damaged", "sound"] {
            (kind.begin)(&server, database);
        }
        server.engine.background().run_tasks(&|| false).expect_err(work);
        assert!((kind.is_done)(&server, "sound"), "{work} waits for another database");
        let failing = server.failing();
        assert_eq!(failing.len(), 1, "{failing:#?}");
        assert_eq!(failing[0].get("work").as_str(), Some(work));
        assert_eq!(failing[0].get("database").as_str(), Some("damaged"), "{work}");
        assert_eq!(failing[0].get("state").as_str(), Some("retrying"), "{work}");
        server.run_often(100);
        let failing = server.failing();
        assert_eq!(failing[0].get("state").as_str(), Some("quarantined"), "{work}: {failing:#?}");
        assert!(failing[0].get("reason").as_str().is_some_and(|reason| !reason.is_empty()));
        let attempts = i64::from(limits::BACKGROUND_ATTEMPTS_MAX);
        assert_eq!(failing[0].get("failures").as_i64(), Some(attempts), "{work}");
        assert_eq!(server.run_often(20), 0, "{work}: it is left alone");
        assert_eq!(server.engine.background().run_tasks(&|| false).map(drop), Ok(()), "{work}");
        server.overwrite("damaged", "c", kind.damage, &entry.key, &entry.value.bytes);
        assert_eq!(
            server.engine.background().retry_failing_work(Some(&name("sound"))),
            Ok(0),
            "{work}"
        );
        assert_eq!(
            server.engine.background().retry_failing_work(Some(&name("damaged"))),
            Ok(1),
            "{work}"
        );
        server.engine.background().run_tasks(&|| false).expect(work);
        assert!((kind.is_done)(&server, "damaged"), "{work} is not done after the retry");
        assert_eq!(server.engine.background().failing_units(), FailingUnits::default(), "{work}");
    }
}

/// Orders have the name of their customer, and no two of them the same.
fn shop(server: &Server, database: &str) {
    server.create(database, "customers", "");
    let unique = r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/name"]}]}"#;
    server.create(database, "orders", unique);
    server.store_model(
        database,
        r#"{"version":1,"types":{"customer":{"container":"customers"},"order":{"container":"orders"}},
            "relations":[{"name":"customer","from":"order","path":"/customerId","to":"customer",
                "partitionKey":["/p"],"propagate":"async","onDelete":"unset",
                "copies":{"name":"t.name"}}]}"#,
    );
    for (n, called) in ["A", "B", "C"].iter().enumerate() {
        customer(server, database, n, called);
        server.put(database, "orders", &format!(r#"{{"id":"o{n}","p":"p","customerId":"c{n}"}}"#));
    }
}

fn customer(server: &Server, database: &str, n: usize, called: &str) {
    server.put(database, "customers", &format!(r#"{{"id":"c{n}","p":"p","name":"{called}"}}"#));
}

#[test]
fn a_copy_that_meets_a_unique_key_is_quarantined_and_finished_by_a_retry() {
    let server = Server::new();
    shop(&server, "first");
    shop(&server, "second");
    server.create("second", "c", r#","defaultTtl":10"#);
    server.put("second", "c", r#"{"id":"old","p":"p"}"#);
    server.clock.advance_s(11);
    customer(&server, "first", 1, "A");
    customer(&server, "first", 2, "D");
    customer(&server, "second", 1, "E");
    let before = server.commits.load(Ordering::SeqCst);
    let ran = server.engine.background().run_tasks(&|| false);
    assert!(matches!(ran, Err(Error::DerivedKeyViolation(_))), "{ran:?}");
    let taken = server.commits.load(Ordering::SeqCst) - before;
    assert!(taken < 20, "{taken} commits for one attempt");
    assert_eq!(
        server.at("first", "orders", "o2", "name"),
        r#""D""#,
        "others of the database go on"
    );
    assert_eq!(server.at("second", "orders", "o1", "name"), r#""E""#, "and other databases");
    assert_eq!(server.items("second"), 0, "expiry goes on");
    assert_eq!(server.at("first", "orders", "o1", "name"), r#""B""#);
    let relation = |server: &Server| server.state("first")[2].clone();
    assert_eq!(relation(&server).get("retrying").to_json(), "1");
    // The backoff is by the clock, and bounded.
    let commits = server.run_often(200);
    assert!(commits < 100, "{commits} commits");
    let state = relation(&server);
    assert_eq!(state.get("quarantined").to_json(), "1", "{}", state.to_json());
    let reason = state.get("reasons").at(0).as_str().expect("a reason").to_owned();
    assert!(reason.starts_with(TAKEN), "{reason}");
    assert_eq!(state.get("pending").to_json(), "1");
    assert_eq!(server.run_often(20), 0, "it is left alone");
    let failing = server.failing();
    assert_eq!(failing[0].get("work").as_str(), Some("modelEffects"));
    assert_eq!(failing[0].get("rule").as_str(), Some("/relations/0"));
    customer(&server, "first", 0, "F");
    server.engine.background().run_tasks(&|| false).expect("what is quarantined is no failure");
    assert_eq!(server.at("first", "orders", "o1", "name"), r#""B""#, "nobody asked for a retry");
    assert_eq!(server.engine.background().retry_failing_work(None), Ok(1));
    server.engine.background().run_tasks(&|| false).expect("it follows");
    assert_eq!(server.at("first", "orders", "o1", "name"), r#""A""#);
    assert_eq!(server.engine.background().failing_units(), FailingUnits::default());
    assert_eq!(server.engine.model_verification().verify(&name("first")), Ok(vec![]));
}

#[test]
fn a_quarantine_ends_when_the_target_changes_again_and_with_a_restart() {
    let server = Server::new();
    shop(&server, "d");
    customer(&server, "d", 1, "A");
    server.run_often(20);
    assert_eq!(
        server.engine.background().failing_units(),
        FailingUnits { retrying: 0, quarantined: 1 }
    );
    customer(&server, "d", 1, "G");
    server.engine.background().run_tasks(&|| false).expect("it follows");
    assert_eq!(server.at("d", "orders", "o1", "name"), r#""G""#);
    assert_eq!(server.engine.background().failing_units(), FailingUnits::default());
    customer(&server, "d", 2, "A");
    server.run_often(20);
    assert_eq!(server.engine.background().failing_units().quarantined, 1);
    let clock = server.clock.clone();
    let reopened = Engine::open(server.store.clone(), clock, 2).expect("it opens");
    let ran = reopened.background().run_tasks(&|| false);
    assert!(matches!(ran, Err(Error::DerivedKeyViolation(_))), "it is tried again: {ran:?}");
    // A note that nobody needs any more takes its failure along.
    server.engine.models().delete(&name("d"), &Preconditions::default()).expect("it goes");
    server.engine.background().run_tasks(&|| false).expect("nothing is left");
    assert_eq!(server.engine.background().failing_units(), FailingUnits::default());
}

#[test]
fn an_expired_item_whose_end_is_refused_holds_up_no_other() {
    let server = Server::new();
    server.create("d", "customers", r#","defaultTtl":-1"#);
    let unique = r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/customerId"]}]}"#;
    server.create("d", "orders", unique);
    // The end of a second customer would leave a second order without one.
    server.store_model(
        "d",
        r#"{"version":1,"types":{"customer":{"container":"customers"},"order":{"container":"orders"}},
            "relations":[{"name":"customer","from":"order","path":"/customerId","to":"customer",
                "partitionKey":["/p"],"propagate":"sync","onDelete":"unset"}]}"#,
    );
    for n in 0..3 {
        server.put("d", "customers", &format!(r#"{{"id":"c{n}","p":"p","ttl":10}}"#));
        server.put("d", "orders", &format!(r#"{{"id":"o{n}","p":"p","customerId":"c{n}"}}"#));
    }
    server.put("d", "customers", r#"{"id":"c9","p":"p","ttl":20}"#);
    server.clock.advance_s(30);
    drop(server.engine.background().run_tasks(&|| false));
    let left =
        server.engine.insight().usage(&server.container("d", "customers")).expect("a count").items;
    assert_eq!(left, 2, "one went with its reference, and one that nobody refers to");
    let commits = server.run_often(200);
    assert!(commits < 100, "{commits} commits");
    assert_eq!(
        server.engine.background().failing_units(),
        FailingUnits { retrying: 0, quarantined: 2 }
    );
    for n in 0..3 {
        let container = server.container("d", "orders");
        let none = Preconditions::default();
        let id = name(&format!("o{n}"));
        server.engine.items().delete(&container, Some(&key("p")), &id, &none).expect("an order");
    }
    assert_eq!(server.engine.background().retry_failing_work(Some(&name("d"))), Ok(2));
    assert_eq!(server.engine.background().run_tasks(&|| false), Ok(2));
    assert_eq!(server.engine.model_verification().verify(&name("d")), Ok(vec![]));
}

#[test]
fn a_rule_whose_copies_meet_a_unique_key_is_built_for_all_other_items() {
    let server = Server::new();
    server.create("d", "customers", "");
    let unique = r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/name"]}]}"#;
    server.create("d", "orders", unique);
    server.put("d", "orders", r#"{"id":"own","p":"p","name":"B"}"#);
    for (n, called) in ["A", "B", "C"].iter().enumerate() {
        customer(&server, "d", n, called);
        let order = format!(r#"{{"id":"o{n}","p":"p","name":"old{n}","customerId":"c{n}"}}"#);
        server.put("d", "orders", &order);
    }
    let model = r#"{"version":1,"types":{"customer":{"container":"customers"},"order":{"container":"orders"}},
        "relations":[{"name":"customer","from":"order","path":"/customerId","to":"customer",
            "partitionKey":["/p"],"copies":{"name":"t.name"}}]}"#;
    server.store_model("d", model);
    drop(server.engine.background().run_tasks(&|| false));
    assert_eq!(server.at("d", "orders", "o0", "name"), r#""A""#);
    assert_eq!(server.at("d", "orders", "o1", "name"), r#""old1""#, "its name is taken");
    assert_eq!(server.at("d", "orders", "o2", "name"), r#""C""#, "others do not wait");
    let state = server.state("d")[2].clone();
    assert_eq!(state.get("state").as_str(), Some("building"));
    let sample = state.get("samples").at(0).as_str().expect("a sample").to_owned();
    assert!(sample.starts_with(TAKEN), "{sample}");
    customer(&server, "d", 1, "D");
    server.engine.background().run_tasks(&|| false).expect("it goes on by itself");
    assert_eq!(server.at("d", "orders", "o1", "name"), r#""D""#);
    assert_eq!(server.state("d")[2].get("state").as_str(), Some("enforced"));
    assert_eq!(server.engine.model_verification().verify(&name("d")), Ok(vec![]));
}
