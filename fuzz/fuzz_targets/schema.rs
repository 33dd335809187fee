//! JSON Schemas: the first line is a schema, the second an item. The schema is refused with the model
//! that has it, or decides about the item, in bounded time.
#![no_main]

mod account;

use account::{container, engine, name, value};
use libfuzzer_sys::fuzz_target;
use orrery_engine::catalog::resource::Preconditions;
use orrery_types::Value;

fuzz_target!(|text: &str| {
    let (schema, item) = text.split_once('\n').unwrap_or((text, r#"{"a":[1,"x",{"b":null}]}"#));
    let (Ok(schema), Ok(item)) = (Value::parse(schema.as_bytes()), Value::parse(item.as_bytes())) else {
        return;
    };
    let schema = schema.to_json();
    let model = format!(r#"{{"version":1,"types":{{"t":{{"container":"a","schema":{schema}}}}}}}"#);
    let model = value(&model);
    if engine().models().store(&name("d"), &model, &Preconditions::default()).is_err() {
        return;
    }
    if let Some(item) = item.as_object() {
        let mut item = item.clone();
        item.set("id", "z".into());
        item.set("p", "x".into());
        let text = Value::object(item).to_json();
        let _ = engine().items().upsert(&container(), None, text.as_bytes(), &Preconditions::default());
    }
});
