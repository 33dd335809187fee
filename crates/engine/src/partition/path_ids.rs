//! Path ids in a merge: ids of paths, composite indexes and shapes. The child assigns new ids; an entry under a
//! parent's id is rewritten to the child's id of the same path.

use std::collections::HashMap;

use orrery_index::{shapes, stored_numbers};
use orrery_storage::key::{self, PathId, ROOT_PATH, ShapeId};
use orrery_storage::{Copied, Entry, Snapshot, Space};
use orrery_types::{Error, Result, limits};

use crate::error::storage;

/// A number with the key under which the child keeps it.
pub(super) type Given = (Vec<u8>, u32);

/// An index entry in the child.
pub(super) enum Translated {
    Entry(Copied),
    /// The number has not come yet.
    Unknown(Copied),
}

/// The numbers of both parents and of the child.
#[derive(Default)]
pub(super) struct PathIdMap {
    parents: [Known; 2],
    /// What the child has, by key.
    given: HashMap<Vec<u8>, u32>,
    shapes: usize,
    last: u32,
    /// Numbers that came before those of the paths that they are made of.
    early: Vec<(usize, Vec<u8>, u32)>,
    /// What the child has to keep and was not told yet.
    unwritten: Vec<Given>,
}

/// A parent's numbers, and the child's for each.
#[derive(Default)]
struct Known {
    paths: HashMap<u32, u32>,
    composites: HashMap<u32, u32>,
    shapes: HashMap<u32, u32>,
}

impl PathIdMap {
    /// Gives numbers to what the parents have. Comes first who has as many shapes as there may be:
    /// what they do not cover has no shape in the child either.
    pub(super) fn begin(parents: [&dyn Snapshot; 2]) -> Result<Self> {
        let shapes = shapes::all(parents[1]).map_err(storage)?.len();
        let order = if shapes >= limits::INDEX_SHAPES_MAX { [1, 0] } else { [0, 1] };
        let mut numbers = Self::default();
        for parent in order {
            numbers.learn_all(parent, parents[parent])?;
        }
        Ok(numbers)
    }

    fn learn_all(&mut self, parent: usize, snapshot: &dyn Snapshot) -> Result<()> {
        let mut bounds = key::index_names();
        loop {
            let scan =
                bounds.scan(Space::Meta, limits::COPY_CHUNK_ENTRIES, limits::COPY_CHUNK_BYTES);
            let entries = snapshot.scan(&scan).map_err(storage)?;
            let Some(last) = entries.last().map(|entry| entry.key.clone()) else { return Ok(()) };
            bounds = bounds.after(&last);
            for Entry { key, value } in entries {
                let entry = Copied { space: Space::Meta, key, value: Some(value) };
                let given = self.learn(parent, &entry)?.unwrap_or_default();
                self.unwritten.extend(given);
            }
        }
    }

    /// The last number that was given.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Whether every number has found its path.
    pub(super) fn is_finished(&self) -> bool {
        self.early.is_empty() && self.unwritten.is_empty()
    }

    /// Takes a number of a parent; `None` if the entry is none, else what the child has to keep.
    pub(super) fn learn(&mut self, parent: usize, entry: &Copied) -> Result<Option<Vec<Given>>> {
        if !key::is_index_name(&entry.key) {
            return Ok(None);
        }
        // Numbers are never taken back.
        let Some(value) = &entry.value else { return Ok(Some(vec![])) };
        let number = value.bytes[..].try_into().map(u32::from_be_bytes);
        let number = number.map_err(|_| corrupt())?;
        let given = self.translate(parent, &entry.key, number)?;
        if given.is_none() {
            self.early.push((parent, entry.key.clone(), number));
        }
        Ok(Some(given.unwrap_or_default()))
    }

    /// Tries once more what came too early.
    pub(super) fn finish(&mut self) -> Result<Vec<Given>> {
        let mut all = std::mem::take(&mut self.unwritten);
        loop {
            let early = std::mem::take(&mut self.early);
            let before = early.len();
            for (parent, key, number) in early {
                match self.translate(parent, &key, number)? {
                    Some(given) => all.extend(given),
                    None => self.early.push((parent, key, number)),
                }
            }
            if self.early.len() == before || self.early.is_empty() {
                return Ok(all);
            }
        }
    }

    /// What a name of a parent becomes; `None` if it is made of a path that has no number yet.
    fn translate(&mut self, parent: usize, key: &[u8], number: u32) -> Result<Option<Vec<Given>>> {
        if let Some((above, step)) = key::parse_path_node(key) {
            let Some(above) = self.path(parent, above) else { return Ok(None) };
            let (new, given) = self.give(key::path_node(above, step))?;
            self.parents[parent].paths.insert(number, new);
            return Ok(Some(given));
        }
        if let Some(paths) = key::parse_shape_name(key) {
            let paths: Option<Vec<PathId>> =
                paths.into_iter().map(|path| self.path(parent, path)).collect();
            let Some(mut paths) = paths else { return Ok(None) };
            paths.sort_unstable();
            let (new, given) = self.give_shape(&paths)?;
            self.parents[parent].shapes.insert(number, new);
            return Ok(Some(given));
        }
        let (new, given) = self.give(key.to_vec())?;
        self.parents[parent].composites.insert(number, new);
        Ok(Some(given))
    }

    fn path(&self, parent: usize, path: PathId) -> Option<PathId> {
        if path == ROOT_PATH {
            return Some(ROOT_PATH);
        }
        self.parents[parent].paths.get(&path.0).copied().map(PathId)
    }

    /// The child's number under a key, and the key if the number is new.
    fn give(&mut self, key: Vec<u8>) -> Result<(u32, Vec<Given>)> {
        if let Some(number) = self.given.get(&key) {
            return Ok((*number, vec![]));
        }
        self.last = self.last.checked_add(1).ok_or_else(corrupt)?;
        self.given.insert(key.clone(), self.last);
        Ok((self.last, vec![(key, self.last)]))
    }

    /// The same for a shape: beyond the last that there may be, all share one.
    fn give_shape(&mut self, paths: &[PathId]) -> Result<(u32, Vec<Given>)> {
        let key = key::shape_name(paths);
        if self.shapes >= limits::INDEX_SHAPES_MAX && !self.given.contains_key(&key) {
            return Ok((ShapeId::ANY.0, vec![]));
        }
        let (number, given) = self.give(key)?;
        self.shapes += given.len();
        Ok((number, given))
    }

    /// A term, composite key or shape as the child has it; other entries stay as they are.
    pub(super) fn index_entry(&self, parent: usize, mut entry: Copied) -> Result<Translated> {
        let Some((prefix, rest)) = key::split_index_key(&entry.key) else {
            return Ok(Translated::Entry(entry));
        };
        let known = &self.parents[parent];
        let prefix = match prefix {
            key::TermPrefix::Path(id) => {
                known.paths.get(&id.0).map(|id| key::TermPrefix::Path(PathId(*id)))
            }
            key::TermPrefix::Composite(id) => {
                let id = known.composites.get(&id.0);
                id.map(|id| key::TermPrefix::Composite(key::CompositeId(*id)))
            }
            key::TermPrefix::Shape(ShapeId::ANY) => {
                self.check_shapeless(parent)?;
                Some(key::TermPrefix::Shape(ShapeId::ANY))
            }
            key::TermPrefix::Shape(id) => {
                known.shapes.get(&id.0).map(|id| key::TermPrefix::Shape(ShapeId(*id)))
            }
        };
        let Some(prefix) = prefix else { return Ok(Translated::Unknown(entry)) };
        let mut key = Vec::with_capacity(entry.key.len());
        prefix.write(&mut key);
        key.extend_from_slice(rest);
        if let (key::TermPrefix::Shape(id), Some(value)) = (prefix, &mut entry.value) {
            value.bytes = self.numbers(parent, id, &value.bytes)?.into();
        }
        entry.key = key;
        Ok(Translated::Entry(entry))
    }

    /// The numbers beside a shape. A shape that has its number has paths that have theirs.
    fn numbers(&self, parent: usize, shape: ShapeId, value: &[u8]) -> Result<Vec<u8>> {
        if shape == ShapeId::ANY {
            return Ok(Vec::new());
        }
        let renumbered = stored_numbers::renumber(value, |path| self.path(parent, path));
        renumbered.map_err(storage)?.ok_or_else(corrupt)
    }

    /// An item has no shape of its own because it has too many paths, which is so in the child too,
    /// or because its parent had too many shapes; then the child must have no others.
    fn check_shapeless(&self, parent: usize) -> Result<()> {
        let own = self.parents[parent].shapes.values().filter(|id| **id != ShapeId::ANY.0).count();
        let full = self.parents[parent].shapes.len() >= limits::INDEX_SHAPES_MAX;
        if full && own < self.shapes { Err(too_many_shapes()) } else { Ok(()) }
    }
}

fn too_many_shapes() -> Error {
    Error::invalid(
        "The ranges cannot be merged: their items have too many different sets of properties to be \
         told apart in one index.",
    )
}

fn corrupt() -> Error {
    Error::internal("the numbers of paths of a shard that is being merged are corrupt")
}

#[cfg(test)]
mod tests {
    use orrery_storage::Value;
    use orrery_storage::key::PathStep;
    use orrery_types::Lsn;

    use super::*;

    fn name(key: Vec<u8>, number: u32) -> Copied {
        let value = Value { version: Lsn(1), bytes: number.to_be_bytes().to_vec().into() };
        Copied { space: Space::Meta, key, value: Some(value) }
    }

    #[test]
    fn one_path_has_one_number_whatever_its_parents_called_it() {
        let mut numbers = PathIdMap::default();
        let property =
            |parent: u32, name: &str| key::path_node(PathId(parent), PathStep::Property(name));
        numbers.learn(0, &name(property(0, "a"), 1)).expect("a number");
        numbers.learn(0, &name(property(1, "b"), 2)).expect("a number");
        // The second parent's `a` is number 9, and its `a.b` comes before it.
        let early = numbers.learn(1, &name(property(9, "b"), 3)).expect("a number");
        assert_eq!(early, Some(vec![]));
        assert!(!numbers.is_finished());
        let known = numbers.learn(1, &name(property(0, "a"), 9)).expect("a number");
        assert_eq!(known, Some(vec![]), "the child has it already");
        assert_eq!(numbers.finish().expect("it finishes"), vec![]);
        assert!(numbers.is_finished());
        assert_eq!(numbers.last(), 2);
        let shape = numbers.learn(1, &name(key::shape_name(&[PathId(3), PathId(9)]), 4));
        let expected = vec![(key::shape_name(&[PathId(1), PathId(2)]), 3)];
        assert_eq!(shape.expect("a shape"), Some(expected));
        let term = |path: u32| Copied {
            space: Space::Index,
            key: key::term(PathId(path), &orrery_types::Value::Null, key::Row(5)),
            value: None,
        };
        let translated = |entry| match numbers.index_entry(1, entry).expect("an entry") {
            Translated::Entry(entry) => Some(entry),
            Translated::Unknown(_) => None,
        };
        assert_eq!(translated(term(3)), Some(term(2)));
        assert_eq!(translated(term(77)), None);
        let shape = |shape: u32, kept: &[(u32, f64)]| {
            let mut bytes = Vec::new();
            let kept = kept.iter().map(|(path, number)| (PathId(*path), *number));
            orrery_index::stored_numbers::write(kept, &mut bytes);
            let key = [key::shapes_of(ShapeId(shape)).from, key::row(key::Row(5))[1..].to_vec()];
            let value = Some(Value { version: Lsn(0), bytes: bytes.into() });
            Copied { space: Space::Index, key: key.concat(), value }
        };
        let child = shape(3, &[(1, 9.5), (2, 3.5)]);
        assert_eq!(translated(shape(4, &[(3, 3.5), (9, 9.5)])), Some(child));
    }
}
