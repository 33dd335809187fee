//! A look at everything a container holds: whether each item is whole and has all that is written
//! beside it, and whether anything is written beside an item that is not there. Tests call it after
//! every kind of failure; it reads only, and is meant for a store that nobody writes to and whose
//! background work is done.

mod terms;

use std::cell::RefCell;
use std::fmt;

use orrery_index::stored_ids::StoredIds;
use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::record::{self, Header};
use orrery_storage::version::Version;
use orrery_storage::{Entry, ReadAt, Snapshot, Space};
use orrery_types::ids::Address;
use orrery_types::{Lsn, PartitionKey, Result, Value, limits};

use crate::Container;
use crate::background::expiry_sweep::expiry;
use crate::catalog::resource::Stamp;
use crate::error::storage;
use crate::insight::Insight;
use crate::item::operation::item_rid;
use crate::maintain::unique_keys::unique_values;
use crate::partition::PhysicalPartition;
use crate::secondary_index::SecondaryIndexes;
use crate::transaction::reads::DatabaseSnapshot;
use terms::TermCount;

/// Something that is not as the write pipeline leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the physical partition.
    pub partition: u32,
    /// What is wrong.
    pub kind: FaultKind,
    /// The key where it shows, as printable text.
    pub at: String,
}

/// Kinds of faults. First those of an item, then those of what leads to no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The record does not decode, or its body is not JSON.
    ItemDamaged,
    /// The id, partition key or range of the item is not the one that its key says.
    ItemMisplaced,
    /// The system properties in the body are not those of the record.
    ItemMislabelled,
    /// The item's row is not there, or leads elsewhere.
    RowMissing,
    /// The feed does not name the item at its latest change.
    FeedMissing,
    /// A unique key of the item is not there, or belongs to another row.
    UniqueKeyMissing,
    /// An index term of the item is not there.
    TermMissing,
    /// What stands under an index term of the item is not what the item has.
    TermUntrue,
    /// The item expires, and no entry says when.
    ExpiryMissing,
    /// A row without its item.
    RowOrphan,
    /// A unique key without its item.
    UniqueKeyOrphan,
    /// An index term without its item.
    TermOrphan,
    /// A feed entry without its item.
    FeedOrphan,
    /// An expiry entry without its item. One with its item and another time is no fault.
    ExpiryOrphan,
    /// A version of an item, kept for the feed, that does not decode.
    VersionDamaged,
    /// A global secondary index has no item for a source item, or none where its place says.
    IndexItemMissing,
    /// An item of a global secondary index is not what its source item makes it.
    IndexItemUntrue,
    /// A global secondary index has items that no place leads to.
    IndexItemOrphan,
    /// The place of an item in a global secondary index leads elsewhere, or its source item is not there.
    IndexPlaceOrphan,
    /// A global secondary index without its source container.
    IndexSourceMissing,
    /// A key that no part of the engine writes.
    KeyUnknown,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}: {:?} at {}", self.partition, self.kind, self.at)
    }
}

impl Insight<'_> {
    /// Everything that is wrong with what a container holds; nothing, if all is well. Takes time in
    /// proportion to the data.
    pub fn verify(self, container: &Container) -> Result<Vec<Fault>> {
        let epochs = self.engine.epochs();
        epochs.retry_on_gone_shard(container, &mut |now| self.verify_in(now))
    }

    /// The same under one layout.
    fn verify_in(self, container: &Container) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        for partition in &container.partitions {
            let snapshot =
                self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let (snapshot, count) = (&*snapshot, TermCount::default());
            let ids = RefCell::new(StoredIds::new(snapshot));
            let mut check = Verifier { container, partition, snapshot, ids, count, faults };
            check.scan(Space::Items, Verifier::item_or_row)?;
            check.scan(Space::Index, Verifier::index_entry)?;
            check.terms_without_item()?;
            check.scan(Space::Feed, Verifier::feed_entry)?;
            check.scan(Space::Ttl, Verifier::expiry_entry)?;
            check.scan(Space::Meta, |verifier, entry| {
                verifier.meta_entry(entry);
                Ok(())
            })?;
            faults = check.faults;
        }
        if container.is_secondary_index() {
            let database = Address::Rid(container.database_rid());
            let database = self.engine.catalog.database(&database)?;
            let snapshot = DatabaseSnapshot::open(self.engine, &database)?;
            faults.extend(SecondaryIndexes::verify(&database, &snapshot, container)?);
        }
        Ok(faults)
    }
}

/// The check of one physical partition, on one snapshot.
struct Verifier<'v> {
    container: &'v Container,
    partition: &'v PhysicalPartition,
    snapshot: &'v dyn Snapshot,
    ids: RefCell<StoredIds<'v>>,
    count: TermCount,
    faults: Vec<Fault>,
}

/// A stored item, read.
struct Item {
    key: Vec<u8>,
    version: Lsn,
    header: Header,
    body: Value,
}

impl Item {
    fn stamp(&self) -> Stamp {
        Stamp { etag: self.header.etag, ts: self.header.ts_s }
    }
}

impl Verifier<'_> {
    fn fault(&mut self, kind: FaultKind, key: &[u8]) {
        let at = key.escape_ascii().to_string();
        self.faults.push(Fault { partition: self.partition.id, kind, at });
    }

    /// Runs `check` on every entry of a space.
    fn scan(
        &mut self,
        space: Space,
        check: impl Fn(&mut Self, &Entry) -> Result<()>,
    ) -> Result<()> {
        let mut bounds = Bounds { from: Vec::new(), to: key::END.to_vec() };
        loop {
            let scan = bounds.scan(space, limits::PAGE_ITEMS_MAX, limits::PAGE_SIZE_BYTES_MAX);
            let entries = self.snapshot.scan(&scan).map_err(storage)?;
            for entry in &entries {
                check(self, entry)?;
            }
            let Some(last) = entries.last() else { return Ok(()) };
            bounds = bounds.after(&last.key);
        }
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<orrery_storage::Value>> {
        self.snapshot.get(space, key).map_err(storage)
    }

    /// The item under a key; `None` if there is none, or none that can be read.
    fn item(&self, key: &[u8]) -> Result<Option<Item>> {
        let Some(value) = self.get(Space::Items, key)? else { return Ok(None) };
        Ok(read(key, value.version, &value.bytes))
    }

    /// The item of a row.
    fn item_of_row(&self, row: Row) -> Result<Option<Item>> {
        let Some(value) = self.get(Space::Items, &key::row(row))? else { return Ok(None) };
        Ok(self.item(&value.bytes)?.filter(|item| item.header.row == row))
    }

    fn item_or_row(&mut self, entry: &Entry) -> Result<()> {
        if let Some(row) = key::parse_row(&entry.key) {
            let item = self.item(&entry.value.bytes)?;
            if item.is_none_or(|item| item.header.row != row) {
                self.fault(FaultKind::RowOrphan, &entry.key);
            }
            return Ok(());
        }
        if key::parse_item(&entry.key).is_none() {
            self.fault(FaultKind::KeyUnknown, &entry.key);
            return Ok(());
        }
        match read(&entry.key, entry.value.version, &entry.value.bytes) {
            None => self.fault(FaultKind::ItemDamaged, &entry.key),
            Some(item) => self.whole_item(&item)?,
        }
        Ok(())
    }

    /// An item, and all that is written beside it.
    fn whole_item(&mut self, item: &Item) -> Result<()> {
        let definition = &self.container.definition;
        let partition_key = definition.partition_key.extract(&item.body);
        if !self.is_in_place(item, &partition_key) {
            self.fault(FaultKind::ItemMisplaced, &item.key);
        }
        if !self.is_labelled(item) {
            self.fault(FaultKind::ItemMislabelled, &item.key);
        }
        let row = self.get(Space::Items, &key::row(item.header.row))?;
        if row.is_none_or(|row| row.bytes != item.key) {
            self.fault(FaultKind::RowMissing, &item.key);
        }
        let feed = self.get(Space::Feed, &key::feed(item.version, item.header.feed_seq))?;
        if feed.is_none_or(|feed| feed.bytes != item.key) {
            self.fault(FaultKind::FeedMissing, &item.key);
        }
        for unique in self.unique_keys(item, &partition_key) {
            let holder = self.get(Space::Index, &unique)?;
            if holder.is_none_or(|holder| holder.bytes[..] != item.header.row.0.to_be_bytes()) {
                self.fault(FaultKind::UniqueKeyMissing, &item.key);
            }
        }
        self.terms_of_item(item)?;
        if let Some(expiry_s) = expiry(definition, &item.header) {
            let entry = self.get(Space::Ttl, &key::ttl(expiry_s, item.header.row))?;
            if entry.is_none_or(|entry| entry.bytes != item.key) {
                self.fault(FaultKind::ExpiryMissing, &item.key);
            }
        }
        Ok(())
    }

    fn is_in_place(&self, item: &Item, partition_key: &PartitionKey) -> bool {
        let effective = self.container.definition.partition_key.effective(partition_key);
        let id = item.body.get("id").as_str().unwrap_or_default();
        self.partition.range.contains(&effective)
            && item.key == key::item(&effective, partition_key, id)
    }

    fn is_labelled(&self, item: &Item) -> bool {
        let stamp = item.stamp();
        let rid = item_rid(self.container, item.header.row).to_string();
        item.body.get("_rid").as_str() == Some(&*rid)
            && item.body.get("_etag").as_str() == Some(&*stamp.etag.to_string())
            && item.body.get("_ts").as_i64() == i64::try_from(stamp.ts).ok()
    }

    fn unique_keys(&self, item: &Item, partition_key: &PartitionKey) -> Vec<Vec<u8>> {
        let definition = &self.container.definition;
        let effective = definition.partition_key.effective(partition_key);
        let key = |(ordinal, paths): (u8, &Vec<_>)| {
            let values = unique_values(paths, &item.body);
            key::unique(ordinal, &effective, partition_key, &values)
        };
        (0..).zip(&definition.unique_keys).map(key).collect()
    }

    /// What is kept for a global secondary index is of one that there is, or was.
    fn secondary(&mut self, index: u32, key: &[u8]) {
        let links = &self.container.secondary;
        let is_known = links.indexes.iter().any(|(number, _)| *number == index)
            || links.former.contains(&index);
        if !is_known {
            self.fault(FaultKind::KeyUnknown, key);
        }
    }

    fn meta_entry(&mut self, entry: &Entry) {
        let index = key::parse_secondary_position(&entry.key)
            .or_else(|| key::parse_secondary(&entry.key).map(|(index, _)| index));
        if let Some(index) = index {
            self.secondary(index, &entry.key);
        }
    }

    fn index_entry(&mut self, entry: &Entry) -> Result<()> {
        if let Some((index, _)) = key::parse_secondary(&entry.key) {
            self.secondary(index, &entry.key);
            return Ok(());
        }
        // What a model keeps follows from items of any container; `verify_model` looks at it.
        if self.is_term(entry) || key::rule_of(&entry.key).is_some() {
            return Ok(());
        }
        let row = entry.value.bytes[..].try_into().map(u64::from_be_bytes).ok();
        let item = row.map(|row| self.item_of_row(Row(row))).transpose()?.flatten();
        let has_it = item.is_some_and(|item| {
            let partition_key = self.container.definition.partition_key.extract(&item.body);
            self.unique_keys(&item, &partition_key).contains(&entry.key)
        });
        if !has_it {
            self.fault(FaultKind::UniqueKeyOrphan, &entry.key);
        }
        Ok(())
    }

    fn feed_entry(&mut self, entry: &Entry) -> Result<()> {
        if key::parse_version(&entry.key).is_some() {
            let place = Version::decode(&entry.value.bytes).ok();
            if place.is_none_or(|version| key::parse_item(version.item_key).is_none()) {
                self.fault(FaultKind::VersionDamaged, &entry.key);
            }
            return Ok(());
        }
        let item = self.item(&entry.value.bytes)?;
        let place = item.map(|item| key::feed(item.version, item.header.feed_seq));
        if place.is_none_or(|place| entry.key != place) {
            self.fault(FaultKind::FeedOrphan, &entry.key);
        }
        Ok(())
    }

    fn expiry_entry(&mut self, entry: &Entry) -> Result<()> {
        let row = key::parse_ttl(&entry.key).map(|(_, row)| row);
        let item = row.map(|row| self.item_of_row(row)).transpose()?.flatten();
        if item.is_none_or(|item| item.key != entry.value.bytes) {
            self.fault(FaultKind::ExpiryOrphan, &entry.key);
        }
        Ok(())
    }
}

fn read(key: &[u8], version: Lsn, bytes: &[u8]) -> Option<Item> {
    let (header, text) = record::decode(bytes).ok()?;
    let body = Value::parse(text).ok()?;
    Some(Item { key: key.to_vec(), version, header, body })
}

#[cfg(test)]
mod tests;
