//! An account in memory that targets send to: one database with two containers.
#![allow(dead_code, reason = "each target uses some of it")]

use std::sync::{Arc, OnceLock};

use orrery_engine::throughput::ThroughputRequest;
use orrery_engine::{Container, Engine};
use orrery_storage::MemoryStore;
use orrery_types::ids::Address;
use orrery_types::{SystemClock, Value};

pub fn name(text: &str) -> Address {
    Address::Name(text.into())
}

pub fn value(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON of our own")
}

fn open() -> Engine {
    let engine = Engine::open(Arc::new(MemoryStore::new()), Arc::new(SystemClock), 1).expect("an engine");
    let none = ThroughputRequest { manual: None, autoscale: None };
    engine.databases().create(&value(r#"{"id":"d"}"#), &none).expect("a database");
    for id in ["a", "b"] {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}}}"#);
        engine.containers().create(&name("d"), &value(&body), &none).expect("a container");
    }
    let container = engine.containers().read(&name("d"), &name("a")).expect("a container");
    for n in 0..5 {
        let item = format!(r#"{{"id":"{n}","p":"x","n":{n}}}"#);
        engine.items().create(&container, None, item.as_bytes()).expect("an item");
    }
    engine
}

pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(open)
}

pub fn container() -> Arc<Container> {
    engine().containers().read(&name("d"), &name("a")).expect("a container")
}
