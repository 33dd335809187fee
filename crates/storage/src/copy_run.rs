//! Sorted entries on their way into a shard that nobody reads yet. An engine that can make table files
//! of them spares itself what random writes cost: memory, log, and compactions later.

use orrery_types::ShardId;

use crate::{Copied, CopyLog, Space, StorageError, Store, Value};

/// A run of entries of one space. Dropped before its end, it leaves nothing.
pub trait CopyRun {
    /// Adds an entry; its key comes after all that were added before.
    fn add(&mut self, key: &[u8], value: &Value) -> Result<(), StorageError>;

    /// Puts the entries into the shard.
    fn finish(self: Box<Self>) -> Result<(), StorageError>;
}

/// Bytes that are gathered before they are copied.
const GATHERED_BYTES: usize = 1024 * 1024;

/// A run for stores that have no better way than [`Store::copy_into`].
pub struct GatheredRun<'s> {
    store: &'s dyn Store,
    shard: ShardId,
    space: Space,
    entries: Vec<Copied>,
    bytes: usize,
}

impl<'s> GatheredRun<'s> {
    /// A run without entries.
    pub fn new(store: &'s dyn Store, shard: ShardId, space: Space) -> Self {
        Self { store, shard, space, entries: Vec::new(), bytes: 0 }
    }

    fn copy(&mut self) -> Result<(), StorageError> {
        self.bytes = 0;
        self.store.copy_into(self.shard, &std::mem::take(&mut self.entries), CopyLog::None)
    }
}

impl CopyRun for GatheredRun<'_> {
    fn add(&mut self, key: &[u8], value: &Value) -> Result<(), StorageError> {
        let entry = Copied { space: self.space, key: key.to_vec(), value: Some(value.clone()) };
        self.bytes += entry.size_bytes();
        self.entries.push(entry);
        if self.bytes >= GATHERED_BYTES { self.copy() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.copy()
    }
}
