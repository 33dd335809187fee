//! Batches in HybridRow form: what is read can be written and is read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_server::wire::hybrid_row::{
    VERSION, decode_operations, decode_results, encode_operations, encode_results,
};

/// A stream with one row of the operations' schema, under its true checksum, so that the fuzzer
/// gets past it.
fn around(row: &[u8]) -> Vec<u8> {
    let empty = encode_operations(&[]);
    let mut whole = vec![VERSION];
    whole.extend(2_145_473_648_u32.to_le_bytes());
    whole.extend(row);
    let mut stream = empty;
    stream.push(VERSION);
    stream.extend(2_147_473_649_u32.to_le_bytes());
    stream.extend((whole.len() as u32).to_le_bytes());
    stream.extend(checksum(&whole).to_le_bytes());
    stream.extend(whole);
    stream
}

fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    };
    !bytes.iter().fold(!0, step)
}

fuzz_target!(|bytes: &[u8]| {
    for stream in [bytes.to_vec(), around(bytes)] {
        if let Ok(operations) = decode_operations(&stream) {
            assert_eq!(decode_operations(&encode_operations(&operations)), Ok(operations));
        }
        if let Ok(results) = decode_results(&stream) {
            let again = decode_results(&encode_results(&results)).expect("what we wrote");
            assert_eq!(again.len(), results.len());
        }
    }
});
