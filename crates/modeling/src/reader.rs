//! Reads the JSON of a model property by property. An unknown property is an error too: a misspelt
//! property would silently promise nothing.

use std::cell::RefCell;

use orrery_types::{Object, Value};

use crate::error::ModelError;
use crate::path::ModelPath;

/// One object of the model, and which of its properties were read.
pub(crate) struct Reader<'v> {
    object: &'v Object,
    path: String,
    read: RefCell<Vec<&'static str>>,
}

impl<'v> Reader<'v> {
    pub(crate) fn new(value: &'v Value, path: String) -> Result<Self, ModelError> {
        match value.as_object() {
            Some(object) => Ok(Self { object, path, read: RefCell::default() }),
            None => Err(ModelError::new(path, "this must be a JSON object")),
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(crate) fn error(&self, name: &str, reason: impl Into<Box<str>>) -> ModelError {
        ModelError::new(self.at(name), reason)
    }

    pub(crate) fn get(&self, name: &'static str) -> &'v Value {
        self.read.borrow_mut().push(name);
        self.object.get(name).unwrap_or(&Value::Undefined)
    }

    /// A string, if it exists.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&'v str>, ModelError> {
        match self.get(name) {
            Value::Undefined => Ok(None),
            Value::String(text) if !text.is_empty() => Ok(Some(text)),
            _ => Err(self.error(name, "this must be a string that is not empty")),
        }
    }

    pub(crate) fn required_text(&self, name: &'static str) -> Result<&'v str, ModelError> {
        self.text(name)?.ok_or_else(|| ModelError::new(&*self.path, format!("'{name}' is missing")))
    }

    /// One of several words, or the first of them when it is absent.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ModelError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(self.error(name, format!("'{text}' is not one of: {}", known.join(", "))))
    }

    /// An integer within bounds, if it exists.
    pub(crate) fn count(
        &self,
        name: &'static str,
        max: usize,
    ) -> Result<Option<usize>, ModelError> {
        let value = self.get(name);
        if value.is_undefined() {
            return Ok(None);
        }
        let count = value.as_i64().and_then(|n| usize::try_from(n).ok());
        match count.filter(|n| (1..=max).contains(n)) {
            Some(count) => Ok(Some(count)),
            None => Err(self.error(name, format!("this must be a whole number from 1 to {max}"))),
        }
    }

    pub(crate) fn model_path(&self, name: &'static str) -> Result<Option<ModelPath>, ModelError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let path = ModelPath::parse(text);
        path.map(Some).map_err(|reason| self.error(name, format!("'{text}' is no path: {reason}")))
    }

    pub(crate) fn required_path(&self, name: &'static str) -> Result<ModelPath, ModelError> {
        let path = self.model_path(name)?;
        path.ok_or_else(|| ModelError::new(&*self.path, format!("'{name}' is missing")))
    }

    /// A path that must not go through an array.
    pub(crate) fn plain_path(&self, name: &'static str) -> Result<Option<ModelPath>, ModelError> {
        let path = self.model_path(name)?;
        if path.as_ref().is_some_and(|path| !path.is_plain()) {
            return Err(self.error(name, "'*' is not allowed here: it must lead to one property"));
        }
        Ok(path)
    }

    /// Refuses what was not read.
    pub(crate) fn finish(self) -> Result<(), ModelError> {
        let read = self.read.borrow();
        match self.object.iter().find(|(name, _)| !read.contains(&&***name)) {
            None => Ok(()),
            Some((name, _)) => {
                let known = read.join(", ");
                let reason = format!("this property is unknown; known are: {known}");
                Err(ModelError::new(format!("{}/{name}", self.path), reason))
            }
        }
    }
}
