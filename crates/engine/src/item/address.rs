//! Items anywhere in the database, as a draft reaches them: its own physical partition, or another
//! one, for which it has a draft of its own. All drafts become one commit.

use orrery_modeling::reference::Target;
use orrery_modeling::{OnDelete, RelationRule};
use orrery_storage::{Space, key};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, Value};

use crate::item::body::ItemBody;
use crate::item::read::{Located, place_of};
use crate::maintain::index_terms::Numbers;
use crate::maintain::unique_keys::UniqueClaims;
use crate::model::{ModelScope, StoredModel};
use crate::partition::PhysicalPartition;
use crate::transaction::commit::{AfterImage, BeforeImage, CurrentImage, ItemEntry, Mutation};
use crate::transaction::write_buffer::Draft;
use crate::{Container, Database};

/// An item's place in the database, whether it is there or not.
#[derive(Clone)]
pub(crate) struct Spot<'e> {
    pub(crate) container: &'e Container,
    pub(crate) at: Located<'e>,
}

impl Spot<'_> {
    pub(crate) fn is(&self, other: &Spot<'_>) -> bool {
        self.container.number == other.container.number && self.at.key == other.at.key
    }

    /// Whether both are in one logical partition.
    pub(crate) fn is_beside(&self, other: &Spot<'_>) -> bool {
        self.container.number == other.container.number
            && self.at.partition_key == other.at.partition_key
    }

    pub(crate) fn id(&self) -> Box<str> {
        key::parse_item(&self.at.key).map_or_else(Box::default, |key| key.id.into())
    }
}

impl<'e> ModelScope<'e> {
    /// The model, if the database has one that says anything about the container.
    pub(crate) fn of(database: Option<&'e Database>, container: &Container) -> Option<Self> {
        let database = database?;
        let model: &'e StoredModel = database.model.as_deref()?;
        model.rules.concerns(&container.id).then_some(Self { database, model })
    }

    /// Whether little can follow from a write to a container: no other items follow its items.
    pub(crate) fn is_light(&self, container: &Container) -> bool {
        let rules = &self.model.rules;
        let leads = |rule: &RelationRule| {
            *rules.types[rule.to].def.container == *container.id
                && (!rule.copies.is_empty() || rule.def.on_delete != OnDelete::Keep)
        };
        !rules.relations.iter().any(|rule| leads(rule))
    }

    fn container(&self, name: &str) -> Result<&'e Container> {
        let found = self.database.container(&Address::Name(name.to_owned()));
        found.map(|c| &**c).ok_or_else(|| Error::internal(format!("the model names '{name}'")))
    }

    /// The container of the source or the target of a relation.
    pub(crate) fn container_of(&self, item_type: usize) -> Result<&'e Container> {
        self.container(&self.model.rules.types[item_type].def.container)
    }
}

impl<'e> Draft<'e> {
    pub(crate) fn spot(&self, at: &Located<'e>) -> Spot<'e> {
        Spot { container: self.container, at: at.clone() }
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
            if let Numbers::Known = self.numbers {
                other.numbers = Numbers::Known;
            }
            self.model.others.push(other);
            self.model.others.len() - 1
        });
        &mut self.model.others[at]
    }

    /// Where the target of a reference stands; `None` if no item can have such an id.
    pub(crate) fn spot_of(&self, rule: &RelationRule, target: &Target) -> Result<Option<Spot<'e>>> {
        let Some(scope) = self.model.scope else { return Ok(None) };
        let container = self.same(scope.container_of(rule.to)?);
        let definition = &container.definition.partition_key;
        let partition_key = definition.normalize(target.partition_key.clone());
        Ok(place_of(container, partition_key, &target.id).ok().map(|at| Spot { container, at }))
    }

    /// One picture of a container for the whole draft.
    pub(crate) fn same(&self, container: &'e Container) -> &'e Container {
        if container.number == self.container.number { self.container } else { container }
    }

    /// The spot of an item by its key; `None` if it is not there.
    pub(crate) fn spot_of_key(
        &mut self,
        container: &'e Container,
        item_key: &[u8],
    ) -> Result<Option<Spot<'e>>> {
        let place = key::parse_item(item_key);
        let place = place.ok_or_else(|| Error::internal("a reference leads to no item key"))?;
        let partition = container.partition_of(&place.effective)?;
        let draft = self.beside(container, partition);
        if let Some(slot) = draft.slots.get(item_key) {
            return Ok(Some(Spot { container, at: slot.at.clone() }));
        }
        let stored = draft.stored(partition.shard, Space::Items, item_key)?;
        let Some(stored) = stored else { return Ok(None) };
        let before = BeforeImage::read(stored)?;
        let partition_key = container.definition.partition_key.extract(before.value()?);
        let at = Located { partition, partition_key, key: item_key.to_vec() };
        let slot = ItemEntry { at: at.clone(), before: Some(before), mutation: Mutation::None };
        draft.slots.insert(item_key.to_vec(), Box::new(slot));
        Ok(Some(Spot { container, at }))
    }

    /// The item at a spot as it is to be seen; from now on the commit holds only if it stays so.
    pub(crate) fn value_at(&mut self, spot: &Spot<'e>) -> Result<Option<Value>> {
        let draft = self.beside(spot.container, spot.at.partition);
        draft.load(&spot.at)?;
        draft.image(&spot.at.key)
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
    pub(crate) fn put_derived(&mut self, spot: &Spot<'e>, value: Value) -> Result<()> {
        self.validate_derived(spot, &value)?;
        let draft = self.beside(spot.container, spot.at.partition);
        let (row, own, derived) = match draft.current(&spot.at.key) {
            Some(CurrentImage::Own(after)) => (Some(after.row), Some(after.stamp), after.derived),
            Some(CurrentImage::Stored(before)) => (Some(before.header.row), None, true),
            None => (None, None, true),
        };
        let stamp = own.unwrap_or_else(|| draft.engine.stamper.next());
        let body = ItemBody::check(spot.container, value)?;
        let after = AfterImage { derived, ..draft.stamped(&spot.at, row, stamp, body)? };
        let charge = draft.charge(&spot.at.key, Some(&after), 0)?;
        draft.set_item(&spot.at, Mutation::Put(after));
        self.model.charge += charge;
        Ok(())
    }

    /// Deletes an item that follows from another's end.
    pub(crate) fn delete_derived(&mut self, spot: &Spot<'e>) -> Result<()> {
        let draft = self.beside(spot.container, spot.at.partition);
        let charge = draft.charge(&spot.at.key, None, 0)?;
        draft.set_item(&spot.at, Mutation::Delete);
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
