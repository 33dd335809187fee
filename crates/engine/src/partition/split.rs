//! Routing of entries in a split. An item and everything derived from it go to one child, by the effective
//! partition key; metadata of the whole shard goes to both, and the row counter to neither, since the
//! children assign their own rows.

use orrery_storage::key::{self, Row};
use orrery_storage::version::Version;
use orrery_storage::{Copied, Space};
use orrery_types::{EffectiveKey, Error, Result};

use super::copy::{EntryRouter, FindRow, RoutedEntries};
use super::row_sides::RowSides;
use crate::background::erasure::keys_of_stored;
use crate::partition::PhysicalPartition;

/// Routes the entries of a parent to its two children.
pub(super) struct SplitRouter {
    /// Where the second child begins.
    at: EffectiveKey,
    rows: RowSides,
}

/// Destination of an entry.
enum Destination {
    Child(usize),
    All,
    None,
}

impl SplitRouter {
    pub(super) fn new(children: &[PhysicalPartition]) -> Self {
        let at = children.last().map(|child| child.range.min.clone()).unwrap_or_default();
        Self { at, rows: RowSides::default() }
    }

    fn side(&self, effective: &EffectiveKey) -> usize {
        usize::from(*effective >= self.at)
    }

    fn side_of_item(&self, item_key: &[u8]) -> Result<usize> {
        let item = key::parse_item(item_key).ok_or_else(|| corrupt("an item key"))?;
        Ok(self.side(&item.effective))
    }

    fn items(&mut self, entry: &Copied) -> Result<Destination> {
        let Some(row) = key::parse_row(&entry.key) else {
            return self.side_of_item(&entry.key).map(Destination::Child);
        };
        let Some(value) = &entry.value else { return Ok(Destination::All) };
        let side = self.side_of_item(&value.bytes)?;
        self.rows.insert(row, side);
        Ok(Destination::Child(side))
    }

    fn index(&mut self, entry: &Copied, find_row: FindRow<'_>) -> Result<Destination> {
        if let Some(target) = key::item_beside(&entry.key) {
            return self.side_of_item(&target).map(Destination::Child);
        }
        if let Some(effective) = key::parse_unique(&entry.key) {
            return Ok(Destination::Child(self.side(&effective)));
        }
        let row = key::index_row(&entry.key).ok_or_else(|| corrupt("an index key"))?;
        if let Some(side) = self.rows.get(row) {
            return Ok(Destination::Child(side));
        }
        if entry.value.is_none() {
            return Ok(Destination::All);
        }
        self.unseen_row(row, find_row)
    }

    /// The child of a row whose directory entry was not copied yet: its item has just been written, or was
    /// deleted again, and then the journal deletes this entry too.
    fn unseen_row(&mut self, row: Row, find_row: FindRow<'_>) -> Result<Destination> {
        let Some(item_key) = find_row(row)? else { return Ok(Destination::None) };
        let side = self.side_of_item(&item_key)?;
        self.rows.insert(row, side);
        Ok(Destination::Child(side))
    }

    fn feed(&self, entry: &Copied) -> Result<Destination> {
        let Some(value) = &entry.value else { return Ok(Destination::All) };
        if key::parse_version(&entry.key).is_some() {
            let version = Version::decode(&value.bytes).map_err(crate::error::storage)?;
            return self.side_of_item(version.item_key).map(Destination::Child);
        }
        self.side_of_item(&value.bytes).map(Destination::Child)
    }

    fn meta(&self, entry: &Copied) -> Result<Destination> {
        if let Some(name) = key::parse_erasure(&entry.key) {
            let Some(value) = &entry.value else { return Ok(Destination::All) };
            if let Some(keys) = keys_of_stored(&value.bytes) {
                return Ok(match (keys.min >= self.at, keys.max <= self.at) {
                    (true, _) => Destination::Child(1),
                    (_, true) => Destination::Child(0),
                    (false, false) => Destination::All,
                });
            }
            let effective = key::parse_effective(name).ok_or_else(|| corrupt("an erasure"))?;
            return Ok(Destination::Child(self.side(&effective)));
        }
        if let Some(item_key) = key::item_beside(&entry.key) {
            return self.side_of_item(&item_key).map(Destination::Child);
        }
        if let Some(item_key) = key::parse_guard(&entry.key) {
            return self.side_of_item(item_key).map(Destination::Child);
        }
        Ok(if entry.key == key::rows_reserved() { Destination::None } else { Destination::All })
    }
}

impl EntryRouter for SplitRouter {
    const KEEPS_ORDER: bool = true;

    fn route(
        &mut self,
        _: usize,
        entry: Copied,
        find_row: FindRow<'_>,
        out: &mut RoutedEntries,
    ) -> Result<()> {
        let to = match entry.space {
            Space::Items => self.items(&entry)?,
            Space::Index => self.index(&entry, find_row)?,
            Space::Feed => self.feed(&entry)?,
            Space::Ttl => match &entry.value {
                Some(value) => Destination::Child(self.side_of_item(&value.bytes)?),
                None => Destination::All,
            },
            Space::Meta => self.meta(&entry)?,
        };
        match to {
            Destination::Child(child) => out.push(child, entry),
            Destination::All => out.push_to_all(&entry),
            Destination::None => {}
        }
        Ok(())
    }
}

fn corrupt(what: &str) -> Error {
    Error::internal(format!("{what} of a shard that is being split is corrupt"))
}
