//! Where a copy comes from: a store that this process opens, or a server that goes on serving.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use orrery_storage::{
    Copied, CopyBatch, OutgoingCopy, OutgoingCopyError, Space, StorageError, Store,
};
use orrery_types::{ShardId, Value};

use crate::account;
use crate::exit::{Exit, Failure};
use crate::remote::{Remote, RemoteAnswer};

/// The store that is copied. What is asked for later is newer.
pub(super) trait CopySource {
    /// Entries of a space from a key on, none behind the last; `None` if the shard is gone.
    fn entries(
        &mut self,
        shard: ShardId,
        space: Space,
        from: Vec<u8>,
    ) -> Result<Option<Vec<Copied>>>;
    /// What was written since the last call, a bounded part of it, and the shards that there are.
    fn changes(&mut self) -> Result<CopyBatch>;
    /// What the keys have now; `None` if one of their shards is gone.
    fn values(&mut self, keys: Vec<(ShardId, Copied)>) -> Result<Option<Vec<(ShardId, Copied)>>>;
    /// Ends writing to the source, until it is dropped.
    fn close(&mut self) -> Result<()>;
    /// Ends it for good: the copy is used from now on.
    fn finish(&mut self) -> Result<()>;
}

/// A store that no server has open.
pub(super) struct LocalSource {
    copy: OutgoingCopy,
    /// Whether other processes may write to it.
    is_shared: bool,
    is_finished: bool,
}

impl LocalSource {
    pub(super) fn begin(store: Arc<dyn Store>) -> Result<Self> {
        let is_shared = store.is_shared();
        let copy = OutgoingCopy::begin(store).map_err(unread)?;
        Ok(Self { copy, is_shared, is_finished: false })
    }
}

/// Why a store cannot be read.
fn unread(error: OutgoingCopyError) -> anyhow::Error {
    match error {
        OutgoingCopyError::Storage(StorageError::Corrupt(reason)) => {
            let text = format!("the source is damaged: {reason}; restore a backup");
            Failure::new(Exit::Damaged, text).into()
        }
        other => anyhow!(other).context("cannot read the source"),
    }
}

fn unless_gone<T>(result: Result<T, OutgoingCopyError>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(OutgoingCopyError::Storage(StorageError::Gone { .. })) => Ok(None),
        Err(error) => Err(unread(error)),
    }
}

impl CopySource for LocalSource {
    fn entries(
        &mut self,
        shard: ShardId,
        space: Space,
        from: Vec<u8>,
    ) -> Result<Option<Vec<Copied>>> {
        unless_gone(self.copy.entries(shard, space, &from))
    }

    fn changes(&mut self) -> Result<CopyBatch> {
        self.copy.changes().map_err(unread)
    }

    fn values(&mut self, keys: Vec<(ShardId, Copied)>) -> Result<Option<Vec<(ShardId, Copied)>>> {
        unless_gone(self.copy.values(&keys))
    }

    fn close(&mut self) -> Result<()> {
        // Of a store that this process alone has open nothing is changed.
        if self.is_shared { self.copy.close().map_err(unread) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for LocalSource {
    fn drop(&mut self) {
        if !self.is_finished
            && let Err(error) = self.copy.reopen()
        {
            eprintln!("orrery: the source still refuses writes: {error}");
        }
    }
}

/// A server that goes on serving.
pub(super) struct ServerSource {
    remote: Remote,
    /// The path of the copy.
    path: String,
    /// The number of the last changes.
    changes: u64,
    is_finished: bool,
}

impl ServerSource {
    pub(super) fn begin(endpoint: &str, key: Option<&str>, ca: Option<&Path>) -> Result<Self> {
        let mut remote = Remote::connect(endpoint, key, ca)?;
        let begun = account::send(&mut remote, "POST", "/_copies", &[], b"")?;
        if begun.status == 429 {
            let text = "another copy of the server's data is being made; wait until it has ended, or a \
                        minute if it was killed";
            return Err(Failure::new(Exit::Refused, text).into());
        }
        if begun.status == 449 {
            let text = "a range of the server is being split or merged; try again later";
            return Err(Failure::new(Exit::Refused, text).into());
        }
        if begun.status >= 400 {
            return Err(account::refusal("/_copies", &begun));
        }
        let begun = Value::parse(&begun.body).map_err(|_| account::not_an_account())?;
        let id = begun.get("id").as_str().ok_or_else(account::not_an_account)?;
        let path = format!("/_copies/{id}");
        Ok(Self { remote, path, changes: 0, is_finished: false })
    }

    fn ask(&mut self, step: &str, body: &[u8]) -> Result<RemoteAnswer> {
        let path = format!("{}/steps/{step}", self.path);
        let answer = account::send(&mut self.remote, "POST", &path, &[], body)?;
        if answer.status == 404 {
            let text = "the server has given the copy up; begin it again";
            return Err(Failure::new(Exit::Refused, text).into());
        }
        if answer.status < 400 || answer.status == 410 {
            return Ok(answer);
        }
        Err(account::refusal(&path, &answer))
    }

    /// The batch of a step; `None` if a shard is gone.
    fn batch(&mut self, step: &str, body: &[u8]) -> Result<Option<CopyBatch>> {
        let answer = self.ask(step, body)?;
        if answer.status == 410 {
            return Ok(None);
        }
        let batch = CopyBatch::decode(&answer.body);
        batch.map(Some).context("the server answers with what is no part of a copy")
    }
}

impl CopySource for ServerSource {
    fn entries(
        &mut self,
        shard: ShardId,
        space: Space,
        from: Vec<u8>,
    ) -> Result<Option<Vec<Copied>>> {
        let batch = self.batch("entries", &CopyBatch::of_key(shard, space, from).encode())?;
        Ok(batch.map(|batch| batch.entries.into_iter().map(|(_, entry)| entry).collect()))
    }

    fn changes(&mut self) -> Result<CopyBatch> {
        let number = self.changes + 1;
        let batch = self.batch(&format!("changes-{number}"), b"")?;
        self.changes = number;
        batch.context("a shard of the server is gone")
    }

    fn values(&mut self, keys: Vec<(ShardId, Copied)>) -> Result<Option<Vec<(ShardId, Copied)>>> {
        let batch = self.batch("values", &CopyBatch { heads: vec![], entries: keys }.encode())?;
        Ok(batch.map(|batch| batch.entries))
    }

    fn close(&mut self) -> Result<()> {
        self.ask("close", b"").map(drop)
    }

    fn finish(&mut self) -> Result<()> {
        self.ask("finish", b"")?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for ServerSource {
    fn drop(&mut self) {
        // One that is not finished takes writes again; the server would do it by itself, later.
        let _ = account::send(&mut self.remote, "DELETE", &self.path, &[], b"");
    }
}
