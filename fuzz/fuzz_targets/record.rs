//! Stored items: bytes from a disk are refused, or decode to what encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_storage::record::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, body)) = decode(bytes) {
        assert_eq!(encode(&header, body), bytes);
    }
});
