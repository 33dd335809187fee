//! What a transaction is going to write, in any number of shards: items with their before images, keys
//! beside them, and the unique keys as they are afterwards. One undo log covers all of it, so that an
//! operation that is refused is rolled back to its savepoint. A rollback undoes writes only: what was
//! read stays in the read set, because the refusal rests on it.

use std::collections::{BTreeMap, HashMap};

use orrery_modeling::Tally;
use orrery_storage::key::AggregateId;
use orrery_storage::{Precondition, Space};
use orrery_types::Etag;

use crate::Container;
use crate::item::address::ItemKey;
use crate::item::image::{AfterImage, BeforeImage};
use crate::maintain::unique_keys::Holder;
use crate::partition::PhysicalPartition;

/// A shard of the transaction, by its position in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardIndex(usize);

impl ShardIndex {
    /// The shard that the transaction was begun on.
    pub(crate) const FIRST: Self = Self(0);
}

/// An item that was read, and what becomes of it.
#[derive(Debug)]
pub(crate) struct ItemEntry<'c> {
    pub(crate) at: ItemKey<'c>,
    pub(crate) before: Option<BeforeImage>,
    mutation: Mutation,
    /// When it was written last, in the order of the transaction's writes.
    written_at: u32,
    /// Its position in the order of reads.
    read_order: u32,
}

/// What a commit does to an item.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "entries are boxed, and most are written")]
pub(crate) enum Mutation {
    /// It was only read; the commit holds if it is still the same.
    None,
    Delete,
    Put(AfterImage),
}

impl<'c> ItemEntry<'c> {
    /// An item that was read.
    pub(crate) fn read(at: ItemKey<'c>, before: Option<BeforeImage>) -> Self {
        Self { at, before, mutation: Mutation::None, written_at: 0, read_order: 0 }
    }

    /// An item that is removed.
    pub(crate) fn removed(at: ItemKey<'c>, before: BeforeImage) -> Self {
        let mutation = Mutation::Delete;
        Self { at, before: Some(before), mutation, written_at: 0, read_order: 0 }
    }

    pub(crate) fn mutation(&self) -> &Mutation {
        &self.mutation
    }

    /// The precondition under which a commit holds that has read the item.
    pub(crate) fn precondition(&self) -> Precondition {
        let version = self.before.as_ref().map(|before| before.version);
        Precondition::unchanged(Space::Items, self.at.key.clone(), version)
    }

    pub(crate) fn after(&self) -> Option<&AfterImage> {
        match &self.mutation {
            Mutation::Put(after) => Some(after),
            Mutation::None | Mutation::Delete => None,
        }
    }

    pub(crate) fn is_written(&self) -> bool {
        !matches!(self.mutation, Mutation::None)
    }

    /// Whether the after image has the row of the before image.
    pub(crate) fn keeps_row(&self) -> bool {
        self.before.as_ref().zip(self.after()).is_some_and(|(b, a)| b.header.row == a.row)
    }
}

/// What a commit does to a key beside items.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyWrite {
    Put(Vec<u8>),
    Delete,
}

impl KeyWrite {
    /// The value that the key has afterwards.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Put(value) => Some(value),
            Self::Delete => None,
        }
    }
}

/// The tally of a target: as it was read, and as the transaction leaves it.
#[derive(Debug)]
pub(crate) struct TallyEntry {
    pub(crate) stored: Tally,
    now: Tally,
    /// Its position in the order of reads.
    read_order: u32,
}

impl TallyEntry {
    pub(crate) fn now(&self) -> &Tally {
        &self.now
    }
}

/// The changes of a tally that are written down for later, under a mark of their own.
pub(crate) type Delta = (Etag, Tally);

type ItemEntries<'e> = BTreeMap<Vec<u8>, Box<ItemEntry<'e>>>;

/// What the transaction reads and writes in one shard.
pub(crate) struct ShardWrites<'e> {
    pub(crate) container: &'e Container,
    pub(crate) partition: &'e PhysicalPartition,
    items: ItemEntries<'e>,
    /// How many of the items are written.
    written: usize,
    /// Keys beside items.
    keys: BTreeMap<(Space, Vec<u8>), KeyWrite>,
    tallies: BTreeMap<Vec<u8>, TallyEntry>,
    deltas: BTreeMap<(AggregateId, Vec<u8>), Delta>,
    /// Unique keys that the transaction has taken or freed.
    unique: HashMap<Vec<u8>, Holder>,
}

impl<'e> ShardWrites<'e> {
    fn new(container: &'e Container, partition: &'e PhysicalPartition) -> Self {
        Self {
            container,
            partition,
            items: BTreeMap::new(),
            written: 0,
            keys: BTreeMap::new(),
            tallies: BTreeMap::new(),
            deltas: BTreeMap::new(),
            unique: HashMap::new(),
        }
    }

    fn is(&self, container: &Container, partition: &PhysicalPartition) -> bool {
        self.container.number == container.number && self.partition.id == partition.id
    }

    /// Items in the order of their keys.
    pub(crate) fn items(&self) -> &ItemEntries<'e> {
        &self.items
    }

    pub(crate) fn item(&self, key: &[u8]) -> Option<&ItemEntry<'e>> {
        self.items.get(key).map(|entry| &**entry)
    }

    /// Items that are written, in the order of their last writes.
    pub(crate) fn written(&self) -> Vec<&ItemEntry<'e>> {
        self.in_commit_order().split_off(self.items.len() - self.written)
    }

    /// Items as a commit lists them: those that were only read, then the others in the order of their
    /// last writes.
    pub(crate) fn in_commit_order(&self) -> Vec<&ItemEntry<'e>> {
        let mut all: Vec<&ItemEntry<'e>> = self.items.values().map(|entry| &**entry).collect();
        all.sort_by_key(|entry| if entry.is_written() { entry.written_at } else { 0 });
        all
    }

    /// What the transaction has made of a key beside items, if it has written it.
    pub(crate) fn key(&self, space: Space, key: &[u8]) -> Option<&KeyWrite> {
        if self.keys.is_empty() {
            return None;
        }
        self.keys.get(&(space, key.to_vec()))
    }

    /// The keys of a range that the transaction has written, in their order.
    pub(crate) fn keys_in<'k>(
        &'k self,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&'k [u8], Option<&'k [u8]>)> {
        let range = self.keys.range((space, from.to_vec())..(space, to.to_vec()));
        range.map(|((_, key), write)| (&key[..], write.value()))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (Space, &[u8], Option<&[u8]>)> {
        self.keys.iter().map(|((space, key), write)| (*space, &key[..], write.value()))
    }

    pub(crate) fn tallies(&self) -> &BTreeMap<Vec<u8>, TallyEntry> {
        &self.tallies
    }

    pub(crate) fn deltas(&self) -> &BTreeMap<(AggregateId, Vec<u8>), Delta> {
        &self.deltas
    }

    pub(crate) fn unique_holder(&self, key: &[u8]) -> Option<Holder> {
        self.unique.get(key).copied()
    }
}

/// What a rollback puts back.
enum Undo {
    Item { shard: ShardIndex, key: Vec<u8>, mutation: Mutation, written_at: u32 },
    Key { shard: ShardIndex, space: Space, key: Vec<u8>, write: Option<KeyWrite> },
    Tally { shard: ShardIndex, key: Vec<u8>, now: Tally },
    Delta { shard: ShardIndex, of: AggregateId, target: Vec<u8>, delta: Option<Delta> },
    Unique { shard: ShardIndex, key: Vec<u8>, holder: Option<Holder> },
}

/// A point to which writes can be rolled back: a length of the undo log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Savepoint(usize);

/// The write buffer of one transaction.
pub(crate) struct WriteBuffer<'e> {
    home: ShardWrites<'e>,
    /// The other shards, in the order in which they were first used.
    others: Vec<ShardWrites<'e>>,
    undo: Vec<Undo>,
    /// Items that were written or rolled back since somebody looked; `None`: nobody has.
    changed_items: Option<Vec<(ShardIndex, Vec<u8>)>>,
    /// Writes so far.
    sequence: u32,
    /// Items and tallies that were read so far, also those that were forgotten.
    reads: u32,
}

impl<'e> WriteBuffer<'e> {
    pub(crate) fn new(container: &'e Container, partition: &'e PhysicalPartition) -> Self {
        let home = ShardWrites::new(container, partition);
        Self { home, others: vec![], undo: vec![], changed_items: None, sequence: 0, reads: 0 }
    }

    /// The shard of a physical partition, which joins the transaction if it is new.
    pub(crate) fn shard_of(
        &mut self,
        container: &'e Container,
        partition: &'e PhysicalPartition,
    ) -> ShardIndex {
        if self.home.is(container, partition) {
            return ShardIndex::FIRST;
        }
        let known = self.others.iter().position(|shard| shard.is(container, partition));
        let at = known.unwrap_or_else(|| {
            self.others.push(ShardWrites::new(container, partition));
            self.others.len() - 1
        });
        ShardIndex(at + 1)
    }

    pub(crate) fn shard(&self, shard: ShardIndex) -> &ShardWrites<'e> {
        match shard.0.checked_sub(1) {
            None => &self.home,
            Some(at) => &self.others[at],
        }
    }

    fn shard_mut(&mut self, shard: ShardIndex) -> &mut ShardWrites<'e> {
        match shard.0.checked_sub(1) {
            None => &mut self.home,
            Some(at) => &mut self.others[at],
        }
    }

    /// All shards, the one that the transaction was begun on first.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (ShardIndex, &ShardWrites<'e>)> {
        let all = std::iter::once(&self.home).chain(&self.others);
        all.enumerate().map(|(at, shard)| (ShardIndex(at), shard))
    }

    /// How many items are written, in whichever shard.
    pub(crate) fn written(&self) -> usize {
        self.home.written + self.others.iter().map(|shard| shard.written).sum::<usize>()
    }

    /// How many items are written in the shard that the transaction was begun on.
    pub(crate) fn written_at_first(&self) -> usize {
        self.home.written
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    /// Forgets how to undo what was written since a savepoint.
    pub(crate) fn release(&mut self, savepoint: Savepoint) {
        self.undo.truncate(savepoint.0);
    }

    /// The items that were written since a savepoint, each once, with what they were to become then.
    pub(crate) fn items_since(
        &self,
        savepoint: Savepoint,
        of: ShardIndex,
    ) -> impl Iterator<Item = (&[u8], &Mutation)> {
        let mut seen = std::collections::HashSet::new();
        let log = self.undo.get(savepoint.0..).unwrap_or_default();
        log.iter().filter_map(move |undo| match undo {
            Undo::Item { shard, key, mutation, .. } if *shard == of => {
                seen.insert(&key[..]).then_some((&key[..], mutation))
            }
            _ => None,
        })
    }

    /// Adds an item that was read.
    pub(crate) fn add(&mut self, shard: ShardIndex, mut entry: ItemEntry<'e>) {
        self.reads += 1;
        entry.read_order = self.reads;
        self.shard_mut(shard).items.insert(entry.at.key.clone(), Box::new(entry));
    }

    /// The position of the last read.
    pub(crate) fn read_sequence(&self) -> u32 {
        self.reads
    }

    /// Forgets the items and tallies that were read after a position and are not written, but for
    /// some items: nothing else rests on them.
    pub(crate) fn forget_reads_after(&mut self, sequence: u32, but: &[(ShardIndex, Vec<u8>)]) {
        let shards = std::iter::once(&mut self.home).chain(&mut self.others);
        for (at, shard) in shards.enumerate() {
            shard.items.retain(|key, entry| {
                entry.read_order <= sequence
                    || entry.is_written()
                    || but.iter().any(|(of, kept)| *of == ShardIndex(at) && kept == key)
            });
            shard.tallies.retain(|_, tally| tally.read_order <= sequence);
        }
    }

    /// Says what becomes of an item that was read.
    pub(crate) fn set_item(&mut self, shard: ShardIndex, key: &[u8], mutation: Mutation) {
        self.sequence += 1;
        let written_at = self.sequence;
        let writes = self.shard_mut(shard);
        let Some(entry) = writes.items.get_mut(key) else { return };
        let was_written = entry.is_written();
        let mutation = std::mem::replace(&mut entry.mutation, mutation);
        let written_at = std::mem::replace(&mut entry.written_at, written_at);
        let is_written = entry.is_written();
        writes.written = writes.written + usize::from(is_written) - usize::from(was_written);
        self.undo.push(Undo::Item { shard, key: key.to_vec(), mutation, written_at });
        self.note_changed(shard, key);
    }

    /// The items that were written or rolled back since the last time; at first all that are written. An
    /// item may be named more than once.
    pub(crate) fn take_changed_items(&mut self) -> Vec<(ShardIndex, Vec<u8>)> {
        let Some(changed) = self.changed_items.replace(vec![]) else {
            let of = |(index, shard): (ShardIndex, &ShardWrites<'e>)| {
                let written = shard.items.iter().filter(|(_, entry)| entry.is_written());
                written.map(|(key, _)| (index, key.clone())).collect::<Vec<_>>()
            };
            return self.shards().flat_map(of).collect();
        };
        changed
    }

    /// Makes the next call of [`Self::take_changed_items`] return all written items again.
    pub(crate) fn forget_changed_items(&mut self) {
        self.changed_items = None;
    }

    fn note_changed(&mut self, shard: ShardIndex, key: &[u8]) {
        if let Some(changed) = &mut self.changed_items {
            changed.push((shard, key.to_vec()));
        }
    }

    /// Writes a key beside items, or deletes it.
    pub(crate) fn set_key(
        &mut self,
        shard: ShardIndex,
        space: Space,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) {
        let write = value.map_or(KeyWrite::Delete, KeyWrite::Put);
        let write = self.shard_mut(shard).keys.insert((space, key.clone()), write);
        self.undo.push(Undo::Key { shard, space, key, write });
    }

    /// Adds a tally that was read.
    pub(crate) fn add_tally(&mut self, shard: ShardIndex, key: Vec<u8>, stored: Tally) {
        self.reads += 1;
        let entry = TallyEntry { now: stored.clone(), stored, read_order: self.reads };
        self.shard_mut(shard).tallies.insert(key, entry);
    }

    /// Adds to a tally that was read.
    pub(crate) fn merge_tally(&mut self, shard: ShardIndex, key: &[u8], change: &Tally) {
        let Some(entry) = self.shard_mut(shard).tallies.get_mut(key) else { return };
        let now = entry.now.clone();
        entry.now.merge(change);
        self.undo.push(Undo::Tally { shard, key: key.to_vec(), now });
    }

    /// Adds to the changes of a tally that are written down for later, under a mark if they have none.
    pub(crate) fn merge_delta(
        &mut self,
        shard: ShardIndex,
        (of, target): (AggregateId, &[u8]),
        mark: Etag,
        change: &Tally,
    ) {
        let deltas = &mut self.shard_mut(shard).deltas;
        let old = deltas.get(&(of, target.to_vec())).cloned();
        let (_, tally) =
            deltas.entry((of, target.to_vec())).or_insert_with(|| (mark, Tally::default()));
        tally.merge(change);
        self.undo.push(Undo::Delta { shard, of, target: target.to_vec(), delta: old });
    }

    /// Says who has a unique key from now on.
    pub(crate) fn set_unique(&mut self, shard: ShardIndex, key: Vec<u8>, holder: Holder) {
        let old = self.shard_mut(shard).unique.insert(key.clone(), holder);
        self.undo.push(Undo::Unique { shard, key, holder: old });
    }

    /// Undoes what was written since a savepoint.
    pub(crate) fn rollback_to(&mut self, savepoint: Savepoint) {
        while self.undo.len() > savepoint.0 {
            let Some(undo) = self.undo.pop() else { return };
            self.undo_one(undo);
        }
    }

    fn undo_one(&mut self, undo: Undo) {
        match undo {
            Undo::Item { shard, key, mutation, written_at } => {
                let writes = self.shard_mut(shard);
                let Some(entry) = writes.items.get_mut(&key) else { return };
                let was_written = entry.is_written();
                (entry.mutation, entry.written_at) = (mutation, written_at);
                let is_written = entry.is_written();
                writes.written =
                    writes.written + usize::from(is_written) - usize::from(was_written);
                self.note_changed(shard, &key);
            }
            Undo::Key { shard, space, key, write } => {
                let keys = &mut self.shard_mut(shard).keys;
                match write {
                    Some(write) => drop(keys.insert((space, key), write)),
                    None => drop(keys.remove(&(space, key))),
                }
            }
            Undo::Tally { shard, key, now } => {
                if let Some(entry) = self.shard_mut(shard).tallies.get_mut(&key) {
                    entry.now = now;
                }
            }
            Undo::Delta { shard, of, target, delta } => {
                let deltas = &mut self.shard_mut(shard).deltas;
                match delta {
                    Some(delta) => drop(deltas.insert((of, target), delta)),
                    None => drop(deltas.remove(&(of, target))),
                }
            }
            Undo::Unique { shard, key, holder } => {
                let unique = &mut self.shard_mut(shard).unique;
                match holder {
                    Some(holder) => drop(unique.insert(key, holder)),
                    None => drop(unique.remove(&key)),
                }
            }
        }
    }
}
