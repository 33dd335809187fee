//! What commits leave for the feed of all versions, in containers whose change feed policy asks for
//! it: each change with the item as it was then. It is kept as long as the policy says; the
//! background thread removes what is older and moves the *horizon*, the LSN up to which a shard no
//! longer has everything. A reader that is behind the horizon is refused, so that no reader misses
//! a change without knowing it.

use orrery_storage::key;
use orrery_storage::version::Version;
use orrery_storage::{
    Commit, Entry, Part, Precondition, Put, ReadAt, Snapshot, Space, StorageError,
};
use orrery_types::ids::Address;
use orrery_types::{EffectiveKey, Error, KeyRange, Lsn, Result, limits};

use crate::Container;
use crate::background::units::{UnitKey, UnitKind};
use crate::background::{BATCHES_PER_STEP, BackgroundPass, UnitProgress};
use crate::change_feed::ChangeFeedReader;
use crate::error::storage;
use crate::partition::PhysicalPartition;

impl ChangeFeedReader<'_> {
    /// The policy of a container was switched on or off, or a write that began before that has come
    /// after it: what there is of its history is whole from here on, or no longer wanted.
    pub(crate) fn rebase_history(
        self,
        container: &Container,
        run: &mut BackgroundPass<'_>,
    ) -> Result<UnitProgress> {
        let database = Address::Rid(container.database_rid());
        match self.engine.catalog.container(&database, &Address::Rid(container.rid())) {
            Ok(now) if now.definition.versions_kept_s().is_some() => {
                self.engine
                    .epochs()
                    .retry_on_stale_epoch(&now, &mut |now| self.begin_history(now))?;
                Ok(UnitProgress::Done)
            }
            Ok(now) => self.trim_history(&now, u64::MAX, run.stop),
            // It was deleted meanwhile.
            Err(Error::NotFound | Error::OwnerNotFound) => Ok(UnitProgress::Done),
            Err(error) => Err(error),
        }
    }

    /// Moves the horizon past every position that anybody has been given.
    pub(crate) fn begin_history(self, container: &Container) -> Result<()> {
        for partition in &container.partitions {
            let mut part = Part::new(partition.shard, partition.epoch);
            let Lsn(last) = self.engine.sessions().shard_lsn(partition)?;
            // The commit itself takes at least the next LSN.
            part.puts.push(Horizon::at(Lsn(last + 1)).to_put());
            part.sets_control = true;
            self.engine.store.commit(Commit::new(vec![part])).map_err(storage)?;
        }
        Ok(())
    }

    /// Removes versions that are older than the policies of their containers keep them.
    pub(crate) fn trim_histories(self, run: &mut BackgroundPass<'_>) {
        for container in self.engine.catalog.state().containers() {
            if let Some(kept_s) = container.definition.versions_kept_s() {
                let before_s = self.engine.clock.now_s().saturating_sub(kept_s);
                let unit = UnitKey::of(container, UnitKind::History, b"trimmed");
                self.engine.background().run_unit(run, &unit, 0, &mut |run| {
                    Ok(self.trim_history(container, before_s, run.stop)?)
                });
            }
        }
    }

    /// Removes some of a container's versions of before a second.
    fn trim_history(
        self,
        container: &Container,
        before_s: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<UnitProgress> {
        let mut batches = 0..BATCHES_PER_STEP;
        for partition in &container.partitions {
            while self.trim_step(partition, before_s)? {
                if stop() || batches.next().is_none() {
                    return Ok(UnitProgress::Unfinished);
                }
            }
        }
        Ok(UnitProgress::Done)
    }

    /// One commit's worth of it; whether there may be more.
    fn trim_step(self, partition: &PhysicalPartition, before_s: u64) -> Result<bool> {
        let snapshot = match self.engine.store.snapshot(partition.shard, ReadAt::Latest) {
            // The container was deleted meanwhile.
            Err(StorageError::Gone { .. }) => return Ok(false),
            other => other.map_err(storage)?,
        };
        let entries = first_versions(&*snapshot)?;
        let mut part = Part::new(partition.shard, partition.epoch);
        let mut horizon = Horizon::read(&*snapshot)?;
        // Of two who trim at once the one that is behind must not take the horizon back.
        let (space, key) = (Space::Meta, key::versions_horizon());
        let noted = snapshot.get(space, &key).map_err(storage)?.map(|value| value.version);
        part.preconditions.push(Precondition::unchanged(space, key, noted));
        for entry in &entries {
            if Version::decode(&entry.value.bytes).map_err(storage)?.time_s >= before_s {
                break;
            }
            let (lsn, _) = key::parse_version(&entry.key).ok_or_else(corrupt)?;
            horizon.raise(lsn);
            part.deletes.push((Space::Feed, entry.key.clone()));
        }
        drop(snapshot);
        let removed = part.deletes.len();
        if removed == 0 {
            return Ok(false);
        }
        part.puts.push(horizon.to_put());
        match self.engine.store.commit(Commit::new(vec![part])) {
            Err(StorageError::Gone { .. }) => Ok(false),
            // Another one has trimmed meanwhile, or begun the history anew.
            Err(StorageError::Conflict(_)) => Ok(true),
            other => other.map(|_| removed == entries.len()).map_err(storage),
        }
    }
}

/// The LSNs up to which a shard may lack versions, by key: a merged shard has the horizon of each
/// parent for its keys.
///
/// ```text
/// lsn u64 | ( length u16 | key | lsn u64 )*      each up to the key behind it, the last to the end
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    parts: Vec<(EffectiveKey, Lsn)>,
    last: Lsn,
}

impl Horizon {
    /// One for all keys.
    pub(crate) fn at(lsn: Lsn) -> Self {
        Self { parts: vec![], last: lsn }
    }

    /// That of a shard.
    pub(crate) fn read(snapshot: &dyn Snapshot) -> Result<Self> {
        let stored = snapshot.get(Space::Meta, &key::versions_horizon()).map_err(storage)?;
        stored.map_or(Ok(Self::at(Lsn(0))), |s| Self::from_bytes(&s.bytes).ok_or_else(corrupt))
    }

    /// This one up to a key, another one from there on.
    pub(crate) fn joined(self, at: &EffectiveKey, rest: &Self) -> Self {
        let mut parts: Vec<_> = self.parts.into_iter().filter(|(until, _)| until < at).collect();
        parts.push((at.clone(), self.last));
        parts.extend(rest.parts.iter().filter(|(until, _)| until > at).cloned());
        Self { parts, last: rest.last }
    }

    /// Whether no version is missing.
    pub(crate) fn is_zero(&self) -> bool {
        self.pieces().all(|(_, lsn)| lsn == Lsn(0))
    }

    /// The ranges of keys, each with its LSN.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (KeyRange, Lsn)> {
        let mut from = EffectiveKey::min();
        let end = (EffectiveKey::max(), self.last);
        self.parts.iter().cloned().chain([end]).map(move |(max, lsn)| {
            (KeyRange { min: std::mem::replace(&mut from, max.clone()), max }, lsn)
        })
    }

    /// Everything up to an LSN is gone, whatever its key.
    fn raise(&mut self, lsn: Lsn) {
        for (_, part) in &mut self.parts {
            *part = lsn.max(*part);
        }
        self.last = lsn.max(self.last);
    }

    fn to_put(&self) -> Put {
        Put { space: Space::Meta, key: key::versions_horizon(), value: self.to_bytes() }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (until, lsn) in &self.parts {
            bytes.extend(lsn.0.to_be_bytes());
            bytes.extend(u16::try_from(until.0.len()).unwrap_or(u16::MAX).to_be_bytes());
            bytes.extend_from_slice(&until.0);
        }
        bytes.extend(self.last.0.to_be_bytes());
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut parts = Vec::new();
        loop {
            let (lsn, rest) = bytes.split_first_chunk::<8>()?;
            let lsn = Lsn(u64::from_be_bytes(*lsn));
            if rest.is_empty() {
                return Some(Self { parts, last: lsn });
            }
            let (length, rest) = rest.split_first_chunk::<2>()?;
            let (until, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            parts.push((EffectiveKey(until.to_vec()), lsn));
            bytes = rest;
        }
    }
}

fn first_versions(snapshot: &dyn Snapshot) -> Result<Vec<Entry>> {
    let bounds = key::versions_after(Lsn(0));
    let scan = bounds.scan(Space::Feed, limits::SWEEP_ITEMS_MAX, limits::PAGE_SIZE_BYTES_MAX);
    snapshot.scan(&scan).map_err(storage)
}

fn corrupt() -> Error {
    Error::internal("the history of a shard is corrupt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_reads_back_and_is_joined_from_its_parents() {
        let key = |hex: &str| EffectiveKey::parse(hex).expect("hex");
        let one = Horizon::at(Lsn(10));
        assert_eq!(one.to_bytes(), 10_u64.to_be_bytes(), "as it always was");
        let mut joined = one.joined(&key("20"), &Horizon::at(Lsn(50)));
        joined = joined
            .joined(&key("30"), &Horizon::at(Lsn(0)).joined(&key("38"), &Horizon::at(Lsn(7))));
        let shown = |horizon: &Horizon| {
            let piece =
                |(range, lsn): (KeyRange, Lsn)| format!("{}-{}={}", range.min, range.max, lsn.0);
            horizon.pieces().map(piece).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&joined), "-20=10 20-30=50 30-38=0 38-FF=7");
        assert_eq!(Horizon::from_bytes(&joined.to_bytes()), Some(joined.clone()));
        joined.raise(Lsn(20));
        assert_eq!(shown(&joined), "-20=20 20-30=50 30-38=20 38-FF=20");
        for cut in 0..joined.to_bytes().len() {
            let bytes = &joined.to_bytes()[..cut];
            assert!(Horizon::from_bytes(bytes) != Some(joined.clone()), "cut at {cut}");
        }
    }
}
