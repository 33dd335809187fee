//! Reads of one instant: a transaction of its own on a pooled connection, whose snapshot the server takes with
//! its first statement. That statement reads the heads, so LSN and epoch are of the same instant as the data.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use orrery_storage::{Entry, Head, KeyCursor, Scan, Snapshot, Space, StorageError, Value};
use orrery_types::ShardId;
use orrery_types::limits::POSTGRES_COUNTED_MAX;
use postgres::SimpleQueryMessage;

use crate::connection::Lent;
use crate::failure::SUPERSEDED;
use crate::folded_key::{self, StoredKey};
use crate::scan::{PostgresKeys, ShardReader, SharedConnection, lock, lsn};
use crate::store::{head_of, shard_number};

const HEADS: &str = "SELECT shard, lsn, epoch, state, owner FROM head WHERE shard = ANY ($1)";
const GET_MANY: &str = "SELECT key, tail, ver, value FROM kv WHERE shard = $1 AND key = ANY ($2)";
const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 LIMIT $4) counted";

/// Ends the transaction before the connection goes back to its pool.
struct Open<'p> {
    connection: SharedConnection<'p>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // If that fails, the connection is lost and leaves the pool.
        let _ = lock(&self.connection).get().execute("ROLLBACK");
    }
}

pub(crate) struct PostgresSnapshot<'p> {
    reader: ShardReader<'p>,
    head: Head,
    _open: Arc<Open<'p>>,
}

impl<'p> PostgresSnapshot<'p> {
    /// Begins a transaction, whose snapshot is taken by its first statement.
    pub(crate) fn begin(lent: &mut Lent<'p>) -> Result<(), StorageError> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        lent.get().execute(begin).map_err(crate::failure::read_error)
    }

    /// Views of shards as of one instant, on a connection with a transaction.
    pub(crate) fn open(
        lent: Lent<'p>,
        shards: &[ShardId],
        owner: i64,
    ) -> Result<Vec<Self>, StorageError> {
        let failed = crate::failure::read_error;
        let connection: SharedConnection<'p> = Arc::new(Mutex::new(lent));
        let open = Arc::new(Open { connection: connection.clone() });
        let numbers: Vec<i32> = shards.iter().map(|shard| shard_number(*shard)).collect();
        let rows = lock(&connection).get().query(HEADS, &[&numbers]).map_err(failed)?;
        let mut heads = HashMap::new();
        for row in &rows {
            if row.get::<_, i64>(4) != owner {
                return Err(StorageError::Unavailable(SUPERSEDED.into()));
            }
            heads.insert(row.get::<_, i32>(0), head_of(row, 1));
        }
        let view = |(shard, number): (&ShardId, i32)| {
            let gone = StorageError::Gone { epoch: None };
            let head = heads.get(&number).copied().ok_or(gone)?;
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
        let answer = lent.get().simple(&text).map_err(crate::failure::read_error)?;
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
