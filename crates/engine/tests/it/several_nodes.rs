//! Several nodes over one shared store: who does the work beside requests, and what becomes of it when its node
//! dies, is paused, or wakes when another one has its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::model::{ModelVerification, Verification};
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_storage::key::{self, Job};
use orrery_storage::{Commit, MemoryStore, Part, ReadAt, Space, Store};
use orrery_types::{Epoch, Error, ManualClock, PartitionKey, Result, ShardId, Value};

use crate::commit_stop::CommitStop;
use crate::split_merge_interrupted::ending;
use crate::world::{START_S, json, manual, name};

/// The longest time after which the work of a dead node is another's.
const MOVED_WITHIN_S: u64 = 12;

/// A shared store with a clock by which all of its nodes go.
pub(crate) struct Cluster {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { store: Arc::new(MemoryStore::shared()), clock: Arc::new(ManualClock::at_s(START_S)) }
    }

    pub(crate) fn open(&self) -> Engine {
        self.open_over(self.store.clone())
    }

    /// A node that sees the store through another one.
    pub(crate) fn open_over(&self, store: Arc<dyn Store>) -> Engine {
        Engine::open(store, self.clock.clone(), 0).expect("it opens")
    }

    /// Lets time pass, in which only these nodes are alive.
    pub(crate) fn pass_s(&self, seconds: u64, alive: &[&Engine]) {
        for _ in 0..seconds {
            self.clock.advance_s(1);
            for node in alive {
                node.nodes().beat().expect("a heartbeat");
            }
        }
    }
}

fn make(engine: &Engine, container: &str, throughput: Option<i64>) {
    let made = engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None));
    assert!(made.is_ok() || made.err() == Some(Error::AlreadyExists));
    let made = engine.containers().create(&name("d"), &json(container), &manual(throughput));
    made.expect("a container");
}

/// A container with a partition key, and what else its definition has.
fn keyed(id: &str, key: &str, more: &str) -> String {
    let key = format!(r#"{{"paths":["/{key}"],"kind":"Hash","version":2}}"#);
    format!(r#"{{"id":"{id}","partitionKey":{key}{more}}}"#)
}

fn put(engine: &Engine, container: &str, item: &str) -> Result<()> {
    let container = engine.containers().read(&name("d"), &name(container))?;
    let none = Preconditions::default();
    engine.items().upsert(&container, None, item.as_bytes(), &none).map(drop)
}

fn run_tasks(engine: &Engine) -> usize {
    engine.background().run_tasks(&|| false).expect("background work")
}

/// The jobs of the nodes, by number of the node, and how many are in all.
fn jobs(engine: &Engine) -> Vec<(i64, Vec<String>)> {
    let report = engine.nodes().report().expect("a report");
    let nodes = report.get("nodes").as_array().expect("nodes").to_vec();
    let job = |job: &Value| {
        let part = |name: &str| job.get(name).as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", part("job"), part("database"), part("container"))
    };
    let node = |node: &Value| {
        let jobs = node.get("jobs").as_array().expect("jobs");
        (node.get("node").as_i64().expect("a number"), jobs.iter().map(job).collect())
    };
    nodes.iter().map(node).collect()
}

fn number(engine: &Engine) -> i64 {
    let report = engine.nodes().report().expect("a report");
    let nodes = report.get("nodes").as_array().expect("nodes");
    let own = nodes.iter().find(|node| node.get("self").is_true());
    own.and_then(|node| node.get("node").as_i64()).expect("it is listed")
}

#[track_caller]
fn check_sound(engine: &Engine, container: &str) {
    let container = engine.containers().read(&name("d"), &name(container)).expect("a container");
    assert_eq!(engine.insight().verify(&container), Ok(vec![]));
}

fn count(engine: &Engine, container: &str) -> usize {
    let container = engine.containers().read(&name("d"), &name(container)).expect("a container");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let page = engine.queries().read_items(&container, &scope, PageSize { items: 1000 }, None);
    page.expect("a page").items.len()
}

#[test]
fn a_store_of_one_process_has_no_nodes() {
    let store = Arc::new(MemoryStore::new());
    let engine = Engine::open(store.clone(), Arc::new(ManualClock::at_s(START_S)), 1);
    let engine = engine.expect("it opens");
    engine.nodes().beat().expect("nothing");
    run_tasks(&engine);
    let snapshot = store.snapshot(ShardId(0), ReadAt::Latest).expect("a snapshot");
    for bounds in [key::nodes(), key::leases()] {
        assert!(snapshot.scan(&bounds.scan(Space::Meta, 9, 9)).expect("a scan").is_empty());
    }
    assert_eq!(
        engine.nodes().report().expect("a report").to_json(),
        r#"{"shared":false,"nodes":[]}"#
    );
}

#[test]
fn every_start_has_a_number_of_its_own_and_so_has_a_node_whose_heartbeat_lapsed() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.open(), cluster.open());
    assert_eq!((number(&a), number(&b)), (1, 2));
    make(&a, r#"{"id":"c"}"#, None);
    drop(a);
    let again = cluster.open();
    assert_eq!(number(&again), 3);
    again.nodes().beat().expect("a heartbeat");
    cluster.pass_s(11, &[&b]);
    put(&again, "c", r#"{"id":"1"}"#).expect("it serves while it counts as dead");
    again.nodes().beat().expect("a heartbeat");
    assert_eq!(number(&again), 4, "a number does not come back to life");
    let left: Vec<i64> = jobs(&b).into_iter().map(|(number, _)| number).collect();
    assert_eq!(left, [2, 4]);
}

#[test]
fn every_job_has_one_holder_and_moves_when_its_node_dies() {
    let cluster = Cluster::new();
    let a = cluster.open();
    for n in 0..7 {
        make(&a, &format!(r#"{{"id":"c{n}"}}"#), None);
    }
    a.nodes().beat().expect("a heartbeat");
    assert_eq!(jobs(&a)[0].1.len(), 8, "it is alone");
    let (b, c) = (cluster.open(), cluster.open());
    cluster.pass_s(4, &[&a, &b, &c]);
    let shared_out = jobs(&a);
    let mut all: Vec<&String> = shared_out.iter().flat_map(|(_, jobs)| jobs).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 8, "each has a holder: {shared_out:?}");
    assert!(shared_out.iter().all(|(_, jobs)| jobs.len() <= 4), "{shared_out:?}");
    let held: usize = shared_out.iter().map(|(_, jobs)| jobs.len()).sum();
    assert_eq!(held, 8, "and one only");
    cluster.pass_s(MOVED_WITHIN_S, &[&b, &c]);
    let moved = jobs(&b);
    assert_eq!(moved.len(), 2, "{moved:?}");
    assert_eq!(moved.iter().map(|(_, jobs)| jobs.len()).sum::<usize>(), 8, "{moved:?}");
    b.nodes().leave().expect("an orderly end");
    c.nodes().beat().expect("a heartbeat");
    let left = jobs(&c);
    assert_eq!((left.len(), left[0].1.len()), (1, 8), "at once: {left:?}");
}

#[test]
fn nodes_whose_clocks_are_ten_minutes_apart_go_by_that_of_the_store() {
    let theirs = Arc::new(ManualClock::at_s(START_S));
    let store = Arc::new(MemoryStore::shared_with_clock(theirs.clone()));
    let clocks = [0, 600, 1200].map(|ahead| Arc::new(ManualClock::at_s(START_S - 600 + ahead)));
    let open =
        |clock: &Arc<ManualClock>| Engine::open(store.clone(), clock.clone(), 0).expect("it opens");
    let first = open(&clocks[0]);
    make(&first, &keyed("c", "id", r#","defaultTtl":30"#), None);
    let nodes = [first, open(&clocks[1]), open(&clocks[2])];
    let written = |engine: &Engine, id: &str| {
        put(engine, "c", &format!(r#"{{"id":"{id}"}}"#)).expect("an item");
        read(engine, id).expect("it is there").get("_ts").as_i64().expect("a time")
    };
    for (n, node) in nodes.iter().enumerate() {
        assert_eq!(written(node, &n.to_string()), i64::try_from(START_S).expect("small"));
        assert_eq!(node.clock().now_s(), START_S);
    }
    let pass = |seconds: u64| {
        for clock in clocks.iter().chain([&theirs]) {
            clock.advance_s(seconds);
        }
        for node in &nodes {
            node.nodes().beat().expect("a heartbeat");
        }
    };
    pass(29);
    assert!(nodes.iter().all(|node| read(node, "2").is_ok()));
    // The clock of a machine is set while it runs.
    clocks[1].advance_s(3600);
    nodes[1].nodes().beat().expect("a heartbeat");
    pass(1);
    assert!(nodes.iter().all(|node| read(node, "0") == Err(Error::NotFound)), "expired on all");
}

fn read(engine: &Engine, id: &str) -> Result<Value> {
    let container = engine.containers().read(&name("d"), &name("c"))?;
    let key = PartitionKey::parse_header(&format!(r#"["{id}"]"#)).expect("a key");
    let read = engine.items().read(&container, Some(&key), &name(id))?;
    Ok(Value::parse(&read.body).expect("JSON"))
}

/// Lets a node die after each of the writes of some work; another one must end up with the same as if it had not.
fn die_at_each_step(
    prepare: impl Fn(&Engine, &ManualClock),
    work: impl Fn(&Engine) -> Result<()>,
    check: impl Fn(&Cluster, &Engine, usize),
) -> usize {
    for steps in 0.. {
        let cluster = Cluster::new();
        let first = cluster.open();
        prepare(&first, &cluster.clock);
        first.nodes().leave().expect("it ends");
        drop(first);
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let dying = cluster.open_over(ending(&cluster.store, &left));
        dying.nodes().beat().expect("it takes the leases");
        let survivor = cluster.open();
        left.store(steps, Ordering::SeqCst);
        let done = work(&dying);
        // It is gone without a word.
        left.store(0, Ordering::SeqCst);
        drop(dying);
        cluster.pass_s(MOVED_WITHIN_S, &[&survivor]);
        run_tasks(&survivor);
        check(&cluster, &survivor, steps);
        if done.is_ok() {
            return steps;
        }
    }
    unreachable!("it ends some time");
}

/// Does what is due, and says whether all of it was done.
fn work(engine: &Engine) -> Result<()> {
    engine.background().run_tasks(&|| false).map(drop)
}

fn fill(engine: &Engine, container: &str) {
    for n in 0..40 {
        put(engine, container, &format!(r#"{{"id":"{n}","p":{n},"a":{n}}}"#)).expect("an item");
    }
}

#[test]
fn expired_items_are_removed_when_the_node_that_removes_them_dies() {
    let steps = die_at_each_step(
        |engine, clock| {
            make(engine, &keyed("c", "p", r#","defaultTtl":10"#), Some(12_000));
            fill(engine, "c");
            clock.advance_s(10);
        },
        work,
        |_, engine, steps| {
            let container = engine.containers().read(&name("d"), &name("c")).expect("there");
            let usage = engine.insight().usage(&container).expect("a count");
            assert_eq!(usage.items, 0, "after {steps} steps");
            check_sound(engine, "c");
        },
    );
    assert!(steps > 1, "{steps} steps");
}

#[test]
fn expiry_entries_and_an_index_are_built_when_their_node_dies() {
    let steps = die_at_each_step(
        |engine, _| {
            let body = r#"{"id":"c","indexingPolicy":{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}}"#;
            make(engine, body, Some(12_000));
            fill(engine, "c");
            let body = json(r#"{"id":"c","defaultTtl":1000}"#);
            let none = Preconditions::default();
            engine.containers().replace(&name("d"), &name("c"), &body, &none).expect("replaced");
        },
        work,
        |_, engine, steps| {
            let container = engine.containers().read(&name("d"), &name("c")).expect("there");
            let progress = engine.index_build().index_progress(&container);
            assert_eq!(progress, Ok(100), "after {steps} steps");
            assert_eq!(count(engine, "c"), 40);
            check_sound(engine, "c");
        },
    );
    assert!(steps > 3, "{steps} steps");
}

#[test]
fn a_model_is_built_when_its_node_dies() {
    let model = r#"{"version":1,"types":{"person":{"container":"people"},"order":{"container":"orders"}},
        "relations":[{"name":"buyer","from":"order","path":"/person","to":"person","inverse":{"name":"orders"}}],
        "aggregates":[{"on":"person","path":"/n","of":"orders","value":"COUNT(1)"}]}"#;
    let steps = die_at_each_step(
        |engine, _| {
            make(engine, &keyed("people", "id", ""), None);
            make(engine, &keyed("orders", "id", ""), None);
            for n in 0..3 {
                put(engine, "people", &format!(r#"{{"id":"{n}"}}"#)).expect("a person");
            }
            // More than a request builds itself.
            for n in 0..2100 {
                let order = format!(r#"{{"id":"{n}","person":"{}"}}"#, n % 3);
                put(engine, "orders", &order).expect("an order");
            }
            let none = Preconditions::default();
            engine.models().store(&name("d"), &json(model), &none).expect("a model");
        },
        work,
        |cluster, survivor, steps| {
            // The dead node may have taken the first step of the rule, of which the survivor has not heard.
            survivor.nodes().leave().expect("it ends");
            let engine = &cluster.open();
            run_tasks(engine);
            let state = engine.models().read(&name("d")).expect("a model").body;
            let state = state.get("_state").to_json();
            assert!(!state.contains("building"), "after {steps} steps: {state}");
            let verified = engine.model_verification().verify(&name("d")).expect("it runs");
            assert_eq!(verified, Vec::<String>::new(), "after {steps} steps");
        },
    );
    assert!(steps > 2, "{steps} steps");
}

#[test]
fn a_secondary_index_follows_when_its_node_dies() {
    let steps = die_at_each_step(
        |engine, _| {
            make(
                engine,
                r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#,
                None,
            );
            fill(engine, "c");
            let index = r#"{"id":"by","partitionKey":{"paths":["/a"],"kind":"Hash","version":2},
                "materializedViewDefinition":{"sourceCollectionId":"c","definition":"SELECT * FROM c"}}"#;
            make(engine, index, None);
        },
        work,
        |_, engine, steps| {
            assert_eq!(count(engine, "by"), 40, "after {steps} steps");
            check_sound(engine, "by");
        },
    );
    assert!(steps > 1, "{steps} steps");
}

/// Ends a change of the layout after each of its writes.
fn layout_change(throughput: i64, change: impl Fn(&Engine) -> Result<()>) {
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]}}"#;
    let steps = die_at_each_step(
        |engine, _| {
            make(engine, body, Some(throughput));
            fill(engine, "c");
        },
        |engine| change(engine),
        |cluster, survivor, steps| {
            // What the survivor knows of the catalog may be that of before the cutover.
            let now = cluster.open();
            assert_eq!(count(&now, "c"), 40, "after {steps} steps");
            put(&now, "c", r#"{"id":"new","p":99,"a":99}"#).expect("it takes writes");
            for n in 0..40 {
                let item = format!(r#"{{"id":"{n}","p":{n},"a":{n}}}"#);
                put(&now, "c", &item).unwrap_or_else(|error| panic!("after {steps}: {error}"));
            }
            check_sound(&now, "c");
            let lease = cluster.store.snapshot(ShardId(0), ReadAt::Latest).expect("a snapshot");
            let leases = lease.scan(&key::leases().scan(Space::Meta, 99, 9999)).expect("leases");
            let is_layout = |key: &[u8]| matches!(key::parse_lease(key), Some(Job::Layout { .. }));
            assert!(!leases.iter().any(|entry| is_layout(&entry.key)), "after {steps} steps");
            // Two looks, a minute apart, and what is not in use is gone.
            for _ in 0..2 {
                cluster.pass_s(61, &[survivor, &now]);
                run_tasks(survivor);
                run_tasks(&now);
            }
            let container = now.containers().read(&name("d"), &name("c")).expect("a container");
            let shards = cluster.store.shards().expect("shards").len();
            assert_eq!(shards, container.partitions.len() + 1, "after {steps} steps");
        },
    );
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn a_split_whose_node_dies_is_undone_or_done() {
    layout_change(400, |engine| {
        engine.layouts().split_partition(&name("d"), &name("c"), None, None).map(drop)
    });
}

#[test]
fn a_merge_whose_node_dies_is_undone_or_done() {
    layout_change(12_000, |engine| {
        engine.layouts().merge_partitions(&name("d"), &name("c"), None).map(drop)
    });
}

#[test]
fn a_split_is_seen_by_other_nodes_which_split_nothing_meanwhile() {
    let cluster = Cluster::new();
    let a = cluster.open();
    make(&a, r#"{"id":"c"}"#, None);
    fill(&a, "c");
    let b = cluster.open();
    let shown = || {
        let container = b.containers().read(&name("d"), &name("c")).expect("a container");
        let ranges = b.layouts().list_ranges(&container).expect("ranges");
        let status = ranges[0].body.get("status").as_str().expect("a status").to_owned();
        (status, b.layouts().ranges_etag(&container).expect("an etag"))
    };
    assert_eq!(shown(), ("online".into(), "\"1-0\"".into()));
    drop(a);
    let (store, stop) = CommitStop::over(&(cluster.store.clone() as Arc<dyn Store>));
    let a = cluster.open_over(store);
    let split =
        |engine: &Engine| engine.layouts().split_partition(&name("d"), &name("c"), None, None);
    std::thread::scope(|threads| {
        let splitting = threads.spawn(|| {
            stop.stop_me_after(3);
            split(&a)
        });
        stop.wait_reached();
        assert_eq!(shown(), ("splitting".into(), "\"1-0-0\"".into()));
        let refused = split(&b).expect_err("another node is at it").to_string();
        assert!(refused.contains("Node 3 is splitting"), "{refused}");
        stop.release();
        splitting.join().expect("no panic").expect("it splits");
    });
    assert_eq!(cluster.open().nodes().report().map(|_| ()), Ok(()));
    check_sound(&cluster.open(), "c");
}

#[test]
fn a_paused_split_that_wakes_changes_nothing() {
    // After each commit that it makes.
    for commits in 1.. {
        let cluster = Cluster::new();
        let first = cluster.open();
        make(&first, r#"{"id":"c"}"#, None);
        fill(&first, "c");
        let (store, stop) = CommitStop::over(&(cluster.store.clone() as Arc<dyn Store>));
        let paused = cluster.open_over(store);
        let other = cluster.open();
        let done = std::thread::scope(|threads| {
            let splitting = threads.spawn(|| {
                stop.stop_me_after(commits);
                paused.layouts().split_partition(&name("d"), &name("c"), None, None)
            });
            while !splitting.is_finished() && !stop.is_reached() {
                std::thread::yield_now();
            }
            if splitting.is_finished() {
                return true;
            }
            cluster.pass_s(MOVED_WITHIN_S, &[&other]);
            run_tasks(&other);
            put(&other, "c", r#"{"id":"x","p":1}"#).expect("the parent takes writes again");
            stop.release();
            let woken = splitting.join().expect("no panic");
            // What stopped before it had the lease has not begun.
            assert!(commits <= 1 || woken.is_err(), "{commits}: {woken:?}");
            let now = cluster.open();
            assert_eq!(count(&now, "c"), 41, "{commits}");
            put(&now, "c", r#"{"id":"y","p":2}"#).expect("it takes writes");
            check_sound(&now, "c");
            false
        });
        if done {
            assert!(commits >= 4, "{commits} commits");
            return;
        }
    }
}

#[test]
fn a_paused_sweeper_that_wakes_has_removed_nothing_that_lives() {
    let cluster = Cluster::new();
    let first = cluster.open();
    make(&first, r#"{"id":"c","defaultTtl":10}"#, None);
    fill(&first, "c");
    first.nodes().leave().expect("it ends");
    let (store, stop) = CommitStop::over(&(cluster.store.clone() as Arc<dyn Store>));
    let paused = cluster.open_over(store);
    paused.nodes().beat().expect("it takes the leases");
    let other = cluster.open();
    cluster.pass_s(10, &[&paused, &other]);
    paused.nodes().beat().expect("a heartbeat");
    std::thread::scope(|threads| {
        let sweeping = threads.spawn(|| {
            stop.stop_me();
            paused.background().run_tasks(&|| false)
        });
        stop.wait_reached();
        for n in 0..20 {
            put(&other, "c", &format!(r#"{{"id":"{n}","ttl":-1}}"#)).expect("it is recreated");
        }
        cluster.pass_s(MOVED_WITHIN_S, &[&other]);
        run_tasks(&other);
        stop.release();
        sweeping.join().expect("no panic").expect("a lost check is no error");
    });
    assert_eq!(count(&other, "c"), 20);
    let container = other.containers().read(&name("d"), &name("c")).expect("there");
    assert_eq!(other.insight().usage(&container).expect("a count").items, 20);
    check_sound(&other, "c");
}

#[test]
fn what_a_verification_has_found_is_known_to_all_nodes() {
    let cluster = Cluster::new();
    let first = Arc::new(cluster.open());
    make(&first, &keyed("people", "id", ""), None);
    let model = r#"{"version":1,"types":{"person":{"container":"people"}}}"#;
    let none = Preconditions::default();
    first.models().store(&name("d"), &json(model), &none).expect("a model");
    put(&first, "people", r#"{"id":"1"}"#).expect("a person");
    let other = cluster.open();
    let newest = |engine: &Engine| engine.model_verification().newest(&name("d"));
    assert!(matches!(newest(&other), Err(Error::NotFound)));
    ModelVerification::start(&first, &name("d")).expect("it starts");
    for node in [&first, &other] {
        let mut looks = 0..1_000_000;
        let found = loop {
            if let Verification::Ended(found) = newest(node).expect("there is one") {
                break found.expect("it ends well");
            }
            looks.next().expect("it ends");
            std::thread::yield_now();
        };
        assert_eq!((found.items, found.drift_count), (1, 0));
    }
}

/// Takes all leases away, so that the next node to look gets them while the first one believes that it has them.
fn steal_leases(cluster: &Cluster) {
    let snapshot = cluster.store.snapshot(ShardId(0), ReadAt::Latest).expect("a snapshot");
    let mut part = Part::new(ShardId(0), Epoch(1));
    let leases = key::leases();
    for entry in snapshot.scan(&leases.scan(Space::Meta, 99, 9999)).expect("leases") {
        part.deletes.push((Space::Meta, entry.key));
    }
    drop(snapshot);
    cluster.store.commit(Commit::new(vec![part])).expect("a commit");
}

#[test]
fn two_holders_at_once_do_no_harm() {
    let cluster = Cluster::new();
    let first = cluster.open();
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},"defaultTtl":-1,
        "changeFeedPolicy":{"retentionDuration":1}}"#;
    make(&first, body, Some(12_000));
    for round in 0..5 {
        for n in 0..200 {
            let item = format!(r#"{{"id":"{n}","p":{n},"a":{round},"ttl":{}}}"#, 1 + n % 2 * 1000);
            put(&first, "c", &item).expect("an item");
        }
        let nodes = [cluster.open(), cluster.open()];
        first.nodes().leave().expect("it gives back");
        nodes[0].nodes().beat().expect("it takes all");
        steal_leases(&cluster);
        nodes[1].nodes().beat().expect("so does the other");
        cluster.clock.advance_s(1);
        std::thread::scope(|threads| {
            for node in &nodes {
                threads.spawn(|| run_tasks(node));
            }
        });
        let container = nodes[0].containers().read(&name("d"), &name("c")).expect("there");
        assert_eq!(nodes[0].insight().usage(&container).expect("a count").items, 100);
        check_sound(&nodes[0], "c");
        for node in &nodes {
            node.nodes().leave().expect("it ends");
        }
        cluster.clock.advance_s(30);
    }
}
