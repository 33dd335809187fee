//! Names of relations and inverses in what a client sends. They are virtual: nothing is stored under
//! them. An item that was read with its relations expanded may be saved back, so a value is taken off
//! where it is what expansion shows of the item now, or a part of that. Any other value there is the
//! client's own data, and the write is refused: taking it off would destroy it.

use orrery_modeling::{BucketRule, ElementPath, ModelPath, ModelStep, RelationRule};
use orrery_types::{Error, Result, Value, limits};

use super::{ModelContext, ModelTransaction};
use crate::item::address::ItemAddress;
use crate::item::image::{CurrentImage, stored_value};
use crate::maintain::buckets;
use crate::maintain::cascade;
use crate::maintain::index_terms::PathIdAllocation;
use crate::maintain::references;
use crate::transaction::retry;

/// A virtual property in the body of an item.
struct Name<'e> {
    kind: Kind<'e>,
    path: ModelPath,
    place: ElementPath,
}

#[derive(Clone, Copy)]
enum Kind<'e> {
    Target(&'e RelationRule),
    Inverse(usize, &'e RelationRule),
    Array(usize),
}

/// The path at which the inverse of a relation hangs.
pub(crate) fn inverse_path(rule: &RelationRule) -> Option<ModelPath> {
    let inverse = rule.def.inverse.as_ref()?;
    Some(ModelPath::of(vec![ModelStep::Name(inverse.name.clone())]))
}

/// The names of relations and inverses that an item of these types has values at.
fn names_in<'e>(scope: ModelContext<'e>, types: &[usize], item: &Value) -> Vec<Name<'e>> {
    let mut found = Vec::new();
    for (index, rule) in scope.model.rules.relations.iter().enumerate() {
        let rule: &'e RelationRule = rule;
        let (path, kind) = (&rule.navigation, Kind::Target(rule));
        if types.contains(&rule.from) {
            let places = path.collect(item).into_iter().map(|(place, _)| place);
            found.extend(places.map(|place| Name { kind, path: path.clone(), place }));
        }
        if let Some(path) = inverse_path(rule).filter(|_| types.contains(&rule.to))
            && !path.get(item, &[]).is_undefined()
        {
            found.push(Name { kind: Kind::Inverse(index, rule), path, place: vec![] });
        }
    }
    found
}

impl<'e> ModelTransaction<'_, 'e> {
    /// Takes virtual properties off an item that is saved back; refuses what is not that.
    pub(crate) fn take_off_names(
        &mut self,
        address: &ItemAddress<'e>,
        types: &[usize],
        before: Option<&Value>,
        value: &mut Value,
    ) -> Result<()> {
        let scope = self.context;
        let found = names_in(scope, types, value);
        if found.is_empty() {
            return Ok(());
        }
        if let PathIdAllocation::LookupOnly = self.tx.options().path_ids {
            // Many items may have to be read: not on the thread of a connection.
            return Err(retry::needs_waiting());
        }
        let whole = value.clone();
        for name in &found {
            let given = name.path.get(&whole, &name.place);
            // What was stored there before the model is the client's own, whatever it looks like.
            let stored = before.map(|before| name.path.collect(before)).unwrap_or_default();
            if stored.iter().any(|(_, own)| *own == given) {
                return Err(occupied(name, given));
            }
            let mut left = limits::MODEL_EXPAND_ITEMS_MAX;
            // A reference may change in the same write: then the old target is shown.
            let mut shown = false;
            for item in std::iter::once(&whole).chain(before) {
                shown =
                    shown || self.is_shown(scope, name, (address, item), given, 1, &mut left)?;
            }
            if !shown {
                return Err(occupied(name, given));
            }
            name.path.set(value, &name.place, Value::Undefined);
        }
        Ok(())
    }

    /// Whether a value is what expansion shows of an item at a name, or a part of that.
    fn is_shown(
        &mut self,
        scope: ModelContext<'e>,
        name: &Name<'e>,
        (address, item): (&ItemAddress<'e>, &Value),
        given: &Value,
        depth: usize,
        left: &mut usize,
    ) -> Result<bool> {
        let targets = match name.kind {
            Kind::Target(rule) => {
                let holder = ModelPath::of(rule.holder().to_vec());
                let mut targets = Vec::new();
                for target in rule.targets_at(item, holder.get(item, &name.place)) {
                    let Some(to) =
                        references::target_address(self.tx, self.context, rule, &target)?
                    else {
                        continue;
                    };
                    let Some(seen) = self.seen_at(&to)? else { continue };
                    if scope.model.rules.types[rule.to].matches(&to.container.id, &seen) {
                        targets.push((to, seen));
                    }
                }
                if !rule.leads_to_many() {
                    let Some((to, seen)) = targets.pop() else { return Ok(false) };
                    return self.is_part(scope, (&to, &seen), given, depth, left);
                }
                targets
            }
            Kind::Inverse(index, _) => {
                let Some(list) = given.as_array().filter(|list| list.len() <= *left) else {
                    return Ok(false);
                };
                let sources = cascade::referrers_up_to(self, index, address, list.len())?;
                let Some(sources) = sources else { return Ok(false) };
                let mut seen = Vec::new();
                for source in sources {
                    let item = self.seen_at(&source)?;
                    seen.extend(item.map(|item| (source, item)));
                }
                seen
            }
            Kind::Array(at) => {
                let elements = buckets::elements_of(self, at, address)?;
                let Some(list) = given.as_array() else { return Ok(false) };
                let alike = |(own, given): (&Value, &Value)| own == given || is_part(own, given);
                return Ok(elements.len() == list.len() && elements.iter().zip(list).all(alike));
            }
        };
        let Some(list) = given.as_array().filter(|list| list.len() == targets.len()) else {
            return Ok(false);
        };
        for ((to, seen), given) in targets.iter().zip(list) {
            if !self.is_part(scope, (to, seen), given, depth, left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a value is an item, or some of its properties, with relations of its own expanded.
    fn is_part(
        &mut self,
        scope: ModelContext<'e>,
        (address, item): (&ItemAddress<'e>, &Value),
        given: &Value,
        depth: usize,
        left: &mut usize,
    ) -> Result<bool> {
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        let mut rest = given.clone();
        if depth < limits::MODEL_EXPAND_DEPTH_MAX {
            let types = scope.model.rules.types_of(&address.container.id, item);
            let mut names = names_in(scope, &types, given);
            names.extend(arrays_in(scope, &types, given));
            for name in names {
                let is_stored = !name.path.get(item, &name.place).is_undefined();
                let given = name.path.get(given, &name.place);
                if is_stored
                    || !self.is_shown(scope, &name, (address, item), given, depth + 1, left)?
                {
                    return Ok(false);
                }
                name.path.set(&mut rest, &name.place, Value::Undefined);
            }
        }
        Ok(is_part(item, &rest))
    }

    /// An item as a read shows it, with its system properties.
    fn seen_at(&mut self, address: &ItemAddress<'e>) -> Result<Option<Value>> {
        let shard = self.tx.shard_of(address);
        self.tx.load(shard, &address.at)?;
        match self.tx.current(shard, &address.at.key) {
            None => Ok(None),
            Some(CurrentImage::Stored(before)) => before.value().cloned().map(Some),
            Some(CurrentImage::Own(after)) => stored_value(&after.text).map(Some),
        }
    }
}

fn arrays_in<'e>(scope: ModelContext<'e>, types: &[usize], item: &Value) -> Vec<Name<'e>> {
    let rules = scope.model.rules.buckets.iter().enumerate();
    let has = |rule: &BucketRule| {
        types.contains(&rule.on) && !rule.def.array.get(item, &[]).is_undefined()
    };
    rules
        .filter(|(_, rule)| has(rule))
        .map(|(at, rule)| Name {
            kind: Kind::Array(at),
            path: rule.def.array.clone(),
            place: vec![],
        })
        .collect()
}

/// Whether a value has some properties of an object and nothing else.
fn is_part(item: &Value, given: &Value) -> bool {
    let Some(members) = given.as_object() else { return false };
    members.iter().all(|(name, value)| value.is_undefined() || item.get(name) == value)
}

fn occupied(name: &Name<'_>, given: &Value) -> Error {
    let text: String = given.to_json().chars().take(40).collect();
    let (what, relation) = match name.kind {
        Kind::Inverse(_, rule) => ("the inverse of the relation", &*rule.def.name),
        Kind::Target(rule) => ("the relation", &*rule.def.name),
        Kind::Array(_) => ("the bucketed array", name.path.last_name().unwrap_or_default()),
    };
    Error::ModelViolated(
        format!(
            "The item has {text} at '{}', the name of {what} '{relation}', under which nothing is \
             stored, and that is not what the relation leads to now. Give the property another name, \
             or leave it out; if the item was read with its relations expanded, read it again. The \
             model may also give the relation another name. Nothing was written.",
            name.path
        )
        .into(),
    )
}
