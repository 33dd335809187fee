//! Lists of rows that the planner began to read when it asked how long they are. Whoever reads them
//! goes on where it stopped, instead of searching for them anew.

use std::cell::RefCell;

use orrery_index::postings::Postings;
use orrery_types::{Result, ShardId};

use super::Shard;
use crate::storage_error::storage;

/// Lists that are kept; each of them is an open cursor.
const KEPT_MAX: usize = 16;

/// Lists that were begun, by partition and term.
#[derive(Default)]
pub(crate) struct OpenLists<'s> {
    begun: RefCell<Vec<(ShardId, Postings<'s>)>>,
}

impl<'s> OpenLists<'s> {
    /// How many rows have a term, counted up to so many.
    pub(crate) fn count(&self, shard: &'s Shard<'_>, term: &[u8], most: usize) -> Result<usize> {
        let mut begun = self.begun.borrow_mut();
        let own = |(of, list): &&mut (ShardId, Postings<'s>)| {
            *of == shard.partition.shard && list.prefix() == term
        };
        if let Some((_, list)) = begun.iter_mut().find(own) {
            return list.count_up_to(most).map_err(storage);
        }
        let mut list = Postings::of(&*shard.snapshot, term.to_vec());
        let counted = list.count_up_to(most).map_err(storage)?;
        if begun.len() < KEPT_MAX {
            begun.push((shard.partition.shard, list));
        }
        Ok(counted)
    }

    /// The list of a term, from its first row on.
    pub(crate) fn take(&self, shard: &'s Shard<'_>, term: Vec<u8>) -> Postings<'s> {
        let mut begun = self.begun.borrow_mut();
        let own = |(of, list): &(ShardId, Postings<'s>)| {
            *of == shard.partition.shard && list.prefix() == term
        };
        match begun.iter().position(own) {
            Some(at) => begun.swap_remove(at).1,
            None => Postings::of(&*shard.snapshot, term),
        }
    }

    /// All of them, which are gone then.
    pub(crate) fn take_all(&self) -> Self {
        Self { begun: RefCell::new(self.begun.take()) }
    }
}
