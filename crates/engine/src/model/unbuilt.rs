//! What a model may say and this version does not keep: it is refused, because a promise must hold.

use orrery_modeling::{
    AggregateKind, Model, ModelError, OnDelete, OnOverflow, Propagate, RelationRule, Rules,
};

pub(crate) fn check(model: &Model, rules: &Rules) -> Result<(), ModelError> {
    let refuse = |path: String, what: &str| {
        Err(ModelError::new(path, format!("not built yet in this version: {what}")))
    };
    if !model.buckets.is_empty() {
        return refuse("/buckets/0".into(), "buckets; leave them out");
    }
    for (i, rule) in rules.relations.iter().enumerate() {
        if rule.def.on_overflow == OnOverflow::Async {
            let what = "effects that follow later; leave 'onOverflow' out";
            return refuse(format!("/relations/{i}/onOverflow"), what);
        }
        if has_effects(rule) && !rule.same_partition && rule.propagate() == Propagate::Async {
            let what = "effects that follow later; say \"propagate\":\"sync\"";
            return refuse(format!("/relations/{i}/propagate"), what);
        }
    }
    for (i, rule) in rules.aggregates.iter().enumerate() {
        if rule.def.kind != AggregateKind::Count {
            return refuse(format!("/aggregates/{i}/value"), "SUM, AVG, MIN and MAX; use COUNT");
        }
        if rule.def.on_overflow == OnOverflow::Async {
            let what = "effects that follow later; leave 'onOverflow' out";
            return refuse(format!("/aggregates/{i}/onOverflow"), what);
        }
        let beside = rules.relations[rule.relation].same_partition;
        if !beside && rule.def.propagate == Propagate::Async {
            let what = "effects that follow later; say \"propagate\":\"sync\"";
            return refuse(format!("/aggregates/{i}/propagate"), what);
        }
    }
    Ok(())
}

/// Whether the relation changes items other than the one that is written.
fn has_effects(rule: &RelationRule) -> bool {
    let stored = rule.def.inverse.as_ref().is_some_and(|inverse| inverse.store.is_some());
    let follows =
        matches!(rule.def.on_delete, OnDelete::Cascade | OnDelete::Unset | OnDelete::Pull);
    stored || follows || !rule.copies.is_empty()
}
