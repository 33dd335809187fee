//! The model that a transaction is under: its rules, and the database whose containers they name.

use orrery_modeling::{OnDelete, RelationRule};
use orrery_types::ids::Address;
use orrery_types::{Error, Result};

use super::StoredModel;
use crate::{Container, Database};

/// The model of a database, for a transaction on a container that it is about.
#[derive(Clone, Copy)]
pub(crate) struct ModelContext<'e> {
    pub(crate) database: &'e Database,
    pub(crate) model: &'e StoredModel,
}

impl<'e> ModelContext<'e> {
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
