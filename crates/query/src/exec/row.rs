//! A row of a result: a value, or the text of a whole item, which is sent as it is stored.

use bytes::Bytes;
use orrery_types::Value;

use crate::eval::size_bytes;
use crate::memory::{allocated, heap_bytes};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// What SELECT made.
    Value(Value),
    /// A whole item, as JSON.
    Text(Bytes),
}

impl Row {
    /// The JSON text, which is probably about so long.
    pub fn to_json(&self, length: usize) -> String {
        match self {
            Self::Value(value) => {
                let mut text = String::with_capacity(length);
                value.write_json(&mut text);
                text
            }
            // The lossy way alone goes from character to character.
            Self::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => text.to_owned(),
                Err(_) => String::from_utf8_lossy(text).into_owned(),
            },
        }
    }

    /// The JSON text of a whole item as it is stored, of anything else as it is written.
    pub fn into_text(self) -> Bytes {
        match self {
            Self::Value(value) => value.to_json().into(),
            Self::Text(text) => text,
        }
    }

    /// The value; undefined if a text is not JSON, which a stored item always is.
    pub fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value,
            Self::Text(text) => Value::parse(&text).unwrap_or_default(),
        }
    }

    /// Memory; counting ends at `max`.
    pub(crate) fn heap_bytes(&self, max: usize) -> usize {
        match self {
            Self::Value(value) => heap_bytes(value, max),
            Self::Text(text) => allocated(text.len()),
        }
    }

    /// Size of what is sent, roughly; counting ends at `max`.
    pub(crate) fn size_bytes(&self, max: usize) -> usize {
        match self {
            Self::Value(value) => size_bytes(value, max),
            Self::Text(text) => text.len() + 32,
        }
    }
}
