//! The write pipeline of a single item: read what is there, decide, make the after image, gather
//! everything that must change with it, and commit all of it at once. If another writer was
//! faster, the commit's checks fail, nothing was written, and it starts over.
//!
//! A caller that must not block prepares the first attempt with [`PointWrites::prepare`] and is
//! called back when it is durable; only what then has to start over needs a thread to wait on.

use std::cell::RefCell;

use orrery_storage::key::{self, Row};
use orrery_storage::{
    Commit, Committed, Part, Precondition, Put, Space, StorageError, Value as Stored,
};
use orrery_types::{Error, PartitionKey, Result};

use super::commit::item_part;
use super::locks::{LockGuard, LockMode};
use super::reads::ConflictReason;
use super::reads::ReadView;
use super::retry::{self, Attempt, RetryReason};
use super::state::{TransactionOptions, TransactionState};
use super::write_buffer::ItemEntry;
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::item::image::BeforeImage;
use crate::item::operation::ItemWrite;
use crate::item::read::Written;
use crate::maintain::index_terms::{Indexer, PathIdAllocation};
use crate::maintain::unique_keys::{UniqueKeyCheck, unique_holder, unique_keys_of};
use crate::model::{ModelContext, Purged};
use crate::{Container, Database, Engine};

type Answer = std::result::Result<Committed, StorageError>;

/// A write that is ready to be committed. It holds the lock of its logical partition.
pub struct PreparedWrite {
    commit: Commit,
    written: Written,
    lock: LockGuard,
}

/// The result of a prepared write's commit. Dropping it releases the lock.
pub struct CommitResult {
    answer: Answer,
    written: Written,
    follows: bool,
    _lock: LockGuard,
}

impl PreparedWrite {
    /// Commits it on the calling thread if no other commit is under way. The caller waits for a sync and
    /// for no other writer.
    pub fn try_commit(self, engine: &Engine) -> CommitAttempt {
        let Self { commit, written, lock } = self;
        let follows = follows_later(&commit);
        match engine.store.try_commit(commit) {
            Ok(answer) => {
                CommitAttempt::Complete(CommitResult { answer, written, follows, _lock: lock })
            }
            Err(commit) => CommitAttempt::Busy(Self { commit, written, lock }),
        }
    }
}

/// What became of a commit on the calling thread.
pub enum CommitAttempt {
    /// It was committed or refused.
    Complete(CommitResult),
    /// Another commit is under way, and nothing was written.
    Busy(PreparedWrite),
}

/// Writes of one item.
#[derive(Clone, Copy)]
pub struct PointWrites<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> PointWrites<'e> {
    /// Does it, and returns when it is durable.
    pub fn write(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        write: &ItemWrite,
    ) -> Result<Written> {
        self.engine
            .epochs()
            .retry_on_stale_epoch(container, &mut |now| self.write_under(now, partition_key, write))
    }

    /// The same under one definition.
    fn write_under(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        write: &ItemWrite,
    ) -> Result<Written> {
        retry::run(|attempt| {
            let at = write.locate(self.engine, container, partition_key)?;
            let lock = at.lock().acquire(LockMode::of_attempt(attempt));
            let escalation = self.engine.models().escalation_lock(attempt);
            let ids = RefCell::default();
            let path_ids = match attempt {
                0 => PathIdAllocation::WithCommit(&ids),
                _ => PathIdAllocation::Immediate,
            };
            let database = self.engine.models().database_of(container);
            let mut tx = self.single_write(container, database.as_deref(), &at, path_ids);
            let applied = apply_at(&mut tx, &at, write);
            let prepared = applied.and_then(|written| Ok((written, tx.assemble()?.into_commit())));
            let (written, (commit, unique)) = match prepared {
                Ok(prepared) => prepared,
                Err(Error::RetryWith) => {
                    return Ok(Attempt::Again(tx.doomed().map_or("waiting", RetryReason::text)));
                }
                Err(refusal) if tx.justifies(&refusal)? => return Err(refusal),
                Err(_) => return Ok(Attempt::Again(RetryReason::RefusalOutdated.text())),
            };
            let answer = self.commit_all(commit);
            drop((escalation, lock));
            match answer {
                Ok(committed) => Ok(Attempt::Done(conclude(&committed, written))),
                Err(StorageError::Conflict(failed)) => {
                    // Anything else that another writer has changed is looked at again.
                    if let Some(unique) = unique.iter().find(|unique| unique.is(&failed)) {
                        self.resolve_unique(&tx, unique)?;
                    }
                    Ok(tx.after_conflict(&failed))
                }
                Err(error) => Err(storage(error)),
            }
        })
    }

    /// Prepares the first attempt at a write without waiting for anybody; `None` if somebody else
    /// has to be waited for, so that it must go through [`PointWrites::write`].
    pub fn prepare(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        write: &ItemWrite,
    ) -> Result<Option<PreparedWrite>> {
        let database = self.engine.models().database_of(container);
        let scope = ModelContext::of(database.as_deref(), container);
        if scope.is_some_and(|scope| !scope.is_light(container)) {
            return Ok(None);
        }
        let at = write.locate(self.engine, container, partition_key)?;
        let Some(lock) = at.lock().try_shared() else { return Ok(None) };
        // Under the lock: a model takes over while it holds all of them.
        let database = self.engine.models().database_of(container);
        let path_ids = PathIdAllocation::LookupOnly;
        let mut tx = self.single_write(container, database.as_deref(), &at, path_ids);
        let applied = apply_at(&mut tx, &at, write);
        match applied.and_then(|written| Ok((written, tx.assemble()?.into_commit().0))) {
            Ok((written, commit)) => Ok(Some(PreparedWrite { commit, written, lock })),
            // A path of the item has no number yet, or the definition has changed.
            Err(Error::RetryWith | Error::PartitionGone) => Ok(None),
            // It must be validated first, which waits.
            Err(_) if !tx.is_of_one_instant() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Commits a prepared write; `done` is called once, when it is durable or refused.
    pub fn submit(self, prepared: PreparedWrite, done: impl FnOnce(CommitResult) + Send + 'static) {
        let PreparedWrite { commit, written, lock } = prepared;
        let follows = follows_later(&commit);
        let answered = move |answer| done(CommitResult { answer, written, follows, _lock: lock });
        self.engine.store.submit(commit, Box::new(answered));
    }

    /// What came of a submitted write; `None` if another writer or a new definition was faster:
    /// nothing was written,
    /// and it must go through [`PointWrites::write`].
    pub fn finish(self, result: CommitResult) -> Result<Option<Written>> {
        match result.answer {
            Ok(committed) => {
                if result.follows {
                    self.engine.model_locks.wake();
                }
                Ok(Some(conclude(&committed, result.written)))
            }
            Err(StorageError::Conflict(_) | StorageError::Gone { .. }) => Ok(None),
            Err(error) => Err(storage(error)),
        }
    }

    /// Commits, and tells who does it if something is to follow later.
    pub(crate) fn commit_all(self, commit: Commit) -> Answer {
        let follows = follows_later(&commit);
        let answer = self.engine.store.commit(commit);
        if follows && answer.is_ok() {
            self.engine.model_locks.wake();
        }
        answer
    }

    /// The transaction of one write, under the model of its database if that has one.
    fn single_write(
        self,
        container: &'e Container,
        database: Option<&'e Database>,
        at: &ItemKey<'e>,
        path_ids: PathIdAllocation<'e>,
    ) -> TransactionState<'e> {
        let view = ReadView::latest(self.engine);
        let model = ModelContext::of(database, container);
        let options = TransactionOptions { path_ids, model, ..TransactionOptions::default() };
        TransactionState::new(self.engine, container, at.partition, view, options)
    }

    /// A unique key is taken. If a hidden item holds it, that item is removed now and the write
    /// may try again; else the write is refused, if everything still is as it has read it.
    fn resolve_unique(self, tx: &TransactionState<'_>, unique: &UniqueKeyCheck<'_>) -> Result<()> {
        let (container, partition) = (unique.container, unique.entry.at.partition);
        let get = |space, key: &[u8]| {
            self.engine
                .store
                .get(partition.shard, space, key)
                .map_err(storage)
                .map(|(_, value)| value)
        };
        let Some(holder) = get(Space::Index, &unique.key)? else { return Ok(()) };
        let row: Row = unique_holder(&holder.bytes)?;
        {
            let _schema = self.engine.model_locks.schema_shared();
            if self.engine.expiry_sweep().purge_hidden_row(container, partition, row)? {
                return Ok(());
            }
        }
        if !tx.is_of_one_instant() {
            let Some(key) = get(Space::Items, &key::row(row))? else { return Ok(()) };
            let Some(held) = get(Space::Items, &key.bytes)? else { return Ok(()) };
            let (space, lsn) = (Space::Items, held.version);
            let mut part = Part::new(partition.shard, partition.epoch);
            part.preconditions.push(Precondition::Version { space, key: key.bytes.into(), lsn });
            if !holds_key(unique, held)? || !tx.validate(Some(part))? {
                return Ok(());
            }
        }
        Err(unique.violation())
    }

    /// Removes an item if it is hidden; whether it is gone afterwards.
    pub(crate) fn purge_hidden(self, container: &Container, at: &ItemKey<'_>) -> Result<bool> {
        if self.engine.models().is_modelled(container) {
            return Ok(matches!(
                self.engine.expiry_sweep().purge_modelled(container, at)?,
                Purged::Gone
            ));
        }
        let Some(before) = self.before(at)? else { return Ok(true) };
        let Some(part) = self.removal_of_hidden(container, at, before)? else {
            return Ok(false);
        };
        match self.engine.store.commit(Commit::new(vec![part])) {
            // A conflict means that somebody wrote or removed it: the caller looks again.
            Ok(_) | Err(StorageError::Conflict(_)) => Ok(true),
            Err(error) => Err(storage(error)),
        }
    }

    /// The writes that remove an item with everything beside it, if it is hidden.
    pub(crate) fn removal_of_hidden(
        self,
        container: &Container,
        at: &ItemKey<'_>,
        before: BeforeImage,
    ) -> Result<Option<Part>> {
        if !self.engine.items().is_hidden(container, &at.key, before.version, &before.header) {
            return Ok(None);
        }
        let entry = ItemEntry::removed(at.clone(), before);
        let (store, partition) = (&*self.engine.store, at.partition);
        let path_ids = PathIdAllocation::Immediate;
        let indexer = Indexer { store, container, partition, path_ids };
        item_part(self.engine, &indexer, &[&entry]).map(|(part, _)| Some(part))
    }

    fn before(self, at: &ItemKey<'_>) -> Result<Option<BeforeImage>> {
        let shard = at.partition.shard;
        let (_, value) = self.engine.store.get(shard, Space::Items, &at.key).map_err(storage)?;
        value.map(BeforeImage::read).transpose()
    }
}

/// Applies a write. If it names its item by rid, the item must still have the key that was found for it.
fn apply_at<'e>(
    tx: &mut TransactionState<'e>,
    at: &ItemKey<'e>,
    write: &ItemWrite,
) -> Result<Written> {
    if let Some(row) = write.row()?
        && tx.key_of_row(row)? != at.key
    {
        return Err(tx.run_again(RetryReason::Conflict(ConflictReason::RowMoved)));
    }
    tx.apply(at, write)
}

/// Whether a stored item has a unique key.
fn holds_key(unique: &UniqueKeyCheck<'_>, held: Stored) -> Result<bool> {
    let before = BeforeImage::read(held)?;
    let keys = unique_keys_of(unique.container, &unique.entry.at.partition_key, before.value()?);
    Ok(keys.contains(&unique.key))
}

/// Whether something is to follow from a commit later, by the model of a database.
fn follows_later(commit: &Commit) -> bool {
    let due = key::all_due();
    let is_due = |put: &Put| put.space == Space::Meta && put.key.starts_with(&due.from);
    commit.parts.iter().flat_map(|part| &part.puts).any(is_due)
}

/// What was written, with the LSN of its commit.
fn conclude(committed: &Committed, mut written: Written) -> Written {
    let lsn = committed.lsns.first().copied().unwrap_or_default();
    written.place.lsn = lsn;
    written.place.item_lsn = lsn;
    written
}
