//! What the model does to an item before it is written: names of relations are taken off, references
//! are checked, what the server keeps is put to what is true, and the whole is validated.

use orrery_modeling::{
    Action, ClientWrites, Level, ModelPath, OnMissing, RelationRule, Step, TypeRule,
};
use orrery_types::{Error, Result, Value};

use super::Edits;
use super::spot::Spot;
use crate::draft::Draft;
use crate::item_body::{ItemBody, SYSTEM_PROPERTIES};
use crate::items::Located;

impl<'e> Draft<'e> {
    /// The body as it is to be written at a place.
    pub(crate) fn govern(
        &mut self,
        at: &Located<'e>,
        before: Option<&Value>,
        body: ItemBody,
        edits: &Edits,
    ) -> Result<ItemBody> {
        let Some(scope) = self.model.scope else { return Ok(body) };
        let rules = &scope.model.rules;
        let mut value = body.value;
        let types = rules.types_of(&self.container.id, &value);
        let old_types = before.map(|b| rules.types_of(&self.container.id, b)).unwrap_or_default();
        for rule in &rules.relations {
            if types.contains(&rule.from) {
                strip(&mut value, &rule.navigation);
            }
            if let Some(inverse) = rule.def.inverse.as_ref().filter(|_| types.contains(&rule.to)) {
                strip(&mut value, &ModelPath::of(vec![Step::Name(inverse.name.clone())]));
            }
        }
        for rule in rules.relations.iter().filter(|rule| types.contains(&rule.from)) {
            let old = before.filter(|_| old_types.contains(&rule.from));
            self.references(rule, old, &mut value)?;
        }
        let spot = self.spot(at);
        self.kept(&spot, &types, &old_types, before, &mut value)?;
        self.keep_arrays(&spot, (&types, &old_types), before, &mut value, edits)?;
        for index in &types {
            let rule = &rules.types[*index];
            let old = before.filter(|_| old_types.contains(index));
            self.validate(rule, old, &value)?;
        }
        ItemBody::check(self.container, value)
    }

    /// New references must lead somewhere, if the relation says so; copies are put beside them.
    fn references(
        &mut self,
        rule: &RelationRule,
        before: Option<&Value>,
        value: &mut Value,
    ) -> Result<()> {
        let old = before.map(|b| rule.references(b)).unwrap_or_default();
        for (reference, spot) in self.reference_spots(rule, value)? {
            let known = old.iter().find(|o| o.target == reference.target && o.target.is_some());
            let check = known.is_none() && rule.def.on_missing == OnMissing::Reject;
            let target = match &spot {
                Some(spot) if check || !rule.copies.is_empty() => self.target_at(rule, spot)?,
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
                path.set(value, &reference.place, truth);
            }
        }
        Ok(())
    }

    /// The item at a spot, if it is of the relation's target type.
    pub(crate) fn target_at(
        &mut self,
        rule: &RelationRule,
        spot: &Spot<'e>,
    ) -> Result<Option<Value>> {
        let Some(scope) = self.model.scope else { return Ok(None) };
        let value = self.value_at(spot)?;
        let to = &scope.model.rules.types[rule.to];
        Ok(value.filter(|value| to.matches(&spot.container.id, value)))
    }

    /// What the server keeps of an item that others refer to: as it was, or as it is for a new one.
    fn kept(
        &mut self,
        spot: &Spot<'e>,
        types: &[usize],
        old_types: &[usize],
        before: Option<&Value>,
        value: &mut Value,
    ) -> Result<()> {
        let Some(scope) = self.model.scope else { return Ok(()) };
        let rules = &scope.model.rules;
        for (index, rule) in rules.relations.iter().enumerate() {
            let store = rule.def.inverse.as_ref().and_then(|inverse| inverse.store.as_ref());
            if let Some(path) = store.filter(|_| types.contains(&rule.to)) {
                let truth = match before.filter(|_| old_types.contains(&rule.to)) {
                    Some(before) => path.get(before, &[]).clone(),
                    None => self.true_inverse(index, spot)?,
                };
                refuse_given(rule.def.client_writes, path, path.get(value, &[]), &truth)?;
                path.set(value, &[], truth);
            }
        }
        for aggregate in rules.aggregates.iter().filter(|a| types.contains(&a.on)) {
            let path = &aggregate.def.path;
            let truth = match before.filter(|_| old_types.contains(&aggregate.on)) {
                Some(before) => path.get(before, &[]).clone(),
                None => self.aggregate_beside(scope, aggregate, spot)?,
            };
            refuse_given(aggregate.def.client_writes, path, path.get(value, &[]), &truth)?;
            path.set(value, &[], truth);
        }
        Ok(())
    }

    /// Schema and sizes.
    fn validate(&mut self, rule: &TypeRule, before: Option<&Value>, value: &Value) -> Result<()> {
        let mut complaints = complaints(rule, value);
        if let Some(limit) = rule.def.limits.warn_bytes {
            let size = plain(value).to_json().len();
            let over_max = rule.def.limits.max_bytes.is_some_and(|max| size > max);
            if size > limit && !over_max {
                self.model.warnings.push(format!(
                    "type {}: limits/warnBytes: the item has {size} bytes, more than {limit}",
                    rule.def.name
                ));
            }
        }
        let was_valid = before.is_none_or(|before| complaints_none(rule, before));
        if rule.def.validation.level == Level::Moderate && !was_valid {
            complaints.clear();
        }
        match rule.def.validation.action {
            Action::Error if !complaints.is_empty() => {
                let text = complaints.join("; ");
                Err(Error::ModelViolated(format!("The item breaks the model: {text}").into()))
            }
            _ => {
                self.model.warnings.extend(complaints);
                Ok(())
            }
        }
    }
}

/// Takes off a virtual property that was saved back.
fn strip(value: &mut Value, path: &ModelPath) {
    let places: Vec<_> = path.collect(value).into_iter().map(|(place, _)| place).collect();
    for place in places {
        path.set(value, &place, Value::Undefined);
    }
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
    complaints(rule, value).is_empty()
}

/// What an item does not keep of its type.
pub(crate) fn complaints(rule: &TypeRule, value: &Value) -> Vec<String> {
    let value = plain(value);
    let name = &rule.def.name;
    let mut all = Vec::new();
    if let Some(schema) = &rule.schema {
        all.extend(
            schema
                .complaints(&value)
                .into_iter()
                .map(|c| format!("type {name}: schema{} at '{}': {}", c.rule, c.path, c.message)),
        );
    }
    if let Some(max) = rule.def.limits.max_bytes {
        let size = value.to_json().len();
        if size > max {
            all.push(format!(
                "type {name}: limits/maxBytes: the item has {size} bytes, more than {max}"
            ));
        }
    }
    all
}
