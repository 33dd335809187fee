//! The names of relations and inverses as queries and headers use them, and what each leads to.

use std::sync::Arc;

use orrery_modeling::{BUCKET_MARKER, Expression, ModelStep, RelationRule};
use orrery_query::{HolderStep, Navigation, Relations};

use orrery_types::Result;

use crate::model::ModelContext;
use crate::{Container, Engine};

/// What a name of the model leads to. As a number, for queries: three times that of the rule, plus one for an
/// inverse and two for an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NavigationKind {
    /// From the reference to its target.
    Target(usize),
    /// From a target to all that refer to it.
    Inverse(usize),
    /// From an item to the elements of one of its bucketed arrays.
    Array(usize),
}

impl NavigationKind {
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Target(relation) => relation * 3,
            Self::Inverse(relation) => relation * 3 + 1,
            Self::Array(bucket) => bucket * 3 + 2,
        }
    }

    pub(crate) fn of(number: usize) -> Self {
        match number % 3 {
            0 => Self::Target(number / 3),
            1 => Self::Inverse(number / 3),
            _ => Self::Array(number / 3),
        }
    }
}

/// The names that a model gives to the items of its containers.
pub(crate) struct Names<'e> {
    pub(crate) scope: ModelContext<'e>,
    root: usize,
    /// Containers of the model; a query knows them by their place here.
    containers: Vec<&'e str>,
}

impl<'e> Names<'e> {
    pub(crate) fn new(scope: ModelContext<'e>, container: &Container) -> Self {
        let mut containers: Vec<&'e str> = Vec::new();
        for rule in &scope.model.rules.types {
            if !containers.contains(&&*rule.def.container) {
                containers.push(&rule.def.container);
            }
        }
        let root = containers.iter().position(|name| **name == *container.id);
        Self { scope, root: root.unwrap_or(usize::MAX), containers }
    }

    /// The number of the container of a type.
    pub(crate) fn container_of_type(&self, item_type: usize) -> usize {
        let name = &*self.scope.model.rules.types[item_type].def.container;
        self.containers.iter().position(|other| *other == name).unwrap_or(usize::MAX)
    }

    pub(crate) fn containers(&self) -> &[&'e str] {
        &self.containers
    }

    /// The container in which a relation, followed one way, ends.
    pub(crate) fn end(&self, way: NavigationKind) -> usize {
        let rules = &self.scope.model.rules;
        match way {
            NavigationKind::Target(at) => self.container_of_type(rules.relations[at].to),
            NavigationKind::Inverse(at) => self.container_of_type(rules.relations[at].from),
            NavigationKind::Array(at) => self.container_of_type(rules.buckets[at].on),
        }
    }

    /// Refuses ways whose items may not all be found yet. References to targets stand in the items.
    pub(super) fn must_be_built(&self, engine: &Engine, ways: &[NavigationKind]) -> Result<()> {
        let rules = &self.scope.model.rules;
        for way in ways {
            match way {
                NavigationKind::Target(_) => {}
                NavigationKind::Inverse(at) => {
                    let inverse = rules.relations[*at].def.inverse.as_ref();
                    let name = inverse.map_or("", |inverse| &*inverse.name);
                    engine.model_builds().must_be_built(self.scope, *at, name)?;
                }
                NavigationKind::Array(at) => {
                    let name = rules.buckets[*at].def.array.last_name().unwrap_or_default();
                    engine.model_builds().must_be_built(
                        self.scope,
                        rules.relations.len() + at,
                        name,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// The ways that have a name in a container, wherever in the item it hangs.
    pub(crate) fn ways(&self, container: usize) -> Vec<(&'e str, NavigationKind)> {
        let mut all = Vec::new();
        for (at, rule) in self.scope.model.rules.relations.iter().enumerate() {
            if self.container_of_type(rule.from) == container {
                all.push((&*rule.def.name, NavigationKind::Target(at)));
            }
            if let Some(inverse) = &rule.def.inverse
                && self.container_of_type(rule.to) == container
            {
                all.push((&*inverse.name, NavigationKind::Inverse(at)));
            }
        }
        for (at, rule) in self.scope.model.rules.buckets.iter().enumerate() {
            if let Some(name) = rule.def.array.last_name()
                && self.container_of_type(rule.on) == container
            {
                all.push((name, NavigationKind::Array(at)));
            }
        }
        all
    }

    /// Members by which an item of a container is found among others.
    fn identity(&self, container: usize) -> Vec<Box<str>> {
        let name = self.containers.get(container).copied().unwrap_or_default();
        let mut members: Vec<Box<str>> = vec!["id".into()];
        if let Some(container) = self.scope.database.container_named(name) {
            let paths = &container.definition.partition_key.paths;
            members.extend(paths.iter().filter_map(|p| p.segments().first().cloned()));
        }
        members
    }

    fn navigation(&self, way: NavigationKind) -> Navigation {
        let rules = &self.scope.model.rules;
        // What an element of an array holds is no item: no name hangs on it.
        let mut target = self.end(way);
        let (from, mut members, path, many) = match way {
            NavigationKind::Array(at) => {
                let rule = &rules.buckets[at];
                let mut members = self.identity(target);
                members.extend(rule.array_names().first().map(|name| Box::from(*name)));
                target = usize::MAX;
                (rule.on, members, rule.def.array.to_string(), true)
            }
            NavigationKind::Target(at) => {
                let rule: &RelationRule = &rules.relations[at];
                let path = rule.navigation.to_string();
                (rule.from, rule.members(), path, rule.leads_to_many())
            }
            NavigationKind::Inverse(at) => {
                let rule = &rules.relations[at];
                let name = rule.def.inverse.as_ref().map_or("", |inverse| &*inverse.name);
                let mut members = self.identity(self.container_of_type(rule.to));
                members.push(name.into());
                (rule.to, members, format!("/{name}"), true)
            }
        };
        let filter = rules.types[from].filter.as_deref();
        let reads = filter.map(Expression::reads).unwrap_or_default();
        members.extend(reads.iter().filter_map(|path| path.first().cloned()));
        if rules.types[from].has_buckets {
            // Buckets are of no type.
            members.push(BUCKET_MARKER.into());
        }
        members.sort_unstable();
        members.dedup();
        let members: Arc<[Arc<str>]> = members.iter().map(|name| Arc::from(&**name)).collect();
        let number = way.number();
        Navigation { number, target, many, members, path: path.into() }
    }
}

impl Relations for Names<'_> {
    fn root(&self) -> usize {
        self.root
    }

    fn find(&self, container: usize, holder: &[HolderStep], name: &str) -> Option<Navigation> {
        let rules = &self.scope.model.rules;
        for (own, way) in self.ways(container) {
            if own != name {
                continue;
            }
            let hangs = match way {
                NavigationKind::Target(at) => is_same(rules.relations[at].holder(), holder),
                NavigationKind::Inverse(_) => holder.is_empty(),
                NavigationKind::Array(at) => {
                    let steps = rules.buckets[at].def.array.steps();
                    is_same(&steps[..steps.len().saturating_sub(1)], holder)
                }
            };
            if hangs {
                return Some(self.navigation(way));
            }
        }
        None
    }
}

fn is_same(own: &[ModelStep], holder: &[HolderStep]) -> bool {
    own.len() == holder.len()
        && own.iter().zip(holder).all(|(own, other)| match (own, other) {
            (ModelStep::Name(own), HolderStep::Name(other)) => **own == **other,
            (ModelStep::Each, HolderStep::Element) => true,
            _ => false,
        })
}
