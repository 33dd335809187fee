//! What commits leave for the feed of all versions, in containers whose change feed policy asks for
//! it: each change with the item as it was then. It is kept as long as the policy says; the
//! background thread removes what is older and moves the *horizon*, the LSN up to which a shard no
//! longer has everything. A reader that is behind the horizon is refused, so that no reader misses
//! a change without knowing it.

use orrery_storage::key;
use orrery_storage::version::{Operation, Version};
use orrery_storage::{Commit, Entry, Part, Put, ReadAt, Scan, Snapshot, Space, StorageError};
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, Result, limits};

use crate::change::{After, Before, Slot};
use crate::partition::PhysicalPartition;
use crate::storage_error::storage;
use crate::{Container, Engine};

impl Engine {
    /// Adds to a commit the versions that a slot of it makes. A commit has one change for each item,
    /// however often its transaction wrote to it, but for an item that takes the place of one whose
    /// time was over: then there are two.
    pub(crate) fn keep_versions(&self, container: &Container, slot: &Slot<'_>, part: &mut Part) {
        if container.definition.versions_kept_s().is_none() || !slot.is_written() {
            return;
        }
        let key = &slot.at.key;
        let mut keep = |version: Version<'_>| part.versions.push(version.encode());
        let before = slot.before.as_ref();
        match slot.after() {
            Some(after) if slot.keeps_row() => {
                keep(version_of(Operation::Replace, key, after, before.map(|b| b.version)));
            }
            after => {
                if let Some(before) = before {
                    keep(self.removal_of(container, key, before, &before.text()));
                }
                if let Some(after) = after {
                    keep(version_of(Operation::Create, key, after, None));
                }
            }
        }
    }

    fn removal_of<'v>(
        &self,
        container: &Container,
        item_key: &'v [u8],
        before: &Before,
        body: &'v [u8],
    ) -> Version<'v> {
        let expired = self.is_expired(container, &before.header);
        let operation = if expired { Operation::Expire } else { Operation::Delete };
        let (time_s, previous) = (self.clock.now_s(), Some(before.version));
        Version { operation, time_s, previous, item_key, body }
    }

    /// The policy of a container was switched on or off, or a write that began before that has come
    /// after it: what there is of its history is whole from here on, or no longer wanted.
    pub(crate) fn rebase_history(
        &self,
        container: &Container,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let database = Address::Rid(container.database_rid());
        match self.catalog.container(&database, &Address::Rid(container.rid())) {
            Ok(now) if now.definition.versions_kept_s().is_some() => self.begin_history(&now),
            Ok(now) => self.trim_history(&now, u64::MAX, stop),
            // It was deleted meanwhile.
            Err(Error::NotFound | Error::OwnerNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Moves the horizon past every position that anybody has been given.
    pub(crate) fn begin_history(&self, container: &Container) -> Result<()> {
        for partition in &container.partitions {
            let mut part = Part::new(partition.shard, partition.epoch);
            let Lsn(last) = self.shard_lsn(partition)?;
            // The commit itself takes at least the next LSN.
            part.puts.push(horizon_at(Lsn(last + 1)));
            match self.store.commit(Commit { parts: vec![part] }) {
                Err(StorageError::Gone { .. }) => {}
                other => drop(other.map_err(storage)?),
            }
        }
        Ok(())
    }

    /// Removes versions that are older than the policies of their containers keep them.
    pub(crate) fn trim_histories(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        for container in self.catalog.state().containers() {
            if let Some(kept_s) = container.definition.versions_kept_s() {
                let before_s = self.clock.now_s().saturating_sub(kept_s);
                self.trim_history(container, before_s, stop)?;
            }
        }
        Ok(())
    }

    /// Removes a container's versions of before a second.
    pub(crate) fn trim_history(
        &self,
        container: &Container,
        before_s: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        for partition in &container.partitions {
            while !stop() && self.trim_step(partition, before_s)? {}
        }
        Ok(())
    }

    /// One commit's worth of it; whether there may be more.
    fn trim_step(&self, partition: &PhysicalPartition, before_s: u64) -> Result<bool> {
        let snapshot = match self.store.snapshot(partition.shard, ReadAt::Latest) {
            // The container was deleted meanwhile.
            Err(StorageError::Gone { .. }) => return Ok(false),
            other => other.map_err(storage)?,
        };
        let entries = first_versions(&*snapshot)?;
        let mut part = Part::new(partition.shard, partition.epoch);
        let mut horizon = horizon(&*snapshot)?;
        for entry in &entries {
            if Version::decode(&entry.value.bytes).map_err(storage)?.time_s >= before_s {
                break;
            }
            let (lsn, _) = key::parse_version(&entry.key).ok_or_else(corrupt)?;
            horizon = horizon.max(lsn);
            part.deletes.push((Space::Feed, entry.key.clone()));
        }
        drop(snapshot);
        let removed = part.deletes.len();
        if removed == 0 {
            return Ok(false);
        }
        part.puts.push(horizon_at(horizon));
        match self.store.commit(Commit { parts: vec![part] }) {
            Err(StorageError::Gone { .. }) => Ok(false),
            other => other.map(|_| removed == entries.len()).map_err(storage),
        }
    }
}

/// The LSN up to which a shard may lack versions.
pub(crate) fn horizon(snapshot: &dyn Snapshot) -> Result<Lsn> {
    let stored = snapshot.get(Space::Meta, &key::versions_horizon()).map_err(storage)?;
    let Some(stored) = stored else { return Ok(Lsn(0)) };
    stored.bytes.try_into().map(|lsn| Lsn(u64::from_be_bytes(lsn))).map_err(|_| corrupt())
}

fn horizon_at(lsn: Lsn) -> Put {
    let value = lsn.0.to_be_bytes().to_vec();
    Put { space: Space::Meta, key: key::versions_horizon(), value }
}

fn version_of<'v>(
    operation: Operation,
    item_key: &'v [u8],
    after: &'v After,
    previous: Option<Lsn>,
) -> Version<'v> {
    Version { operation, time_s: after.stamp.ts, previous, item_key, body: &after.text }
}

fn first_versions(snapshot: &dyn Snapshot) -> Result<Vec<Entry>> {
    let bounds = key::versions_after(Lsn(0));
    let scan = Scan {
        space: Space::Feed,
        from: &bounds.from,
        to: &bounds.to,
        reverse: false,
        max_rows: limits::SWEEP_ITEMS_MAX,
        max_bytes: limits::PAGE_SIZE_BYTES_MAX,
        keys_only: false,
    };
    snapshot.scan(&scan).map_err(storage)
}

fn corrupt() -> Error {
    Error::internal("the history of a shard is corrupt")
}
