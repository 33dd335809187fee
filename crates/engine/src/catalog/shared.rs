//! The catalog of a store that several processes share. Each has a picture of its own, which says what it shows:
//! the last commit of the system shard that was read. Whoever must not be wrong about what exists looks at the head
//! of that shard first ([`Catalog::refresh`]), and reads the records again if its control LSN is beyond the picture.
//! Every change writes one key, the *catalog head*, and requires the version that the picture was read with, so no
//! change rests on a picture that another process has outdated; it is made again on the newer one ([`redo`]).

use std::sync::{Arc, Mutex, PoisonError};

use orrery_storage::{Part, Precondition, Put, ReadAt, Space, key};
use orrery_types::ids::Address;
use orrery_types::{Epoch, Error, Result, ShardId};

use super::container::Container;
use super::{Catalog, SYSTEM_SHARD, State};
use crate::error::storage;

/// What goes with pictures that are read again.
#[derive(Default)]
pub(super) struct Refreshes {
    /// One thread reads the records, for all that wait for them.
    reading: Mutex<()>,
    /// Held while one picture takes the place of another.
    showing: Mutex<()>,
}

impl Catalog {
    /// Looks something up; what is not there is looked for in the newest picture.
    pub(super) fn look_up<T>(&self, find: impl Fn(&State) -> Result<T>) -> Result<T> {
        let found = find(&self.state.load());
        if found.is_ok() || self.observed.is_none() {
            return found;
        }
        self.refresh()?;
        find(&self.state.load())
    }

    /// Returns when the picture shows every change that was answered before the call, whoever made it.
    pub(crate) fn refresh(&self) -> Result<()> {
        if self.observed.is_none() {
            return Ok(());
        }
        let head = self.store.heads(&[SYSTEM_SHARD]).map_err(storage)?.into_iter().next().flatten();
        let head = head.ok_or_else(|| Error::internal("the store has no catalog"))?;
        let is_current = || self.state.load().shows >= head.control;
        if !is_current() {
            let _one = self.refreshes.reading.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_current() {
                let snapshot = self.store.snapshot(SYSTEM_SHARD, ReadAt::Latest);
                let state = State::load(&*snapshot.map_err(storage)?, Some(&self.state()))?;
                self.show(state);
            }
        }
        // Whoever shows the picture has then named its shards too.
        drop(self.refreshes.showing.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Puts a picture in place of the one that is shown, unless that is newer.
    pub(super) fn show(&self, state: State) {
        let Some(observed) = &self.observed else {
            self.state.store(Arc::new(state));
            return;
        };
        let _showing = self.refreshes.showing.lock().unwrap_or_else(PoisonError::into_inner);
        if state.shows <= self.state.load().shows {
            return;
        }
        let state = Arc::new(state);
        self.state.store(state.clone());
        // After the picture: a read that passes under the new epochs finds it replaced.
        observed.name_shards(state.shards());
    }
}

impl State {
    /// Adds to a commit that no other one has changed the catalog since this picture.
    pub(super) fn require_as_seen(&self, part: &mut Part) {
        let (space, key) = (Space::Meta, key::catalog_head());
        part.preconditions.push(Precondition::unchanged(space, key.clone(), self.head_version));
        part.puts.push(Put { space, key, value: vec![] });
    }

    /// The shards of all containers, with their epochs.
    pub(super) fn shards(&self) -> impl Iterator<Item = (ShardId, Epoch)> {
        self.containers().flat_map(|container| container.shards())
    }

    /// A container as this picture has it.
    pub(crate) fn container_by_rid(&self, container: &Container) -> Option<&Arc<Container>> {
        let database = self.database(&Address::Rid(container.database_rid()))?;
        database.container(&Address::Rid(container.rid()))
    }
}
