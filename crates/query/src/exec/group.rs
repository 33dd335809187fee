//! GROUP BY and aggregates.

use std::collections::HashMap;
use std::sync::Arc;

use orrery_types::Value;

use crate::bound::{Grouping, Node};
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::functions::aggregate::Accumulator;
use crate::memory::allocated;
use crate::sort_value::SortValue;

/// Groups in the order of their key, if it is one path: that is how an index gives them. Otherwise in order
/// of first sight. Undefined is a key like any other.
pub(super) struct Groups<'s> {
    grouping: &'s Grouping,
    places: HashMap<Arc<[Value]>, usize>,
    list: Vec<Group>,
}

/// The keys of a group, and what is known of its rows.
struct Group {
    keys: Arc<[Value]>,
    accumulators: Box<[Accumulator]>,
}

impl Group {
    /// Memory beside what keys and accumulators hold: the map and the list grow by doubling.
    fn beside_bytes(&self) -> usize {
        2 * size_of::<(Arc<[Value]>, usize)>()
            + 2 * size_of::<Self>()
            + allocated(16)
            + allocated(size_of_val(&*self.accumulators))
    }
}

impl<'s> Groups<'s> {
    pub(super) fn new(grouping: &'s Grouping) -> Self {
        let mut groups = Self { grouping, places: HashMap::new(), list: Vec::new() };
        if grouping.always_one {
            groups.place_of(Vec::new());
        }
        groups
    }

    fn place_of(&mut self, keys: Vec<Value>) -> usize {
        if let Some(place) = self.places.get(keys.as_slice()) {
            return *place;
        }
        let place = self.list.len();
        let accumulators =
            self.grouping.aggregates.iter().map(|(_, kind, _)| Accumulator::new(*kind));
        let (keys, accumulators) = (Arc::<[Value]>::from(keys), accumulators.collect());
        self.list.push(Group { keys: keys.clone(), accumulators });
        self.places.insert(keys, place);
        place
    }

    pub(super) fn add(
        &mut self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
    ) -> Result<(), QueryError> {
        let mut keys = Vec::with_capacity(self.grouping.keys.len());
        for (_, node) in &self.grouping.keys {
            keys.push(evaluator.eval(node, env)?);
        }
        let before = self.list.len();
        let place = self.place_of(keys);
        let group = &mut self.list[place];
        if place == before {
            evaluator.memory.keep(group.beside_bytes())?;
            group.keys.iter().try_for_each(|key| evaluator.keep(key, 0))?;
        }
        for ((_, _, argument), accumulator) in
            self.grouping.aggregates.iter().zip(&mut group.accumulators)
        {
            let value = evaluator.eval(argument, env)?;
            let left = evaluator.memory.left();
            evaluator.memory.keep(accumulator.add(value, left))?;
        }
        Ok(())
    }

    /// Calls back for each group, its keys and aggregates in their slots.
    pub(super) fn finish(
        mut self,
        env: &mut Env,
        f: &mut dyn FnMut(&mut Env) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        drop(self.places);
        if let [(_, Node::Path(..))] = &*self.grouping.keys {
            self.list.sort_by_cached_key(|group| group.keys.first().map(SortValue::of));
        }
        for Group { keys, accumulators } in self.list {
            for ((slot, _), key) in self.grouping.keys.iter().zip(keys.iter()) {
                env[*slot] = key.clone();
            }
            for ((slot, ..), accumulator) in
                self.grouping.aggregates.iter().zip(accumulators.into_vec())
            {
                env[*slot] = accumulator.finish();
            }
            f(env)?;
        }
        Ok(())
    }
}
