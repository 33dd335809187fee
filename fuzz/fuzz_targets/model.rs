//! Models: a document is refused, or is stored, holds for an item that comes, and reads back as what
//! is accepted again.
#![no_main]

mod account;

use account::{container, engine, name};
use libfuzzer_sys::fuzz_target;
use orrery_engine::catalog::resource::Preconditions;
use orrery_types::Value;

fuzz_target!(|text: &str| {
    let Ok(document) = Value::parse(text.as_bytes()) else { return };
    let stored = engine().models().store(&name("d"), &document, &Preconditions::default());
    if stored.is_err() {
        return;
    }
    let item = br#"{"id":"0","p":"x","type":"a","b":[{"id":"1"}],"n":7}"#;
    let _ = engine().items().upsert(&container(), None, item, &Preconditions::default());
    let read = engine().models().read(&name("d")).expect("a model that was stored").body;
    let again = engine().models().store(&name("d"), &read, &Preconditions::default());
    again.expect("a model that was read");
    let _ = engine().models().delete(&name("d"), &Preconditions::default());
});
