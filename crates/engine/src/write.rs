//! The write pipeline. Every change of an item goes through here: read what is there, decide, make
//! the after image, gather everything that must change with it, and commit all of it at once. If
//! another writer was faster, the commit's checks fail, nothing was written, and it starts over.

use bytes::Bytes;
use orrery_storage::key::{self, Row};
use orrery_storage::record::{self, Header};
use orrery_storage::{Check, Commit, Expect, Part, Put, Space, StorageError};
use orrery_types::{Error, Lsn, PropertyPath, Result, Value, limits};

use crate::charge;
use crate::item_body::ItemBody;
use crate::items::{Located, Outcome, Place, Written};
use crate::stamp::Stamp;
use crate::storage_error::storage;
use crate::ttl::expiry;
use crate::{Container, Engine};

/// What to do with an item, given what is there.
pub(crate) enum Decision {
    Put(ItemBody),
    Delete,
}

/// The item as it is, for deciding.
pub(crate) struct Current<'r> {
    pub(crate) stamp: Stamp,
    text: &'r [u8],
}

impl Current<'_> {
    pub(crate) fn value(&self) -> Result<Value> {
        Value::parse(self.text).map_err(|e| Error::internal(format!("a stored item: {e}")))
    }
}

/// The stored record that a write replaces, expired or not.
struct Before {
    version: Lsn,
    header: Header,
    bytes: Vec<u8>,
}

impl Before {
    fn text(&self) -> &[u8] {
        self.bytes.get(record::BODY_AT..).unwrap_or_default()
    }
}

/// What a write replaces it with.
struct After {
    body: ItemBody,
    row: Row,
    stamp: Stamp,
    text: String,
}

impl Engine {
    /// Runs `decide` on what is there until its decision is committed.
    pub(crate) fn write(
        &self,
        container: &Container,
        located: &Located<'_>,
        decide: &dyn Fn(Option<&Current<'_>>) -> Result<Decision>,
    ) -> Result<Written> {
        self.write_to(container, located, located, decide)
    }

    /// The same, with the after image at another place of the same logical partition.
    pub(crate) fn write_to(
        &self,
        container: &Container,
        located: &Located<'_>,
        target: &Located<'_>,
        decide: &dyn Fn(Option<&Current<'_>>) -> Result<Decision>,
    ) -> Result<Written> {
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            let before = self.before(located)?;
            let visible = before.as_ref().filter(|b| !self.is_expired(container, &b.header));
            let current = visible.map(|b| Current { stamp: stamp_of(&b.header), text: b.text() });
            let after = match decide(current.as_ref())? {
                Decision::Delete => None,
                Decision::Put(body) => {
                    let row = visible.map(|b| b.header.row);
                    Some(self.after(container, located, row, body)?)
                }
            };
            let outcome = match (&after, visible) {
                (None, _) => Outcome::Deleted,
                (Some(_), None) => Outcome::Created,
                (Some(_), Some(_)) => Outcome::Replaced,
            };
            let change = Change { located, target, before: before.as_ref(), after: after.as_ref() };
            let (part, guards) = part(container, &change)?;
            let written_bytes = after.as_ref().map_or(0, |a| a.text.len());
            match self.store.commit(Commit { parts: vec![part] }) {
                Ok(committed) => {
                    let lsn = committed.lsns.first().copied().unwrap_or_default();
                    let stamp =
                        after.as_ref().map(|a| a.stamp).or(visible.map(|b| stamp_of(&b.header)));
                    return Ok(Written {
                        outcome,
                        stamp: stamp.ok_or(Error::NotFound)?,
                        body: after.map_or_else(Bytes::new, |a| Bytes::from(a.text)),
                        place: Place { partition: located.partition.id, lsn, item_lsn: lsn },
                        charge: charge::write(
                            outcome,
                            written_bytes.max(before.map_or(0, |b| b.bytes.len())),
                        ),
                    });
                }
                Err(StorageError::Conflict { check, .. }) => {
                    match guards.into_iter().find(|g| g.check == check).map(|g| g.of) {
                        Some(Guarded::Unique(key)) => {
                            self.resolve_unique(container, located, &key)?;
                        }
                        Some(Guarded::Target) if !self.purge_expired(container, target)? => {
                            return Err(Error::AlreadyExists);
                        }
                        _ => {}
                    }
                }
                Err(error) => return Err(storage(error)),
            }
        }
        Err(Error::RetryWith)
    }

    fn before(&self, located: &Located<'_>) -> Result<Option<Before>> {
        let shard = located.partition.shard;
        let (_, value) = self.store.get(shard, Space::Items, &located.key).map_err(storage)?;
        let Some(value) = value else { return Ok(None) };
        let (header, _) = record::decode(&value.bytes).map_err(storage)?;
        Ok(Some(Before { version: value.version, header, bytes: value.bytes }))
    }

    /// The after image: an item keeps its number as long as it lives.
    fn after(
        &self,
        container: &Container,
        located: &Located<'_>,
        row: Option<Row>,
        body: ItemBody,
    ) -> Result<After> {
        let row = match row {
            Some(row) => row,
            None => located.partition.next_row(&*self.store)?,
        };
        let stamp = self.stamper.next();
        let text = body.to_text(container, row, stamp)?;
        Ok(After { body, row, stamp, text })
    }

    /// A unique key is taken. If an expired item holds it, that item is removed now and the write
    /// may try again; else the write is refused.
    fn resolve_unique(
        &self,
        container: &Container,
        located: &Located<'_>,
        key: &[u8],
    ) -> Result<()> {
        let shard = located.partition.shard;
        let (_, holder) = self.store.get(shard, Space::Index, key).map_err(storage)?;
        let Some(holder) = holder else { return Ok(()) };
        let row = holder.bytes.try_into().map(u64::from_be_bytes);
        let row = Row(row.map_err(|_| Error::internal("a unique key is corrupt"))?);
        if self.purge_expired_row(container, located.partition, row)? {
            return Ok(());
        }
        Err(Error::UniqueKeyViolation)
    }

    /// Removes an item if it has expired; whether it is gone afterwards.
    pub(crate) fn purge_expired(
        &self,
        container: &Container,
        located: &Located<'_>,
    ) -> Result<bool> {
        let Some(part) = self.removal_of_expired(container, located)? else {
            return Ok(self.before(located)?.is_none());
        };
        match self.store.commit(Commit { parts: vec![part] }) {
            // A conflict means that somebody wrote or removed it: the caller looks again.
            Ok(_) | Err(StorageError::Conflict { .. }) => Ok(true),
            Err(error) => Err(storage(error)),
        }
    }

    /// The writes that remove an item with everything beside it, if it has expired.
    pub(crate) fn removal_of_expired(
        &self,
        container: &Container,
        located: &Located<'_>,
    ) -> Result<Option<Part>> {
        let Some(before) = self.before(located)? else { return Ok(None) };
        if !self.is_expired(container, &before.header) {
            return Ok(None);
        }
        let change = Change { located, target: located, before: Some(&before), after: None };
        part(container, &change).map(|(part, _)| Some(part))
    }
}

/// An item before and after a write, and where it stands.
#[derive(Clone, Copy)]
struct Change<'a> {
    located: &'a Located<'a>,
    target: &'a Located<'a>,
    before: Option<&'a Before>,
    after: Option<&'a After>,
}

impl Change<'_> {
    /// Whether the after image has the row and the key of the before image.
    fn keeps_row(&self) -> bool {
        let same_row = |b: &Before, a: &After| b.header.row == a.row;
        self.target.key == self.located.key
            && self.before.zip(self.after).is_some_and(|(b, a)| same_row(b, a))
    }
}

/// What a check of a part stands for, by its place in the part.
struct Guard {
    check: usize,
    of: Guarded,
}

enum Guarded {
    /// The key of the index under which the unique values stand.
    Unique(Vec<u8>),
    /// The place to which an item is renamed.
    Target,
}

/// Everything that changes with the item, in one part: the record, its row, its unique keys,
/// its expiry and its feed entry. Also tells what the checks after the first one guard.
fn part(container: &Container, change: &Change<'_>) -> Result<(Part, Vec<Guard>)> {
    let Change { located, target, before, after } = *change;
    let partition = located.partition;
    let mut part = Part::new(partition.shard, partition.epoch);
    let mut guards = Vec::new();
    let expect = before.map_or(Expect::Absent, |b| Expect::Version(b.version));
    let key = located.key.clone();
    part.checks.push(Check::Key { space: Space::Items, key, expect });
    if let Some(before) = before {
        unwrite(container, change, before, &mut part);
    }
    if let Some(after) = after {
        if target.key != located.key {
            guards.push(Guard { check: part.checks.len(), of: Guarded::Target });
            let (key, expect) = (target.key.clone(), Expect::Absent);
            part.checks.push(Check::Key { space: Space::Items, key, expect });
        }
        write_after(container, change, after, &mut part);
    }
    unique_keys(container, change, &mut part, &mut guards)?;
    Ok((part, guards))
}

/// Takes back what the before image had written beside its record.
fn unwrite(container: &Container, change: &Change<'_>, before: &Before, part: &mut Part) {
    let header = &before.header;
    // The feed names every item once, at its latest change.
    part.deletes.push((Space::Feed, key::feed(before.version, header.feed_seq).to_vec()));
    if let Some(expiry_s) = expiry(&container.definition, header) {
        part.deletes.push((Space::Ttl, key::ttl(expiry_s, header.row).to_vec()));
    }
    if !change.keeps_row() {
        part.deletes.push((Space::Items, key::row(header.row).to_vec()));
    }
    if change.after.is_none() || change.target.key != change.located.key {
        part.deletes.push((Space::Items, change.located.key.clone()));
    }
}

/// Writes the record and what goes with it, but for unique keys.
fn write_after(container: &Container, change: &Change<'_>, after: &After, part: &mut Part) {
    let target = &change.target.key;
    let header = Header {
        etag: after.stamp.etag,
        ts_s: after.stamp.ts,
        row: after.row,
        feed_seq: 0,
        ttl_s: after.body.ttl,
    };
    let value = record::encode(&header, after.text.as_bytes());
    part.puts.push(Put { space: Space::Items, key: target.clone(), value });
    if !change.keeps_row() {
        let (key, value) = (key::row(after.row).to_vec(), target.clone());
        part.puts.push(Put { space: Space::Items, key, value });
    }
    if let Some(expiry_s) = expiry(&container.definition, &header) {
        let (key, value) = (key::ttl(expiry_s, after.row).to_vec(), target.clone());
        part.puts.push(Put { space: Space::Ttl, key, value });
    }
    part.feed.push(target.clone());
}

/// Unique keys that change: the old ones go, the new ones must be free.
fn unique_keys(
    container: &Container,
    change: &Change<'_>,
    part: &mut Part,
    guards: &mut Vec<Guard>,
) -> Result<()> {
    if container.definition.unique_keys.is_empty() {
        return Ok(());
    }
    let corrupt = |e| Error::internal(format!("a stored item: {e}"));
    let before_value =
        change.before.map(|b| Value::parse(b.text())).transpose().map_err(corrupt)?;
    let partition_key = &change.located.partition_key;
    let effective = container.definition.partition_key.effective(partition_key);
    for (ordinal, paths) in (0_u8..).zip(&container.definition.unique_keys) {
        let key_of = |value: &Value| {
            key::unique(ordinal, &effective, partition_key, &unique_values(paths, value))
        };
        let old = before_value.as_ref().map(key_of);
        let new = change.after.map(|a| key_of(&a.body.value));
        let unchanged = old == new;
        if !unchanged {
            part.deletes.extend(old.map(|key| (Space::Index, key)));
        }
        let (Some(key), Some(after)) = (new, change.after) else { continue };
        let same_row = change.before.is_some_and(|b| b.header.row == after.row);
        if unchanged && same_row {
            continue;
        }
        if !unchanged {
            let of = Guarded::Unique(key.clone());
            guards.push(Guard { check: part.checks.len(), of });
            let (key, expect) = (key.clone(), Expect::Absent);
            part.checks.push(Check::Key { space: Space::Index, key, expect });
        }
        let value = after.row.0.to_be_bytes().to_vec();
        part.puts.push(Put { space: Space::Index, key, value });
    }
    Ok(())
}

/// A missing value counts as null.
pub(crate) fn unique_values(paths: &[PropertyPath], item: &Value) -> Vec<Value> {
    let value = |path: &PropertyPath| match path.value_in(item) {
        Value::Undefined => Value::Null,
        value => value.clone(),
    };
    paths.iter().map(value).collect()
}

pub(crate) fn stamp_of(header: &Header) -> Stamp {
    Stamp { etag: header.etag, ts: header.ts_s }
}
