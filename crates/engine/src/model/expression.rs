//! Gives the model the expressions of the query language, under the rules of computed properties,
//! and the facts it asks about containers.

use std::sync::Arc;

use orrery_modeling::{Containers, Expression, Expressions, PathRead};
use orrery_query::{BoundQuery, ComputedProperty, ContainerFacts, EvalContext, Query};
use orrery_types::ids::Address;
use orrery_types::{BudgetLimits, ExecutionBudget, PropertyPath, Value, limits};

use crate::Database;

/// An expression over one item.
#[derive(Debug)]
struct Scalar {
    bound: BoundQuery,
    reads: Vec<PathRead>,
}

impl Expression for Scalar {
    fn value(&self, item: &Value) -> Value {
        let limits = BudgetLimits { steps_max: limits::MODEL_STEPS_MAX, ..BudgetLimits::default() };
        let budget = ExecutionBudget::new(limits);
        let context = EvalContext::new(&budget);
        // Too much work for one item: it has no value then, the same every time.
        self.bound.value_of(item, &context).unwrap_or_default()
    }

    fn reads(&self) -> &[PathRead] {
        &self.reads
    }
}

/// The query language.
pub(crate) struct Language;

impl Expressions for Language {
    fn parse(&self, alias: &str, text: &str) -> Result<Arc<dyn Expression>, String> {
        // On a line of its own, so that a comment in it ends with it.
        let query = format!("SELECT VALUE ({text}\n) FROM {alias}");
        let explain = |error: orrery_query::QueryError| {
            let error = error.to_string();
            // What is said of the query around it would only confuse.
            let details = error.split_once("Error details: '").map(|(_, details)| details);
            let details = details.map_or(&*error, |details| details.trim_end_matches('\''));
            format!("'{text}' is not an expression over '{alias}': {details}")
        };
        ComputedProperty::parse("expression", &query, 0).map_err(explain)?;
        let query = Query::parse(&query).map_err(explain)?;
        let reads = query.root_paths();
        let bound = query.bind(&[], &ContainerFacts::default()).map_err(explain)?;
        Ok(Arc::new(Scalar { bound, reads }))
    }
}

impl Containers for Database {
    fn partition_key(&self, container: &str) -> Option<Vec<PropertyPath>> {
        let container = self.container(&Address::Name(container.to_owned()))?;
        Some(container.definition.partition_key.paths.clone())
    }

    fn has_unique_keys(&self, container: &str) -> bool {
        let container = self.container(&Address::Name(container.to_owned()));
        container.is_some_and(|container| !container.definition.unique_keys.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_computed_properties() {
        let item = Value::parse(br#"{"a":"x","b":[1,2]}"#).expect("json");
        let value = |text: &str| Language.parse("t", text).expect(text).value(&item).to_json();
        assert_eq!(value("CONCAT(t.a, '!')"), r#""x!""#);
        assert_eq!(value("t.b[1] = 2"), "true");
        assert_eq!(value("t.missing"), "");
        for bad in ["RAND()", "x.a", "COUNT(1)", "udf.f(t)", "(SELECT 1)", "t.a) FROM t --", "@p"] {
            assert!(Language.parse("t", bad).is_err(), "{bad}");
        }
    }
}
