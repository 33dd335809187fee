//! A copy of a whole store that somebody else makes while the store is used: the side that is read.
//!
//! ```text
//! begin                 journals of all shards
//! entries … entries     keys in order, each page as of now
//! changes … changes     what commits did meanwhile; new shards, which are then read as well
//! close                 no shard takes commits any more
//! changes … nothing     the copy is equal to the store
//! ```
//!
//! A page is newer than the changes that were asked for before it, and older than those that are asked for after it. Whoever
//! writes them down in the order in which they came, ends with the state of the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use orrery_types::limits::{COPY_JOURNAL_BYTES_MAX, STORE_COPY_PAGE_BYTES, STORE_COPY_PAGE_ROWS};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::copy_batch::CopyBatch;
use crate::key;
use crate::{
    Commit, Copied, Head, HeadChange, Journal, JournalError, Part, ReadAt, Scan, ShardState, Space,
    StorageError, Store, Value,
};

/// How often closing begins anew because a definition changed meanwhile.
const CLOSE_ATTEMPTS: usize = 32;

/// Why a copy cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingCopyError {
    /// The store.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// More was written than a journal holds: the copy was not read fast enough.
    #[error("more was written than the journal of shard {} holds", .0.0)]
    Overflown(ShardId),
}

/// A copy that is being read.
pub struct OutgoingCopy {
    store: Arc<dyn Store>,
    journals: BTreeMap<ShardId, Arc<dyn Journal>>,
    /// Changes that were taken from the journals and not asked for yet.
    pending: VecDeque<(ShardId, Copied)>,
    closed: Vec<(ShardId, Epoch)>,
}

impl OutgoingCopy {
    /// Begins the journals of all shards. [`StorageError::JournalInUse`] while one of them is split or merged, or copied
    /// by somebody else.
    pub fn begin(store: Arc<dyn Store>) -> Result<Self, OutgoingCopyError> {
        let (journals, pending, closed) = (BTreeMap::new(), VecDeque::new(), vec![]);
        let mut copy = Self { store, journals, pending, closed };
        copy.follow_shards()?;
        Ok(copy)
    }

    /// Begins journals of shards that are new, and ends those of shards that are gone. A shard that is still being made has
    /// no name yet, and no commits.
    fn follow_shards(&mut self) -> Result<Vec<(ShardId, Head)>, OutgoingCopyError> {
        let mut heads = self.store.shards()?;
        heads.retain(|(_, head)| matches!(head.state, ShardState::Open | ShardState::Closed));
        self.journals.retain(|shard, _| heads.iter().any(|(other, _)| other == shard));
        for (shard, _) in &heads {
            if !self.journals.contains_key(shard) {
                match self.store.journal(*shard, COPY_JOURNAL_BYTES_MAX) {
                    Ok(journal) => drop(self.journals.insert(*shard, journal)),
                    // Dropped since the heads were read.
                    Err(StorageError::Gone { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(heads)
    }

    /// The entries of a space from a key on, a bounded number of them; none behind the last.
    pub fn entries(
        &self,
        shard: ShardId,
        space: Space,
        from: &[u8],
    ) -> Result<Vec<Copied>, OutgoingCopyError> {
        Ok(read_entries(&*self.store, shard, space, from)?)
    }

    /// What commits did since the last call, a bounded part of it, and the shards there are. Nothing is left once
    /// it returns no entries and the store is closed.
    pub fn changes(&mut self) -> Result<CopyBatch, OutgoingCopyError> {
        let heads = self.follow_shards()?;
        if self.pending.is_empty() {
            for (shard, journal) in &self.journals {
                match journal.take() {
                    Ok(taken) => {
                        let changes = taken.into_iter().map(|change| (*shard, change));
                        self.pending.extend(changes);
                    }
                    // Dropped since the heads were read: those of the next call lack it.
                    Err(JournalError::Failed(StorageError::Gone { .. })) => {}
                    Err(JournalError::Failed(error)) => return Err(error.into()),
                    Err(JournalError::Overflown) => {
                        return Err(OutgoingCopyError::Overflown(*shard));
                    }
                }
            }
        }
        let (mut entries, mut bytes) = (vec![], 0);
        while bytes < STORE_COPY_PAGE_BYTES
            && let Some((shard, change)) = self.pending.pop_front()
        {
            bytes += change.size_bytes();
            entries.push((shard, change));
        }
        Ok(CopyBatch { heads, entries })
    }

    /// What keys have now, as of one instant for each shard.
    pub fn values(
        &self,
        keys: &[(ShardId, Copied)],
    ) -> Result<Vec<(ShardId, Copied)>, OutgoingCopyError> {
        Ok(read_values(&*self.store, keys)?)
    }

    /// Ends writing: no shard takes commits from now on, and all that were answered are among the changes.
    pub fn close(&mut self) -> Result<(), OutgoingCopyError> {
        for _ in 0..CLOSE_ATTEMPTS {
            let heads = self.follow_shards()?;
            let open = heads.into_iter().filter(|(_, head)| head.state == ShardState::Open);
            let open: Vec<_> = open.map(|(shard, head)| (shard, head.epoch)).collect();
            if open.is_empty() {
                return Ok(());
            }
            match self.change_states(&open, ShardState::Open, ShardState::Closed) {
                // A container may have been made meanwhile; without the system shard it was the last one.
                Ok(()) => self.closed.extend(open),
                // A definition or a layout was changed meanwhile.
                Err(StorageError::Gone { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StorageError::Io("the shards of the store change all the time".into()).into())
    }

    /// Takes back [`OutgoingCopy::close`].
    pub fn reopen(&mut self) -> Result<(), OutgoingCopyError> {
        let closed = std::mem::take(&mut self.closed);
        if !closed.is_empty() {
            self.change_states(&closed, ShardState::Closed, ShardState::Open)?;
        }
        Ok(())
    }

    fn change_states(
        &self,
        shards: &[(ShardId, Epoch)],
        from: ShardState,
        to: ShardState,
    ) -> Result<(), StorageError> {
        let part = |(shard, epoch): &(ShardId, Epoch)| {
            Part::of_head(*shard, *epoch, HeadChange::state(from, to, *epoch))
        };
        self.store.commit(Commit::new(shards.iter().map(part).collect())).map(drop)
    }
}

/// A bounded number of entries of a space from a key on; none behind the last.
pub fn read_entries(
    store: &dyn Store,
    shard: ShardId,
    space: Space,
    from: &[u8],
) -> Result<Vec<Copied>, StorageError> {
    let view = store.snapshot(shard, ReadAt::Latest)?;
    let (reverse, keys_only, to) = (false, false, key::END);
    let (max_rows, max_bytes) = (STORE_COPY_PAGE_ROWS, STORE_COPY_PAGE_BYTES);
    let scan = Scan { space, from, to, reverse, max_rows, max_bytes, keys_only };
    let copied = |entry: crate::Entry| {
        let version = if space.is_versioned() { entry.value.version } else { Lsn(0) };
        Copied { space, key: entry.key, value: Some(Value { version, ..entry.value }) }
    };
    Ok(view.scan(&scan)?.into_iter().map(copied).collect())
}

/// What keys have now, as of one instant for each shard.
pub fn read_values(
    store: &dyn Store,
    keys: &[(ShardId, Copied)],
) -> Result<Vec<(ShardId, Copied)>, StorageError> {
    let mut found = Vec::with_capacity(keys.len());
    for of_shard in keys.chunk_by(|a, b| a.0 == b.0) {
        let Some((shard, _)) = of_shard.first() else { continue };
        let view = store.snapshot(*shard, ReadAt::Latest)?;
        for of_space in of_shard.chunk_by(|a, b| a.1.space == b.1.space) {
            let Some((_, first)) = of_space.first() else { continue };
            let names: Vec<&[u8]> = of_space.iter().map(|(_, entry)| &entry.key[..]).collect();
            let values = view.get_many(first.space, &names)?;
            for ((_, entry), value) in of_space.iter().zip(values) {
                let version =
                    |value: Value| if entry.space.is_versioned() { value.version } else { Lsn(0) };
                let value = value.map(|value| Value { version: version(value.clone()), ..value });
                let copied = Copied { space: entry.space, key: entry.key.clone(), value };
                found.push((*shard, copied));
            }
        }
    }
    Ok(found)
}
