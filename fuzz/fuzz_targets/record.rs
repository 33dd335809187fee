//! Stored items: bytes from a disk are refused, or decode to what encodes to the same bytes. Every
//! input is tried as it is and under its true checksum, which no fuzzer finds by itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_storage::record::{BODY_AT, decode, encode};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const CHECKSUM_AT: usize = BODY_AT - 8;

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= BODY_AT {
        let sum = xxh3_64_with_seed(&bytes[BODY_AT..], xxh3_64(&bytes[..CHECKSUM_AT]));
        bytes[CHECKSUM_AT..BODY_AT].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes.to_vec(), with_checksum(bytes.to_vec())] {
        if let Ok((header, body)) = decode(&bytes) {
            assert_eq!(encode(&header, body), bytes);
        }
    }
});
