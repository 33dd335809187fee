//! Heads and entries of several shards as bytes: what a copy of a whole store sends from one process to another.
//!
//! ```text
//! 1 │ heads, u32 │ shard u32, lsn u64, epoch u64, control u64, state u8 │ …
//!   │ entries, u32 │ shard u32, space u8, key, 0 │ shard u32, space u8, key, 1, version u64, value │ …
//! ```
//!
//! Numbers are big-endian. A key or a value is its length as u32 and its bytes; 0 instead of a value says that
//! the key does not exist.

use bytes::Bytes;
use orrery_types::{Epoch, Lsn, ShardId};

use crate::{Copied, Head, ShardState, Space, Value};

/// The first byte.
const FORMAT: u8 = 1;

/// Heads and entries of several shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CopyBatch {
    pub heads: Vec<(ShardId, Head)>,
    pub entries: Vec<(ShardId, Copied)>,
}

impl CopyBatch {
    /// A batch of one key: where a read begins, or what is asked for.
    pub fn of_key(shard: ShardId, space: Space, key: Vec<u8>) -> Self {
        let entry = Copied { space, key, value: None };
        Self { heads: vec![], entries: vec![(shard, entry)] }
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_count(&mut out, self.heads.len());
        for (shard, head) in &self.heads {
            out.extend(shard.0.to_be_bytes());
            for number in [head.lsn.0, head.epoch.0, head.control.0] {
                out.extend(number.to_be_bytes());
            }
            out.push(STATES.iter().position(|state| *state == head.state).map_or(0, small));
        }
        put_count(&mut out, self.entries.len());
        for (shard, Copied { space, key, value }) in &self.entries {
            out.extend(shard.0.to_be_bytes());
            out.push(Space::ALL.iter().position(|other| other == space).map_or(0, small));
            put_bytes(&mut out, key);
            match value {
                None => out.push(0),
                Some(value) => {
                    out.push(1);
                    out.extend(value.version.0.to_be_bytes());
                    put_bytes(&mut out, &value.bytes);
                }
            }
        }
        out
    }

    /// Reads what [`CopyBatch::encode`] has written; `None` if it is anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        if rest.byte()? != FORMAT {
            return None;
        }
        let mut batch = Self::default();
        for _ in 0..rest.u32()? {
            let shard = ShardId(rest.u32()?);
            let (lsn, epoch, control) = (Lsn(rest.u64()?), Epoch(rest.u64()?), Lsn(rest.u64()?));
            let state = *STATES.get(usize::from(rest.byte()?))?;
            batch.heads.push((shard, Head { lsn, epoch, control, state }));
        }
        for _ in 0..rest.u32()? {
            let shard = ShardId(rest.u32()?);
            let space = *Space::ALL.get(usize::from(rest.byte()?))?;
            let key = rest.bytes()?.to_vec();
            let value = match rest.byte()? {
                0 => None,
                1 => {
                    let version = Lsn(rest.u64()?);
                    Some(Value { version, bytes: Bytes::copy_from_slice(rest.bytes()?) })
                }
                _ => return None,
            };
            batch.entries.push((shard, Copied { space, key, value }));
        }
        rest.0.is_empty().then_some(batch)
    }
}

/// States in the order of their bytes.
const STATES: [ShardState; 4] =
    [ShardState::Building, ShardState::Open, ShardState::Closed, ShardState::Dropped];

fn small(place: usize) -> u8 {
    u8::try_from(place).unwrap_or(u8::MAX)
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).expect("a batch is bounded in bytes").to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend(bytes);
}

/// What is left to read.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let count = usize::try_from(self.u32()?).ok()?;
        self.take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> CopyBatch {
        let head = |state| Head { lsn: Lsn(7), epoch: Epoch(2), control: Lsn(3), state };
        let value = Some(Value { version: Lsn(9), bytes: Bytes::from_static(b"{}") });
        let entry = |space, value| (ShardId(4), Copied { space, key: vec![1, 2], value });
        CopyBatch {
            heads: vec![
                (ShardId(0), head(ShardState::Open)),
                (ShardId(4), head(ShardState::Closed)),
            ],
            entries: vec![entry(Space::Items, value), entry(Space::Ttl, None)],
        }
    }

    #[test]
    fn a_batch_reads_as_it_was_written() {
        for batch in [batch(), CopyBatch::default()] {
            assert_eq!(CopyBatch::decode(&batch.encode()), Some(batch));
        }
    }

    #[test]
    fn bytes_that_are_no_batch_are_refused() {
        let bytes = batch().encode();
        for length in 0..bytes.len() {
            assert_eq!(CopyBatch::decode(&bytes[..length]), None, "cut at {length}");
        }
        assert_eq!(CopyBatch::decode(&[&bytes[..], &[0]].concat()), None);
        for (at, byte) in [(0, 2), (bytes.len() - 1, 2)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert_eq!(CopyBatch::decode(&wrong), None, "byte {at}");
        }
    }
}
