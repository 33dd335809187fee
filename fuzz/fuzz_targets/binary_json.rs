//! Bodies in binary JSON: what is read is a value whose text reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_server::wire::binary_json::{PREAMBLE, decode};
use orrery_types::Value;

fuzz_target!(|bytes: &[u8]| {
    let mut body = vec![PREAMBLE];
    body.extend(bytes);
    if let Ok(value) = decode(&body) {
        let text = value.to_json();
        let again = Value::parse(text.as_bytes()).expect("a decoded value is JSON");
        assert_eq!(again.to_json(), text);
    }
});
