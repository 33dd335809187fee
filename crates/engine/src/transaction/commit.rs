//! What a change of items writes. An *entry* is an item with its before image and its after image; from
//! the entries of a commit follows everything that must change with them, so that an item and what
//! stands beside it are always one commit.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use orrery_index::Terms;
use orrery_index::maintain::{Image, maintain};
use orrery_storage::key::{self, Row};
use orrery_storage::record::{self, Header};
use orrery_storage::{Check, Expect, Part, Put, Space, StorageError, Value as Stored};
use orrery_types::{Error, Lsn, PartitionKey, PropertyPath, Result, Value};

use crate::background::expiry_sweep::expiry;
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::maintain::index_terms::Indexer;
use crate::stamp::Stamp;
use crate::{Container, Engine};

/// A stored record, expired or not.
#[derive(Debug)]
pub(crate) struct BeforeImage {
    pub(crate) version: Lsn,
    pub(crate) header: Header,
    bytes: Bytes,
    value: OnceCell<Value>,
    terms: OnceCell<Terms>,
}

impl BeforeImage {
    pub(crate) fn read(stored: Stored) -> Result<Self> {
        let (header, _) = record::decode(&stored.bytes).map_err(storage)?;
        let (version, bytes) = (stored.version, stored.bytes);
        let (value, terms) = (OnceCell::new(), OnceCell::new());
        Ok(Self { version, header, bytes, value, terms })
    }

    pub(crate) fn text(&self) -> Bytes {
        self.bytes.slice(record::BODY_AT..)
    }

    /// Bytes of its text.
    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(record::BODY_AT)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { etag: self.header.etag, ts: self.header.ts_s }
    }

    /// The item, parsed once.
    pub(crate) fn value(&self) -> Result<&Value> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = stored_value(&self.bytes.slice(record::BODY_AT..))?;
        Ok(self.value.get_or_init(|| value))
    }

    /// Its index terms, found once.
    pub(crate) fn terms(&self, indexer: &Indexer<'_>) -> Result<&Terms> {
        if let Some(terms) = self.terms.get() {
            return Ok(terms);
        }
        let terms = indexer.terms(self.stamp(), || self.value())?;
        Ok(self.terms.get_or_init(|| terms))
    }
}

/// Parses what the server itself has written.
pub(crate) fn stored_value(text: &[u8]) -> Result<Value> {
    Value::parse(text).map_err(|e| Error::internal(format!("a stored item: {e}")))
}

/// What is to be written.
#[derive(Debug)]
pub(crate) struct AfterImage {
    /// As the client sent it; the system properties are in the text only.
    pub(crate) value: Value,
    pub(crate) text: Bytes,
    pub(crate) ttl: Option<i64>,
    pub(crate) row: Row,
    pub(crate) stamp: Stamp,
    pub(crate) terms: Terms,
    /// Whether no client wrote it: it follows from the change of another item.
    pub(crate) derived: bool,
}

/// An item that was read, and what becomes of it.
#[derive(Debug)]
pub(crate) struct ItemEntry<'c> {
    pub(crate) at: ItemKey<'c>,
    pub(crate) before: Option<BeforeImage>,
    pub(crate) mutation: Mutation,
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

impl ItemEntry<'_> {
    /// The precondition under which a commit holds that has read the item.
    pub(crate) fn check(&self) -> Check {
        let expect = self.before.as_ref().map_or(Expect::Absent, |b| Expect::Version(b.version));
        Check::Key { space: Space::Items, key: self.at.key.clone(), expect }
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

/// An item as a write or a read finds it: in the store, or as the same transaction has written it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CurrentImage<'s> {
    Stored(&'s BeforeImage),
    Own(&'s AfterImage),
}

impl<'s> CurrentImage<'s> {
    pub(crate) fn stamp(self) -> Stamp {
        match self {
            Self::Stored(before) => before.stamp(),
            Self::Own(after) => after.stamp,
        }
    }

    pub(crate) fn row(self) -> Row {
        match self {
            Self::Stored(before) => before.header.row,
            Self::Own(after) => after.row,
        }
    }

    /// Bytes of its text.
    pub(crate) fn size_bytes(self) -> usize {
        match self {
            Self::Stored(before) => before.size_bytes(),
            Self::Own(after) => after.text.len(),
        }
    }

    pub(crate) fn text(self) -> Bytes {
        match self {
            Self::Stored(before) => before.text(),
            Self::Own(after) => after.text.clone(),
        }
    }

    pub(crate) fn value(self) -> Result<&'s Value> {
        match self {
            Self::Stored(before) => before.value(),
            Self::Own(after) => Ok(&after.value),
        }
    }

    pub(crate) fn terms(self, indexer: &Indexer<'_>) -> Result<&'s Terms> {
        match self {
            Self::Stored(before) => before.terms(indexer),
            Self::Own(after) => Ok(&after.terms),
        }
    }
}

/// A unique key that must be free, by the number of its check in its part of the commit.
pub(crate) struct UniqueGuard<'s> {
    pub(crate) part: usize,
    pub(crate) check: usize,
    pub(crate) key: Vec<u8>,
    /// Which of the container's unique keys it is.
    pub(crate) ordinal: usize,
    pub(crate) container: &'s Container,
    /// The item that shall have it.
    pub(crate) slot: &'s ItemEntry<'s>,
}

impl UniqueGuard<'_> {
    /// Whether this is the check that failed.
    pub(crate) fn is(&self, part: usize, check: usize) -> bool {
        self.part == part && self.check == check
    }

    /// What the writer is told if another item has the key.
    pub(crate) fn violation(&self) -> Error {
        unique_violation(self.container, self.ordinal, self.slot)
    }
}

/// An item would get a unique key that another one has.
pub(crate) fn unique_violation(
    container: &Container,
    ordinal: usize,
    slot: &ItemEntry<'_>,
) -> Error {
    let Some(after) = slot.after().filter(|after| after.derived) else {
        return Error::UniqueKeyViolation;
    };
    let id = key::parse_item(&slot.at.key).map_or("", |key| key.id);
    let paths = container.definition.unique_keys.get(ordinal).map_or(&[][..], |paths| paths);
    let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
    let values = unique_values(paths, &after.value);
    Error::DerivedKeyViolation(
        format!(
            "Unique index constraint violation: by the model, this write gives the item '{id}' of \
             container '{}' the value {} for its unique key '{}', and another item of the same \
             partition key has it. Nothing was written.",
            container.id,
            Value::array(values).to_json(),
            names.join(", ")
        )
        .into(),
    )
}

/// Everything that the slots of one physical partition change, in one part: records, rows, unique
/// keys, index terms, expiries, feed entries and versions, the latter two in the order of the slots.
pub(crate) fn part<'s>(
    engine: &Engine,
    indexer: &Indexer<'s>,
    slots: &[&'s ItemEntry<'s>],
) -> Result<(Part, Vec<UniqueGuard<'s>>)> {
    let Indexer { container, partition, .. } = *indexer;
    let mut part = Part::new(partition.shard, partition.epoch);
    for slot in slots {
        part.checks.push(slot.check());
        if slot.is_written() {
            if let Some(before) = &slot.before {
                unwrite(container, slot, before, &mut part);
            }
            if let Some(after) = slot.after() {
                write(container, slot, after, &mut part)?;
            }
            index_terms(indexer, slot, &mut part)?;
            engine.keep_versions(container, slot, &mut part);
        }
    }
    let guards = unique_keys(container, slots, &mut part)?;
    Ok((part, guards))
}

/// Takes back what the before image had written beside its record.
fn unwrite(container: &Container, slot: &ItemEntry<'_>, before: &BeforeImage, part: &mut Part) {
    let header = &before.header;
    // The feed names every item once, at its latest change.
    part.deletes.push((Space::Feed, key::feed(before.version, header.feed_seq).to_vec()));
    if let Some(expiry_s) = expiry(&container.definition, header) {
        part.deletes.push((Space::Ttl, key::ttl(expiry_s, header.row).to_vec()));
    }
    if !slot.keeps_row() {
        part.deletes.push((Space::Items, key::row(header.row).to_vec()));
    }
    if slot.after().is_none() {
        part.deletes.push((Space::Items, slot.at.key.clone()));
    }
}

/// Index terms that change. A renamed item keeps its row: what its old slot deletes its new one puts,
/// and puts come after deletes.
fn index_terms(indexer: &Indexer<'_>, slot: &ItemEntry<'_>, part: &mut Part) -> Result<()> {
    let before = match &slot.before {
        Some(before) => Some(Image { terms: before.terms(indexer)?, row: before.header.row }),
        None => None,
    };
    let after = slot.after().map(|after| Image { terms: &after.terms, row: after.row });
    maintain(before, after, indexer.container.index.rules().all(), part);
    Ok(())
}

/// Writes the record and what goes with it, but for unique keys and index terms.
fn write(
    container: &Container,
    slot: &ItemEntry<'_>,
    after: &AfterImage,
    part: &mut Part,
) -> Result<()> {
    let feed_seq = u16::try_from(part.feed.len()).map_err(|_| storage(StorageError::TooLarge))?;
    let header = Header {
        etag: after.stamp.etag,
        ts_s: after.stamp.ts,
        row: after.row,
        feed_seq,
        ttl_s: after.ttl,
    };
    let key = &slot.at.key;
    let value = record::encode(&header, &after.text);
    part.puts.push(Put { space: Space::Items, key: key.clone(), value });
    if !slot.keeps_row() {
        let row = key::row(after.row).to_vec();
        part.puts.push(Put { space: Space::Items, key: row, value: key.clone() });
    }
    if let Some(expiry_s) = expiry(&container.definition, &header) {
        let expiry = key::ttl(expiry_s, after.row).to_vec();
        part.puts.push(Put { space: Space::Ttl, key: expiry, value: key.clone() });
    }
    part.feed.push(key.clone());
    Ok(())
}

/// Unique keys that change: the old ones go, the new ones must be free, or be freed by another
/// slot of the same commit. No two slots may have one in the end, whoever wrote them.
fn unique_keys<'s>(
    container: &'s Container,
    slots: &[&'s ItemEntry<'s>],
    part: &mut Part,
) -> Result<Vec<UniqueGuard<'s>>> {
    let mut guards = Vec::new();
    if container.definition.unique_keys.is_empty() {
        return Ok(guards);
    }
    let mut moves = Vec::new();
    for slot in slots.iter().filter(|slot| slot.is_written()) {
        let keys = |value: &Value| unique_keys_of(container, &slot.at.partition_key, value);
        let old = slot.before.as_ref().map(BeforeImage::value).transpose()?.map(keys);
        let new = slot.after().map(|after| keys(&after.value));
        for ordinal in 0..container.definition.unique_keys.len() {
            let nth = |keys: &Option<Vec<Vec<u8>>>| keys.as_ref()?.get(ordinal).cloned();
            moves.push((*slot, ordinal, nth(&old), nth(&new)));
        }
    }
    let freed: HashSet<&Vec<u8>> = moves
        .iter()
        .filter(|(_, _, old, new)| old != new)
        .filter_map(|(_, _, old, _)| old.as_ref())
        .collect();
    part.deletes.extend(freed.iter().map(|key| (Space::Index, (*key).clone())));
    let mut holders: HashMap<&Vec<u8>, &ItemEntry<'_>> = HashMap::new();
    for (slot, ordinal, old, new) in &moves {
        let (Some(key), Some(after)) = (new, slot.after()) else { continue };
        if let Some(other) = holders.insert(key, slot) {
            // Of the two, the one that no client has named is the one to tell of.
            let told = if after.derived { *slot } else { other };
            return Err(unique_violation(container, *ordinal, told));
        }
        if old == new && slot.keeps_row() {
            continue;
        }
        if old != new && !freed.contains(key) {
            let (check, ordinal) = (part.checks.len(), *ordinal);
            let held = key.clone();
            guards.push(UniqueGuard { part: 0, check, key: held, ordinal, container, slot });
            let (key, expect) = (key.clone(), Expect::Absent);
            part.checks.push(Check::Key { space: Space::Index, key, expect });
        }
        let value = after.row.0.to_be_bytes().to_vec();
        part.puts.push(Put { space: Space::Index, key: key.clone(), value });
    }
    Ok(guards)
}

/// The keys under which an item stands in the container's unique keys, in their order.
pub(crate) fn unique_keys_of(
    container: &Container,
    partition_key: &PartitionKey,
    value: &Value,
) -> Vec<Vec<u8>> {
    let definition = &container.definition;
    let effective = definition.partition_key.effective(partition_key);
    let key = |(ordinal, paths): (u8, &Vec<PropertyPath>)| {
        key::unique(ordinal, &effective, partition_key, &unique_values(paths, value))
    };
    (0_u8..).zip(&definition.unique_keys).map(key).collect()
}

/// A missing value counts as null.
pub(crate) fn unique_values(paths: &[PropertyPath], item: &Value) -> Vec<Value> {
    let value = |path: &PropertyPath| match path.value_in(item) {
        Value::Undefined => Value::Null,
        value => value.clone(),
    };
    paths.iter().map(value).collect()
}

/// The row that the value of a unique key names.
pub(crate) fn unique_holder(bytes: &[u8]) -> Result<Row> {
    let row = bytes.try_into().map(u64::from_be_bytes);
    row.map(Row).map_err(|_| Error::internal("a unique key is corrupt"))
}
