//! Commit validation. The commits of a group are validated one after another, each against the
//! database and against what the commits before it in the group write. Those that pass share one
//! write batch; one that fails adds nothing to it.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};
use orrery_types::{Epoch, Lsn, ShardId};
use rocksdb::WriteBatch;

use super::batch::BatchBuilder;
use super::commit_queue::Answer;
use super::layout::{self, Header};
use super::{Core, read_error};
use crate::shard_head::ShardHead;
use crate::{
    Commit, FailedPrecondition, HeadChange, Part, Precondition, ShardState, Space, StorageError,
};

type Key<'g> = (ShardId, Space, &'g [u8]);

/// What the group does to a key.
#[derive(Clone, Copy, Debug)]
enum KeyState {
    Unchanged,
    Written(Lsn),
    Deleted,
}

struct GroupShard {
    head: Arc<ShardHead>,
    /// LSN after the commits accepted so far.
    lsn: Lsn,
    /// Stripes that those commits change. They are published with the LSN, so that a batch that is
    /// built again, or never written, has no effect.
    stripes: HashMap<u8, Lsn>,
    /// The last of those commits that changes what may be cached.
    control: Option<Lsn>,
    /// The last change of the head by those commits.
    change: Option<HeadChange>,
    ends_copy: bool,
}

impl GroupShard {
    /// Those after the commits accepted so far.
    fn epoch_and_state(&self) -> (Epoch, ShardState) {
        match &self.change {
            Some(change) => (change.epoch, change.to),
            None => (self.head.epoch(), self.head.state()),
        }
    }
}

/// What a batch does to a shard, to be published once it is written.
pub(super) struct ShardUpdate {
    head: Arc<ShardHead>,
    lsn: Lsn,
    stripes: HashMap<u8, Lsn>,
    control: Option<Lsn>,
    change: Option<HeadChange>,
    ends_copy: bool,
}

impl ShardUpdate {
    /// Whether the shard is a copy that goes into use.
    pub(super) fn ends_copy(&self) -> bool {
        self.ends_copy
    }

    /// Makes it visible to readers and to the validation of later groups.
    pub(super) fn publish(&self) {
        for (stripe, lsn) in &self.stripes {
            self.head.touch(&[*stripe], *lsn);
        }
        if let Some(lsn) = self.control {
            self.head.set_control(lsn);
        }
        if let Some(change) = &self.change {
            self.head.change(change);
        }
        self.head.raise(self.lsn);
    }
}

/// A write to the index; without a value it deletes the key.
struct IndexWrite<'g> {
    shard: ShardId,
    key: &'g [u8],
    value: Option<&'g [u8]>,
}

pub(super) struct GroupValidator<'g> {
    core: &'g Core,
    batch: BatchBuilder,
    /// Whether the group has several commits. Then their index writes go into the batch in the order of
    /// their keys: items that are written together share values, so that most entries of the memtable come
    /// right behind the one inserted before, and are not searched for.
    sorts_index: bool,
    index_writes: Vec<IndexWrite<'g>>,
    shards: HashMap<ShardId, GroupShard>,
    /// The keys that some commit of the group checks, and no others: most writes are to index
    /// terms, which no commit checks.
    checked: HashMap<Key<'g>, KeyState>,
    /// The spaces of those keys, so that writes to others are not even looked up.
    checked_spaces: u8,
    key: Vec<u8>,
}

impl<'g> GroupValidator<'g> {
    /// `size_bytes` is the expected size of the batch, so that its buffer is allocated once.
    pub(super) fn new(core: &'g Core, commits: &[&'g Commit], size_bytes: usize) -> Self {
        let (mut checked, mut checked_spaces) = (HashMap::new(), 0);
        // No earlier commit of the group affects the preconditions of the first one.
        for part in commits.iter().skip(1).flat_map(|commit| &commit.parts) {
            for precondition in &part.preconditions {
                if let Some((space, key)) = precondition.key() {
                    checked.insert((part.shard, space, key), KeyState::Unchanged);
                    checked_spaces |= 1 << space as u8;
                }
            }
        }
        Self {
            core,
            batch: BatchBuilder::new(core.family_ids, size_bytes),
            sorts_index: commits.len() > 1,
            index_writes: Vec::new(),
            shards: HashMap::new(),
            checked,
            checked_spaces,
            key: Vec::new(),
        }
    }

    /// Validates a commit and, if it passes, adds its writes to the batch.
    pub(super) fn add(&mut self, commit: &'g Commit) -> Answer {
        for part in &commit.parts {
            self.validate(part)?;
        }
        Ok(commit.parts.iter().map(|part| self.apply(part)).collect())
    }

    /// The batch, and what it does to each shard.
    pub(super) fn finish(mut self) -> (WriteBatch, Vec<ShardUpdate>) {
        self.add_index_writes();
        let mut updates = Vec::with_capacity(self.shards.len());
        for (id, shard) in self.shards {
            if shard.lsn > shard.head.lsn() || shard.change.is_some() {
                let (epoch, state) = shard.epoch_and_state();
                self.batch.put_header(id, Header { epoch, lsn: shard.lsn, state });
                let GroupShard { head, lsn, stripes, control, change, ends_copy } = shard;
                updates.push(ShardUpdate { head, lsn, stripes, control, change, ends_copy });
            }
        }
        (self.batch.finish(), updates)
    }

    /// Writes of the same key keep their order.
    fn add_index_writes(&mut self) {
        let mut writes = std::mem::take(&mut self.index_writes);
        writes.sort_by(|a, b| (a.shard, a.key).cmp(&(b.shard, b.key)));
        for IndexWrite { shard, key, value } in writes {
            match value {
                Some(value) => self.batch.put(shard, Space::Index, key, value, Lsn(0)),
                None => self.batch.delete(shard, Space::Index, key),
            }
        }
    }

    fn validate(&mut self, part: &Part) -> Result<(), StorageError> {
        let shard = match self.shards.entry(part.shard) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let head = self.core.head(part.shard)?;
                let (lsn, stripes) = (head.lsn(), HashMap::new());
                let (control, change, ends_copy) = (None, None, false);
                entry.insert(GroupShard { head, lsn, stripes, control, change, ends_copy })
            }
        };
        let (epoch, state) = shard.epoch_and_state();
        if epoch != part.epoch || state != part.expected_state() {
            return Err(StorageError::Gone { epoch: Some(epoch) });
        }
        for precondition in &part.preconditions {
            if !self.holds(part.shard, precondition)? {
                return Err(FailedPrecondition::in_shard(part.shard, precondition));
            }
        }
        Ok(())
    }

    fn holds(&mut self, shard: ShardId, precondition: &Precondition) -> Result<bool, StorageError> {
        Ok(match precondition {
            Precondition::Absent { space, key } => self.version(shard, *space, key)?.is_none(),
            Precondition::Version { space, key, lsn } => {
                self.version(shard, *space, key)? == Some(*lsn)
            }
            Precondition::StripeUnchanged { stripe, since } => {
                let changed_at = self.shards.get(&shard).map(|shard| {
                    let in_group = shard.stripes.get(stripe).copied();
                    in_group.unwrap_or_else(|| shard.head.stripe(*stripe))
                });
                changed_at.is_some_and(|lsn| lsn <= *since)
            }
        })
    }

    /// The version of a key after the commits accepted so far; `None` if it does not exist.
    fn version(
        &mut self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<Option<Lsn>, StorageError> {
        match self.checked.get(&(shard, space, key)) {
            Some(KeyState::Written(lsn)) => return Ok(Some(*lsn)),
            Some(KeyState::Deleted) => return Ok(None),
            Some(KeyState::Unchanged) | None => {}
        }
        layout::write_key(shard, key, &mut self.key);
        // What is cached is as the database has it: only the thread that validates changes either.
        if space == Space::Items
            && let Some(value) = self.core.row_cache.get(&self.key, Lsn(u64::MAX))
        {
            return Ok(Some(value.version));
        }
        let damaged = |error: StorageError| error.at(shard, space, key);
        let found = self.core.db.get_pinned_cf(self.core.cf(space), &self.key);
        let found = found.map_err(|error| damaged(read_error(error)))?;
        found.map(|bytes| layout::version(space, &bytes)).transpose().map_err(damaged)
    }

    fn apply(&mut self, part: &'g Part) -> Lsn {
        let shard = self.shards.get_mut(&part.shard).expect("the shard was looked up to check it");
        if part.only_validates() {
            return shard.lsn;
        }
        if let Some(change) = part.head {
            shard.ends_copy |=
                change.from == ShardState::Building && change.least_lsn > shard.head.lsn();
            shard.change = Some(change);
        }
        shard.lsn = part.next_lsn(shard.lsn);
        let lsn = shard.lsn;
        if !part.takes_lsn() {
            return lsn;
        }
        if part.sets_control {
            shard.control = Some(lsn);
        }
        shard.stripes.extend(part.stripes.iter().map(|stripe| (*stripe, lsn)));
        for (space, key) in &part.deletes {
            if self.sorts_index && *space == Space::Index {
                self.index_writes.push(IndexWrite { shard: part.shard, key, value: None });
            } else {
                self.batch.delete(part.shard, *space, key);
            }
            self.record(part.shard, *space, key, KeyState::Deleted);
        }
        for put in &part.puts {
            if self.sorts_index && put.space == Space::Index {
                let value = Some(&put.value[..]);
                self.index_writes.push(IndexWrite { shard: part.shard, key: &put.key, value });
            } else {
                self.batch.put(part.shard, put.space, &put.key, &put.value, lsn);
            }
            self.record(part.shard, put.space, &put.key, KeyState::Written(lsn));
        }
        for (key, entry) in part.numbered(lsn) {
            self.batch.put(part.shard, Space::Feed, &key, entry, lsn);
        }
        lsn
    }

    fn record(&mut self, shard: ShardId, space: Space, key: &'g [u8], state: KeyState) {
        if self.checked_spaces & (1 << space as u8) != 0
            && let Some(known) = self.checked.get_mut(&(shard, space, key))
        {
            *known = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RocksOptions, RocksStore};
    use super::*;
    use crate::{Put, Store as _};

    const SHARD: ShardId = ShardId(1);

    /// A commit that has read a range of stripe 7, and writes into it.
    fn range_write(key: &str, since: Lsn) -> Commit {
        let mut part = Part::new(SHARD, Epoch(1));
        part.preconditions = vec![Precondition::StripeUnchanged { stripe: 7, since }];
        part.stripes = vec![7];
        let value = b"value".to_vec();
        part.puts = vec![Put { space: Space::Items, key: key.into(), value }];
        Commit::new(vec![part])
    }

    #[test]
    fn a_group_validates_the_same_again_and_has_no_effect_until_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        store.create_open_shard(SHARD, Epoch(1)).expect("a shard");
        let (first, second) = (range_write("a", Lsn(0)), range_write("b", Lsn(0)));
        let group = [&first, &second];
        let validated = || {
            let mut validator = GroupValidator::new(&store.core, &group, 0);
            let answers: Vec<Answer> = group.iter().map(|commit| validator.add(commit)).collect();
            (answers, validator.finish().1.len())
        };
        let failed = Precondition::StripeUnchanged { stripe: 7, since: Lsn(0) };
        let conflict = Err(FailedPrecondition::in_shard(SHARD, &failed));
        let expected = (vec![Ok(vec![Lsn(1)]), conflict.clone()], 1);
        assert_eq!(validated(), expected);
        // As after a stall: nothing was written in between.
        assert_eq!(validated(), expected);
        store.commit(first.clone()).expect("it was never written");
        assert_eq!(store.commit(second.clone()).map(drop), conflict.map(drop));
    }
}
