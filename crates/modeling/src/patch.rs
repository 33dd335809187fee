//! Putting a part of a model into a model: what the advisor proposes, or a person adds. A type is known
//! by its name, a relation by its source and path, an aggregate and a bucket by their type and path;
//! what is there is changed in the properties that the patch names, what is not is added.

use orrery_types::{Object, Value};

/// The lists of a model, and what tells their entries apart.
const LISTS: [(&str, [&str; 2]); 3] =
    [("relations", ["from", "path"]), ("aggregates", ["on", "path"]), ("buckets", ["on", "array"])];

/// Whether a document is a part of a model and not a whole one.
pub fn is_patch(document: &Value) -> bool {
    document.get("version").is_undefined()
}

/// A model with a patch put into it; `model` may be undefined. The error says what cannot be put there.
pub fn merged(model: &Value, patch: &Value) -> Result<Value, String> {
    let Some(parts) = patch.as_object() else { return Err("a patch is a JSON object".into()) };
    let mut document = model.as_object().cloned().unwrap_or_default();
    document.set("version", 1.into());
    let mut types = document.get("types").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, part) in parts.iter() {
        match &**name {
            "types" => {
                for (name, part) in part.as_object().into_iter().flat_map(Object::iter) {
                    let known = types.get(name).cloned().unwrap_or_default();
                    types.set(name, over(&known, part));
                }
            }
            "containers" => {
                return Err(
                    "'containers' is about the definitions of containers, which are no part of the \
                     model: replace the container (its indexing policy), or make a new one and copy the \
                     items (its partition key)"
                        .into(),
                );
            }
            name => {
                let Some((_, keys)) = LISTS.iter().find(|(list, _)| *list == name) else {
                    return Err(format!(
                        "'{name}' is no part of a model; known are: types, relations, aggregates, buckets"
                    ));
                };
                let list = document.get(name).cloned().unwrap_or_default();
                document.set(name, put_all(&list, part, keys));
            }
        }
    }
    document.set("types", Value::object(types));
    Ok(Value::object(document))
}

fn put_all(list: &Value, parts: &Value, keys: &[&str; 2]) -> Value {
    let mut entries = list.as_array().unwrap_or_default().to_vec();
    for part in parts.as_array().unwrap_or_default() {
        let same = |entry: &&mut Value| keys.iter().all(|key| entry.get(key) == part.get(key));
        match entries.iter_mut().find(same) {
            Some(entry) => *entry = over(entry, part),
            None => entries.push(part.clone()),
        }
    }
    Value::array(entries)
}

/// An object with the properties of another over its own.
fn over(own: &Value, part: &Value) -> Value {
    let (Some(own), Some(part)) = (own.as_object(), part.as_object()) else { return part.clone() };
    let mut object = own.clone();
    for (name, value) in part.iter() {
        // An empty object removes the existing value, as the patch of a copy that shall go has it.
        let empties = value.as_object().is_some_and(Object::is_empty);
        let known = object.get(name).cloned().filter(|known| known.as_object().is_some());
        match known {
            Some(known) if !empties => object.set(name, over(&known, value)),
            _ => object.set(name, value.clone()),
        }
    }
    Value::object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn a_patch_adds_and_changes() {
        let model = json(
            r#"{"version":1,"types":{"book":{"container":"l","where":"c.type = 'book'"}},
                "relations":[{"name":"author","from":"book","path":"/a","to":"book","copies":{"n":"t.n"}}]}"#,
        );
        let patch = json(
            r#"{"types":{"book":{"schema":{"required":["x"]}},"pub":{"container":"l"}},
                "relations":[{"from":"book","path":"/a","copies":{}},{"name":"p","from":"book","path":"/p","to":"pub"}],
                "aggregates":[{"on":"pub","path":"/n","of":"books","value":"COUNT(1)"}]}"#,
        );
        assert!(is_patch(&patch) && !is_patch(&model));
        let merged = merged(&model, &patch).expect("it is merged");
        let book = merged.get("types").get("book");
        assert_eq!(book.get("where").as_str(), Some("c.type = 'book'"));
        assert!(!book.get("schema").is_undefined());
        assert_eq!(merged.get("relations").as_array().map(<[Value]>::len), Some(2));
        assert_eq!(merged.get("relations").at(0).get("copies").to_json(), "{}");
        assert_eq!(merged.get("relations").at(0).get("name").as_str(), Some("author"));
        assert_eq!(merged.get("aggregates").at(0).get("on").as_str(), Some("pub"));
        crate::Model::parse(&merged).expect("a model");
    }

    #[test]
    fn what_is_no_part_of_a_model_is_told() {
        let refused = |patch: &str| merged(&Value::Undefined, &json(patch)).expect_err(patch);
        assert!(refused(r#"{"containers":{}}"#).contains("definitions of containers"));
        assert!(refused(r#"{"relation":[]}"#).contains("known are: types"));
        assert!(refused("[]").contains("a JSON object"));
    }
}
