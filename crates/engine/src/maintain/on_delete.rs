//! What becomes of the items that refer to one that is deleted, or that is no longer of the target type:
//! the deletion is refused, or they are deleted too, or their references are removed.

use orrery_modeling::{OnDelete, RelationRule};
use orrery_types::{Error, Result, Value, limits};

use super::cascade::{Cascade, ItemChange, RelationMaintainer, RelationRef};
use crate::item::address::ItemAddress;
use crate::maintain::cascade;
use crate::model::ModelTransaction;

/// The item was of the target type and is not any more: those that refer to it follow.
#[derive(Debug)]
pub(super) struct OnTargetDelete;

impl RelationMaintainer for OnTargetDelete {
    fn maintain<'e>(
        &self,
        relation: RelationRef<'_>,
        change: &ItemChange<'e>,
        cascade: &mut Cascade<'_, '_, 'e>,
    ) -> Result<()> {
        let (rule, target) = (relation.rule, &change.address);
        if rule.def.on_delete == OnDelete::Keep {
            return Ok(());
        }
        let (was, is) = change.is_of(&cascade.model.context.model.rules.types[rule.to]);
        if !was || is {
            return Ok(());
        }
        let origin = cascade.origin.clone();
        cascade.model.must_reach_sources(relation.index, rule, target, &origin)?;
        if rule.def.on_delete == OnDelete::Restrict {
            return refuse_if_referenced(relation, target, cascade);
        }
        let mut sources = cascade.sources(relation, target)?;
        sources.retain(|source| !source.is(target));
        for source in sources {
            let Some(value) = cascade.model.tx.value_at(&source)? else { continue };
            match without_target(cascade.model, rule, &value, target)? {
                Some(kept) if kept == value => {}
                Some(kept) => cascade.put(relation, &source, value, kept)?,
                None => cascade.delete(relation, source, value)?,
            }
        }
        Ok(())
    }
}

fn refuse_if_referenced<'e>(
    RelationRef { index, rule }: RelationRef<'_>,
    target: &ItemAddress<'e>,
    cascade: &mut Cascade<'_, '_, 'e>,
) -> Result<()> {
    let found = cascade::referrers_up_to(cascade.model, index, target, limits::MODEL_ITEMS_MAX)?;
    let Some(found) = found else {
        if let Some(one) = cascade::visible_referrer(cascade.model, index, target)? {
            cascade.refuse_because_of(&one);
        }
        return Err(still_referenced(rule, &[]));
    };
    let mut seen = Vec::new();
    for source in found {
        if !source.is(target) && cascade.model.tx.value_at(&source)?.is_some() {
            seen.push(source);
        }
    }
    let Some(first) = seen.first() else { return Ok(()) };
    cascade.refuse_because_of(first);
    Err(still_referenced(rule, &seen))
}

/// An item after the deletion of a target to which it refers; `None` if it is deleted too.
pub(crate) fn without_target<'e>(
    model: &ModelTransaction<'_, 'e>,
    rule: &RelationRule,
    value: &Value,
    target: &ItemAddress<'e>,
) -> Result<Option<Value>> {
    let mut kept = value.clone();
    let places = cascade::places(model, rule, value, target)?;
    if places.is_empty() {
        return Ok(Some(kept));
    }
    match rule.def.on_delete {
        OnDelete::Keep | OnDelete::Restrict => {}
        OnDelete::Cascade => return Ok(None),
        OnDelete::Pull => rule.def.path.pull(&mut kept, &places),
        OnDelete::Unset => {
            for place in &places {
                rule.def.path.set(&mut kept, place, Value::Undefined);
                for (path, _) in &rule.copies {
                    path.set(&mut kept, place, Value::Undefined);
                }
            }
        }
    }
    Ok(Some(kept))
}

fn still_referenced(rule: &RelationRule, sources: &[ItemAddress<'_>]) -> Error {
    let mut ids: Vec<String> = sources.iter().map(|source| source.id().into_string()).collect();
    ids.sort_unstable();
    ids.truncate(limits::MODEL_HOLDERS_MAX);
    let more = match sources.len().saturating_sub(ids.len()) {
        0 if sources.is_empty() => format!("more than {} items", limits::MODEL_ITEMS_MAX),
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Error::StillReferenced(
        format!(
            "Items of type '{}' refer to it by '{}' (relation '{}', onDelete restrict): {}{more}.",
            rule.def.from,
            rule.def.path,
            rule.def.name,
            ids.join(", ")
        )
        .into(),
    )
}
