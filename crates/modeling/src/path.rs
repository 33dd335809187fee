//! Paths of a model: as container definitions write them, with `*` for the elements of an array:
//! `/authors/*/id`. A *place* says which elements were meant.

use std::fmt;

use orrery_types::{Object, Value};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelStep {
    /// To a property.
    Name(Box<str>),
    /// To the elements of an array.
    Each,
}

/// For each `*` of a path the index of the element that was taken.
pub type ElementPath = Vec<usize>;

/// A path from the root of an item. Two spellings of the same steps are equal.
#[derive(Clone, Debug)]
pub struct ModelPath {
    text: Box<str>,
    steps: Vec<ModelStep>,
}

impl PartialEq for ModelPath {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps
    }
}

impl Eq for ModelPath {}

impl fmt::Display for ModelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ModelPath {
    /// Reads `/a/*/b`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut steps = Vec::new();
        let mut rest = text;
        if !rest.starts_with('/') {
            return Err("a path starts with '/'");
        }
        while let Some(after) = rest.strip_prefix('/') {
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (segment, tail) = match quote {
                Some(quote) => {
                    let inner = &after[1..];
                    let end = inner.find(quote).ok_or("a quote is not closed")?;
                    (&inner[..end], &inner[end + 1..])
                }
                None => after.split_at(after.find('/').unwrap_or(after.len())),
            };
            steps.push(match segment {
                "" => return Err("a segment is empty"),
                "*" if quote.is_none() => ModelStep::Each,
                "[]" if quote.is_none() => return Err("the elements of an array are written '*'"),
                name => ModelStep::Name(name.into()),
            });
            rest = tail;
        }
        if !rest.is_empty() {
            return Err("a quoted segment must be followed by '/' or the end");
        }
        if steps.first() == Some(&ModelStep::Each) {
            return Err("an item is an object: a path starts with a property, not with '*'");
        }
        Ok(Self { text: text.into(), steps })
    }

    /// A path of steps.
    pub fn of(steps: Vec<ModelStep>) -> Self {
        let text: String = steps
            .iter()
            .map(|step| match step {
                ModelStep::Each => "/*".to_owned(),
                ModelStep::Name(name) if name.contains(['/', '*', '"']) => format!("/'{name}'"),
                ModelStep::Name(name) => format!("/{name}"),
            })
            .collect();
        Self { text: text.into(), steps }
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[ModelStep] {
        &self.steps
    }

    /// Whether it goes through no array.
    pub fn is_plain(&self) -> bool {
        !self.steps.contains(&ModelStep::Each)
    }

    /// The name of the last step; `None` if that is an element.
    pub fn last_name(&self) -> Option<&str> {
        match self.steps.last() {
            Some(ModelStep::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// The path of a property that stands beside the last step.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        let mut steps = self.steps.clone();
        // Beside an element of an array there is no property: its name hangs on the array's holder.
        while steps.pop() == Some(ModelStep::Each) {}
        steps.push(ModelStep::Name(name.into()));
        Self::of(steps)
    }

    /// Whether one of the two leads to the other or to something in it.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.steps.iter().zip(&other.steps).all(|(a, b)| a == b)
    }

    /// Every value at the path with its place.
    pub fn collect<'v>(&self, root: &'v Value) -> Vec<(ElementPath, &'v Value)> {
        let mut found = vec![(ElementPath::new(), root)];
        for step in &self.steps {
            found = match step {
                ModelStep::Name(name) => {
                    let next = found.into_iter().map(|(place, value)| (place, value.get(name)));
                    next.filter(|(_, value)| !value.is_undefined()).collect()
                }
                ModelStep::Each => {
                    found.into_iter().flat_map(|(place, value)| each(&place, value)).collect()
                }
            };
        }
        found
    }

    /// The value at a place, which may be shorter or longer than the path needs.
    pub fn get<'v>(&self, root: &'v Value, place: &[usize]) -> &'v Value {
        let mut indexes = place.iter();
        self.steps.iter().fold(root, |value, step| match step {
            ModelStep::Name(name) => value.get(name),
            ModelStep::Each => indexes.next().map_or(&Value::Undefined, |at| value.at(*at)),
        })
    }

    /// Sets the value at a place; undefined removes it. Objects on the way are made where there is
    /// nothing; where something else stands in the way nothing happens.
    pub fn set(&self, root: &mut Value, place: &[usize], value: Value) {
        let Some((last, steps)) = self.steps.split_last() else { return };
        let mut indexes = place.iter();
        let mut at = root;
        for step in steps {
            let next = match step {
                ModelStep::Name(name) => {
                    if at.get(name).is_undefined() {
                        if value.is_undefined() {
                            return;
                        }
                        let Some(object) = at.as_object_mut() else { return };
                        object.set(name, Value::object(Object::new()));
                    }
                    at.as_object_mut().and_then(|object| object.get_mut(name))
                }
                ModelStep::Each => {
                    let index = indexes.next().copied().unwrap_or(usize::MAX);
                    at.as_array_mut().and_then(|array| array.get_mut(index))
                }
            };
            let Some(next) = next else { return };
            at = next;
        }
        match last {
            ModelStep::Name(name) => {
                if let Some(object) = at.as_object_mut() {
                    object.set(name, value);
                }
            }
            ModelStep::Each => {
                let index = indexes.next().copied().unwrap_or(usize::MAX);
                if let Some(slot) = at.as_array_mut().and_then(|array| array.get_mut(index)) {
                    *slot = value;
                }
            }
        }
    }

    /// Takes the array elements at these places out: of each, the element of its last `*`.
    pub fn pull(&self, root: &mut Value, places: &[ElementPath]) {
        let Some(last) = self.steps.iter().rposition(|step| *step == ModelStep::Each) else {
            return;
        };
        let array = Self::of(self.steps[..last].to_vec());
        let mut sorted: Vec<&ElementPath> = places.iter().collect();
        sorted.sort_unstable();
        // From the back, so that the indexes of those still to go stay right.
        for place in sorted.into_iter().rev() {
            let Some((index, before)) = place.split_last() else { continue };
            let mut elements = array.get(root, before).clone();
            if let Some(list) = elements.as_array_mut()
                && *index < list.len()
            {
                list.remove(*index);
            }
            array.set(root, before, elements);
        }
    }
}

fn each<'v>(place: &[usize], value: &'v Value) -> Vec<(ElementPath, &'v Value)> {
    let elements = value.as_array().unwrap_or_default();
    let at = |(index, element)| {
        let mut place = place.to_vec();
        place.push(index);
        (place, element)
    };
    elements.iter().enumerate().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect(text)
    }

    fn path(text: &str) -> ModelPath {
        ModelPath::parse(text).expect(text)
    }

    #[test]
    fn paths_read_through_arrays() {
        let item = json(r#"{"a":[{"id":"x"},{"n":1},{"id":"y"}],"b":{"c":"z"}}"#);
        let found = |p: &str| -> Vec<String> {
            path(p).collect(&item).iter().map(|(at, v)| format!("{at:?}{}", v.to_json())).collect()
        };
        assert_eq!(found("/a/*/id"), [r#"[0]"x""#, r#"[2]"y""#]);
        assert_eq!(found("/b/c"), [r#"[]"z""#]);
        assert!(found("/b/*").is_empty());
        for bad in ["", "a", "/", "//a", "/*", "/a/[]/b", "/\"a", "/'a'b"] {
            assert!(ModelPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_set_and_removed_in_place() {
        let mut item = json(r#"{"a":[{"id":"x"},{"id":"y"}]}"#);
        path("/a/*/name").set(&mut item, &[1], "Y".into());
        path("/c/d").set(&mut item, &[], 7.into());
        path("/e/f").set(&mut item, &[], Value::Undefined);
        assert_eq!(item.to_json(), r#"{"a":[{"id":"x"},{"id":"y","name":"Y"}],"c":{"d":7}}"#);
        path("/a/*/id").set(&mut item, &[0], Value::Undefined);
        assert_eq!(item.get("a").to_json(), r#"[{},{"id":"y","name":"Y"}]"#);
    }

    #[test]
    fn elements_are_pulled_from_the_back() {
        let mut item = json(r#"{"a":[{"id":1},{"id":2},{"id":3}],"b":[1,2,3]}"#);
        path("/a/*/id").pull(&mut item, &[vec![0], vec![2]]);
        path("/b/*").pull(&mut item, &[vec![1]]);
        assert_eq!(item.to_json(), r#"{"a":[{"id":2}],"b":[1,3]}"#);
    }

    #[test]
    fn a_sibling_stands_in_the_object_that_holds_the_last_step() {
        assert_eq!(path("/a/*/id").sibling("name").to_string(), "/a/*/name");
        assert_eq!(path("/pub-id").sibling("publisher").to_string(), "/publisher");
        assert_eq!(path("/ids/*").sibling("n").to_string(), "/n");
    }
}
