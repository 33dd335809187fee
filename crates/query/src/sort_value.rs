//! The keys by which ORDER BY compares rows. Arrays and objects sort by a hash of their content:
//! so does the service, and clients that merge ranges compare them, and name the place at which a
//! query goes on, by the same hash.

mod hash;

use orrery_types::{Object, Value};

use crate::memory::allocated;

/// The bytes of a hash in the order in which they are compared.
type Hash = [u8; 16];

/// One key of a row. Variants stand in the order of their types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortValue {
    /// Undefined, or what is neither array nor object.
    Scalar(Value),
    /// The hash of an array.
    Array(Hash),
    /// The hash of an object.
    Object(Hash),
}

impl SortValue {
    /// The key of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Array(_) => Self::Array(hash::of(value)),
            Value::Object(_) => Self::Object(hash::of(value)),
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// Reads a value of a `resumeFilter`: `[]` stands for undefined, and an array or object is an
    /// object that names its type and the halves of its hash. `None` if it is none of these.
    pub fn from_resume_value(value: &Value) -> Option<Self> {
        match value {
            Value::Undefined => None,
            Value::Array(elements) => elements.is_empty().then_some(Self::Scalar(Value::Undefined)),
            Value::Object(object) => Self::from_hash(object),
            scalar => Some(Self::Scalar(scalar.clone())),
        }
    }

    fn from_hash(object: &Object) -> Option<Self> {
        let half = |name: &str| object.get(name).and_then(Value::as_i64).map(i64::to_le_bytes);
        let mut hash = Hash::default();
        hash[..8].copy_from_slice(&half("low")?);
        hash[8..].copy_from_slice(&half("high")?);
        match object.get("type")?.as_str()? {
            "array" => Some(Self::Array(hash)),
            "object" => Some(Self::Object(hash)),
            _ => None,
        }
    }

    /// A value of the same type that an index has in the same place: all arrays share one entry, and
    /// all objects another.
    pub fn in_index(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::Array(_) => Value::array(Vec::new()),
            Self::Object(_) => Value::object(Object::new()),
        }
    }

    /// Whether the key is missing in the item.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Scalar(Value::Undefined))
    }

    /// Memory.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Scalar(Value::String(text)) => size_of::<Self>() + allocated(16 + text.len()),
            Self::Scalar(_) | Self::Array(_) | Self::Object(_) => size_of::<Self>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_in_the_order_of_the_language() {
        let texts = ["null", "false", "true", "-1", "2", "\"a\"", "\"b\"", "[9]", "{\"a\":0}"];
        let values = texts.map(|text| Value::parse(text.as_bytes()).unwrap());
        let keys: Vec<SortValue> =
            [Value::Undefined].iter().chain(&values).map(SortValue::of).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    }

    #[test]
    fn a_resume_value_names_what_the_row_had() {
        let check = |resume: &str, expected: Option<SortValue>| {
            let value = Value::parse(resume.as_bytes()).unwrap();
            assert_eq!(SortValue::from_resume_value(&value), expected, "{resume}");
        };
        let scalar = |value: Value| Some(SortValue::Scalar(value));
        check("[]", scalar(Value::Undefined));
        check("null", scalar(Value::Null));
        check("1.5", scalar(1.5.into()));
        check("\"x\"", scalar("x".into()));
        let array = SortValue::of(&Value::parse(b"[null]").unwrap());
        let SortValue::Array(hash) = &array else { panic!("an array") };
        let half = |at: usize| i64::from_le_bytes(hash[at..at + 8].try_into().unwrap());
        let text = format!("{{\"type\":\"array\",\"low\":{},\"high\":{}}}", half(0), half(8));
        check(&text, Some(array));
        check("[1]", None);
        check("{}", None);
        check("{\"type\":\"number\",\"low\":1,\"high\":2}", None);
        check("{\"type\":\"array\",\"low\":\"1\",\"high\":2}", None);
    }
}
