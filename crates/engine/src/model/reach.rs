//! How far a write with a resource token goes by the rules on deletion. A token opens a container, the
//! items of a partition key, or one item; deleting, or taking a reference out of, an item that it does
//! not open is refused, whether it would happen in the commit or later. Copies, aggregates and stored
//! inverses are data of the item that holds them, declared by whoever has the account key, and are
//! kept whoever writes.

use orrery_modeling::{OnDelete, RelationRule};
use orrery_types::{Error, Result, limits};

use super::{ModelContext, ModelTransaction};
use crate::Container;
use crate::item::address::ItemAddress;
use crate::maintain::cascade;
use crate::model::Models;
use crate::query::relations::Reach;

/// Whether the end of a target changes the items that refer to it.
fn changes_sources(rule: &RelationRule) -> bool {
    matches!(rule.def.on_delete, OnDelete::Cascade | OnDelete::Unset | OnDelete::Pull)
}

impl<'e> ModelTransaction<'_, 'e> {
    /// Refuses the end of a target if items refer to it that the request may not change. `origin` is
    /// the item that the request is about.
    pub(crate) fn must_reach_sources(
        &mut self,
        index: usize,
        rule: &RelationRule,
        target: &ItemAddress<'e>,
        origin: &ItemAddress<'e>,
    ) -> Result<()> {
        let reach = self.tx.operation.reach();
        if reach == Reach::Database || !changes_sources(rule) {
            return Ok(());
        }
        let is_open = |source: &ItemAddress<'_>| match reach {
            Reach::Database => true,
            Reach::Container => source.container.number == origin.container.number,
            Reach::Partition => source.is_beside(origin),
            Reach::Nothing => source.is(origin),
        };
        let sources = cascade::referrers_up_to(self, index, target, limits::MODEL_ITEMS_MAX)?;
        if sources.is_some_and(|sources| sources.iter().all(is_open)) {
            return Ok(());
        }
        Err(Error::Denied(
            format!(
                "The write would end an item to which items of '{}' refer by the relation '{}', and \
                 change those too, which the resource token does not open. Use an account key.",
                rule.def.from, rule.def.name
            )
            .into(),
        ))
    }
}

impl Models<'_> {
    /// Refuses a request that may end any item of a container, if the rules on deletion may lead out
    /// of what it may change: a script, and a delete by partition key.
    pub fn must_stay_within(self, container: &Container, reach: Reach) -> Result<()> {
        let database = self.database_of(container);
        let Some(scope) = ModelContext::of(database.as_deref(), container) else { return Ok(()) };
        let rules = &scope.model.rules;
        let is_here = |item_type: usize| *rules.types[item_type].def.container == *container.id;
        let leads_out = |rule: &RelationRule| {
            is_here(rule.to)
                && changes_sources(rule)
                && match reach {
                    Reach::Database => false,
                    Reach::Container => !is_here(rule.from),
                    Reach::Partition => !rule.same_partition,
                    Reach::Nothing => true,
                }
        };
        match rules.relations.iter().find(|rule| leads_out(rule)) {
            None => Ok(()),
            Some(rule) => Err(Error::Denied(
                format!(
                    "The request may delete items to which items of '{}' refer by the relation '{}', \
                     and change those too, which the resource token does not open. Use an account key.",
                    rule.def.from, rule.def.name
                )
                .into(),
            )),
        }
    }
}
