//! What the schema of a type may say of an array that the model keeps in buckets. Its elements are
//! checked as they are written; the array as a whole is never at hand, so a keyword about the whole
//! of it is refused when the model is stored.

use std::collections::HashSet;

use orrery_types::Value;

/// Keywords that need the whole array.
const OF_THE_WHOLE: [&str; 10] = [
    "maxItems",
    "minItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "prefixItems",
    "unevaluatedItems",
    "enum",
    "const",
];

/// Refuses what cannot be kept; `names` lead to the array. The error names the keyword.
pub(crate) fn check(schema: &Value, names: &[&str]) -> Result<(), String> {
    let mut walk = Walk { root: schema, seen: HashSet::new() };
    walk.holder(schema, names)
}

struct Walk<'s> {
    root: &'s Value,
    /// Schemas that were looked at, with how many names were left to go.
    seen: HashSet<(*const Value, usize)>,
}

impl<'s> Walk<'s> {
    /// Looks at a schema of the object from which these names lead to the array; none: of the array.
    fn holder(&mut self, schema: &'s Value, names: &[&str]) -> Result<(), String> {
        if !self.seen.insert((std::ptr::from_ref(schema), names.len())) {
            return Ok(());
        }
        for same in self.same_value(schema) {
            self.holder(same, names)?;
        }
        let Some((name, rest)) = names.split_first() else {
            let found = OF_THE_WHOLE.iter().find(|word| !schema.get(word).is_undefined());
            return found.map_or(Ok(()), |word| Err(whole(word)));
        };
        if rest.is_empty() {
            let required = schema.get("required").as_array().unwrap_or_default();
            if required.iter().any(|own| own.as_str() == Some(name)) {
                return Err(format!(
                    "it requires '{name}', which is never in the item: the model keeps it in buckets"
                ));
            }
        }
        let own = schema.get("properties").get(name);
        if !own.is_undefined() {
            self.holder(own, rest)?;
        } else if schema.get("additionalProperties").as_object().is_some() {
            self.holder(schema.get("additionalProperties"), rest)?;
        }
        let patterns = schema.get("patternProperties").as_object();
        for (_, schema) in patterns.iter().flat_map(|patterns| patterns.iter()) {
            self.holder(schema, rest)?;
        }
        Ok(())
    }

    /// The schemas that apply to the same value. That references lead somewhere is known already.
    fn same_value(&self, schema: &'s Value) -> Vec<&'s Value> {
        let mut all: Vec<&Value> = Vec::new();
        for name in ["allOf", "anyOf", "oneOf"] {
            all.extend(schema.get(name).as_array().unwrap_or_default());
        }
        all.extend(["not", "if", "then", "else"].iter().map(|name| schema.get(name)));
        let dependent = schema.get("dependentSchemas").as_object();
        all.extend(dependent.iter().flat_map(|map| map.iter().map(|(_, schema)| schema)));
        if let Some(reference) = schema.get("$ref").as_str() {
            all.extend(crate::schema_cost::resolve(self.root, reference));
        }
        all.retain(|schema| schema.as_object().is_some());
        all
    }
}

fn whole(keyword: &str) -> String {
    format!(
        "'{keyword}' is about the whole of an array that the model keeps in buckets, of which only \
         the elements that are written are checked; say what holds for each element under 'items'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_may_have_a_schema_and_the_whole_array_may_not() {
        let parse = |text: &str| Value::parse(text.as_bytes()).expect(text);
        let good = [
            r#"{"properties":{"a":{"properties":{"c":{"type":"array","items":{"maxItems":3}}}}}}"#,
            r##"{"$defs":{"c":{"items":{"type":"object"}}},"properties":{"a":{"properties":
                {"c":{"$ref":"#/$defs/c"},"d":{"maxItems":1}}}},"required":["c"]}"##,
        ];
        for text in good {
            assert_eq!(check(&parse(text), &["a", "c"]), Ok(()), "{text}");
        }
        let bad = [
            r#"{"properties":{"a":{"properties":{"c":{"maxItems":3}}}}}"#,
            r#"{"properties":{"a":{"required":["c"]}}}"#,
            r#"{"allOf":[{"properties":{"a":{"anyOf":[{"properties":{"c":{"contains":{}}}}]}}}]}"#,
            r##"{"$defs":{"c":{"uniqueItems":true}},"properties":{"a":{"properties":
                {"c":{"$ref":"#/$defs/c"}}}}}"##,
            r#"{"properties":{"a":{"additionalProperties":{"minItems":1}}}}"#,
        ];
        for text in bad {
            assert!(check(&parse(text), &["a", "c"]).is_err(), "{text}");
        }
    }
}
