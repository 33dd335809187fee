//! Copies sorted entries into a shard that nobody reads yet. An engine that can write table files avoids
//! what random writes cost: memory, log, and compactions later.

use orrery_types::ShardId;

use crate::{Copied, Space, StorageError, Store, Value};

/// A run of sorted entries of one space. Dropped before its end, it may leave some of them.
pub trait CopyRun {
    /// Adds an entry; its key comes after all that were added before.
    fn add(&mut self, key: &[u8], value: &Value) -> Result<(), StorageError>;

    /// Puts the entries into the shard.
    fn finish(self: Box<Self>) -> Result<(), StorageError>;
}

/// Begins a run into a shard that has had no commit, by the best way that the store has.
pub fn copy_run(
    store: &dyn Store,
    shard: ShardId,
    space: Space,
) -> Result<Box<dyn CopyRun + '_>, StorageError> {
    if let Some(embedded) = store.embedded() {
        return embedded.copy_run(shard, space);
    }
    store.copy_into(shard, &[])?;
    Ok(Box::new(BufferedRun::new(store, shard, space)))
}

/// Bytes that are collected before they are copied.
const BUFFER_BYTES: usize = 1024 * 1024;

/// A run that works on any store, by [`Store::copy_into`].
pub struct BufferedRun<'s> {
    store: &'s dyn Store,
    shard: ShardId,
    space: Space,
    entries: Vec<Copied>,
    bytes: usize,
}

impl<'s> BufferedRun<'s> {
    /// A run without entries.
    pub fn new(store: &'s dyn Store, shard: ShardId, space: Space) -> Self {
        Self { store, shard, space, entries: Vec::new(), bytes: 0 }
    }

    fn copy(&mut self) -> Result<(), StorageError> {
        self.bytes = 0;
        self.store.copy_into(self.shard, &std::mem::take(&mut self.entries))
    }
}

impl CopyRun for BufferedRun<'_> {
    fn add(&mut self, key: &[u8], value: &Value) -> Result<(), StorageError> {
        let entry = Copied { space: self.space, key: key.to_vec(), value: Some(value.clone()) };
        self.bytes += entry.size_bytes();
        self.entries.push(entry);
        if self.bytes >= BUFFER_BYTES { self.copy() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.copy()
    }
}
