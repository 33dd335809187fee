//! Why a model is refused: where in its JSON, and what is wrong there and how to put it right.

/// A fault of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The model is refused at '{path}': {reason}")]
pub struct ModelError {
    /// JSON pointer into the model; empty for the whole of it.
    pub path: Box<str>,
    /// What is wrong, and what to do.
    pub reason: Box<str>,
}

impl ModelError {
    /// A fault at a place.
    pub fn new(path: impl Into<Box<str>>, reason: impl Into<Box<str>>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}
