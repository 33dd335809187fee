//! A transaction under a model. What a model needs is implemented on [`ModelTransaction`], which cannot be
//! made without one; code of containers that no model is about never gets here.

use bytes::Bytes;
use orrery_types::{Error, Result, Value};

use super::ModelContext;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::{AfterImage, CurrentImage};
use crate::item::operation::ItemBody;
use crate::item::operation::{Decision, ItemWrite};
use crate::item::read::{Outcome, Written};
use crate::maintain::buckets;
use crate::maintain::cascade;
use crate::maintain::cascade::ItemChange;
use crate::transaction::state::TransactionState;
use crate::transaction::write_buffer::Mutation;

/// A transaction and the model that it is under.
pub(crate) struct ModelTransaction<'t, 'e> {
    pub(crate) tx: &'t mut TransactionState<'e>,
    pub(crate) context: ModelContext<'e>,
}

impl<'t, 'e> ModelTransaction<'t, 'e> {
    pub(crate) fn new(tx: &'t mut TransactionState<'e>, context: ModelContext<'e>) -> Self {
        Self { tx, context }
    }

    /// An operation of a client: the rules of the model are applied to the item, and its change is
    /// followed in other items. The item has been read.
    pub(crate) fn write(&mut self, at: &ItemKey<'e>, write: &ItemWrite) -> Result<Written> {
        let (edits, rest) = buckets::array_edits(self, at, write)?;
        let write = rest.as_ref().unwrap_or(write);
        let current = self.tx.current(self.tx.home(), &at.key);
        let decision = write.decide(self.tx.engine, self.tx.container(), current)?;
        let (stamp, row) = (current.map(CurrentImage::stamp), current.map(CurrentImage::row));
        buckets::refuse_bucket(self, at, &decision)?;
        let before = self.tx.image(self.tx.home(), &at.key)?;
        let Decision::Put(mut body) = decision else {
            let stamp = stamp.ok_or(Error::NotFound)?;
            let charge = self.tx.charge(self.tx.home(), &at.key, None, write.patched())?;
            self.tx.set_item(self.tx.home(), at, Mutation::Delete);
            cascade::follow(self, vec![ItemChange::new(self.tx.address(at), before, None)])?;
            return Ok(self.tx.result(Outcome::Deleted, Bytes::new(), stamp, charge));
        };
        let target = self.tx.rename_target(at, &body)?;
        let past = self.tx.past_image(self.tx.home(), &at.key)?;
        if target.is_some() {
            buckets::carry_arrays(self, at, &mut body.value)?;
        }
        // Under another id it is a new item to those that refer.
        let known = before.as_ref().filter(|_| target.is_none());
        let body = self.apply_rules(target.as_ref().unwrap_or(at), known, body, &edits)?;
        let outcome = if stamp.is_some() { Outcome::Replaced } else { Outcome::Created };
        let after = self.tx.after_image(at, row, body)?;
        let charge = self.tx.charge(self.tx.home(), &at.key, Some(&after), write.patched())?;
        let (mut text, stamp) = (after.text.clone(), after.stamp);
        let value = after.value.clone();
        let now = target.as_ref().unwrap_or(at);
        if target.is_some() {
            self.tx.set_item(self.tx.home(), at, Mutation::Delete);
        }
        self.tx.set_item(self.tx.home(), now, Mutation::Put(after));
        let past = past.filter(|_| target.is_none());
        let mut changes = vec![ItemChange::new(self.tx.address(now), past, Some(value))];
        if target.is_some() {
            changes.push(ItemChange::new(self.tx.address(at), before, None));
        }
        cascade::follow(self, changes)?;
        // What followed may have changed the item itself, if it refers to itself.
        if let Some(CurrentImage::Own(last)) = self.tx.current(self.tx.home(), &now.key) {
            text = last.text.clone();
        }
        Ok(self.tx.result(outcome, text, stamp, charge))
    }

    /// Writes an item that follows from others. Nobody has seen what this commit wrote of it before,
    /// so that it keeps the version that was answered.
    pub(crate) fn put_derived(&mut self, address: &ItemAddress<'e>, value: Value) -> Result<()> {
        self.validate_derived(address, &value)?;
        let shard = self.tx.shard_of(address);
        let key = &address.at.key;
        let (row, own, derived) = match self.tx.current(shard, key) {
            Some(CurrentImage::Own(after)) => (Some(after.row), Some(after.stamp), after.derived),
            Some(CurrentImage::Stored(before)) => (Some(before.header.row), None, true),
            None => (None, None, true),
        };
        let stamp = own.unwrap_or_else(|| self.tx.engine.stamper.next());
        let body = match self.tx.current(shard, key) {
            // Its owner has stored it so, maybe when nothing checked it, and what follows from another
            // item's write says nothing about it.
            Some(current) if current.value()?.get("ttl") == value.get("ttl") => {
                ItemBody::with_ttl(address.container, value, current.ttl())?
            }
            _ => ItemBody::check(address.container, value)?,
        };
        let stamped = self.tx.stamped(shard, &address.at, row, stamp, body)?;
        let after = AfterImage { derived, ..stamped };
        let charge = self.tx.charge(shard, key, Some(&after), 0)?;
        self.tx.operation.add_charge(charge);
        self.tx.set_item(shard, &address.at, Mutation::Put(after));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
