//! What a container's index holds right now, for writers and for the planner.

use orrery_types::Value;

use crate::composite::CompositeIndex;
use crate::path::IndexStep;
use crate::policy::{IndexingMode, IndexingPolicy, PolicyError};
use crate::rules::{IndexRules, same_terms};

/// The policies in effect: that of now, and older ones whose terms have not been replaced yet.
#[derive(Clone, Debug)]
pub struct IndexState {
    rules: IndexRules,
    older: Vec<IndexingPolicy>,
    computed: Vec<Box<str>>,
}

impl IndexState {
    /// The state under a policy while items may still have the terms of older ones. Names of computed
    /// properties hide what items have under them.
    pub fn new(now: &IndexingPolicy, older: Vec<IndexingPolicy>, computed: Vec<Box<str>>) -> Self {
        Self { rules: IndexRules::new(now, &older), older, computed }
    }

    /// The older policies as they are stored: none once the index is complete.
    pub fn older_to_value(&self) -> Value {
        Value::array(self.older.iter().map(IndexingPolicy::to_value).collect())
    }

    /// Reads them back. Undefined says that the items were written without any index.
    pub fn older_from_value(value: &Value) -> Result<Vec<IndexingPolicy>, PolicyError> {
        match value.as_array() {
            Some(policies) => policies.iter().map(IndexingPolicy::parse).collect(),
            None => Ok(vec![unindexed()]),
        }
    }

    /// Whether two policies index the same, however they are written.
    pub fn same_terms(a: &IndexingPolicy, b: &IndexingPolicy) -> bool {
        same_terms(a, b)
    }

    /// The older policies after a change from `old` to `new`: nothing has to be done if they index
    /// the same.
    pub fn older_after(&self, old: &IndexingPolicy, new: &IndexingPolicy) -> Vec<IndexingPolicy> {
        let mut older = self.older.clone();
        if !same_terms(old, new) && !older.iter().any(|policy| same_terms(policy, old)) {
            older.push(old.clone());
        }
        older
    }

    /// The rules by which terms are written.
    pub fn rules(&self) -> &IndexRules {
        &self.rules
    }

    /// Whether every item has exactly the terms of the policy of now.
    pub fn is_complete(&self) -> bool {
        self.older.is_empty()
    }

    /// Whether the terms of this path may be relied upon: every item that has a value there has its
    /// term. Not while the path is being indexed, nor for the name of a computed property.
    pub fn is_usable(&self, path: &[IndexStep]) -> bool {
        let computed = match path.first() {
            Some(IndexStep::Property(name)) => self.computed.contains(name),
            _ => false,
        };
        !computed && self.rules.policies_of(path) == self.rules.all()
    }

    /// Whether every item has its shape, so that shapes lead to all rows that lack a path.
    pub fn has_shapes(&self) -> bool {
        self.is_complete() && self.rules.indexing() != 0
    }

    /// The composite indexes that hold every item.
    pub fn usable_composites(&self) -> impl Iterator<Item = &CompositeIndex> {
        let computed = |index: &CompositeIndex| {
            let first = index.components().iter().filter_map(|c| c.names.first());
            first.into_iter().any(|name| self.computed.contains(name))
        };
        let all = self.rules.all();
        let complete = self.rules.composites().iter().filter(move |(_, policies)| *policies == all);
        complete.map(|(index, _)| index).filter(move |index| !computed(index))
    }
}

/// The policy under which nothing is indexed.
fn unindexed() -> IndexingPolicy {
    IndexingPolicy {
        mode: IndexingMode::None,
        automatic: false,
        included: vec![],
        excluded: vec![],
        ..IndexingPolicy::default()
    }
}
