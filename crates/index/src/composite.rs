//! Composite indexes: one key for every item, made of the values at several paths. An item that
//! lacks one of them has undefined there, so that the index holds all items in its order.

use orrery_storage::term::encode_component;
use orrery_types::json::write_json_string;
use orrery_types::{Value, limits};

use crate::path::IndexStep;
use crate::policy::CompositePath;
use crate::terms::IndexedItem;

/// A composite index that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeIndex {
    components: Vec<CompositeComponent>,
    text: Box<str>,
}

/// One path of a composite index: names from the root, and the direction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct CompositeComponent {
    pub names: Vec<Box<str>>,
    pub descending: bool,
}

impl CompositeIndex {
    /// The index over these paths; `None` if one leads through an array, where an item may have many
    /// values: such an index is accepted and not kept.
    pub fn new(paths: &[CompositePath]) -> Option<Self> {
        let component = |path: &CompositePath| {
            let name = |step: &IndexStep| match step {
                IndexStep::Property(name) if name.len() <= limits::INDEX_NAME_BYTES_MAX => {
                    Some(name.clone())
                }
                IndexStep::Property(_) | IndexStep::Elements | IndexStep::Tuple(_) => None,
            };
            let names = path.path.steps.iter().map(name).collect::<Option<Vec<_>>>()?;
            Some(CompositeComponent { names, descending: path.descending })
        };
        let components = paths.iter().map(component).collect::<Option<Vec<_>>>()?;
        let mut text = String::new();
        for component in &components {
            for name in &component.names {
                text.push('/');
                write_json_string(name, &mut text);
            }
            text.push(if component.descending { '-' } else { '+' });
        }
        Some(Self { components, text: text.into() })
    }

    /// Its paths, in order.
    pub fn components(&self) -> &[CompositeComponent] {
        &self.components
    }

    /// The canonical text, `/"a"/"b"+/"c"-`: two definitions of the same index have the same.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends the values that an item has.
    pub(crate) fn write_values(&self, item: &IndexedItem<'_>, out: &mut Vec<u8>) {
        for component in &self.components {
            let mut names = component.names.iter();
            let first = names.next().map_or(&Value::Undefined, |name| item.get(name));
            let value = names.fold(first, |value, name| value.get(name));
            encode_component(value, component.descending, out);
        }
    }
}
