//! The store: shards, their heads, and what is done to whole shards.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use bytes::Bytes;
use orrery_storage::shard_head::ShardHead;
use orrery_storage::{
    Commit, CommitId, Committed, Copied, Head, Journal, OnCommitted, ReadAt, Resolution,
    ShardState, ShardStats, Snapshot, Space, StorageError, Store, Value, key,
};
use orrery_types::limits::POSTGRES_LOG_COMMITS;
use orrery_types::{Epoch, Lsn, ShardId};
use postgres::Row;

use crate::committer::{self, CommitRequest, Queue};
use crate::connection::{Connector, Pool, ServerConnection, Uuid};
use crate::failure::{SUPERSEDED, StatementFailure, read_error};
use crate::folded_key::{StoredKey, plain};
use crate::group::signed;
use crate::lease::{self, NodeLease};
use crate::scan::lsn;
use crate::schema::{self, PostgresOpenError};
use crate::snapshot::PostgresSnapshot;

const GET: &str = "SELECT p.lsn, p.epoch, p.state, p.owner, k.ver, k.value FROM head p \
    LEFT JOIN kv k ON k.shard = p.shard AND k.key = $2 WHERE p.shard = $1";
const NO_SHARD: StorageError = StorageError::Gone { epoch: None };

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
    /// Threads that commit, each with a connection. A shard belongs to one of them.
    pub committers: usize,
    /// Commits that the commit log of a shard keeps.
    pub log_commits: u64,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "orrery".into(),
            password_file: None,
            snapshots_max: 32,
            reads_max: 8,
            committers: 4,
            log_commits: POSTGRES_LOG_COMMITS,
        }
    }
}

/// A shard as this node knows it. It is the only one that writes, so what it knows is current.
pub(crate) struct OwnedShard {
    pub(crate) head: ShardHead,
    /// Held while a commit or a change of the head is on its way, so that they are published in their order.
    committing: Mutex<()>,
    trimmed_at: AtomicU64,
}

impl OwnedShard {
    fn new(epoch: Epoch, lsn: Lsn, state: ShardState) -> Self {
        let head = ShardHead::new(epoch, lsn, state);
        Self { head, committing: Mutex::default(), trimmed_at: AtomicU64::new(lsn.0) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The LSN at which its log was last looked at, which becomes this one.
    pub(crate) fn trimmed_at(&self, lsn: u64) -> u64 {
        self.trimmed_at.swap(lsn, Relaxed)
    }
}

/// What committers and callers share.
pub(crate) struct Core {
    pub(crate) connector: Connector,
    pub(crate) owner: i64,
    pub(crate) log_commits: u64,
    shards: RwLock<BTreeMap<ShardId, Arc<OwnedShard>>>,
    snapshots: Pool,
    reads: Pool,
}

/// A store in a database of `PostgreSQL`.
pub struct PostgresStore {
    core: Arc<Core>,
    queues: Vec<Arc<Queue>>,
    committers: Vec<JoinHandle<()>>,
    /// Whether another node has taken over.
    superseded: Arc<AtomicBool>,
    place: String,
    /// Holds the advisory lock that tells a second node of this one; given back after all else has ended.
    lease: Option<NodeLease>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("owner", &self.core.owner).finish_non_exhaustive()
    }
}

/// The number of a shard in the server's type.
pub(crate) fn shard_number(shard: ShardId) -> i32 {
    i32::try_from(shard.0).expect("shards are numbered from 0, and no account has so many")
}

impl PostgresStore {
    /// Opens a store that [`init`](crate::init) has created, and takes it over from the node before. The address is a URL
    /// or a list of settings, as `libpq` has them.
    pub fn open(address: &str, options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let (address, connector) = schema::connector(address, options)?;
        let mut lock = schema::check(&connector, options)?;
        let (owner, heads) = take_over(&mut lock)?;
        let shards = heads.iter().map(|row| {
            let shard = ShardId(row.get::<_, i32>(0).unsigned_abs());
            let (epoch, state) = (Epoch(lsn(row, 1).0), state_of(row, 4));
            (shard, Arc::new(OwnedShard::new(epoch, lsn(row, 2), state)))
        });
        let core = Arc::new(Core {
            connector,
            owner,
            log_commits: options.log_commits,
            shards: RwLock::new(shards.collect()),
            snapshots: Pool::new(options.snapshots_max),
            reads: Pool::new(options.reads_max),
        });
        let queues: Vec<Arc<Queue>> =
            (0..options.committers.max(1)).map(|_| Arc::default()).collect();
        let started = queues.iter().map(|queue| committer::start(&core, queue));
        let committers = started.collect::<std::io::Result<Vec<_>>>();
        let committers =
            committers.map_err(|error| PostgresOpenError::Statement(error.to_string()))?;
        let superseded = Arc::<AtomicBool>::default();
        let lease = NodeLease::keep(&core, lock, &superseded)
            .map_err(|error| PostgresOpenError::Statement(error.to_string()))?;
        let place = format!("{address}, schema {}", options.schema);
        Ok(Self { core, queues, committers, superseded, place, lease: Some(lease) })
    }

    /// Where it is: hosts, database and schema; never a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether another node has taken the store over. This one neither reads nor writes from then on.
    pub fn is_superseded(&self) -> bool {
        self.superseded.load(SeqCst)
    }

    fn queue(&self, commit: &Commit) -> &Queue {
        let first = commit.parts.iter().map(|part| part.shard.0).min().unwrap_or_default();
        &self.queues[first as usize % self.queues.len()]
    }

    /// Runs statements about whole shards.
    fn control<T>(
        &self,
        work: impl FnOnce(&mut ServerConnection) -> Result<T, postgres::Error>,
    ) -> Result<T, StorageError> {
        let mut lent = self.core.reads.take(&self.core.connector)?;
        // Nothing is sent before it is known that the connection is there.
        if lent.get().execute("").is_err() && self.core.reads.was_lost(&mut lent) {
            drop(lent);
            lent = self.core.reads.take(&self.core.connector)?;
        }
        lent.get().transaction(work).map_err(|error| match StatementFailure::of(&error) {
            // It may have happened; what is done to a whole shard may be repeated.
            StatementFailure::Connection(reason) => StorageError::unknown(None, reason),
            failure => failure.into_error(),
        })
    }

    /// Reads a head again, after the answer to a commit that may have changed it was lost.
    fn reload(&self, shard: ShardId) -> Result<(), StorageError> {
        let Some(known) = self.core.shard(shard) else { return Ok(()) };
        let _lock = known.lock();
        let (number, owner) = (shard_number(shard), self.core.owner);
        let text = "SELECT epoch, lsn, state FROM head WHERE shard = $1 AND owner = $2";
        let rows = self.control(|connection| connection.query(text, &[&number, &owner]))?;
        if let Some(row) = rows.first() {
            known.head.reload(Epoch(lsn(row, 0).0), state_of(row, 2), lsn(row, 1));
        }
        Ok(())
    }

    /// The epoch of a head that an update did not match.
    fn mismatch(&self, shard: ShardId) -> Result<Epoch, StorageError> {
        let number = shard_number(shard);
        let found = self.control(|connection| head_epoch(connection, number))?;
        let (epoch, owner) = found.ok_or(NO_SHARD)?;
        if owner == self.core.owner {
            Ok(epoch)
        } else {
            Err(StorageError::Unavailable(SUPERSEDED.into()))
        }
    }
}

/// The epoch and the owner of a head.
pub(crate) fn head_epoch(
    connection: &mut ServerConnection,
    number: i32,
) -> Result<Option<(Epoch, i64)>, postgres::Error> {
    let rows = connection.query("SELECT epoch, owner FROM head WHERE shard = $1", &[&number])?;
    Ok(rows.first().map(|row| (Epoch(lsn(row, 0).0), row.get(1))))
}

/// The number of a state in the table of heads.
pub(crate) fn state_number(state: ShardState) -> i16 {
    match state {
        ShardState::Building => 0,
        ShardState::Open => 1,
        ShardState::Closed => 2,
        ShardState::Dropped => 3,
    }
}

/// The state in a column.
fn state_of(row: &Row, column: usize) -> ShardState {
    match row.get::<_, i16>(column) {
        0 => ShardState::Building,
        1 => ShardState::Open,
        2 => ShardState::Closed,
        _ => ShardState::Dropped,
    }
}

/// A head, of which `column` has the LSN and the next ones epoch and state. Only this node changes it, so what it
/// knows of the control LSN is enough.
pub(crate) fn head_of(row: &Row, column: usize) -> Head {
    let at = lsn(row, column);
    let (epoch, state) = (Epoch(lsn(row, column + 1).0), state_of(row, column + 2));
    Head { lsn: at, epoch, control: at, state }
}

/// Takes the advisory lock and raises the owner in all heads, under their locks: commits of an earlier node have
/// either happened or are refused from now on. What that node was making or had closed nobody goes on with
/// (`ShardState::recovered`).
fn take_over(connection: &mut ServerConnection) -> Result<(i64, Vec<Row>), PostgresOpenError> {
    lease::lock(connection)?;
    let taken = connection.transaction(|connection| {
        let rows = connection.query("UPDATE meta SET owner = owner + 1 RETURNING owner", &[])?;
        let owner: i64 = rows.first().map_or(0, |row| row.get(0));
        let order = "SELECT shard FROM head ORDER BY shard FOR NO KEY UPDATE";
        connection.query(order, &[])?;
        let text = "UPDATE head SET owner = $1, \
            state = CASE state WHEN 0 THEN 3 WHEN 2 THEN 1 ELSE state END \
            RETURNING shard, epoch, lsn, trimmed_id, state";
        Ok((owner, connection.query(text, &[&owner])?))
    });
    let (owner, heads) = taken.map_err(schema::statement)?;
    // Ids of this node must be above those that the log has forgotten, even if its clock is behind.
    for row in &heads {
        CommitId::raise(row.get::<_, Uuid>(3).0);
    }
    Ok((owner, heads))
}

impl Drop for PostgresStore {
    /// Commits that wait are done before the threads end.
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.close());
        for committer in self.committers.drain(..) {
            let _ = committer.join();
        }
        drop(self.lease.take());
    }
}

impl Core {
    pub(crate) fn shard(&self, shard: ShardId) -> Option<Arc<OwnedShard>> {
        self.shards.read().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned()
    }

    fn known(&self, shard: ShardId) -> Result<Arc<OwnedShard>, StorageError> {
        self.shard(shard).ok_or(NO_SHARD)
    }

    /// Asks the server once what became of a commit.
    pub(crate) fn resolve_now(
        &self,
        shards: &[ShardId],
        id: CommitId,
    ) -> Result<Resolution, StorageError> {
        let numbers: Vec<i32> = shards.iter().map(|shard| shard_number(*shard)).collect();
        let mut lent = self.reads.take(&self.connector)?;
        let text = "SELECT kv_resolve($1, $2, $3)";
        let rows =
            lent.get().query(text, &[&numbers, &self.owner, &Uuid(id)]).map_err(read_error)?;
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

    fn read_value(
        &self,
        text: &'static str,
        shard: ShardId,
        key: &[u8],
    ) -> Result<Row, StorageError> {
        let number = shard_number(shard);
        let mut attempt = 0;
        loop {
            let mut lent = self.reads.take(&self.connector)?;
            match lent.get().query(text, &[&number, &key]) {
                Ok(rows) => return rows.into_iter().next().ok_or(NO_SHARD),
                Err(error) if attempt == 0 && self.reads.was_lost(&mut lent) => {
                    tracing::debug!(%error, "a read is repeated on another connection");
                    attempt += 1;
                }
                Err(error) => return Err(read_error(error)),
            }
        }
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
        let pool = &self.core.snapshots;
        let mut lent = pool.take(&self.core.connector)?;
        if let Err(error) = PostgresSnapshot::begin(&mut lent) {
            if !pool.was_lost(&mut lent) {
                return Err(error);
            }
            drop(lent);
            lent = pool.take(&self.core.connector)?;
            PostgresSnapshot::begin(&mut lent)?;
        }
        let views = PostgresSnapshot::open(lent, shards, self.core.owner)?;
        Ok(views.into_iter().map(|view| Box::new(view) as Box<dyn Snapshot + '_>).collect())
    }

    fn get(
        &self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<(Head, Option<Value>), StorageError> {
        let stored = StoredKey::new(space, key);
        let row = self.core.read_value(GET, shard, &stored.key);
        let row = row.map_err(|error| error.at(shard, space, key))?;
        if row.get::<_, i64>(3) != self.core.owner {
            return Err(StorageError::Unavailable(SUPERSEDED.into()));
        }
        let value: Option<&[u8]> = row.get(5);
        let value = value
            .map(|bytes| Value { version: lsn(&row, 4), bytes: Bytes::copy_from_slice(bytes) });
        Ok((head_of(&row, 0), value))
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
        if self.is_superseded() {
            Err(StorageError::Unavailable(SUPERSEDED.into()))
        } else {
            Ok(())
        }
    }

    fn reads_inline(&self) -> bool {
        false
    }

    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Result<Resolution, StorageError> {
        let resolution = self.core.resolve_now(shards, id)?;
        if matches!(resolution, Resolution::Committed(_)) {
            shards.iter().try_for_each(|shard| self.reload(*shard))?;
        }
        Ok(resolution)
    }

    fn heads(&self, shards: &[ShardId]) -> Result<Vec<Option<Head>>, StorageError> {
        Ok(shards.iter().map(|shard| self.core.shard(*shard).map(|s| s.head.head())).collect())
    }

    fn lsn(&self, shard: ShardId) -> Result<Lsn, StorageError> {
        Ok(self.core.known(shard)?.head.lsn())
    }

    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError> {
        self.core.known(shard)?.head.watch(after, timeout_ms)
    }

    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
        if let Some(existing) = self.core.shard(shard) {
            let current = existing.head.epoch();
            let gone = StorageError::Gone { epoch: Some(current) };
            return if current == epoch { Ok(()) } else { Err(gone) };
        }
        let (number, owner, first) = (shard_number(shard), self.core.owner, signed(epoch.0));
        // The lock on the owner keeps a node that takes over from missing the new head.
        let text = "WITH own AS (SELECT owner FROM meta WHERE owner = $3 FOR SHARE) \
            INSERT INTO head (shard, epoch, lsn, control, state, owner) \
            SELECT $1::int, $2::bigint, 0, 0, 0, owner FROM own \
            ON CONFLICT (shard) DO UPDATE SET owner = excluded.owner RETURNING epoch, lsn, state";
        let made = self.control(|c| c.query(text, &[&number, &first, &owner]))?;
        let superseded = || StorageError::Unavailable(SUPERSEDED.into());
        let row = made.first().ok_or_else(superseded)?;
        // It exists already if an earlier attempt got no answer.
        let current = Epoch(lsn(row, 0).0);
        let mut shards = self.core.shards.write().unwrap_or_else(PoisonError::into_inner);
        shards.insert(shard, Arc::new(OwnedShard::new(current, lsn(row, 1), state_of(row, 2))));
        if current == epoch { Ok(()) } else { Err(StorageError::Gone { epoch: Some(current) }) }
    }

    fn drop_shard(&self, shard: ShardId) -> Result<(), StorageError> {
        let Some(known) = self.core.shard(shard) else { return Ok(()) };
        let lock = known.lock();
        known.head.may_be_dropped()?;
        let (number, owner) = (shard_number(shard), self.core.owner);
        self.control(|connection| {
            let head = "DELETE FROM head WHERE shard = $1 AND owner = $2 AND state IN (0, 3) \
                RETURNING shard";
            if !connection.query(head, &[&number, &owner])?.is_empty() {
                connection.query("DELETE FROM kv WHERE shard = $1", &[&number])?;
                connection.query("DELETE FROM log WHERE shard = $1", &[&number])?;
            }
            Ok(())
        })?;
        self.core.shards.write().unwrap_or_else(PoisonError::into_inner).remove(&shard);
        drop(lock);
        known.head.end();
        Ok(())
    }

    fn shards(&self) -> Result<Vec<(ShardId, Head)>, StorageError> {
        let shards = self.core.shards.read().unwrap_or_else(PoisonError::into_inner);
        Ok(shards.iter().map(|(id, shard)| (*id, shard.head.head())).collect())
    }

    fn journal(&self, shard: ShardId, bytes_max: usize) -> Result<Arc<Journal>, StorageError> {
        let known = self.core.known(shard)?;
        // No commit is between its answer from the server and the journal.
        let _lock = known.lock();
        known.head.begin_journal(bytes_max).ok_or(StorageError::JournalInUse)
    }

    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Result<(), StorageError> {
        let known = self.core.known(shard)?;
        let _lock = known.lock();
        known.head.takes_copies()?;
        let (number, owner) = (shard_number(shard), self.core.owner);
        let copied = self.control(|connection| {
            let head = "SELECT shard FROM head WHERE shard = $1 AND owner = $2 AND state = 0 \
                FOR NO KEY UPDATE";
            if connection.query(head, &[&number, &owner])?.is_empty() {
                return Ok(false);
            }
            copy(connection, number, entries)?;
            Ok(true)
        })?;
        if copied { Ok(()) } else { self.mismatch(shard).and(Err(StorageError::NotEmpty)) }
    }

    fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn stats(&self, shard: ShardId) -> Result<ShardStats, StorageError> {
        let lsn = self.core.known(shard)?.head.lsn();
        let view = self.snapshot(shard, ReadAt::Latest)?;
        let size_bytes = |space| self.space_bytes(&*view, shard, space);
        let (items_bytes, index_bytes) = (size_bytes(Space::Items)?, size_bytes(Space::Index)?);
        Ok(ShardStats { lsn, items_bytes, index_bytes })
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
        let mut lent = self.core.reads.take(&self.core.connector)?;
        let rows = lent.get().query(SAMPLE, &[&number, &from, &to]).map_err(read_error)?;
        let (count, bytes) = rows.first().map_or((0, 0), |row| (lsn(row, 0).0, lsn(row, 1).0));
        if count == 0 {
            return Ok(0);
        }
        Ok(view.estimate(space, &[], key::END)?.max(count).saturating_mul(bytes) / count)
    }
}

/// Writes copied entries. Of several with one key the last counts: what is read again while it is written comes twice,
/// and the server refuses to write a row twice.
fn copy(
    connection: &mut ServerConnection,
    shard: i32,
    entries: &[Copied],
) -> Result<(), postgres::Error> {
    let (mut gone, mut keys, mut tails) = (vec![], vec![], vec![]);
    let (mut versions, mut values) = (vec![], vec![]);
    let mut last = BTreeMap::new();
    for Copied { space, key, value } in entries {
        last.insert((*space, &key[..]), value);
    }
    for ((space, key), value) in last {
        let stored = StoredKey::new(space, key);
        match value {
            Some(value) => {
                keys.push(stored.key);
                tails.push(stored.tail);
                versions.push(signed(value.version.0));
                values.push(&value.bytes[..]);
            }
            None => gone.push(stored.key),
        }
    }
    if !gone.is_empty() {
        connection.query("DELETE FROM kv WHERE shard = $1 AND key = ANY ($2)", &[&shard, &gone])?;
    }
    let text = "INSERT INTO kv SELECT $1, k, v, b, t FROM unnest($2::bytea[], $3::bigint[], \
        $4::bytea[], $5::bytea[]) u(k, v, b, t) ON CONFLICT (shard, key) \
        DO UPDATE SET ver = excluded.ver, value = excluded.value, tail = excluded.tail";
    if !keys.is_empty() {
        connection.query(text, &[&shard, &keys, &versions, &values, &tails])?;
    }
    Ok(())
}
