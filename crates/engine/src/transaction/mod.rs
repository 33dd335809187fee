//! Several reads and writes of one logical partition that happen together or not at all. Reads
//! come from one snapshot with the transaction's own writes over it; what was read is checked when
//! it commits. If another writer was faster, nothing was written and the work runs again, on a new
//! snapshot: its caller has seen nothing of the first run.
//!
//! A check can watch over an item, not over what is missing from a range. So a transaction that
//! reads a range, by a query or a feed, takes the lock of its logical partition exclusively and holds
//! it until it ends.

pub mod batch;
pub mod bulk;
pub mod bulk_load;
pub(crate) mod commit;
pub(crate) mod database_snapshot;
mod derived_writes;
pub(crate) mod key_entries;
pub(crate) mod locks;
mod overlay;
pub mod point_write;
mod read_set;
pub(crate) mod write_buffer;

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use orrery_storage::key::{self, Row};
use orrery_storage::{ReadAt, StorageError};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, PartitionKey, Result, ShardId, limits};

use crate::catalog::resource::Preconditions;
use crate::error::storage;
use crate::item::address::{ItemKey, complete_key, item_row};
use crate::item::body::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::patch::Patch;
use crate::item::read::{ItemRead, Place, Written};
use crate::maintain::index_terms::PathIdAllocation;
use crate::maintain::unique_keys::{Unblock, UniqueClaims};
use crate::model::ModelContext;
use crate::partition::PhysicalPartition;
use crate::query::continuation;
use crate::query::read_feed::{ItemPage, PageSize};
use crate::query::{QueryPage, QueryRequest};
use crate::stamp::Stamp;
use crate::throughput::charge;
use crate::transaction::commit::{CurrentImage, ItemEntry};
use crate::transaction::locks::{LockGuard, LockMode, StripeLock, stripe_of};
use crate::transaction::overlay::{OverlaidItem, OverlaySource};
use crate::transaction::write_buffer::{Draft, View};
use crate::{Container, Engine};

/// What a transaction came to.
#[derive(Clone, Debug)]
pub struct Transacted<T> {
    /// What its work returned.
    pub value: T,
    /// Where it committed, or what it read if it wrote nothing.
    pub place: Place,
    /// The charge of all its operations.
    pub charge: f64,
}

/// A transaction while its work runs.
pub struct Transaction<'e> {
    draft: Draft<'e>,
    partition_key: PartitionKey,
    stripe: &'e Arc<StripeLock>,
    lock_mode: LockMode,
    lock: Option<LockGuard>,
    /// Locks of the logical partitions that it works on together, if there are several: then it never
    /// waits for a lock.
    together: Vec<LockGuard>,
    lsn: Lsn,
    /// The run counts for nothing, whatever it returns: it has to start over under the exclusive lock.
    needs_exclusive_lock: bool,
    charge: f64,
}

impl Engine {
    /// Runs `work` in a transaction of one logical partition and commits what it did; an error
    /// of the work undoes all of it. The work may run several times.
    pub fn transact<T>(
        &self,
        container: &Container,
        partition_key: &PartitionKey,
        work: &mut dyn FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Transacted<T>> {
        self.retry_on_stale_epoch(container, &mut |now| {
            self.transact_under(now, partition_key, work)
        })
    }

    /// The same under one definition.
    fn transact_under<T>(
        &self,
        container: &Container,
        partition_key: &PartitionKey,
        work: &mut dyn FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Transacted<T>> {
        let key = complete_key(container, partition_key)?;
        let effective = container.definition.partition_key.effective(&key);
        let partition = container.partition_of(&effective)?;
        let (mut exclusive, mut kept) = (false, vec![]);
        for attempt in 0..limits::COMMIT_ATTEMPTS_MAX {
            let lock_mode =
                if exclusive { LockMode::Exclusive } else { LockMode::of_attempt(attempt) };
            let lock = partition.locks.stripe(&key.to_canonical()).acquire(lock_mode);
            // Before the snapshot: the last holder may have changed what is read.
            let escalation = self.escalation_lock(attempt);
            // Under the lock: a model takes over while it holds all of them.
            let (database, carried) = (self.database_of(container), RefCell::default());
            let mut transaction = Transaction::inside(self, container, partition, &key)?;
            (transaction.lock, transaction.lock_mode) = (Some(lock), lock_mode);
            if attempt == 0 {
                transaction.draft.path_ids = PathIdAllocation::WithCommit(&carried);
            }
            transaction.draft.claims = Some(UniqueClaims::new(kept.clone()));
            transaction.draft.model.scope = ModelContext::of(database.as_deref(), container);
            let result = work(&mut transaction);
            if transaction.needs_exclusive_lock {
                exclusive = true;
                continue;
            }
            if let Some(unblock) = transaction.draft.unblock() {
                drop((transaction, escalation));
                kept.extend(self.unblock(unblock)?);
                continue;
            }
            let charge = transaction.charge;
            match result {
                Ok(value) => {
                    if let Some(place) = transaction.commit()? {
                        return Ok(Transacted { value, place, charge });
                    }
                }
                Err(refusal) => {
                    if self.justifies(&transaction.draft, &refusal)? {
                        return Err(refusal);
                    }
                }
            }
        }
        Err(Error::RetryWith)
    }

    /// Does what must be done before a transaction runs again. An item that holds a unique key and
    /// cannot be removed is returned.
    pub(crate) fn unblock(&self, unblock: Unblock<'_>) -> Result<Option<(ShardId, Row)>> {
        let Unblock::Remove(container, partition, row) = unblock else { return Ok(None) };
        let _schema = self.model_locks.schema_shared();
        let gone = self.purge_hidden_row(container, partition, row)?;
        Ok((!gone).then_some((partition.shard, row)))
    }

    /// Runs `work` once in a transaction over logical partitions of one physical partition, whose
    /// locks are held and to which it turns one after the other. `None` if nothing was written,
    /// for whatever reason: each of them must go for itself then. An error if nobody knows.
    pub(crate) fn transact_together<T>(
        &self,
        container: &Container,
        partition: &PhysicalPartition,
        locks: Vec<LockGuard>,
        work: &mut dyn FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Option<Transacted<T>>> {
        let database = self.database_of(container);
        if locks.is_empty() || ModelContext::of(database.as_deref(), container).is_some() {
            return Ok(None);
        }
        let carried = RefCell::default();
        let nowhere = PartitionKey::default();
        let begun = Transaction::inside(self, container, partition, &nowhere);
        let Ok(mut transaction) = begun else { return Ok(None) };
        transaction.together = locks;
        transaction.draft.claims = Some(UniqueClaims::default());
        transaction.draft.path_ids = PathIdAllocation::WithCommit(&carried);
        let Ok(value) = work(&mut transaction) else { return Ok(None) };
        if transaction.needs_exclusive_lock || transaction.draft.unblock().is_some() {
            return Ok(None);
        }
        let charge = transaction.charge;
        match transaction.commit() {
            Ok(place) => Ok(place.map(|place| Transacted { value, place, charge })),
            Err(unknown @ Error::Unavailable(_)) => Err(unknown),
            Err(_) => Ok(None),
        }
    }
}

impl<'e> Transaction<'e> {
    /// Begins under locks that are held.
    fn inside(
        engine: &'e Engine,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        partition_key: &PartitionKey,
    ) -> Result<Self> {
        let stripe = partition.locks.stripe(&partition_key.to_canonical());
        let snapshot = engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let lsn = snapshot.lsn();
        let draft = Draft::new(engine, container, partition, View::Shard(snapshot));
        Ok(Self {
            draft,
            partition_key: partition_key.clone(),
            stripe,
            lock_mode: LockMode::Shared,
            lock: None,
            together: vec![],
            lsn,
            needs_exclusive_lock: false,
            charge: 0.0,
        })
    }

    /// The container it works on.
    pub fn container(&self) -> &'e Container {
        self.draft.container
    }

    /// The logical partition it works on.
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// Goes on with another logical partition, whose lock is held too.
    pub(crate) fn turn_to(&mut self, partition_key: &PartitionKey) {
        self.partition_key.clone_from(partition_key);
    }

    /// What its operations cost so far.
    pub fn charge(&self) -> f64 {
        self.charge
    }

    /// What is to be stored of a version that the transaction has written, if a model is about it.
    pub(crate) fn latest_text(&self, stamp: Stamp) -> Option<Bytes> {
        self.draft.model.scope?;
        let mut written = self.draft.slots.values().filter_map(|slot| slot.after());
        written.find(|after| after.stamp == stamp).map(|after| after.text.clone())
    }

    /// Reads one item.
    pub fn read(&mut self, item: &Address) -> Result<ItemRead> {
        let at = self.locate(item)?;
        self.draft.load(&at)?;
        let current = self.draft.current(&at.key).ok_or(Error::NotFound)?;
        let (body, stamp) = (current.text(), current.stamp());
        let item_lsn = match current {
            CurrentImage::Stored(before) => before.version,
            CurrentImage::Own(_) => Lsn(0),
        };
        let charge = charge::read(body.len());
        self.charge += charge;
        let place = Place { partition: self.draft.partition.id, lsn: self.lsn, item_lsn };
        Ok(ItemRead { body, stamp, place, charge })
    }

    /// Makes an item; an item with its id must not be there.
    pub fn create(&mut self, text: &[u8]) -> Result<Written> {
        self.write(&ItemWrite::Create(ItemBody::parse(self.draft.container, text)?))
    }

    /// Makes an item or replaces the one with its id.
    pub fn upsert(&mut self, text: &[u8], conditions: &Preconditions) -> Result<Written> {
        let body = ItemBody::parse(self.draft.container, text)?;
        self.write(&ItemWrite::Upsert(body, conditions.clone()))
    }

    /// Replaces an item that is there.
    pub fn replace(
        &mut self,
        item: &Address,
        text: &[u8],
        conditions: &Preconditions,
    ) -> Result<Written> {
        let body = ItemBody::parse(self.draft.container, text)?;
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
        let container = self.draft.container;
        let at = match write {
            ItemWrite::Create(_) | ItemWrite::Upsert(..) => {
                write.locate(self.draft.engine, container, Some(&self.partition_key))?
            }
            ItemWrite::Replace(item, ..)
            | ItemWrite::Patch(item, ..)
            | ItemWrite::Delete(item, _) => {
                let at = self.locate(item)?;
                if let Err(mismatch) = write.check(container, &at) {
                    self.draft.load(&at)?;
                    let there = self.draft.current(&at.key).is_some();
                    return Err(if there { mismatch } else { Error::NotFound });
                }
                at
            }
        };
        let written = self.draft.apply(&at, write)?;
        self.charge += written.charge;
        Ok(written)
    }

    /// The place of an item, which may have been written by this transaction only.
    fn locate(&mut self, item: &Address) -> Result<ItemKey<'e>> {
        let container = self.draft.container;
        let Some(row) = item_row(item)? else {
            return self.draft.engine.locate(container, Some(&self.partition_key), item);
        };
        let has_row = |slot: &ItemEntry<'_>| slot.after().is_some_and(|after| after.row == row);
        if let Some(slot) = self.draft.slots.values().find(|slot| has_row(slot)) {
            return Ok(slot.at.clone());
        }
        let key = self.draft.key_of_row(row)?;
        if self.draft.slots.get(&key).is_some_and(|slot| slot.is_written()) {
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
        let mut source = OverlaySource::new(&self.draft, &self.partition_key, resume.as_deref());
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
        let session_token = self.container().token(self.draft.partition.id, self.lsn);
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
        let (engine, container) = (self.draft.engine, self.draft.container);
        let mut source = OverlaySource::new(&self.draft, &self.partition_key, None);
        let owner = format!("query of {} {}", container.rid(), self.partition_key.to_header());
        let mut page = engine.query_source(container, request, &mut source, size, &owner, token)?;
        page.session_token = container.token(self.draft.partition.id, self.lsn);
        self.charge += page.charge;
        Ok(page)
    }

    /// Before a range is read. What follows from writes elsewhere holds no lock here: the commit checks
    /// that none of it has come into the logical partition since the snapshot.
    fn read_range(&mut self) -> Result<()> {
        self.lock_exclusively()?;
        self.draft.range = Some((stripe_of(&self.partition_key.to_canonical()), self.lsn));
        Ok(())
    }

    /// Takes the exclusive lock, so that nobody else writes to the logical partition from now on. A
    /// transaction that has read nothing yet takes a new snapshot; one that has must start over.
    fn lock_exclusively(&mut self) -> Result<()> {
        if self.lock_mode == LockMode::Exclusive {
            return Ok(());
        }
        let has_read = !self.draft.slots.is_empty() || !self.draft.lookups.is_empty();
        if has_read || !self.together.is_empty() {
            self.needs_exclusive_lock = true;
            return Err(Error::RetryWith);
        }
        drop(self.lock.take());
        self.lock = Some(self.stripe.acquire(LockMode::Exclusive));
        self.lock_mode = LockMode::Exclusive;
        if self.draft.engine.model_changed(self.draft.container, self.draft.model.scope) {
            self.needs_exclusive_lock = true;
            return Err(Error::RetryWith);
        }
        let store = &self.draft.engine.store;
        let snapshot = store.snapshot(self.draft.partition.shard, ReadAt::Latest);
        let snapshot = snapshot.map_err(storage)?;
        self.lsn = snapshot.lsn();
        self.draft.view = View::Shard(snapshot);
        self.draft.now_s = self.draft.engine.clock.now_s();
        Ok(())
    }

    /// Commits; `None` if another writer was faster. A transaction that wrote nothing has read
    /// one snapshot and needs no commit, unless refused writes have looked elsewhere.
    fn commit(self) -> Result<Option<Place>> {
        let partition = self.draft.partition.id;
        let (engine, container) = (self.draft.engine, self.draft.container);
        if self.draft.is_empty() {
            let holds =
                self.draft.is_of_one_instant() || engine.read_set_holds(&self.draft, None)?;
            return Ok(holds.then_some(Place { partition, lsn: self.lsn, item_lsn: self.lsn }));
        }
        let (commit, _) = self.draft.commit()?;
        match engine.commit_all(commit) {
            Ok(committed) => {
                engine.follow_definition(container);
                let lsn = committed.lsns.first().copied().unwrap_or_default();
                Ok(Some(Place { partition, lsn, item_lsn: lsn }))
            }
            Err(StorageError::Conflict { .. }) => Ok(None),
            Err(error) => Err(storage(error)),
        }
    }
}
