//! Connections to the server, each with its prepared statements, and pools of them. A pool bounds how many
//! there are and how long a caller waits for one.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use orrery_storage::{CommitId, StorageError};
use orrery_types::limits::POSTGRES_WAIT_MS_MAX;
use orrery_types::stopwatch::Stopwatch;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, Error, NoTls, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::StoreAddress;
use crate::failure::StatementFailure;
use crate::schema::PostgresOpenError;
use crate::tls;

/// Settings of every session. The functions of commits need the isolation level; the time-outs free what a node
/// that was stopped holds, and the keepalives what one holds whose machine is gone; estimates of generic plans are good
/// enough and save planning.
const SESSION: &str = "-c default_transaction_isolation=read\\ committed \
    -c idle_in_transaction_session_timeout=60s -c lock_timeout=5s -c jit=off \
    -c plan_cache_mode=force_generic_plan \
    -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3";
/// Unless the address asks for more, as `remote_apply`. What is less is refused when the store is opened.
const DURABLE: &str = "-c synchronous_commit=on";
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// A server that does not answer for so long is taken for lost.
const SILENT_TIME: Duration = Duration::from_secs(15);
const KEEPALIVE_TIME: Duration = Duration::from_secs(5);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// Makes connections.
pub(crate) struct Connector {
    config: Config,
    /// None for connections that are not encrypted.
    tls: Option<MakeRustlsConnect>,
}

impl Connector {
    /// For a store in a schema of the database.
    pub(crate) fn new(address: &StoreAddress, schema: &str) -> Result<Self, PostgresOpenError> {
        let mut config = address.config.clone();
        let given = config.get_options().unwrap_or_default();
        let durable = if given.contains("synchronous_commit") { "" } else { DURABLE };
        let options = format!("{given} {SESSION} {durable} -c search_path={schema}");
        config.options(options.trim());
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        if config.get_application_name().is_none() {
            config.application_name("orrery");
        }
        config.keepalives_idle(KEEPALIVE_TIME).keepalives_interval(KEEPALIVE_TIME);
        config.keepalives_retries(2).tcp_user_timeout(SILENT_TIME);
        Ok(Self { config, tls: tls::connector(address)? })
    }

    pub(crate) fn connect(&self) -> Result<ServerConnection, Error> {
        let client = match &self.tls {
            None => self.config.connect(NoTls),
            Some(tls) => self.config.connect(tls.clone()),
        }?;
        Ok(ServerConnection { client: Some(client), statements: HashMap::new() })
    }
}

/// A connection with its prepared statements. Calls wait for the server; they may come from any thread but those of an
/// async runtime.
pub(crate) struct ServerConnection {
    /// Taken out when it is dropped.
    client: Option<Client>,
    /// Prepared, by their text.
    statements: HashMap<&'static str, Statement>,
}

/// The driver waits for a connection to close, which panics on a thread of an async runtime; and a store may be dropped
/// there.
impl Drop for ServerConnection {
    fn drop(&mut self) {
        let client = self.client.take();
        // If there is no thread to be had, the closure and with it the client are dropped here.
        let closing = std::thread::Builder::new().name("close".into()).spawn(move || drop(client));
        let _ = closing.map(std::thread::JoinHandle::join);
    }
}

impl ServerConnection {
    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("it is taken out when it is dropped")
    }

    /// Runs a statement, which is prepared once.
    pub(crate) fn query(
        &mut self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = if let Some(statement) = self.statements.get(text) {
            statement.clone()
        } else {
            let statement = self.client().prepare(text)?;
            self.statements.entry(text).or_insert(statement).clone()
        };
        self.client().query(&statement, parameters)
    }

    /// Runs statements that return nothing.
    pub(crate) fn execute(&mut self, text: &str) -> Result<(), Error> {
        self.client().batch_execute(text)
    }

    /// Runs statements in the simple protocol, which returns text.
    pub(crate) fn simple(&mut self, text: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.client().simple_query(text)
    }

    /// Runs work in a transaction, which is rolled back if it fails.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.execute("BEGIN")?;
        match work(self) {
            Ok(value) => {
                self.execute("COMMIT")?;
                Ok(value)
            }
            Err(error) => {
                // If it cannot be rolled back, the connection is lost, and the server does it.
                let _ = self.execute("ROLLBACK");
                Err(error)
            }
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }
}

/// A bounded number of connections, made when they are needed.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    returned: Condvar,
    size_max: usize,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<ServerConnection>,
    lent: usize,
}

impl Pool {
    pub(crate) fn new(size_max: usize) -> Self {
        Self { state: Mutex::default(), returned: Condvar::new(), size_max }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection, or [`StorageError::Unavailable`] if none is returned in time.
    pub(crate) fn take<'p>(&'p self, connector: &Connector) -> Result<Lent<'p>, StorageError> {
        let wait = Duration::from_millis(POSTGRES_WAIT_MS_MAX);
        let all_lent = |state: &mut PoolState| state.lent >= self.size_max;
        let waited = self.returned.wait_timeout_while(self.lock(), wait, all_lent);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let reason = "all connections to PostgreSQL are in use";
            return Err(StorageError::Unavailable(reason.into()));
        }
        state.lent += 1;
        let mut idle = state.idle.pop();
        while idle.as_ref().is_some_and(|connection| !connection.is_usable()) {
            idle = state.idle.pop();
        }
        drop(state);
        let mut lent = Lent { pool: self, connection: idle };
        if lent.connection.is_none() {
            lent.connection = Some(connect_in_time(connector)?);
        }
        Ok(lent)
    }

    /// Whether a statement that changes nothing may be tried once more: its connection was lost, perhaps long ago. Then
    /// the others that lie idle may be as well, and all of them are forgotten.
    pub(crate) fn was_lost(&self, lent: &mut Lent<'_>) -> bool {
        let is_lost = !lent.get().is_usable();
        if is_lost {
            let idle = std::mem::take(&mut self.lock().idle);
            drop(idle);
        }
        is_lost
    }
}

/// A new connection, which is waited for a little while the server restarts or another one takes its place.
fn connect_in_time(connector: &Connector) -> Result<ServerConnection, StorageError> {
    let watch = Stopwatch::start();
    loop {
        match connector.connect() {
            Ok(connection) => return Ok(connection),
            Err(error) => {
                let failure = StatementFailure::of(&error);
                let may_end =
                    matches!(failure, StatementFailure::Connection(_) | StatementFailure::Later(_));
                if !may_end || watch.elapsed() > Duration::from_millis(POSTGRES_WAIT_MS_MAX) {
                    return Err(failure.into_error());
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// A connection of a pool, which goes back when it is dropped.
pub(crate) struct Lent<'p> {
    pool: &'p Pool,
    connection: Option<ServerConnection>,
}

impl Lent<'_> {
    pub(crate) fn get(&mut self) -> &mut ServerConnection {
        self.connection.as_mut().expect("it is taken out when it is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.lent -= 1;
        state.idle.extend(self.connection.take().filter(ServerConnection::is_usable));
        drop(state);
        self.pool.returned.notify_one();
    }
}

/// The id of a commit as the server's type `uuid`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uuid(pub(crate) CommitId);

impl ToSql for Uuid {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_slice(&self.0.to_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}

impl<'r> FromSql<'r> for Uuid {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(CommitId::from_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}
