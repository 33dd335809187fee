//! The session by which a node is known to the server, and the thread that uses it. It holds two advisory locks, both
//! shared: one that keeps the tables from being changed while nodes run, and one that says how many connections the node may
//! open. With it the node looks at the heads of shards that somebody watches, and at the server's clock, from which the ids of
//! commits are made.
//!
//! The locks protect no data. Commits of a node whose session has ended are as good as before; it makes another one.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_storage::CommitId;
use orrery_types::limits::{
    POSTGRES_RENEWAL_MS, POSTGRES_WAIT_MS_MAX, POSTGRES_WATCH_MS_MAX, POSTGRES_WATCH_MS_MIN,
};
use orrery_types::stopwatch::Stopwatch;

use crate::connection::ServerConnection;
use crate::heads::{shard_id, shard_number};
use crate::scan::lsn;
use crate::schema::{self, PostgresOpenError, VERSION};
use crate::store::Core;

/// Between two attempts to take the lock of the tables.
const PAUSE: Duration = Duration::from_millis(50);
/// The lock of the tables, by their schema: shared by nodes, alone for who changes them.
const LOCK_SHARED: &str =
    "SELECT pg_try_advisory_lock_shared(hashtext('orrery'), hashtext(current_schema()))";
const LOCK_ALONE: &str =
    "SELECT pg_try_advisory_lock(hashtext('orrery'), hashtext(current_schema()))";
/// The sessions of nodes.
pub(crate) const NODES: &str = "SELECT a.pid, a.application_name, host(a.client_addr), \
    to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
    FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted \
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND l.classid::bigint = hashtext('orrery')::bigint & 4294967295 \
    AND l.objid::bigint = hashtext(current_schema())::bigint & 4294967295 \
    ORDER BY a.backend_start, a.pid";
/// A lock whose second number is how many connections the holder may open.
const DECLARE: &str = "SELECT pg_advisory_lock_shared(hashtext('orrery connections'), $1)";
/// Connections that the server has for everybody, and what nodes of all its stores may open.
pub(crate) const CONNECTIONS: &str = "SELECT current_setting('max_connections')::bigint \
    - current_setting('superuser_reserved_connections')::bigint \
    - coalesce(current_setting('reserved_connections', true)::bigint, 0), \
    coalesce(sum(objid::bigint), 0)::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted \
    AND classid::bigint = hashtext('orrery connections')::bigint & 4294967295";
/// The time of the server.
pub(crate) const NOW: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us";
const HEADS: &str = "SELECT shard, lsn FROM head WHERE shard = ANY ($1)";

/// Takes the lock of the tables alone, until the connection ends. It is waited for a little: the server may not have
/// noticed yet that a node has ended.
pub(crate) fn lock_alone(connection: &mut ServerConnection) -> Result<(), PostgresOpenError> {
    if takes_lock(connection, LOCK_ALONE)? {
        return Ok(());
    }
    let rows = connection.query(NODES, &[]).unwrap_or_default();
    let holder = rows.first().map(|row| {
        let host: Option<String> = row.get(2);
        let (pid, since): (i32, String) = (row.get(0), row.get(3));
        let host = host.unwrap_or_else(|| "the machine of the server".into());
        format!(": it runs on {host} since {since}, session {pid}")
    });
    Err(PostgresOpenError::InUse(holder.unwrap_or_default()))
}

fn takes_lock(
    connection: &mut ServerConnection,
    text: &'static str,
) -> Result<bool, PostgresOpenError> {
    let watch = Stopwatch::start();
    loop {
        let rows = connection.query(text, &[]).map_err(schema::statement)?;
        if rows.first().is_some_and(|row| row.get(0)) {
            return Ok(true);
        }
        if watch.elapsed() > Duration::from_millis(POSTGRES_WAIT_MS_MAX) {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Makes a connection the session of a node, which may open so many connections. Refused if the server has too few for it
/// beside those of other nodes.
pub(crate) fn register(
    connection: &mut ServerConnection,
    connections_max: usize,
) -> Result<(), PostgresOpenError> {
    announce(connection, connections_max)?;
    let rows = connection.query(CONNECTIONS, &[]).map_err(schema::statement)?;
    let (available, needed): (i64, i64) =
        rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
    if needed > available {
        return Err(PostgresOpenError::TooFewConnections {
            available,
            own: connections_max,
            others: needed - i64::try_from(connections_max).unwrap_or(needed),
        });
    }
    Ok(())
}

/// Takes the locks, and looks whether the tables are still those of this release.
fn announce(
    connection: &mut ServerConnection,
    connections_max: usize,
) -> Result<(), PostgresOpenError> {
    if !takes_lock(connection, LOCK_SHARED)? {
        return Err(PostgresOpenError::Changing);
    }
    let found = connection.query("SELECT version FROM meta", &[]).map_err(schema::statement)?;
    let found: i32 = found.first().map_or(0, |row| row.get(0));
    if found != VERSION {
        return Err(PostgresOpenError::Version { found, expected: VERSION });
    }
    let declared = i32::try_from(connections_max).unwrap_or(i32::MAX);
    connection.query(DECLARE, &[&declared]).map_err(schema::statement)?;
    follow_clock(connection).map_err(schema::statement)
}

/// Makes the ids of commits from the clock of the server, so that those of several nodes are in one order, but for
/// the time that a message takes.
fn follow_clock(connection: &mut ServerConnection) -> Result<(), postgres::Error> {
    let rows = connection.query(NOW, &[])?;
    if let Some(row) = rows.first() {
        CommitId::follow(lsn(row, 0).0);
    }
    Ok(())
}

/// What the thread is asked to do.
#[derive(Default)]
pub(crate) struct NodeSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    ends: bool,
    /// A shard is watched that was not.
    watches: bool,
}

impl NodeSignal {
    fn lock(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a look at the heads of watched shards.
    pub(crate) fn watch(&self) {
        self.lock().watches = true;
        self.changed.notify_all();
    }

    fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }

    /// Waits until something is asked or the time is over: whether the thread ends, and whether it was asked to look.
    fn wait(&self, time: Duration) -> (bool, bool) {
        let waiting = |state: &mut SignalState| !state.ends && !state.watches;
        let waited = self.changed.wait_timeout_while(self.lock(), time, waiting);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (state.ends, std::mem::take(&mut state.watches))
    }
}

/// The session of this node, kept by a thread until it is dropped.
pub(crate) struct NodeSession {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl NodeSession {
    /// Keeps a session that was registered. `outdated` is set if another release has changed the tables.
    pub(crate) fn keep(
        core: &Arc<Core>,
        connection: ServerConnection,
        outdated: &Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let (own, outdated) = (core.clone(), outdated.clone());
        let thread = std::thread::Builder::new().name("node".into()).spawn(move || {
            let mut keeper = Keeper { core: &own, connection: Some(connection), outdated };
            keeper.run();
        })?;
        Ok(Self { core: core.clone(), thread: Some(thread) })
    }
}

impl Drop for NodeSession {
    fn drop(&mut self) {
        self.core.asked.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Keeper<'c> {
    core: &'c Core,
    connection: Option<ServerConnection>,
    outdated: Arc<AtomicBool>,
}

impl Keeper<'_> {
    fn run(&mut self) {
        let renewal = Duration::from_millis(POSTGRES_RENEWAL_MS);
        let first = Duration::from_millis(POSTGRES_WATCH_MS_MIN);
        let (mut renewed, mut pause) = (Stopwatch::start(), renewal);
        loop {
            let (ends, asked) = self.core.asked.wait(pause);
            if ends || self.outdated.load(SeqCst) {
                return;
            }
            let look = self.look();
            if renewed.elapsed() >= renewal {
                renewed = Stopwatch::start();
                self.renew();
            }
            pause = match look {
                Look::Nothing => renewal,
                Look::Moved => first,
                Look::Same if asked => first,
                Look::Same => (pause * 2).min(Duration::from_millis(POSTGRES_WATCH_MS_MAX)),
            };
        }
    }

    /// Uses the session, or makes another one if it has ended.
    fn renew(&mut self) {
        if let Some(connection) = &mut self.connection
            && follow_clock(connection).is_ok()
        {
            return;
        }
        self.connection = None;
        let Ok(mut connection) = self.core.connector.connect() else { return };
        match announce(&mut connection, self.core.connections_max) {
            Ok(()) => self.connection = Some(connection),
            Err(error @ PostgresOpenError::Version { .. }) => {
                tracing::error!(%error, "the tables of the store were changed; this node must stop");
                self.outdated.store(true, SeqCst);
            }
            Err(error) => tracing::warn!(%error, "the session of the node has ended; trying again"),
        }
    }

    /// Looks how far watched shards are.
    fn look(&mut self) -> Look {
        let known = &self.core.known;
        let watched = known.watched();
        if watched.is_empty() {
            return Look::Nothing;
        }
        let Some(connection) = &mut self.connection else { return Look::Same };
        let numbers: Vec<i32> = watched.iter().map(|shard| shard_number(*shard)).collect();
        let Ok(rows) = connection.query(HEADS, &[&numbers]) else { return Look::Same };
        let mut look = Look::Same;
        for shard in &watched {
            let before = known.find(*shard).map(|known| known.lsn());
            let found = rows.iter().find(|row| shard_id(row, 0) == *shard).map(|row| lsn(row, 1));
            match found {
                Some(found) => known.saw(*shard, found),
                None => known.forget(*shard),
            }
            if before < found {
                look = Look::Moved;
            }
        }
        look
    }
}

/// What a look at watched shards has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// None is watched.
    Nothing,
    Moved,
    Same,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_ends_the_wait_and_is_told_once() {
        let asked = NodeSignal::default();
        asked.watch();
        assert_eq!(asked.wait(Duration::from_secs(60)), (false, true));
        assert_eq!(asked.wait(Duration::ZERO), (false, false));
        asked.end();
        assert_eq!(asked.wait(Duration::from_secs(60)), (true, false));
    }
}
