//! What follows from a write later. The write's own commit leaves a *note* beside the target: that
//! the items which refer to it are to follow it, or that its aggregates are. One worker takes the
//! notes, a few items in each commit, and the commit that is the last takes the note away. So a
//! restart goes on where it was, and nothing is done twice or forgotten.
//!
//! Nothing is remembered of the change itself: items are brought to what is true when their turn
//! comes, under the checks of a commit, so what is older never replaces what is newer. Only for
//! tallies each change is written down, and taken away by the commit that adds it.
//!
//! Every note is a unit of background work: one that fails holds up no other (`background/units`).

use std::cell::Cell;

use orrery_storage::key::{Bounds, Due};
use orrery_storage::{Commit, Entry, Precondition, Put, ReadAt, Space, StorageError, key};
use orrery_types::{Error, Lsn, PartitionKey, Result, limits};

use super::cascade::ItemChange;
use super::unique_keys::UniqueKeyCheck;
use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::background::{BackgroundPass, UnitProgress};
use crate::error::storage;
use crate::item::address::{ItemAddress, ItemKey};
use crate::maintain::cascade;
use crate::maintain::copies;
use crate::maintain::kept_on_target;
use crate::maintain::on_delete;
use crate::model::{ModelContext, ModelTransaction, StoredModel};
use crate::partition::PhysicalPartition;
use crate::transaction::batch::is_refusal;
use crate::transaction::commit::part_of;
use crate::transaction::reads::ReadView;
use crate::transaction::state::{TransactionOptions, TransactionState};
use crate::{Container, Database, Engine};

/// A note: since when it waits, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueNote {
    since_us: u64,
    /// Sources that were passed over, because a rule keeps them from following.
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
    scope: ModelContext<'e>,
    container: &'e Container,
    partition: &'e PhysicalPartition,
    key: &'e [u8],
}

/// What became of one commit for a note.
enum Step {
    /// The note is gone: all has followed.
    Done,
    More,
    /// All sources had their turn, and some of them were passed over.
    PassedOver,
    /// Another writer was faster.
    Lost,
    /// It is more than one commit takes.
    TooLarge,
    /// A rule forbids it.
    Refused(Error),
}

/// Notes that something is to follow later.
pub(crate) fn put_due<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    what: Due,
    target: &ItemAddress<'e>,
) -> Result<()> {
    let key = key::due(model.context.model.numbers[index], what, &target.at.key);
    let shard = model.tx.shard_of(target);
    if model.tx.writes.shard(shard).key(Space::Meta, &key).is_some() {
        return Ok(());
    }
    let engine = model.tx.engine;
    let found = engine.store.get(target.at.partition.shard, Space::Meta, &key);
    let known = found.map_err(storage)?.1.map(|value| DueNote::read(&value.bytes)).transpose()?;
    let since_us = known.map_or(engine.clock.now_us(), |note| note.since_us);
    let note = DueNote { since_us, ..DueNote::default() };
    model.tx.writes.set_key(shard, Space::Meta, key, Some(note.to_bytes()));
    Ok(())
}

/// What follows from a write after its commit.
#[derive(Clone, Copy)]
pub struct DeferredEffects<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> DeferredEffects<'e> {
    /// Does what is to follow from earlier writes, a bounded turn for each note of each database, until
    /// nothing is left that can be done now.
    pub fn propagate(self, stop: &dyn Fn() -> bool) -> Result<()> {
        let _alone = self.engine.model_locks.worker();
        let is_of_pass = |kind: UnitKind| kind == UnitKind::ModelEffects;
        self.engine.nodes().before_pass();
        self.engine.units.begin_pass(is_of_pass);
        let mut run = BackgroundPass::new(stop);
        loop {
            run.unfinished = false;
            for database in self.engine.catalog.state().databases().filter(|d| d.model.is_some()) {
                for container in database.containers() {
                    for partition in &container.partitions {
                        self.propagate_from(database, container, partition, &mut run);
                    }
                }
            }
            if !run.unfinished || stop() {
                break;
            }
        }
        if !stop() {
            self.engine.units.end_pass(is_of_pass);
        }
        run.result(())
    }

    /// A turn for every note of a partition.
    fn propagate_from(
        self,
        database: &Database,
        container: &Container,
        partition: &PhysicalPartition,
        run: &mut BackgroundPass<'_>,
    ) {
        let mut bounds = key::all_due();
        // Looking for notes is a unit too: it may fail.
        let search = UnitKey::of(container, UnitKind::ModelEffects, &partition.id.to_be_bytes());
        while !(run.stop)() {
            let mut found = None;
            self.engine.background().run_unit(run, &search, 0, &mut |_| {
                found = self.next_due(partition, &bounds)?;
                Ok(UnitProgress::Done)
            });
            let Some(entry) = found else { break };
            bounds = bounds.after(&entry.key);
            let unit = UnitKey::of(container, UnitKind::ModelEffects, &entry.key);
            let version = Cell::new(entry.value.version);
            let turn = self.engine.background().run_unit(run, &unit, version.get().0, &mut |run| {
                self.follow_due(database, partition, &entry.key, run, &unit, &version)
            });
            self.engine.units.update_version(&unit, version.get().0);
            // What has followed may have left notes where the search has been.
            run.unfinished |= turn.is_some();
        }
    }

    fn next_due(self, partition: &PhysicalPartition, from: &Bounds) -> Result<Option<Entry>> {
        // Its own writes are refused if it goes by what another process has changed.
        let store = self.engine.unchecked_store();
        let snapshot = match store.snapshot(partition.shard, ReadAt::Latest) {
            // The container was deleted meanwhile.
            Err(StorageError::Gone { .. }) => return Ok(None),
            other => other.map_err(storage)?,
        };
        let scan = from.scan(Space::Meta, 1, usize::MAX);
        Ok(snapshot.scan(&scan).map_err(storage)?.pop())
    }
    /// A turn for one note, under the model of now. `version` follows that of the note.
    fn follow_due(
        self,
        database: &Database,
        partition: &PhysicalPartition,
        key: &[u8],
        run: &mut BackgroundPass<'_>,
        unit: &UnitKey,
        version: &Cell<Lsn>,
    ) -> std::result::Result<UnitProgress, UnitFailure> {
        // No model takes over meanwhile.
        let _schema = self.engine.model_locks.schema_shared();
        let state = self.engine.catalog.state();
        let now = state.databases().find(|now| now.number == database.number);
        let Some(now) = now else { return Ok(UnitProgress::Done) };
        let Some(model) = now.model.as_deref() else { return Ok(UnitProgress::Done) };
        let scope = ModelContext { database: now, model };
        for container in now.containers() {
            if let Ok(partition) = container.partition_with(partition.shard) {
                let place = Place { scope, container, partition, key };
                let left = &mut run.cursor(unit, container).left;
                return self.turn(&place, left, version);
            }
        }
        Ok(UnitProgress::Done)
    }

    /// Several commits for one note. A source that a rule keeps from following is passed over; when
    /// all the others have followed, that is the note's failure.
    fn turn(
        self,
        place: &Place<'_>,
        left: &mut Option<UnitFailure>,
        version: &Cell<Lsn>,
    ) -> std::result::Result<UnitProgress, UnitFailure> {
        let (mut commits, mut lost, mut size) = (0, 0, ITEMS_PER_COMMIT);
        while commits < COMMITS_PER_TURN {
            let shard = place.partition.shard;
            let found = self.engine.store.get(shard, Space::Meta, place.key).map_err(storage)?.1;
            let Some(found) = found else { return Ok(UnitProgress::Done) };
            version.set(found.version);
            let note = DueNote::read(&found.bytes)?;
            match self.follow_some(place, &note, size, version)? {
                Step::Done => return Ok(UnitProgress::Done),
                Step::More => {
                    (lost, size) = (0, ITEMS_PER_COMMIT);
                    commits += 1;
                }
                Step::PassedOver => {
                    return Err(left.take().unwrap_or_else(|| {
                        Error::internal("an item could not follow before the last start").into()
                    }));
                }
                Step::Lost if lost < limits::COMMIT_ATTEMPTS_MAX => {
                    lost += 1;
                    size = if lost > LOSSES_TOGETHER { 1 } else { size };
                }
                Step::Lost => return Err(Error::RetryWith.into()),
                // Each by itself.
                Step::TooLarge | Step::Refused(_) if size > 1 => size = 1,
                Step::TooLarge => return Err(storage(StorageError::TooLarge).into()),
                Step::Refused(error) => {
                    commits += 1;
                    let failure = self.pass_over(place, &note, version, error)?;
                    if left.as_ref().is_none_or(UnitFailure::is_external) {
                        *left = Some(failure);
                    }
                }
            }
        }
        Ok(UnitProgress::Unfinished)
    }

    /// One commit.
    fn follow_some(
        self,
        place: &Place<'_>,
        note: &DueNote,
        size: usize,
        version: &Cell<Lsn>,
    ) -> Result<Step> {
        let mut tx = self.relaxed(place);
        let (rule, what, target) = place.parsed()?;
        let mut model = tx.under(place.scope);
        let next = match place.scope.model.relation_with(rule) {
            // The rule is gone.
            None => Ok(None),
            Some(index) => match what {
                Due::Aggregates => aggregates_follow(&mut model, place, index, target, note),
                Due::Sources => sources_follow(&mut model, place, index, target, note, size),
            },
        };
        match next.and_then(|next| Ok((tx.assemble()?.into_commit(), next))) {
            Ok((commit, next)) => self.commit_note(place, commit, note, next.as_ref(), version),
            Err(error) if is_refusal(&error) => Ok(Step::Refused(error)),
            Err(error) => Err(error),
        }
    }

    /// Commits what follows together with the note, as it is afterwards.
    fn commit_note(
        self,
        place: &Place<'_>,
        (mut commit, unique): (Commit, Vec<UniqueKeyCheck<'_>>),
        note: &DueNote,
        next: Option<&DueNote>,
        version: &Cell<Lsn>,
    ) -> Result<Step> {
        let shard = place.partition.shard;
        let part = part_of(&mut commit.parts, place.partition);
        let (space, key, lsn) = (Space::Meta, place.key.to_vec(), version.get());
        part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
        match next {
            Some(next) => part.puts.push(Put { space, key, value: next.to_bytes() }),
            None => part.deletes.push((space, key)),
        }
        let at = commit.parts.iter().position(|part| part.shard == shard);
        match self.engine.store.commit(commit) {
            Ok(committed) => {
                if let Some(lsn) = at.and_then(|at| committed.lsns.get(at)) {
                    version.set(*lsn);
                }
                Ok(match next {
                    None => Step::Done,
                    Some(next) if note.stuck > 0 && next.last.is_empty() => Step::PassedOver,
                    Some(_) => Step::More,
                })
            }
            Err(StorageError::Conflict(failed)) => {
                let refusal = self.engine.models().refusal_of(&unique, &failed)?;
                Ok(refusal.map_or(Step::Lost, Step::Refused))
            }
            Err(StorageError::TooLarge) => Ok(Step::TooLarge),
            Err(error) => Err(storage(error)),
        }
    }

    /// Goes on behind a source that is refused; why it is. What is refused to a target itself cannot
    /// be passed over.
    fn pass_over(
        self,
        place: &Place<'_>,
        note: &DueNote,
        version: &Cell<Lsn>,
        error: Error,
    ) -> std::result::Result<UnitFailure, UnitFailure> {
        let (rule, what, target) = place.parsed()?;
        let index = place.scope.model.relation_with(rule).filter(|_| what == Due::Sources);
        let Some(index) = index else { return Err(error.into()) };
        let mut tx = self.relaxed(place);
        let (_, page) = next_sources(&mut tx.under(place.scope), place, index, target, note, 1)?;
        let Some(last) = page.first().cloned() else { return Err(error.into()) };
        let from = place.scope.container_of(place.scope.model.rules.relations[index].from)?;
        let failure = UnitFailure::of_item(error, from, &last);
        let next = DueNote { stuck: note.stuck.saturating_add(1), last, ..note.clone() };
        // If that loses, the note is looked at anew.
        self.commit_note(place, (Commit::new(vec![]), vec![]), note, Some(&next), version)?;
        Ok(failure)
    }

    /// A transaction for what follows.
    fn relaxed(self, place: &Place<'e>) -> TransactionState<'e> {
        let view = ReadView::latest(self.engine);
        let options =
            TransactionOptions { relaxed: true, ..TransactionOptions::under(Some(place.scope)) };
        TransactionState::new(self.engine, place.container, place.partition, view, options)
    }

    /// How much is still to follow, for each relation of a model.
    pub(crate) fn lags(self, database: &Database, model: &StoredModel) -> Result<Vec<Lag>> {
        let mut lags = vec![Lag::default(); model.rules.relations.len()];
        for partition in database.containers().flat_map(|container| &container.partitions) {
            let snapshot =
                self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let bounds = key::all_due();
            let scan = bounds.scan(Space::Meta, limits::MODEL_ITEMS_MAX, usize::MAX);
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

impl Place<'_> {
    /// The rule's number, what is to follow, and the key of the target.
    fn parsed(&self) -> Result<(u32, Due, &[u8])> {
        key::parse_due(self.key).ok_or_else(|| Error::internal("the key of a note is corrupt"))
    }
}

impl StoredModel {
    /// The index of a relation by its number.
    fn relation_with(&self, number: u32) -> Option<usize> {
        let relations = self.numbers.get(..self.rules.relations.len())?;
        relations.iter().position(|known| *known == number)
    }
}

/// The target of a note, and the keys of the next sources that are to follow it.
fn next_sources<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    place: &Place<'e>,
    index: usize,
    target: &[u8],
    note: &DueNote,
    size: usize,
) -> Result<(ItemAddress<'e>, Vec<Vec<u8>>)> {
    let address = address_present_or_not(model, place, target)?;
    let mut bounds = key::references_to(place.scope.model.numbers[index], target);
    if !note.last.is_empty() {
        let mut last = bounds.from.clone();
        last.extend_from_slice(&note.last);
        bounds = bounds.after(&last);
    }
    let (page, _) = kept_on_target::reference_page(model, &address, bounds, size)?;
    Ok((address, page))
}

/// Lets the next sources follow their target; the note afterwards.
fn sources_follow<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    place: &Place<'e>,
    index: usize,
    target: &[u8],
    note: &DueNote,
    size: usize,
) -> Result<Option<DueNote>> {
    let (address, page) = next_sources(model, place, index, target, note, size)?;
    let Some(last) = page.last().cloned() else {
        // Those that were passed over are tried again later.
        let again = DueNote { since_us: note.since_us, ..DueNote::default() };
        return Ok((note.stuck > 0).then_some(again));
    };
    let_follow(model, index, &address, &page)?;
    Ok(Some(DueNote { last, ..note.clone() }))
}

/// The address of a target by its key, there or not.
fn address_present_or_not<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    place: &Place<'e>,
    target: &[u8],
) -> Result<ItemAddress<'e>> {
    if let Some(address) = model.tx.address_of_key(place.container, target)? {
        return Ok(address);
    }
    let partition_key = PartitionKey(vec![]);
    let at = ItemKey { partition: place.partition, partition_key, key: target.to_vec() };
    Ok(ItemAddress { container: place.container, at })
}

/// Lets sources follow their target, as it is now.
fn let_follow<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    index: usize,
    target: &ItemAddress<'e>,
    sources: &[Vec<u8>],
) -> Result<()> {
    let scope = model.context;
    let rule = &scope.model.rules.relations[index];
    let container = model.tx.same(scope.container_of(rule.from)?);
    let item = model.target_at(rule, target)?;
    let copies = item
        .map(|item| -> Vec<_> { rule.copies.iter().map(|(_, copy)| copy.value(&item)).collect() });
    for source in sources {
        let Some(address) = model.tx.address_of_key(container, source)? else { continue };
        let Some(value) = model.tx.value_at(&address)? else { continue };
        let kept = match &copies {
            Some(copies) => Some(copies::with_copies(model, rule, &value, target, copies)?),
            None if address.is(target) => continue,
            None => on_delete::without_target(model, rule, &value, target)?,
        };
        match &kept {
            Some(kept) if *kept == value => continue,
            Some(kept) => model.put_derived(&address, kept.clone())?,
            None => model.tx.delete_derived(&address)?,
        }
        cascade::follow(model, vec![ItemChange::new(address, Some(value), kept)])?;
    }
    Ok(())
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
    model: &mut ModelTransaction<'_, 'e>,
    place: &Place<'e>,
    index: usize,
    target: &[u8],
    note: &DueNote,
) -> Result<Option<DueNote>> {
    let mut more = false;
    let address = address_present_or_not(model, place, target)?;
    let rules = &model.context.model.rules;
    let rule = &rules.relations[index];
    let over = || rules.aggregates.iter().filter(|a| a.relation == index && a.may_follow());
    for aggregate in over() {
        more |= kept_on_target::fold_deltas(model, aggregate, &address, DELTAS_PER_COMMIT)?;
    }
    if let Some(value) = model.target_at(rule, &address)? {
        let mut kept = value.clone();
        for aggregate in over() {
            let truth = kept_on_target::aggregate_beside(model, aggregate, &address)?;
            aggregate.def.path.set(&mut kept, &[], truth);
        }
        if kept != value {
            model.put_derived(&address, kept.clone())?;
            cascade::follow(model, vec![ItemChange::new(address, Some(value), Some(kept))])?;
        }
    }
    Ok(more.then(|| note.clone()))
}
