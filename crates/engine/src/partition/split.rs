//! Which child of a split an entry of the parent goes to. An item and all that is written beside it
//! go to one child, by the effective key; what is about the shard as a whole goes to both, and
//! the counter of rows to neither, since children number their own.

use orrery_storage::key::{self, Row};
use orrery_storage::version::Version;
use orrery_storage::{Copied, Space};
use orrery_types::{EffectiveKey, Error, Result};

use super::copy::{Carrier, FindRow, Outbox};
use super::row_sides::RowSides;
use crate::background::erasure::keys_of_stored;
use crate::partition::PhysicalPartition;

/// A split on its way.
pub(super) struct Divide {
    /// Where the second child begins.
    at: EffectiveKey,
    rows: RowSides,
}

/// Where an entry goes.
enum To {
    Child(usize),
    All,
    None,
}

impl Divide {
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

    fn items(&mut self, entry: &Copied) -> Result<To> {
        let Some(row) = key::parse_row(&entry.key) else {
            return self.side_of_item(&entry.key).map(To::Child);
        };
        let Some(value) = &entry.value else { return Ok(To::All) };
        let side = self.side_of_item(&value.bytes)?;
        self.rows.insert(row, side);
        Ok(To::Child(side))
    }

    fn index(&mut self, entry: &Copied, find_row: FindRow<'_>) -> Result<To> {
        if let Some(target) = key::item_beside(&entry.key) {
            return self.side_of_item(&target).map(To::Child);
        }
        if let Some(effective) = key::parse_unique(&entry.key) {
            return Ok(To::Child(self.side(&effective)));
        }
        let row = key::index_row(&entry.key).ok_or_else(|| corrupt("an index key"))?;
        if let Some(side) = self.rows.get(row) {
            return Ok(To::Child(side));
        }
        if entry.value.is_none() {
            return Ok(To::All);
        }
        self.unmet(row, find_row)
    }

    /// The side of a row that has not come by itself: its item has just been written, or is gone
    /// again, and then so is the entry in a moment.
    fn unmet(&mut self, row: Row, find_row: FindRow<'_>) -> Result<To> {
        let Some(item_key) = find_row(row)? else { return Ok(To::None) };
        let side = self.side_of_item(&item_key)?;
        self.rows.insert(row, side);
        Ok(To::Child(side))
    }

    fn feed(&self, entry: &Copied) -> Result<To> {
        let Some(value) = &entry.value else { return Ok(To::All) };
        if key::parse_version(&entry.key).is_some() {
            let version = Version::decode(&value.bytes).map_err(crate::error::storage)?;
            return self.side_of_item(version.item_key).map(To::Child);
        }
        self.side_of_item(&value.bytes).map(To::Child)
    }

    fn meta(&self, entry: &Copied) -> Result<To> {
        if let Some(name) = key::parse_erasure(&entry.key) {
            let Some(value) = &entry.value else { return Ok(To::All) };
            if let Some(keys) = keys_of_stored(&value.bytes) {
                return Ok(match (keys.min >= self.at, keys.max <= self.at) {
                    (true, _) => To::Child(1),
                    (_, true) => To::Child(0),
                    (false, false) => To::All,
                });
            }
            let effective = key::parse_effective(name).ok_or_else(|| corrupt("an erasure"))?;
            return Ok(To::Child(self.side(&effective)));
        }
        if let Some(item_key) = key::item_beside(&entry.key) {
            return self.side_of_item(&item_key).map(To::Child);
        }
        if let Some(item_key) = key::parse_guard(&entry.key) {
            return self.side_of_item(item_key).map(To::Child);
        }
        Ok(if entry.key == key::rows_reserved() { To::None } else { To::All })
    }
}

impl Carrier for Divide {
    const KEEPS_ORDER: bool = true;

    fn carry(
        &mut self,
        _: usize,
        entry: Copied,
        find_row: FindRow<'_>,
        out: &mut Outbox,
    ) -> Result<()> {
        let to = match entry.space {
            Space::Items => self.items(&entry)?,
            Space::Index => self.index(&entry, find_row)?,
            Space::Feed => self.feed(&entry)?,
            Space::Ttl => match &entry.value {
                Some(value) => To::Child(self.side_of_item(&value.bytes)?),
                None => To::All,
            },
            Space::Meta => self.meta(&entry)?,
        };
        match to {
            To::Child(child) => out.push(child, entry),
            To::All => out.push_to_all(&entry),
            To::None => {}
        }
        Ok(())
    }
}

fn corrupt(what: &str) -> Error {
    Error::internal(format!("{what} of a shard that is being split is corrupt"))
}
