//! A JSON value with `undefined` beside `null`, and the total order of the query language:
//! undefined < null < false < true < numbers < strings < arrays < objects.
//!
//! Strings, arrays and objects are shared, so that cloning a value costs a counter; changing one
//! copies it only when somebody else holds it too.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::Number;

/// Any value an expression can have. `Undefined` never stands inside an array or object.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The absence of a value; not the same as null.
    #[default]
    Undefined,
    /// JSON null.
    Null,
    /// JSON true or false.
    Bool(bool),
    /// A JSON number, or a non-finite result of arithmetic.
    Number(Number),
    /// A JSON string.
    String(Arc<str>),
    /// A JSON array.
    Array(Arc<Vec<Value>>),
    /// A JSON object.
    Object(Arc<Object>),
}

/// Properties in the order in which they were written; no name occurs twice.
#[derive(Clone, Debug, Default)]
pub struct Object {
    entries: Vec<(Arc<str>, Value)>,
}

impl Object {
    /// An object without properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes entries that the caller knows to have distinct names.
    pub fn from_distinct(entries: Vec<(Arc<str>, Value)>) -> Self {
        Self { entries }
    }

    /// The value of a property, if it is there.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.iter().find(|(n, _)| &**n == name).map(|(_, v)| v)
    }

    /// The value of a property for changing it in place.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.entries.iter_mut().find(|(n, _)| &**n == name).map(|(_, v)| v)
    }

    /// Sets a property: in its old place if it was there, else at the end. `Undefined` removes it.
    pub fn set(&mut self, name: &str, value: Value) {
        if matches!(value, Value::Undefined) {
            self.remove(name);
        } else if let Some(old) = self.get_mut(name) {
            *old = value;
        } else {
            self.entries.push((name.into(), value));
        }
    }

    /// Removes a property and returns what it was.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(n, _)| &**n == name)?;
        Some(self.entries.remove(at).1)
    }

    /// Properties in written order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.entries.iter().map(|(n, v)| (n, v))
    }

    /// Number of properties.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no property.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Properties ordered by name, for comparisons in which written order does not matter.
    fn sorted(&self) -> Vec<(&str, &Value)> {
        let mut entries: Vec<_> = self.entries.iter().map(|(n, v)| (&**n, v)).collect();
        entries.sort_unstable_by_key(|(n, _)| *n);
        entries
    }
}

impl PartialEq for Object {
    /// The same properties with equal values; their order does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.sorted() == other.sorted()
    }
}

impl Eq for Object {}

impl Value {
    /// A string value.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// An array value; undefined elements vanish.
    pub fn array(elements: Vec<Value>) -> Self {
        let mut elements = elements;
        elements.retain(|e| !e.is_undefined());
        Self::Array(Arc::new(elements))
    }

    /// An object value.
    pub fn object(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }

    /// Whether this is the absence of a value.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// Whether this is exactly the boolean `true`.
    pub fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::Number(n) => Some(*n),
            _ => None,
        }
    }

    /// The integer, if it is a number without fraction that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The properties of an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The properties of an object for changing them; copies the object if it is shared.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Self::Object(o) => Some(Arc::make_mut(o)),
            _ => None,
        }
    }

    /// The elements of an array for changing them; copies the array if it is shared.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::Array(a) => Some(Arc::make_mut(a)),
            _ => None,
        }
    }

    /// A property of an object; undefined for a missing property and for every other type.
    pub fn get(&self, name: &str) -> &Value {
        self.as_object().and_then(|o| o.get(name)).unwrap_or(&Self::Undefined)
    }

    /// An element of an array; undefined out of range and for every other type.
    pub fn at(&self, index: usize) -> &Value {
        self.as_array().and_then(|a| a.get(index)).unwrap_or(&Self::Undefined)
    }

    /// Position of the type in the order of types.
    pub fn type_rank(&self) -> u8 {
        match self {
            Self::Undefined => 0,
            Self::Null => 1,
            Self::Bool(_) => 2,
            Self::Number(_) => 3,
            Self::String(_) => 4,
            Self::Array(_) => 5,
            Self::Object(_) => 6,
        }
    }
}

impl PartialEq for Value {
    /// Deep equality: `1` equals `1.0`, the order of properties does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    /// The order of types, then of values. Strings by code point; arrays element by element;
    /// objects by their properties sorted by name (arbitrary but total).
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => a.cmp(b),
            (Self::Object(a), Self::Object(b)) => a.sorted().cmp(&b.sorted()),
            _ => self.type_rank().cmp(&other.type_rank()),
        }
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.type_rank().hash(state);
        match self {
            Self::Undefined | Self::Null => {}
            Self::Bool(b) => b.hash(state),
            Self::Number(n) => n.hash(state),
            Self::String(s) => s.hash(state),
            Self::Array(a) => a.hash(state),
            Self::Object(o) => o.sorted().hash(state),
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Number(Number::Int(i))
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Self {
        Self::Number(Number::Float(f))
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::String(s.into())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::String(s.into())
    }
}

impl FromIterator<(Arc<str>, Value)> for Object {
    /// Later properties replace earlier ones of the same name; undefined ones vanish.
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Value)>>(properties: I) -> Self {
        let mut object = Self::new();
        for (name, value) in properties {
            object.set(&name, value);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect("a valid value")
    }

    #[test]
    fn types_are_ordered_as_order_by_orders_them() {
        let ascending =
            ["null", "false", "true", "-1", "0.5", "1", r#""""#, r#""a""#, "[]", "[1]", "{}"];
        for pair in ascending.windows(2) {
            assert!(parse(pair[0]) < parse(pair[1]), "{} < {}", pair[0], pair[1]);
        }
        assert!(Value::Undefined < Value::Null);
    }

    #[test]
    fn equality_ignores_property_order_and_number_spelling() {
        assert_eq!(parse(r#"{"a":1,"b":[1.0]}"#), parse(r#"{"b":[1],"a":1.0}"#));
        assert_ne!(parse(r#"{"a":1}"#), parse(r#"{"a":1,"b":null}"#));
        assert_ne!(parse("[1,2]"), parse("[2,1]"));
    }

    #[test]
    fn undefined_never_enters_an_array_or_object() {
        assert_eq!(Value::array(vec![Value::Undefined, 1.into()]), parse("[1]"));
        let mut object = Object::new();
        object.set("a", 1.into());
        object.set("a", Value::Undefined);
        assert!(object.is_empty());
    }
}
