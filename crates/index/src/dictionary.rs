//! The ids of paths, composite indexes and shapes in one shard. An id is assigned in the commit of the first
//! item that needs it, or in an earlier commit of its own; if that item then fails, the id stays unused. A path
//! keeps its id for ever.

use foldhash::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};

use orrery_storage::key::{self, CompositeId, PathId, PathStep, ROOT_PATH, ShapeId};
use orrery_storage::{
    Commit, FailedPrecondition, Part, Precondition, Put, ReadAt, Space, StorageError, Store,
};
use orrery_types::{Epoch, Lsn, ShardId, limits};

use crate::path::IndexStep;
use crate::path_tree::PathTree;
use crate::rules::IndexRules;
use crate::shapes;
use crate::terms::{IndexedItem, PathIds, Terms};

type Result<T> = std::result::Result<T, StorageError>;

/// Where a dictionary is kept.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct DictionaryShard<'s> {
    pub store: &'s dyn Store,
    pub shard: ShardId,
    pub epoch: Epoch,
}

impl DictionaryShard<'_> {
    /// A number and the version under which it was read.
    fn number(&self, key: &[u8]) -> Result<Option<(u32, Lsn)>> {
        let (_, found) = self.store.get(self.shard, Space::Meta, key)?;
        let Some(found) = found else { return Ok(None) };
        let corrupt = |_| StorageError::Corrupt("a number of the index is malformed".into());
        let bytes = found.bytes[..].try_into().map_err(corrupt)?;
        Ok(Some((u32::from_be_bytes(bytes), found.version)))
    }
}

/// The dictionary of one shard: what is in memory, in front of what is stored.
#[derive(Debug, Default)]
pub struct Dictionary {
    tree: RwLock<PathTree>,
    /// Numbers are given by one thread at a time.
    giving: Mutex<()>,
}

impl Dictionary {
    /// The number of a path; `None` if no item ever had it.
    pub fn path_id(
        &self,
        home: DictionaryShard<'_>,
        steps: &[IndexStep],
    ) -> Result<Option<PathId>> {
        let mut learnt = Learnt::default();
        let found = self.find(home, steps, &mut learnt);
        if !learnt.paths.is_empty() {
            self.keep(learnt);
        }
        found
    }

    fn find(
        &self,
        home: DictionaryShard<'_>,
        steps: &[IndexStep],
        learnt: &mut Learnt,
    ) -> Result<Option<PathId>> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        let mut id = ROOT_PATH;
        for step in steps {
            let step = match step {
                IndexStep::Property(name) => PathStep::Property(name),
                IndexStep::Elements => PathStep::Elements,
                IndexStep::Tuple(_) => return Ok(None),
            };
            if let Some(known) = tree.child(id, step) {
                id = known;
                continue;
            }
            let Some((number, _)) = home.number(&key::path_node(id, step))? else {
                return Ok(None);
            };
            let (parent, new) = (id, false);
            id = PathId(number);
            learnt.paths.push(LearntPath { parent, step: OwnedStep::new(step), id, new });
        }
        Ok(Some(id))
    }

    /// The number of a composite index by its canonical text; `None` if no item was written under it.
    pub fn composite_id(
        &self,
        home: DictionaryShard<'_>,
        text: &str,
    ) -> Result<Option<CompositeId>> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        match tree.composite(text) {
            Some(id) => Ok(Some(id)),
            None => Ok(home.number(&key::composite_name(text))?.map(|(id, _)| CompositeId(id))),
        }
    }

    /// The terms of an item, if the numbers of all its paths are in memory. Waits for nothing.
    pub fn known_terms(&self, rules: &IndexRules, item: &IndexedItem<'_>) -> Option<Terms> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        Terms::extract(rules, item, &mut &*tree).ok()
    }

    /// The terms of an item; paths that have no number get one.
    pub fn terms(
        &self,
        home: DictionaryShard<'_>,
        rules: &IndexRules,
        item: &IndexedItem<'_>,
    ) -> Result<Terms> {
        let _giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            if let Some(terms) = self.learn(home, rules, item)? {
                return Ok(terms);
            }
        }
        // Other writers allocated ids between each read and its commit.
        let precondition = Precondition::unchanged(Space::Meta, key::index_ids(), None);
        let shard = home.shard;
        Err(StorageError::Conflict(Box::new(FailedPrecondition { shard, precondition })))
    }

    /// The terms of an item; paths that have no number get one with the commit that carries it.
    pub fn carried_terms(
        &self,
        home: DictionaryShard<'_>,
        rules: &IndexRules,
        item: &IndexedItem<'_>,
        carried: &mut PendingPathIds,
    ) -> Result<Terms> {
        let terms = self.walk(home, rules, item, carried)?;
        if !carried.gave() {
            self.keep(std::mem::take(&mut carried.learnt));
        }
        Ok(terms)
    }

    /// Looks up what the tree lacks, gives numbers to what has none, and keeps both in the tree.
    /// `None` if another process gave numbers at the same time.
    fn learn(
        &self,
        home: DictionaryShard<'_>,
        rules: &IndexRules,
        item: &IndexedItem<'_>,
    ) -> Result<Option<Terms>> {
        let mut found = PendingPathIds::default();
        let terms = self.walk(home, rules, item, &mut found)?;
        if found.gave() && !give(home, &found)? {
            return Ok(None);
        }
        self.keep(found.learnt);
        Ok(Some(terms))
    }

    /// Finds the terms of an item, with numbers from the tree, from the store, or new ones.
    fn walk(
        &self,
        home: DictionaryShard<'_>,
        rules: &IndexRules,
        item: &IndexedItem<'_>,
        found: &mut PendingPathIds,
    ) -> Result<Terms> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        let (learnt, last) = (std::mem::take(&mut found.learnt), found.last);
        let mut learner = Learner { home, tree: &tree, learnt, last };
        let terms = Terms::extract(rules, item, &mut learner);
        *found = PendingPathIds { learnt: learner.learnt, last: learner.last };
        terms
    }

    /// Keeps numbers that are stored in the tree.
    fn keep(&self, learnt: Learnt) {
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        if tree.is_full() {
            tree.forget();
        }
        for path in learnt.paths {
            tree.insert(path.parent, path.step.as_step(), path.id);
        }
        for (text, id) in learnt.composites {
            tree.insert_composite(&text, id);
        }
        if let Some(shapes) = learnt.shapes {
            tree.set_shapes(shapes);
        }
    }
}

/// Numbers that were found or given on the way to a commit, and are kept when it is done.
#[derive(Default)]
pub struct PendingPathIds {
    learnt: Learnt,
    /// The last number, as soon as something was looked up.
    last: Option<LastNumber>,
}

impl PendingPathIds {
    fn gave(&self) -> bool {
        self.last.is_some_and(|last| last.number > last.before)
    }

    /// Writes the numbers that were given with a commit, which fails if another writer gave some
    /// meanwhile.
    pub fn write(&self, part: &mut Part) {
        let Some(last) = self.last.filter(|_| self.gave()) else { return };
        let (space, key) = (Space::Meta, key::index_ids());
        part.preconditions.push(Precondition::unchanged(space, key.clone(), last.version));
        let mut put = |key: Vec<u8>, id: u32| {
            part.puts.push(Put { space, key, value: id.to_be_bytes().to_vec() });
        };
        put(key, last.number);
        let learnt = &self.learnt;
        for path in learnt.paths.iter().filter(|path| path.new) {
            put(key::path_node(path.parent, path.step.as_step()), path.id.0);
        }
        for (text, id) in learnt.composites.iter().filter(|(_, id)| id.0 > last.before) {
            put(key::composite_name(text), id.0);
        }
        for (paths, id) in learnt.shapes.iter().flatten().filter(|(_, id)| id.0 > last.before) {
            put(key::shape_name(paths), id.0);
        }
    }
}

/// Writes the numbers that were given; false if another writer gave some meanwhile.
fn give(home: DictionaryShard<'_>, given: &PendingPathIds) -> Result<bool> {
    let mut part = Part::new(home.shard, home.epoch);
    given.write(&mut part);
    match home.store.commit(Commit::new(vec![part])) {
        Ok(_) => Ok(true),
        Err(StorageError::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a walk found in the store or gave a number to, parents before their children.
#[derive(Default)]
struct Learnt {
    paths: Vec<LearntPath>,
    places: HashMap<(PathId, OwnedStep), PathId>,
    composites: Vec<(Box<str>, CompositeId)>,
    /// All shapes, once one was asked for that the tree does not know.
    shapes: Option<HashMap<Box<[PathId]>, ShapeId>>,
}

struct LearntPath {
    parent: PathId,
    step: OwnedStep,
    id: PathId,
    new: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct OwnedStep(Option<Box<str>>);

impl OwnedStep {
    fn new(step: PathStep<'_>) -> Self {
        match step {
            PathStep::Elements => Self(None),
            PathStep::Property(name) => Self(Some(name.into())),
        }
    }

    fn as_step(&self) -> PathStep<'_> {
        self.0.as_deref().map_or(PathStep::Elements, PathStep::Property)
    }
}

/// The last number given: how it was found, and what it is by now.
#[derive(Clone, Copy)]
struct LastNumber {
    version: Option<Lsn>,
    before: u32,
    number: u32,
}

/// Gives numbers: from the tree, from the store, or new ones.
struct Learner<'l> {
    home: DictionaryShard<'l>,
    tree: &'l PathTree,
    learnt: Learnt,
    last: Option<LastNumber>,
}

impl Learner<'_> {
    /// The last number that was given. It is read before anything else: whoever gives a number after
    /// something was found to have none is noticed by the commit.
    fn last(&mut self) -> Result<LastNumber> {
        if let Some(last) = self.last {
            return Ok(last);
        }
        let last = match self.home.number(&key::index_ids())? {
            None => LastNumber { version: None, before: 0, number: 0 },
            Some((number, version)) => {
                LastNumber { version: Some(version), before: number, number }
            }
        };
        self.last = Some(last);
        Ok(last)
    }

    /// A number that is stored.
    fn stored(&mut self, key: &[u8]) -> Result<Option<u32>> {
        self.last()?;
        Ok(self.home.number(key)?.map(|(number, _)| number))
    }

    fn next(&mut self) -> Result<u32> {
        let mut last = self.last()?;
        let used_up = || StorageError::Corrupt("the numbers of paths are used up".into());
        last.number = last.number.checked_add(1).ok_or_else(used_up)?;
        self.last = Some(last);
        Ok(last.number)
    }
}

impl PathIds for Learner<'_> {
    type Node = PathId;
    type Error = StorageError;

    fn root(&self) -> PathId {
        ROOT_PATH
    }

    fn child(&mut self, parent: PathId, step: PathStep<'_>) -> Result<PathId> {
        if let Some(id) = self.tree.child(parent, step) {
            return Ok(id);
        }
        let place = (parent, OwnedStep::new(step));
        if let Some(id) = self.learnt.places.get(&place) {
            return Ok(*id);
        }
        // Below a path that has just got its number nothing is stored.
        let fresh = self.last.is_some_and(|last| parent.0 > last.before);
        let stored = if fresh { None } else { self.stored(&key::path_node(parent, step))? };
        let (id, new) = match stored {
            Some(id) => (PathId(id), false),
            None => (PathId(self.next()?), true),
        };
        self.learnt.paths.push(LearntPath { parent, step: place.1.clone(), id, new });
        self.learnt.places.insert(place, id);
        Ok(id)
    }

    fn id(&self, node: PathId) -> PathId {
        node
    }

    fn composite(&mut self, text: &str) -> Result<CompositeId> {
        if let Some(id) = self.tree.composite(text) {
            return Ok(id);
        }
        if let Some((_, id)) = self.learnt.composites.iter().find(|(known, _)| **known == *text) {
            return Ok(*id);
        }
        let id = match self.stored(&key::composite_name(text))? {
            Some(id) => CompositeId(id),
            None => CompositeId(self.next()?),
        };
        self.learnt.composites.push((text.into(), id));
        Ok(id)
    }

    fn shape(&mut self, paths: &[PathId]) -> Result<ShapeId> {
        if let Some(id) = self.tree.shape(paths) {
            return Ok(id);
        }
        self.last()?;
        let mut known = match self.learnt.shapes.take() {
            Some(shapes) => shapes,
            None => shapes::all(&*self.home.store.snapshot(self.home.shard, ReadAt::Latest)?)?,
        };
        let id = match known.get(paths) {
            Some(id) => *id,
            None if known.len() >= limits::INDEX_SHAPES_MAX => ShapeId::ANY,
            None => {
                let id = ShapeId(self.next()?);
                known.insert(paths.into(), id);
                id
            }
        };
        self.learnt.shapes = Some(known);
        Ok(id)
    }
}
