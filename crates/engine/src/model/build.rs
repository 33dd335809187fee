//! Brings items that are there under the new rules of a model, beside their writers. Writes keep a
//! rule from the moment the model is stored. What is left is to go over the items once, a few in each
//! commit, which also notes how far it is: a restart goes on from there.
//!
//! A relation is built in two passes. First what is kept of its targets is put to what follows from
//! the references that are written down so far. Then every source's references are written down, and
//! each counts for its target in the commit that writes its entry, whoever makes that commit: the
//! builder or a writer that comes before. So at every moment what is kept is that of the entries, and
//! in the end they are all there. Items that break the rule are noted and left as they are; it holds
//! when there are none left.

use std::sync::Arc;

use orrery_modeling::{AggregateSource, Marker, RelationRule};
use orrery_storage::key::{Bounds, RecordKind, Row};
use orrery_storage::{Commit, Entry, Part, Precondition, Put, ReadAt, Space, StorageError, key};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, Result, ShardId, Value, limits};

use super::names::inverse_path;
use super::rules::is_displaced;
use super::{ModelContext, ModelTransaction, Stage, StoredModel, store};
use crate::background::units::{UnitKey, UnitKind};
use crate::background::{BackgroundPass, UnitProgress};
use crate::error::storage;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::BeforeImage;
use crate::maintain::buckets;
use crate::maintain::cascade;
use crate::maintain::cascade::ItemChange;
use crate::maintain::kept_on_target;
use crate::maintain::references;
use crate::maintain::unique_keys;
use crate::maintain::unique_keys::UniqueClaims;
use crate::partition::PhysicalPartition;
use crate::transaction::batch::is_refusal;
use crate::transaction::commit::part_of;
use crate::transaction::locks::LockGuard;
use crate::transaction::reads::ReadView;
use crate::transaction::retry::{self, Attempt, RetryReason};
use crate::transaction::state::{TransactionOptions, TransactionState};
use crate::{Container, Database, Engine};

/// Items of one commit.
const ITEMS_PER_COMMIT: usize = 50;
/// And of one that has lost several times.
const LOSSES_TOGETHER: usize = 2;
/// Items of one turn of the background thread at a rule.
const ITEMS_PER_TURN: usize = 2000;

/// Of an item that breaks a rule: what follows from it is written down nevertheless, or not, and why.
const TAKEN_IN: &[u8] = &[];
const LEFT_OUT: &[u8] = &[1];

/// Why an item was left out of a rule, if it was.
pub(super) fn left_out(note: &[u8]) -> Option<&str> {
    let reason = note.strip_prefix(LEFT_OUT)?;
    std::str::from_utf8(reason).ok().filter(|reason| !reason.is_empty())
}

/// How far a pass over a shard is.
#[derive(Clone, Debug, Default)]
struct Built {
    version: Option<Lsn>,
    items: u64,
    done: bool,
    last: Vec<u8>,
}

impl Built {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.items.to_be_bytes().to_vec();
        bytes.push(u8::from(self.done));
        bytes.extend_from_slice(&self.last);
        bytes
    }
}

/// A rule in the course of being built.
#[derive(Clone, Copy)]
struct Site<'e> {
    scope: ModelContext<'e>,
    index: usize,
    number: u32,
}

/// One pass over the items of a container.
struct Step<'e> {
    number: u8,
    container: &'e Container,
}

impl<'e> Site<'e> {
    fn relation(&self) -> Option<&'e RelationRule> {
        self.scope.model.rules.relations.get(self.index).map(|rule| &**rule)
    }

    /// The passes that the rule needs.
    fn steps(&self) -> Result<[Step<'e>; 2]> {
        let types = if let Some(rule) = self.relation() {
            [rule.to, rule.from]
        } else {
            let at = self.index - self.scope.model.rules.relations.len();
            [self.scope.model.rules.buckets[at].on; 2]
        };
        let [first, second] = types.map(|of| self.scope.container_of(of));
        Ok([Step { number: 0, container: first? }, Step { number: 1, container: second? }])
    }
}

/// Rules of a model that are applied to older items.
#[derive(Clone, Copy)]
pub(crate) struct ModelBuilds<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> ModelBuilds<'e> {
    /// Brings items under rules that are new, a turn for each rule.
    pub(crate) fn build_models(self, run: &mut BackgroundPass<'_>) {
        for database in self.engine.catalog.state().databases() {
            let mut left = usize::MAX;
            self.build_rules(database, run, &mut left);
        }
    }

    /// The same for one model, until all is done or so many items were looked at. What fails is
    /// tried again in the background.
    pub(crate) fn build_model(self, database: &Address, items: usize) {
        let mut left = items;
        let mut run = BackgroundPass::of_request();
        while let Ok(database) = self.engine.catalog.database(database) {
            run.unfinished = false;
            self.build_rules(&database, &mut run, &mut left);
            if !run.unfinished || left == 0 {
                break;
            }
        }
    }

    fn build_rules(self, database: &Database, run: &mut BackgroundPass<'_>, left: &mut usize) {
        let Some(model) = database.model.as_deref() else { return };
        for (index, number) in model.numbers.iter().enumerate() {
            if !model.is_building(index) || *left == 0 {
                continue;
            }
            let unit = UnitKey::rule(database, UnitKind::ModelBuild, *number);
            self.engine.background().run_unit(run, &unit, 0, &mut |_| {
                let more = self.build_turn(database, index, left)?;
                Ok(if more { UnitProgress::Unfinished } else { UnitProgress::Done })
            });
        }
    }

    /// A turn at one rule; whether it gets on with more.
    fn build_turn(self, database: &Database, index: usize, left: &mut usize) -> Result<bool> {
        let mut turn = (*left).min(ITEMS_PER_TURN);
        *left -= turn;
        let (granted, mut finished) = (turn, false);
        while turn > 0 && !finished {
            // No other model takes over meanwhile.
            let _schema = self.engine.model_locks.schema_shared();
            let state = self.engine.catalog.state();
            let now = state.databases().find(|now| now.number == database.number);
            let Some((now, model)) = now.and_then(|now| now.model.as_deref().map(|m| (now, m)))
            else {
                break;
            };
            if !model.is_building(index) {
                break;
            }
            let scope = ModelContext { database: now, model };
            let site = Site { scope, index, number: model.numbers[index] };
            match self.build_some(site, turn)? {
                Some(items) => turn = turn.saturating_sub(items.max(1)),
                None => finished = true,
            }
        }
        *left += turn;
        if finished {
            return self.finish_rule(database, index);
        }
        Ok(granted > turn)
    }

    /// The next commit of a rule: how many items it was about; `None` if there are no more.
    fn build_some(self, site: Site<'_>, items_max: usize) -> Result<Option<usize>> {
        for step in site.steps()? {
            for partition in &step.container.partitions {
                let built = self.built(site, &step, partition)?;
                if !built.done {
                    return self.build_batch(site, &step, partition, items_max).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn built(
        self,
        site: Site<'_>,
        step: &Step<'_>,
        partition: &PhysicalPartition,
    ) -> Result<Built> {
        let key = key::built(site.number, step.number);
        let found = self.engine.store.get(partition.shard, Space::Meta, &key).map_err(storage)?.1;
        let Some(found) = found else { return Ok(Built::default()) };
        let corrupt = || Error::internal("the progress of a rule is corrupt");
        let (items, rest) = found.bytes.split_first_chunk::<8>().ok_or_else(corrupt)?;
        let (done, last) = rest.split_first().ok_or_else(corrupt)?;
        let items = u64::from_be_bytes(*items);
        Ok(Built { version: Some(found.version), items, done: *done == 1, last: last.to_vec() })
    }

    /// Brings the next items of a shard under the rule, in one commit.
    fn build_batch(
        self,
        site: Site<'_>,
        step: &Step<'_>,
        partition: &PhysicalPartition,
        items_max: usize,
    ) -> Result<usize> {
        let mut by_itself = false;
        // Hidden holders of unique keys that may not go.
        let mut kept = Vec::new();
        retry::run(|attempt| {
            by_itself |= attempt > LOSSES_TOGETHER;
            let most = if by_itself { 1 } else { ITEMS_PER_COMMIT };
            let mut built = self.built(site, step, partition)?;
            let mut bounds = key::items_in(&partition.range);
            if !built.last.is_empty() {
                bounds = bounds.after(&built.last);
            }
            let entries = self.items_to_build(partition, &bounds, most.min(items_max))?;
            let mut parts = match self.built_parts(site, step, partition, &entries, &mut kept)? {
                Attempt::Done(parts) => parts,
                Attempt::Again(reason) => return Ok(Attempt::Again(reason)),
            };
            match entries.last() {
                Some(last) => built.last.clone_from(&last.key),
                None => built.done = true,
            }
            built.items += entries.len() as u64;
            let (space, key) = (Space::Meta, key::built(site.number, step.number));
            let part = part_of(&mut parts, partition);
            part.preconditions.push(Precondition::unchanged(space, key.clone(), built.version));
            part.puts.push(Put { space, key, value: built.to_bytes() });
            match self.engine.point_writes().commit_all(Commit::new(parts)) {
                Ok(_) => Ok(Attempt::Done(entries.len())),
                Err(StorageError::Conflict(_)) => Ok(Attempt::Again("conflict")),
                Err(StorageError::TooLarge) if !by_itself => {
                    by_itself = true;
                    Ok(Attempt::Again("the commit is too large"))
                }
                Err(error) => Err(storage(error)),
            }
        })
    }

    fn items_to_build(
        self,
        partition: &PhysicalPartition,
        bounds: &Bounds,
        max_rows: usize,
    ) -> Result<Vec<Entry>> {
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let scan = bounds.scan(Space::Items, max_rows, limits::REBUILD_BYTES_MAX);
        snapshot.scan(&scan).map_err(storage)
    }

    /// What brings these items under the rule.
    fn built_parts(
        self,
        site: Site<'_>,
        step: &Step<'_>,
        partition: &PhysicalPartition,
        entries: &[Entry],
        kept: &mut Vec<(ShardId, Row)>,
    ) -> Result<Attempt<Vec<Part>>> {
        let container = step.container;
        let partition = container.partition_with(partition.shard)?;
        let claims = Some(UniqueClaims::new(kept.clone()));
        let mut tx = self.building(site, container, partition, claims);
        let mut broken = Vec::new();
        for entry in entries {
            let before = BeforeImage::read(entry.value.clone())?;
            let partition_key = container.definition.partition_key.extract(before.value()?);
            let at = ItemKey { partition, partition_key, key: entry.key.clone() };
            tx.load(tx.home(), &at)?;
            let address = ItemAddress { container, at };
            tx.begin_operation();
            let savepoint = tx.writes.savepoint();
            let brought = tx.under(site.scope).bring_under(site, step.number, &address);
            let brought = brought.and_then(|broken| {
                unique_keys::claim(&mut tx, savepoint)?;
                Ok(broken)
            });
            match brought {
                Ok(false) => tx.writes.release(savepoint),
                Ok(true) => {
                    tx.writes.release(savepoint);
                    broken.push((address, TAKEN_IN.to_vec()));
                }
                // It cannot be brought under the rule as it is.
                Err(error) if is_refusal(&error) => {
                    tx.writes.rollback_to(savepoint);
                    broken.push((address, [LEFT_OUT, error.to_string().as_bytes()].concat()));
                }
                Err(error) => {
                    // The holder of a unique key has changed, or was hidden and is removed.
                    let Some(reason) = tx.doomed() else { return Err(error) };
                    if let RetryReason::HiddenHolder(container, partition, row) = reason
                        && !self
                            .engine
                            .expiry_sweep()
                            .purge_hidden_row(container, partition, row)?
                    {
                        kept.push((partition.shard, row));
                    }
                    return Ok(Attempt::Again(reason.text()));
                }
            }
        }
        let (mut commit, _) = tx.assemble()?.into_commit();
        let part = part_of(&mut commit.parts, partition);
        for (address, how) in broken {
            let key = key::violation(site.number, &address.at.key);
            part.puts.push(Put { space: Space::Meta, key, value: how });
        }
        Ok(Attempt::Done(commit.parts))
    }

    /// A transaction that brings items under a rule.
    fn building(
        self,
        site: Site<'e>,
        container: &'e Container,
        partition: &'e PhysicalPartition,
        claims: Option<UniqueClaims>,
    ) -> TransactionState<'e> {
        let view = ReadView::latest(self.engine);
        let options = TransactionOptions {
            claims,
            relaxed: true,
            ..TransactionOptions::under(Some(site.scope))
        };
        TransactionState::new(self.engine, container, partition, view, options)
    }

    /// All items are under a rule: it holds, unless some break it. Whether something was done.
    fn finish_rule(self, database: &Database, index: usize) -> Result<bool> {
        self.engine.epochs().redo(&mut || {
            let checked = {
                let _schema = self.engine.model_locks.schema_shared();
                let state = self.engine.catalog.state();
                let now = state.databases().find(|now| now.number == database.number);
                let Some((now, model)) = now.and_then(|now| now.model.as_deref().map(|m| (now, m)))
                else {
                    return Ok(false);
                };
                if !model.is_building(index) {
                    return Ok(false);
                }
                let scope = ModelContext { database: now, model };
                let site = Site { scope, index, number: model.numbers[index] };
                if !self.recheck_violations(site)? {
                    return Ok(false);
                }
                model.stages.get(index).copied()
            };
            let mut change = self.engine.catalog.change()?;
            let number = u64::from(database.number);
            let found = change.state.databases().find(|now| now.number == database.number);
            let Some(mut now) = found.map(|now| (**now).clone()) else { return Ok(false) };
            let Some(mut model) = now.model.as_deref().cloned() else { return Ok(false) };
            let old = database.model.as_ref();
            if old.is_none_or(|old| old.numbers.get(index) != model.numbers.get(index)) {
                return Ok(false);
            }
            let Some(stage) = model.stages.get_mut(index) else { return Ok(false) };
            if checked != Some(*stage) {
                // Another node has taken the step; the next one needs a check of its own.
                return Ok(false);
            }
            *stage = match *stage {
                Stage::Building => Stage::Verified,
                Stage::Verified | Stage::Enforced => Stage::Enforced,
            };
            let version = change.record(RecordKind::Model, number, store::NUMBER)?.version;
            change.replace(RecordKind::Model, number, &model.record(version))?;
            let model = Arc::new(model);
            if self.engine.is_shared() {
                // No writer in another process goes on by the stage before.
                let named = now.containers_of(Some(&model));
                change.replace_definitions(&mut now, &named)?;
            }
            now.model = Some(model);
            change.state.insert(now);
            change.commit()?;
            Ok(true)
        })
    }

    /// Looks again at the items that broke a rule; whether none does.
    fn recheck_violations(self, site: Site<'_>) -> Result<bool> {
        let mut none = true;
        for step in site.steps()? {
            for partition in &step.container.partitions {
                let mut bounds = key::violations_of(site.number);
                loop {
                    let notes = self.notes(partition, &bounds)?;
                    let Some(last) = notes.last() else { break };
                    bounds = bounds.after(&last.key);
                    // Once one violation is left, the others that are taken in need no check now. Items
                    // that are left out prevent queries, so they are always checked.
                    let decided = !none;
                    for note in &notes {
                        if !decided || note.value.bytes != TAKEN_IN {
                            none &= self.recheck(site, &step, partition, &note.key)?;
                        }
                    }
                }
            }
        }
        Ok(none)
    }

    /// Whether every item that breaks a rule in a shard is taken in nevertheless.
    fn all_taken_in(self, number: u32, partition: &PhysicalPartition) -> Result<bool> {
        let mut bounds = key::violations_of(number);
        loop {
            let notes = self.notes(partition, &bounds)?;
            let Some(last) = notes.last() else { return Ok(true) };
            bounds = bounds.after(&last.key);
            if notes.iter().any(|note| note.value.bytes != TAKEN_IN) {
                return Ok(false);
            }
        }
    }

    /// A page of the items that break a rule.
    fn notes(self, partition: &PhysicalPartition, bounds: &Bounds) -> Result<Vec<Entry>> {
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let scan = bounds.scan(Space::Meta, limits::PAGE_ITEMS_MAX, usize::MAX);
        snapshot.scan(&scan).map_err(storage)
    }

    /// Whether an item that broke a rule does so no longer.
    fn recheck(
        self,
        site: Site<'_>,
        step: &Step<'_>,
        partition: &PhysicalPartition,
        note: &[u8],
    ) -> Result<bool> {
        let container = step.container;
        let partition = container.partition_with(partition.shard)?;
        let mut tx = self.building(site, container, partition, None);
        let item = key::parse_violation(note).unwrap_or_default();
        if let Some(address) = tx.address_of_key(container, item)? {
            for pass in [0, 1] {
                match tx.under(site.scope).bring_under(site, pass, &address) {
                    Ok(false) => {}
                    Ok(true) => return Ok(false),
                    Err(error) if is_refusal(&error) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        let mut prepared = match tx.assemble() {
            Ok(prepared) => prepared,
            Err(error) if is_refusal(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        prepared.part_of(partition).deletes.push((Space::Meta, note.to_vec()));
        match self.engine.point_writes().commit_all(prepared.into_commit().0) {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict(_)) => Ok(false),
            Err(error) => Err(storage(error)),
        }
    }

    /// Refuses to follow a rule of which something is not written down yet, by the name that leads
    /// there. Items that break the rule do not count, as long as their references are known.
    pub(crate) fn must_be_built(
        self,
        scope: ModelContext<'_>,
        index: usize,
        name: &str,
    ) -> Result<()> {
        if !scope.model.is_building(index) {
            return Ok(());
        }
        let site = Site { scope, index, number: scope.model.numbers[index] };
        let mut complete = true;
        for step in site.steps()? {
            for partition in &step.container.partitions {
                complete = complete
                    && self.built(site, &step, partition)?.done
                    && self.all_taken_in(site.number, partition)?;
            }
        }
        if complete {
            return Ok(());
        }
        let progress = self.build_progress(scope, index)?;
        Err(Error::invalid(format!(
            "'{name}' cannot be followed yet: its rule was stored lately, and the items that were \
             there before are still being brought under it ({progress} % are). `_state` of the model \
             shows when that is done, and which items are in its way. Until then query the items \
             themselves."
        )))
    }

    /// How many percent of the items that a rule is about are under it.
    pub(crate) fn build_progress(self, scope: ModelContext<'_>, index: usize) -> Result<i64> {
        let site = Site { scope, index, number: scope.model.numbers[index] };
        let (mut built, mut total) = (0, 0);
        for step in site.steps()? {
            for partition in &step.container.partitions {
                built += self.built(site, &step, partition)?.items;
                let snapshot = self.engine.store.snapshot(partition.shard, ReadAt::Latest);
                let rows = key::all_rows();
                let snapshot = snapshot.map_err(storage)?;
                total += snapshot.estimate(Space::Items, &rows.from, &rows.to).map_err(storage)?;
            }
        }
        let percent = built.saturating_mul(100) / total.max(1);
        Ok(i64::try_from(percent.min(99)).unwrap_or(99))
    }
}

impl Database {
    /// The containers that its model or the old one names.
    pub(crate) fn containers_of(&self, old: Option<&StoredModel>) -> Vec<Arc<Container>> {
        let concerned = |container: &&Arc<Container>| {
            let new = self.model.as_deref();
            [old, new].into_iter().flatten().any(|model| model.rules.concerns(&container.id))
        };
        self.containers().filter(concerned).cloned().collect()
    }
}

/// Takes the locks of containers exclusively.
pub(crate) fn lock_all(containers: &[Arc<Container>]) -> Vec<LockGuard> {
    let partitions = containers.iter().flat_map(|container| &container.partitions);
    partitions.flat_map(|partition| partition.locks.lock_all()).collect()
}

impl<'e> ModelTransaction<'_, 'e> {
    /// Brings an item under a rule that is being built, in one of its passes; whether it breaks it.
    fn bring_under(&mut self, site: Site<'e>, pass: u8, address: &ItemAddress<'e>) -> Result<bool> {
        let shard = self.tx.shard_of(address);
        let Some(value) = self.tx.past_image(shard, &address.at.key)? else { return Ok(false) };
        let visible = self.tx.current(shard, &address.at.key).is_some();
        let (kept, broken) = match site.relation() {
            None => {
                let is_bucket = Marker::read(&value).is_some();
                // Buckets that an earlier model left come first.
                let now = visible && is_bucket == (pass == 0);
                (if now { buckets::shelve(self, address, &value)? } else { value.clone() }, false)
            }
            Some(rule) if pass == 0 => self.target_under(site, rule, address, &value, visible)?,
            Some(rule) => self.source_under(site, rule, address, &value, visible)?,
        };
        if kept != value {
            self.put_derived(address, kept.clone())?;
        }
        if pass == 1 || kept != value {
            cascade::follow(self, vec![ItemChange::new(address.clone(), Some(value), Some(kept))])?;
        }
        Ok(broken)
    }

    /// A target with what is kept of it by one relation.
    fn target_under(
        &mut self,
        site: Site<'e>,
        rule: &RelationRule,
        address: &ItemAddress<'e>,
        value: &Value,
        visible: bool,
    ) -> Result<(Value, bool)> {
        let rules = &site.scope.model.rules;
        let mut kept = value.clone();
        if !visible || !rules.types[rule.to].matches(&address.container.id, value) {
            return Ok((kept, false));
        }
        let mut broken = inverse_path(rule).is_some_and(|p| !p.get(value, &[]).is_undefined());
        if let Some(inverse) = &rule.def.inverse
            && let Some(path) = &inverse.store
        {
            let truth = cascade::true_inverse(self, site.index, address)?;
            broken |= is_displaced(path.get(&kept, &[]), &truth);
            broken |= truth.as_array().map_or(0, <[Value]>::len) > inverse.max_items;
            if !broken && !same_ids(path.get(&kept, &[]), &truth) {
                path.set(&mut kept, &[], truth);
            }
        }
        for aggregate in rules.aggregates.iter().filter(|a| a.relation == site.index) {
            let truth = if aggregate.held() == AggregateSource::InItem {
                references::watch_references(self.tx, address)?;
                kept_on_target::recomputed(self, aggregate, address)?
            } else {
                kept_on_target::aggregate_beside(self, aggregate, address)?
            };
            let path = &aggregate.def.path;
            if is_displaced(path.get(&kept, &[]), &truth) {
                broken = true;
            } else {
                path.set(&mut kept, &[], truth);
            }
        }
        Ok((kept, broken))
    }

    /// A source with its copies.
    fn source_under(
        &mut self,
        site: Site<'e>,
        rule: &RelationRule,
        address: &ItemAddress<'e>,
        value: &Value,
        visible: bool,
    ) -> Result<(Value, bool)> {
        let mut kept = value.clone();
        let from = &site.scope.model.rules.types[rule.from];
        if !visible || !from.matches(&address.container.id, value) {
            return Ok((kept, false));
        }
        self.copies_anew(rule, &mut kept, true)?;
        Ok((kept, !self.complaints_of(site.index, rule, address)?.is_empty()))
    }

    /// An item with everything that the server keeps in it recomputed.
    pub(crate) fn kept_anew(&mut self, address: &ItemAddress<'e>, value: &Value) -> Result<Value> {
        let scope = self.context;
        let rules = &scope.model.rules;
        let types = rules.types_of(&address.container.id, value);
        let mut kept = value.clone();
        for (index, rule) in rules.relations.iter().enumerate() {
            if scope.model.is_building(index) {
                continue;
            }
            if types.contains(&rule.from) && !rule.copies.is_empty() {
                self.copies_anew(rule, &mut kept, false)?;
            }
            let inverse = rule.def.inverse.as_ref().filter(|_| types.contains(&rule.to));
            let Some(path) = inverse.and_then(|inverse| inverse.store.as_ref()) else { continue };
            let truth = cascade::true_inverse(self, index, address)?;
            if !same_ids(path.get(&kept, &[]), &truth) {
                path.set(&mut kept, &[], truth);
            }
        }
        for aggregate in rules.aggregates.iter().filter(|a| types.contains(&a.on)) {
            if !scope.model.is_building(aggregate.relation) {
                let truth = kept_on_target::recomputed(self, aggregate, address)?;
                aggregate.def.path.set(&mut kept, &[], truth);
            }
        }
        buckets::arrays_anew(self, address, &types, false, &mut kept)?;
        Ok(kept)
    }

    /// Puts copies to what is true; while their rule is built, what they would displace stays.
    fn copies_anew(&mut self, rule: &RelationRule, kept: &mut Value, building: bool) -> Result<()> {
        for (reference, address) in references::references_of(self.tx, self.context, rule, kept)? {
            let Some(address) = address else { continue };
            let Some(target) = self.target_at(rule, &address)? else { continue };
            for (path, copy) in &rule.copies {
                let truth = copy.value(&target);
                if !building || !is_displaced(path.get(kept, &reference.place), &truth) {
                    path.set(kept, &reference.place, truth);
                }
            }
        }
        Ok(())
    }
}

/// Whether two lists hold the same ids, in whatever order.
fn same_ids(a: &Value, b: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut ids = value.as_array()?.to_vec();
        ids.sort();
        Some(ids)
    };
    sorted(a).is_some() && sorted(a) == sorted(b)
}
