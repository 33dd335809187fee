//! What a model may say and this version does not keep: it is refused, because a promise must hold.

use orrery_modeling::{AggregateKind, Model, ModelError, Rules};

pub(crate) fn check(model: &Model, rules: &Rules) -> Result<(), ModelError> {
    let refuse = |path: String, what: &str| {
        Err(ModelError::new(path, format!("not built yet in this version: {what}")))
    };
    if !model.buckets.is_empty() {
        return refuse("/buckets/0".into(), "buckets; leave them out");
    }
    let other = rules.aggregates.iter().position(|rule| rule.def.kind != AggregateKind::Count);
    if let Some(i) = other {
        return refuse(format!("/aggregates/{i}/value"), "SUM, AVG, MIN and MAX; use COUNT");
    }
    Ok(())
}
