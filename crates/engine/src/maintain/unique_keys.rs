//! The unique keys that a transaction has claimed and freed. They are looked at after each of its
//! changes, in every shard and with all that follows from the change, so that the operation that
//! breaks a unique key is the one that is refused; the commit checks once more against writers
//! outside.

use std::collections::{HashMap, HashSet};

use orrery_storage::Space;
use orrery_storage::key::{self, Row};
use orrery_types::{Error, Result, ShardId, Value};

use crate::Container;
use crate::item::address::ItemKey;
use crate::partition::PhysicalPartition;
use crate::transaction::commit::{
    BeforeImage, Mutation, unique_holder, unique_keys_of, unique_violation,
};
use crate::transaction::write_buffer::{Draft, View};

type Holders = HashMap<Vec<u8>, Holder>;

/// Unique keys of one shard as the transaction leaves them.
#[derive(Debug, Default)]
pub(crate) struct UniqueClaims {
    keys: Holders,
    /// What the change that began last has replaced.
    replaced: Vec<(Vec<u8>, Option<Holder>)>,
    /// Hidden items that hold keys and may not be removed: they count like others.
    kept: Vec<(ShardId, Row)>,
    /// Why the work must run again whatever it returns.
    blocked: Option<Blocked>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Nobody,
    Own,
}

/// Why a claim could not be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// A hidden item holds the key: it must be removed first.
    ByHidden(Row),
    /// The holder changed while it was looked up.
    ByChange,
}

/// What must be done before a transaction runs again.
#[derive(Clone, Copy)]
pub(crate) enum Unblock<'e> {
    /// Remove a hidden item.
    Remove(&'e Container, &'e PhysicalPartition, Row),
    Nothing,
}

impl UniqueClaims {
    /// Without claims yet, where these hidden items hold keys and may not be removed.
    pub(crate) fn new(kept: Vec<(ShardId, Row)>) -> Self {
        Self { kept, ..Self::default() }
    }

    /// That of another shard of the same transaction.
    pub(crate) fn beside(&self) -> Self {
        Self::new(self.kept.clone())
    }

    pub(crate) fn begin(&mut self) {
        self.replaced.clear();
    }

    pub(crate) fn retract(&mut self) {
        for (key, holder) in self.replaced.drain(..) {
            match holder {
                Some(holder) => self.keys.insert(key, holder),
                None => self.keys.remove(&key),
            };
        }
    }
}

/// A unique key that an item of the current change shall have.
struct Wanted {
    key: Vec<u8>,
    ordinal: usize,
    item_key: Vec<u8>,
}

impl<'e> Draft<'e> {
    /// Frees the unique keys of what the current change replaces and claims those of what it
    /// writes; refuses one that another item has.
    pub(crate) fn claim_unique_keys(&mut self) -> Result<()> {
        self.claim_own()?;
        self.model.others.iter_mut().try_for_each(Draft::claim_own)
    }

    fn claim_own(&mut self) -> Result<()> {
        if self.container.definition.unique_keys.is_empty() || self.model.log.is_empty() {
            return Ok(());
        }
        let Some(mut claims) = self.claims.take() else { return Ok(()) };
        let claimed = self.claim_with(&mut claims);
        self.claims = Some(claims);
        claimed
    }

    fn claim_with(&mut self, claims: &mut UniqueClaims) -> Result<()> {
        let (mut changes, wanted) = self.moved_keys()?;
        for Wanted { key, ordinal, item_key } in wanted {
            let own = match changes.get(&key).or_else(|| claims.keys.get(&key)) {
                Some(Holder::Nobody) => false,
                Some(Holder::Own) => true,
                None => self.is_held(claims, &item_key, &key)?,
            };
            if own {
                let slot = self.slots.get(&item_key);
                let slot = slot.ok_or_else(|| Error::internal("a written item has a slot"))?;
                return Err(unique_violation(self.container, ordinal, slot));
            }
            changes.insert(key, Holder::Own);
        }
        for (key, holder) in changes {
            let before = claims.keys.insert(key.clone(), holder);
            claims.replaced.push((key, before));
        }
        Ok(())
    }

    /// What the current change does to unique keys: those that its items had, and those that they
    /// shall have.
    fn moved_keys(&self) -> Result<(Holders, Vec<Wanted>)> {
        let (mut freed, mut wanted) = (Holders::new(), Vec::new());
        let mut seen = HashSet::new();
        // The first entry of an item in the log is what it was before the change.
        for (item_key, undone) in &self.model.log {
            let Some(slot) = self.slots.get(item_key).filter(|_| seen.insert(item_key)) else {
                continue;
            };
            let keys = |item: &Value| unique_keys_of(self.container, &slot.at.partition_key, item);
            let old = match undone {
                Mutation::Put(after) => Some(&after.value),
                Mutation::Delete => None,
                Mutation::None => slot.before.as_ref().map(BeforeImage::value).transpose()?,
            };
            let old = old.map(keys).unwrap_or_default();
            freed.extend(old.into_iter().map(|key| (key, Holder::Nobody)));
            let new = slot.after().map(|after| keys(&after.value)).unwrap_or_default();
            let want = |(ordinal, key)| Wanted { key, ordinal, item_key: item_key.clone() };
            wanted.extend(new.into_iter().enumerate().map(want));
        }
        Ok((freed, wanted))
    }

    /// Whether an item that the draft has not written holds a key. Its holder enters the read set: a
    /// refusal rests on it.
    fn is_held(
        &mut self,
        claims: &mut UniqueClaims,
        claimer: &[u8],
        unique_key: &[u8],
    ) -> Result<bool> {
        let shard = self.partition.shard;
        let Some(holder) = self.stored(shard, Space::Index, unique_key)? else {
            if !matches!(self.view, View::Shard(_)) {
                // Should the change be undone, a refusal may still rest on it.
                self.lookups.push((Space::Index, unique_key.to_vec(), None));
            }
            return Ok(false);
        };
        let row = unique_holder(&holder.bytes)?;
        if let Some(item_key) = self.stored(shard, Space::Items, &key::row(row))? {
            let partition_key = self.slots.get(claimer).map(|slot| slot.at.partition_key.clone());
            let partition_key = partition_key.unwrap_or_default();
            let key: Vec<u8> = item_key.bytes.into();
            let at = ItemKey { partition: self.partition, partition_key, key };
            self.load(&at)?;
            if let Some(before) = self.slots.get(&at.key).and_then(|slot| slot.before.as_ref())
                && unique_keys_of(self.container, &at.partition_key, before.value()?)
                    .iter()
                    .any(|held| held == unique_key)
            {
                if !self.is_hidden(&at.key, before) || claims.kept.contains(&(shard, row)) {
                    return Ok(true);
                }
                claims.blocked = Some(Blocked::ByHidden(row));
                return Err(Error::RetryWith);
            }
        }
        claims.blocked = Some(Blocked::ByChange);
        Err(Error::RetryWith)
    }

    /// What must be done before the work runs again, if it must.
    pub(crate) fn unblock(&self) -> Option<Unblock<'e>> {
        let drafts = std::iter::once(self).chain(&self.model.others);
        drafts.into_iter().find_map(|draft| match draft.claims.as_ref()?.blocked? {
            Blocked::ByHidden(row) => Some(Unblock::Remove(draft.container, draft.partition, row)),
            Blocked::ByChange => Some(Unblock::Nothing),
        })
    }
}
