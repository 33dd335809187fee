//! Changes that are being prepared: the items they are about as they were found, and what becomes
//! of them. A single write is a draft of one item, read as it is now; a transaction is a draft of
//! many, read from one snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use orrery_storage::key::Row;
use orrery_storage::{Part, Snapshot, Space};
use orrery_types::{Error, Lsn, Result};

use crate::background::expiry_sweep::expiry;
use crate::insight::workload::Wrote;
use crate::item::address::ItemKey;
use crate::item::body::ItemBody;
use crate::item::operation::{Decision, ItemWrite};
use crate::item::read::{Outcome, Place, Written};
use crate::maintain::index_terms::{Indexer, PathIdAllocation};
use crate::maintain::unique_keys::UniqueClaims;
use crate::model::{DatabaseSnapshot, ItemChange, ModelDraft};
use crate::partition::PhysicalPartition;
use crate::stamp::Stamp;
use crate::throughput::charge;
use crate::transaction::commit::{
    self as change, AfterImage, BeforeImage, CurrentImage, ItemEntry, Mutation, UniqueGuard,
};
use crate::{Container, Engine};

/// Where items are read from.
pub(crate) enum View<'e> {
    /// The newest committed value at each read.
    Latest,
    /// One snapshot of its physical partition; other shards newest.
    Shard(Box<dyn Snapshot + 'e>),
    /// One snapshot of every shard of the database.
    Database(&'e DatabaseSnapshot<'e>),
}

/// The slots of one physical partition, by item key.
pub(crate) struct Draft<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) container: &'e Container,
    pub(crate) partition: &'e PhysicalPartition,
    pub(crate) view: View<'e>,
    /// The statement time: the second by which everything in the draft judges whether an item has
    /// expired, from its first read to its commit.
    pub(crate) now_s: u64,
    pub(crate) slots: BTreeMap<Vec<u8>, Box<ItemEntry<'e>>>,
    pub(crate) path_ids: PathIdAllocation<'e>,
    /// Keys of the slots that were written, in the order of their last write.
    pub(crate) written: Vec<Vec<u8>>,
    /// Keys beside items that were looked up, with their versions; `None`: it was not there.
    pub(crate) lookups: Vec<(Space, Vec<u8>, Option<Lsn>)>,
    /// The stripe of the logical partition of which a range was read, and the LSN of its snapshot.
    pub(crate) range: Option<(u8, Lsn)>,
    /// Unique keys as the changes so far leave them; `None`: the commit's checks decide.
    pub(crate) claims: Option<UniqueClaims>,
    /// What the model of the database makes of the changes.
    pub(crate) model: ModelDraft<'e>,
}

impl<'e> Draft<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        view: View<'e>,
    ) -> Self {
        Self {
            engine,
            container,
            partition,
            view,
            now_s: engine.clock.now_s(),
            slots: BTreeMap::new(),
            path_ids: PathIdAllocation::Immediate,
            written: vec![],
            lookups: vec![],
            range: None,
            claims: None,
            model: ModelDraft::default(),
        }
    }

    pub(crate) fn indexer(&self) -> Indexer<'e> {
        let (container, partition) = (self.container, self.partition);
        Indexer { store: &*self.engine.store, container, partition, path_ids: self.path_ids }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// How many items it changes, in whichever partition.
    pub(crate) fn changes(&self) -> usize {
        let others = self.model.others.iter().map(|other| other.written.len());
        self.written.len() + others.sum::<usize>()
    }

    /// Makes sure that the item at a place has been read.
    pub(crate) fn load(&mut self, at: &ItemKey<'e>) -> Result<()> {
        if self.slots.contains_key(&at.key) {
            return Ok(());
        }
        let stored = self.stored(self.partition.shard, Space::Items, &at.key)?;
        let before = stored.map(BeforeImage::read).transpose()?;
        let slot = ItemEntry { at: at.clone(), before, mutation: Mutation::None };
        self.slots.insert(at.key.clone(), Box::new(slot));
        Ok(())
    }

    /// Whether a stored item is not to be seen.
    pub(crate) fn is_hidden(&self, key: &[u8], before: &BeforeImage) -> bool {
        let expired = expiry(&self.container.definition, &before.header);
        expired.is_some_and(|at| at <= self.now_s)
            || self.container.erasures.hide(key, before.version)
    }

    /// The item in a slot, if it is there and to be seen.
    pub(crate) fn current(&self, key: &[u8]) -> Option<CurrentImage<'_>> {
        let slot = self.slots.get(key)?;
        match &slot.mutation {
            Mutation::Put(after) => Some(CurrentImage::Own(after)),
            Mutation::Delete => None,
            Mutation::None => {
                let alive = |b: &&BeforeImage| !self.is_hidden(key, b);
                slot.before.as_ref().filter(alive).map(CurrentImage::Stored)
            }
        }
    }

    /// Adds a change with all that the model makes of it, unless it is refused.
    pub(crate) fn apply(&mut self, at: &ItemKey<'e>, write: &ItemWrite) -> Result<Written> {
        self.begin_change();
        let written = self.change(at, write);
        let written = written.and_then(|written| self.claim_unique_keys().map(|()| written));
        if written.is_err() {
            self.undo_change();
        }
        if let Ok(written) = &written {
            self.note(at, written);
        }
        written
    }

    /// Tells the advisor's notes of a write.
    fn note(&self, at: &ItemKey<'e>, written: &Written) {
        let item = self.slots.get(&at.key).and_then(|slot| slot.after()).map(|after| &after.value);
        let wrote = Wrote {
            key: &at.partition_key,
            charge: written.charge,
            derived: self.model.charge,
            item,
        };
        self.engine.workload.wrote(self.container, self.engine.clock.now_s(), &wrote);
    }

    fn change(&mut self, at: &ItemKey<'e>, write: &ItemWrite) -> Result<Written> {
        self.model.reach = write.reach();
        self.load(at)?;
        let (edits, rest) = self.array_edits(at, write)?;
        let write = rest.as_ref().unwrap_or(write);
        let current = self.current(&at.key);
        let decision = write.decide(self.engine, self.container, current)?;
        let stamp = current.map(CurrentImage::stamp);
        let row = current.map(CurrentImage::row);
        self.refuse_bucket(at, &decision)?;
        let Decision::Put(body) = decision else {
            let stamp = stamp.ok_or(Error::NotFound)?;
            let charge = self.charge(&at.key, None, write.patched())?;
            let before = self.known_image(&at.key)?;
            self.set_item(at, Mutation::Delete);
            self.cascade(vec![ItemChange::new(self.address(at), before, None)])?;
            return Ok(self.result(Outcome::Deleted, Bytes::new(), stamp, charge));
        };
        let target = self.target(at, &body)?;
        let before = self.known_image(&at.key)?;
        let past = match self.model.scope {
            Some(_) => self.past_image(&at.key)?,
            None => None,
        };
        let mut body = body;
        if target.is_some() {
            self.carry_arrays(at, &mut body.value)?;
        }
        // Under another id it is a new item to those that refer.
        let known = before.as_ref().filter(|_| target.is_none());
        let body = self.apply_rules(target.as_ref().unwrap_or(at), known, body, &edits)?;
        let outcome = if stamp.is_some() { Outcome::Replaced } else { Outcome::Created };
        let after = self.after(at, row, body)?;
        let charge = self.charge(&at.key, Some(&after), write.patched())?;
        let (mut text, stamp) = (after.text.clone(), after.stamp);
        let value = after.value.clone();
        if let Some(target) = &target {
            self.set_item(at, Mutation::Delete);
            self.set_item(target, Mutation::Put(after));
            let gone = ItemChange::new(self.address(at), before, None);
            self.cascade(vec![ItemChange::new(self.address(target), None, Some(value)), gone])?;
        } else {
            self.set_item(at, Mutation::Put(after));
            self.cascade(vec![ItemChange::new(self.address(at), past, Some(value))])?;
        }
        // What followed may have changed the item itself, if it refers to itself.
        if self.model.scope.is_some()
            && let Some(CurrentImage::Own(last)) = self.current(&target.as_ref().unwrap_or(at).key)
        {
            text = last.text.clone();
        }
        Ok(self.result(outcome, text, stamp, charge))
    }

    /// The place that a body with another id renames its item to, which must be free.
    fn target(&mut self, at: &ItemKey<'e>, body: &ItemBody) -> Result<Option<ItemKey<'e>>> {
        if at.id_is(&body.id) {
            return Ok(None);
        }
        let target = ItemKey::of(self.container, body.key.clone(), &body.id)?;
        self.load(&target)?;
        if self.current(&target.key).is_some() {
            return Err(Error::AlreadyExists);
        }
        Ok(Some(target))
    }

    /// The after image: an item keeps its number as long as it lives.
    fn after(&self, at: &ItemKey<'e>, row: Option<Row>, body: ItemBody) -> Result<AfterImage> {
        self.stamped(at, row, self.engine.stamper.next(), body)
    }

    /// The after image of a version.
    pub(crate) fn stamped(
        &self,
        at: &ItemKey<'e>,
        row: Option<Row>,
        stamp: Stamp,
        body: ItemBody,
    ) -> Result<AfterImage> {
        // Terms may be refused; a row number is not taken before.
        let terms = self.indexer().terms(stamp, || Ok(&body.value))?;
        let row = match row {
            Some(row) => row,
            None => at.partition.next_row(&*self.engine.store)?,
        };
        let text = Bytes::from(body.to_text(self.container, row, stamp)?);
        Ok(AfterImage { value: body.value, text, ttl: body.ttl, row, stamp, terms, derived: false })
    }

    pub(crate) fn set_item(&mut self, at: &ItemKey<'e>, mutation: Mutation) {
        if let Some(slot) = self.slots.get_mut(&at.key) {
            if slot.is_written() {
                self.written.retain(|key| *key != at.key);
            }
            let undone = std::mem::replace(&mut slot.mutation, mutation);
            self.model.log.push((at.key.clone(), undone));
            self.written.push(at.key.clone());
        }
    }

    /// What it costs to make the item in a slot what it shall be.
    pub(crate) fn charge(
        &self,
        key: &[u8],
        after: Option<&AfterImage>,
        patched: usize,
    ) -> Result<f64> {
        let indexer = self.indexer();
        let mut write = charge::Write { patched, ..charge::Write::default() };
        match (self.current(key), after) {
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

    fn result(&self, outcome: Outcome, body: Bytes, stamp: Stamp, charge: f64) -> Written {
        let place = Place { partition: self.partition.id, lsn: Lsn(0), item_lsn: Lsn(0) };
        let charge = charge::rounded(charge + self.model.charge);
        let warnings = self.model.warnings.clone();
        Written { outcome, body, stamp, place, charge, warnings }
    }

    /// The commit's part: what was only read comes first, then the changes in their order.
    pub(crate) fn part(&self) -> Result<(Part, Vec<UniqueGuard<'_>>)> {
        let read = self.slots.values().filter(|slot| !slot.is_written());
        let written = self.written.iter().filter_map(|key| self.slots.get(key));
        let slots: Vec<&ItemEntry<'_>> = read.chain(written).map(|slot| &**slot).collect();
        change::part(self.engine, &self.indexer(), &slots)
    }
}
