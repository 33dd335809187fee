//! The statements of commits alone, for measuring: what the committers send, over one connection, without queues and
//! threads, and without help if the connection is lost.

use orrery_storage::{Commit, StorageError};
use orrery_types::limits::POSTGRES_TRIM_COMMITS;

use crate::connection::ServerConnection;
use crate::failure::StatementFailure;
use crate::group::{Arrays, signed};
use crate::heads::shard_number;
use crate::schema::{self, PostgresOpenError};
use crate::store::PostgresOptions;

/// A connection that commits groups, of one shard.
pub struct BareCommitter {
    connection: ServerConnection,
    log_commits: u64,
    /// Commits since the log was trimmed.
    untrimmed: u64,
}

impl std::fmt::Debug for BareCommitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareCommitter").finish_non_exhaustive()
    }
}

impl BareCommitter {
    /// Connects to a store that [`init`](crate::init) has created, with the settings that a node's connections have.
    pub fn connect(address: &str, options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let (_, connector) = schema::connector(address, options)?;
        let connection = schema::check(&connector, options)?;
        Ok(Self { connection, log_commits: options.log_commits, untrimmed: 0 })
    }

    /// Commits a group, whose members have one part each, of the same shard, and do not overlap; how many were
    /// committed. The commit log is trimmed as often as a node does it.
    pub fn commit(&mut self, group: &[Commit]) -> Result<usize, StorageError> {
        let Some(part) = group.first().and_then(|commit| commit.parts.first()) else {
            return Ok(0);
        };
        let mut arrays = Arrays::default();
        for commit in group {
            commit.parts.iter().for_each(|part| arrays.add(commit.id, part));
        }
        let failed = |error: postgres::Error| StatementFailure::of(&error).into_error();
        let rows = arrays.send(&mut self.connection, part, true).map_err(failed)?;
        self.untrimmed += group.len() as u64;
        if self.untrimmed >= POSTGRES_TRIM_COMMITS {
            self.untrimmed = 0;
            let (number, kept) = (shard_number(part.shard), signed(self.log_commits));
            self.connection.query("SELECT kv_trim($1, $2)", &[&number, &kept]).map_err(failed)?;
        }
        Ok(rows.iter().filter(|row| row.get::<_, Option<i64>>(1).is_some()).count())
    }
}
