//! What the model does to an item before it is written: names of relations are taken off where they
//! are what expansion shows (`names`), references are checked, what the server keeps is put to what is
//! true, and the whole is validated. What follows for other items is validated too.

use orrery_modeling::{Action, ClientWrites, Level, ModelPath, OnMissing, RelationRule, TypeRule};
use orrery_types::{Error, Result, Value, limits};

use super::{Edits, ModelTransaction};
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::operation::{ItemBody, SYSTEM_PROPERTIES};
use crate::maintain::buckets;
use crate::maintain::cascade;
use crate::maintain::index_terms::PathIdAllocation;
use crate::maintain::kept_on_target;
use crate::maintain::references;
use crate::transaction::retry;

impl<'e> ModelTransaction<'_, 'e> {
    /// The body as it is to be written at a place.
    pub(crate) fn apply_rules(
        &mut self,
        at: &ItemKey<'e>,
        before: Option<&Value>,
        body: ItemBody,
        edits: &Edits,
    ) -> Result<ItemBody> {
        let scope = self.context;
        let rules = &scope.model.rules;
        let mut value = body.value;
        let types = rules.types_of(&self.tx.container().id, &value);
        let old_types =
            before.map(|b| rules.types_of(&self.tx.container().id, b)).unwrap_or_default();
        let address = self.tx.address(at);
        self.take_off_names(&address, &types, before, &mut value)?;
        for (index, rule) in rules.relations.iter().enumerate() {
            if types.contains(&rule.from) {
                let old = before.filter(|_| old_types.contains(&rule.from));
                // Only while a rule is built may something stand there that it did not put there.
                let past = before.filter(|_| scope.model.is_building(index));
                self.references(rule, old, past, &mut value)?;
            }
        }
        self.kept(&address, &types, &old_types, before, &mut value)?;
        let written =
            buckets::keep_arrays(self, &address, (&types, &old_types), before, &mut value, edits)?;
        for index in &types {
            let rule = &rules.types[*index];
            let old = before.filter(|_| old_types.contains(index));
            // The elements that are written stand for the array that is not in the item.
            let mut shown = value.clone();
            for (bucket, elements) in &written {
                let bucket = &rules.buckets[*bucket];
                if bucket.on == *index && !elements.is_empty() {
                    bucket.def.array.set(&mut shown, &[], Value::array(elements.clone()));
                }
            }
            self.validate(rule, old, &value, &shown)?;
        }
        ItemBody::check(self.tx.container(), value)
    }

    /// New references must lead somewhere, if the relation says so; copies are put beside them.
    fn references(
        &mut self,
        rule: &RelationRule,
        before: Option<&Value>,
        past: Option<&Value>,
        value: &mut Value,
    ) -> Result<()> {
        let old = before.map(|b| rule.references(b)).unwrap_or_default();
        for (reference, address) in references::references_of(self.tx, self.context, rule, value)? {
            let known = old.iter().find(|o| o.target == reference.target && o.target.is_some());
            let check = known.is_none() && rule.def.on_missing == OnMissing::Reject;
            let target = match &address {
                Some(address) if check || !rule.copies.is_empty() => {
                    self.target_at(rule, address)?
                }
                _ => None,
            };
            if check && target.is_none() {
                return Err(missing(rule, &reference.value, reference.target.is_none()));
            }
            for (path, copy) in &rule.copies {
                let truth = match (&target, known) {
                    (Some(target), _) => copy.value(target),
                    // The target is gone and the reference was kept: so is what is known of it.
                    (None, Some(known)) => {
                        before.map_or(Value::Undefined, |b| path.get(b, &known.place).clone())
                    }
                    (None, None) => Value::Undefined,
                };
                let given = path.get(value, &reference.place);
                refuse_given(rule.def.client_writes, path, given, &truth)?;
                if past.is_some() && is_displaced(given, &truth) {
                    return Err(keeps_displaced(path, given));
                }
                path.set(value, &reference.place, truth);
            }
        }
        Ok(())
    }

    /// The item at a address, if it is of the relation's target type.
    pub(crate) fn target_at(
        &mut self,
        rule: &RelationRule,
        address: &ItemAddress<'e>,
    ) -> Result<Option<Value>> {
        let scope = self.context;
        let value = self.tx.value_at(address)?;
        let to = &scope.model.rules.types[rule.to];
        Ok(value.filter(|value| to.matches(&address.container.id, value)))
    }

    /// What the server keeps of an item that others refer to: as it was, or as it is for a new one.
    fn kept(
        &mut self,
        address: &ItemAddress<'e>,
        types: &[usize],
        old_types: &[usize],
        before: Option<&Value>,
        value: &mut Value,
    ) -> Result<()> {
        let scope = self.context;
        let rules = &scope.model.rules;
        for (index, rule) in rules.relations.iter().enumerate() {
            let store = rule.def.inverse.as_ref().and_then(|inverse| inverse.store.as_ref());
            if let Some(path) = store.filter(|_| types.contains(&rule.to)) {
                let old = before.filter(|_| old_types.contains(&rule.to));
                let truth = match kept_before(path, old, value)? {
                    Some(kept) => kept,
                    None => cascade::true_inverse(self, index, address)?,
                };
                refuse_given(rule.def.client_writes, path, path.get(value, &[]), &truth)?;
                path.set(value, &[], truth);
            }
        }
        for aggregate in rules.aggregates.iter().filter(|a| types.contains(&a.on)) {
            let path = &aggregate.def.path;
            let old = before.filter(|_| old_types.contains(&aggregate.on));
            let truth = match kept_before(path, old, value)? {
                Some(kept) => kept,
                None => kept_on_target::aggregate_beside(self, aggregate, address)?,
            };
            refuse_given(aggregate.def.client_writes, path, path.get(value, &[]), &truth)?;
            path.set(value, &[], truth);
        }
        Ok(())
    }

    /// Schema and sizes; `shown` is the item with the elements that are written into buckets.
    fn validate(
        &mut self,
        rule: &TypeRule,
        before: Option<&Value>,
        value: &Value,
        shown: &Value,
    ) -> Result<()> {
        self.take_steps(rule, shown)?;
        let mut complaints = complaints(rule, value, shown);
        if let Some(limit) = rule.def.limits.warn_bytes {
            let size = plain(value).to_json().len();
            let over_max = rule.def.limits.max_bytes.is_some_and(|max| size > max);
            if size > limit && !over_max {
                let name = &rule.def.name;
                self.tx.operation.warn([format!(
                    "type {name}: limits/warnBytes: the item has {size} bytes, more than {limit}"
                )]);
            }
        }
        if rule.def.validation.level == Level::Moderate
            && !complaints.is_empty()
            && before.is_some_and(|before| !complaints_none(rule, before))
        {
            complaints.clear();
        }
        match rule.def.validation.action {
            Action::Error if !complaints.is_empty() => {
                let text = complaints.join("; ");
                Err(Error::ModelViolated(format!("The item breaks the model: {text}").into()))
            }
            _ => {
                self.tx.operation.warn(complaints);
                Ok(())
            }
        }
    }

    /// An item that changes because of another's write stays valid, or the write is refused. One that
    /// was not valid before is left to its owner.
    pub(crate) fn validate_derived(
        &mut self,
        address: &ItemAddress<'e>,
        value: &Value,
    ) -> Result<()> {
        let scope = self.context;
        let rules = &scope.model.rules;
        let says = |rule: &TypeRule| rule.schema.is_some() || rule.def.limits.max_bytes.is_some();
        for rule in rules.types.iter().filter(|rule| says(rule)) {
            let of = |value: &Value| rule.matches(&address.container.id, value);
            if !of(value) {
                continue;
            }
            self.take_steps(rule, value)?;
            let complaints = complaints(rule, value, value);
            let before =
                if complaints.is_empty() { continue } else { self.tx.value_at(address)? };
            if before.is_some_and(|before| !of(&before) || !complaints_none(rule, &before)) {
                continue;
            }
            let text = format!(
                "The item '{}' of '{}' would change by the model, and then break it: {}",
                address.id(),
                address.container.id,
                complaints.join("; ")
            );
            match rule.def.validation.action {
                Action::Error => {
                    let text = format!("{text}. Nothing was written.");
                    return Err(Error::ModelViolated(text.into()));
                }
                Action::Warn => self.tx.operation.warn([text]),
            }
        }
        Ok(())
    }

    /// Counts the evaluations of a schema, before they are done.
    fn take_steps(&mut self, rule: &TypeRule, value: &Value) -> Result<()> {
        let Some(schema) = &rule.schema else { return Ok(()) };
        let steps = schema.steps(value);
        let sum = self.tx.operation.schema_steps().saturating_add(steps);
        if let PathIdAllocation::LookupOnly = self.tx.options().path_ids
            && sum > limits::IN_PLACE_SCHEMA_STEPS_MAX
        {
            // Not on the thread of a connection.
            return Err(retry::needs_waiting());
        }
        // What one item takes is bounded by its schema.
        if !self.tx.options().relaxed
            && self.tx.operation.schema_steps() > limits::MODEL_SCHEMA_STEPS_MAX
        {
            return Err(Error::ModelViolated(
                "The write changes so many items that checking their schemas would take too long. \
                 Nothing was written."
                    .into(),
            ));
        }
        self.tx.operation.set_schema_steps(sum);
        Ok(())
    }
}

/// What the server has kept at a path so far; `None` if it has not, because something else stood there
/// before its rule, which the client has taken away.
fn kept_before(path: &ModelPath, before: Option<&Value>, value: &Value) -> Result<Option<Value>> {
    let Some(old) = before.map(|before| path.get(before, &[])) else { return Ok(None) };
    if !is_displaced(old, &Value::Null) {
        return Ok(Some(old.clone()));
    }
    if path.get(value, &[]) == old { Err(keeps_displaced(path, old)) } else { Ok(None) }
}

fn keeps_displaced(path: &ModelPath, old: &Value) -> Error {
    let text = format!("The item has {}. Nothing was written.", displaced(path, old));
    Error::ModelViolated(text.into())
}

/// Whether a value with properties of its own stands where a rule keeps a value without.
pub(crate) fn is_displaced(old: &Value, truth: &Value) -> bool {
    fn has_properties(value: &Value) -> bool {
        value.as_object().is_some_and(|object| !object.is_empty())
            || value.as_array().is_some_and(|elements| elements.iter().any(has_properties))
    }
    has_properties(old) && !has_properties(truth)
}

/// What is said of such a value.
pub(crate) fn displaced(path: &ModelPath, old: &Value) -> String {
    let text: String = old.to_json().chars().take(40).collect();
    format!(
        "{text} at '{path}', which the model keeps and would replace by a plain value; give the \
         property another name, or the rule another path"
    )
}

fn missing(rule: &RelationRule, value: &Value, impossible: bool) -> Error {
    let hint = match value {
        Value::Number(_) if impossible => {
            " Ids are strings: send one, or declare \"coerce\":\"string\"."
        }
        _ => "",
    };
    Error::ModelViolated(
        format!(
            "The reference at '{}' has the value {}, and there is no item of type '{}' with that id \
             (relation '{}').{hint}",
            rule.def.path,
            value.to_json(),
            rule.def.to,
            rule.def.name
        )
        .into(),
    )
}

fn refuse_given(mode: ClientWrites, path: &ModelPath, given: &Value, truth: &Value) -> Result<()> {
    if mode == ClientWrites::Reject && !given.is_undefined() && given != truth {
        return Err(Error::ModelViolated(
            format!("'{path}' is kept by the server, and the value sent is not the true one.")
                .into(),
        ));
    }
    Ok(())
}

/// The item without system properties.
pub(crate) fn plain(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        for name in SYSTEM_PROPERTIES {
            object.remove(name);
        }
    }
    value
}

pub(crate) fn complaints_none(rule: &TypeRule, value: &Value) -> bool {
    complaints(rule, value, value).is_empty()
}

/// What an item does not keep of its type; `shown` is the item as its schema looks at it.
pub(crate) fn complaints(rule: &TypeRule, value: &Value, shown: &Value) -> Vec<String> {
    let name = &rule.def.name;
    let mut all = Vec::new();
    if let Some(schema) = &rule.schema {
        all.extend(
            schema
                .complaints(&plain(shown))
                .into_iter()
                .map(|c| format!("type {name}: schema{} at '{}': {}", c.rule, c.path, c.message)),
        );
    }
    if let Some(max) = rule.def.limits.max_bytes {
        let size = plain(value).to_json().len();
        if size > max {
            all.push(format!(
                "type {name}: limits/maxBytes: the item has {size} bytes, more than {max}"
            ));
        }
    }
    all
}
