//! The write path, and the concurrency control of all writers: optimistic concurrency control with backward
//! validation at a single commit point.
//!
//! ```text
//! lock stripe (shared) ─▶ definition, model ─▶ reads, decisions, buffer ─▶ commit{epoch, preconditions, writes}
//!                                                                           │ group commit: epoch? state? every precondition?
//!    conflict: nothing was written, run again (from the 5th exclusive)    ◀┤ no
//!                                                                           ▼ yes: LSN ─▶ batch ─▶ sync ─▶ publish ─▶ answer ─▶ unlock
//! ```
//!
//! **Isolation.** A transaction is strictly serializable within its logical partition, a distributed one
//! (`distributed`) within all that it names: a commit whose preconditions hold is as if the whole transaction had run at that instant, so the serial order is the
//! commit order. What a model derives from it in other partitions is the same commit. A transaction that
//! wrote nothing has read one snapshot.
//!
//! **Read view** (`reads`). A single write reads the newest values; a batch, a procedure, a write with
//! triggers and bulk read the home shard from one snapshot, with their own writes over it (`overlay`), and
//! other shards newest; a distributed transaction reads all shards that it names from snapshots of one
//! instant, and its home shard is that of the operation at hand; verification reads a snapshot of the whole database. The statement time is fixed
//! when the view is opened, and judges which items have expired.
//!
//! **Read set** (`reads`, and the before images in the buffer). Every item and every key that a decision
//! rests on is a precondition of the commit, by its version or by its absence, also those that were only
//! read: so there is no write skew.
//!
//! **Write set** (`write_buffer`). Items and keys of any number of shards in one flat buffer. Each operation
//! has a savepoint; a refused operation is rolled back by the undo log, and its reads stay in the read set.
//!
//! **Validation** is the store's: it tests the preconditions of commits one after another, and a commit with
//! a failed one writes nothing. A refusal has no commit: if it rests on reads of several instants, the
//! read set is validated by a commit without writes before the refusal is returned. Of a deletion that
//! `restrict` refuses, the read set keeps one referrer and what led to it (`retry::RefusalBasis`).
//!
//! **Locks** (`locks`). A writer holds the stripe of its logical partition shared, from before its first read
//! until the answer. *Escalation*: after four conflicts it takes the stripe exclusively and the engine's
//! escalation lock, so it cannot starve. Erasures, a new model and the cutover of a split take stripes
//! exclusively too. Lock order: catalog, schema lock, stripes in the order of partitions, escalation lock.
//!
//! **Phantoms.** A precondition protects a key, not a gap between keys. A transaction that reads a range of
//! its logical partition takes the stripe exclusively, on a new snapshot, and requires the stripe unchanged
//! since then, because derived writes of other transactions hold no lock there. Ranges of references and
//! of extremes have a guard beside the target, which every new reference writes.
//!
//! **Unique keys** (`maintain/unique_keys`) are index entries that the commit requires to be absent; a
//! transaction also looks at them after each operation, so that the right operation is refused.
//!
//! **Retries** (`retry`). One loop: a conflict, a missing exclusive lock, a hidden holder of a unique key and
//! an outdated refusal run the work again, up to 50 times; then the sender is told to retry. A stale epoch
//! reloads the definition first (`partition/epoch`). An unknown outcome is never retried.
//!
//! **A commit** (`commit`) has one part for each shard: its epoch, the preconditions, and the writes of all
//! maintainers (`maintain`): record, row, expiry entry, feed entry, index terms, versions, unique keys, and
//! under a model references, tallies, copies and whatever else follows.

pub mod batch;
pub mod bulk;
pub mod bulk_load;
pub(crate) mod commit;
pub mod distributed;
pub(crate) mod key_entries;
pub(crate) mod locks;
pub(crate) mod outcomes;
mod overlay;
pub mod point_write;
pub(crate) mod reads;
pub(crate) mod retry;
pub(crate) mod state;
pub(crate) mod write_buffer;

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use orrery_storage::{StorageError, key};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, PartitionKey, Result, limits};

use self::locks::{LockGuard, LockMode, StripeLock, stripe_of};
use self::overlay::{OverlaidItem, OverlaySource};
use self::reads::ReadView;
use self::retry::{Attempt, RetryReason};
use self::state::{TransactionOptions, TransactionState};
use self::write_buffer::ItemEntry;
use crate::catalog::resource::Preconditions;
use crate::catalog::resource::Stamp;
use crate::error::storage;
use crate::item::address::{ItemKey, complete_key, item_row};
use crate::item::image::CurrentImage;
use crate::item::operation::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::patch::Patch;
use crate::item::read::{CommitPosition, ItemRead, Written};
use crate::maintain::index_terms::PathIdAllocation;
use crate::maintain::unique_keys::UniqueClaims;
use crate::model::ModelContext;
use crate::partition::PhysicalPartition;
use crate::query::continuation;
use crate::query::read_feed::{ItemPage, PageSize};
use crate::query::{QueryPage, QueryRequest};
use crate::throughput::charge;
use crate::{Container, Engine};

/// What a transaction came to.
#[derive(Clone, Debug)]
pub struct Transacted<T> {
    /// What its work returned.
    pub value: T,
    /// Where it committed, or what it read if it wrote nothing.
    pub place: CommitPosition,
    /// The charge of all its operations.
    pub charge: f64,
}

/// A transaction while its work runs.
pub struct Transaction<'e> {
    tx: TransactionState<'e>,
    partition_key: PartitionKey,
    stripe: &'e Arc<StripeLock>,
    lock_mode: LockMode,
    lock: Option<LockGuard>,
    /// Locks of the logical partitions that it works on together, if there are several: then it never
    /// waits for a lock.
    together: Vec<LockGuard>,
    lsn: Lsn,
    charge: f64,
}

/// Transactions of several operations.
#[derive(Clone, Copy)]
pub struct Transactions<'e> {
    pub(crate) engine: &'e Engine,
}

impl Transactions<'_> {
    /// Runs `work` in a transaction of one logical partition and commits what it did; an error
    /// of the work undoes all of it. The work may run several times.
    pub fn transact<T>(
        self,
        container: &Container,
        partition_key: &PartitionKey,
        work: &mut dyn FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Transacted<T>> {
        self.engine.epochs().retry_on_stale_epoch(container, &mut |now| {
            self.transact_under(now, partition_key, work)
        })
    }

    /// The same under one definition.
    fn transact_under<T>(
        self,
        container: &Container,
        partition_key: &PartitionKey,
        work: &mut dyn FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Transacted<T>> {
        let key = complete_key(container, partition_key)?;
        let effective = container.definition.partition_key.effective(&key);
        let partition = container.partition_of(&effective)?;
        let (mut exclusive, mut kept) = (false, vec![]);
        retry::run(|attempt| {
            let lock_mode =
                if exclusive { LockMode::Exclusive } else { LockMode::of_attempt(attempt) };
            let lock = partition.locks.stripe(&key.to_canonical()).acquire(lock_mode);
            // Before the snapshot: the last holder may have changed what is read.
            let escalation = self.engine.models().escalation_lock(attempt);
            // Under the lock: a model takes over while it holds all of them.
            let (database, ids) = (self.engine.models().database_of(container), RefCell::default());
            let path_ids = match attempt {
                0 => PathIdAllocation::WithCommit(&ids),
                _ => PathIdAllocation::Immediate,
            };
            let options = TransactionOptions {
                path_ids,
                claims: Some(UniqueClaims::new(kept.clone())),
                model: ModelContext::of(database.as_deref(), container),
                relaxed: false,
            };
            let mut transaction =
                Transaction::begin(self.engine, container, partition, &key, options)?;
            (transaction.lock, transaction.lock_mode) = (Some(lock), lock_mode);
            let result = work(&mut transaction);
            if let Some(reason) = transaction.tx.doomed() {
                exclusive |= matches!(reason, RetryReason::NeedsExclusiveLock);
                drop((transaction, escalation));
                kept.extend(self.before_retry(reason)?);
                return Ok(Attempt::Again(reason.text()));
            }
            let charge = transaction.charge;
            match result {
                Ok(value) => Ok(match transaction.commit()? {
                    Attempt::Done(place) => Attempt::Done(Transacted { value, place, charge }),
                    Attempt::Again(reason) => Attempt::Again(reason),
                }),
                Err(refusal) if transaction.tx.justifies(&refusal)? => Err(refusal),
                Err(_) => Ok(Attempt::Again(RetryReason::RefusalOutdated.text())),
            }
        })
    }

    /// Runs `work` once in a transaction over logical partitions of one physical partition, whose
    /// locks are held and to which it turns one after the other. `None` if nothing was written,
    /// for whatever reason: each of them must go for itself then. An error if nobody knows.
    pub(crate) fn transact_together<T>(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        locks: Vec<LockGuard>,
        work: &mut dyn FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Option<Transacted<T>>> {
        let database = self.engine.models().database_of(container);
        if locks.is_empty() || ModelContext::of(database.as_deref(), container).is_some() {
            return Ok(None);
        }
        let ids = RefCell::default();
        let nowhere = PartitionKey::default();
        let path_ids = PathIdAllocation::WithCommit(&ids);
        let claims = Some(UniqueClaims::default());
        let options = TransactionOptions { path_ids, claims, ..TransactionOptions::default() };
        let transaction = Transaction::begin(self.engine, container, partition, &nowhere, options);
        let Ok(mut transaction) = transaction else { return Ok(None) };
        transaction.together = locks;
        let Ok(value) = work(&mut transaction) else { return Ok(None) };
        if transaction.tx.doomed().is_some() {
            return Ok(None);
        }
        let charge = transaction.charge;
        match transaction.commit() {
            Ok(Attempt::Done(place)) => Ok(Some(Transacted { value, place, charge })),
            Err(unknown @ Error::Unavailable(_)) => Err(unknown),
            Ok(Attempt::Again(_)) | Err(_) => Ok(None),
        }
    }
}

impl<'e> Transaction<'e> {
    /// Begins under locks that are held.
    fn begin(
        engine: &'e Engine,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        partition_key: &PartitionKey,
        options: TransactionOptions<'e>,
    ) -> Result<Self> {
        let (view, _) = ReadView::snapshot(engine, partition.shard)?;
        Ok(Self::over(engine, container, partition, partition_key, view, options))
    }

    /// Begins on a view of its shard, or of several.
    fn over(
        engine: &'e Engine,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        partition_key: &PartitionKey,
        view: ReadView<'e>,
        options: TransactionOptions<'e>,
    ) -> Self {
        let lsn = view.lsn_of(partition.shard).unwrap_or_default();
        Self {
            tx: TransactionState::new(engine, container, partition, view, options),
            partition_key: partition_key.clone(),
            stripe: partition.locks.stripe(&partition_key.to_canonical()),
            lock_mode: LockMode::Shared,
            lock: None,
            together: vec![],
            lsn,
            charge: 0.0,
        }
    }

    /// The container it works on.
    pub fn container(&self) -> &'e Container {
        self.tx.container()
    }

    /// The logical partition it works on.
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// Goes on with another logical partition, whose lock is held too.
    pub(crate) fn turn_to(&mut self, partition_key: &PartitionKey) {
        self.partition_key.clone_from(partition_key);
    }

    /// Goes on with another logical partition of any container, whose lock is held too.
    pub(crate) fn turn_to_container(
        &mut self,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        partition_key: &PartitionKey,
        model: Option<ModelContext<'e>>,
    ) {
        self.tx.turn_to(container, partition, model);
        self.turn_to(partition_key);
        self.stripe = partition.locks.stripe(&partition_key.to_canonical());
        self.lsn = self.tx.view().lsn_of(partition.shard).unwrap_or_default();
    }

    /// What its operations cost so far.
    pub fn charge(&self) -> f64 {
        self.charge
    }

    /// What is to be stored of a version that the transaction has written, if a model is about it.
    pub(crate) fn latest_text(&self, stamp: Stamp) -> Option<Bytes> {
        self.tx.options().model?;
        let entries = self.tx.home_shard().items().values();
        let mut written = entries.filter_map(|entry| entry.after());
        written.find(|after| after.stamp == stamp).map(|after| after.text.clone())
    }

    /// Reads one item.
    pub fn read(&mut self, item: &Address) -> Result<ItemRead> {
        let at = self.locate(item)?;
        self.tx.load(self.tx.home(), &at)?;
        let current = self.tx.current(self.tx.home(), &at.key).ok_or(Error::NotFound)?;
        let (body, stamp) = (current.text(), current.stamp());
        let item_lsn = match current {
            CurrentImage::Stored(before) => before.version,
            CurrentImage::Own(_) => Lsn(0),
        };
        let charge = charge::read(body.len());
        self.charge += charge;
        let place = CommitPosition { partition: self.tx.partition().id, lsn: self.lsn, item_lsn };
        Ok(ItemRead { body, stamp, place, charge })
    }

    /// Makes an item; an item with its id must not be there.
    pub fn create(&mut self, text: &[u8]) -> Result<Written> {
        self.write(&ItemWrite::Create(ItemBody::parse(self.tx.container(), text)?))
    }

    /// Makes an item or replaces the one with its id.
    pub fn upsert(&mut self, text: &[u8], conditions: &Preconditions) -> Result<Written> {
        let body = ItemBody::parse(self.tx.container(), text)?;
        self.write(&ItemWrite::Upsert(body, conditions.clone()))
    }

    /// Replaces an item that is there.
    pub fn replace(
        &mut self,
        item: &Address,
        text: &[u8],
        conditions: &Preconditions,
    ) -> Result<Written> {
        let body = ItemBody::parse(self.tx.container(), text)?;
        self.write(&ItemWrite::Replace(item.clone(), body, conditions.clone()))
    }

    /// Changes parts of an item that is there.
    pub fn patch(
        &mut self,
        item: &Address,
        patch: &Patch,
        conditions: &Preconditions,
    ) -> Result<Written> {
        self.write(&ItemWrite::Patch(item.clone(), patch.clone(), conditions.clone()))
    }

    /// Removes an item that is there.
    pub fn delete(&mut self, item: &Address, conditions: &Preconditions) -> Result<Written> {
        self.write(&ItemWrite::Delete(item.clone(), conditions.clone()))
    }

    /// Does one of the above. A refusal changes nothing: the transaction may go on.
    pub fn write(&mut self, write: &ItemWrite) -> Result<Written> {
        let container = self.tx.container();
        let at = match write {
            ItemWrite::Create(_) | ItemWrite::Upsert(..) => {
                write.locate(self.tx.engine, container, Some(&self.partition_key))?
            }
            ItemWrite::Replace(item, ..)
            | ItemWrite::Patch(item, ..)
            | ItemWrite::Delete(item, _) => {
                let at = self.locate(item)?;
                if let Err(mismatch) = write.check(container, &at) {
                    self.tx.load(self.tx.home(), &at)?;
                    let there = self.tx.current(self.tx.home(), &at.key).is_some();
                    return Err(if there { mismatch } else { Error::NotFound });
                }
                at
            }
        };
        let written = self.tx.apply(&at, write)?;
        self.charge += written.charge;
        Ok(written)
    }

    /// The place of an item, which may have been written by this transaction only.
    fn locate(&mut self, item: &Address) -> Result<ItemKey<'e>> {
        let container = self.tx.container();
        let Some(row) = item_row(item)? else {
            return self.tx.engine.items().locate(container, Some(&self.partition_key), item);
        };
        let has_row = |entry: &ItemEntry<'_>| entry.after().is_some_and(|after| after.row == row);
        let mut entries = self.tx.home_shard().items().values();
        if let Some(entry) = entries.find(|entry| has_row(entry)) {
            return Ok(entry.at.clone());
        }
        let key = self.tx.key_of_row(row)?;
        if self.tx.entry(self.tx.home(), &key).is_some_and(ItemEntry::is_written) {
            // The transaction has deleted it, and perhaps made another item with its id.
            return Err(Error::NotFound);
        }
        let id = key::parse_item(&key).ok_or_else(|| Error::internal("a row leads to no item"))?.id;
        let at = ItemKey::of(container, complete_key(container, &self.partition_key)?, id)?;
        // It is an item of another logical partition otherwise.
        if at.key == key { Ok(at) } else { Err(Error::NotFound) }
    }

    /// A page of the items of the logical partition.
    pub fn read_items(&mut self, size: PageSize, token: Option<&str>) -> Result<ItemPage> {
        self.read_range()?;
        let owner =
            format!("items of {} {}", self.container().rid(), self.partition_key.to_header());
        let resume = token.map(|t| continuation::decode(&owner, t)).transpose()?;
        let mut source = OverlaySource::new(&self.tx, &self.partition_key, resume.as_deref());
        let (mut items, mut last, mut bytes, mut more) = (Vec::new(), Vec::new(), 0, false);
        'page: loop {
            let batch = source.next_texts(size.items.saturating_add(1))?;
            if batch.is_empty() {
                break;
            }
            for OverlaidItem { key, text, .. } in batch {
                let over = bytes + text.len() > limits::PAGE_SIZE_BYTES_MAX;
                if items.len() >= size.items || (over && !items.is_empty()) {
                    more = true;
                    break 'page;
                }
                bytes += text.len();
                items.push(text);
                last = key;
            }
        }
        let charge = charge::feed(items.iter().map(bytes::Bytes::len));
        self.charge += charge;
        let continuation = more.then(|| continuation::encode(&owner, &last));
        let session_token = self.container().token(self.tx.partition().id, self.lsn);
        Ok(ItemPage { items, continuation, session_token, charge })
    }

    /// A page of a query over the logical partition, which shows the transaction's own writes.
    pub fn query(
        &mut self,
        request: &QueryRequest,
        size: PageSize,
        token: Option<&str>,
    ) -> Result<QueryPage> {
        self.read_range()?;
        let (engine, container) = (self.tx.engine, self.tx.container());
        let mut source = OverlaySource::new(&self.tx, &self.partition_key, None);
        let owner = format!("query of {} {}", container.rid(), self.partition_key.to_header());
        let mut page =
            engine.queries().query_source(container, request, &mut source, size, &owner, token)?;
        page.session_token = container.token(self.tx.partition().id, self.lsn);
        self.charge += page.charge;
        Ok(page)
    }

    /// Before a range is read. What follows from writes elsewhere holds no lock here: the commit checks
    /// that none of it has come into the logical partition since the snapshot.
    fn read_range(&mut self) -> Result<()> {
        self.lock_exclusively()?;
        self.tx.reads.add_range(stripe_of(&self.partition_key.to_canonical()), self.lsn);
        Ok(())
    }

    /// Takes the exclusive lock, so that nobody else writes to the logical partition from now on. A
    /// transaction that has read nothing yet takes a new snapshot; one that has must start over.
    fn lock_exclusively(&mut self) -> Result<()> {
        if self.lock_mode == LockMode::Exclusive {
            return Ok(());
        }
        let home = self.tx.home_shard();
        let has_read = !home.items().is_empty() || !self.tx.reads.is_empty();
        if has_read || !self.together.is_empty() {
            return Err(self.tx.run_again(RetryReason::NeedsExclusiveLock));
        }
        drop(self.lock.take());
        self.lock = Some(self.stripe.acquire(LockMode::Exclusive));
        self.lock_mode = LockMode::Exclusive;
        if self.tx.engine.models().has_changed(self.tx.container(), self.tx.options().model) {
            return Err(self.tx.run_again(RetryReason::NeedsExclusiveLock));
        }
        let (view, lsn) = ReadView::snapshot(self.tx.engine, self.tx.partition().shard)?;
        self.tx.set_view(view);
        self.lsn = lsn;
        Ok(())
    }

    /// Commits, unless another writer was faster. A transaction that wrote nothing has read
    /// one snapshot and needs no commit, unless refused writes have looked elsewhere.
    fn commit(self) -> Result<Attempt<CommitPosition>> {
        let partition = self.tx.partition().id;
        let engine = self.tx.engine;
        if self.tx.writes.written_at_first() == 0 {
            let holds = self.tx.is_of_one_instant() || self.tx.validate(None)?;
            let place = CommitPosition { partition, lsn: self.lsn, item_lsn: self.lsn };
            let outdated = Attempt::Again(RetryReason::RefusalOutdated.text());
            return Ok(if holds { Attempt::Done(place) } else { outdated });
        }
        let (commit, _) = self.tx.assemble()?.into_commit();
        match engine.point_writes().commit_all(commit) {
            Ok(committed) => {
                let lsn = committed.lsns.first().copied().unwrap_or_default();
                Ok(Attempt::Done(CommitPosition { partition, lsn, item_lsn: lsn }))
            }
            Err(StorageError::Conflict(failed)) => Ok(self.tx.after_conflict(&failed)),
            Err(error) => Err(storage(error)),
        }
    }
}

#[cfg(test)]
mod tests;
