//! From a write buffer to a commit: one part for each shard, with the preconditions of everything that was
//! read and the writes of everything that changes with the items, so that an item and what is derived
//! from it are always one commit.
//!
//! The preconditions of a part stand in this order: items that were only read, items that are written,
//! unique keys, keys beside items, the range, path ids.

use std::collections::BTreeSet;

use orrery_storage::{Commit, Part, Put, StorageError, key};
use orrery_types::{Error, Result};

use super::state::TransactionState;
use super::write_buffer::{ItemEntry, ShardIndex, ShardWrites};
use crate::error::storage;
use crate::maintain::index_terms::{Indexer, PathIdAllocation};
use crate::maintain::references;
use crate::maintain::unique_keys::{self, UniqueKeyCheck};
use crate::maintain::{COMMIT_MAINTAINERS, CommitContext};
use crate::partition::PhysicalPartition;
use crate::{Container, Engine};

/// A commit that is ready, with the unique keys that it requires to be free.
pub(crate) struct PreparedCommit<'t> {
    parts: Vec<Part>,
    unique: Vec<UniqueKeyCheck<'t>>,
}

impl<'t> PreparedCommit<'t> {
    pub(crate) fn into_commit(self) -> (Commit, Vec<UniqueKeyCheck<'t>>) {
        (Commit::new(self.parts), self.unique)
    }

    /// The part of a shard.
    pub(crate) fn part_of(&mut self, partition: &PhysicalPartition) -> &mut Part {
        part_of(&mut self.parts, partition)
    }
}

/// The part of a shard, which is added if there is none.
pub(crate) fn part_of<'p>(parts: &'p mut Vec<Part>, partition: &PhysicalPartition) -> &'p mut Part {
    let at = parts.iter().position(|part| part.shard == partition.shard).unwrap_or_else(|| {
        parts.push(Part::new(partition.shard, partition.epoch));
        parts.len() - 1
    });
    &mut parts[at]
}

/// Everything that the items of one shard change, in one part.
pub(crate) fn item_part<'s>(
    engine: &Engine,
    indexer: &Indexer<'s>,
    entries: &[&'s ItemEntry<'s>],
) -> Result<(Part, Vec<UniqueKeyCheck<'s>>)> {
    let mut part = Part::new(indexer.partition.shard, indexer.partition.epoch);
    let context = CommitContext { engine, indexer: *indexer };
    for entry in entries {
        part.preconditions.push(entry.precondition());
        if entry.is_written() {
            for maintainer in COMMIT_MAINTAINERS {
                maintainer.maintain(entry, &context, &mut part)?;
            }
        }
    }
    let unique = unique_keys::maintain(indexer.container, entries, &mut part)?;
    if engine.is_shared() {
        protect_from_processes(indexer.container, entries, &mut part);
    }
    Ok((part, unique))
}

/// What locks protect within a process: every writer names its stripes, for readers of a range, and
/// requires that no logical partition of which it has seen an item was erased.
fn protect_from_processes(container: &Container, entries: &[&ItemEntry<'_>], part: &mut Part) {
    let written = entries.iter().filter(|entry| entry.is_written());
    let stripes: BTreeSet<u8> = written.map(|entry| entry.at.stripe()).collect();
    part.stripes.extend(stripes);
    let (definition, shard) = (&container.definition.partition_key, part.shard);
    let prefix = |entry: &&ItemEntry<'_>| {
        let key = &entry.at.partition_key;
        key::items_of(&definition.effective(key), key).from
    };
    let seen: BTreeSet<Vec<u8>> = entries.iter().map(prefix).collect();
    part.preconditions
        .extend(seen.iter().map(|prefix| container.erasures.precondition(shard, prefix)));
}

impl TransactionState<'_> {
    /// Its commit: the part of the shard that it was begun on first, then those of other shards.
    pub(crate) fn assemble(&self) -> Result<PreparedCommit<'_>> {
        let (mut parts, mut unique) = (Vec::with_capacity(1), vec![]);
        for (index, shard) in self.writes.shards() {
            if index != ShardIndex::FIRST && shard.items().is_empty() {
                continue;
            }
            let entries = shard.in_commit_order();
            let (part, required) = item_part(self.engine, &self.indexer(index), &entries)?;
            unique.extend(required);
            parts.push(part);
        }
        if !self.reads.is_empty() {
            for (index, shard) in self.writes.shards().filter(|(i, _)| self.reads.has_read(*i)) {
                let part = part_of(&mut parts, shard.partition);
                part.preconditions.extend(self.reads.preconditions(index));
            }
        }
        for (_, shard) in self.writes.shards() {
            let Some(model) = self.model_of(shard.container) else { continue };
            put_keys(shard, &mut parts);
            if !self.engine.is_shared() {
                name_stripes(shard, &mut parts);
            }
            references::put_references(self, model, shard, &mut parts)?;
        }
        if let (PathIdAllocation::WithCommit(ids), Some(part)) =
            (self.options().path_ids, parts.first_mut())
        {
            ids.borrow().write(part);
        }
        Ok(PreparedCommit { parts, unique })
    }

    /// Whether all that was read is of one instant, so that a refusal needs no validation.
    pub(crate) fn is_of_one_instant(&self) -> bool {
        if self.engine.is_shared() && !self.is_under_current_definitions() {
            return false;
        }
        if self.view().is_database() {
            return true;
        }
        let first = self.writes.shard(ShardIndex::FIRST);
        if self.view().is_fixed(first.partition.shard) {
            let mut read = self
                .writes
                .shards()
                .filter(|(index, shard)| !shard.items().is_empty() || self.reads.has_read(*index));
            return read.all(|(_, shard)| self.view().is_fixed(shard.partition.shard));
        }
        // What a model looks at beside items has no version of its own.
        self.options().model.is_none() && first.items().len() + self.reads.len() <= 1
    }

    /// Whether no other process has replaced a definition that it goes by, as far as this one knows: what it has
    /// read may have passed under the new one.
    fn is_under_current_definitions(&self) -> bool {
        self.writes.shards().all(|(_, shard)| self.engine.epochs().is_current(shard.container))
    }

    /// The read set as parts without writes.
    fn read_parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (index, shard) in self.writes.shards() {
            if shard.items().is_empty() && !self.reads.has_read(index) {
                continue;
            }
            let mut part = Part::new(shard.partition.shard, shard.partition.epoch);
            part.preconditions.extend(shard.items().values().map(|entry| entry.precondition()));
            part.preconditions.extend(self.reads.preconditions(index));
            parts.push(part);
        }
        parts
    }

    /// Whether everything that was read is still so, all of it at one instant; `held` is read beside it.
    pub(crate) fn validate(&self, held: Option<Part>) -> Result<bool> {
        let mut parts = self.read_parts();
        if let Some(held) = held {
            match parts.iter_mut().find(|part| part.shard == held.shard) {
                Some(part) => part.preconditions.extend(held.preconditions),
                None => parts.push(held),
            }
        }
        match self.engine.store.commit(Commit::new(parts)) {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict(_)) => Ok(false),
            Err(error) => Err(storage(error)),
        }
    }

    /// Whether a refusal may be returned; else the work must run again.
    pub(crate) fn justifies(&self, refusal: &Error) -> Result<bool> {
        if refusal.retryable() || self.is_of_one_instant() {
            return Ok(true);
        }
        self.validate(None)
    }
}

/// Adds the keys that a transaction writes beside items.
fn put_keys(shard: &ShardWrites<'_>, parts: &mut Vec<Part>) {
    let puts = shard.keys();
    for (space, key, value) in puts {
        let part = part_of(parts, shard.partition);
        match value {
            Some(value) => part.puts.push(Put { space, key: key.to_vec(), value: value.to_vec() }),
            None => part.deletes.push((space, key.to_vec())),
        }
    }
    crate::maintain::kept_on_target::put_tallies(shard, parts);
}

/// What follows from a write holds no lock of the logical partition that it lands in: the stripe tells
/// transactions that have read a range there.
fn name_stripes(shard: &ShardWrites<'_>, parts: &mut Vec<Part>) {
    let written = shard.items().values().filter(|entry| entry.is_written());
    let stripes: BTreeSet<u8> = written.map(|entry| entry.at.stripe()).collect();
    if !stripes.is_empty() {
        part_of(parts, shard.partition).stripes.extend(stripes);
    }
}
