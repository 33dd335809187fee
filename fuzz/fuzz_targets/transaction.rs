//! Bodies of distributed transactions: refused, or read into operations, each with its own number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_server::wire::transaction_body::decode;
use orrery_types::limits;

fn read(body: Vec<u8>) {
    let Ok(operations) = decode(&body.into()) else { return };
    assert!(operations.len() <= limits::DISTRIBUTED_OPERATIONS_MAX, "more than the limit");
    let mut indexes: Vec<usize> = operations.iter().map(|operation| operation.index).collect();
    indexes.sort_unstable();
    assert!(indexes.iter().copied().eq(0..operations.len()), "an index twice, or none");
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    // Most of the language lies behind the brackets, and behind an operation that is whole.
    read([b"{\"operations\":[{", bytes, b"}]}"].concat());
    let place = r#""databaseName":"d","collectionName":"c","partitionKey":["p"],"operationType":""#;
    let before = format!(r#"{{"operations":[{{{place}Read","id":"a"}},{{{place}"#);
    read([before.as_bytes(), bytes, b"}]}"].concat());
});
