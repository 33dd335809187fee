//! Sums out of the index are those of the items, and where the index does not have the numbers, the
//! items are looked at.

use std::sync::Arc;

use orrery_storage::{Commit, MemoryStore, Part, Put, ReadAt};
use orrery_types::ManualClock;
use orrery_types::ids::Address;

use super::*;
use crate::catalog::offer::ThroughputRequest;
use crate::catalog::resource::Preconditions;
use crate::partition::scope::ScopeRequest;
use crate::query::read_feed::PageSize;
use crate::query::{Paging, QueryRequest};
use crate::{Container, Engine};

struct Bench {
    engine: Engine,
    container: Arc<Container>,
}

fn parse(json: &str) -> Value {
    Value::parse(json.as_bytes()).expect("JSON")
}

fn bench() -> Bench {
    let clock = Arc::new(ManualClock::at_s(1000));
    let engine = Engine::open(Arc::new(MemoryStore::new()), clock, 1).expect("an engine");
    let none = ThroughputRequest::default();
    engine.databases().create(&parse(r#"{"id":"d"}"#), &none).expect("a database");
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    let (database, name) = (Address::Name("d".into()), Address::Name("c".into()));
    engine.containers().create(&database, &parse(body), &none).expect("a container");
    let container = engine.containers().read(&database, &name).expect("it was made");
    let bench = Bench { engine, container };
    for n in 0..100 {
        let kind = ["even", "odd"][n % 2];
        bench.put(&format!(r#"{{"id":"{n}","p":"x","kind":"{kind}","n":{n}.5,"o":{{"m":-{n}}}}}"#));
    }
    bench
}

impl Bench {
    fn put(&self, text: &str) {
        let any = Preconditions::default();
        let put = self.engine.items().upsert(&self.container, None, text.as_bytes(), &any);
        put.expect(text);
    }

    /// Whether the index answers alone, and the answer.
    fn ask(&self, query: &str) -> (bool, Vec<String>) {
        let request = QueryRequest::parse(&parse(&format!(r#"{{"query":"{query}"}}"#)));
        let scope = self.container.scope(&ScopeRequest::default()).expect("a scope");
        let paging = Paging { crosses: true, explains: true, ..Paging::default() };
        let size = PageSize { items: 100 };
        let request = request.expect(query);
        let page =
            self.engine.queries().query_items(&self.container, &scope, &request, size, &paging);
        let page = page.expect(query);
        (page.report.items == 0, page.rows)
    }

    fn check(&self, query: &str, by_index: bool, row: Option<&str>) {
        let rows = row.map(str::to_owned).into_iter().collect();
        assert_eq!(self.ask(query), (by_index, rows), "{query}");
    }

    /// Changes what stands beside shapes.
    fn change_numbers(&self, change: impl Fn(Vec<u8>) -> Vec<u8>) {
        let partition = &self.container.partitions[0];
        let snapshot = self.engine.store.snapshot(partition.shard, ReadAt::Latest).expect("a view");
        let scan = Scan {
            space: Space::Index,
            from: &[],
            to: key::END,
            reverse: false,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            keys_only: false,
        };
        let entries = snapshot.scan(&scan).expect("a scan");
        let shapes = entries.into_iter().filter(|entry| key::parse_shape(&entry.key).is_some());
        let mut part = Part::new(partition.shard, partition.epoch);
        part.puts = shapes
            .map(|e| Put { space: Space::Index, key: e.key, value: change(e.value.bytes.into()) })
            .collect();
        assert!(!part.puts.is_empty());
        self.engine.store.commit(Commit::new(vec![part])).expect("a commit");
    }
}

#[test]
fn a_sum_follows_its_items() {
    let bench = bench();
    let even = "SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'even'";
    bench.check(even, true, Some("2475"));
    bench.check("SELECT VALUE AVG(c.o.m) FROM c WHERE c.kind = 'odd'", true, Some("-50"));
    bench.check("SELECT VALUE SUM(c.o.m) FROM c", true, Some("-4950"));
    bench.check("SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'none'", true, Some("0"));
    bench.check("SELECT VALUE AVG(c.n) FROM c WHERE c.kind = 'none'", true, None);
    bench.check("SELECT VALUE SUM(c.nothing) FROM c WHERE c.kind = 'odd'", true, Some("0"));
    bench.check("SELECT VALUE SUM(c._ts) FROM c WHERE c.kind = 'even'", false, Some("50000"));
    // One value changes and nothing else; one goes; one is no number.
    bench.put(r#"{"id":"0","p":"x","kind":"even","n":1000.5,"o":{"m":0}}"#);
    bench.check(even, true, Some("3475"));
    bench.put(r#"{"id":"2","p":"x","kind":"even","o":{"m":0}}"#);
    bench.check(even, true, Some("3472.5"));
    bench.put(r#"{"id":"2","p":"x","kind":"even","n":"2.5","o":{"m":0}}"#);
    bench.check(even, true, None);
    bench.put(r#"{"id":"2","p":"x","kind":"odd","n":"2.5","o":{"m":0}}"#);
    bench.check(even, true, Some("3472.5"));
    assert_eq!(bench.engine.insight().verify(&bench.container).expect("a verification"), []);
}

#[test]
fn items_without_numbers_beside_their_shape_are_looked_at() {
    let bench = bench();
    bench.change_numbers(|_| vec![]);
    bench.check("SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'even'", false, Some("2475"));
    bench.check("SELECT VALUE SUM(c.n) FROM c", false, Some("5000"));
    assert_eq!(bench.engine.insight().verify(&bench.container).expect("a verification"), []);
    bench.put(r#"{"id":"0","p":"x","kind":"zero","n":7}"#);
    bench.check("SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'zero'", true, Some("7"));
    let many: Vec<String> = (0..100).map(|n| format!(r#""n{n}":1"#)).collect();
    bench.put(&format!(r#"{{"id":"m","p":"x","kind":"many","n":7,{}}}"#, many.join(",")));
    bench.check("SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'many'", false, Some("7"));
}

#[test]
fn numbers_that_are_not_the_item_s_are_found() {
    let bench = bench();
    bench.change_numbers(|mut numbers| {
        *numbers.last_mut().expect("numbers") ^= 1;
        numbers
    });
    let faults = bench.engine.insight().verify(&bench.container).expect("a verification");
    assert_eq!(faults.len(), 100);
    assert!(faults.iter().all(|fault| fault.kind == crate::insight::verify::FaultKind::TermUntrue));
}
