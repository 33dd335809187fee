//! The journal of a shard that is copied while nodes write to it. The head names the journal, and every commit, whichever
//! node makes it, adds the keys that it changes, under the lock of the head. The copier reads the keys of the commits since
//! its last look, and what they lead to, from one snapshot.
//!
//! A journal whose node has ended is not read any more. It lives as long as its time in the head, which every look extends;
//! a commit that comes later takes its name out of the head, so that its reader, should there be one, learns that it
//! lacks a commit.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use orrery_storage::{CommitId, Copied, Journal, JournalError, StorageError, Value};
use orrery_types::limits::POSTGRES_JOURNAL_S;
use orrery_types::{Lsn, ShardId};
use postgres::Row;

use crate::connection::Uuid;
use crate::folded_key;
use crate::group::signed;
use crate::heads::shard_number;
use crate::scan::lsn;
use crate::snapshot::PostgresSnapshot;
use crate::store::Core;

/// Whether a shard has a journal that is read.
const IN_USE: &str = "SELECT journal IS NOT NULL AND journal_until > clock_timestamp() FROM head \
    WHERE shard = $1 FOR NO KEY UPDATE";
const START: &str = "UPDATE head SET journal = $2, \
    journal_until = clock_timestamp() + make_interval(secs => $3) WHERE shard = $1 RETURNING lsn";
const CLEAR: &str = "DELETE FROM journal WHERE shard = $1";
const EXTEND: &str = "UPDATE head SET journal_until = clock_timestamp() + make_interval(secs => $3) \
    WHERE shard = $1 AND journal = $2 RETURNING shard";
const END: &str =
    "UPDATE head SET journal = NULL WHERE shard = $1 AND journal = $2 RETURNING shard";
const IS_IN_USE: &str = "SELECT state <> 3 FROM head WHERE shard = $1";
const FORGET: &str = "DELETE FROM journal WHERE shard = $1 AND lsn <= $2";
/// Each pair is looked up by its key, whatever the planner thinks of the number of keys.
const BYTES: &str = "SELECT h.lsn, coalesce((SELECT sum(length(j.key) + coalesce(length(j.tail), 0) \
    + coalesce(k.bytes, 0)) FROM (SELECT DISTINCT key, tail FROM journal WHERE shard = $1 AND lsn > $3) j \
    LEFT JOIN LATERAL (SELECT length(value) AS bytes FROM kv WHERE shard = $1 AND key = j.key OFFSET 0) k \
    ON true), 0)::bigint FROM head h WHERE h.shard = $1 AND h.journal = $2";
const CHANGES: &str = "SELECT j.key, j.tail, k.ver, k.value \
    FROM (SELECT DISTINCT key, tail FROM journal WHERE shard = $1 AND lsn > $2) j \
    LEFT JOIN LATERAL (SELECT ver, value FROM kv WHERE shard = $1 AND key = j.key OFFSET 0) k ON true";

pub(crate) struct PostgresJournal {
    core: Arc<Core>,
    shard: ShardId,
    name: Uuid,
    bytes_max: u64,
    /// The last commit whose changes were taken; `None` once some may be missing.
    after: Mutex<Option<Lsn>>,
}

impl PostgresJournal {
    /// Starts the journal of a shard.
    pub(crate) fn start(
        core: &Arc<Core>,
        shard: ShardId,
        bytes_max: usize,
    ) -> Result<Self, StorageError> {
        let (number, name) = (shard_number(shard), Uuid(CommitId::new()));
        let started = core.control(|connection| {
            let in_use = connection.query(IN_USE, &[&number])?.first().map(|row| row.get(0));
            if in_use != Some(false) {
                return Ok(in_use.map(|_: bool| None));
            }
            connection.query(CLEAR, &[&number])?;
            let rows = connection.query(START, &[&number, &name, &POSTGRES_JOURNAL_S])?;
            Ok(rows.first().map(|row| Some(lsn(row, 0))))
        })?;
        let after = started.ok_or(StorageError::Gone { epoch: None })?;
        let after = Mutex::new(Some(after.ok_or(StorageError::JournalInUse)?));
        Ok(Self { core: core.clone(), shard, name, bytes_max: bytes_max as u64, after })
    }

    /// The journal has ended: with its shard, or because it was not read in time.
    fn ended<T>(&self) -> Result<Option<T>, StorageError> {
        let rows = self.core.rows(IS_IN_USE, &[&shard_number(self.shard)])?;
        let is_in_use = rows.first().is_some_and(|row| row.get(0));
        if is_in_use { Ok(None) } else { Err(StorageError::Gone { epoch: None }) }
    }

    /// The changes after a commit, with the commit up to which they reach; `None` if some are missing or they are
    /// too many.
    fn read(&self, after: Lsn) -> Result<Option<(Vec<Copied>, Lsn)>, StorageError> {
        let (number, after) = (shard_number(self.shard), signed(after.0));
        let extended = self.core.rows(EXTEND, &[&number, &self.name, &POSTGRES_JOURNAL_S])?;
        if extended.is_empty() {
            return self.ended();
        }
        let view = PostgresSnapshot::lend(&self.core)?;
        let sizes = view.rows(BYTES, &[&number, &self.name, &after])?;
        let Some(row) = sizes.first() else { return self.ended() };
        let (up_to, bytes) = (lsn(row, 0), lsn(row, 1).0);
        if bytes > self.bytes_max {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for row in view.rows(CHANGES, &[&number, &after])? {
            changes.push(copied(&row)?);
        }
        changes.sort_unstable_by(|a, b| (a.space, &a.key).cmp(&(b.space, &b.key)));
        Ok(Some((changes, up_to)))
    }
}

/// A changed key as it is now.
fn copied(row: &Row) -> Result<Copied, StorageError> {
    let (stored, tail): (&[u8], Option<&[u8]>) = (row.get(0), row.get(1));
    let unknown = || StorageError::Corrupt("a journal names a key of an unknown space".into());
    let space = folded_key::space_of(stored).ok_or_else(unknown)?;
    let value: Option<&[u8]> = row.get(3);
    let value =
        value.map(|bytes| Value { version: lsn(row, 2), bytes: Bytes::copy_from_slice(bytes) });
    Ok(Copied { space, key: folded_key::original(stored, tail), value })
}

impl std::fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresJournal").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl Journal for PostgresJournal {
    fn take(&self) -> Result<Vec<Copied>, JournalError> {
        let mut position = self.after.lock().unwrap_or_else(PoisonError::into_inner);
        let after = position.ok_or(JournalError::Overflown)?;
        let Some((changes, up_to)) = self.read(after).map_err(JournalError::Failed)? else {
            *position = None;
            return Err(JournalError::Overflown);
        };
        *position = Some(up_to);
        // What stays because this fails is not read again.
        let (number, up_to) = (shard_number(self.shard), signed(up_to.0));
        if let Err(error) = self.core.rows(FORGET, &[&number, &up_to]) {
            tracing::debug!(%error, shard = self.shard.0, "a journal was not shortened");
        }
        Ok(changes)
    }
}

impl Drop for PostgresJournal {
    /// Without it, the time in the head ends the journal.
    fn drop(&mut self) {
        let number = shard_number(self.shard);
        let ended = self.core.control(|connection| {
            if !connection.query(END, &[&number, &self.name])?.is_empty() {
                connection.query(CLEAR, &[&number])?;
            }
            Ok(())
        });
        if let Err(error) = ended {
            tracing::warn!(%error, shard = self.shard.0, "a journal was not ended");
        }
    }
}
