//! Keys and values as `RocksDB` sees them. `docs/storage-format.md` says the same in prose.
//!
//! ```text
//! key     shard u32 | key within its shard and space
//! value   version u64 | value      in the spaces with versions; elsewhere the value alone
//! header  FF FF FF FF | shard u32 → state u8 | epoch u56 | lsn u64      in `meta`
//! ```
//!
//! Headers stand together under a shard number that no shard has, so that opening a store reads
//! them in one short scan. The states are those that outlive a process: 0 in use, open or closed,
//! 1 being made, 2 dropped.

use bytes::Bytes;
use orrery_types::{Epoch, Lsn, ShardId};

use crate::store::SHARD_RESERVED;
use crate::{ShardState, Space, StorageError, Value};

pub(super) const VERSION_BYTES: usize = 8;

/// Name of a space's column family.
pub(super) fn name(space: Space) -> &'static str {
    match space {
        Space::Items => "items",
        Space::Index => "index",
        Space::Feed => "feed",
        Space::Ttl => "ttl",
        Space::Meta => "meta",
    }
}

/// What the store itself knows of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) epoch: Epoch,
    pub(super) lsn: Lsn,
    /// A closed shard reads back as an open one: whoever has closed it ended with the process.
    pub(super) state: ShardState,
}

/// An epoch has the bytes below that of the state.
const EPOCH_MASK: u64 = u64::MAX >> 8;

impl Header {
    pub(super) fn encode(self) -> [u8; 16] {
        let state = match self.state {
            ShardState::Open | ShardState::Closed => 0,
            ShardState::Building => 1,
            ShardState::Dropped => 2,
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(self.epoch.0 & EPOCH_MASK).to_be_bytes());
        bytes[0] = state;
        bytes[8..].copy_from_slice(&self.lsn.0.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StorageError> {
        let words = bytes.split_first_chunk::<8>().and_then(|(epoch, lsn)| {
            Some((u64::from_be_bytes(*epoch), u64::from_be_bytes(lsn.try_into().ok()?)))
        });
        let (epoch, lsn) = words.ok_or_else(|| corrupt("a shard header"))?;
        let state = match epoch >> 56 {
            0 => ShardState::Open,
            1 => ShardState::Building,
            2 => ShardState::Dropped,
            _ => return Err(corrupt("the state in a shard header")),
        };
        Ok(Self { epoch: Epoch(epoch & EPOCH_MASK), lsn: Lsn(lsn), state })
    }
}

pub(super) fn header_key(shard: ShardId) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&SHARD_RESERVED.0.to_be_bytes());
    key[4..].copy_from_slice(&shard.0.to_be_bytes());
    key
}

/// Bounds of all header keys.
pub(super) fn header_bounds() -> ([u8; 8], [u8; 8]) {
    (header_key(ShardId(0)), header_key(SHARD_RESERVED))
}

/// The shard that a header key names.
pub(super) fn header_shard(key: &[u8]) -> Result<ShardId, StorageError> {
    let shard = key.strip_prefix(&SHARD_RESERVED.0.to_be_bytes());
    let shard = shard.and_then(|bytes| bytes.try_into().ok());
    shard.map(|b| ShardId(u32::from_be_bytes(b))).ok_or_else(|| corrupt("a shard header's key"))
}

/// Bounds of everything in a shard.
pub(super) fn shard_bounds(shard: ShardId) -> ([u8; 4], [u8; 4]) {
    assert!(shard != SHARD_RESERVED, "no shard has the reserved number");
    (shard.0.to_be_bytes(), (shard.0 + 1).to_be_bytes())
}

pub(super) fn key(shard: ShardId, key: &[u8]) -> Vec<u8> {
    let mut physical = Vec::with_capacity(4 + key.len());
    write_key(shard, key, &mut physical);
    physical
}

/// Replaces `out` with the physical key; one buffer serves a whole batch.
pub(super) fn write_key(shard: ShardId, key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend(shard.0.to_be_bytes());
    out.extend_from_slice(key);
}

/// The key within the shard.
pub(super) fn logical(key: &[u8]) -> &[u8] {
    key.get(4..).expect("bounds hold every scan within keys of a shard")
}

/// Replaces `out` with the stored form of a value.
pub(super) fn write_value(space: Space, lsn: Lsn, value: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if space.is_versioned() {
        out.extend(lsn.0.to_be_bytes());
    }
    out.extend_from_slice(value);
}

/// The version of a stored value.
pub(super) fn version(space: Space, stored: &[u8]) -> Result<Lsn, StorageError> {
    split(space, stored).map(|(version, _)| version)
}

/// A stored value, copied once.
pub(super) fn value(space: Space, stored: &[u8]) -> Result<Value, StorageError> {
    split(space, stored)
        .map(|(version, bytes)| Value { version, bytes: Bytes::copy_from_slice(bytes) })
}

fn split(space: Space, stored: &[u8]) -> Result<(Lsn, &[u8]), StorageError> {
    if !space.is_versioned() {
        return Ok((Lsn(0), stored));
    }
    let (version, bytes) =
        stored.split_first_chunk::<VERSION_BYTES>().ok_or_else(|| corrupt("a version"))?;
    Ok((Lsn(u64::from_be_bytes(*version)), bytes))
}

fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt(format!("{what} is malformed").into())
}
