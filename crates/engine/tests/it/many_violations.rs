//! Rules that more stored items break than one page of notes holds: the rule takes hold when none is left,
//! wherever the last one stands, and what is not written down yet is not followed.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{Value, limits};

use crate::rig::pk;
use crate::world::{World, json, name};

/// Two pages and more.
const ITEMS: usize = 2 * limits::PAGE_ITEMS_MAX + 100;

const MODEL: &str = r#"{"version":1,
  "types":{"parent":{"container":"parents"},
    "child":{"container":"children","schema":{"properties":{"copied":{"type":"number"}}}}},
  "relations":[{"name":"parent","from":"child","path":"/parentId","to":"parent","onMissing":"reject",
    "propagate":"sync","copies":{"copied":"t.label"},"inverse":{"name":"kids"}}]}"#;

struct Family(World);

impl Family {
    /// So many children of a parent that does not exist; the last of them of `last`.
    fn new(throughput: Option<i64>, last: &str) -> Self {
        let mut world = World::memory();
        world.database();
        for (id, path) in [("parents", "/id"), ("children", "/p")] {
            let key = format!(r#""partitionKey":{{"paths":["{path}"],"kind":"Hash"}}"#);
            world.create_container(&format!(r#"{{"id":"{id}",{key}}}"#), throughput);
        }
        let family = Self(world);
        family.put("parents", r#"{"id":"text","label":"no number"}"#);
        family.put("parents", r#"{"id":"number","label":7}"#);
        for n in 0..ITEMS {
            family.child(n, if n == ITEMS - 1 { last } else { "nobody" });
        }
        let none = Preconditions::default();
        family.0.engine().models().store(&name("d"), &json(MODEL), &none).expect("it is taken");
        family
    }

    fn put(&self, container: &str, item: &str) {
        let (of, none) = (self.0.container(container), Preconditions::default());
        self.0.engine().items().upsert(&of, None, item.as_bytes(), &none).expect("an item");
    }

    /// Within a logical partition items are in the order of their ids.
    fn child(&self, n: usize, parent: &str) {
        let item = format!(r#"{{"id":"c{n:05}","p":"x","parentId":"{parent}"}}"#);
        self.put("children", &item);
    }

    fn state(&self) -> (String, i64) {
        let model = self.0.engine().models().read(&name("d")).expect("a model").body;
        let rules = model.get("_state").as_array().expect("rules").to_vec();
        let is = |rule: &&Value| rule.get("rule").as_str() == Some("/relations/0");
        let rule = rules.iter().find(is).expect("the rule");
        let state = rule.get("state").as_str().expect("a state").to_owned();
        (state, rule.get("violations").as_i64().unwrap_or(0))
    }

    /// Background work for as long as it may take a rule to go through all its stages.
    fn run_tasks(&mut self) {
        for _ in 0..4 {
            self.0.run_tasks();
        }
    }

    /// How many refer to the parent that the last child has.
    fn follow(&self) -> orrery_types::Result<usize> {
        let text = "SELECT VALUE k.id FROM p JOIN k IN p.kids";
        let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#))).expect(text);
        let parents = self.0.container("parents");
        let scope = ScopeRequest { partition_key: Some(pk("text")), ..ScopeRequest::default() };
        let scope = parents.scope(&scope)?;
        let (size, paging) = (PageSize { items: ITEMS }, Paging::default());
        Ok(self
            .0
            .engine()
            .queries()
            .query_items(&parents, &scope, &request, size, &paging)?
            .rows
            .len())
    }
}

#[test]
fn a_rule_takes_hold_when_the_last_of_many_violations_is_gone() {
    for throughput in [None, Some(25_000)] {
        let mut family = Family::new(throughput, "nobody");
        family.run_tasks();
        assert_eq!(family.state().0, "building");
        for n in 0..ITEMS - 1 {
            family.child(n, "number");
        }
        family.run_tasks();
        assert_eq!(family.state(), ("building".to_owned(), 1), "the last one is left");
        family.child(ITEMS - 1, "number");
        family.run_tasks();
        assert_eq!(family.state(), ("enforced".to_owned(), 0));
        let drift =
            family.0.engine().model_verification().verify(&name("d")).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
    }
}

#[test]
fn a_relation_is_not_followed_while_an_item_behind_many_others_is_left_out() {
    for throughput in [None, Some(25_000)] {
        let mut family = Family::new(throughput, "text");
        family.run_tasks();
        let refused = family.follow().expect_err("one is left out");
        assert!(refused.to_string().contains("cannot be followed yet"), "{refused}");
        family.put("parents", r#"{"id":"text","label":8}"#);
        family.run_tasks();
        assert_eq!(family.follow(), Ok(1), "violations that are taken in do not count");
    }
}
