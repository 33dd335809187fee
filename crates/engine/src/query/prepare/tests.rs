//! A prepared query keeps its bound form when it moves on, and gets another one when what it was bound to has
//! changed.

use orrery_storage::MemoryStore;
use orrery_types::ids::Address;
use orrery_types::{ManualClock, Value};

use super::*;
use crate::Engine;
use crate::catalog::offer::ThroughputRequest;
use crate::catalog::resource::Preconditions;
use crate::partition::scope::ScopeRequest;

/// More steps than the inline budget has, over the two lists of two items.
const LONG: &str =
    "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list WHERE a + b >= 0";
/// An inverse, which is not followed inline.
const INVERSE: &str = "SELECT VALUE ARRAY_LENGTH(c.children) FROM c ORDER BY c.id";
const MODEL: &str = r#"{"version":1,
    "types":{"parent":{"container":"c"},"child":{"container":"children"}},
    "relations":[{"name":"parent","from":"child","path":"/parentId","to":"parent",
        "inverse":{"name":"children"}}]}"#;

struct Bench(Engine, Arc<ManualClock>);

fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}

fn name(id: &str) -> Address {
    Address::Name(id.into())
}

impl Bench {
    /// Items `a` and `b` in container `c`, with a list each, and three children of `a`.
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at_s(1000));
        let engine =
            Engine::open(Arc::new(MemoryStore::new()), clock.clone(), 1).expect("an engine");
        let none = ThroughputRequest::default();
        engine.databases().create(&json(r#"{"id":"d"}"#), &none).expect("a database");
        for id in ["c", "children"] {
            let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"]}}}}"#);
            engine.containers().create(&name("d"), &json(&body), &none).expect("a container");
        }
        let bench = Self(engine, clock);
        let list = (0..300).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        for id in ["a", "b"] {
            bench.put("c", &format!(r#"{{"id":"{id}","list":[{list}]}}"#));
        }
        for id in ["x", "y", "z"] {
            bench.put("children", &format!(r#"{{"id":"{id}","parentId":"a"}}"#));
        }
        bench
    }

    fn put(&self, container: &str, item: &str) {
        let container = self.container(container);
        let none = Preconditions::default();
        self.0.items().upsert(&container, None, item.as_bytes(), &none).expect(item);
    }

    fn store_model(&self, model: &str) {
        let none = Preconditions::default();
        self.0.models().store(&name("d"), &json(model), &none).expect("the model is stored");
        self.run_tasks();
    }

    fn run_tasks(&self) {
        self.0.background().run_tasks(&|| false).expect("all is done");
    }

    fn container(&self, id: &str) -> Arc<Container> {
        self.0.containers().read(&name("d"), &name(id)).expect("it was made")
    }

    fn prepare(&self, text: &str) -> PreparedQuery {
        let container = self.container("c");
        let scope = container.scope(&ScopeRequest::default()).expect("a scope");
        let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#)));
        PreparedQuery::new(container, scope, request.expect(text), PageSize { items: 100 })
    }

    /// Runs it inline, where it must exceed the budget.
    fn exceed(&self, query: &mut PreparedQuery) {
        let page = self.0.queries().run_inline(query, &paging()).expect("no error");
        assert!(page.is_none(), "it is too long to run inline");
    }

    fn run(&self, query: &mut PreparedQuery) -> Vec<String> {
        self.0.queries().run(query, &paging()).expect("a page").rows
    }
}

fn paging() -> Paging<'static> {
    Paging { crosses: true, ..Paging::default() }
}

/// The address of the bound form: a query that is bound again has another one, or none.
fn bound(query: &PreparedQuery) -> Option<*const str> {
    query.bound.as_ref().map(|bound| std::ptr::from_ref(bound.owner.as_str()))
}

#[test]
fn a_query_that_moves_on_runs_by_the_form_that_was_bound_inline() {
    let bench = Bench::new();
    bench.store_model(MODEL);
    for (text, rows) in [(LONG, vec!["180000"]), (INVERSE, vec!["3", "0"])] {
        let mut query = bench.prepare(text);
        assert!(bound(&query).is_none(), "it is bound where it runs");
        bench.exceed(&mut query);
        let inline = bound(&query);
        assert!(inline.is_some(), "{text}");
        assert_eq!(bench.run(&mut query), rows, "{text}");
        assert_eq!(bound(&query), inline, "{text}: it was bound again");
    }
}

#[test]
fn a_query_that_may_take_long_before_it_has_a_plan_is_not_bound_inline() {
    let bench = Bench::new();
    let mut query = bench.prepare("SELECT VALUE c.id FROM c WHERE RegexMatch(c.id, '^a')");
    bench.exceed(&mut query);
    assert!(bound(&query).is_none());
    assert_eq!(bench.run(&mut query), [r#""a""#]);
}

#[test]
fn a_new_model_binds_the_query_again() {
    let bench = Bench::new();
    bench.store_model(MODEL);
    let mut query = bench.prepare(INVERSE);
    bench.exceed(&mut query);
    let inline = bound(&query);
    bench.store_model(&MODEL.replace(r#""name":"children""#, r#""name":"offspring""#));
    assert!(bench.run(&mut query).is_empty(), "'children' is a property that no item has");
    assert_ne!(bound(&query), inline);
}

#[test]
fn a_split_between_the_threads_changes_no_row() {
    for text in [LONG, INVERSE] {
        let bench = Bench::new();
        bench.store_model(MODEL);
        let rows = bench.run(&mut bench.prepare(text));
        let mut query = bench.prepare(text);
        bench.exceed(&mut query);
        for container in ["c", "children"] {
            let (database, container) = (name("d"), name(container));
            let split = bench.0.layouts().split_partition(&database, &container, None, None);
            split.expect("a split");
        }
        assert_eq!(bench.run(&mut query), rows, "{text}");
        assert!(bound(&query).is_some(), "{text}: the parent stays for those that have begun");
        bench.1.advance_s(3600);
        bench.run_tasks();
        assert_eq!(bench.run(&mut query), rows, "{text}");
        assert!(bound(&query).is_none(), "{text}: the form was bound to a shard that is gone");
    }
}
