//! Items anywhere in the database, as a draft reaches them: its own physical partition, or another
//! one, for which it has a draft of its own. All drafts become one commit.

use orrery_modeling::RelationRule;
use orrery_modeling::reference::Target;
use orrery_storage::{Space, key};
use orrery_types::{Error, Result, Value};

use crate::Container;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::body::ItemBody;
use crate::maintain::index_terms::PathIdAllocation;
use crate::maintain::unique_keys::UniqueClaims;
use crate::partition::PhysicalPartition;
use crate::transaction::commit::{AfterImage, BeforeImage, CurrentImage, ItemEntry, Mutation};
use crate::transaction::write_buffer::Draft;

impl<'e> Draft<'e> {
    pub(crate) fn address(&self, at: &ItemKey<'e>) -> ItemAddress<'e> {
        ItemAddress { container: self.container, at: at.clone() }
    }

    /// The draft of a physical partition: this one, or one beside it.
    pub(crate) fn beside(
        &mut self,
        container: &'e Container,
        partition: &'e PhysicalPartition,
    ) -> &mut Draft<'e> {
        let is = |d: &Draft<'_>| {
            d.container.number == container.number && d.partition.id == partition.id
        };
        if is(self) {
            return self;
        }
        let at = self.model.others.iter().position(is).unwrap_or_else(|| {
            let mut other = Draft::new(self.engine, container, partition, self.view_beside());
            other.now_s = self.now_s;
            other.claims = self.claims.as_ref().map(UniqueClaims::beside);
            if let PathIdAllocation::LookupOnly = self.path_ids {
                other.path_ids = PathIdAllocation::LookupOnly;
            }
            self.model.others.push(other);
            self.model.others.len() - 1
        });
        &mut self.model.others[at]
    }

    /// Where the target of a reference stands; `None` if no item can have such an id.
    pub(crate) fn address_of(
        &self,
        rule: &RelationRule,
        target: &Target,
    ) -> Result<Option<ItemAddress<'e>>> {
        let Some(scope) = self.model.scope else { return Ok(None) };
        let container = self.same(scope.container_of(rule.to)?);
        let definition = &container.definition.partition_key;
        let partition_key = definition.normalize(target.partition_key.clone());
        Ok(ItemKey::of(container, partition_key, &target.id)
            .ok()
            .map(|at| ItemAddress { container, at }))
    }

    /// One picture of a container for the whole draft.
    pub(crate) fn same(&self, container: &'e Container) -> &'e Container {
        if container.number == self.container.number { self.container } else { container }
    }

    /// The address of an item by its key; `None` if it is not there.
    pub(crate) fn address_of_key(
        &mut self,
        container: &'e Container,
        item_key: &[u8],
    ) -> Result<Option<ItemAddress<'e>>> {
        let place = key::parse_item(item_key);
        let place = place.ok_or_else(|| Error::internal("a reference leads to no item key"))?;
        let partition = container.partition_of(&place.effective)?;
        let draft = self.beside(container, partition);
        if let Some(slot) = draft.slots.get(item_key) {
            return Ok(Some(ItemAddress { container, at: slot.at.clone() }));
        }
        let stored = draft.stored(partition.shard, Space::Items, item_key)?;
        let Some(stored) = stored else { return Ok(None) };
        let before = BeforeImage::read(stored)?;
        let partition_key = container.definition.partition_key.extract(before.value()?);
        let at = ItemKey { partition, partition_key, key: item_key.to_vec() };
        let slot = ItemEntry { at: at.clone(), before: Some(before), mutation: Mutation::None };
        draft.slots.insert(item_key.to_vec(), Box::new(slot));
        Ok(Some(ItemAddress { container, at }))
    }

    /// The item at a address as it is to be seen; from now on the commit holds only if it stays so.
    pub(crate) fn value_at(&mut self, address: &ItemAddress<'e>) -> Result<Option<Value>> {
        let draft = self.beside(address.container, address.at.partition);
        draft.load(&address.at)?;
        draft.image(&address.at.key)
    }

    /// The item in a slot as it is to be seen, if a model asks for it.
    pub(crate) fn known_image(&self, key: &[u8]) -> Result<Option<Value>> {
        if self.model.scope.is_some() { self.image(key) } else { Ok(None) }
    }

    /// The item in a slot as it is to be seen.
    pub(crate) fn image(&self, key: &[u8]) -> Result<Option<Value>> {
        self.current(key).map(|current| current.value().cloned()).transpose()
    }

    /// The same, or the hidden item that is still stored there.
    pub(crate) fn past_image(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.slots.get(key).map(|slot| (&slot.mutation, &slot.before)) {
            Some((Mutation::None, Some(before))) => before.value().cloned().map(Some),
            _ => self.image(key),
        }
    }

    /// Writes an item that follows from others. Nobody has seen what this commit wrote of it before,
    /// so that it keeps the version that was answered.
    pub(crate) fn put_derived(&mut self, address: &ItemAddress<'e>, value: Value) -> Result<()> {
        self.validate_derived(address, &value)?;
        let draft = self.beside(address.container, address.at.partition);
        let (row, own, derived) = match draft.current(&address.at.key) {
            Some(CurrentImage::Own(after)) => (Some(after.row), Some(after.stamp), after.derived),
            Some(CurrentImage::Stored(before)) => (Some(before.header.row), None, true),
            None => (None, None, true),
        };
        let stamp = own.unwrap_or_else(|| draft.engine.stamper.next());
        let body = ItemBody::check(address.container, value)?;
        let after = AfterImage { derived, ..draft.stamped(&address.at, row, stamp, body)? };
        let charge = draft.charge(&address.at.key, Some(&after), 0)?;
        draft.set_item(&address.at, Mutation::Put(after));
        self.model.charge += charge;
        Ok(())
    }

    /// Deletes an item that follows from another's end.
    pub(crate) fn delete_derived(&mut self, address: &ItemAddress<'e>) -> Result<()> {
        let draft = self.beside(address.container, address.at.partition);
        let charge = draft.charge(&address.at.key, None, 0)?;
        draft.set_item(&address.at, Mutation::Delete);
        self.model.charge += charge;
        Ok(())
    }

    /// Before a change: what was done so far stays whatever comes of it.
    pub(crate) fn begin_change(&mut self) {
        self.model.warnings.clear();
        self.model.schema_steps = 0;
        self.model.charge = 0.0;
        self.begin_own();
        self.model.others.iter_mut().for_each(Draft::begin_own);
    }

    fn begin_own(&mut self) {
        self.model.log.clear();
        self.model.kept_before = self.model.kept.clone();
        if let Some(claims) = &mut self.claims {
            claims.begin();
        }
    }

    /// After a refused change: takes back what it has done.
    pub(crate) fn undo_change(&mut self) {
        self.undo_own();
        self.model.others.iter_mut().for_each(Draft::undo_own);
    }

    fn undo_own(&mut self) {
        self.model.kept.restore(self.model.kept_before.clone());
        if let Some(claims) = &mut self.claims {
            claims.retract();
        }
        while let Some((key, undone)) = self.model.log.pop() {
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            slot.mutation = undone;
            let written = slot.is_written();
            self.written.retain(|other| *other != key);
            if written {
                self.written.push(key);
            }
        }
    }
}
