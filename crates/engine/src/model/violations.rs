//! What items that were there before a rule would be refused for by it, a sentence each. They are left
//! as they are, and the rule holds when there are none left.

use orrery_modeling::{BucketRule, ModelPath, OnMissing, RelationRule};
use orrery_types::{Error, Result, Value};

use super::ModelTransaction;
use super::names::inverse_path;
use super::rules::{displaced, is_displaced};
use crate::item::address::ItemAddress;
use crate::maintain::buckets;
use crate::maintain::cascade;
use crate::maintain::references;

impl<'e> ModelTransaction<'_, 'e> {
    /// What an item would be refused for by a relation.
    pub(crate) fn complaints_of(
        &mut self,
        index: usize,
        rule: &RelationRule,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<String>> {
        let scope = self.context;
        let Some(value) = self.tx.value_at(address)? else { return Ok(vec![]) };
        let types = scope.model.rules.types_of(&address.container.id, &value);
        let mut all = Vec::new();
        if types.contains(&rule.to) {
            all.extend(self.hidden_by_inverse(index, rule, &value));
        }
        if let Some(inverse) = rule.def.inverse.as_ref().filter(|i| i.store.is_some())
            && types.contains(&rule.to)
        {
            let count =
                cascade::true_inverse(self, index, address)?.as_array().map_or(0, <[Value]>::len);
            if count > inverse.max_items {
                all.push(format!(
                    "{count} items refer to it, more than 'maxItems' of the inverse '{}'",
                    inverse.name
                ));
            }
        }
        if !types.contains(&rule.from) {
            return Ok(all);
        }
        if let Some((_, hidden)) = rule.navigation.collect(&value).first() {
            let text: String = hidden.to_json().chars().take(40).collect();
            all.push(format!(
                "it has {text} at '{}', which the name of the relation '{}' would hide",
                rule.navigation, rule.def.name
            ));
        }
        for (reference, to) in references::references_of(self.tx, self.context, rule, &value)? {
            let Some(to) = to.filter(|_| !rule.copies.is_empty()) else { continue };
            let Some(target) = self.target_at(rule, &to)? else { continue };
            for (path, copy) in &rule.copies {
                let old = path.get(&value, &reference.place);
                if is_displaced(old, &copy.value(&target)) {
                    all.push(format!("it has {}", displaced(path, old)));
                }
            }
        }
        if rule.def.on_missing == OnMissing::Reject {
            for (reference, to) in references::references_of(self.tx, self.context, rule, &value)? {
                let found = to.map(|to| self.target_at(rule, &to)).transpose()?.flatten();
                if found.is_none() {
                    let value = reference.value.to_json();
                    all.push(format!("{value} at '{}' leads nowhere", rule.def.path));
                }
            }
        }
        Ok(all)
    }

    /// What a target holds that the rules over an inverse would hide or replace.
    fn hidden_by_inverse(&self, index: usize, rule: &RelationRule, value: &Value) -> Vec<String> {
        let scope = self.context;
        let mut all = Vec::new();
        if let Some(path) = inverse_path(rule)
            && !path.get(value, &[]).is_undefined()
        {
            let text: String = path.get(value, &[]).to_json().chars().take(40).collect();
            all.push(format!(
                "it has {text} at '{path}', which the name of the inverse of '{}' would hide",
                rule.def.name
            ));
        }
        let store = rule.def.inverse.as_ref().and_then(|inverse| inverse.store.as_ref());
        let over = scope.model.rules.aggregates.iter().filter(|a| a.relation == index);
        for path in store.into_iter().chain(over.map(|aggregate| &aggregate.def.path)) {
            let old = path.get(value, &[]);
            if is_displaced(old, &Value::Null) {
                all.push(format!("it has {}", displaced(path, old)));
            }
        }
        all
    }

    /// What an item would be refused for by the buckets of its arrays.
    pub(crate) fn complaints_of_arrays(
        &mut self,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<String>> {
        let shard = self.tx.shard_of(address);
        let Some(value) = self.tx.past_image(shard, &address.at.key)? else { return Ok(vec![]) };
        let savepoint = self.tx.writes.savepoint();
        let refused = buckets::shelve(self, address, &value).err();
        self.tx.writes.rollback_to(savepoint);
        Ok(refused.into_iter().map(|error| error.to_string()).collect())
    }
}

/// Refuses to replace what stood at the paths of an array's rule before there was one.
pub(crate) fn refuse_displaced(rule: &BucketRule, value: &Value) -> Result<()> {
    let refuse = |path: &ModelPath, found: &Value| {
        let text = format!("The item has {}. Nothing was written.", displaced(path, found));
        Err(Error::ModelViolated(text.into()))
    };
    if let Some(path) = &rule.def.count
        && is_displaced(path.get(value, &[]), &Value::Null)
    {
        return refuse(path, path.get(value, &[]));
    }
    let Some((path, _)) = &rule.def.recent else { return Ok(()) };
    match path.get(value, &[]) {
        Value::Undefined | Value::Null | Value::Array(_) => Ok(()),
        found => refuse(path, found),
    }
}
