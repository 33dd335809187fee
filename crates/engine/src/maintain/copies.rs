//! Copies: fields of an item that are kept equal to those of an item that it refers to.

use orrery_modeling::RelationRule;
use orrery_types::{Result, Value};

use super::cascade::{Cascade, ItemChange, RelationMaintainer, RelationRef};
use crate::item::address::ItemAddress;
use crate::model::ModelTransaction;

/// The item is of the target type: what those that refer to it have copied follows.
#[derive(Debug)]
pub(super) struct Copies;

impl RelationMaintainer for Copies {
    fn maintain<'e>(
        &self,
        relation: RelationRef<'_>,
        change: &ItemChange<'e>,
        cascade: &mut Cascade<'_, '_, 'e>,
    ) -> Result<()> {
        let (rule, target) = (relation.rule, &change.address);
        let to = &cascade.model.context.model.rules.types[rule.to];
        let is = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| to.matches(&target.container.id, value))
        };
        if !is(&change.after) || rule.copies.is_empty() {
            return Ok(());
        }
        let copies = |value: &Option<Value>| -> Vec<Value> {
            let of = |item: &Value| rule.copies.iter().map(|(_, copy)| copy.value(item)).collect();
            value.as_ref().map(of).unwrap_or_default()
        };
        let after = copies(&change.after);
        if is(&change.before) && copies(&change.before) == after {
            return Ok(());
        }
        for source in cascade.sources(relation, target)? {
            let Some(value) = cascade.model.tx.value_at(&source)? else { continue };
            let kept = cascade.model.with_copies(rule, &value, target, &after)?;
            if kept != value {
                cascade.put(relation, &source, value, kept)?;
            }
        }
        Ok(())
    }
}

impl<'e> ModelTransaction<'_, 'e> {
    /// An item with the copies beside its references to a target put to these values.
    pub(crate) fn with_copies(
        &self,
        rule: &RelationRule,
        value: &Value,
        target: &ItemAddress<'e>,
        copies: &[Value],
    ) -> Result<Value> {
        let mut kept = value.clone();
        for place in self.places(rule, value, target)? {
            for ((path, _), copy) in rule.copies.iter().zip(copies) {
                path.set(&mut kept, &place, copy.clone());
            }
        }
        Ok(kept)
    }
}
