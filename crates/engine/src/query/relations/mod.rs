//! Items that relations lead to, for one page of a query or one read. A page is of one instant: the
//! containers that its relations can reach are opened together with its own. Items are loaded in batches,
//! each once, and the number that a page may load is bounded.
//!
//! `names` has the names of relations, `header` parses the header that expands relations in whole items, and
//! `semi_join` turns a filter on targets into the items that refer to them.

mod arrays;
pub(crate) mod expansion_request;
mod header;
mod loads;
mod names;
mod read;
mod semi_join;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use orrery_modeling::BUCKET_MARKER;
use orrery_modeling::reference::ReferenceTarget;
use orrery_query::{ItemSource, RelationHost, RequiredMembers, SeekPosition, SourceItem};
use orrery_storage::{Scan, Space, key};
use orrery_types::{Error, ExecutionBudget, Reservation, Result, Value, limits};

use arrays::Directory;
use loads::{Loaded, Loads};

use crate::error::storage;
use crate::item::address::ItemKey;
use crate::model::ModelContext;
use crate::partition::scope::{Scope, ScopeRequest};
use crate::query::access::{ReadCounters, Shards};
use crate::{Container, Engine};

pub(crate) use header::Wants;
pub(crate) use names::{Names, NavigationKind};
pub(crate) use read::no_relations;
pub(crate) use semi_join::SemiJoinResult;

/// How far a request may follow relations: a resource token opens no more than its resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// To every item of the database.
    #[default]
    Database,
    /// Within the container.
    Container,
    /// Not at all, but what is written may change items of the logical partition.
    Partition,
    /// Not at all: the request is about one item.
    Nothing,
}

impl Reach {
    /// Refuses relations that lead out of what the request may see.
    pub(crate) fn allow(self, within: bool) -> Result<()> {
        match self {
            Self::Database => Ok(()),
            Self::Container if within => Ok(()),
            Self::Container | Self::Partition | Self::Nothing => Err(Error::Denied(
                "The query or header names a relation that leads out of what the resource token \
                 opens. Use a token for the container and relations within it, or an account key."
                    .into(),
            )),
        }
    }
}

/// Keys of items, shared by their readers.
type KeyList = Rc<Vec<Vec<u8>>>;

/// What is known of items, by the number of their container and their key.
type ByPlace<T> = RefCell<HashMap<(usize, Vec<u8>), T>>;

/// A container that the page can reach, and what it has loaded of it.
struct Pool<'e> {
    shards: Shards<'e>,
    loads: RefCell<Loads>,
}

/// Follows relations for one page.
pub(crate) struct Expansion<'e> {
    pub(crate) names: &'e Names<'e>,
    /// By the number of the container; those that the page can reach.
    pools: Vec<Option<Pool<'e>>>,
    lists: ByPlace<KeyList>,
    /// The buckets of bucketed arrays, and the elements of those that were loaded.
    directories: ByPlace<Rc<Directory>>,
    buckets: RefCell<HashMap<Vec<u8>, Value>>,
    used: Cell<usize>,
    used_bytes: Cell<usize>,
    /// Used before the item at hand.
    used_before: Cell<usize>,
    budget: &'e ExecutionBudget<'e>,
    /// The memory of what is loaded.
    held: RefCell<Reservation<'e>>,
}

impl<'e> Expansion<'e> {
    /// Opens a part of a container together with all containers in which these ways end.
    pub(crate) fn open(
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
        names: &'e Names<'e>,
        ways: &[NavigationKind],
        budget: &'e ExecutionBudget<'e>,
    ) -> Result<(Shards<'e>, Self)> {
        names.must_be_built(engine, ways)?;
        let everything = container.scope(&ScopeRequest::default())?;
        let mut parts: Vec<(&'e Container, &Scope)> = vec![(container, scope)];
        let mut ends: Vec<usize> = ways.iter().map(|way| names.end(*way)).collect();
        // An inverse is found where its target is.
        ends.extend(ways.iter().filter_map(|way| match way {
            NavigationKind::Target(_) | NavigationKind::Array(_) => None,
            NavigationKind::Inverse(at) => {
                Some(names.container_of_type(names.scope.model.rules.relations[*at].to))
            }
        }));
        ends.sort_unstable();
        ends.dedup();
        for end in &ends {
            let name = names.containers().get(*end).copied().unwrap_or_default();
            let found = names.scope.container_named(name)?;
            parts.push((
                if found.number == container.number { container } else { found },
                &everything,
            ));
        }
        let mut opened = Shards::open_together(engine, &parts, budget)?.into_iter();
        let source = opened.next().ok_or_else(|| Error::internal("the container itself"))?;
        let mut pools: Vec<Option<Pool<'e>>> = names.containers().iter().map(|_| None).collect();
        for (end, shards) in ends.into_iter().zip(opened) {
            pools[end] = Some(Pool { shards, loads: RefCell::default() });
        }
        let (used, used_bytes, used_before) = Default::default();
        let (lists, directories, buckets) = Default::default();
        let expansion = Self {
            names,
            pools,
            lists,
            directories,
            buckets,
            used,
            used_bytes,
            used_before,
            budget,
            held: RefCell::new(budget.reservation()),
        };
        Ok((source, expansion))
    }

    /// Has only these members parsed of the items in which each way ends.
    pub(crate) fn need(&self, reads: &[(NavigationKind, Vec<Arc<str>>)]) -> Result<()> {
        let rules = &self.names.scope.model.rules;
        // The item itself decides whether it is of the target's type.
        let is_of_type = |way: &NavigationKind| match way {
            NavigationKind::Target(relation) => {
                rules.types[rules.relations[*relation].to].filter.is_none()
            }
            NavigationKind::Inverse(_) | NavigationKind::Array(_) => false,
        };
        if !reads.iter().all(|(way, _)| is_of_type(way)) {
            return Ok(());
        }
        for (container, pool) in self.pools.iter().enumerate() {
            let ends_here = |(way, _): &&(NavigationKind, _)| self.names.end(*way) == container;
            let names = reads.iter().filter(ends_here).flat_map(|(_, fields)| fields.clone());
            let names: Vec<Arc<str>> = names.collect();
            if let (Some(pool), false) = (pool, names.is_empty()) {
                pool.shards.need(RequiredMembers { names: Some(names), texts: false })?;
            }
        }
        Ok(())
    }

    /// Items that were loaded, and their bytes.
    pub(crate) fn taken(&self) -> (u64, u64, u64) {
        let taken = || self.pools.iter().flatten().map(|pool| &pool.shards.taken);
        let sum = |of: fn(&ReadCounters) -> u64| taken().map(of).sum();
        (sum(|t| t.items.get()), sum(|t| t.bytes.get()), sum(|t| t.entries.get()))
    }

    /// Items that the answer needed.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    fn opened(&self, container: usize) -> Result<&Pool<'e>> {
        let pool = self.pools.get(container).and_then(Option::as_ref);
        pool.ok_or_else(|| Error::internal("a relation leads to a container that was not opened"))
    }

    fn pool(&self, container: usize) -> Result<&Shards<'e>> {
        self.opened(container).map(|pool| &pool.shards)
    }

    /// Loads what is not there yet.
    fn load(&self, container: usize, keys: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let Pool { shards, loads } = self.opened(container)?;
        let is_missing = |key: &Vec<u8>| loads.borrow().by_key(key).is_none();
        let mut missing: Vec<Vec<u8>> = keys.filter(is_missing).collect();
        missing.sort_unstable();
        missing.dedup();
        // Whatever goes beyond is refused when it is used.
        missing.truncate(limits::MODEL_EXPAND_ITEMS_MAX + 1);
        if missing.is_empty() {
            return Ok(());
        }
        self.budget.load_related(missing.len() as u64)?;
        let before = shards.taken.bytes.get();
        let found = shards.by_keys(&missing, &mut self.held.borrow_mut())?;
        let each = (shards.taken.bytes.get() - before) / (missing.len() as u64);
        let bytes = usize::try_from(each).unwrap_or(usize::MAX);
        let mut loads = loads.borrow_mut();
        loads.reserve(missing.len());
        for (key, item) in missing.into_iter().zip(found) {
            let value = item.map(|item| item.value);
            loads.add(key, Loaded { value, bytes, used: false });
        }
        Ok(())
    }

    /// Loads what references lead to, as far as it is not there yet.
    fn load_targets(&self, container: usize, mut targets: Vec<ReferenceTarget>) -> Result<()> {
        let Pool { shards, loads } = self.opened(container)?;
        targets.retain(|target| loads.borrow().by_target(target).is_none());
        let definition = &shards.container.definition.partition_key;
        let key = |target: &ReferenceTarget| {
            let partition_key = definition.normalize(target.partition_key.clone());
            // A value that is no id leads nowhere.
            ItemKey::of(shards.container, partition_key, &target.id).ok().map(|at| at.key)
        };
        let keys: Vec<Option<Vec<u8>>> = targets.iter().map(key).collect();
        self.load(container, keys.iter().flatten().cloned())?;
        let mut loads = loads.borrow_mut();
        for (target, key) in targets.into_iter().zip(keys) {
            loads.note(target, key.as_deref());
        }
        Ok(())
    }

    /// An item for the answer.
    fn item(&self, container: usize, item_key: &[u8]) -> Result<Option<Value>> {
        let loads = &self.opened(container)?.loads;
        let mut number = loads.borrow().by_key(item_key);
        if number.is_none() {
            self.load(container, std::iter::once(item_key.to_vec()))?;
            number = loads.borrow().by_key(item_key);
        }
        number.map_or(Ok(None), |number| self.take(container, number))
    }

    /// What a reference leads to, for the answer.
    fn target(&self, container: usize, target: &ReferenceTarget) -> Result<Option<Value>> {
        let loads = &self.opened(container)?.loads;
        let mut number = loads.borrow().by_target(target);
        if number.is_none() {
            self.load_targets(container, vec![target.clone()])?;
            number = loads.borrow().by_target(target);
        }
        number.map_or(Ok(None), |number| self.take(container, number))
    }

    /// An item that was loaded, for the answer.
    fn take(&self, container: usize, number: usize) -> Result<Option<Value>> {
        let mut loads = self.opened(container)?.loads.borrow_mut();
        let Some(found) = loads.get_mut(number) else { return Ok(None) };
        if !found.used && found.value.is_some() {
            found.used = true;
            self.used.set(self.used.get() + 1);
            self.used_bytes.set(self.used_bytes.get() + found.bytes);
            let at_hand = self.used.get() - self.used_before.get();
            let too_many = at_hand > limits::MODEL_EXPAND_ITEMS_MAX;
            if too_many || self.used_bytes.get() > 2 * limits::MODEL_EXPAND_BYTES_MAX {
                return Err(too_much());
            }
        }
        Ok(found.value.clone())
    }

    /// The targets of one object, those that are there and of the type.
    fn targets(&self, relation: usize, item: &Value, holder: &Value) -> Result<Vec<Value>> {
        let rules = &self.names.scope.model.rules;
        let rule = &rules.relations[relation];
        let end = self.names.end(NavigationKind::Target(relation));
        let Pool { shards, loads } = self.opened(end)?;
        let wanted = rule.targets_at(item, holder);
        let number = |target: &ReferenceTarget| loads.borrow().by_target(target);
        let mut numbers: Vec<Option<usize>> = wanted.iter().map(number).collect();
        if numbers.contains(&None) {
            // The item's other references to come, all at once.
            self.load_targets(end, rule.all_targets(item))?;
            numbers = wanted.iter().map(number).collect();
        }
        let to = &rules.types[rule.to];
        let mut targets = Vec::with_capacity(wanted.len());
        for (target, number) in wanted.iter().zip(numbers) {
            let found = match number {
                Some(number) => self.take(end, number)?,
                None => self.target(end, target)?,
            };
            targets.extend(found.filter(|value| to.matches(&shards.container.id, value)));
        }
        Ok(targets)
    }

    /// All items that refer to one, in the order of their keys.
    fn sources(&self, relation: usize, item: &Value) -> Result<Vec<Value>> {
        let end = self.names.end(NavigationKind::Inverse(relation));
        let keys = self.source_keys(relation, item)?;
        self.load(end, keys.iter().cloned())?;
        let mut sources = Vec::with_capacity(keys.len());
        for key in keys.iter() {
            sources.extend(self.item(end, key)?);
        }
        Ok(sources)
    }

    fn source_keys(&self, relation: usize, item: &Value) -> Result<Rc<Vec<Vec<u8>>>> {
        let rule = &self.names.scope.model.rules.relations[relation];
        let pool = self.pool(self.names.container_of_type(rule.to))?;
        let container = pool.container;
        let partition_key = container.definition.partition_key.extract(item);
        let id = item.get("id").as_str().unwrap_or_default();
        let Ok(at) = ItemKey::of(container, partition_key, id) else { return Ok(Rc::default()) };
        let place = (relation, at.key);
        if let Some(known) = self.lists.borrow().get(&place) {
            return Ok(known.clone());
        }
        let found = self.references(relation, pool, &place.1, limits::MODEL_EXPAND_ITEMS_MAX)?;
        let found = Rc::new(found.ok_or_else(too_much)?);
        self.lists.borrow_mut().insert(place, found.clone());
        Ok(found)
    }

    /// The keys of the items that refer to one; `None` if they are more than so many.
    fn references(
        &self,
        relation: usize,
        pool: &Shards<'e>,
        target: &[u8],
        most: usize,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(shard) = pool.shard_of(target)? else { return Ok(Some(vec![])) };
        let bounds = key::references_to(self.names.scope.model.numbers[relation], target);
        let scan = Scan {
            keys_only: true,
            ..bounds.scan(Space::Index, most.saturating_add(1), usize::MAX)
        };
        let entries = shard.snapshot.scan(&scan).map_err(storage)?;
        self.budget.read(entries.len() as u64)?;
        ReadCounters::add(&pool.taken.entries, entries.len() as u64);
        if entries.len() > most {
            return Ok(None);
        }
        let source = |key: &[u8]| key::parse_reference(key).map(|r| r.source.to_vec());
        Ok(Some(entries.iter().filter_map(|entry| source(&entry.key)).collect()))
    }

    /// Loads what relations lead to from items whose turn is about to come.
    pub(crate) fn prefetch(
        &self,
        relations: &[usize],
        items: &mut dyn Iterator<Item = &Value>,
    ) -> Result<()> {
        let items: Vec<&Value> = items.collect();
        let rules = &self.names.scope.model.rules;
        for relation in relations {
            let rule = &rules.relations[*relation];
            let from = &rules.types[rule.from];
            let of_type = items.iter().filter(|item| from.matches(&from.def.container, item));
            let mut targets: Vec<ReferenceTarget> =
                of_type.flat_map(|item| rule.all_targets(item)).collect();
            targets.truncate(limits::MODEL_EXPAND_ITEMS_MAX);
            self.load_targets(self.names.end(NavigationKind::Target(*relation)), targets)?;
        }
        Ok(())
    }
}

impl RelationHost for Expansion<'_> {
    fn end_item(&self) -> bool {
        self.used_before.set(self.used.get());
        self.used.get() >= limits::MODEL_EXPAND_ITEMS_MAX
            || self.used_bytes.get() >= limits::MODEL_EXPAND_BYTES_MAX
    }

    fn follow(&self, number: usize, item: &Value, holder: &Value) -> Result<Value> {
        let rules = &self.names.scope.model.rules;
        match NavigationKind::of(number) {
            NavigationKind::Target(relation) => {
                let rule = &rules.relations[relation];
                let from = &rules.types[rule.from];
                if !from.matches(&from.def.container, item) {
                    // On items of other types the name is a property like any other.
                    return Ok(holder.get(&rule.def.name).clone());
                }
                let mut targets = self.targets(relation, item, holder)?;
                if rule.leads_to_many() {
                    return Ok(Value::array(targets));
                }
                Ok(targets.pop().unwrap_or_default())
            }
            NavigationKind::Inverse(relation) => {
                let rule = &rules.relations[relation];
                let to = &rules.types[rule.to];
                if !to.matches(&to.def.container, item) {
                    let name = rule.def.inverse.as_ref().map_or("", |inverse| &*inverse.name);
                    return Ok(holder.get(name).clone());
                }
                self.sources(relation, item).map(Value::array)
            }
            NavigationKind::Array(at) => {
                let rule = &rules.buckets[at];
                let on = &rules.types[rule.on];
                if !item.get(BUCKET_MARKER).is_undefined() {
                    // Its elements are those of its parent, which shows them.
                    return Ok(Value::Undefined);
                }
                if !on.matches(&on.def.container, item) {
                    let name = rule.def.array.last_name().unwrap_or_default();
                    return Ok(holder.get(name).clone());
                }
                self.elements(at, item)
            }
        }
    }

    fn parts(&self, number: usize, item: &Value, _: &Value) -> Result<Option<Vec<u64>>> {
        match NavigationKind::of(number) {
            NavigationKind::Target(_) | NavigationKind::Inverse(_) => Ok(None),
            NavigationKind::Array(at) => {
                let rules = &self.names.scope.model.rules;
                let on = &rules.types[rules.buckets[at].on];
                if on.matches(&on.def.container, item) { self.lengths(at, item) } else { Ok(None) }
            }
        }
    }

    fn part(&self, number: usize, item: &Value, _: &Value, part: usize) -> Result<Vec<Value>> {
        match NavigationKind::of(number) {
            NavigationKind::Target(_) | NavigationKind::Inverse(_) => Ok(vec![]),
            NavigationKind::Array(at) => self.bucket(at, item, part),
        }
    }
}

fn too_much() -> Error {
    Error::invalid(format!(
        "Relations lead to more than {} items, or to items of more than {} MB, for one item or for a \
         query that has to see all rows before its first. Narrow the filter, ask for fewer items a \
         page, declare a copy or an aggregate in the model, or query the items that refer by their \
         reference.",
        limits::MODEL_EXPAND_ITEMS_MAX,
        limits::MODEL_EXPAND_BYTES_MAX >> 20
    ))
}

/// Loads ahead, for the items of a batch together.
pub(crate) struct PrefetchingSource<'a, 'e> {
    pub(crate) inner: &'a mut dyn ItemSource,
    pub(crate) expansion: &'a Expansion<'e>,
    pub(crate) relations: Vec<usize>,
    /// Items that the page can still take, roughly.
    pub(crate) items: usize,
}

impl ItemSource for PrefetchingSource<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        self.inner.seek(place)
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let batch = self.inner.next_batch(items_max)?;
        let soon = batch.len().min(self.items);
        let mut values = batch.iter().take(soon).map(|item| &item.value);
        self.expansion.prefetch(&self.relations, &mut values)?;
        self.items -= soon;
        Ok(batch)
    }
}

impl<'e> ModelContext<'e> {
    /// A container of the model.
    pub(crate) fn container_named(&self, name: &str) -> Result<&'e Container> {
        let found = self.database.container_named(name);
        found.ok_or_else(|| Error::internal(format!("the model names '{name}'")))
    }
}

impl crate::Database {
    /// A container by its name.
    pub(crate) fn container_named(&self, name: &str) -> Option<&Container> {
        let address = orrery_types::ids::Address::Name(name.to_owned());
        self.container(&address).map(|container| &**container)
    }
}
