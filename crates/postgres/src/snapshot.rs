//! Reads of one instant: a transaction of its own on a pooled connection, whose snapshot the server takes with
//! its first statement. That statement reads the heads, so LSN and epoch are of the same instant as the data.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use orrery_storage::{Entry, Head, KeyCursor, Scan, Snapshot, Space, StorageError, Value};
use orrery_types::ShardId;
use orrery_types::limits::POSTGRES_COUNTED_MAX;
use postgres::{Row, SimpleQueryMessage};

use crate::connection::{Lent, Parameters};
use crate::failure::read_error;
use crate::folded_key::{self, StoredKey};
use crate::heads::{head_of, shard_id, shard_number};
use crate::scan::{PostgresKeys, ShardReader, SharedConnection, lock, lsn};
use crate::store::Core;

const HEADS: &str = "SELECT shard, lsn, epoch, control, state FROM head WHERE shard = ANY ($1)";
const GET_MANY: &str = "SELECT key, tail, ver, value FROM kv WHERE shard = $1 AND key = ANY ($2)";
const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 LIMIT $4) counted";

/// A transaction of one instant on a pooled connection. It ends before the connection goes back to its pool.
pub(crate) struct Open<'p> {
    connection: SharedConnection<'p>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // If that fails, the connection is lost and leaves the pool.
        let _ = lock(&self.connection).get().execute("ROLLBACK");
    }
}

impl Open<'_> {
    /// Runs a statement, the first of which sets the instant.
    pub(crate) fn rows(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StorageError> {
        lock(&self.connection).get().query(text, parameters).map_err(read_error)
    }
}

pub(crate) struct PostgresSnapshot<'p> {
    reader: ShardReader<'p>,
    head: Head,
    _open: Arc<Open<'p>>,
}

/// Begins a transaction, whose snapshot is taken by its first statement.
fn begin(lent: &mut Lent<'_>) -> Result<(), StorageError> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    lent.get().execute(begin).map_err(read_error)
}

impl<'p> PostgresSnapshot<'p> {
    /// A transaction that shows one instant.
    pub(crate) fn lend(core: &'p Core) -> Result<Open<'p>, StorageError> {
        let pool = &core.snapshots;
        let mut lent = pool.take(&core.connector)?;
        if let Err(error) = begin(&mut lent) {
            if !pool.was_lost(&mut lent) {
                return Err(error);
            }
            drop(lent);
            lent = pool.take(&core.connector)?;
            begin(&mut lent)?;
        }
        Ok(Open { connection: Arc::new(Mutex::new(lent)) })
    }

    /// Views of shards as of one instant.
    pub(crate) fn open(core: &'p Core, shards: &[ShardId]) -> Result<Vec<Self>, StorageError> {
        let open = Arc::new(Self::lend(core)?);
        let connection = &open.connection;
        let numbers: Vec<i32> = shards.iter().map(|shard| shard_number(*shard)).collect();
        let rows = open.rows(HEADS, &[&numbers])?;
        let heads = rows.iter().map(|row| (shard_id(row, 0), head_of(row, 1)));
        let heads: HashMap<ShardId, Head> = heads.collect();
        let view = |(shard, number): (&ShardId, i32)| {
            let gone = StorageError::Gone { epoch: None };
            let head = heads.get(shard).copied().ok_or(gone)?;
            core.known.saw(*shard, head.lsn);
            let reader = ShardReader { connection: connection.clone(), shard: *shard, number };
            Ok(Self { reader, head, _open: open.clone() })
        };
        shards.iter().zip(numbers).map(view).collect()
    }

    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64, StorageError> {
        let most = i64::try_from(POSTGRES_COUNTED_MAX).unwrap_or(i64::MAX);
        let rows = self.reader.rows(COUNT, &[&self.reader.number, &from, &to, &most])?;
        Ok(rows.first().map_or(0, |row| lsn(row, 0).0))
    }

    /// What the planner expects of a range, by its statistics.
    fn planned(&self, from: &[u8], to: &[u8]) -> Result<u64, StorageError> {
        let text = format!(
            "EXPLAIN SELECT 1 FROM kv WHERE shard = {} AND key >= '\\x{}' AND key < '\\x{}'",
            self.reader.number,
            hexadecimal(from),
            hexadecimal(to)
        );
        let mut lent = lock(&self.reader.connection);
        let answer = lent.get().simple(&text).map_err(read_error)?;
        let first = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let rows = first.and_then(|plan| plan.split("rows=").nth(1)?.split(' ').next());
        Ok(rows.and_then(|rows| rows.parse().ok()).unwrap_or_default())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Snapshot for PostgresSnapshot<'_> {
    fn head(&self) -> Head {
        self.head
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, StorageError> {
        Ok(self.get_many(space, &[key])?.pop().flatten())
    }

    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, StorageError> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| StoredKey::new(space, key).key).collect();
        let rows = self.reader.rows(GET_MANY, &[&self.reader.number, &keys])?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let bytes = Bytes::copy_from_slice(row.get(3));
            found.insert(row.get::<_, &[u8]>(0), Value { version: lsn(row, 2), bytes });
        }
        Ok(keys.iter().map(|key| found.get(&key[..]).cloned()).collect())
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<Vec<Entry>, StorageError> {
        self.reader.scan(scan)
    }

    fn keys(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> Result<Box<dyn KeyCursor + '_>, StorageError> {
        Ok(Box::new(PostgresKeys::new(self.reader.clone(), space, from, to)?))
    }

    fn estimate(&self, space: Space, from: &[u8], to: &[u8]) -> Result<u64, StorageError> {
        self.estimate_beyond(space, from, to, 0)
    }

    fn estimate_beyond(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        counted: u64,
    ) -> Result<u64, StorageError> {
        if from >= to {
            return Ok(counted);
        }
        let from = folded_key::lower_bound(space, from);
        let to = folded_key::upper_bound(space, to);
        if counted < POSTGRES_COUNTED_MAX {
            let found = self.count(&from, &to)?;
            if found < POSTGRES_COUNTED_MAX {
                return Ok(found.max(counted));
            }
        }
        Ok(self.planned(&from, &to)?.max(counted).max(POSTGRES_COUNTED_MAX))
    }
}
