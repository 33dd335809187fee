//! GROUP BY and aggregates.

use std::collections::HashMap;

use orrery_types::Value;

use crate::bound::Grouping;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::functions::aggregate::Accumulator;

/// Groups in order of first sight. Undefined is a key like any other.
pub(super) struct Groups<'s> {
    grouping: &'s Grouping,
    places: HashMap<Vec<Value>, usize>,
    list: Vec<(Vec<Value>, Vec<Accumulator>)>,
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
        if let Some(place) = self.places.get(&keys) {
            return *place;
        }
        let place = self.list.len();
        let accumulators =
            self.grouping.aggregates.iter().map(|(_, kind, _)| Accumulator::new(*kind));
        self.list.push((keys.clone(), accumulators.collect()));
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
        if self.list.len() > before {
            for key in &self.list[place].0 {
                evaluator.keep(key)?;
            }
        }
        let accumulators = &mut self.list[place].1;
        for ((_, _, argument), accumulator) in self.grouping.aggregates.iter().zip(accumulators) {
            let value = evaluator.eval(argument, env)?;
            if accumulator.add(value.clone()) {
                evaluator.keep(&value)?;
            }
        }
        Ok(())
    }

    /// Calls back for each group, its keys and aggregates in their slots.
    pub(super) fn finish(
        self,
        env: &mut Env,
        f: &mut dyn FnMut(&mut Env) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        for (keys, accumulators) in self.list {
            for ((slot, _), key) in self.grouping.keys.iter().zip(keys) {
                env[*slot] = key;
            }
            for ((slot, ..), accumulator) in self.grouping.aggregates.iter().zip(accumulators) {
                env[*slot] = accumulator.finish();
            }
            f(env)?;
        }
        Ok(())
    }
}
