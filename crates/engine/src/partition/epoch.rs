//! Epochs refuse writers with an old definition. Every replacement of a container's definition, and of a model
//! that names the container, raises the epochs of its shards in the same commit, and a split or merge
//! retires some of them. From then on the store refuses commits that were prepared under the old definition,
//! so none of them lands after the backfill that the change has started. A writer that is refused reloads the
//! definition and starts over.

use std::sync::Arc;
use std::time::Duration;

use orrery_storage::{Commit, Head, HeadChange, Part, ShardState};
use orrery_types::{Epoch, Error, Result, ShardId, limits};

use crate::catalog::SYSTEM_SHARD;
use crate::error::storage;
use crate::model::ModelContext;
use crate::nodes::observed_store::ObservedStore;
use crate::{Container, Engine};

/// How often a request reloads a definition that changes under it.
const RELOADS_MAX: usize = 8;

impl Container {
    /// Where its data lies, and under which epochs.
    pub(crate) fn shards(&self) -> Vec<(ShardId, Epoch)> {
        self.partitions.iter().map(|p| (p.shard, p.epoch)).collect()
    }
}

/// Pause between two looks at a shard that another process has closed.
const CUTOVER_PAUSE_MS: u64 = 20;
const MOVING: &str = "Writes are refused: the data is being moved to another store, or was moved.";
const CLOSED: &str = "The partition is about to be replaced, which takes too long; retry later.";

/// Epochs of shards, and what runs again under a new one.
#[derive(Clone, Copy)]
pub(crate) struct Epochs<'e> {
    pub(crate) engine: &'e Engine,
}

impl Epochs<'_> {
    /// Runs `work` with the current definition, and again while the store refuses its epoch.
    pub(crate) fn retry_on_stale_epoch<T>(
        self,
        container: &Container,
        work: &mut dyn FnMut(&Container) -> Result<T>,
    ) -> Result<T> {
        let mut loaded = self.generation();
        let mut result = work(container);
        let mut now: Option<Arc<Container>> = None;
        for _ in 0..RELOADS_MAX {
            let used = now.as_deref().unwrap_or(container);
            if !matches!(result, Err(Error::PartitionGone))
                && !self.rests_on_old_picture(&result, used)?
            {
                return result;
            }
            let Some(mut newer) = self.reload(container)? else {
                return self.unless_deleted(result);
            };
            // What is gone was never in the layout, unless it is closed at this moment.
            let is_refused = matches!(result, Err(Error::PartitionGone));
            if is_refused && self.engine.is_shared() && self.is_same(&newer, used, loaded) {
                if !self.wait_for_cutover(&newer)? {
                    return result;
                }
                newer = self.reload(container)?.unwrap_or(newer);
            }
            loaded = self.generation();
            result = work(&newer);
            now = Some(newer);
        }
        self.unless_outrun(result)
    }

    /// The same for work on several containers. One that was deleted meanwhile has no items.
    pub(crate) fn retry_all_on_stale_epoch<T>(
        self,
        containers: &[Arc<Container>],
        work: &mut dyn FnMut(&[Arc<Container>]) -> Result<T>,
    ) -> Result<T> {
        let mut result = work(containers);
        for _ in 0..RELOADS_MAX {
            if !matches!(result, Err(Error::PartitionGone)) {
                return result;
            }
            let mut now = Vec::with_capacity(containers.len());
            for container in containers {
                now.push(self.reload(container)?.ok_or(Error::OwnerNotFound)?);
            }
            result = work(&now);
        }
        self.unless_outrun(result)
    }

    /// Runs a read with the current layout, and again if one of the shards that it began with is gone.
    pub(crate) fn retry_on_gone_shard<T>(
        self,
        container: &Container,
        work: &mut dyn FnMut(&Container) -> Result<T>,
    ) -> Result<T> {
        if let Some(observed) = &self.engine.observed {
            return self.retry_read(observed, container, work);
        }
        let mut result = work(container);
        if !matches!(result, Err(Error::PartitionGone)) {
            return result;
        }
        let mut tried = container.shards();
        for _ in 0..RELOADS_MAX {
            let Some(now) = self.reload(container)? else { break };
            // What is gone was never in the layout: the client asked for it.
            if now.shards() == tried {
                break;
            }
            tried = now.shards();
            result = work(&now);
            if !matches!(result, Err(Error::PartitionGone)) {
                break;
            }
        }
        result
    }

    /// The same where other processes change definitions, layouts and erasures. A read that began with an older
    /// definition than the process has by its end may have passed under the new one, so it runs again too.
    fn retry_read<T>(
        self,
        observed: &ObservedStore,
        container: &Container,
        work: &mut dyn FnMut(&Container) -> Result<T>,
    ) -> Result<T> {
        let mut loaded = observed.generation();
        let mut result = work(container);
        let mut now = None;
        for _ in 0..RELOADS_MAX {
            let used = now.as_deref().unwrap_or(container);
            let is_refused = matches!(result, Err(Error::PartitionGone));
            if !is_refused && self.is_current(used) && !self.rests_on_old_picture(&result, used)? {
                return result;
            }
            let Some(reloaded) = self.reload(container)? else { return Err(Error::OwnerNotFound) };
            // What is gone was never in the layout: the client asked for it.
            if is_refused && self.is_same(&reloaded, used, loaded) {
                return result;
            }
            loaded = observed.generation();
            result = work(&reloaded);
            now = Some(reloaded);
        }
        self.unless_outrun(result)
    }

    /// Whether a refusal may rest on a definition or a model that another process has replaced: no read has
    /// compared it with the store. The newest picture is shown afterwards.
    fn rests_on_old_picture<T>(self, result: &Result<T>, used: &Container) -> Result<bool> {
        let by_definition = |error: &Error| {
            matches!(
                error,
                Error::Invalid(_)
                    | Error::Query(_)
                    | Error::PartitionKeyMismatch(_)
                    | Error::ModelViolated(_)
            )
        };
        if !self.engine.is_shared() || !result.as_ref().err().is_some_and(by_definition) {
            return Ok(false);
        }
        self.engine.catalog.refresh()?;
        Ok(!self.is_current(used))
    }

    /// Changes whenever this process has loaded what others have changed.
    fn generation(self) -> u64 {
        self.engine.observed.as_ref().map_or(0, |observed| observed.generation())
    }

    /// Whether there is nothing new since a container was used, and since a generation was noted.
    fn is_same(self, newer: &Container, used: &Container, loaded: u64) -> bool {
        self.generation() == loaded && newer.shards() == used.shards()
    }

    /// Waits while another process cuts over to a new layout, for some seconds at most; whether one did.
    fn wait_for_cutover(self, container: &Container) -> Result<bool> {
        let mut shards = vec![SYSTEM_SHARD];
        shards.extend(container.partitions.iter().map(|p| p.shard));
        for pause in 0..=limits::CUTOVER_WAIT_MS / CUTOVER_PAUSE_MS {
            let heads = self.engine.store.heads(&shards).map_err(storage)?;
            let is_closed =
                |head: &Option<Head>| head.is_some_and(|h| h.state == ShardState::Closed);
            if heads.first().is_some_and(is_closed) {
                return Err(Error::Unavailable(MOVING.into()));
            }
            if !heads.iter().any(is_closed) {
                let is_replaced =
                    |head: &Option<Head>| head.is_none_or(|head| head.state == ShardState::Dropped);
                return Ok(pause > 0 || heads.iter().any(is_replaced));
            }
            std::thread::sleep(Duration::from_millis(CUTOVER_PAUSE_MS));
        }
        Err(Error::Unavailable(CLOSED.into()))
    }

    /// Whether the catalog's picture has the same definition and layout of a container.
    pub(crate) fn is_current(self, container: &Container) -> bool {
        let state = self.engine.catalog.state();
        let now = state.container_by_rid(container);
        now.is_some_and(|now| {
            std::ptr::eq(&raw const **now, container) || now.shards() == container.shards()
        })
    }

    /// A refusal because of a container that is no longer there.
    fn unless_deleted<T>(self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::PartitionGone) if self.engine.is_shared() => Err(Error::OwnerNotFound),
            other => other,
        }
    }

    /// Definitions that change again and again are no reason to look for another range.
    fn unless_outrun<T>(self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::PartitionGone) if self.engine.is_shared() => Err(Error::Unavailable(
                "The definition of the container changes all the time; retry later.".into(),
            )),
            other => other,
        }
    }

    /// The container as of now, after every catalog change in progress has ended, with what other processes
    /// have changed of it; `None` if it is gone.
    pub(crate) fn reload(self, container: &Container) -> Result<Option<Arc<Container>>> {
        self.engine.catalog.wait_for_changes();
        self.engine.catalog.refresh()?;
        let now = self.engine.catalog.state().container_by_rid(container).cloned();
        let Some(now) = now else { return Ok(None) };
        self.engine.erasure().load_changed(&now)?;
        // A model leads to other containers of the database.
        if let Some(database) = self.engine.models().database_of(&now)
            && ModelContext::of(Some(&database), &now).is_some()
        {
            database.containers().try_for_each(|c| self.engine.erasure().load_changed(c))?;
        }
        Ok(Some(now))
    }

    /// Makes a change of the catalog, and makes it again on a newer picture while other processes are faster.
    /// Nothing was written by an attempt that failed.
    pub(crate) fn redo<T>(self, change: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        let mut result = change();
        if !self.engine.is_shared() {
            return result;
        }
        for attempt in 1..limits::COMMIT_ATTEMPTS_MAX {
            match result {
                Err(Error::RetryWith) => {}
                Err(Error::PartitionGone) => self.engine.erasure().load_all_changed()?,
                _ => break,
            }
            self.pause(attempt);
            result = change();
        }
        result
    }

    /// Waits for a time that differs between processes: two that are in each other's way are not in step.
    fn pause(self, attempt: usize) {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let etag = self.engine.stamper.next().etag;
        let spread = (etag.stamp ^ u64::from(etag.node)).wrapping_mul(SPREAD) >> 54;
        std::thread::sleep(Duration::from_micros(spread * attempt.min(16) as u64));
    }

    /// Brings shards to the epochs that the catalog has. In version 0.1 the catalog was changed first, so
    /// a process that ended in between has left them behind.
    pub(crate) fn catch_up(self, container: &Container) -> Result<()> {
        let shards: Vec<ShardId> = container.partitions.iter().map(|p| p.shard).collect();
        let heads = self.engine.store.heads(&shards).map_err(storage)?;
        for (partition, head) in container.partitions.iter().zip(heads) {
            let Some(Head { epoch, state: ShardState::Open, .. }) = head else { continue };
            if epoch < partition.epoch {
                let raise = HeadChange::epoch(partition.epoch);
                let commit = Commit::new(vec![Part::of_head(partition.shard, epoch, raise)]);
                self.engine.store.commit(commit).map_err(storage)?;
            }
        }
        Ok(())
    }
}
