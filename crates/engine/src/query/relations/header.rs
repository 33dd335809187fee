//! The header that expands relations in whole items: `publisher,author(firstName,written(title))`. Names in
//! parentheses select properties of the target, or are relations of the target.

use orrery_modeling::ModelPath;
use orrery_types::{Error, Object, Result, Value, limits};

use super::{Expansion, Names, NavigationKind};

/// The relations that a header names.
#[derive(Clone, Debug)]
pub(crate) struct Wants(Vec<Want>);

#[derive(Clone, Debug)]
struct Want {
    /// One name may hang on several objects of an item.
    ways: Vec<NavigationKind>,
    /// Properties of what it leads to; none: all of them.
    fields: Vec<Box<str>>,
    nested: Vec<Want>,
}

/// A name with what stands in its parentheses.
struct Named {
    name: Box<str>,
    inner: Vec<Named>,
}

impl Wants {
    /// Reads the header for items of a container.
    pub(crate) fn parse(text: &str, names: &Names<'_>, container: usize) -> Result<Self> {
        if text.len() > limits::MODEL_EXPAND_CHARS_MAX {
            return Err(Error::invalid(format!(
                "x-model-expand has more than {} characters.",
                limits::MODEL_EXPAND_CHARS_MAX
            )));
        }
        let mut rest = text;
        let list = named(&mut rest, 0)?;
        if !rest.is_empty() {
            return Err(malformed(text));
        }
        list.iter().map(|n| want(n, names, container, 1)).collect::<Result<_>>().map(Self)
    }

    /// All ways that are gone, at whatever depth.
    pub(crate) fn ways(&self) -> Vec<NavigationKind> {
        let mut all = Vec::new();
        let mut pending: Vec<&Want> = self.0.iter().collect();
        while let Some(want) = pending.pop() {
            all.extend(&want.ways);
            pending.extend(&want.nested);
        }
        all
    }
}

fn malformed(text: &str) -> Error {
    Error::invalid(format!(
        "x-model-expand must be a list of relations, as in 'publisher,author(firstName)'; it is \
         '{text}'."
    ))
}

fn named(rest: &mut &str, depth: usize) -> Result<Vec<Named>> {
    let whole = *rest;
    let mut list = Vec::new();
    loop {
        let end = rest.find([',', '(', ')']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        *rest = &rest[end..];
        if name.is_empty() || depth > limits::MODEL_EXPAND_DEPTH_MAX {
            return Err(malformed(whole));
        }
        let mut inner = Vec::new();
        if let Some(after) = rest.strip_prefix('(') {
            *rest = after;
            inner = named(rest, depth + 1)?;
            *rest = rest.strip_prefix(')').ok_or_else(|| malformed(whole))?.trim_start();
        }
        list.push(Named { name: name.into(), inner });
        match rest.strip_prefix(',') {
            Some(after) => *rest = after,
            None => return Ok(list),
        }
    }
}

fn want(named: &Named, names: &Names<'_>, container: usize, depth: usize) -> Result<Want> {
    let known = names.ways(container);
    let ways: Vec<NavigationKind> =
        known.iter().filter(|(name, _)| **name == *named.name).map(|(_, way)| *way).collect();
    let Some(first) = ways.first() else {
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        return Err(Error::invalid(format!(
            "x-model-expand: '{}' is no relation of the container '{}'; there are: {}.",
            named.name,
            names.containers().get(container).copied().unwrap_or_default(),
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )));
    };
    if depth > limits::MODEL_EXPAND_DEPTH_MAX {
        return Err(Error::invalid(format!(
            "x-model-expand: at most {} relations may follow one another; '{}' is one more.",
            limits::MODEL_EXPAND_DEPTH_MAX,
            named.name
        )));
    }
    let end = names.end(*first);
    let leads_on = names.ways(end);
    let (mut fields, mut nested) = (Vec::new(), Vec::new());
    for inner in &named.inner {
        if leads_on.iter().any(|(name, _)| **name == *inner.name) || !inner.inner.is_empty() {
            nested.push(want(inner, names, end, depth + 1)?);
        } else {
            fields.push(inner.name.clone());
        }
    }
    Ok(Want { ways, fields, nested })
}

impl Expansion<'_> {
    /// Items with what is wanted put into them, where the names hang.
    pub(crate) fn expand(&self, wants: &Wants, items: &[Value]) -> Result<Vec<Value>> {
        self.expand_all(&wants.0, items)
    }

    fn expand_all(&self, wants: &[Want], items: &[Value]) -> Result<Vec<Value>> {
        let target = |way: &NavigationKind| match way {
            NavigationKind::Target(relation) => Some(*relation),
            NavigationKind::Inverse(_) | NavigationKind::Array(_) => None,
        };
        let ahead: Vec<usize> = wants.iter().flat_map(|w| &w.ways).filter_map(target).collect();
        self.prefetch(&ahead, &mut items.iter())?;
        items.iter().map(|item| self.expand_one(wants, item)).collect()
    }

    fn expand_one(&self, wants: &[Want], item: &Value) -> Result<Value> {
        let rules = &self.names.scope.model.rules;
        let mut expanded = item.clone();
        for want in wants {
            for way in &want.ways {
                match way {
                    NavigationKind::Target(at) => {
                        let rule = &rules.relations[*at];
                        let from = &rules.types[rule.from];
                        if !from.matches(&from.def.container, item) {
                            continue;
                        }
                        let holders = ModelPath::of(rule.holder().to_vec());
                        for (place, holder) in holders.collect(item) {
                            let found = self.shaped(want, self.targets(*at, item, holder)?)?;
                            let value = if rule.leads_to_many() {
                                Value::array(found)
                            } else {
                                found.into_iter().next_back().unwrap_or_default()
                            };
                            rule.navigation.set(&mut expanded, &place, value);
                        }
                    }
                    NavigationKind::Array(at) => {
                        let rule = &rules.buckets[*at];
                        let on = &rules.types[rule.on];
                        if on.matches(&on.def.container, item) {
                            let found = self.elements(*at, item)?;
                            let found = found.as_array().unwrap_or_default().to_vec();
                            let found = Value::array(self.shaped(want, found)?);
                            rule.def.array.set(&mut expanded, &[], found);
                        }
                    }
                    NavigationKind::Inverse(at) => {
                        let rule = &rules.relations[*at];
                        let to = &rules.types[rule.to];
                        let inverse = rule.def.inverse.as_ref();
                        let Some(inverse) = inverse.filter(|_| to.matches(&to.def.container, item))
                        else {
                            continue;
                        };
                        let found = self.shaped(want, self.sources(*at, item)?)?;
                        if let Some(object) = expanded.as_object_mut() {
                            object.set(&inverse.name, Value::array(found));
                        }
                    }
                }
            }
        }
        Ok(expanded)
    }

    /// What a relation led to, expanded further and cut to the properties that are wanted.
    fn shaped(&self, want: &Want, found: Vec<Value>) -> Result<Vec<Value>> {
        let found =
            if want.nested.is_empty() { found } else { self.expand_all(&want.nested, &found)? };
        if want.fields.is_empty() {
            return Ok(found);
        }
        let rules = &self.names.scope.model.rules;
        let leads_on = want.nested.iter().flat_map(|nested| &nested.ways).map(|way| match way {
            NavigationKind::Target(at) => rules.relations[*at].navigation.steps().first().cloned(),
            NavigationKind::Array(at) => rules.buckets[*at].def.array.steps().first().cloned(),
            NavigationKind::Inverse(at) => rules.relations[*at]
                .def
                .inverse
                .as_ref()
                .map(|inverse| orrery_modeling::ModelStep::Name(inverse.name.clone())),
        });
        let mut names: Vec<Box<str>> = want.fields.clone();
        names.extend(leads_on.flatten().filter_map(|step| match step {
            orrery_modeling::ModelStep::Name(name) => Some(name),
            orrery_modeling::ModelStep::Each => None,
        }));
        let cut = |item: Value| {
            let mut kept = Object::new();
            for name in &names {
                kept.set(name, item.get(name).clone());
            }
            Value::object(kept)
        };
        Ok(found.into_iter().map(cut).collect())
    }
}
