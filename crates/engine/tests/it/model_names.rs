//! What a model does with values that a client sends or that were stored before it: names of relations
//! are virtual and take nothing away, what the server keeps is kept, and everything else is stored as
//! it was sent. On one physical partition and on several, through single writes, patches and batches.

use std::sync::Arc;

use bytes::Bytes;
use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::item::read::Written;
use orrery_engine::query::relations::Reach;
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer, BatchOperation, Content};
use orrery_types::{Error, KeyComponent, PartitionKey, Result, Value};

use crate::random::Random;
use crate::world::{World, json, name};

const MODEL: &str = r#"{"version":1,
  "types":{"person":{"container":"people"},"stock":{"container":"stocks"}},
  "relations":[{"name":"stock","from":"person","path":"/holdings/*/stockId","to":"stock",
    "propagate":"sync","copies":{"symbol":"t.symbol"},"inverse":{"name":"holders"}}],
  "aggregates":[{"on":"stock","path":"/held","of":"holders","value":"COUNT(1)","propagate":"sync"}]}"#;

struct Desk(World);

fn key(id: &str) -> PartitionKey {
    PartitionKey(vec![KeyComponent::String(id.into())])
}

impl Desk {
    fn new(throughput: Option<i64>) -> Self {
        let mut world = World::memory();
        world.database();
        for id in ["people", "stocks"] {
            let key = r#""partitionKey":{"paths":["/id"],"kind":"Hash"}"#;
            world.create_container(&format!(r#"{{"id":"{id}",{key}}}"#), throughput);
        }
        Self(world)
    }

    fn model(&self, text: &str) -> Result<Value> {
        let none = Preconditions::default();
        let (_, stored) = self.0.engine().models().store(&name("d"), &json(text), &none)?;
        Ok(stored.body)
    }

    fn state(&self, rule: &str) -> Value {
        let model = self.0.engine().models().read(&name("d")).expect("a model").body;
        let rules = model.get("_state").as_array().expect("rules").to_vec();
        let is = |found: &&Value| found.get("rule").as_str() == Some(rule);
        rules.iter().find(is).expect("the rule").clone()
    }

    fn container(&self, id: &str) -> Arc<Container> {
        self.0.container(id)
    }

    fn put(&self, container: &str, item: &str) -> Result<Written> {
        let none = Preconditions::default();
        self.0.engine().items().upsert(&self.container(container), None, item.as_bytes(), &none)
    }

    fn patch(&self, id: &str, operations: &str) -> Result<Written> {
        let patch = Patch::parse(&json(&format!("[{operations}]")))?;
        let (people, none) = (self.container("people"), Preconditions::default());
        self.0.engine().items().patch(&people, Some(&key(id)), &name(id), &patch, &none)
    }

    fn batch(&self, id: &str, action: BatchAction) -> bool {
        let (conditions, content) = (Preconditions::default(), Content::Full);
        let operation =
            BatchOperation { action, partition_key: Some(key(id)), conditions, content };
        let people = self.container("people");
        let done = self
            .0
            .engine()
            .transactions()
            .batch(&people, Some(&key(id)), &[operation])
            .expect("a batch");
        done.answers.iter().all(BatchAnswer::is_success)
    }

    fn get(&self, container: &str, id: &str) -> Value {
        let container = self.container(container);
        let item = self.0.engine().items().read(&container, Some(&key(id)), &name(id));
        item.map(|item| Value::parse(&item.body).expect("JSON")).unwrap_or_default()
    }

    fn expanded(&self, container: &str, id: &str, expand: &str) -> Result<Value> {
        let (container, reach) = (self.container(container), Reach::Database);
        let engine = self.0.engine();
        let read = engine.queries().read_item_expanded(
            &container,
            Some(&key(id)),
            &name(id),
            expand,
            reach,
        )?;
        Ok(Value::parse(&read.body).expect("JSON"))
    }

    fn drift(&self) -> Vec<String> {
        self.0.engine().model_verification().verify(&name("d")).expect("it is verified")
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, says: &str) {
    match result {
        Err(Error::ModelViolated(text) | Error::Invalid(text)) => {
            assert!(text.contains(says), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_declared_over_stored_data_takes_nothing_away() {
    for throughput in [None, Some(30_000)] {
        let mut desk = Desk::new(throughput);
        let stored = r#"{"id":"p","n":0,"holdings":[{"stockId":"s","stock":{"symbol":"zaza"}}]}"#;
        desk.put("people", stored).expect("an item");
        desk.put("stocks", r#"{"id":"s","symbol":"zaza","holders":"our own"}"#).expect("an item");
        desk.model(MODEL).expect("the model is taken");
        desk.0.run_tasks();
        let state = desk.state("/relations/0");
        assert_eq!(state.get("state").as_str(), Some("building"), "{state:?}");
        assert_eq!(state.get("violations").as_i64(), Some(2), "{state:?}");
        assert!(state.get("samples").to_json().contains("'/holdings/*/stock'"), "{state:?}");
        assert!(state.get("samples").to_json().contains("'/holders'"), "{state:?}");
        let drift = desk.drift().join("\n");
        assert!(drift.contains("/holdings/*/stock") && drift.contains("/holders"), "{drift}");
        // Every way to write it is refused, and it stays as it was.
        let set = r#"{"op":"set","path":"/n","value":1}"#;
        refused(desk.patch("p", set), "'/holdings/*/stock'");
        refused(desk.put("people", stored), "'/holdings/*/stock'");
        assert!(!desk.batch("p", BatchAction::Patch(name("p"), Bytes::from(format!("[{set}]")))));
        assert!(!desk.batch("p", BatchAction::Upsert(Bytes::from(stored))));
        refused(desk.put("stocks", r#"{"id":"s","symbol":"x","holders":"our own"}"#), "'/holders'");
        let found = desk.get("people", "p");
        assert_eq!(found.get("n").to_json(), "0");
        let holding = found.get("holdings").at(0).get("stock").to_json();
        assert_eq!(holding, r#"{"symbol":"zaza"}"#);
        assert_eq!(desk.get("stocks", "s").get("holders").to_json(), r#""our own""#);
        // When it has another name the rule takes hold.
        let moved = r#"{"op":"move","from":"/holdings/0/stock","path":"/holdings/0/bought"}"#;
        desk.patch("p", moved).expect("another name");
        desk.put("stocks", r#"{"id":"s","symbol":"zaza","owners":"our own"}"#).expect("a name");
        desk.0.run_tasks();
        assert_eq!(desk.state("/relations/0").get("state").as_str(), Some("enforced"));
        assert_eq!(desk.drift(), Vec::<String>::new());
        assert_eq!(desk.get("stocks", "s").get("held").to_json(), "1");
    }
}

#[test]
fn what_expansion_shows_is_taken_off_and_nothing_else_is() {
    for throughput in [None, Some(30_000)] {
        let desk = Desk::new(throughput);
        desk.model(MODEL).expect("the model is taken");
        for (id, symbol) in [("s", "zaza"), ("t", "yaya")] {
            let stock = format!(r#"{{"id":"{id}","symbol":"{symbol}","high":{{"n":1}}}}"#);
            desk.put("stocks", &stock).expect("a stock");
        }
        let person =
            r#"{"id":"p","holdings":[{"stockId":"s"},{"stockId":"t"},{"stockId":"none"}]}"#;
        desk.put("people", person).expect("a person");
        let plain = desk.get("people", "p").get("holdings").clone();
        for expand in ["stock", "stock(symbol)", "stock(symbol,holders)", "stock(holders(stock))"] {
            let mut item = desk.expanded("people", "p", expand).expect(expand);
            item.as_object_mut().expect("an object").set("n", 1.into());
            desk.put("people", &item.to_json()).unwrap_or_else(|e| panic!("{expand}: {e}"));
            assert_eq!(*desk.get("people", "p").get("holdings"), plain, "{expand}");
        }
        for expand in ["holders", "holders(id)", "holders(id,stock(high))"] {
            let item = desk.expanded("stocks", "s", expand).expect(expand);
            desk.put("stocks", &item.to_json()).unwrap_or_else(|e| panic!("{expand}: {e}"));
            assert!(desk.get("stocks", "s").get("holders").is_undefined());
        }
        // A reference that changes with the target expanded beside it.
        let item = desk.expanded("people", "p", "stock(symbol)").expect("it");
        let item = item.to_json().replace(r#""stockId":"s""#, r#""stockId":"t""#);
        desk.put("people", &item).expect("it is saved back");
        // Anything else at the name is the client's own.
        let at =
            |value: &str| format!(r#"{{"id":"p","holdings":[{{"stockId":"s","stock":{value}}}]}}"#);
        let own = [
            r#""a text""#,
            "null",
            "7",
            "[]",
            r#"{"symbol":"other"}"#,
            r#"{"symbol":"zaza","note":1}"#,
            r#"{"high":{}}"#,
            r#"{"holders":[{"id":"q"}]}"#,
        ];
        for value in own {
            refused(desk.put("people", &at(value)), "'/holdings/*/stock'");
            assert!(!desk.batch("p", BatchAction::Upsert(Bytes::from(at(value)))), "{value}");
        }
        desk.put("people", &at(r#"{"high":{"n":1}}"#)).expect("a part of what is shown");
        for value in
            [r#""text""#, "[]", "{}", r#"[{"id":"p","n":2}]"#, r#"[{"id":"p"},{"id":"q"}]"#]
        {
            let stock = format!(r#"{{"id":"s","symbol":"zaza","holders":{value}}}"#);
            refused(desk.put("stocks", &stock), "'/holders'");
        }
        let none = r#"{"id":"new","symbol":"n","holders":[]}"#;
        desk.put("stocks", none).expect("nobody holds a new one");
        assert_eq!(desk.drift(), Vec::<String>::new());
    }
}

#[test]
fn what_stood_where_the_server_keeps_a_value_is_not_replaced_in_silence() {
    let mut desk = Desk::new(None);
    desk.put("stocks", r#"{"id":"s","symbol":"zaza","held":{"by":["us"]}}"#).expect("a stock");
    desk.put("stocks", r#"{"id":"t","symbol":"yaya","held":17}"#).expect("a stock");
    let person = r#"{"id":"p","holdings":[{"stockId":"s","symbol":{"old":"zz"}},{"stockId":"t"}]}"#;
    desk.put("people", person).expect("a person");
    desk.model(MODEL).expect("the model is taken");
    desk.0.run_tasks();
    let state = desk.state("/relations/0");
    assert_eq!(state.get("violations").as_i64(), Some(2), "{state:?}");
    refused(desk.patch("p", r#"{"op":"set","path":"/n","value":1}"#), "'/holdings/*/symbol'");
    desk.put("people", r#"{"id":"q","holdings":[{"stockId":"s"},{"stockId":"t"}]}"#).expect("it");
    refused(desk.put("stocks", r#"{"id":"s","held":{"by":["us"]},"n":1}"#), "'/held'");
    assert_eq!(desk.get("stocks", "s").get("held").to_json(), r#"{"by":["us"]}"#);
    assert_eq!(desk.get("stocks", "t").get("held").to_json(), "2");
    let symbol = desk.get("people", "p").get("holdings").at(0).get("symbol").to_json();
    assert_eq!(symbol, r#"{"old":"zz"}"#);
    desk.patch("p", r#"{"op":"remove","path":"/holdings/0/symbol"}"#).expect("it is put right");
    desk.put("stocks", r#"{"id":"s","symbol":"zaza"}"#).expect("it is put right");
    desk.0.run_tasks();
    desk.0.run_tasks();
    assert_eq!(desk.state("/relations/0").get("state").as_str(), Some("enforced"));
    assert_eq!(desk.drift(), Vec::<String>::new());
}

/// A value for a member of an item.
fn random_value(random: &mut Random, depth: usize) -> Value {
    let texts = ["zaza", "yaya", "s0", "s1", "own"];
    match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => Value::from(i64::try_from(random.below(3)).expect("small")),
        2 | 3 => texts[random.below(texts.len())].into(),
        4 => Value::array((0..random.below(3)).map(|_| random_value(random, depth - 1)).collect()),
        _ => random_object(random, depth - 1),
    }
}

fn random_object(random: &mut Random, depth: usize) -> Value {
    let names = [
        "stockId", "stock", "symbol", "holders", "held", "holdings", "note", "n", "_x", "comments",
    ];
    let mut object = orrery_types::Object::new();
    for _ in 0..random.below(5) {
        object.set(names[random.below(names.len())], random_value(random, depth));
    }
    Value::object(object)
}

/// An item without what the server adds and keeps: copies, the aggregate and system properties.
fn own_part(container: &str, item: &Value) -> Value {
    let mut own = item.clone();
    let object = own.as_object_mut().expect("an item");
    for name in ["_rid", "_self", "_etag", "_attachments", "_ts"] {
        object.remove(name);
    }
    if container == "stocks" {
        object.remove("held");
    } else if let Some(holdings) = object.get_mut("holdings").and_then(Value::as_array_mut) {
        // The copy stands beside a reference; null refers to nothing.
        for holding in holdings.iter_mut().filter_map(Value::as_object_mut) {
            if holding.get("stockId").is_some_and(|id| *id != Value::Null) {
                holding.remove("symbol");
            }
        }
    }
    own
}

#[test]
fn an_accepted_write_stores_what_was_sent_but_for_what_the_model_owns() {
    let mut random = Random::from_environment("an_accepted_write_stores_what_was_sent");
    let (mut accepted, mut refusals) = (0, 0);
    for throughput in [None, Some(30_000)] {
        let desk = Desk::new(throughput);
        desk.model(MODEL).expect("the model is taken");
        for n in 0..2 {
            desk.put("stocks", &format!(r#"{{"id":"s{n}","symbol":"zaza"}}"#)).expect("a stock");
        }
        for _ in 0..600 {
            let container = ["people", "stocks"][random.below(2)];
            let id = ["s0", "s1", "p0", "p1"][random.below(4)];
            let mut item = random_object(&mut random, 3);
            item.as_object_mut().expect("an object").set("id", id.into());
            if random.one_in(4)
                && let Ok(read) = desk.expanded(
                    container,
                    id,
                    if container == "people" { "stock" } else { "holders" },
                )
            {
                item = read;
            }
            let shown = if container == "people" {
                desk.expanded("people", id, "stock(symbol)")
            } else {
                desk.expanded("stocks", id, "holders")
            };
            let written = if container == "people" && random.one_in(2) {
                let text = Bytes::from(item.to_json());
                desk.batch(id, BatchAction::Upsert(text)).then_some(())
            } else {
                desk.put(container, &item.to_json()).ok().map(drop)
            };
            let Some(()) = written else {
                refusals += 1;
                continue;
            };
            accepted += 1;
            let (mut sent, stored) =
                (own_part(container, &item), own_part(container, &desk.get(container, id)));
            // A name may only be gone where it was what expansion shows, or a part of that.
            if container == "stocks" {
                let given = sent.as_object_mut().expect("an object").remove("holders");
                if let Some(given) = given {
                    let shown = shown.unwrap_or_default();
                    let shown = shown.get("holders").as_array().unwrap_or_default();
                    let given = given.as_array().expect("a list");
                    assert_eq!(given.len(), shown.len(), "{}", item.to_json());
                }
            } else if let Some(object) = sent.as_object_mut()
                && let Some(holdings) = object.get_mut("holdings").and_then(Value::as_array_mut)
            {
                for holding in holdings.iter_mut().filter_map(Value::as_object_mut) {
                    let given = holding.remove("stock");
                    assert!(
                        given.is_none_or(|given| {
                            given.as_object().is_some_and(|object| {
                                let target = desk.get(
                                    "stocks",
                                    holding.get("stockId").and_then(Value::as_str).unwrap_or(""),
                                );
                                object.iter().all(|(name, value)| target.get(name) == value)
                            })
                        }),
                        "{}",
                        item.to_json()
                    );
                }
            }
            assert_eq!(sent.to_json(), stored.to_json());
        }
        assert_eq!(desk.drift(), Vec::<String>::new());
    }
    assert!(accepted > 200 && refusals > 50, "{accepted} {refusals}");
}

const RULED: &str = r#"{"version":1,
  "types":{"person":{"container":"people","schema":{"properties":{"holdings":{"items":
      {"properties":{"symbol":{"maxLength":4}}}}},"required":["holdings"]}},
    "stock":{"container":"stocks","schema":{"properties":{"held":{"maximum":2}}}}},
  "relations":[{"name":"stock","from":"person","path":"/holdings/*/stockId","to":"stock",
    "propagate":"sync","onDelete":"pull","copies":{"symbol":"t.symbol"},"inverse":{"name":"holders"}}],
  "aggregates":[{"on":"stock","path":"/held","of":"holders","value":"COUNT(1)","propagate":"sync"}]}"#;

#[test]
fn what_follows_for_another_item_keeps_its_schema() {
    for throughput in [None, Some(30_000)] {
        let mut desk = Desk::new(throughput);
        desk.model(RULED).expect("the model is taken");
        desk.put("stocks", r#"{"id":"s","symbol":"zaza"}"#).expect("a stock");
        for id in ["p", "q"] {
            let person = format!(r#"{{"id":"{id}","holdings":[{{"stockId":"s"}}]}}"#);
            desk.put("people", &person).expect("a person");
        }
        // A copy, and an aggregate.
        let renamed = desk.put("stocks", r#"{"id":"s","symbol":"too long"}"#);
        refused(renamed, "The item 'p' of 'people' would change by the model");
        let third = desk.put("people", r#"{"id":"r","holdings":[{"stockId":"s"}]}"#);
        refused(third, "The item 's' of 'stocks' would change by the model");
        assert!(desk.get("people", "r").is_undefined());
        assert_eq!(desk.get("stocks", "s").get("symbol").to_json(), r#""zaza""#);
        assert_eq!(desk.drift(), Vec::<String>::new());
        // Its owner is never refused for what it did not send.
        desk.patch("p", r#"{"op":"set","path":"/n","value":1}"#).expect("it is valid");
        // Later, the item stays as it is and is still to follow.
        let later = RULED.replace("\"sync\"", "\"async\"");
        desk.model(&later).expect("the model is taken");
        desk.0.run_tasks();
        desk.put("stocks", r#"{"id":"s","symbol":"too long"}"#).expect("it follows later");
        let followed = desk.0.engine().background().run_tasks(&|| false);
        assert!(matches!(followed, Err(Error::ModelViolated(_))), "{followed:?}");
        let symbol = desk.get("people", "p").get("holdings").at(0).get("symbol").to_json();
        assert_eq!(symbol, r#""zaza""#);
        assert!(desk.state("/relations/0").get("pending").as_i64() > Some(0));
        desk.patch("q", r#"{"op":"remove","path":"/holdings/0"}"#).expect("it is valid");
        desk.put("stocks", r#"{"id":"s","symbol":"yaya"}"#).expect("it follows later");
        desk.0.run_tasks();
        assert_eq!(desk.drift(), Vec::<String>::new());
    }
}

#[test]
fn items_that_break_their_schema_are_seen_by_verify() {
    let mut desk = Desk::new(None);
    desk.put("people", r#"{"id":"p"}"#).expect("a person");
    desk.model(RULED).expect("the model is taken");
    desk.0.run_tasks();
    let drift = desk.drift().join("\n");
    assert!(
        drift.contains("'p' in 'people' breaks its type: type person: schema/required"),
        "{drift}"
    );
}

#[test]
fn an_item_that_refers_to_itself_is_answered_as_it_is_stored() {
    let desk = Desk::new(None);
    let model = r#"{"version":1,"types":{"person":{"container":"people"}},
      "relations":[{"name":"friend","from":"person","path":"/friendId","to":"person",
        "propagate":"sync","copies":{"friendName":"t.name"},
        "inverse":{"name":"friends","store":"/friendIds"}}],
      "aggregates":[{"on":"person","path":"/count","of":"friends","value":"COUNT(1)","propagate":"sync"}]}"#;
    desk.model(model).expect("the model is taken");
    for text in [
        r#"{"id":"p","name":"P","friendId":"p"}"#,
        r#"{"id":"p","name":"Q","friendId":"p"}"#,
        r#"{"id":"p","name":"R"}"#,
    ] {
        let written = desk.put("people", text).expect("it");
        let answered = Value::parse(&written.body).expect("JSON");
        assert_eq!(answered.to_json(), desk.get("people", "p").to_json(), "{text}");
        let (action, content) = (BatchAction::Upsert(Bytes::from(text.to_owned())), Content::Full);
        let (partition_key, conditions) = (Some(key("p")), Preconditions::default());
        let operation = BatchOperation { action, partition_key, conditions, content };
        let people = desk.container("people");
        let done = desk
            .0
            .engine()
            .transactions()
            .batch(&people, Some(&key("p")), &[operation])
            .expect("a batch");
        let BatchAnswer::Written(written) = &done.answers[0] else { panic!("{done:?}") };
        let answered = Value::parse(&written.body).expect("JSON");
        assert_eq!(answered.to_json(), desk.get("people", "p").to_json(), "{text}");
    }
    assert_eq!(desk.drift(), Vec::<String>::new());
}
