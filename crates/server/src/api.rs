//! The service that serves the database, and what its requests share. `call` reads a request in the
//! order of its parts, and `execute` runs it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use orrery_engine::Engine;
use orrery_types::Clock;
use orrery_types::thread_slot::{CachePadded, THREAD_SLOTS, thread_slot};
use tokio::runtime::Handle;

use crate::auth::Authenticator;
use crate::backups::Backups;
use crate::consistency::ConsistencyLevel;
use crate::copies::StoreCopies;
use crate::statistics::Statistics;

/// The service that serves the database.
pub struct Api {
    pub(crate) shared: Arc<Shared>,
    /// The same, with a reference count per thread: every request would write a single one twice, and
    /// threads would contend for its cache line.
    per_thread: OnceLock<Box<[SharedRef]>>,
}

/// Everything a handler may use beside its request. Shared by all requests.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) authenticator: Authenticator,
    pub(crate) clock: Arc<dyn Clock>,
    /// The endpoint that answers name, if it differs from the one that the client used.
    pub(crate) endpoint: Option<String>,
    /// The level of the account, which requests may weaken.
    pub(crate) consistency: ConsistencyLevel,
    /// Counts of requests.
    pub(crate) statistics: Statistics,
    /// Whether clients get addresses for Direct mode.
    pub(crate) is_direct: bool,
    /// Where backups are made, if they can be.
    pub(crate) backups: Option<Arc<Backups>>,
    /// The copy of the whole store that a client makes, if one does.
    pub(crate) copies: StoreCopies,
    /// The runtime whose blocking threads run long operations.
    pub(crate) blocking: Handle,
}

impl Api {
    /// A service for an engine. Long operations run on the blocking threads of the given runtime.
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
            is_direct: false,
            backups: None,
            copies: StoreCopies::default(),
            blocking,
        };
        Self { shared: Arc::new(shared), per_thread: OnceLock::new() }
    }

    /// The same with these statistics.
    #[must_use]
    pub fn with_statistics(mut self, statistics: Statistics) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.statistics = statistics;
        }
        self
    }

    /// The same with Direct mode, which needs a listener that serves it.
    #[must_use]
    pub fn with_direct(mut self, is_direct: bool) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.is_direct = is_direct;
        }
        self
    }

    /// The same with a folder for backups.
    #[must_use]
    pub fn with_backups(mut self, backups: Arc<Backups>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.backups = Some(backups);
        }
        self
    }

    pub(crate) fn shared_ref(&self) -> SharedRef {
        let make = || SharedRef(Arc::new(CachePadded(self.shared.clone())));
        let all = self.per_thread.get_or_init(|| (0..THREAD_SLOTS).map(|_| make()).collect());
        all[thread_slot()].clone()
    }

    /// Ends a copy of the whole store that nobody reads any more.
    pub fn expire_copies(&self, now_s: u64) {
        self.shared.copies.expire(now_s);
    }

    /// The authenticator, which checks credentials.
    pub fn authenticator(&self) -> &Authenticator {
        &self.shared.authenticator
    }
}

/// A reference to what requests share, counted per thread.
#[derive(Clone)]
pub(crate) struct SharedRef(Arc<CachePadded<Arc<Shared>>>);

impl Deref for SharedRef {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0.0
    }
}
