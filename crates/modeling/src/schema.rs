//! JSON Schema 2020-12 over items. References to other documents are refused: nothing is fetched.

use std::fmt;

use orrery_types::Value;

/// A schema ready to use.
pub struct Schema(jsonschema::Validator);

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

/// Complaints about one item that are told; the rest would only be more of the same.
const COMPLAINTS_MAX: usize = 5;
/// Characters of one message: it may quote the item.
const MESSAGE_CHARS_MAX: usize = 200;

impl Schema {
    /// Reads a schema; the error says what is wrong with it.
    pub fn parse(schema: &Value) -> Result<Self, String> {
        let built = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .offline()
            .build(&json(schema));
        built.map(Self).map_err(|error| format!("not a JSON Schema: {error}"))
    }

    /// What an item does not keep; empty if it is valid.
    pub fn complaints(&self, item: &Value) -> Vec<Complaint> {
        let item = json(item);
        if self.0.is_valid(&item) {
            return vec![];
        }
        let complaint = |error: jsonschema::ValidationError<'_>| Complaint {
            path: error.instance_path().as_str().into(),
            rule: error.schema_path().as_str().into(),
            message: error.to_string().chars().take(MESSAGE_CHARS_MAX).collect::<String>().into(),
        };
        self.0.iter_errors(&item).take(COMPLAINTS_MAX).map(complaint).collect()
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
