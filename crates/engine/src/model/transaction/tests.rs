//! What follows from a write for items that could not be written so today: they were stored when less
//! was checked.

use std::sync::Arc;

use orrery_storage::record::{self, Header};
use orrery_storage::{Commit, MemoryStore, Part, Put, Space, key};
use orrery_types::ids::Address;
use orrery_types::{Error, ManualClock, PartitionKey, Value};

use crate::Engine;
use crate::catalog::offer::ThroughputRequest;
use crate::catalog::resource::Preconditions;
use crate::item::address::ItemKey;

const MODEL: &str = r#"{"version":1,
  "types":{"parent":{"container":"parents"},"child":{"container":"children"}},
  "relations":[{"name":"parent","from":"child","path":"/parentId","to":"parent","onDelete":"unset",
    "propagate":"PROPAGATE","copies":{"label":"t.label"},
    "inverse":{"name":"children"}}],
  "aggregates":[{"on":"parent","path":"/count","of":"children","value":"COUNT(1)",
    "propagate":"PROPAGATE"}]}"#;

fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}

fn name(id: &str) -> Address {
    Address::Name(id.into())
}

struct Bench {
    engine: Engine,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new(throughput: Option<i64>, propagate: &str) -> Self {
        let clock = Arc::new(ManualClock::at_s(1000));
        let engine =
            Engine::open(Arc::new(MemoryStore::new()), clock.clone(), 1).expect("it opens");
        engine
            .databases()
            .create(&json(r#"{"id":"d"}"#), &ThroughputRequest::default())
            .expect("it");
        for id in ["parents", "children"] {
            // Without terms of `ttl`, so that one can be stored behind the index.
            let body = format!(
                r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}},"defaultTtl":-1,
                "indexingPolicy":{{"includedPaths":[{{"path":"/*"}}],"excludedPaths":[{{"path":"/ttl/?"}}]}}}}"#
            );
            let of = ThroughputRequest { manual: throughput, ..ThroughputRequest::default() };
            engine.containers().create(&name("d"), &json(&body), &of).expect("a container");
        }
        let none = Preconditions::default();
        let model = json(&MODEL.replace("PROPAGATE", propagate));
        engine.models().store(&name("d"), &model, &none).expect("the model is taken");
        Self { engine, clock }
    }

    fn put(&self, container: &str, item: &str) -> Result<(), Error> {
        let container = self.engine.containers().read(&name("d"), &name(container)).expect("it");
        let none = Preconditions::default();
        self.engine.items().upsert(&container, None, item.as_bytes(), &none).map(drop)
    }

    fn at(&self, container: &str, id: &str, property: &str) -> String {
        let container = self.engine.containers().read(&name("d"), &name(container)).expect("it");
        let key = PartitionKey::parse_header(&format!(r#"["{id}"]"#)).expect("a key");
        let read =
            self.engine.items().read(&container, Some(&key), &name(id)).expect("it is there");
        Value::parse(&read.body).expect("JSON").get(property).to_json()
    }

    /// Stores an item with a `ttl` that would be refused, as an earlier version may have.
    fn plant(&self, container: &str, id: &str, ttl: &str) {
        let container = self.engine.containers().read(&name("d"), &name(container)).expect("it");
        let key = PartitionKey::parse_header(&format!(r#"["{id}"]"#)).expect("a key");
        let at = ItemKey::of(&container, key, id).expect("a key");
        let shard = at.partition.shard;
        let found = self.engine.store.get(shard, Space::Items, &at.key).expect("it reads").1;
        let found = found.expect("it is stored");
        let (header, body) = record::decode(&found.bytes).expect("an item");
        let text = String::from_utf8(body.to_vec()).expect("text");
        let text = text.replacen(r#""ttl":-1"#, &format!(r#""ttl":{ttl}"#), 1);
        assert!(text.contains(&format!(r#""ttl":{ttl},"#)), "{text}");
        let feed = key::feed(found.version, header.feed_seq).to_vec();
        let header = Header { feed_seq: 0, ttl_s: None, ..header };
        let mut part = Part::new(shard, at.partition.epoch);
        part.deletes.push((Space::Feed, feed));
        let value = record::encode(&header, text.as_bytes());
        part.puts.push(Put { space: Space::Items, key: at.key.clone(), value });
        part.feed.push(at.key.clone());
        self.engine.store.commit(Commit::new(vec![part])).expect("it is stored");
    }

    fn check(&self) {
        self.engine.background().run_tasks(&|| false).expect("what follows later follows");
        assert_eq!(self.engine.background().failing_work(), Value::array(vec![]));
        let drift = self.engine.model_verification().verify(&name("d")).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
        for id in ["parents", "children"] {
            let container = self.engine.containers().read(&name("d"), &name(id)).expect("it");
            let faults = self.engine.insight().verify(&container).expect("it is verified");
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }
}

#[test]
fn a_stored_ttl_that_is_none_does_not_stop_what_follows_from_other_items() {
    for (throughput, propagate) in
        [(None, "sync"), (None, "async"), (Some(25_000), "sync"), (Some(25_000), "async")]
    {
        for ttl in ["0", "-2", "1.5", r#""soon""#, "null", "99999999999"] {
            let bench = Bench::new(throughput, propagate);
            bench.put("parents", r#"{"id":"p","label":"old","ttl":-1}"#).expect("a parent");
            bench.put("children", r#"{"id":"c","parentId":"p","ttl":-1}"#).expect("a child");
            bench.check();
            bench.plant("parents", "p", ttl);
            bench.plant("children", "c", ttl);
            bench.check();
            // A count of the parent, a copy in the child: neither says anything about its life.
            bench.put("children", r#"{"id":"d","parentId":"p"}"#).expect("another child");
            bench.check();
            assert_eq!(bench.at("parents", "p", "count"), "2", "{propagate} {ttl}");
            assert_eq!(bench.at("parents", "p", "ttl"), ttl, "it is left as it was stored");
            bench.put("parents", r#"{"id":"p","label":"new"}"#).expect("its owner sends no ttl");
            bench.check();
            assert_eq!(bench.at("children", "c", "label"), r#""new""#, "{propagate} {ttl}");
            assert_eq!(bench.at("children", "c", "ttl"), ttl, "it is left as it was stored");
            bench.clock.advance_s(1_000_000);
            assert_eq!(bench.at("children", "c", "label"), r#""new""#, "it lives on");
            // Its owner is told.
            let own = format!(r#"{{"id":"c","parentId":"p","ttl":{ttl}}}"#);
            assert!(matches!(bench.put("children", &own), Err(Error::Invalid(_))), "{ttl}");
        }
    }
}

/// So nothing that follows from another item can make a `ttl` invalid.
#[test]
fn a_model_keeps_nothing_at_a_ttl() {
    let bench = Bench::new(None, "sync");
    let none = Preconditions::default();
    for (kept, at_ttl) in
        [(r#""label":"t.label""#, r#""ttl":"t.label""#), (r#""path":"/count""#, r#""path":"/ttl""#)]
    {
        let model = MODEL.replace("PROPAGATE", "sync").replace(kept, at_ttl);
        let refused = bench.engine.models().store(&name("d"), &json(&model), &none);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{at_ttl}: {refused:?}");
    }
}
