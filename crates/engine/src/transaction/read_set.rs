//! What a draft has read. Everything in its read set becomes a precondition of its commit. A refusal
//! has no commit: if it rests on reads of several instants, the read set is validated alone before
//! the refusal is returned, and if it does not hold, the work runs again.

use orrery_storage::key::{self, Row};
use orrery_storage::{Check, Commit, Expect, Part, Space, StorageError};
use orrery_types::{Error, Result};

use crate::Engine;
use crate::error::storage;
use crate::transaction::write_buffer::{Draft, View};

impl Draft<'_> {
    /// Whether all that was read is of one instant, so that a refusal needs no validation.
    pub(crate) fn is_of_one_instant(&self) -> bool {
        match self.view {
            View::Database(_) => true,
            View::Shard(_) => self.model.others.iter().all(|other| !other.has_read()),
            // What a model looks at beside items has no version of its own.
            View::Latest => {
                self.model.scope.is_none() && self.slots.len() + self.lookups.len() <= 1
            }
        }
    }

    fn has_read(&self) -> bool {
        !self.slots.is_empty() || self.has_read_beside()
    }

    /// Whether it has read something that is no item.
    pub(crate) fn has_read_beside(&self) -> bool {
        !self.lookups.is_empty()
            || self.range.is_some()
            || !self.model.guards.is_empty()
            || self.model.kept.has_read()
    }

    /// Adds the preconditions of what was read beside items.
    pub(crate) fn check_beside(&self, checks: &mut Vec<Check>) {
        let key_check = |space, key: &[u8], expect| Check::Key { space, key: key.to_vec(), expect };
        let version = |lsn: &Option<_>| lsn.map_or(Expect::Absent, Expect::Version);
        let lookups = self.lookups.iter();
        checks.extend(lookups.map(|(space, key, lsn)| key_check(*space, key, version(lsn))));
        let guards = self.model.guards.iter();
        checks.extend(guards.map(|(key, lsn)| key_check(Space::Meta, key, version(lsn))));
        self.model.kept.check(checks);
        let range = self.range.iter();
        checks.extend(range.map(|&(stripe, since)| Check::StripeUnchanged { stripe, since }));
    }

    /// The read set as parts without writes.
    fn read_set(&self) -> Vec<Part> {
        let drafts = std::iter::once(self).chain(&self.model.others);
        let part = |draft: &Draft<'_>| {
            let mut part = Part::new(draft.partition.shard, draft.partition.epoch);
            part.checks.extend(draft.slots.values().map(|slot| slot.check()));
            draft.check_beside(&mut part.checks);
            part
        };
        drafts.filter(|draft| draft.has_read()).map(part).collect()
    }

    /// Finds the key of an item by its row. The row entry enters the read set: as long as it does not
    /// change, the item has that key.
    pub(crate) fn key_of_row(&mut self, row: Row) -> Result<Vec<u8>> {
        let entry = key::row(row).to_vec();
        let found = self.stored(self.partition.shard, Space::Items, &entry)?;
        self.lookups.push((Space::Items, entry, found.as_ref().map(|value| value.version)));
        found.map(|value| value.bytes.into()).ok_or(Error::NotFound)
    }
}

impl Engine {
    /// Whether everything that a draft has read is still so, all of it at one instant; `held` is read
    /// beside it.
    pub(crate) fn read_set_holds(&self, draft: &Draft<'_>, held: Option<Part>) -> Result<bool> {
        let mut parts = draft.read_set();
        if let Some(held) = held {
            match parts.iter_mut().find(|part| part.shard == held.shard) {
                Some(part) => part.checks.extend(held.checks),
                None => parts.push(held),
            }
        }
        match self.store.commit(Commit { parts }) {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict { .. }) => Ok(false),
            Err(error) => Err(storage(error)),
        }
    }

    /// Whether a refusal may be returned; else the work must run again.
    pub(crate) fn justifies(&self, draft: &Draft<'_>, refusal: &Error) -> Result<bool> {
        if refusal.retryable() || draft.is_of_one_instant() {
            return Ok(true);
        }
        self.read_set_holds(draft, None)
    }
}
