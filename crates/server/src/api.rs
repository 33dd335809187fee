//! The service that serves the database, and what its requests share. `call` reads a request in the
//! order of its parts, and `execute` runs it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use orrery_engine::Engine;
use orrery_types::Clock;
use orrery_types::thread_slot::{Apart, THREAD_SLOTS, thread_slot};
use tokio::runtime::Handle;

use crate::auth::Authenticator;
use crate::backups::Backups;
use crate::consistency::ConsistencyLevel;
use crate::statistics::Statistics;

/// Everything a handler may use beside its request. Shared by all requests.
pub struct Api {
    pub(crate) shared: Arc<Shared>,
    /// The same, through a count of owners for each thread: one for all would be written to twice by
    /// every request, and threads would wait for each other.
    own: OnceLock<Box<[Owned]>>,
}

pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) authenticator: Authenticator,
    pub(crate) clock: Arc<dyn Clock>,
    /// The endpoint that clients are told to use, if it is not the one they used.
    pub(crate) endpoint: Option<String>,
    /// The level of the account, which requests may weaken.
    pub(crate) consistency: ConsistencyLevel,
    /// What requests did.
    pub(crate) statistics: Statistics,
    /// Where backups are made, if they are.
    pub(crate) backups: Option<Arc<Backups>>,
    /// Whose threads do what would hold up the thread of a connection.
    pub(crate) blocking: Handle,
}

impl Api {
    /// A service for an engine, which leaves what takes long to the blocking threads of a runtime.
    pub fn new(
        engine: Arc<Engine>,
        authenticator: Authenticator,
        clock: Arc<dyn Clock>,
        endpoint: Option<String>,
        consistency: ConsistencyLevel,
        blocking: Handle,
    ) -> Self {
        let statistics = Statistics::new(true);
        let shared = Shared {
            engine,
            authenticator,
            clock,
            endpoint,
            consistency,
            statistics,
            backups: None,
            blocking,
        };
        Self { shared: Arc::new(shared), own: OnceLock::new() }
    }

    /// The same with statistics of its requests, or without.
    #[must_use]
    pub fn with_statistics(mut self, statistics: Statistics) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.statistics = statistics;
        }
        self
    }

    /// The same with a place for backups.
    #[must_use]
    pub fn with_backups(mut self, backups: Arc<Backups>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.backups = Some(backups);
        }
        self
    }

    pub(crate) fn own(&self) -> Owned {
        let own = || Owned(Arc::new(Apart(self.shared.clone())));
        let all = self.own.get_or_init(|| (0..THREAD_SLOTS).map(|_| own()).collect());
        all[thread_slot()].clone()
    }

    /// Who checks credentials.
    pub fn authenticator(&self) -> &Authenticator {
        &self.shared.authenticator
    }
}

/// What requests share, held by one of them.
#[derive(Clone)]
pub(crate) struct Owned(Arc<Apart<Arc<Shared>>>);

impl Deref for Owned {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0.0
    }
}
