//! A copy of the whole store that another process makes while this one serves: [`OutgoingCopy`] in bytes, for a
//! client that asks for it piece by piece. It is exact: keys, values, versions and heads are those of this store.

use std::sync::Arc;

use bytes::Bytes;
use orrery_storage::{CopyBatch, OutgoingCopy, OutgoingCopyError};
use orrery_types::{Error, Result};

use crate::Engine;
use crate::error::storage;

/// A copy that is being read.
pub struct StoreCopy {
    copy: OutgoingCopy,
    /// The changes that were returned last, by number: an answer may get lost on its way.
    last: (u64, Bytes),
}

impl StoreCopy {
    /// Begins a copy.
    pub fn begin(engine: &Engine) -> Result<Self> {
        let copy = OutgoingCopy::begin(Arc::clone(engine.unchecked_store())).map_err(outgoing)?;
        Ok(Self { copy, last: (0, Bytes::new()) })
    }

    /// Entries of a space of a shard; the request holds the key to begin with.
    pub fn entries(&self, request: &[u8]) -> Result<Bytes> {
        let asked = parse(request)?;
        let [(shard, from)] = &asked.entries[..] else { return Err(malformed()) };
        let entries = self.copy.entries(*shard, from.space, &from.key).map_err(outgoing)?;
        let entries = entries.into_iter().map(|entry| (*shard, entry)).collect();
        Ok(CopyBatch { heads: vec![], entries }.encode().into())
    }

    /// Changes, numbered from 1. The last ones may be asked for again.
    pub fn changes(&mut self, number: u64) -> Result<Bytes> {
        if number == 0 || !(self.last.0..=self.last.0 + 1).contains(&number) {
            return Err(Error::invalid("These changes were asked for already, or not yet."));
        }
        if number > self.last.0 {
            let batch = self.copy.changes().map_err(outgoing)?;
            self.last = (number, batch.encode().into());
        }
        Ok(self.last.1.clone())
    }

    /// The values of the keys in the request.
    pub fn values(&self, request: &[u8]) -> Result<Bytes> {
        let asked = parse(request)?;
        let entries = self.copy.values(&asked.entries).map_err(outgoing)?;
        Ok(CopyBatch { heads: vec![], entries }.encode().into())
    }

    /// Ends writing to the store.
    pub fn close(&mut self) -> Result<()> {
        self.copy.close().map_err(outgoing)
    }

    /// Takes back [`StoreCopy::close`].
    pub fn reopen(&mut self) -> Result<()> {
        self.copy.reopen().map_err(outgoing)
    }
}

fn parse(request: &[u8]) -> Result<CopyBatch> {
    CopyBatch::decode(request).ok_or_else(malformed)
}

fn malformed() -> Error {
    Error::invalid("The body is not what a copy asks with; use the version of the server.")
}

fn outgoing(error: OutgoingCopyError) -> Error {
    match error {
        OutgoingCopyError::Storage(error) => storage(error),
        overflown @ OutgoingCopyError::Overflown(_) => {
            Error::Unavailable(format!("The copy has ended: {overflown}. Begin it again.").into())
        }
    }
}
