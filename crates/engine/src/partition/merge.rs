//! Rewriting of entries in a merge. Most entries are copied unchanged, but each parent assigned its own path
//! ids ([`PathIdMap`]) and its own LSNs, so two changes may have the same LSN.
//!
//! Before the copy both parents advance their LSNs to disjoint ranges, so that no LSN is assigned twice from
//! then on. Under an LSN from before, the changes of the second parent are placed after those of the
//! first, and records that contain their position in the feed are rewritten.

use orrery_storage::key::{self, FeedPlace};
use orrery_storage::{
    Commit, Copied, HeadChange, Part, ReadAt, Scan, Snapshot, Space, Store, Value, record,
};
use orrery_types::{Error, KeyRange, Lsn, Result};

use super::copy::{EntryRouter, FindRow, RoutedEntries};
use super::path_ids::{PathIdMap, Translated};
use crate::change_feed::history::Horizon;
use crate::error::storage;
use crate::partition::PhysicalPartition;
use crate::secondary_index::position;

/// LSNs that the parents skip, so that none is assigned twice during the copy.
const MARGIN: u64 = 1 << 20;
const GAP: u64 = 1 << 28;

/// Rewrites the entries of two parents for their child.
pub(super) struct MergeRouter<'e> {
    path_ids: PathIdMap,
    /// Up to here both parents may have assigned the same LSN.
    base: Lsn,
    /// The first parent, with everything up to the base.
    first: Box<dyn Snapshot + 'e>,
    /// The keys of the parents.
    ranges: [KeyRange; 2],
    /// Index entries that arrived before their path id.
    early: Vec<(usize, Copied)>,
}

impl<'e> MergeRouter<'e> {
    /// Advances the LSNs of the parents, before or after their journals start.
    pub(super) fn begin(
        store: &'e dyn Store,
        first: &PhysicalPartition,
        second: &PhysicalPartition,
    ) -> Result<Self> {
        let lsn = |p: &PhysicalPartition| store.lsn(p.shard).map_err(storage);
        let base = Lsn(lsn(first)?.max(lsn(second)?).0 + MARGIN);
        let least = [base, Lsn(base.0 + GAP)];
        let raise = |(p, least_lsn): (&PhysicalPartition, Lsn)| {
            let change = HeadChange { least_lsn, ..HeadChange::epoch(p.epoch) };
            Part::of_head(p.shard, p.epoch, change)
        };
        let parts = [first, second].into_iter().zip(least).map(raise).collect();
        let raised = store.commit(Commit::new(parts)).map_err(storage)?;
        if raised.lsns != least {
            // So many commits came meanwhile that the margin was too small.
            return Err(Error::RetryWith);
        }
        let snapshot = store.snapshot(first.shard, ReadAt::Latest).map_err(storage)?;
        let other = store.snapshot(second.shard, ReadAt::Latest).map_err(storage)?;
        let path_ids = PathIdMap::begin([&*snapshot, &*other])?;
        let ranges = [first.range.clone(), second.range.clone()];
        drop(other);
        Ok(Self { path_ids, base, first: snapshot, ranges, early: Vec::new() })
    }

    /// How many places of a commit's changes, or versions, the first parent has taken.
    fn taken(&self, lsn: Lsn, place: FeedPlace) -> Result<u16> {
        if lsn > self.base {
            return Ok(0);
        }
        let bounds = place.of_commit(lsn);
        let scan =
            Scan { reverse: true, keys_only: true, ..bounds.scan(Space::Feed, 1, usize::MAX) };
        let last = self.first.scan(&scan).map_err(storage)?;
        let last = last.first().and_then(|entry| place.parse(&entry.key));
        last.map_or(Ok(0), |(_, seq)| next_place(seq, 1))
    }

    /// An entry of the second parent's feed, after those of the first.
    fn later(&self, mut entry: Copied) -> Result<Copied> {
        for place in [FeedPlace::Change, FeedPlace::Version] {
            if let Some((lsn, seq)) = place.parse(&entry.key) {
                entry.key = place.key(lsn, next_place(seq, self.taken(lsn, place)?)?);
                return Ok(entry);
            }
        }
        Err(Error::internal("a feed key of a shard that is being merged is corrupt"))
    }

    /// A record of the second parent, with its new place in the feed.
    fn record(&self, mut entry: Copied) -> Result<Copied> {
        if key::parse_item(&entry.key).is_none() {
            return Ok(entry);
        }
        let Some(value) = &mut entry.value else { return Ok(entry) };
        let taken = self.taken(value.version, FeedPlace::Change)?;
        if taken > 0 {
            let (mut header, body) = record::decode(&value.bytes).map_err(storage)?;
            header.feed_seq = next_place(header.feed_seq, taken)?;
            value.bytes = record::encode(&header, body).into();
        }
        Ok(entry)
    }

    fn index(&mut self, parent: usize, entry: Copied, out: &mut RoutedEntries) -> Result<()> {
        match self.path_ids.index_entry(parent, entry)? {
            Translated::Entry(entry) => out.push(0, entry),
            // An entry without a path id was never copied.
            Translated::Unknown(entry) if entry.value.is_none() => {}
            Translated::Unknown(entry) => self.early.push((parent, entry)),
        }
        Ok(())
    }

    fn meta(&mut self, parent: usize, entry: Copied, out: &mut RoutedEntries) -> Result<()> {
        let own = [
            key::rows_reserved(),
            key::index_ids(),
            key::index_rebuilt(),
            key::versions_horizon(),
            key::merged_at(),
        ];
        let is_note = key::rule_of(&entry.key).is_some();
        let is_position = key::parse_secondary_position(&entry.key).is_some();
        // The progress of a rule's build is determined again.
        if own.contains(&entry.key)
            || is_position
            || (is_note && key::item_beside(&entry.key).is_none())
        {
            return Ok(());
        }
        if let Some(put) = self.path_ids.learn(parent, &entry)? {
            for (key, number) in put {
                out.push(0, numbered(key, number));
            }
            return Ok(());
        }
        out.push(0, entry);
        Ok(())
    }
}

impl EntryRouter for MergeRouter<'_> {
    /// Path ids change, and two feeds become one.
    const KEEPS_ORDER: bool = false;

    fn route(
        &mut self,
        parent: usize,
        entry: Copied,
        _: FindRow<'_>,
        out: &mut RoutedEntries,
    ) -> Result<()> {
        let second = parent > 0;
        let entry = match entry.space {
            Space::Index => return self.index(parent, entry, out),
            Space::Meta => return self.meta(parent, entry, out),
            Space::Items if second => self.record(entry)?,
            Space::Feed if second => self.later(entry)?,
            Space::Items | Space::Feed | Space::Ttl => entry,
        };
        out.push(0, entry);
        Ok(())
    }

    fn finish_path_ids(&mut self, out: &mut RoutedEntries) -> Result<()> {
        for put in self.path_ids.finish()? {
            out.push(0, numbered(put.0, put.1));
        }
        for (parent, entry) in std::mem::take(&mut self.early) {
            self.index(parent, entry, out)?;
        }
        Ok(())
    }

    fn conclude(
        &mut self,
        parents: &[&dyn Snapshot],
        lsn: Lsn,
        out: &mut RoutedEntries,
    ) -> Result<()> {
        let [first, second] = parents else { return Err(Error::internal("a merge is of two")) };
        let skipped =
            first.lsn() < Lsn(self.base.0 + GAP) && second.lsn() >= Lsn(self.base.0 + GAP);
        if !skipped || !self.early.is_empty() || !self.path_ids.is_finished() {
            return Err(Error::internal("two shards cannot be merged as they are"));
        }
        let put = |key: Vec<u8>, bytes: Vec<u8>| Copied {
            space: Space::Meta,
            key,
            value: Some(Value { version: Lsn(1), bytes: bytes.into() }),
        };
        out.push(0, numbered(key::index_ids(), self.path_ids.last()));
        let [range, other] = &self.ranges;
        let horizon = Horizon::read(*first)?.joined(&other.min, &Horizon::read(*second)?);
        if !horizon.is_zero() {
            out.push(0, put(key::versions_horizon(), horizon.to_bytes()));
        }
        for (key, position) in position::joined([(*first, range), (*second, other)])? {
            out.push(0, put(key, position));
        }
        out.push(0, put(key::merged_at(), lsn.0.to_be_bytes().to_vec()));
        Ok(())
    }
}

fn numbered(key: Vec<u8>, number: u32) -> Copied {
    let value = Value { version: Lsn(1), bytes: number.to_be_bytes().to_vec().into() };
    Copied { space: Space::Meta, key, value: Some(value) }
}

fn next_place(seq: u16, by: u16) -> Result<u16> {
    seq.checked_add(by).ok_or_else(|| {
        Error::invalid("The ranges cannot be merged: too many changes stand under one LSN.")
    })
}
