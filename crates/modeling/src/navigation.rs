//! The name of a relation as a virtual property: from one object of an item to what its references
//! lead to.

use orrery_types::{KeyComponent, PartitionKey, Value};

use crate::path::{ModelPath, ModelStep};
use crate::reference::ReferenceTarget;
use crate::rules::RelationRule;

impl RelationRule {
    /// The steps from the item to the object that the name hangs on.
    pub fn holder(&self) -> &[ModelStep] {
        let steps = self.navigation.steps();
        &steps[..steps.len().saturating_sub(1)]
    }

    /// Whether one object holds an array of references: then the name leads to a list.
    pub fn leads_to_many(&self) -> bool {
        self.below().contains(&ModelStep::Each)
    }

    /// The targets of the references in one object of an item, in the order in which they stand.
    pub fn targets_at(&self, item: &Value, holder: &Value) -> Vec<ReferenceTarget> {
        if !self.def.partition_key.iter().all(|path| self.is_at_hand(path)) {
            return self.targets_alike(item, holder);
        }
        let mut targets = Vec::new();
        each(self.below(), holder, &mut |value| targets.extend(self.one(item, holder, value)));
        targets
    }

    /// The targets of all references of an item, as often as it refers to them.
    pub fn all_targets(&self, item: &Value) -> Vec<ReferenceTarget> {
        if !self.def.partition_key.is_empty() {
            return self.references(item).into_iter().filter_map(|r| r.target).collect();
        }
        let mut targets = Vec::new();
        each(self.def.path.steps(), item, &mut |value| targets.extend(self.one(item, item, value)));
        targets
    }

    /// The names at the top of an item by which targets are found.
    pub fn members(&self) -> Vec<Box<str>> {
        let paths = std::iter::once(&self.def.path).chain(&self.def.partition_key);
        let first = |path: &ModelPath| match path.steps().first() {
            Some(ModelStep::Name(name)) => Some(name.clone()),
            _ => None,
        };
        paths.chain([&self.navigation]).filter_map(first).collect()
    }

    fn below(&self) -> &[ModelStep] {
        &self.def.path.steps()[self.holder().len()..]
    }

    /// Whether a path of the target's key is read off the item, or off the object itself.
    fn is_at_hand(&self, path: &ModelPath) -> bool {
        let within = path.steps().strip_prefix(self.holder());
        path.is_plain() || within.is_some_and(|rest| !rest.contains(&ModelStep::Each))
    }

    fn one(&self, item: &Value, holder: &Value, value: &Value) -> Option<ReferenceTarget> {
        let id = self.target_id(value)?;
        if self.def.partition_key.is_empty() {
            let partition_key = PartitionKey(vec![KeyComponent::String(id.clone())]);
            return Some(ReferenceTarget { id, partition_key });
        }
        let component = |path: &ModelPath| {
            let found = if path.is_plain() {
                path.get(item, &[])
            } else {
                let rest = path.steps().strip_prefix(self.holder()).unwrap_or_default();
                rest.iter().fold(holder, |value, step| match step {
                    ModelStep::Name(name) => value.get(name),
                    ModelStep::Each => &Value::Undefined,
                })
            };
            KeyComponent::from_value(found)
        };
        let partition_key = self.def.partition_key.iter().map(component).collect::<Option<_>>()?;
        Some(ReferenceTarget { id, partition_key: PartitionKey(partition_key) })
    }

    /// The same where the key stands elsewhere in the item, in some element around the object: the
    /// object is looked for.
    fn targets_alike(&self, item: &Value, holder: &Value) -> Vec<ReferenceTarget> {
        let at = ModelPath::of(self.holder().to_vec());
        let references = self.references(item).into_iter();
        references.filter(|r| at.get(item, &r.place) == holder).filter_map(|r| r.target).collect()
    }
}

fn each<'v>(steps: &[ModelStep], value: &'v Value, f: &mut dyn FnMut(&'v Value)) {
    match steps.split_first() {
        None => f(value),
        Some((ModelStep::Name(name), rest)) => each(rest, value.get(name), f),
        Some((ModelStep::Each, rest)) => {
            for element in value.as_array().unwrap_or_default() {
                each(rest, element, f);
            }
        }
    }
}
