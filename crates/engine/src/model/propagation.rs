//! What follows from a write later. The write's own commit leaves a *note* beside the target: that
//! the items which refer to it are to follow it, or that its aggregates are. One worker takes the
//! notes, a few items in each commit, and the commit that is the last takes the note away. So a
//! restart goes on where it was, and nothing is done twice or forgotten.
//!
//! Nothing is remembered of the change itself: items are brought to what is true when their turn
//! comes, under the checks of a commit, so what is older never replaces what is newer. Only for
//! tallies each change is written down, and taken away by the commit that adds it.

use orrery_storage::key::{Bounds, Due};
use orrery_storage::{Check, Commit, Expect, Put, ReadAt, Scan, Space, StorageError, key};
use orrery_types::{Error, Lsn, PartitionKey, Result, limits};

use super::effects::Event;
use super::references::part_of;
use super::spot::Spot;
use super::{ModelScope, StoredModel};
use crate::draft::{Draft, View};
use crate::items::Located;
use crate::partition::PhysicalPartition;
use crate::storage_error::storage;
use crate::{Container, Database, Engine};

/// A note: since when it waits, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueNote {
    since_us: u64,
    /// Sources that could not follow in this round.
    stuck: u32,
    /// The item key of the last source that has followed; empty at the beginning.
    last: Vec<u8>,
}

impl DueNote {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.since_us.to_be_bytes().to_vec();
        bytes.extend(self.stuck.to_be_bytes());
        bytes.extend_from_slice(&self.last);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let corrupt = || Error::internal("a note of what is to follow is corrupt");
        let (since_us, rest) = bytes.split_first_chunk::<8>().ok_or_else(corrupt)?;
        let (stuck, last) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
        let (since_us, stuck) = (u64::from_be_bytes(*since_us), u32::from_be_bytes(*stuck));
        Ok(Self { since_us, stuck, last: last.to_vec() })
    }
}

/// How much is still to follow by one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    /// Notes that wait.
    pub(crate) pending: usize,
    /// Since when the oldest does.
    pub(crate) since_us: Option<u64>,
}

/// Where a note stands.
struct Place<'e> {
    scope: ModelScope<'e>,
    container: &'e Container,
    partition: &'e PhysicalPartition,
    key: &'e [u8],
}

/// What became of a note's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Done,
    /// It has more to do.
    More,
    /// What is left of it is refused for now.
    Stuck,
}

impl<'e> Draft<'e> {
    /// Notes that something is to follow later.
    pub(crate) fn put_due(&mut self, index: usize, what: Due, target: &Spot<'e>) -> Result<()> {
        let Some(scope) = self.model.scope else { return Ok(()) };
        let key = key::due(scope.model.numbers[index], what, &target.at.key);
        let draft = self.beside(target.container, target.at.partition);
        if draft.model.kept.due.contains_key(&key) {
            return Ok(());
        }
        let found = draft.engine.store.get(draft.partition.shard, Space::Meta, &key);
        let known =
            found.map_err(storage)?.1.map(|value| DueNote::read(&value.bytes)).transpose()?;
        let now_us = draft.engine.clock.now_us();
        let since_us = known.map_or(now_us, |note| note.since_us);
        draft.model.kept.due.insert(key, DueNote { since_us, ..DueNote::default() });
        Ok(())
    }
}

impl Engine {
    /// Does what is to follow from earlier writes, until nothing is left that can be done; whether
    /// something is left.
    pub fn propagate(&self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let _alone = self.models.worker();
        let mut left = false;
        let state = self.catalog.state();
        for database in state.databases().filter(|database| database.model.is_some()) {
            while !stop() {
                let (progress, some) = self.propagate_round(database, stop)?;
                left |= some && !progress;
                if !progress {
                    break;
                }
            }
        }
        Ok(left)
    }

    /// A turn for every note of a database: whether one got on, and whether one is left.
    fn propagate_round(
        &self,
        database: &Database,
        stop: &dyn Fn() -> bool,
    ) -> Result<(bool, bool)> {
        let (mut progress, mut left) = (false, false);
        for partition in database.containers().flat_map(|container| &container.partitions) {
            let mut bounds = key::all_due();
            while let Some(entry) = self.next_due(partition, &bounds)? {
                if stop() {
                    return Ok((false, true));
                }
                bounds = bounds.after(&entry);
                let turn = self.follow_due(database, partition, &entry)?;
                progress |= turn != Turn::Stuck;
                left |= turn != Turn::Done;
            }
        }
        Ok((progress, left))
    }

    fn next_due(&self, partition: &PhysicalPartition, from: &Bounds) -> Result<Option<Vec<u8>>> {
        let snapshot = match self.store.snapshot(partition.shard, ReadAt::Latest) {
            // The container was deleted meanwhile.
            Err(StorageError::Gone { .. }) => return Ok(None),
            other => other.map_err(storage)?,
        };
        let scan = Scan {
            space: Space::Meta,
            from: &from.from,
            to: &from.to,
            reverse: false,
            max_rows: 1,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        Ok(snapshot.scan(&scan).map_err(storage)?.pop().map(|entry| entry.key))
    }

    /// A turn for one note, under the model of now.
    fn follow_due(
        &self,
        database: &Database,
        partition: &PhysicalPartition,
        key: &[u8],
    ) -> Result<Turn> {
        // No model takes over meanwhile.
        let _still = self.models.read();
        let state = self.catalog.state();
        let now = state.databases().find(|now| now.number == database.number);
        let Some(now) = now else { return Ok(Turn::Done) };
        let Some(model) = now.model.as_deref() else { return Ok(Turn::Done) };
        let scope = ModelScope { database: now, model };
        for container in now.containers() {
            if let Some(partition) =
                container.partitions.iter().find(|p| p.shard == partition.shard)
            {
                return self.turn(&Place { scope, container, partition, key });
            }
        }
        Ok(Turn::Done)
    }

    /// Several commits for one note.
    fn turn(&self, place: &Place<'_>) -> Result<Turn> {
        let (mut commits, mut lost, mut size) = (0, 0, ITEMS_PER_COMMIT);
        loop {
            let shard = place.partition.shard;
            let found = self.store.get(shard, Space::Meta, place.key).map_err(storage)?.1;
            let Some(found) = found else { return Ok(Turn::Done) };
            let note = DueNote::read(&found.bytes)?;
            match self.follow_some(place, note, found.version, size)? {
                Some(Turn::More) => {
                    (lost, size) = (0, ITEMS_PER_COMMIT);
                    commits += 1;
                }
                Some(end) => return Ok(end),
                // Another writer was faster.
                None => {
                    lost += 1;
                    size = if lost > LOSSES_TOGETHER { 1 } else { size };
                }
            }
            if commits >= COMMITS_PER_TURN || lost >= limits::COMMIT_ATTEMPTS_MAX {
                return Ok(Turn::More);
            }
        }
    }

    /// One commit; `None` if it lost.
    fn follow_some(
        &self,
        place: &Place<'_>,
        note: DueNote,
        version: Lsn,
        size: usize,
    ) -> Result<Option<Turn>> {
        let was_stuck = note.stuck > 0;
        let corrupt = || Error::internal("the key of a note is corrupt");
        let (rule, what, target) = key::parse_due(place.key).ok_or_else(corrupt)?;
        let numbers = &place.scope.model.numbers[..place.scope.model.rules.relations.len()];
        let mut draft = self.relaxed(place);
        let next = match numbers.iter().position(|number| *number == rule) {
            // The rule is gone.
            None => None,
            Some(index) => match what {
                Due::Aggregates => aggregates_follow(place, &mut draft, index, target, note)?,
                Due::Sources => {
                    let (followed, next) = self.sources_follow(place, index, target, note, size)?;
                    draft = followed;
                    next
                }
            },
        };
        let mut parts = draft.parts()?.0;
        let part = part_of(&mut parts, place.partition);
        let (space, key, expect) = (Space::Meta, place.key.to_vec(), Expect::Version(version));
        part.checks.push(Check::Key { space, key: key.clone(), expect });
        match &next {
            Some(next) => part.puts.push(Put { space, key, value: next.to_bytes() }),
            None => part.deletes.push((space, key)),
        }
        match self.store.commit(Commit { parts }) {
            Ok(_) => Ok(Some(match next {
                None => Turn::Done,
                Some(next) if was_stuck && next.last.is_empty() => Turn::Stuck,
                Some(_) => Turn::More,
            })),
            Err(StorageError::Conflict { .. }) => Ok(None),
            Err(error) => Err(storage(error)),
        }
    }

    /// A draft for what follows.
    fn relaxed<'e>(&'e self, place: &Place<'e>) -> Draft<'e> {
        let mut draft = Draft::new(self, place.container, place.partition, View::Now);
        draft.model.scope = Some(place.scope);
        draft.model.relaxed = true;
        draft
    }

    /// Lets the next sources follow their target. Where a rule forbids it, each is tried by itself,
    /// and those that cannot are passed over in this round.
    fn sources_follow<'e>(
        &'e self,
        place: &Place<'e>,
        index: usize,
        target: &[u8],
        note: DueNote,
        size: usize,
    ) -> Result<(Draft<'e>, Option<DueNote>)> {
        let mut draft = self.relaxed(place);
        let spot = draft.spot_anyway(place, target)?;
        let mut bounds = key::references_to(place.scope.model.numbers[index], target);
        if !note.last.is_empty() {
            let mut last = bounds.from.clone();
            last.extend_from_slice(&note.last);
            bounds = bounds.after(&last);
        }
        let (mut page, _) = draft.reference_page(&spot, bounds)?;
        page.truncate(size);
        let Some(last) = page.last().cloned() else {
            let DueNote { since_us, stuck, .. } = note;
            // What is stuck is tried again in the next round.
            let again = DueNote { since_us, stuck: 0, last: vec![] };
            return Ok((draft, (stuck > 0).then_some(again)));
        };
        match draft.let_follow(place.scope, index, &spot, &page) {
            Ok(()) => Ok((draft, Some(DueNote { last, ..note }))),
            Err(Error::StillReferenced(_) | Error::ModelViolated(_) | Error::TooLarge { .. }) => {
                if page.len() > 1 {
                    return self.sources_follow(place, index, target, note, 1);
                }
                let stuck = note.stuck + 1;
                tracing::warn!(source = %last.escape_ascii(), "an item cannot follow its target yet");
                Ok((self.relaxed(place), Some(DueNote { stuck, last, ..note })))
            }
            Err(error) => Err(error),
        }
    }

    /// How much is still to follow, for each relation of a model.
    pub(crate) fn lags(&self, database: &Database, model: &StoredModel) -> Result<Vec<Lag>> {
        let mut lags = vec![Lag::default(); model.rules.relations.len()];
        for partition in database.containers().flat_map(|container| &container.partitions) {
            let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let bounds = key::all_due();
            let scan = Scan {
                space: Space::Meta,
                from: &bounds.from,
                to: &bounds.to,
                reverse: false,
                max_rows: limits::MODEL_ITEMS_MAX,
                max_bytes: usize::MAX,
                keys_only: false,
            };
            for entry in snapshot.scan(&scan).map_err(storage)? {
                let note = DueNote::read(&entry.value.bytes)?;
                let rule = key::rule_of(&entry.key);
                let index = model.numbers.iter().position(|number| Some(*number) == rule);
                let Some(lag) = index.and_then(|index| lags.get_mut(index)) else { continue };
                lag.pending += 1;
                lag.since_us = Some(lag.since_us.unwrap_or(u64::MAX).min(note.since_us));
            }
        }
        Ok(lags)
    }
}

impl<'e> Draft<'e> {
    /// The spot of a target by its key, there or not.
    fn spot_anyway(&mut self, place: &Place<'e>, target: &[u8]) -> Result<Spot<'e>> {
        if let Some(spot) = self.spot_of_key(place.container, target)? {
            return Ok(spot);
        }
        let partition_key = PartitionKey(vec![]);
        let at = Located { partition: place.partition, partition_key, key: target.to_vec() };
        Ok(Spot { container: place.container, at })
    }

    /// Lets sources follow their target, as it is now.
    fn let_follow(
        &mut self,
        scope: ModelScope<'e>,
        index: usize,
        target: &Spot<'e>,
        sources: &[Vec<u8>],
    ) -> Result<()> {
        let rule = &scope.model.rules.relations[index];
        let container = self.same(scope.container_of(rule.from)?);
        let item = self.target_at(rule, target)?;
        let copies = item.map(|item| -> Vec<_> {
            rule.copies.iter().map(|(_, copy)| copy.value(&item)).collect()
        });
        for source in sources {
            let Some(spot) = self.spot_of_key(container, source)? else { continue };
            let Some(value) = self.value_at(&spot)? else { continue };
            let kept = match &copies {
                Some(copies) => Some(self.with_copies(rule, &value, target, copies)?),
                None if spot.is(target) => continue,
                None => self.without_target(rule, &value, target)?,
            };
            match &kept {
                Some(kept) if *kept == value => continue,
                Some(kept) => self.put_derived(&spot, kept.clone())?,
                None => self.delete_derived(&spot)?,
            }
            self.follow(vec![Event::new(spot, Some(value), kept)])?;
        }
        Ok(())
    }
}

/// Sources that follow in one commit.
const ITEMS_PER_COMMIT: usize = 50;
/// Commits for one note before another has its turn.
const COMMITS_PER_TURN: usize = 20;
/// Lost commits after which items are taken one by one.
const LOSSES_TOGETHER: usize = 3;
/// Changes that one commit adds to a tally.
const DELTAS_PER_COMMIT: usize = 1000;

/// Brings the aggregates of a target over one relation to what is true.
fn aggregates_follow<'e>(
    place: &Place<'e>,
    draft: &mut Draft<'e>,
    index: usize,
    target: &[u8],
    note: DueNote,
) -> Result<Option<DueNote>> {
    let (scope, mut more) = (place.scope, false);
    let spot = draft.spot_anyway(place, target)?;
    let rules = &scope.model.rules;
    let rule = &rules.relations[index];
    let over = || rules.aggregates.iter().filter(|a| a.relation == index);
    for aggregate in over().filter(|a| a.may_follow()) {
        more |= draft.fold_deltas(scope, aggregate, &spot, DELTAS_PER_COMMIT)?;
    }
    if let Some(value) = draft.target_at(rule, &spot)? {
        let mut kept = value.clone();
        for aggregate in over().filter(|a| a.may_follow()) {
            let truth = draft.aggregate_beside(scope, aggregate, &spot)?;
            aggregate.def.path.set(&mut kept, &[], truth);
        }
        if kept != value {
            draft.put_derived(&spot, kept.clone())?;
            draft.follow(vec![Event::new(spot, Some(value), Some(kept))])?;
        }
    }
    Ok(more.then_some(note))
}
