//! The store: what it shares with its threads, reads of single values and heads, and what is done to whole shards.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;

use bytes::Bytes;
use orrery_storage::{
    Commit, CommitId, Committed, Copied, Head, Journal, OnCommitted, ReadAt, Resolution,
    ShardStats, Snapshot, Space, StorageError, Store, Value, key,
};
use orrery_types::limits::{POSTGRES_CONNECTIONS, POSTGRES_CONNECTIONS_MIN, POSTGRES_LOG_COMMITS};
use orrery_types::{Epoch, Lsn, ShardId};
use postgres::Row;

use crate::committer::{self, CommitRequest, Queue};
use crate::connection::{Connector, Parameters, Pool, ServerConnection, Uuid};
use crate::copies;
use crate::failure::{OUTDATED, StatementFailure, read_error};
use crate::folded_key::{StoredKey, plain};
use crate::group::signed;
use crate::heads::{KnownShards, head_of, shard_id, shard_number};
use crate::journal::PostgresJournal;
use crate::node_session::{self, NodeSession, NodeSignal};
use crate::scan::lsn;
use crate::schema::{self, PostgresOpenError};
use crate::snapshot::PostgresSnapshot;

const GET: &str = "SELECT p.lsn, p.epoch, p.control, p.state, k.ver, k.value FROM head p \
    LEFT JOIN kv k ON k.shard = p.shard AND k.key = $2 WHERE p.shard = $1";
const HEADS: &str = "SELECT shard, lsn, epoch, control, state FROM head WHERE shard = ANY ($1)";
pub(crate) const ALL_HEADS: &str =
    "SELECT shard, lsn, epoch, control, state FROM head ORDER BY shard";
const NO_SHARD: StorageError = StorageError::Gone { epoch: None };
/// Connections beside those of the pools and the committers: the session of the node, and that of the account.
const CONNECTIONS_BESIDE: usize = 2;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The schema that holds the tables.
    pub schema: String,
    /// A file whose first line is the password, for an address that has none.
    pub password_file: Option<PathBuf>,
    /// Connections for snapshots; each is held as long as its snapshot.
    pub snapshots_max: usize,
    /// Connections for single reads and for what is done to whole shards.
    pub reads_max: usize,
    /// Threads that commit, each with a connection. Each shard has its commits sent by one of them.
    pub committers: usize,
    /// Commits that the commit log of a shard keeps.
    pub log_commits: u64,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::with_connections(POSTGRES_CONNECTIONS)
    }
}

impl PostgresOptions {
    /// For a node that opens so many connections at most.
    pub fn with_connections(connections: usize) -> Self {
        let connections = connections.max(POSTGRES_CONNECTIONS_MIN);
        let (committers, reads_max) =
            ((connections / 10).clamp(1, 4), (connections / 5).clamp(2, 8));
        Self {
            schema: "orrery".into(),
            password_file: None,
            snapshots_max: connections - committers - reads_max - CONNECTIONS_BESIDE,
            reads_max,
            committers,
            log_commits: POSTGRES_LOG_COMMITS,
        }
    }

    /// Connections that a node opens at most.
    pub fn connections_max(&self) -> usize {
        self.snapshots_max + self.reads_max + self.committers.max(1) + CONNECTIONS_BESIDE
    }
}

/// What callers, committers and the thread of the node's session share.
pub(crate) struct Core {
    pub(crate) connector: Connector,
    pub(crate) log_commits: u64,
    pub(crate) connections_max: usize,
    pub(crate) known: KnownShards,
    /// What the thread of the node's session is asked to do.
    pub(crate) asked: NodeSignal,
    pub(crate) snapshots: Pool,
    reads: Pool,
}

/// A store in a database of `PostgreSQL`, which other nodes may have open too.
pub struct PostgresStore {
    core: Arc<Core>,
    queues: Vec<Arc<Queue>>,
    committers: Vec<JoinHandle<()>>,
    /// Whether another release has changed the tables.
    outdated: Arc<AtomicBool>,
    place: String,
    /// Ends after all else has.
    session: Option<NodeSession>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens a store that [`init`](crate::init) has created. The address is a URL or a list of settings, as `libpq` has
    /// them.
    pub fn open(address: &str, options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let (address, connector) = schema::connector(address, options)?;
        let mut session = schema::check(&connector, options)?;
        let connections_max = options.connections_max();
        node_session::register(&mut session, connections_max)?;
        above_trimmed_ids(&mut session).map_err(schema::statement)?;
        let core = Arc::new(Core {
            connector,
            log_commits: options.log_commits,
            connections_max,
            known: KnownShards::default(),
            asked: NodeSignal::default(),
            snapshots: Pool::new(options.snapshots_max),
            reads: Pool::new(options.reads_max),
        });
        let no_thread =
            |error: std::io::Error| PostgresOpenError::Statement(format!("no thread: {error}"));
        let queues: Vec<Arc<Queue>> =
            (0..options.committers.max(1)).map(|_| Arc::default()).collect();
        let mut committers = Vec::with_capacity(queues.len());
        for queue in &queues {
            committers.push(committer::start(&core, queue).map_err(no_thread)?);
        }
        let outdated = Arc::<AtomicBool>::default();
        let session = NodeSession::keep(&core, session, &outdated).map_err(no_thread)?;
        let place = format!("{address}, schema {}", options.schema);
        Ok(Self { core, queues, committers, outdated, place, session: Some(session) })
    }

    /// Where it is: hosts, database and schema; never a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether another release has changed the tables. This node can neither read nor write from then on.
    pub fn is_outdated(&self) -> bool {
        self.outdated.load(SeqCst)
    }

    fn queue(&self, commit: &Commit) -> &Queue {
        let first = commit.parts.iter().map(|part| part.shard.0).min().unwrap_or_default();
        &self.queues[first as usize % self.queues.len()]
    }

    /// The epoch of a shard that a statement did not match.
    fn epoch(&self, shard: ShardId) -> Result<Epoch, StorageError> {
        let rows = self.core.rows(HEADS, &[&vec![shard_number(shard)]])?;
        rows.first().map(|row| head_of(row, 1).epoch).ok_or(NO_SHARD)
    }
}

/// Makes the ids of this node's commits be above those that the logs have forgotten, even if the clock of the server was
/// set back.
fn above_trimmed_ids(connection: &mut ServerConnection) -> Result<(), postgres::Error> {
    let last = "SELECT trimmed_id FROM head ORDER BY trimmed_id DESC LIMIT 1";
    for row in connection.query(last, &[])? {
        CommitId::raise(row.get::<_, Uuid>(0).0);
    }
    Ok(())
}

/// The epoch of a head.
pub(crate) fn head_epoch(
    connection: &mut ServerConnection,
    number: i32,
) -> Result<Option<Epoch>, postgres::Error> {
    let rows = connection.query("SELECT epoch FROM head WHERE shard = $1", &[&number])?;
    Ok(rows.first().map(|row| Epoch(lsn(row, 0).0)))
}

impl Drop for PostgresStore {
    /// Commits that wait are done before the threads end.
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.close());
        for committer in self.committers.drain(..) {
            let _ = committer.join();
        }
        drop(self.session.take());
    }
}

impl Core {
    /// Runs statements about a whole shard, in a transaction.
    pub(crate) fn control<T>(
        &self,
        work: impl FnOnce(&mut ServerConnection) -> Result<T, postgres::Error>,
    ) -> Result<T, StorageError> {
        let mut lent = self.reads.take(&self.connector)?;
        // Nothing is sent before it is known that the connection is there.
        if lent.get().execute("").is_err() && self.reads.was_lost(&mut lent) {
            drop(lent);
            lent = self.reads.take(&self.connector)?;
        }
        lent.get().transaction(work).map_err(|error| match StatementFailure::of(&error) {
            // It may have happened; what is done to a whole shard may be repeated.
            StatementFailure::Connection(reason) => StorageError::unknown(None, reason),
            failure => failure.into_error(),
        })
    }

    /// Runs a statement that may be repeated, once more if its connection was lost.
    pub(crate) fn rows(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StorageError> {
        let mut is_first = true;
        loop {
            let mut lent = self.reads.take(&self.connector)?;
            match lent.get().query(text, parameters) {
                Ok(rows) => return Ok(rows),
                Err(error) if is_first && self.reads.was_lost(&mut lent) => {
                    tracing::debug!(%error, "a read is repeated on another connection");
                    is_first = false;
                }
                Err(error) => return Err(read_error(error)),
            }
        }
    }

    /// Asks the server once what became of a commit.
    pub(crate) fn resolve_now(
        &self,
        shards: &[ShardId],
        id: CommitId,
    ) -> Result<Resolution, StorageError> {
        let numbers: Vec<i32> = shards.iter().map(|shard| shard_number(*shard)).collect();
        let mut lent = self.reads.take(&self.connector)?;
        let rows = lent.get().query("SELECT kv_resolve($1, $2)", &[&numbers, &Uuid(id)]);
        let rows = rows.map_err(read_error)?;
        let lsns: Option<Vec<i64>> = rows.first().and_then(|row| row.get(0));
        Ok(match lsns {
            Some(lsns) if lsns.is_empty() => Resolution::Never,
            Some(lsns) => {
                let lsns = lsns.into_iter().map(|lsn| Lsn(u64::try_from(lsn).unwrap_or_default()));
                Resolution::Committed(lsns.collect())
            }
            None => Resolution::NotKnown,
        })
    }
}

impl Store for PostgresStore {
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Result<Box<dyn Snapshot + '_>, StorageError> {
        let view = self.snapshots(&[shard])?.pop().ok_or(NO_SHARD)?;
        match at {
            ReadAt::AtLeast(least) if view.lsn() < least => Err(StorageError::Behind(view.lsn())),
            _ => Ok(view),
        }
    }

    fn snapshots(&self, shards: &[ShardId]) -> Result<Vec<Box<dyn Snapshot + '_>>, StorageError> {
        let views = PostgresSnapshot::open(&self.core, shards)?;
        Ok(views.into_iter().map(|view| Box::new(view) as Box<dyn Snapshot + '_>).collect())
    }

    fn get(
        &self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<(Head, Option<Value>), StorageError> {
        let stored = StoredKey::new(space, key);
        let rows = self.core.rows(GET, &[&shard_number(shard), &stored.key]);
        let rows = rows.map_err(|error| error.at(shard, space, key))?;
        let row = rows.first().ok_or(NO_SHARD)?;
        let value: Option<&[u8]> = row.get(5);
        let value =
            value.map(|bytes| Value { version: lsn(row, 4), bytes: Bytes::copy_from_slice(bytes) });
        let head = head_of(row, 0);
        self.core.known.saw(shard, head.lsn);
        Ok((head, value))
    }

    fn commit_once(&self, commit: Commit) -> Result<Committed, StorageError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let id = commit.id;
        self.submit(commit, Box::new(move |answer| drop(sender.send(answer))));
        receiver.recv().unwrap_or_else(|_| Err(StorageError::unknown(Some(id), "no answer")))
    }

    fn submit(&self, commit: Commit, done: OnCommitted) {
        match commit.validate() {
            Ok(_) if commit.parts.is_empty() => done(Ok(Committed { lsns: vec![] })),
            Ok(size_bytes) => {
                self.queue(&commit).push(CommitRequest::new(commit, size_bytes, done));
            }
            Err(error) => done(Err(error)),
        }
    }

    fn writable(&self) -> Result<(), StorageError> {
        if self.is_outdated() { Err(StorageError::Unavailable(OUTDATED.into())) } else { Ok(()) }
    }

    fn reads_inline(&self) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn now_us(&self) -> Result<Option<u64>, StorageError> {
        let rows = self.core.rows(node_session::NOW, &[])?;
        Ok(rows.first().map(|row| lsn(row, 0).0))
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Result<Resolution, StorageError> {
        self.core.resolve_now(shards, id)
    }

    fn heads(&self, shards: &[ShardId]) -> Result<Vec<Option<Head>>, StorageError> {
        let numbers: Vec<i32> = shards.iter().map(|shard| shard_number(*shard)).collect();
        let rows = self.core.rows(HEADS, &[&numbers])?;
        let head = |shard: &ShardId| {
            let Some(row) = rows.iter().find(|row| shard_id(row, 0) == *shard) else {
                self.core.known.forget(*shard);
                return None;
            };
            let head = head_of(row, 1);
            self.core.known.saw(*shard, head.lsn);
            Some(head)
        };
        Ok(shards.iter().map(head).collect())
    }

    fn lsn_at_least(&self, shard: ShardId, least: Lsn) -> Result<Lsn, StorageError> {
        match self.core.known.find(shard).map(|known| known.lsn()) {
            Some(known) if known >= least && known > Lsn(0) => Ok(known),
            _ => self.lsn(shard),
        }
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        // Whether it exists, and a commit that came before, show at once.
        let now = self.lsn_at_least(shard, Lsn(after.0.saturating_add(1)))?;
        if now > after || timeout_ms == 0 {
            return Ok(now);
        }
        let known = self.core.known.shard(shard);
        let watch = known.watch();
        self.core.asked.watch();
        watch.wait(after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
        let (number, first) = (shard_number(shard), signed(epoch.0));
        let text = "INSERT INTO head (shard, epoch, lsn, control, state) \
            VALUES ($1, $2, 0, 0, 0) ON CONFLICT (shard) DO NOTHING";
        let found = self.core.control(|connection| {
            connection.query(text, &[&number, &first])?;
            head_epoch(connection, number)
        })?;
        // It exists already if another node has made it, or an earlier attempt got no answer.
        if found == Some(epoch) { Ok(()) } else { Err(StorageError::Gone { epoch: found }) }
    }

    fn drop_shard(&self, shard: ShardId) -> Result<(), StorageError> {
        let number = shard_number(shard);
        let head = "DELETE FROM head WHERE shard = $1 AND state IN (0, 3) RETURNING shard";
        let in_use = self.core.control(|connection| {
            if connection.query(head, &[&number])?.is_empty() {
                return head_epoch(connection, number);
            }
            connection.query("DELETE FROM kv WHERE shard = $1", &[&number])?;
            connection.query("DELETE FROM log WHERE shard = $1", &[&number])?;
            connection.query("DELETE FROM journal WHERE shard = $1", &[&number])?;
            Ok(None)
        })?;
        if in_use.is_some() {
            return Err(StorageError::Gone { epoch: in_use });
        }
        self.core.known.forget(shard);
        Ok(())
    }

    fn shards(&self) -> Result<Vec<(ShardId, Head)>, StorageError> {
        let rows = self.core.rows(ALL_HEADS, &[])?;
        Ok(rows.iter().map(|row| (shard_id(row, 0), head_of(row, 1))).collect())
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Result<Arc<dyn Journal>, StorageError> {
        Ok(Arc::new(PostgresJournal::start(&self.core, shard, bytes_max)?))
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Result<(), StorageError> {
        let number = shard_number(shard);
        let copied = self.core.control(|connection| {
            let head = "SELECT shard FROM head WHERE shard = $1 AND state = 0 FOR NO KEY UPDATE";
            if connection.query(head, &[&number])?.is_empty() {
                return Ok(false);
            }
            copies::copy(connection, number, entries)?;
            Ok(true)
        })?;
        if copied { Ok(()) } else { self.epoch(shard).and(Err(StorageError::NotEmpty)) }
    }

    fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn stats(&self, shard: ShardId) -> Result<ShardStats, StorageError> {
        let view = self.snapshot(shard, ReadAt::Latest)?;
        let size_bytes = |space| self.space_bytes(&*view, shard, space);
        let (items_bytes, index_bytes) = (size_bytes(Space::Items)?, size_bytes(Space::Index)?);
        Ok(ShardStats { lsn: view.lsn(), items_bytes, index_bytes })
    }
}

/// Entries whose sizes stand for those of all.
const SAMPLE: &str = "SELECT count(*), coalesce(sum(length(key) + length(value)), 0)::bigint \
    FROM (SELECT key, value FROM kv WHERE shard = $1 AND key >= $2 AND key < $3 LIMIT 500) sample";

impl PostgresStore {
    fn space_bytes(
        &self,
        view: &dyn Snapshot,
        shard: ShardId,
        space: Space,
    ) -> Result<u64, StorageError> {
        let (number, from, to) = (shard_number(shard), plain(space, &[]), plain(space, key::END));
        let rows = self.core.rows(SAMPLE, &[&number, &from, &to])?;
        let (count, bytes) = rows.first().map_or((0, 0), |row| (lsn(row, 0).0, lsn(row, 1).0));
        if count == 0 {
            return Ok(0);
        }
        Ok(view.estimate(space, &[], key::END)?.max(count).saturating_mul(bytes) / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_of_a_node_are_shared_out_whole() {
        for connections in POSTGRES_CONNECTIONS_MIN..200 {
            let options = PostgresOptions::with_connections(connections);
            assert_eq!(options.connections_max(), connections);
            assert!(options.snapshots_max >= 3 && options.reads_max >= 2, "{options:?}");
        }
        let options = PostgresOptions::default();
        let shares = (options.snapshots_max, options.reads_max, options.committers);
        assert_eq!(shares, (32, 8, 4));
    }
}
