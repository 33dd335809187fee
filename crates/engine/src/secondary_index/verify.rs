//! Whether an index agrees with its source: each source item whose changes have been applied has one item in the
//! index, which is what the definition makes of it; and the index has no others. All of it is read from
//! snapshots of one instant, so writers are not held up, and what is still to be applied is no fault.

use orrery_storage::key::{self, Bounds};
use orrery_storage::{Entry, Scan, Snapshot, Space, Value as Stored};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, limits};

use super::SecondaryIndexes;
use super::item::{index_item, index_item_id};
use super::position::StoredPosition;
use crate::catalog::resource::Stamp;
use crate::error::storage;
use crate::insight::verify::{Fault, FaultKind};
use crate::item::address::ItemKey;
use crate::item::image::BeforeImage;
use crate::partition::PhysicalPartition;
use crate::transaction::reads::DatabaseSnapshot;
use crate::{Container, Database};

/// An index that is compared with its source.
struct IndexAudit<'v> {
    index: &'v Container,
    source: &'v Container,
    snapshot: &'v DatabaseSnapshot<'v>,
    faults: Vec<Fault>,
    places: u64,
}

impl SecondaryIndexes<'_> {
    /// What is wrong with an index, as a snapshot of its database has it.
    pub(crate) fn verify(
        database: &Database,
        snapshot: &DatabaseSnapshot<'_>,
        index: &Container,
    ) -> Result<Vec<Fault>> {
        let definition = index.definition.secondary_index.as_ref();
        let rid = definition.and_then(|definition| definition.source_rid);
        let source = rid.and_then(|rid| database.container(&Address::Rid(rid)));
        let Some(source) = source else {
            let at = format!("the index '{}' has no source", index.id);
            return Ok(vec![Fault { partition: 0, kind: FaultKind::IndexSourceMissing, at }]);
        };
        let mut audit = IndexAudit { index, source, snapshot, faults: vec![], places: 0 };
        for partition in &source.partitions {
            audit.items(partition)?;
            audit.places(partition)?;
        }
        audit.count()?;
        Ok(audit.faults)
    }
}

impl IndexAudit<'_> {
    /// A fault at a key of the source.
    fn fault(&mut self, partition: &PhysicalPartition, kind: FaultKind, key: &[u8]) {
        let at = format!("{} in '{}'", key.escape_ascii(), self.source.id);
        self.faults.push(Fault { partition: partition.id, kind, at });
    }

    /// Looks at the source items of a partition.
    fn items(&mut self, partition: &PhysicalPartition) -> Result<()> {
        let snapshot = self.snapshot.shard(partition.shard)?;
        let stored = StoredPosition::read(snapshot, self.index.number, &partition.range)?;
        let mut bounds = key::items_in(&partition.range);
        while let Some(entries) = page(snapshot, Space::Items, &mut bounds, false)? {
            for entry in entries {
                let item = key::parse_item(&entry.key).ok_or_else(corrupt)?;
                let is_applied = entry.value.version <= stored.position.lsn_at(&item.effective)
                    && !self.is_noted(snapshot, &entry.key)?;
                self.item(partition, snapshot, &entry, is_applied)?;
            }
        }
        Ok(())
    }

    /// Whether an item is still to be brought over, or cannot be.
    fn is_noted(&self, snapshot: &dyn Snapshot, item: &[u8]) -> Result<bool> {
        let number = self.index.number;
        for key in [key::secondary_deletion(number, item), key::secondary_held(number, item)] {
            if snapshot.get(Space::Meta, &key).map_err(storage)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn item(
        &mut self,
        partition: &PhysicalPartition,
        snapshot: &dyn Snapshot,
        entry: &Entry,
        is_applied: bool,
    ) -> Result<()> {
        let place = key::secondary_place(self.index.number, &entry.key);
        let place = snapshot.get(Space::Index, &place).map_err(storage)?;
        let Some(place) = place else {
            if is_applied {
                self.fault(partition, FaultKind::IndexItemMissing, &entry.key);
            }
            return Ok(());
        };
        let Some(found) = self.item_at(&place.bytes)? else {
            self.fault(partition, FaultKind::IndexItemMissing, &entry.key);
            return Ok(());
        };
        if is_applied && !self.is_true(entry, &place.bytes, found)? {
            self.fault(partition, FaultKind::IndexItemUntrue, &entry.key);
        }
        Ok(())
    }

    /// An item of the index.
    fn item_at(&self, place: &[u8]) -> Result<Option<Stored>> {
        let item = key::parse_item(place).ok_or_else(corrupt)?;
        let partition = self.index.partition_of(&item.effective)?;
        self.snapshot.shard(partition.shard)?.get(Space::Items, place).map_err(storage)
    }

    /// Whether an item of the index is what its source item makes it.
    fn is_true(&self, source: &Entry, place: &[u8], found: Stored) -> Result<bool> {
        let body = index_item(self.index, &source.key, &source.value.bytes)?;
        let at = ItemKey::of(self.index, body.key.clone(), &body.id)?;
        let found = BeforeImage::read(found)?;
        let stamp = Stamp { etag: found.header.etag, ts: found.header.ts_s };
        let text = body.to_text(self.index, found.header.row, stamp)?;
        Ok(at.key == place && text.as_bytes() == &found.text()[..])
    }

    /// Looks at the places that a partition of the source has. The id of an item of the index follows from its
    /// source item, so no two places lead to one.
    fn places(&mut self, partition: &PhysicalPartition) -> Result<()> {
        let snapshot = self.snapshot.shard(partition.shard)?;
        let mut bounds = key::secondary_places(self.index.number);
        while let Some(entries) = page(snapshot, Space::Index, &mut bounds, false)? {
            self.places += entries.len() as u64;
            for entry in entries {
                let (_, item) = key::parse_secondary(&entry.key).ok_or_else(corrupt)?;
                let is_own = key::parse_item(&entry.value.bytes)
                    .is_some_and(|place| place.id == index_item_id(item));
                let source = snapshot.get(Space::Items, item).map_err(storage)?;
                if !is_own || (source.is_none() && !self.is_noted(snapshot, item)?) {
                    self.fault(partition, FaultKind::IndexPlaceOrphan, item);
                }
            }
        }
        Ok(())
    }

    /// Every place leads to an item of its own, so there are others if there are more items than places.
    fn count(&mut self) -> Result<()> {
        let mut items = 0;
        for partition in &self.index.partitions {
            let snapshot = self.snapshot.shard(partition.shard)?;
            let mut bounds = key::items_in(&partition.range);
            while let Some(entries) = page(snapshot, Space::Items, &mut bounds, true)? {
                items += entries.len() as u64;
            }
        }
        if items != self.places {
            let places = self.places;
            let at = format!("{items} items of '{}' for {places} source items", self.index.id);
            self.faults.push(Fault { partition: 0, kind: FaultKind::IndexItemOrphan, at });
        }
        Ok(())
    }
}

/// The next entries of a range, which moves behind them; `None` at its end.
fn page(
    snapshot: &dyn Snapshot,
    space: Space,
    bounds: &mut Bounds,
    keys_only: bool,
) -> Result<Option<Vec<Entry>>> {
    let scan = bounds.scan(space, limits::PAGE_ITEMS_MAX, limits::PAGE_SIZE_BYTES_MAX);
    let entries = snapshot.scan(&Scan { keys_only, ..scan }).map_err(storage)?;
    let Some(last) = entries.last() else { return Ok(None) };
    *bounds = bounds.clone().after(&last.key);
    Ok(Some(entries))
}

fn corrupt() -> Error {
    Error::internal("what a global secondary index keeps beside its source is corrupt")
}
