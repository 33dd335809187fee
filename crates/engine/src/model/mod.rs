//! The model of a database: kept in the catalog, one for each database, and compiled into rules when
//! it is stored and when the server starts. Every write of an item goes through it, whoever makes it:
//!
//! 1. `model/rules` makes the after image what it must be, or refuses it.
//! 2. `maintain/cascade` adds what follows for other items, in whichever partition.
//! 3. `transaction/commit` makes one commit of it all, in which the references of every item change too.
//!
//! A transaction is under a model through its [`ModelContext`]. Nothing is locked: whatever was looked at is checked by the commit, and a reference that comes
//! while its target goes is seen by one of the two (`storage::key::guard`).

pub(crate) mod build;
mod expression;
pub(crate) mod names;
mod purge;
mod reach;
pub(crate) mod rules;
mod state;
mod store;
mod transaction;
mod verification;
mod verification_record;
mod verify;
pub(crate) mod violations;

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use orrery_modeling::{OnDelete, RelationRule, Rules};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, Value, limits};

use crate::catalog::resource::Stamp;
use crate::{Container, Database, Engine};

pub(crate) use crate::background::model_expiry::Purged;
pub(crate) use crate::maintain::buckets::Edits;
pub(crate) use transaction::ModelTransaction;
pub use verification::Verification;
pub(crate) use verification::Verifications;
pub use verify::{ModelVerification, VerificationProgress, Verified};

/// The model of a database at one moment.
#[derive(Clone, Debug)]
pub(crate) struct StoredModel {
    pub(crate) stamp: Stamp,
    /// As it was sent, without system properties.
    document: Value,
    pub(crate) rules: Rules,
    /// For each relation, and then for each bucketed array, the number under which what is kept for
    /// it is stored; a rule that changes gets a new one.
    pub(crate) numbers: Vec<u32>,
    /// For each of these rules all that what is kept for it depends on, as text.
    identities: Vec<String>,
    /// And how far it holds.
    stages: Vec<Stage>,
}

/// How far a rule holds for items that were there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Writes keep it; what was there is being brought under it.
    Building,
    /// Everything was, and nothing breaks it.
    Verified,
    Enforced,
}

impl StoredModel {
    /// Whether what is kept for a relation may not be complete.
    pub(crate) fn is_building(&self, index: usize) -> bool {
        self.stages.get(index).is_some_and(|stage| *stage != Stage::Enforced)
    }
}

impl StoredModel {
    /// The document as it was sent.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }
}

/// The locks that models need beside those of partitions.
#[derive(Debug, Default)]
pub(crate) struct ModelLocks {
    /// The schema lock: shared during a commit whose effects depend on the model but that holds no
    /// partition lock, exclusive while a model takes over.
    schema: RwLock<()>,
    /// The escalation lock, of writers that have lost too often: no partition lock covers a target that
    /// all of them change.
    escalation: Mutex<()>,
    /// The worker lock, held by whoever applies deferred effects.
    worker: Mutex<()>,
    /// The wakeup of the worker: whether there is a new deferred effect.
    wakeup: (Mutex<bool>, Condvar),
}

impl ModelLocks {
    /// Wakes the worker.
    pub(crate) fn wake(&self) {
        *self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakeup.1.notify_all();
    }

    /// Waits for a wakeup, or for so long.
    pub(crate) fn wait_for_wakeup(&self, time: Duration) {
        let woken = self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wakeup.1.wait_timeout_while(woken, time, |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    pub(crate) fn worker(&self) -> MutexGuard<'_, ()> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the schema lock shared: no model takes over meanwhile.
    pub(crate) fn schema_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.schema.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the schema lock exclusively, for a model that takes over.
    fn schema_exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.schema.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Models of databases.
#[derive(Clone, Copy)]
pub struct Models<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> Models<'e> {
    /// The database of a container as it is now.
    pub(crate) fn database_of(self, container: &Container) -> Option<Arc<Database>> {
        self.engine.catalog.database(&Address::Rid(container.database_rid())).ok()
    }

    /// Whether a transaction on the container is under another model than the current one.
    pub(crate) fn has_changed(
        self,
        container: &Container,
        scope: Option<ModelContext<'_>>,
    ) -> bool {
        let database = self.database_of(container);
        let stamp = |scope: Option<ModelContext<'_>>| scope.map(|scope| scope.model.stamp);
        stamp(ModelContext::of(database.as_deref(), container)) != stamp(scope)
    }

    /// Whether a model says anything about the items of a container.
    pub fn is_modelled(self, container: &Container) -> bool {
        ModelContext::of(self.database_of(container).as_deref(), container).is_some()
    }

    /// The escalation lock for an attempt after several conflicts, so that such attempts run one at a time.
    pub(crate) fn escalation_lock(self, attempt: usize) -> Option<MutexGuard<'e, ()>> {
        let late = attempt >= limits::COMMIT_ATTEMPTS_SHARED;
        late.then(|| {
            self.engine.model_locks.escalation.lock().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

/// The model of a database, for a transaction on a container that it is about.
#[derive(Clone, Copy)]
pub(crate) struct ModelContext<'e> {
    pub(crate) database: &'e Database,
    pub(crate) model: &'e StoredModel,
}

impl<'e> ModelContext<'e> {
    /// The model, if the database has one that says anything about the container.
    pub(crate) fn of(database: Option<&'e Database>, container: &Container) -> Option<Self> {
        let database = database?;
        let model: &'e StoredModel = database.model.as_deref()?;
        model.rules.concerns(&container.id).then_some(Self { database, model })
    }

    /// Whether it is the model of a database.
    pub(crate) fn is_of(&self, database: &Database) -> bool {
        self.database.number == database.number
    }

    /// Whether little can follow from a write to a container: no other items follow its items.
    pub(crate) fn is_light(&self, container: &Container) -> bool {
        let rules = &self.model.rules;
        let leads = |rule: &RelationRule| {
            *rules.types[rule.to].def.container == *container.id
                && (!rule.copies.is_empty() || rule.def.on_delete != OnDelete::Keep)
        };
        !rules.relations.iter().any(|rule| leads(rule))
    }

    fn container(&self, name: &str) -> Result<&'e Container> {
        let found = self.database.container(&Address::Name(name.to_owned()));
        found.map(|c| &**c).ok_or_else(|| Error::internal(format!("the model names '{name}'")))
    }

    /// The container of the source or the target of a relation.
    pub(crate) fn container_of(&self, item_type: usize) -> Result<&'e Container> {
        self.container(&self.model.rules.types[item_type].def.container)
    }
}
