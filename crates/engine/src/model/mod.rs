//! The model of a database: kept in the catalog, one for each database, and compiled into rules when
//! it is stored and when the server starts. Every write of an item goes through it, whoever makes it:
//!
//! 1. `govern` makes the after image what it must be, or refuses it.
//! 2. `effects` adds to the draft what follows for other items, in whichever partition.
//! 3. `references` makes one commit of it all, in which the references of every item change too.
//!
//! Nothing is locked: whatever was looked at is checked by the commit, and a reference that comes
//! while its target goes is seen by one of the two (`storage::key::guard`).

mod build;
mod effects;
mod expiry;
mod expression;
mod govern;
mod references;
mod spot;
mod store;
mod unbuilt;
mod verify;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use orrery_modeling::Rules;
use orrery_types::ids::Address;
use orrery_types::{Lsn, Value, limits};

use crate::change::Becomes;
use crate::draft::Draft;
use crate::stamp::Stamp;
use crate::{Container, Database, Engine};

pub(crate) use effects::Event;

/// The model of a database at one moment.
#[derive(Debug)]
pub(crate) struct StoredModel {
    pub(crate) stamp: Stamp,
    /// As it was sent, without system properties.
    document: Value,
    pub(crate) rules: Rules,
    /// For each relation the number under which its references are stored; a relation that changes
    /// gets a new one.
    pub(crate) numbers: Vec<u32>,
    /// For each relation all that its references depend on, as text.
    identities: Vec<String>,
}

impl StoredModel {
    /// The document as it was sent.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }
}

/// The model that a draft is under.
#[derive(Clone, Copy)]
pub(crate) struct ModelScope<'e> {
    pub(crate) database: &'e Database,
    pub(crate) model: &'e StoredModel,
}

/// What a draft has for its model.
#[derive(Default)]
pub(crate) struct ModelDraft<'e> {
    /// `None`: no model says anything about the container.
    pub(crate) scope: Option<ModelScope<'e>>,
    /// Drafts of other physical partitions.
    pub(crate) others: Vec<Draft<'e>>,
    /// What the current change has replaced, to take it back.
    pub(crate) log: Vec<(Vec<u8>, Becomes)>,
    /// Guards of items whose references were looked at, with their versions then.
    pub(crate) guards: BTreeMap<Vec<u8>, Option<Lsn>>,
    /// What the current change is warned of.
    pub(crate) warnings: Vec<String>,
    /// The charge of what followed from the current change.
    pub(crate) charge: f64,
}

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Held by whoever removes expired items, and alone by whoever builds what a model keeps.
    still: RwLock<()>,
    /// Held by writers that have lost too often: a target that all of them change is in no gate.
    turn: Mutex<()>,
}

impl Turns {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.still.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ()> {
        self.still.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The database of a container as it is now.
    pub(crate) fn database_of(&self, container: &Container) -> Option<Arc<Database>> {
        self.catalog.database(&Address::Rid(container.database_rid())).ok()
    }

    /// Whether a draft of the container is under another model than that of now.
    pub(crate) fn model_changed(
        &self,
        container: &Container,
        scope: Option<ModelScope<'_>>,
    ) -> bool {
        let database = self.database_of(container);
        let stamp = |scope: Option<ModelScope<'_>>| scope.map(|scope| scope.model.stamp);
        stamp(ModelScope::of(database.as_deref(), container)) != stamp(scope)
    }

    /// Whether a model says anything about the items of a container.
    pub fn is_modelled(&self, container: &Container) -> bool {
        ModelScope::of(self.database_of(container).as_deref(), container).is_some()
    }

    /// For an attempt after many: one at a time.
    pub(crate) fn model_turn(&self, attempt: usize) -> Option<MutexGuard<'_, ()>> {
        let late = attempt >= limits::COMMIT_ATTEMPTS_SHARED;
        late.then(|| self.models.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
