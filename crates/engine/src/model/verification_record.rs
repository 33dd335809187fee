//! The last verification of a database on a shared store, as a record in the system shard: so every node tells that it runs,
//! and what it has found, whichever node has run it.

use orrery_storage::{Commit, Part, Precondition, Put, Space, StorageError, key};
use orrery_types::{Error, Lsn, Result, Value, limits};

use super::verification::Verification;
use super::verify::{ModelVerification, Verified};
use crate::catalog::resource::object;
use crate::catalog::{SYSTEM_EPOCH, SYSTEM_SHARD};
use crate::error::storage;

/// A verification that a node runs or has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredVerification {
    pub(super) node: u32,
    /// `None` while it runs.
    pub(super) result: Option<std::result::Result<Verified, String>>,
}

impl StoredVerification {
    fn to_bytes(&self) -> Vec<u8> {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let mut value = object([("node", number(u64::from(self.node)))]);
        match &self.result {
            None => {}
            Some(Err(reason)) => value.set("failed", reason.as_str().into()),
            Some(Ok(found)) => {
                let kept = found.drift.iter().take(limits::VERIFICATION_DRIFT_KEPT);
                let drift = kept.map(|sentence| sentence.as_str().into()).collect();
                value.set("drift", Value::array(drift));
                value.set("driftCount", number(found.drift_count as u64));
                value.set("pending", number(found.pending as u64));
                value.set("items", number(found.items));
            }
        }
        Value::object(value).to_json().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let corrupt = || Error::internal("the record of a verification is corrupt");
        let value = Value::parse(bytes).map_err(|_| corrupt())?;
        let number = |name: &str| value.get(name).as_i64().and_then(|n| u64::try_from(n).ok());
        let count = |name: &str| number(name).and_then(|n| usize::try_from(n).ok());
        let node = number("node").and_then(|n| u32::try_from(n).ok()).ok_or_else(corrupt)?;
        let result = match (value.get("drift").as_array(), value.get("failed").as_str()) {
            (None, None) => None,
            (_, Some(reason)) => Some(Err(reason.to_owned())),
            (Some(drift), None) => Some(Ok(Verified {
                drift: drift.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                drift_count: count("driftCount").ok_or_else(corrupt)?,
                pending: count("pending").ok_or_else(corrupt)?,
                items: number("items").ok_or_else(corrupt)?,
            })),
        };
        Ok(Self { node, result })
    }
}

impl ModelVerification<'_> {
    /// The last verification of a database, if the store is shared and there was one, and its version.
    pub(super) fn stored(self, database: u32) -> Result<Option<(Lsn, StoredVerification)>> {
        if !self.engine.store.is_shared() {
            return Ok(None);
        }
        let key = key::verification(database);
        let found = self.engine.store.get(SYSTEM_SHARD, Space::Meta, &key).map_err(storage)?.1;
        let read = |found: orrery_storage::Value| {
            Ok((found.version, StoredVerification::from_bytes(&found.bytes)?))
        };
        found.map(read).transpose()
    }

    /// Stores one in the place of another; its version, or `None` if another node was faster.
    pub(super) fn put_stored(
        self,
        database: u32,
        before: Option<Lsn>,
        stored: &StoredVerification,
    ) -> Result<Option<Lsn>> {
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        let (space, key) = (Space::Meta, key::verification(database));
        part.preconditions.push(Precondition::unchanged(space, key.clone(), before));
        part.puts.push(Put { space, key, value: stored.to_bytes() });
        match self.engine.store.commit(Commit::new(vec![part])) {
            Ok(committed) => Ok(committed.lsns.first().copied()),
            Err(StorageError::Conflict(_)) => Ok(None),
            Err(error) => Err(storage(error)),
        }
    }

    /// How a stored one is; how far it is only its own node knows.
    pub(super) fn state_of(self, stored: StoredVerification) -> Result<Verification> {
        Ok(match stored.result {
            Some(result) => Verification::Ended(result.map_err(Error::internal)),
            None if self.engine.nodes().is_dead(stored.node)? => {
                Verification::Ended(Err(Error::Unavailable(
                    "The node that ran the verification has ended; start it again.".into(),
                )))
            }
            None => Verification::Running(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let found = Verified { drift: vec!["a".into()], drift_count: 9, pending: 2, items: 7 };
        for result in [None, Some(Err("it failed".to_owned())), Some(Ok(found))] {
            let stored = StoredVerification { node: 3, result };
            assert_eq!(StoredVerification::from_bytes(&stored.to_bytes()), Ok(stored));
        }
        assert!(StoredVerification::from_bytes(b"{}").is_err());
    }
}
