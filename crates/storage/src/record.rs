//! The stored item: a header of fixed length, then the JSON text that a read sends as it is. Written
//! by the engine's write pipeline, read by every read; decoding copies nothing.
//!
//! ```text
//!  0 format version u8 = 1
//!  1 flags u8 = 0
//!  2 etag: node u32, stamp u64
//! 14 written at, seconds u64
//! 22 row u64
//! 30 feed seq u16          which change of its commit this version of the item was
//! 32 own time to live, seconds i64 (0 = none, -1 = for ever)
//! 40 checksum u64          XXH3-64 of the body, seeded with the XXH3-64 of bytes 0..40
//! 48 body: a JSON object
//! ```
//!
//! Integers are big-endian. The LSN is not here: the store keeps it with every value of the space.

use orrery_types::Etag;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::StorageError;
use crate::key::Row;

/// Where the body begins.
pub const BODY_AT: usize = 48;
const ROW_AT: usize = 22;
const CHECKSUM_AT: usize = 40;
const VERSION: u8 = 1;
const FLAGS: u8 = 0;

/// What is known of a stored item without reading its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the item as clients see it.
    pub etag: Etag,
    /// When it was written, in seconds since 1970: the item's `_ts`.
    pub ts_s: u64,
    /// Its number in the shard.
    pub row: Row,
    /// Which change of its commit's feed it was.
    pub feed_seq: u16,
    /// The time to live that the item itself asks for; -1 is for ever. When it expires follows
    /// from this, the time of writing and the current definition of the container.
    pub ttl_s: Option<i64>,
}

/// Bytes of an item. The body must be the text of a JSON object.
pub fn encode(header: &Header, body: &[u8]) -> Vec<u8> {
    assert!(is_object_text(body), "only a JSON object is ever stored as an item");
    assert!(header.ttl_s != Some(0), "a time to live of zero stands for none");
    let mut bytes = Vec::with_capacity(BODY_AT + body.len());
    bytes.extend([VERSION, FLAGS]);
    bytes.extend(header.etag.node.to_be_bytes());
    bytes.extend(header.etag.stamp.to_be_bytes());
    bytes.extend(header.ts_s.to_be_bytes());
    bytes.extend(header.row.0.to_be_bytes());
    bytes.extend(header.feed_seq.to_be_bytes());
    bytes.extend(header.ttl_s.unwrap_or(0).to_be_bytes());
    debug_assert_eq!(bytes.len(), CHECKSUM_AT);
    let checksum = checksum(&bytes, body);
    bytes.extend(checksum.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The row of an item, without a look at the rest of it; `None` if it is cut short.
pub fn row(bytes: &[u8]) -> Option<Row> {
    let row = bytes.get(ROW_AT..)?.first_chunk::<8>()?;
    Some(Row(u64::from_be_bytes(*row)))
}

/// The header and the body of an item; the body is a slice of the bytes, from [`BODY_AT`] on.
pub fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), StorageError> {
    let (head, body) = bytes.split_first_chunk::<BODY_AT>().ok_or_else(|| corrupt("cut short"))?;
    let [version, flags, ..] = *head;
    if (version, flags) != (VERSION, FLAGS) {
        return Err(StorageError::Corrupt(
            format!("an item has format {version} with flags {flags}, which this version of the server does not know").into(),
        ));
    }
    let mut fields = Fields(&head[2..]);
    let etag = Etag { node: u32::from_be_bytes(fields.take()), stamp: fields.u64() };
    let (ts_s, row) = (fields.u64(), Row(fields.u64()));
    let feed_seq = u16::from_be_bytes(fields.take());
    let (ttl_s, stored) = (i64::from_be_bytes(fields.take()), fields.u64());
    if checksum(&head[..CHECKSUM_AT], body) != stored {
        return Err(corrupt("its checksum does not match"));
    }
    if !is_object_text(body) {
        return Err(corrupt("its body is not a JSON object"));
    }
    let ttl_s = (ttl_s != 0).then_some(ttl_s);
    Ok((Header { etag, ts_s, row, feed_seq, ttl_s }, body))
}

/// Takes fields off the front of a header whose length is known.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("the header has all its fields");
        self.0 = rest;
        *field
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}

fn checksum(head: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64(head))
}

/// A cheap look at both ends: enough to catch a body that was swapped for something else.
fn is_object_text(body: &[u8]) -> bool {
    body.len() >= 2 && body.first() == Some(&b'{') && body.last() == Some(&b'}')
}

fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt(format!("a stored item is damaged: {what}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"id":"a","n":1}"#;

    fn header() -> Header {
        Header {
            etag: Etag { node: 7, stamp: 0x0102_0304_0506_0708 },
            ts_s: 1_700_000_000,
            row: Row(42),
            feed_seq: 3,
            ttl_s: Some(60),
        }
    }

    #[test]
    fn an_item_reads_back_with_its_body_in_place() {
        let bytes = encode(&header(), BODY);
        assert_eq!(decode(&bytes), Ok((header(), BODY)));
        assert_eq!(&bytes[BODY_AT..], BODY);
        let unlimited = Header { ttl_s: None, ..header() };
        assert_eq!(decode(&encode(&unlimited, BODY)), Ok((unlimited, BODY)));
    }

    #[test]
    fn the_bytes_of_a_record_are_fixed() {
        let bytes = encode(&header(), b"{}");
        assert_eq!(bytes[0..2], *b"\x01\x00", "version and flags");
        assert_eq!(bytes[2..14], *b"\0\0\0\x07\x01\x02\x03\x04\x05\x06\x07\x08", "etag");
        assert_eq!(bytes[14..22], *b"\0\0\0\0\x65\x53\xf1\x00", "time");
        assert_eq!(bytes[22..32], *b"\0\0\0\0\0\0\0\x2a\0\x03", "row and feed seq");
        assert_eq!(bytes[32..40], *b"\0\0\0\0\0\0\0\x3c", "time to live");
        assert_eq!(bytes[40..48], *b"\x65\xca\xed\x8a\x6b\x32\x31\x84", "checksum");
        assert_eq!(&bytes[48..], b"{}");
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        let bytes = encode(&header(), BODY);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = decode(&damaged).expect_err("a damaged record");
            assert!(matches!(error, StorageError::Corrupt(_)), "bit {bit}: {error}");
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    #[should_panic(expected = "only a JSON object")]
    fn a_body_that_is_no_object_is_never_written() {
        encode(&header(), b"[1]");
    }
}
