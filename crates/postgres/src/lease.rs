//! One node at a time. A node holds an advisory lock in a session of its own, which it uses every two seconds. The
//! server ends a session that is idle for longer, so a node that is paused loses the lock, and one that is gone
//! does; another may then take the store over.
//!
//! The lock keeps a second node from starting by mistake, and protects no data: that is what the owner in the
//! heads is for. A node that finds its session ended takes the lock again if the owner is still its own, and gives
//! up for good if it is not.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_types::limits::{POSTGRES_LEASE_MS, POSTGRES_LEASE_RENEWAL_MS, POSTGRES_WAIT_MS_MAX};
use orrery_types::stopwatch::Stopwatch;

use crate::connection::ServerConnection;
use crate::schema::{self, PostgresOpenError};
use crate::store::Core;

/// Between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(50);
/// The lock of a store, by its schema.
const TRY_LOCK: &str =
    "SELECT pg_try_advisory_lock(hashtext('orrery'), hashtext(current_schema()))";
/// Who holds it.
pub(crate) const HOLDER: &str = "SELECT a.pid, a.application_name, host(a.client_addr), \
    to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
    FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted \
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND l.classid::bigint = hashtext('orrery')::bigint & 4294967295 \
    AND l.objid::bigint = hashtext(current_schema())::bigint & 4294967295";

/// Takes the lock of the store on a connection, until that ends. It is waited for a little: the server may not have
/// noticed yet that the node before has ended.
pub(crate) fn lock(connection: &mut ServerConnection) -> Result<(), PostgresOpenError> {
    let watch = Stopwatch::start();
    while !try_lock(connection).map_err(schema::statement)? {
        if watch.elapsed() > Duration::from_millis(POSTGRES_WAIT_MS_MAX) {
            return Err(in_use(connection));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Why there is no lock to be had: who holds it.
fn in_use(connection: &mut ServerConnection) -> PostgresOpenError {
    let rows = connection.query(HOLDER, &[]).unwrap_or_default();
    let holder = rows.first().map(|row| {
        let host: Option<String> = row.get(2);
        let (pid, since): (i32, String) = (row.get(0), row.get(3));
        let host = host.unwrap_or_else(|| "the machine of the server".into());
        format!(": it runs on {host} since {since}, session {pid}")
    });
    PostgresOpenError::InUse(holder.unwrap_or_default())
}

fn try_lock(connection: &mut ServerConnection) -> Result<bool, postgres::Error> {
    let rows = connection.query(TRY_LOCK, &[])?;
    let is_locked = rows.first().is_some_and(|row| row.get(0));
    if is_locked {
        connection.execute(&format!("SET idle_session_timeout = {POSTGRES_LEASE_MS}"))?;
    }
    Ok(is_locked)
}

/// Whether the lease is to end.
#[derive(Default)]
struct Stop {
    is_asked: Mutex<bool>,
    asked: Condvar,
}

impl Stop {
    fn ask(&self) {
        *self.is_asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.asked.notify_all();
    }

    /// Waits for the time between two renewals; true if it is to end.
    fn wait(&self) -> bool {
        let is_asked = self.is_asked.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = Duration::from_millis(POSTGRES_LEASE_RENEWAL_MS);
        let waited = self.asked.wait_timeout_while(is_asked, pause, |is_asked| !*is_asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The lock of the store, held by a thread until it is dropped.
pub(crate) struct NodeLease {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl NodeLease {
    /// Keeps a lock that the connection holds. If another node takes over, `superseded` is set.
    pub(crate) fn keep(
        core: &Arc<Core>,
        connection: ServerConnection,
        superseded: &Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let stop = Arc::<Stop>::default();
        let (core, stops, superseded) = (core.clone(), stop.clone(), superseded.clone());
        let thread = std::thread::Builder::new().name("lease".into()).spawn(move || {
            let mut held = Some(Box::new(connection));
            while !stops.wait() {
                match renew(&core, held.take()) {
                    Renewal::Held(connection) => held = Some(connection),
                    Renewal::Again(reason) => {
                        tracing::warn!(reason, "the lock of the store is not held; trying again");
                    }
                    Renewal::Superseded => {
                        superseded.store(true, SeqCst);
                        tracing::error!(
                            "another node has taken the store over; this one must stop"
                        );
                        return;
                    }
                }
            }
            if let Some(mut connection) = held {
                // So that another node need not wait until the server has noticed the end of the session.
                let _ = connection.execute("SELECT pg_advisory_unlock_all()");
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for NodeLease {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum Renewal {
    Held(Box<ServerConnection>),
    /// Neither this node nor certainly another one holds it.
    Again(String),
    Superseded,
}

/// Uses the session, or makes another one if it has ended.
fn renew(core: &Core, held: Option<Box<ServerConnection>>) -> Renewal {
    let owner = |connection: &mut ServerConnection| -> Result<i64, postgres::Error> {
        let rows = connection.query("SELECT owner FROM meta", &[])?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    };
    if let Some(mut connection) = held
        && let Ok(found) = owner(&mut connection)
    {
        return if found == core.owner { Renewal::Held(connection) } else { Renewal::Superseded };
    }
    let again = || -> Result<Renewal, postgres::Error> {
        let mut connection = Box::new(core.connector.connect()?);
        let is_locked = try_lock(&mut connection)?;
        // Whoever takes over raises the owner under the lock: with the lock in hand it does not change.
        if owner(&mut connection)? != core.owner {
            return Ok(Renewal::Superseded);
        }
        Ok(if is_locked {
            Renewal::Held(connection)
        } else {
            Renewal::Again("another session holds it".into())
        })
    };
    again().unwrap_or_else(|error| Renewal::Again(error.to_string()))
}
