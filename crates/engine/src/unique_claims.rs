//! The unique keys that a transaction has claimed and freed. Each of its writes is checked when it
//! is made, so that the one that breaks a unique key is the one that is refused; the commit checks
//! once more against writers outside.

use std::collections::HashMap;

use orrery_storage::Space;
use orrery_storage::key::{self, Row};
use orrery_types::{Error, Result};

use crate::change::{After, Before, unique_holder, unique_keys_of};
use crate::draft::{Admission, Draft, View};
use crate::items::Located;
use crate::storage_error::storage;

/// Unique keys as the transaction leaves them.
#[derive(Debug, Default)]
pub(crate) struct UniqueClaims {
    keys: HashMap<Vec<u8>, Holder>,
    /// What the change that began last has replaced.
    replaced: Vec<(Vec<u8>, Option<Holder>)>,
    /// A hidden item holds a key that was claimed: it must be removed, and the work run again.
    pub(crate) blocked_by_hidden: Option<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Nobody,
    Own,
}

impl Admission for UniqueClaims {
    /// Frees the keys of what a write replaces and claims those of what it writes; refuses one
    /// that another item has.
    fn admit(
        &mut self,
        draft: &Draft<'_>,
        places: &[&Located<'_>],
        after: Option<&After>,
    ) -> Result<()> {
        let container = draft.container;
        if container.definition.unique_keys.is_empty() {
            return Ok(());
        }
        let mut changes = HashMap::new();
        for at in places {
            let Some(slot) = draft.slots.get(&at.key) else { continue };
            let image = if slot.is_written() {
                slot.after().map(|after| &after.value)
            } else {
                slot.before.as_ref().map(Before::value).transpose()?
            };
            let Some(image) = image else { continue };
            let keys = unique_keys_of(container, &at.partition_key, image);
            changes.extend(keys.into_iter().map(|key| (key, Holder::Nobody)));
        }
        if let (Some(after), Some(at)) = (after, places.last()) {
            for key in unique_keys_of(container, &at.partition_key, &after.value) {
                match changes.get(&key).or_else(|| self.keys.get(&key)) {
                    Some(Holder::Nobody) => {}
                    Some(Holder::Own) => return Err(Error::UniqueKeyViolation),
                    None => self.require_free(draft, &key)?,
                }
                changes.insert(key, Holder::Own);
            }
        }
        for (key, holder) in changes {
            let before = self.keys.insert(key.clone(), holder);
            self.replaced.push((key, before));
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.replaced.clear();
    }

    fn retract(&mut self) {
        for (key, holder) in self.replaced.drain(..) {
            match holder {
                Some(holder) => self.keys.insert(key, holder),
                None => self.keys.remove(&key),
            };
        }
    }
}

impl UniqueClaims {
    /// A key that the transaction has not touched must not be in the snapshot.
    fn require_free(&mut self, draft: &Draft<'_>, unique_key: &[u8]) -> Result<()> {
        let View::Snapshot(snapshot) = &draft.view else { return Ok(()) };
        let get = |space, key: &[u8]| snapshot.get(space, key).map_err(storage);
        let Some(holder) = get(Space::Index, unique_key)? else { return Ok(()) };
        let row = unique_holder(&holder.bytes)?;
        if let Some(item_key) = get(Space::Items, &key::row(row))?
            && let Some(stored) = get(Space::Items, &item_key.bytes)?
            && let before = Before::read(stored)?
            && draft.is_hidden(&item_key.bytes, &before)
        {
            self.blocked_by_hidden = Some(row);
            return Err(Error::RetryWith);
        }
        Err(Error::UniqueKeyViolation)
    }
}
