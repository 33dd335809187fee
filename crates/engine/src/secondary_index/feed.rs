//! The worker of global secondary indexes: every index has a turn for each shard of its source, in rounds, until
//! all are at the end. Each turn is a unit of background work, so that one that fails holds up no other.

use std::sync::{Arc, PoisonError};

use orrery_storage::key;
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Result, limits};

use super::SecondaryIndexes;
use super::step::{FollowedShard, StepOutcome};
use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::background::{BATCHES_PER_STEP, BackgroundPass, UnitProgress};
use crate::{Container, Database};

/// Steps that another process was faster with, or that a new layout has ended, in a row.
const LOSSES_MAX: usize = 5;

/// An index and its source, as the catalog has them now.
pub(super) struct IndexPair {
    pub(super) index: Arc<Container>,
    pub(super) source: Arc<Container>,
}

impl SecondaryIndexes<'_> {
    /// Brings all indexes up to their sources, a bounded turn for each shard, until nothing is left that
    /// can be done now.
    pub fn follow(self, stop: &dyn Fn() -> bool) -> Result<()> {
        let _alone = self.engine.index_worker.alone.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.nodes().before_pass();
        self.engine.units.begin_pass(UnitKind::is_of_secondary_indexes);
        let mut run = BackgroundPass::new(stop);
        loop {
            run.unfinished = false;
            for database in self.engine.catalog.state().databases() {
                for source in database.containers() {
                    self.follow_source(database, source, &mut run);
                }
            }
            if !run.unfinished || stop() {
                break;
            }
        }
        if !stop() {
            self.engine.units.end_pass(UnitKind::is_of_secondary_indexes);
        }
        run.result(())
    }

    /// Whether any container is the source of an index.
    pub(crate) fn are_there(self) -> bool {
        self.engine.catalog.state().containers().any(|c| !c.secondary.indexes.is_empty())
    }

    fn follow_source(self, database: &Database, source: &Container, run: &mut BackgroundPass<'_>) {
        for (number, _) in &source.secondary.indexes {
            let rid = Rid::Container { database: database.number, container: *number };
            let Some(index) = database.container(&Address::Rid(rid)) else { continue };
            let mut at_end = true;
            for partition in &source.partitions {
                let detail = partition.id.to_be_bytes();
                let unit = UnitKey::of(index, UnitKind::SecondaryIndex, &detail);
                let turn = self
                    .engine
                    .background()
                    .run_unit(run, &unit, 0, &mut |run| self.turn(index, partition.id, run, &unit));
                at_end &= turn == Some(UnitProgress::Done);
                let unit = UnitKey::of(index, UnitKind::SecondaryIndexHeld, &detail);
                self.engine
                    .background()
                    .run_unit(run, &unit, 0, &mut |_| self.retry_held(index, partition.id));
            }
            index.feeding.retain(|id| source.partitions.iter().any(|p| p.id == id));
            if at_end && !index.secondary.is_built {
                let unit = UnitKey::of(index, UnitKind::SecondaryIndex, b"built");
                self.engine.background().run_unit(run, &unit, 0, &mut |_| {
                    self.set_built(index)?;
                    Ok(UnitProgress::Done)
                });
            }
        }
        for index in &source.secondary.former {
            let unit = UnitKey::of(source, UnitKind::FormerIndex, &index.to_be_bytes());
            self.engine.background().run_unit(run, &unit, 0, &mut |run| {
                Ok(self.remove_former(source, *index, run.stop)?)
            });
        }
    }

    /// An index and its source as they are now; `None` if one of them was deleted.
    fn pair_of(self, index: &Container) -> Option<IndexPair> {
        let state = self.engine.catalog.state();
        let database = state.database(&Address::Rid(index.database_rid()))?;
        let index = database.container(&Address::Rid(index.rid()))?;
        let rid = index.definition.secondary_index.as_ref()?.source_rid?;
        let source = database.container(&Address::Rid(rid))?;
        Some(IndexPair { index: index.clone(), source: source.clone() })
    }

    /// Runs work on one shard of a source under the current layout of both containers, and again if it has
    /// changed meanwhile; `None` if the shard is no longer there.
    fn under_layout<T>(
        self,
        index: &Container,
        partition: u32,
        work: &mut dyn FnMut(FollowedShard<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        for attempt in 0.. {
            let Some(pair) = self.pair_of(index) else { return Ok(None) };
            let Some(partition) = pair.source.partitions.iter().find(|p| p.id == partition) else {
                return Ok(None);
            };
            let IndexPair { index, source } = &pair;
            match work(FollowedShard { engine: self.engine, index, source, partition }) {
                Err(Error::PartitionGone) if attempt < LOSSES_MAX => {
                    self.engine.catalog.wait_for_changes();
                    self.engine.erasure().load_all_changed()?;
                }
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// A bounded number of steps for one shard.
    fn turn(
        self,
        index: &Container,
        partition: u32,
        run: &mut BackgroundPass<'_>,
        unit: &UnitKey,
    ) -> std::result::Result<UnitProgress, UnitFailure> {
        let (mut items_max, mut losses) = (limits::SECONDARY_INDEX_ITEMS_MAX, 0);
        for _ in 0..BATCHES_PER_STEP {
            if (run.stop)() {
                return Ok(UnitProgress::Unfinished);
            }
            let outcome = self.under_layout(index, partition, &mut |shard| {
                shard.step(&mut run.cursor(unit, shard.source).last, items_max)
            })?;
            match outcome {
                // The next round follows the shards that have taken its place.
                None => return Ok(UnitProgress::Unfinished),
                Some(StepOutcome::AtEnd) => return Ok(UnitProgress::Done),
                Some(StepOutcome::More) => losses = 0,
                Some(StepOutcome::Lost) if losses < LOSSES_MAX => losses += 1,
                Some(StepOutcome::Lost) => return Err(Error::RetryWith.into()),
                Some(StepOutcome::TooLarge) if items_max > 1 => items_max = items_max.div_ceil(4),
                Some(StepOutcome::TooLarge) => {
                    return Err(Error::invalid(
                        "an item of a global secondary index has more index terms than one commit takes",
                    )
                    .into());
                }
            }
        }
        Ok(UnitProgress::Unfinished)
    }

    /// Tries again what an index could not hold; the unit fails as long as there is something.
    fn retry_held(
        self,
        index: &Container,
        partition: u32,
    ) -> std::result::Result<UnitProgress, UnitFailure> {
        let mut source = None;
        let left = self.under_layout(index, partition, &mut |shard| {
            source = Some(shard.source.id.clone());
            shard.retry_held()
        })?;
        let Some((item, error)) = left.flatten() else { return Ok(UnitProgress::Done) };
        let id = key::parse_item(&item).map(|key| format!("item '{}'", key.id)).unwrap_or_default();
        let source = source.unwrap_or_default();
        Err(UnitFailure { error, item: Some(format!("{id} in '{source}'")) })
    }
}
