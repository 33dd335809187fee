//! Bodies of batches: refused, or read into operations that a container takes or refuses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_engine::transaction::batch::Content;
use orrery_server::wire::batch_body::decode;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(&bytes.to_vec().into(), Content::Full);
    // Most of the language of operations lies behind the brackets.
    let one = [b"[{\"operationType\":\"", bytes, b"}]"].concat();
    let _ = decode(&one.into(), Content::Minimal);
});
