//! The state of a transaction: where it reads from, what it has read, what it is going to write, and the
//! model that it is under. A single write is a transaction of one operation that reads the newest
//! values; batches, procedures and bulk read from a snapshot. Nothing of it is seen by others before
//! the commit.

use bytes::Bytes;
use orrery_storage::Space;
use orrery_storage::key::{self, Row};
use orrery_types::{Error, Lsn, Result, Value};

use super::reads::ReadView;
use super::reads::{ConflictReason, ReadSet};
use super::retry::RetryReason;
use super::retry::{RefusalBasis, narrow_reads};
use super::write_buffer::{ItemEntry, Mutation, ShardIndex, ShardWrites, WriteBuffer};
use crate::catalog::resource::Stamp;
use crate::insight::workload::Wrote;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::{AfterImage, BeforeImage, CurrentImage};
use crate::item::operation::ItemBody;
use crate::item::operation::{Decision, ItemWrite};
use crate::item::read::{CommitPosition, Outcome, Written};
use crate::maintain::index_terms::{Indexer, PathIdAllocation};
use crate::maintain::own_references::OwnReferences;
use crate::maintain::unique_keys;
use crate::maintain::unique_keys::UniqueClaims;
use crate::model::{ModelContext, ModelTransaction};
use crate::partition::PhysicalPartition;
use crate::query::relations::Reach;
use crate::throughput::charge;
use crate::{Container, Engine};

/// What the current operation has used so far.
#[derive(Default)]
pub(crate) struct OperationState {
    reach: Reach,
    schema_steps: u64,
    warnings: Vec<String>,
    refusal_basis: Option<RefusalBasis>,
    charge: f64,
}

impl OperationState {
    /// How far the operation's derived writes may reach.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Evaluations of schemas.
    pub(crate) fn schema_steps(&self) -> u64 {
        self.schema_steps
    }

    pub(crate) fn set_schema_steps(&mut self, steps: u64) {
        self.schema_steps = steps;
    }

    /// Adds warnings to the operation's answer.
    pub(crate) fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Narrows what the operation's refusal rests on; without it, that is everything it has read.
    pub(crate) fn refuse_because(&mut self, basis: RefusalBasis) {
        self.refusal_basis = Some(basis);
    }

    pub(super) fn take_refusal_basis(&mut self) -> Option<RefusalBasis> {
        self.refusal_basis.take()
    }

    /// Adds the charge of a derived write.
    pub(crate) fn add_charge(&mut self, charge: f64) {
        self.charge += charge;
    }
}

/// How a transaction works; fixed when it begins.
#[derive(Default)]
pub(crate) struct TransactionOptions<'e> {
    pub(crate) path_ids: PathIdAllocation<'e>,
    /// Unique keys are checked after each operation; `None`: the commit's preconditions decide.
    pub(crate) claims: Option<UniqueClaims>,
    /// `None`: no model applies to the container.
    pub(crate) model: Option<ModelContext<'e>>,
    /// Whether the bounds on derived writes are not enforced: no client waits for the transaction.
    pub(crate) relaxed: bool,
}

impl<'e> TransactionOptions<'e> {
    /// Those of a transaction under a model, if there is one.
    pub(crate) fn under(model: Option<ModelContext<'e>>) -> Self {
        Self { model, ..Self::default() }
    }
}

/// A transaction while it runs. Other modules call methods of its parts; they replace none of them.
pub(crate) struct TransactionState<'e> {
    pub(crate) engine: &'e Engine,
    view: ReadView<'e>,
    pub(crate) reads: ReadSet,
    pub(crate) writes: WriteBuffer<'e>,
    /// References of the items that it has written.
    pub(crate) own_references: OwnReferences,
    pub(crate) operation: OperationState,
    options: TransactionOptions<'e>,
    home: ShardIndex,
    /// The models of the databases that it has written to.
    models: Vec<ModelContext<'e>>,
    doomed: Option<RetryReason<'e>>,
}

impl<'e> TransactionState<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        view: ReadView<'e>,
        options: TransactionOptions<'e>,
    ) -> Self {
        Self {
            engine,
            view,
            reads: ReadSet::default(),
            writes: WriteBuffer::new(container, partition),
            own_references: OwnReferences::default(),
            operation: OperationState::default(),
            home: ShardIndex::FIRST,
            models: options.model.into_iter().collect(),
            options,
            doomed: None,
        }
    }

    pub(crate) fn options(&self) -> &TransactionOptions<'e> {
        &self.options
    }

    pub(crate) fn view(&self) -> &ReadView<'e> {
        &self.view
    }

    /// Reads from another view. Nothing may have been read so far.
    pub(super) fn set_view(&mut self, view: ReadView<'e>) {
        self.view = view;
    }

    /// Why the transaction must run again, whatever its work returns: a script may catch the error.
    pub(crate) fn doomed(&self) -> Option<RetryReason<'e>> {
        self.doomed
    }

    /// Dooms the transaction: it must run again, whatever becomes of the error.
    pub(crate) fn run_again(&mut self, reason: RetryReason<'e>) -> Error {
        self.doomed = Some(reason);
        Error::RetryWith
    }

    /// The transaction together with a model that it is under.
    pub(crate) fn under(&mut self, model: ModelContext<'e>) -> ModelTransaction<'_, 'e> {
        ModelTransaction::new(self, model)
    }

    /// The home shard: that of the operation at hand.
    pub(crate) fn home(&self) -> ShardIndex {
        self.home
    }

    pub(crate) fn home_shard(&self) -> &ShardWrites<'e> {
        self.writes.shard(self.home)
    }

    /// Makes another shard the home shard, under the model of its database.
    pub(super) fn turn_to(
        &mut self,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        model: Option<ModelContext<'e>>,
    ) {
        let is_same_database = self.container().database == container.database;
        self.home = self.writes.shard_of(container, partition);
        self.options.model = model;
        if let Some(model) = model
            && !self.models.iter().any(|known| known.is_of(model.database))
        {
            self.models.push(model);
        }
        if !is_same_database {
            // Relations are numbered within their model.
            self.own_references = OwnReferences::default();
            self.writes.forget_changed_items();
        }
    }

    /// The model that the items of a container are written under, if there is one.
    pub(crate) fn model_of(&self, container: &Container) -> Option<ModelContext<'e>> {
        self.models.iter().copied().find(|model| model.database.rid() == container.database_rid())
    }

    /// The container of the operation at hand.
    pub(crate) fn container(&self) -> &'e Container {
        self.home_shard().container
    }

    /// The physical partition of the operation at hand.
    pub(crate) fn partition(&self) -> &'e PhysicalPartition {
        self.home_shard().partition
    }

    pub(crate) fn indexer(&self, shard: ShardIndex) -> Indexer<'e> {
        let writes = self.writes.shard(shard);
        let (container, partition) = (writes.container, writes.partition);
        let path_ids = match (shard, self.options.path_ids) {
            // Ids are allocated with the commit in its first shard only.
            (ShardIndex::FIRST, path_ids) => path_ids,
            (_, PathIdAllocation::LookupOnly) => PathIdAllocation::LookupOnly,
            _ => PathIdAllocation::Immediate,
        };
        Indexer { store: &*self.engine.store, container, partition, path_ids }
    }

    /// The shard of an item.
    pub(crate) fn shard_of(&mut self, address: &ItemAddress<'e>) -> ShardIndex {
        self.writes.shard_of(address.container, address.at.partition)
    }

    /// An item that was read, with what becomes of it.
    pub(crate) fn entry(&self, shard: ShardIndex, key: &[u8]) -> Option<&ItemEntry<'e>> {
        self.writes.shard(shard).item(key)
    }

    /// Makes sure that an item has been read.
    pub(crate) fn load(&mut self, shard: ShardIndex, at: &ItemKey<'e>) -> Result<()> {
        if self.entry(shard, &at.key).is_some() {
            return Ok(());
        }
        let stored = self.view.get(at.partition.shard, Space::Items, &at.key)?;
        let before = stored.map(BeforeImage::read).transpose()?;
        self.writes.add(shard, ItemEntry::read(at.clone(), before));
        Ok(())
    }

    /// The address of an item by its key, which is read; `None` if it does not exist.
    pub(crate) fn address_of_key(
        &mut self,
        container: &'e Container,
        item_key: &[u8],
    ) -> Result<Option<ItemAddress<'e>>> {
        let parsed = key::parse_item(item_key);
        let parsed = parsed.ok_or_else(|| Error::internal("a reference leads to no item key"))?;
        let partition = container.partition_of(&parsed.effective)?;
        let shard = self.writes.shard_of(container, partition);
        if let Some(entry) = self.entry(shard, item_key) {
            return Ok(Some(ItemAddress { container, at: entry.at.clone() }));
        }
        let stored = self.view.get(partition.shard, Space::Items, item_key)?;
        let Some(stored) = stored else { return Ok(None) };
        let before = BeforeImage::read(stored)?;
        let partition_key = container.definition.partition_key.extract(before.value()?);
        let at = ItemKey { partition, partition_key, key: item_key.to_vec() };
        self.writes.add(shard, ItemEntry::read(at.clone(), Some(before)));
        Ok(Some(ItemAddress { container, at }))
    }

    /// Finds the key of an item by its row. The row entry enters the read set: as long as it does not
    /// change, the item has that key.
    pub(crate) fn key_of_row(&mut self, row: Row) -> Result<Vec<u8>> {
        let entry = key::row(row).to_vec();
        let found = self.view.get(self.partition().shard, Space::Items, &entry)?;
        let version = found.as_ref().map(|value| value.version);
        let reason = ConflictReason::RowMoved;
        self.reads.add(self.home(), Space::Items, entry, version, reason);
        found.map(|value| value.bytes.into()).ok_or(Error::NotFound)
    }

    /// One definition of a container for the whole transaction.
    pub(crate) fn same(&self, container: &'e Container) -> &'e Container {
        let home = self.container();
        if container.number == home.number { home } else { container }
    }

    /// The address of an item of the container that the transaction was begun on.
    pub(crate) fn address(&self, at: &ItemKey<'e>) -> ItemAddress<'e> {
        ItemAddress { container: self.container(), at: at.clone() }
    }

    /// An item as it is to be seen, if it exists and is not hidden.
    pub(crate) fn current(&self, shard: ShardIndex, key: &[u8]) -> Option<CurrentImage<'_>> {
        let entry = self.entry(shard, key)?;
        match entry.mutation() {
            Mutation::Put(after) => Some(CurrentImage::Own(after)),
            Mutation::Delete => None,
            Mutation::None => {
                let container = self.writes.shard(shard).container;
                let visible = |before: &&BeforeImage| !self.view.hides(container, key, before);
                entry.before.as_ref().filter(visible).map(CurrentImage::Stored)
            }
        }
    }

    /// The value of an item as it is to be seen.
    pub(crate) fn image(&self, shard: ShardIndex, key: &[u8]) -> Result<Option<Value>> {
        self.current(shard, key).map(|current| current.value().cloned()).transpose()
    }

    /// The same, or the hidden item that is still stored there.
    pub(crate) fn past_image(&self, shard: ShardIndex, key: &[u8]) -> Result<Option<Value>> {
        match self.entry(shard, key).map(|entry| (entry.mutation(), &entry.before)) {
            Some((Mutation::None, Some(before))) => before.value().cloned().map(Some),
            _ => self.image(shard, key),
        }
    }

    /// An item as it is to be seen; from now on the commit holds only if it stays so.
    pub(crate) fn value_at(&mut self, address: &ItemAddress<'e>) -> Result<Option<Value>> {
        let shard = self.shard_of(address);
        self.load(shard, &address.at)?;
        self.image(shard, &address.at.key)
    }

    /// Adds an operation with all that follows from it, unless it is refused.
    pub(crate) fn apply(&mut self, at: &ItemKey<'e>, write: &ItemWrite) -> Result<Written> {
        self.container().check_writable()?;
        self.begin_operation();
        let savepoint = self.writes.savepoint();
        let written = self.write(at, write);
        let written = written.and_then(|written| {
            unique_keys::claim(self, savepoint)?;
            Ok(written)
        });
        if let Ok(written) = &written {
            self.writes.release(savepoint);
            self.note(at, written);
        } else {
            self.writes.rollback_to(savepoint);
            narrow_reads(self);
        }
        written
    }

    /// Begins the next operation.
    pub(crate) fn begin_operation(&mut self) {
        self.operation.warnings.clear();
        self.operation.schema_steps = 0;
        self.operation.refusal_basis = None;
        self.operation.charge = 0.0;
    }

    /// Notes a write for the advisor.
    fn note(&self, at: &ItemKey<'e>, written: &Written) {
        let entry = self.entry(self.home(), &at.key);
        let item = entry.and_then(ItemEntry::after).map(|after| &after.value);
        let (charge, derived) = (written.charge, self.operation.charge);
        let wrote = Wrote { key: &at.partition_key, charge, derived, item };
        self.engine.workload.wrote(self.container(), self.engine.clock.now_s(), &wrote);
    }

    fn write(&mut self, at: &ItemKey<'e>, write: &ItemWrite) -> Result<Written> {
        self.operation.reach = write.reach();
        self.load(self.home(), at)?;
        match self.options.model {
            Some(model) => self.under(model).write(at, write),
            None => self.write_plain(at, write),
        }
    }

    /// An operation on a container that no model is about.
    fn write_plain(&mut self, at: &ItemKey<'e>, write: &ItemWrite) -> Result<Written> {
        let current = self.current(self.home(), &at.key);
        let decision = write.decide(self.engine, self.container(), current)?;
        let (stamp, row) = (current.map(CurrentImage::stamp), current.map(CurrentImage::row));
        let Decision::Put(body) = decision else {
            let stamp = stamp.ok_or(Error::NotFound)?;
            let charge = self.charge(self.home(), &at.key, None, write.patched())?;
            self.set_item(self.home(), at, Mutation::Delete);
            return Ok(self.result(Outcome::Deleted, Bytes::new(), stamp, charge));
        };
        let target = self.rename_target(at, &body)?;
        let outcome = if stamp.is_some() { Outcome::Replaced } else { Outcome::Created };
        let after = self.after_image(at, row, body)?;
        let charge = self.charge(self.home(), &at.key, Some(&after), write.patched())?;
        let (text, stamp) = (after.text.clone(), after.stamp);
        if target.is_some() {
            self.set_item(self.home(), at, Mutation::Delete);
        }
        self.set_item(self.home(), target.as_ref().unwrap_or(at), Mutation::Put(after));
        Ok(self.result(outcome, text, stamp, charge))
    }

    /// The key that a body with another id renames its item to, which must be free.
    pub(crate) fn rename_target(
        &mut self,
        at: &ItemKey<'e>,
        body: &ItemBody,
    ) -> Result<Option<ItemKey<'e>>> {
        if at.id_is(&body.id) {
            return Ok(None);
        }
        let target = ItemKey::of(self.container(), body.key.clone(), &body.id)?;
        self.load(self.home(), &target)?;
        if self.current(self.home(), &target.key).is_some() {
            return Err(Error::AlreadyExists);
        }
        Ok(Some(target))
    }

    /// The after image: an item keeps its row as long as it exists.
    pub(crate) fn after_image(
        &self,
        at: &ItemKey<'e>,
        row: Option<Row>,
        body: ItemBody,
    ) -> Result<AfterImage> {
        self.stamped(self.home(), at, row, self.engine.stamper.next(), body)
    }

    /// The after image of a version.
    pub(crate) fn stamped(
        &self,
        shard: ShardIndex,
        at: &ItemKey<'e>,
        row: Option<Row>,
        stamp: Stamp,
        body: ItemBody,
    ) -> Result<AfterImage> {
        // Terms may be refused; a row is not taken before.
        let terms = self.indexer(shard).terms(stamp, || Ok(&body.value))?;
        let row = if let Some(row) = row {
            row
        } else {
            let may_wait = !matches!(self.options.path_ids, PathIdAllocation::LookupOnly);
            at.partition.next_row(&*self.engine.store, may_wait)?
        };
        let container = self.writes.shard(shard).container;
        let text = Bytes::from(body.to_text(container, row, stamp)?);
        Ok(AfterImage { value: body.value, text, ttl: body.ttl, row, stamp, terms, derived: false })
    }

    pub(crate) fn set_item(&mut self, shard: ShardIndex, at: &ItemKey<'e>, mutation: Mutation) {
        self.writes.set_item(shard, &at.key, mutation);
    }

    /// Deletes an item because another one was deleted.
    pub(crate) fn delete_derived(&mut self, address: &ItemAddress<'e>) -> Result<()> {
        let shard = self.shard_of(address);
        self.operation.charge += self.charge(shard, &address.at.key, None, 0)?;
        self.set_item(shard, &address.at, Mutation::Delete);
        Ok(())
    }

    /// What it costs to make an item what it shall be.
    pub(crate) fn charge(
        &self,
        shard: ShardIndex,
        key: &[u8],
        after: Option<&AfterImage>,
        patched: usize,
    ) -> Result<f64> {
        let indexer = self.indexer(shard);
        let mut write = charge::Write { patched, ..charge::Write::default() };
        match (self.current(shard, key), after) {
            (None, None) => {}
            (Some(before), None) => {
                let terms = indexer.charged(before.terms(&indexer)?);
                write.removed = Some(charge::Image { bytes: before.size_bytes(), terms });
            }
            (None, Some(after)) => {
                let terms = indexer.charged(&after.terms);
                write.added = Some(charge::Image { bytes: after.text.len(), terms });
            }
            (Some(before), Some(after)) => {
                let was = (before.terms(&indexer)?, before.stamp());
                let (gone, new) = indexer.charged_change(was, (&after.terms, after.stamp));
                let bytes = before.size_bytes();
                write.removed = Some(charge::Image { bytes, terms: gone });
                write.added = Some(charge::Image { bytes: after.text.len(), terms: new });
            }
        }
        Ok(charge::write(&write))
    }

    pub(crate) fn result(
        &self,
        outcome: Outcome,
        body: Bytes,
        stamp: Stamp,
        charge: f64,
    ) -> Written {
        let place =
            CommitPosition { partition: self.partition().id, lsn: Lsn(0), item_lsn: Lsn(0) };
        let charge = charge::rounded(charge + self.operation.charge);
        let warnings = self.operation.warnings.clone();
        Written { outcome, body, stamp, place, charge, warnings }
    }
}
