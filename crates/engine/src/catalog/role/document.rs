//! The JSON in which roles and assignments come: flat, or inside `properties` as the service's management
//! plane has it; names of properties in either case of their first letter, as its tools write them.

use orrery_types::{Error, Result, Value, limits};

/// The properties of a role or an assignment.
#[derive(Clone, Copy)]
pub(super) struct Document<'v> {
    body: &'v Value,
}

impl<'v> Document<'v> {
    pub(super) fn new(body: &'v Value) -> Result<Self> {
        if body.as_object().is_none() {
            return Err(Error::invalid("The request body must be a JSON object."));
        }
        let outer = Self { body };
        let inner = outer.get("properties");
        Ok(if inner.as_object().is_some() { Self { body: inner } } else { outer })
    }

    pub(super) fn get(self, name: &str) -> &'v Value {
        match self.body.get(name) {
            Value::Undefined => {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_uppercase());
                let upper: String = first.into_iter().chain(letters).collect();
                self.body.get(&upper)
            }
            found => found,
        }
    }

    pub(super) fn text(self, name: &str, chars_max: usize) -> Result<&'v str> {
        let text = string(self.get(name), name)?;
        if text.is_empty() || text.chars().count() > chars_max {
            return Err(Error::invalid(format!(
                "'{name}' must have from 1 to {chars_max} characters."
            )));
        }
        Ok(text)
    }

    pub(super) fn list(self, name: &str, count_max: usize) -> Result<&'v [Value]> {
        match self.get(name).as_array() {
            Some(list) if (1..=count_max).contains(&list.len()) => Ok(list),
            _ => Err(Error::invalid(format!(
                "'{name}' must be an array of 1 to {count_max} entries."
            ))),
        }
    }
}

pub(super) fn string<'v>(value: &'v Value, name: &str) -> Result<&'v str> {
    value.as_str().ok_or_else(|| Error::invalid(format!("'{name}' must be a string.")))
}

/// Whether a text is a GUID with hyphens.
fn is_guid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The id of a role or an assignment: a GUID, alone or at the end of a resource id.
pub(super) fn guid(text: &str) -> Result<Box<str>> {
    let last = text.rsplit('/').next().unwrap_or(text);
    if is_guid(last) {
        return Ok(last.to_ascii_lowercase().into());
    }
    Err(Error::invalid(format!("'{text}' must be a GUID, such as {}.", super::DATA_READER)))
}

/// A principal as it is compared: GUIDs in lower case, anything else as it is.
pub(super) fn principal(text: &str) -> Result<Box<str>> {
    if text.is_empty() || text.len() > limits::PRINCIPAL_ID_BYTES_MAX {
        return Err(Error::invalid(format!(
            "'principalId' must have from 1 to {} bytes.",
            limits::PRINCIPAL_ID_BYTES_MAX
        )));
    }
    Ok(if is_guid(text) { text.to_ascii_lowercase().into() } else { text.into() })
}
