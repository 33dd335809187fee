//! Every way in which a query reads, under a budget that ends: each stops soon, with the error of its
//! limit, and gives back all memory that it reserved.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryPage, QueryRequest};
use orrery_engine::throughput::ThroughputRequest;
use orrery_engine::{Container, Engine};
use orrery_storage::Store;
use orrery_types::{CancellationToken, Clock, Error, ManualClock, Result, Value};

use crate::interposed::{Interposed, Read};
use crate::stores::new_store;
use crate::world::{json, name};

/// So many that no way ends before the budget is looked at.
const ITEMS: usize = 5_000;

/// Reads after the budget has ended: of a batch of 1,024 items, each is a row and an item.
const READS_MAX: usize = 3_000;

/// What happens at a read.
type Event = Box<dyn Fn() + Send>;

/// A query, what its plan says, and whether it has to hold memory that grows with the items.
struct Case {
    text: String,
    plan: &'static str,
    without_index: bool,
    holds: bool,
}

fn case(plan: &'static str, text: &str) -> Case {
    Case { text: text.to_owned(), plan, without_index: false, holds: false }
}

fn holding(plan: &'static str, text: &str) -> Case {
    Case { holds: true, ..case(plan, text) }
}

/// A filter that no index serves and no item passes, so that all items are read.
const NONE: &str = "LENGTH(c.id) > 100";

fn cases() -> Vec<Case> {
    let pairs: Vec<String> =
        (0..ITEMS).map(|n| format!("(c.id = 'i{n}' AND c.pk = 'p{}')", n % 7)).collect();
    vec![
        case("Scan", &format!("SELECT * FROM c WHERE {NONE}")),
        Case { without_index: true, ..case("Scan", "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0") },
        case("IndexSeek", &format!("SELECT * FROM c WHERE c.fifth = 0 AND {NONE}")),
        case("Intersect", &format!("SELECT * FROM c WHERE c.even = 0 AND c.third = 0 AND {NONE}")),
        case("Union", &format!("SELECT * FROM c WHERE (c.fifth = 0 OR c.rare = 0) AND {NONE}")),
        case("IndexOrder", &format!("SELECT * FROM c WHERE {NONE} ORDER BY c.n")),
        case("IndexOrder", &format!("SELECT * FROM c WHERE {NONE} ORDER BY c.n DESC")),
        case("IndexOrder", &format!("SELECT * FROM c WHERE {NONE} ORDER BY c.rare")),
        holding("IndexOrder", &format!("SELECT * FROM c WHERE {NONE} ORDER BY c.rare DESC")),
        holding("IndexOrder", "SELECT * FROM c ORDER BY c.list"),
        case("CompositeOrder", &format!("SELECT * FROM c WHERE {NONE} ORDER BY c.even, c.n")),
        holding(
            "CompositeOrder",
            &format!("SELECT * FROM c WHERE {NONE} ORDER BY c.even DESC, c.n DESC"),
        ),
        holding("PointRead", &format!("SELECT * FROM c WHERE ({}) AND {NONE}", pairs.join(" OR "))),
        case("IndexCount", "SELECT VALUE COUNT(1) FROM c"),
        case("IndexCount", "SELECT VALUE COUNT(1) FROM c WHERE c.same = 1"),
        case("IndexCount", "SELECT VALUE COUNT(1) FROM c WHERE c.same = 1 AND c.n >= 0"),
        case("IndexSum", "SELECT VALUE SUM(c.n) FROM c"),
        case("IndexSum", "SELECT VALUE SUM(c.n) FROM c WHERE c.same = 1"),
        holding("IndexDistinct", "SELECT DISTINCT VALUE c.n FROM c"),
        Case { without_index: true, ..holding("Sort", "SELECT * FROM c ORDER BY c.n") },
        holding("Group", "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n"),
        holding("Aggregate", "SELECT VALUE MAKELIST(c.n) FROM c"),
        holding("Distinct", "SELECT DISTINCT c.n, c.even FROM c"),
    ]
}

/// An engine whose reads are counted, and may trigger something.
struct Rig {
    engine: Engine,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    reads: Arc<AtomicUsize>,
    event: Arc<Mutex<Option<Event>>>,
    /// Reads when the event happened.
    reads_then: Arc<AtomicU64>,
}

impl Rig {
    fn new(throughput: Option<i64>, ttl: &str) -> Self {
        let store = new_store();
        let clock = Arc::new(ManualClock::at_s(1_700_000_000));
        let plain = Engine::open(store.clone(), clock.clone(), 1).expect("an engine");
        let manual = |rate| ThroughputRequest { manual: rate, ..ThroughputRequest::default() };
        plain.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        let composite = r#"[[{"path":"/even"},{"path":"/n"}]]"#;
        let body = format!(
            r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{ttl},
                "indexingPolicy":{{"compositeIndexes":{composite}}}}}"#
        );
        plain
            .containers()
            .create(&name("d"), &json(&body), &manual(throughput))
            .expect("a container");
        let container = plain.containers().read(&name("d"), &name("c")).expect("the container");
        for n in 0..ITEMS {
            let rare = if n % 9 == 0 { format!(r#","rare":{n}"#) } else { String::new() };
            let item = format!(
                r#"{{"id":"i{n}","pk":"p{}","n":{n},"same":1,"even":{},"third":{},"fifth":{},"list":[{n}]{rare}}}"#,
                n % 7,
                n % 2,
                n % 3,
                n % 5
            );
            plain.items().create(&container, None, item.as_bytes()).expect("an item");
        }
        drop(plain);
        let (reads, reads_then) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let event = Arc::<Mutex<Option<Event>>>::default();
        let mut rig = Self {
            engine: Engine::open(store.clone(), clock.clone(), 2).expect("open"),
            clock,
            store,
            reads,
            event,
            reads_then,
        };
        rig.reopen(usize::MAX);
        rig
    }

    /// Opens the engine over counted reads, with so much memory for queries.
    fn reopen(&mut self, memory: usize) {
        let (reads, event) = (self.reads.clone(), self.event.clone());
        let reads_then = self.reads_then.clone();
        let hook = Box::new(move |read: Read<'_>| {
            if matches!(read, Read::Snapshot { .. }) {
                return;
            }
            let so_far = reads.fetch_add(1, Ordering::SeqCst) as u64;
            if let Some(event) = event.lock().expect("no panic").take() {
                reads_then.store(so_far, Ordering::SeqCst);
                event();
            }
        });
        let store = Arc::new(Interposed::reads(self.store.clone(), hook));
        let clock: Arc<dyn Clock> = self.clock.clone();
        let engine = Engine::open(store, clock, 3).expect("an engine");
        self.engine = engine.with_query_memory(memory);
    }

    fn container(&self) -> Arc<Container> {
        self.engine.containers().read(&name("d"), &name("c")).expect("the container")
    }

    fn run(&self, case: &Case, token: &CancellationToken) -> Result<QueryPage> {
        let container = self.container();
        let scope = container.scope(&ScopeRequest::default())?;
        let body = format!(r#"{{"query":{}}}"#, Value::from(&*case.text).to_json());
        let request = QueryRequest::parse(&json(&body))?;
        let paging = Paging {
            crosses: true,
            explains: true,
            without_index: case.without_index,
            cancellation: Some(token),
            ..Paging::default()
        };
        let size = PageSize { items: 1000 };
        let page = self.engine.queries().query_items(&container, &scope, &request, size, &paging);
        assert_eq!(self.engine.query_memory_used(), 0, "{} left memory reserved", shown(case));
        page
    }

    /// Lets something happen at the next read.
    fn at_next_read(&self, event: impl Fn() + Send + 'static) {
        *self.event.lock().expect("no panic") = Some(Box::new(event));
    }

    fn reads_since(&self) -> usize {
        let then = usize::try_from(self.reads_then.load(Ordering::SeqCst)).expect("few");
        self.reads.load(Ordering::SeqCst) - then
    }
}

fn shown(case: &Case) -> String {
    case.text.chars().take(90).collect()
}

const THROUGHPUTS: [Option<i64>; 2] = [None, Some(30_000)];

#[test]
fn every_way_of_reading_is_what_its_plan_says() {
    let rig = Rig::new(None, "");
    for case in cases() {
        let page = rig.run(&case, &CancellationToken::default()).expect(&case.text);
        let plan = page.report.plan.expect("a plan").to_text();
        assert!(plan.contains(case.plan), "{}: {plan}", shown(&case));
    }
}

#[test]
fn a_cancelled_query_ends_soon_whatever_it_reads() {
    for throughput in THROUGHPUTS {
        let rig = Rig::new(throughput, "");
        for case in cases() {
            let token = CancellationToken::default();
            let copy = token.clone();
            rig.at_next_read(move || copy.cancel());
            let page = rig.run(&case, &token);
            assert!(matches!(page, Err(Error::Timeout(_))), "{}: {page:?}", shown(&case));
            let reads = rig.reads_since();
            assert!(reads < READS_MAX, "{} reads after the cancellation: {}", reads, shown(&case));
            // One that is cancelled before it begins reads nothing.
            let before = rig.reads.load(Ordering::SeqCst);
            assert!(matches!(rig.run(&case, &token), Err(Error::Timeout(_))), "{}", shown(&case));
            assert_eq!(rig.reads.load(Ordering::SeqCst), before, "{}", shown(&case));
        }
    }
}

#[test]
fn a_query_ends_at_its_deadline_or_with_a_page_before_it() {
    for throughput in THROUGHPUTS {
        let rig = Rig::new(throughput, "");
        for case in cases() {
            let clock = rig.clock.clone();
            rig.at_next_read(move || clock.advance_s(61));
            let page = rig.run(&case, &CancellationToken::default());
            let reads = rig.reads_since();
            assert!(reads < READS_MAX, "{} reads after the deadline: {}", reads, shown(&case));
            match page {
                Err(Error::Timeout(_)) => {}
                // It could stop after an item.
                Ok(page) => assert!(page.continuation.is_some(), "{}", shown(&case)),
                Err(error) => panic!("{}: {error}", shown(&case)),
            }
        }
    }
}

#[test]
fn what_is_held_comes_out_of_the_memory_of_all_queries() {
    for throughput in THROUGHPUTS {
        let mut rig = Rig::new(throughput, "");
        rig.reopen(32 << 10);
        for case in cases() {
            match rig.run(&case, &CancellationToken::default()) {
                Err(Error::RateLimited { .. }) => {}
                Ok(_) if !case.holds => {}
                other => panic!("{}: {other:?}", shown(&case)),
            }
        }
    }
}

#[test]
fn items_that_are_all_hidden_do_not_hold_up_a_cancelled_query() {
    for throughput in THROUGHPUTS {
        let rig = Rig::new(throughput, r#","defaultTtl":10"#);
        rig.clock.advance_s(11);
        let container = rig.container();
        let scope = container.scope(&ScopeRequest::default()).expect("a scope");
        for text in [
            "SELECT * FROM c",
            "SELECT * FROM c WHERE c.same = 1",
            "SELECT * FROM c ORDER BY c.n",
            "SELECT VALUE COUNT(1) FROM c",
        ] {
            let token = CancellationToken::default();
            let copy = token.clone();
            rig.at_next_read(move || copy.cancel());
            let page = rig.run(&case("", text), &token);
            assert!(matches!(page, Err(Error::Timeout(_))), "{text}: {page:?}");
            assert!(rig.reads_since() < READS_MAX, "{text}: {} reads", rig.reads_since());
        }
        let token = CancellationToken::default();
        let copy = token.clone();
        rig.at_next_read(move || copy.cancel());
        let size = PageSize { items: 10 };
        let page =
            rig.engine.queries().read_items_until(&container, &scope, size, None, Some(&token));
        assert!(matches!(page, Err(Error::Timeout(_))), "a feed: {page:?}");
    }
}
