//! What the model requires of its caller: expressions of the query language, which this crate does
//! not know, and facts about the containers of the database.

use std::fmt;
use std::sync::Arc;

use orrery_types::{PropertyPath, Value};

/// A scalar expression over one item, under the rules of computed properties.
pub trait Expression: fmt::Debug + Send + Sync {
    /// Its value for an item; undefined where it has none.
    fn value(&self, item: &Value) -> Value;
    /// The properties it looks at.
    fn reads(&self) -> &[PathRead];
}

/// Names from the root of the item to what an expression reads; everything below is read too. No
/// name: the whole item.
pub type PathRead = Vec<Box<str>>;

/// Parses expressions.
pub trait Expressions {
    /// Reads an expression in which the item is called `alias`; the error is for the sender.
    fn parse(&self, alias: &str, text: &str) -> Result<Arc<dyn Expression>, String>;
}

/// The containers of the database.
pub trait Containers {
    /// The paths of a container's partition key; `None` if there is no such container.
    fn partition_key(&self, container: &str) -> Option<Vec<PropertyPath>>;

    /// Whether items of a container have unique keys beside their ids.
    fn has_unique_keys(&self, container: &str) -> bool;
}
