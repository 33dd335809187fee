//! Copies: fields of an item that are kept equal to those of an item that it refers to.

use orrery_modeling::RelationRule;
use orrery_types::{Result, Value};

use super::cascade::{Cascade, ItemChange, RelationMaintainer, RelationRef};
use crate::item::address::ItemAddress;
use crate::maintain::cascade;
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
        if rule.copies.is_empty() {
            return Ok(());
        }
        let (was, is) = change.is_of(&cascade.model.context.model.rules.types[rule.to]);
        if !is {
            return Ok(());
        }
        let copies = |value: &Option<Value>| -> Vec<Value> {
            let of = |item: &Value| rule.copies.iter().map(|(_, copy)| copy.value(item)).collect();
            value.as_ref().map(of).unwrap_or_default()
        };
        let after = copies(&change.after);
        if was && copies(&change.before) == after {
            return Ok(());
        }
        for source in cascade.sources(relation, target)? {
            let Some(value) = cascade.model.tx.value_at(&source)? else { continue };
            let kept = with_copies(cascade.model, rule, &value, target, &after)?;
            if kept != value {
                cascade.put(relation, &source, value, kept)?;
            }
        }
        Ok(())
    }
}

/// An item with the copies beside its references to a target put to these values.
pub(crate) fn with_copies<'e>(
    model: &ModelTransaction<'_, 'e>,
    rule: &RelationRule,
    value: &Value,
    target: &ItemAddress<'e>,
    copies: &[Value],
) -> Result<Value> {
    let mut kept = value.clone();
    for place in cascade::places(model, rule, value, target)? {
        for ((path, _), copy) in rule.copies.iter().zip(copies) {
            path.set(&mut kept, &place, copy.clone());
        }
    }
    Ok(kept)
}
