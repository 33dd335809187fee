//! JSON Schema 2020-12 over items. References to other documents are refused: nothing is fetched.
//! Evaluation is bounded: `schema_cost` computes the most work that a schema can make of an item, a
//! schema that can make too much is refused when the model is stored, and an item that would take
//! too much is not evaluated. Patterns are matched in linear time.

use std::fmt;

use orrery_types::{Value, limits};

use crate::schema_cost::SchemaCost;

/// A schema ready to use.
pub struct Schema {
    validator: jsonschema::Validator,
    cost: SchemaCost,
}

/// What an item does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// JSON pointer into the item.
    pub path: Box<str>,
    /// JSON pointer into the schema: which of its rules it is.
    pub rule: Box<str>,
    /// A sentence.
    pub message: Box<str>,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// Complaints about one item that are reported.
const COMPLAINTS_MAX: usize = 5;
/// Characters of one message: it may quote the item.
const MESSAGE_CHARS_MAX: usize = 200;

impl Schema {
    /// Reads a schema; the error says what is wrong with it.
    pub fn parse(schema: &Value) -> Result<Self, String> {
        let cost = SchemaCost::of(schema)?;
        let patterns = jsonschema::PatternOptions::regex()
            .size_limit(limits::MODEL_SCHEMA_PATTERN_BYTES_MAX)
            .dfa_size_limit(limits::MODEL_SCHEMA_PATTERN_BYTES_MAX);
        let built = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .offline()
            .build(&json(schema));
        match built {
            Ok(validator) => Ok(Self { validator, cost }),
            Err(error) => Err(format!("not a JSON Schema: {error}")),
        }
    }

    /// The most evaluations of schemas that an item takes.
    pub fn steps(&self, item: &Value) -> u64 {
        self.cost.steps(item)
    }

    /// What an item does not keep; empty if it is valid.
    pub fn complaints(&self, item: &Value) -> Vec<Complaint> {
        let steps = self.steps(item);
        if steps > limits::MODEL_SCHEMA_STEPS_MAX {
            let message = format!(
                "the item has too many values to be checked: it would take up to {steps} evaluations \
                 of schemas, and {} are done; make the item smaller or the schema simpler",
                limits::MODEL_SCHEMA_STEPS_MAX
            );
            return vec![Complaint { path: "".into(), rule: "".into(), message: message.into() }];
        }
        let item = json(item);
        if self.validator.is_valid(&item) {
            return vec![];
        }
        if steps <= limits::MODEL_SCHEMA_REPORT_STEPS_MAX {
            let errors = self.validator.iter_errors(&item);
            return errors.take(COMPLAINTS_MAX).map(|error| complaint(&error)).collect();
        }
        // Every failure is kept in memory until all are known, and there may be as many as values.
        if !self.cost.branches
            && let Err(error) = self.validator.validate(&item)
        {
            return vec![complaint(&error)];
        }
        let message = "the item is not valid, and is too large to say where".into();
        vec![Complaint { path: "".into(), rule: "".into(), message }]
    }
}

fn complaint(error: &jsonschema::ValidationError<'_>) -> Complaint {
    Complaint {
        path: error.instance_path().as_str().into(),
        rule: error.schema_path().as_str().into(),
        message: error.to_string().chars().take(MESSAGE_CHARS_MAX).collect::<String>().into(),
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Undefined | Value::Null => serde_json::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Number(n) => match n.as_i64() {
            Some(i) => i.into(),
            None => n.as_f64().into(),
        },
        Value::String(s) => s.to_string().into(),
        Value::Array(elements) => elements.iter().map(json).collect(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| (name.to_string(), json(value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn an_item_is_told_what_it_does_not_keep() {
        let schema = Schema::parse(&parse(
            r#"{"required":["name"],"properties":{"tags":{"type":"array","maxItems":2}}}"#,
        ))
        .expect("a schema");
        assert!(schema.complaints(&parse(r#"{"name":"a","tags":[1,2]}"#)).is_empty());
        let found = schema.complaints(&parse(r#"{"tags":[1,2,3]}"#));
        let paths: Vec<(&str, &str)> = found.iter().map(|c| (&*c.path, &*c.rule)).collect();
        assert!(paths.contains(&("/tags", "/properties/tags/maxItems")), "{paths:?}");
        assert!(paths.contains(&("", "/required")), "{paths:?}");
    }

    #[test]
    fn a_bad_schema_is_refused_and_nothing_is_fetched() {
        assert!(Schema::parse(&parse(r#"{"type":"nonsense"}"#)).is_err());
        assert!(Schema::parse(&parse(r#"{"$ref":"http://example.com/s.json"}"#)).is_err());
        assert!(Schema::parse(&parse(r#"{"$ref":"file:///etc/passwd"}"#)).is_err());
    }
}
