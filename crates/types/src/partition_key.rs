//! Partition keys: what a container declares ([`PartitionKeyDef`]), what an item has
//! ([`PartitionKey`]), and how the request header spells it. The hash is in `effective_key`.

use crate::{PropertyPath, Value};

/// How the values of a key are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKeyKind {
    /// One path (or, historically, several hashed together) to one hash.
    Hash,
    /// Hierarchical: every level hashed by itself, so that a prefix is a range.
    MultiHash,
}

/// A container's declaration. Never changes after creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKeyDef {
    /// Where the values stand in an item.
    pub paths: Vec<PropertyPath>,
    /// How they are hashed together.
    pub kind: PartitionKeyKind,
    /// Hash version, 1 or 2.
    pub version: u8,
    /// Whether the service chose the key because the creator gave none.
    pub system_key: bool,
}

/// One value of a key.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the JSON types that a key may have")]
pub enum KeyComponent {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    String(Box<str>),
}

/// The values of one logical partition, level by level. Empty: an item without key in a container
/// whose key the service chose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionKey(pub Vec<KeyComponent>);

impl Eq for PartitionKey {}

/// The text is not the header form of a partition key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Partition key {0} is invalid.")]
pub struct PartitionKeyError(Box<str>);

impl KeyComponent {
    /// The key value that a JSON value stands for; arrays and objects are none.
    pub fn from_value(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Undefined => Self::Undefined,
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            // Adding zero turns -0 into 0: both are the same key.
            Value::Number(n) => Self::Number(n.as_f64() + 0.0),
            Value::String(s) => Self::String((**s).into()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    /// The JSON value; `Undefined` for an absent one.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Undefined => Value::Undefined,
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Number(n) => Value::from(*n),
            Self::String(s) => Value::from(&**s),
        }
    }

    /// Bytes that distinguish this value from every other: a type byte, then the value; strings
    /// end in a byte that UTF-8 never holds.
    pub fn write_canonical(&self, out: &mut Vec<u8>) {
        out.push(self.type_byte());
        match self {
            Self::Number(n) => out.extend(n.to_be_bytes()),
            Self::String(s) => {
                out.extend(s.as_bytes());
                out.push(0xff);
            }
            Self::Undefined | Self::Null | Self::Bool(_) => {}
        }
    }

    pub(crate) fn type_byte(&self) -> u8 {
        match self {
            Self::Undefined => 0,
            Self::Null => 1,
            Self::Bool(false) => 2,
            Self::Bool(true) => 3,
            Self::Number(_) => 5,
            Self::String(_) => 8,
        }
    }
}

impl PartitionKey {
    /// Reads the header form: a JSON array, with `{}` standing for an absent value.
    pub fn parse_header(text: &str) -> Result<Self, PartitionKeyError> {
        if let Some(value) = plain_string(text) {
            return Ok(Self(vec![KeyComponent::String(value.into())]));
        }
        let malformed = || PartitionKeyError(text.into());
        let value = Value::parse(text.as_bytes()).map_err(|_| malformed())?;
        let elements = value.as_array().ok_or_else(malformed)?;
        let component = |element: &Value| match element {
            Value::Object(o) if o.is_empty() => Some(KeyComponent::Undefined),
            other => KeyComponent::from_value(other),
        };
        let components: Option<Vec<_>> = elements.iter().map(component).collect();
        components.map(Self).ok_or_else(malformed)
    }

    /// The header form.
    pub fn to_header(&self) -> String {
        let texts: Vec<String> = self
            .0
            .iter()
            .map(|c| match c {
                KeyComponent::Undefined => "{}".to_owned(),
                other => other.to_value().to_json(),
            })
            .collect();
        format!("[{}]", texts.join(","))
    }

    /// Bytes that distinguish this key from every other of the same container.
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for component in &self.0 {
            component.write_canonical(&mut out);
        }
        out
    }

    /// Size of the values as the limit on key length counts it.
    pub fn size_bytes(&self) -> usize {
        let size = |c: &KeyComponent| match c {
            KeyComponent::String(s) => s.len(),
            KeyComponent::Number(_) => 8,
            KeyComponent::Undefined | KeyComponent::Null | KeyComponent::Bool(_) => 1,
        };
        self.0.iter().map(size).sum()
    }
}

/// The text of `["text"]` with nothing in it that JSON would spell otherwise: what most headers hold.
fn plain_string(header: &str) -> Option<&str> {
    let text = header.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    text.bytes().all(plain).then_some(text)
}

impl PartitionKeyDef {
    /// The key an item has by its content. An array or object in a key's place counts as absent,
    /// as it does for the clients that compute the key themselves.
    pub fn extract(&self, item: &Value) -> PartitionKey {
        let component = |path: &PropertyPath| {
            KeyComponent::from_value(path.value_in(item)).unwrap_or(KeyComponent::Undefined)
        };
        self.normalize(PartitionKey(self.paths.iter().map(component).collect()))
    }

    /// One spelling for "no key": `[]` where the service chose the path, `[{}]` elsewhere.
    pub fn normalize(&self, key: PartitionKey) -> PartitionKey {
        if self.system_key && key.0 == [KeyComponent::Undefined] {
            PartitionKey::default()
        } else if !self.system_key && key.0.is_empty() && self.paths.len() == 1 {
            PartitionKey(vec![KeyComponent::Undefined])
        } else {
            key
        }
    }

    /// Whether the key names one logical partition rather than a prefix, or too much.
    pub fn is_complete(&self, key: &PartitionKey) -> bool {
        key.0.len() == self.paths.len() || (self.system_key && key.0.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(paths: &[&str], system_key: bool) -> PartitionKeyDef {
        let paths = paths.iter().map(|p| PropertyPath::parse(p).expect(p)).collect();
        PartitionKeyDef { paths, kind: PartitionKeyKind::Hash, version: 2, system_key }
    }

    #[test]
    fn header_forms_read_and_print() {
        for text in [r#"["p"]"#, "[5]", "[true]", "[null]", "[{}]", "[]", r#"["a",1,{}]"#] {
            assert_eq!(PartitionKey::parse_header(text).expect(text).to_header(), text);
        }
        for bad in ["", "p", "\"p\"", "[[1]]", "[{\"a\":1}]", "[1", "{}"] {
            assert!(PartitionKey::parse_header(bad).is_err(), "{bad}");
        }
        let escaped = PartitionKey::parse_header(r#"["\u00e9"]"#).expect("escaped");
        assert_eq!(escaped.0, [KeyComponent::String("é".into())]);
    }

    #[test]
    fn the_key_comes_out_of_the_item() {
        let item = Value::parse(br#"{"a":{"b":1.0},"s":"x","l":[1]}"#).expect("json");
        let key = |paths: &[&str]| definition(paths, false).extract(&item);
        assert_eq!(key(&["/a/b"]).to_header(), "[1]");
        assert_eq!(key(&["/none"]).to_header(), "[{}]");
        assert_eq!(key(&["/s", "/a/b"]).to_header(), r#"["x",1]"#);
        assert_eq!(key(&["/a"]).to_header(), "[{}]");
        assert_eq!(key(&["/l"]).to_header(), "[{}]");
        assert_eq!(definition(&["/none"], true).extract(&item), PartitionKey::default());
    }

    #[test]
    fn canonical_bytes_tell_keys_apart() {
        let bytes = |t: &str| PartitionKey::parse_header(t).expect(t).to_canonical();
        assert_eq!(bytes("[1]"), bytes("[1.0]"));
        assert_eq!(bytes("[0]"), bytes("[-0.0]"));
        assert_ne!(bytes(r#"["a","b"]"#), bytes(r#"["ab",""]"#));
        assert_ne!(bytes("[null]"), bytes("[{}]"));
    }
}
