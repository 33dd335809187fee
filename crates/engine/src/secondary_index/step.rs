//! One step of an index: some changes of one shard of the source become one commit over the shards of source and
//! index. What is read is of one snapshot of the source's shard. A source item is brought over as it is
//! there, whatever has led to it: so applying a change twice, or one that a newer one has replaced, does no harm.

use std::collections::BTreeMap;

use bytes::Bytes;
use orrery_storage::key::Bounds;
use orrery_storage::{
    Commit, Entry, Part, Precondition, Put, ReadAt, Snapshot, Space, StorageError, key, record,
};
use orrery_types::{Error, Lsn, Result, limits};

use super::item::{held_reason, index_item, is_unfit};
use super::position::StoredPosition;
use crate::error::storage;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::operation::ItemBody;
use crate::partition::PhysicalPartition;
use crate::transaction::reads::ReadView;
use crate::transaction::state::{TransactionOptions, TransactionState};
use crate::transaction::write_buffer::Mutation;
use crate::{Container, Engine};

/// A shard of a source, and an index that follows it.
#[derive(Clone, Copy)]
pub(super) struct FollowedShard<'e> {
    pub(super) engine: &'e Engine,
    pub(super) index: &'e Container,
    pub(super) source: &'e Container,
    pub(super) partition: &'e PhysicalPartition,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Everything that the shard had when the step began has been applied.
    AtEnd,
    More,
    /// Another process has applied the same changes, or a deletion was renewed: nothing was written.
    Lost,
    /// It is more than one commit takes.
    TooLarge,
}

/// A source item that is to be brought over.
#[derive(Default)]
struct FollowedItem {
    /// The version of the deletion that says so.
    deletion: Option<Lsn>,
    /// The record of the item, if it exists.
    source: Option<Bytes>,
    /// The key that it has in the index.
    place: Option<Vec<u8>>,
    /// Whether the index could not hold it the last time.
    is_held: bool,
}

/// Source items of one step, by their keys.
type FollowedItems = BTreeMap<Vec<u8>, FollowedItem>;

/// Changes that are applied together.
pub(super) struct Changes {
    items: FollowedItems,
    stored: StoredPosition,
    /// The key of the last feed entry that was read.
    cursor: Option<Vec<u8>>,
    /// Since when the oldest of them waits.
    since_s: Option<u64>,
    at_end: bool,
}

/// Source items that are read at once.
const READ_TOGETHER: usize = 16;

impl Changes {
    /// Notes that a change waits since a second.
    fn waits_since(&mut self, second: u64) {
        self.since_s = Some(self.since_s.map_or(second, |known| known.min(second)));
    }
}

impl<'e> FollowedShard<'e> {
    /// Applies the next changes, at most so many. `cursor` is the last feed entry that was applied: a commit of
    /// the source may have more entries than one step takes, and the position tells only whole commits.
    pub(super) fn step(
        self,
        cursor: &mut Option<Vec<u8>>,
        items_max: usize,
    ) -> Result<StepOutcome> {
        let snapshot = self.snapshot()?;
        let changes = self.read_changes(&*snapshot, cursor.as_deref(), items_max)?;
        drop(snapshot);
        self.index.feeding.start();
        self.index.feeding.note(self.partition.id, changes.since_s);
        // The position is written once even if there is nothing to apply.
        if changes.items.is_empty() && changes.stored.version.is_some() && changes.cursor.is_none()
        {
            return Ok(StepOutcome::AtEnd);
        }
        let outcome = self.apply(&changes)?;
        if matches!(outcome, StepOutcome::AtEnd | StepOutcome::More) {
            if changes.cursor.is_some() {
                *cursor = changes.cursor;
            }
            if outcome == StepOutcome::AtEnd {
                self.index.feeding.note(self.partition.id, None);
            }
        }
        Ok(outcome)
    }

    /// Tries once more to bring over items that the index could not hold; returns one that it still cannot hold,
    /// and why.
    pub(super) fn retry_held(self) -> Result<Option<(Vec<u8>, Error)>> {
        let snapshot = self.snapshot()?;
        let bounds = key::secondary_held_of(self.index.number);
        let scan = bounds.scan(Space::Meta, limits::SECONDARY_INDEX_HELD_TRIED_MAX, usize::MAX);
        let held = snapshot.scan(&scan).map_err(storage)?;
        drop(snapshot);
        let mut left = None;
        for entry in held {
            let item = item_key(&entry)?;
            let snapshot = self.snapshot()?;
            let stored = self.position(&*snapshot)?;
            let mut items = FollowedItems::from([(item.to_vec(), FollowedItem::default())]);
            self.load(&*snapshot, &mut items)?;
            drop(snapshot);
            let changes = Changes { items, stored, cursor: None, since_s: None, at_end: true };
            self.apply(&changes)?;
            let shard = self.partition.shard;
            let (_, now) =
                self.engine.store.get(shard, Space::Meta, &entry.key).map_err(storage)?;
            if let Some(reason) = now {
                let reason = String::from_utf8_lossy(&reason.bytes).into_owned();
                left = Some((item.to_vec(), Error::invalid(reason)));
            }
        }
        Ok(left)
    }

    fn snapshot(self) -> Result<Box<dyn Snapshot + 'e>> {
        self.engine.store.snapshot(self.partition.shard, ReadAt::Latest).map_err(storage)
    }

    fn position(self, snapshot: &dyn Snapshot) -> Result<StoredPosition> {
        StoredPosition::read(snapshot, self.index.number, &self.partition.range)
    }

    /// Reads the deletions that the index has to follow, and behind them the next entries of the feed. Deletions
    /// come first, so that an item that was renamed is never there twice.
    fn read_changes(
        self,
        snapshot: &dyn Snapshot,
        cursor: Option<&[u8]>,
        items_max: usize,
    ) -> Result<Changes> {
        let mut changes = Changes {
            items: FollowedItems::new(),
            stored: self.position(snapshot)?,
            cursor: None,
            since_s: None,
            at_end: false,
        };
        let mut bytes = 0;
        let bounds = key::secondary_deletions(self.index.number);
        let scan = bounds.scan(Space::Meta, items_max, usize::MAX);
        let deletions = snapshot.scan(&scan).map_err(storage)?;
        for chunk in deletions.chunks(READ_TOGETHER) {
            if bytes >= limits::SECONDARY_INDEX_BYTES_MAX {
                return Ok(changes);
            }
            let mut found = FollowedItems::new();
            for entry in chunk {
                let second = entry.value.bytes[..].try_into().map(u64::from_be_bytes);
                changes.waits_since(second.map_err(|_| corrupt())?);
                let deletion = Some(entry.value.version);
                let followed = FollowedItem { deletion, ..FollowedItem::default() };
                found.insert(item_key(entry)?.to_vec(), followed);
            }
            bytes += self.load(snapshot, &mut found)?;
            changes.items.append(&mut found);
        }
        let room = items_max.saturating_sub(deletions.len());
        if room > 0 {
            self.read_feed(snapshot, cursor, room, bytes, &mut changes)?;
        }
        Ok(changes)
    }

    /// Reads the next entries of the feed behind the position and the cursor, and moves the position.
    fn read_feed(
        self,
        snapshot: &dyn Snapshot,
        cursor: Option<&[u8]>,
        room: usize,
        mut bytes: usize,
        changes: &mut Changes,
    ) -> Result<()> {
        let range = &self.partition.range;
        let (least, _) = changes.stored.position.bounds(range);
        let mut bounds: Bounds = key::feed_after(least);
        if let Some(cursor) = cursor.filter(|cursor| **cursor >= bounds.from[..]) {
            bounds = bounds.after(cursor);
        }
        // One more tells whether there is more, and whether it belongs to the same commit.
        let scan = bounds.scan(Space::Feed, room + 1, usize::MAX);
        let entries = snapshot.scan(&scan).map_err(storage)?;
        let mut taken = 0;
        for chunk in entries[..room.min(entries.len())].chunks(READ_TOGETHER) {
            if bytes >= limits::SECONDARY_INDEX_BYTES_MAX {
                break;
            }
            let mut found = FollowedItems::new();
            for entry in chunk {
                let item = key::parse_item(&entry.value.bytes).ok_or_else(corrupt)?;
                let is_new = lsn_of(entry)? > changes.stored.position.lsn_at(&item.effective);
                if is_new && !changes.items.contains_key(&entry.value.bytes[..]) {
                    found.insert(entry.value.bytes.to_vec(), FollowedItem::default());
                }
            }
            bytes += self.load(snapshot, &mut found)?;
            if let Some(source) = found.values().find_map(|item| item.source.as_ref()) {
                changes.waits_since(record::decode(source).map_err(storage)?.0.ts_s);
            }
            changes.items.append(&mut found);
            taken += chunk.len();
        }
        let reached = match (taken.checked_sub(1).map(|last| &entries[last]), entries.get(taken)) {
            (_, None) => snapshot.lsn(),
            (None, Some(_)) => return Ok(()),
            (Some(last), Some(next)) if lsn_of(last)? < lsn_of(next)? => lsn_of(last)?,
            // The rest of the commit comes later.
            (Some(last), Some(_)) => Lsn(lsn_of(last)?.0.saturating_sub(1)),
        };
        changes.stored.position.advance(range, reached);
        changes.cursor = taken.checked_sub(1).map(|last| entries[last].key.clone());
        changes.at_end = taken == entries.len();
        Ok(())
    }

    /// Reads items, their places, and whether they are held; returns the bytes of the items.
    fn load(self, snapshot: &dyn Snapshot, items: &mut FollowedItems) -> Result<usize> {
        let number = self.index.number;
        let held = key::secondary_held_of(number);
        let scan = held.scan(Space::Meta, 1, usize::MAX);
        let any_held = !snapshot.scan(&scan).map_err(storage)?.is_empty();
        let places: Vec<Vec<u8>> =
            items.keys().map(|item| key::secondary_place(number, item)).collect();
        let places: Vec<&[u8]> = places.iter().map(|key| &key[..]).collect();
        let places = snapshot.get_many(Space::Index, &places).map_err(storage)?;
        let keys: Vec<&[u8]> = items.keys().map(|item| &item[..]).collect();
        let sources = snapshot.get_many(Space::Items, &keys).map_err(storage)?;
        let mut bytes = 0;
        for (((item, followed), source), place) in items.iter_mut().zip(sources).zip(places) {
            followed.source = source.map(|value| value.bytes);
            followed.place = place.map(|value| value.bytes.into());
            bytes += followed.source.as_ref().map_or(0, Bytes::len);
            if any_held {
                let key = key::secondary_held(number, item);
                followed.is_held = snapshot.get(Space::Meta, &key).map_err(storage)?.is_some();
            }
        }
        Ok(bytes)
    }

    /// Commits changes.
    fn apply(self, changes: &Changes) -> Result<StepOutcome> {
        let view = ReadView::latest(self.engine);
        let options = TransactionOptions::default();
        let mut tx = TransactionState::new(self.engine, self.source, self.partition, view, options);
        let mut part = Part::new(self.partition.shard, self.partition.epoch);
        let (space, key) = (Space::Meta, key::secondary_position(self.index.number));
        let version = changes.stored.version;
        part.preconditions.push(Precondition::unchanged(space, key.clone(), version));
        // Written even if it stays the same: the version tells another process that a step was made.
        part.puts.push(Put { space, key, value: changes.stored.position.to_state() });
        for (item, followed) in &changes.items {
            self.bring_over(&mut tx, item, followed, &mut part)?;
        }
        let mut prepared = tx.assemble()?;
        let own = prepared.part_of(self.partition);
        own.preconditions.append(&mut part.preconditions);
        own.deletes.append(&mut part.deletes);
        own.puts.append(&mut part.puts);
        let (commit, _) = prepared.into_commit();
        self.commit(commit, changes.at_end)
    }

    fn commit(self, commit: Commit, at_end: bool) -> Result<StepOutcome> {
        match self.engine.store.commit(commit) {
            Ok(_) if at_end => Ok(StepOutcome::AtEnd),
            Ok(_) => Ok(StepOutcome::More),
            Err(StorageError::Conflict(_)) => Ok(StepOutcome::Lost),
            Err(StorageError::TooLarge) => Ok(StepOutcome::TooLarge),
            Err(error) => Err(storage(error)),
        }
    }

    /// Brings one source item over: the item of the index goes into the transaction, and the keys beside the
    /// source item into the part of the source's shard.
    fn bring_over(
        self,
        tx: &mut TransactionState<'e>,
        item: &[u8],
        followed: &FollowedItem,
        part: &mut Part,
    ) -> Result<()> {
        let number = self.index.number;
        if let Some(lsn) = followed.deletion {
            // Deleted once more meanwhile, it has to be looked at once more.
            let (space, key) = (Space::Meta, key::secondary_deletion(number, item));
            part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
            part.deletes.push((space, key));
        }
        let placed = match &followed.source {
            None => Ok(None),
            Some(stored) => index_item(self.index, item, stored)
                .and_then(|body| self.put_item(tx, body).map(Some)),
        };
        let (place, reason) = match placed {
            Ok(place) => (place, None),
            Err(error) if is_unfit(&error) => (None, Some(held_reason(&error))),
            Err(error) => return Err(error),
        };
        if let Some(old) = followed.place.as_ref().filter(|old| Some(*old) != place.as_ref())
            && let Some(address) = tx.address_of_key(self.index, old)?
        {
            let shard = tx.shard_of(&address);
            tx.set_item(shard, &address.at, Mutation::Delete);
        }
        let place_key = key::secondary_place(number, item);
        match place {
            Some(place) if followed.place.as_ref() != Some(&place) => {
                part.puts.push(Put { space: Space::Index, key: place_key, value: place });
            }
            None if followed.place.is_some() => part.deletes.push((Space::Index, place_key)),
            _ => {}
        }
        let (space, held_key) = (Space::Meta, key::secondary_held(number, item));
        match reason {
            Some(value) => part.puts.push(Put { space, key: held_key, value }),
            None if followed.is_held => part.deletes.push((space, held_key)),
            None => {}
        }
        Ok(())
    }

    /// Puts an item of the index, unless it is the same already; returns its key.
    fn put_item(self, tx: &mut TransactionState<'e>, body: ItemBody) -> Result<Vec<u8>> {
        let at = ItemKey::of(self.index, body.key.clone(), &body.id)?;
        let address = ItemAddress { container: self.index, at };
        let shard = tx.shard_of(&address);
        let at = address.at;
        tx.load(shard, &at)?;
        let before = tx.entry(shard, &at.key).and_then(|entry| entry.before.as_ref());
        let row = before.map(|before| before.header.row);
        if let Some(before) = before {
            let text = body.to_text(self.index, before.header.row, before.stamp())?;
            if text.as_bytes() == &before.text()[..] {
                return Ok(at.key);
            }
        }
        let after = tx.stamped(shard, &at, row, self.engine.stamper.next(), body)?;
        tx.set_item(shard, &at, Mutation::Put(after));
        Ok(at.key)
    }
}

/// The key of the source item in the key of a deletion or of a held item.
fn item_key(entry: &Entry) -> Result<&[u8]> {
    key::parse_secondary(&entry.key).map(|(_, item)| item).ok_or_else(corrupt)
}

fn lsn_of(entry: &Entry) -> Result<Lsn> {
    key::parse_feed(&entry.key).map(|(lsn, _)| lsn).ok_or_else(corrupt)
}

fn corrupt() -> Error {
    Error::internal("what a global secondary index keeps beside its source is corrupt")
}
