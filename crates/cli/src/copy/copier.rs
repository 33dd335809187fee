//! Copies a store entry by entry while it is written to, and compares the copy with it. Everything comes over as it is:
//! keys, values, versions and heads; so `_rid`, `_etag`, `_ts`, session tokens and positions of the change feed stay valid.
//!
//! ```text
//! copy ──▶ follow until little is left ──▶ compare while it goes on ──▶ close the source
//!      ──▶ follow to the end ──▶ compare what was written meanwhile ──▶ open the copy
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use orrery_storage::outgoing_copy::{read_entries, read_values};
use orrery_storage::{
    Commit, Copied, CopyBatch, Head, HeadChange, Part, ShardState, Space, StorageError, Store, key,
};
use orrery_types::limits::{STORE_COPY_KEYS, STORE_COPY_KEYS_MAX};
use orrery_types::stopwatch::Stopwatch;
use orrery_types::{Epoch, ShardId};

use super::source::CopySource;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::progress::ProgressLine;

/// Changes of the source are taken at least so often, so that its journals stay small.
const FOLLOW_PAUSE: Duration = Duration::from_millis(500);
/// The source is closed once so few changes came at once, or after so many attempts.
const CHANGES_LEFT: usize = 500;
const CATCH_UPS_MAX: usize = 200;

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyTally {
    pub(crate) shards: u64,
    /// Entries that were read page by page, and their bytes.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Changes that were written meanwhile.
    pub(crate) changes: u64,
    /// Time for which the source took no writes.
    pub(crate) closed: Duration,
}

type EntryName = (ShardId, Space, Vec<u8>);

/// A copy in progress.
pub(super) struct Copier<'c> {
    source: &'c mut dyn CopySource,
    target: Arc<dyn Store>,
    /// The shards of the target, with the epochs that they were made under.
    shards: BTreeMap<ShardId, Epoch>,
    /// Those that are still to be read.
    waiting: VecDeque<ShardId>,
    /// The heads of the source as of the last changes.
    heads: Vec<(ShardId, Head)>,
    /// What was written, or found different, since the comparison has begun; `None` if nothing is compared, or it is too much.
    suspects: Option<BTreeSet<EntryName>>,
    followed: Stopwatch,
    progress: ProgressLine,
    tally: CopyTally,
}

impl<'c> Copier<'c> {
    pub(super) fn new(source: &'c mut dyn CopySource, target: Arc<dyn Store>) -> Self {
        Self {
            source,
            target,
            shards: BTreeMap::new(),
            waiting: VecDeque::new(),
            heads: vec![],
            suspects: None,
            followed: Stopwatch::start(),
            progress: ProgressLine::of_items(None),
            tally: CopyTally::default(),
        }
    }

    /// Copies everything; afterwards the source takes no writes, and the target has what it has.
    pub(super) fn run(mut self) -> Result<CopyTally> {
        self.follow()?;
        for _ in 0..CATCH_UPS_MAX {
            self.copy_shards()?;
            if self.follow()? <= CHANGES_LEFT && self.waiting.is_empty() {
                break;
            }
        }
        self.suspects = Some(BTreeSet::new());
        self.compare()?;
        for _ in 0..CATCH_UPS_MAX {
            if self.follow()? <= CHANGES_LEFT {
                break;
            }
        }
        let closed = Stopwatch::start();
        self.source.close()?;
        loop {
            self.copy_shards()?;
            if self.follow()? == 0 && self.waiting.is_empty() {
                break;
            }
        }
        if self.suspects.is_none() {
            self.progress.say("much was written meanwhile: everything is compared once more");
            self.suspects = Some(BTreeSet::new());
            self.compare()?;
        }
        self.compare_suspects()?;
        self.open_target()?;
        self.tally.closed = closed.elapsed();
        self.tally.shards = self.shards.len() as u64;
        self.progress.end();
        Ok(self.tally)
    }

    /// Takes what was written to the source since the last time; returns how many changes it was.
    fn follow(&mut self) -> Result<usize> {
        interrupt::check()?;
        let CopyBatch { heads, entries } = self.source.changes()?;
        self.followed = Stopwatch::start();
        for (shard, head) in &heads {
            if !self.shards.contains_key(shard) {
                self.target.create_shard(*shard, head.epoch).map_err(|e| unwritten(&e))?;
                self.shards.insert(*shard, head.epoch);
                self.waiting.push_back(*shard);
            }
        }
        let is_there = |shard: &ShardId| heads.iter().any(|(other, _)| other == shard);
        let gone: Vec<ShardId> = self.shards.keys().copied().filter(|s| !is_there(s)).collect();
        for shard in gone {
            self.target.drop_shard(shard).map_err(|error| unwritten(&error))?;
            self.shards.remove(&shard);
            self.waiting.retain(|other| *other != shard);
        }
        self.heads = heads;
        let count = entries.len();
        for of_shard in entries.chunk_by(|a, b| a.0 == b.0) {
            let Some((shard, _)) = of_shard.first() else { continue };
            if !self.shards.contains_key(shard) {
                continue;
            }
            let entries: Vec<Copied> = of_shard.iter().map(|(_, entry)| entry.clone()).collect();
            self.target.copy_into(*shard, &entries).map_err(|error| unwritten(&error))?;
            for entry in entries {
                self.suspect((*shard, entry.space, entry.key));
            }
        }
        self.tally.changes += count as u64;
        Ok(count)
    }

    /// Notes an entry that is to be compared once the source is closed.
    fn suspect(&mut self, name: EntryName) {
        if let Some(suspects) = &mut self.suspects {
            suspects.insert(name);
            if suspects.len() > STORE_COPY_KEYS_MAX {
                self.suspects = None;
            }
        }
    }

    fn follow_in_time(&mut self) -> Result<()> {
        interrupt::check()?;
        if self.followed.elapsed() >= FOLLOW_PAUSE { self.follow().map(drop) } else { Ok(()) }
    }

    /// Reads the shards that were not read yet.
    fn copy_shards(&mut self) -> Result<()> {
        while let Some(shard) = self.waiting.pop_front() {
            for space in Space::ALL {
                let mut from = Vec::new();
                while let Some(entries) = self.source.entries(shard, space, from)? {
                    let Some(last) = entries.last() else { break };
                    from = key::after(&last.key);
                    self.target.copy_into(shard, &entries).map_err(|error| unwritten(&error))?;
                    self.tally.entries += entries.len() as u64;
                    self.tally.bytes +=
                        entries.iter().map(|entry| entry.size_bytes() as u64).sum::<u64>();
                    self.say("copied");
                    self.follow_in_time()?;
                    if !self.shards.contains_key(&shard) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn say(&self, done: &str) {
        let entries = crate::table::counted(self.tally.entries, "entry");
        let bytes = crate::table::size(self.tally.bytes);
        self.progress.set_step(self.tally.entries, &format!("{entries} {done}, {bytes}"));
    }

    /// Compares all entries of source and target. What differs may have been written meanwhile.
    fn compare(&mut self) -> Result<()> {
        let shards: Vec<ShardId> = self.shards.keys().copied().collect();
        for (shard, space) in
            shards.iter().flat_map(|shard| Space::ALL.map(|space| (*shard, space)))
        {
            self.say(&format!("copied; comparing shard {}", shard.0));
            let mut from = Vec::new();
            while self.shards.contains_key(&shard) {
                let Some(theirs) = self.source.entries(shard, space, from.clone())? else { break };
                let ours = read_entries(&*self.target, shard, space, &from);
                let ours = ours.map_err(|error| unwritten(&error))?;
                // Both are whole up to the key where the shorter page ends.
                let end =
                    [&theirs, &ours].into_iter().filter_map(|page| page.last()).map(|e| &e.key);
                let Some(up_to) = end.min().cloned() else { break };
                let up_to_end =
                    |page: Vec<Copied>| -> BTreeMap<Vec<u8>, Option<orrery_storage::Value>> {
                        let within = page.into_iter().filter(|entry| entry.key <= up_to);
                        within.map(|entry| (entry.key, entry.value)).collect()
                    };
                let (theirs, ours) = (up_to_end(theirs), up_to_end(ours));
                let differing: Vec<Vec<u8>> = theirs
                    .keys()
                    .chain(ours.keys())
                    .filter(|key| theirs.get(*key) != ours.get(*key))
                    .cloned()
                    .collect();
                for key in differing {
                    self.suspect((shard, space, key));
                }
                from = key::after(&up_to);
                self.follow_in_time()?;
            }
        }
        Ok(())
    }

    /// Compares what was written, or found different, since the comparison has begun; the source is closed.
    fn compare_suspects(&mut self) -> Result<()> {
        let suspects = self.suspects.take().unwrap_or_default();
        let suspects: Vec<(ShardId, Copied)> = suspects
            .into_iter()
            .filter(|(shard, ..)| self.shards.contains_key(shard))
            .map(|(shard, space, key)| (shard, Copied { space, key, value: None }))
            .collect();
        for keys in suspects.chunks(STORE_COPY_KEYS) {
            let ours = read_values(&*self.target, keys).map_err(|error| unwritten(&error))?;
            let theirs = self.source.values(keys.to_vec())?;
            if theirs.as_ref() != Some(&ours) {
                let text = "the copy differs from its source, and was removed; report this, and move the \
                            data by export and import";
                return Err(Failure::new(Exit::Damaged, text).into());
            }
        }
        Ok(())
    }

    /// Opens the shards of the target with the heads of the source, all of them or none.
    fn open_target(&mut self) -> Result<()> {
        let mut parts = Vec::with_capacity(self.heads.len());
        for (shard, head) in &self.heads {
            let made = *self.shards.get(shard).ok_or_else(|| anyhow!("a shard was not copied"))?;
            let open = HeadChange::state(ShardState::Building, ShardState::Open, head.epoch);
            let open = HeadChange { least_lsn: head.lsn, ..open };
            parts.push(Part::of_head(*shard, made, open));
        }
        self.target.commit(Commit::new(parts)).map_err(|error| unwritten(&error))?;
        let names: Vec<ShardId> = self.heads.iter().map(|(shard, _)| *shard).collect();
        let opened = self.target.heads(&names).map_err(|error| unwritten(&error))?;
        let is_same = |(theirs, ours): (&(ShardId, Head), Option<Head>)| {
            ours.is_some_and(|ours| (ours.lsn, ours.epoch) == (theirs.1.lsn, theirs.1.epoch))
        };
        anyhow::ensure!(
            self.heads.iter().zip(opened).all(is_same),
            "the heads of the copy differ from those of its source"
        );
        self.target.flush().map_err(|error| unwritten(&error))
    }
}

/// Why the target cannot be written.
fn unwritten(error: &StorageError) -> anyhow::Error {
    match error {
        StorageError::NoRoom(reason) => {
            let text = format!("the target is full: {reason}; free some space and copy again");
            Failure::new(Exit::Failed, text).into()
        }
        other => anyhow!("cannot write the target: {other}; nothing of it is used; copy again"),
    }
}
