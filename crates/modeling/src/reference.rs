//! References in an item: which targets it names, and where in it they stand.

use orrery_types::{KeyComponent, PartitionKey, Value};

use crate::path::ElementPath;
use crate::rules::RelationRule;

/// One reference of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it stands.
    pub place: ElementPath,
    /// The value as it stands there.
    pub value: Value,
    /// What it leads to; `None` if such a value can lead to nothing.
    pub target: Option<ReferenceTarget>,
}

/// An item of the target's container, there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceTarget {
    /// Its id.
    pub id: Box<str>,
    /// Its partition key.
    pub partition_key: PartitionKey,
}

impl RelationRule {
    /// All references of an item of the source type. A missing one, and null, is none.
    pub fn references(&self, item: &Value) -> Vec<Reference> {
        let found = self.def.path.collect(item).into_iter();
        let found = found.filter(|(_, value)| !matches!(value, Value::Null));
        found
            .map(|(place, value)| {
                let target = self.target(item, &place, value);
                Reference { place, value: value.clone(), target }
            })
            .collect()
    }

    /// The distinct targets of an item.
    pub fn targets(&self, item: &Value) -> Vec<ReferenceTarget> {
        let mut targets: Vec<ReferenceTarget> = Vec::new();
        for target in self.references(item).into_iter().filter_map(|r| r.target) {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets
    }

    /// The id that a value spells, if it can be one.
    pub(crate) fn target_id(&self, value: &Value) -> Option<Box<str>> {
        let id: Box<str> = match value {
            Value::String(id) => (**id).into(),
            Value::Number(_) if self.def.coerce => value.to_json().into(),
            _ => return None,
        };
        Some(id).filter(|id| !id.is_empty())
    }

    fn target(&self, item: &Value, place: &ElementPath, value: &Value) -> Option<ReferenceTarget> {
        let id = self.target_id(value)?;
        let component = |value: &Value| KeyComponent::from_value(value);
        let partition_key = if self.def.partition_key.is_empty() {
            vec![KeyComponent::String(id.clone())]
        } else {
            let values = self.def.partition_key.iter().map(|path| path.get(item, place));
            values.map(component).collect::<Option<_>>()?
        };
        Some(ReferenceTarget { id, partition_key: PartitionKey(partition_key) })
    }
}
