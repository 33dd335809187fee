//! Expired items of containers that a model is about: their end is a delete, with all that follows.
//! Where something still refers to one and the model forbids its end, it stays, hidden, until nothing
//! does.

use orrery_storage::{Commit, Entry, Part, ReadAt, Scan, Space, StorageError, key};
use orrery_types::{Error, PartitionKey, Result, limits};

use crate::Container;
use crate::background::expiry_sweep::ExpirySweep;
use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::background::{BackgroundPass, UnitProgress};
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::item::read::CommitPosition;
use crate::maintain::cascade;
use crate::maintain::cascade::ItemChange;
use crate::model::ModelContext;
use crate::partition::PhysicalPartition;
use crate::transaction::batch::is_refusal;
use crate::transaction::reads::ReadView;
use crate::transaction::retry::{self, Attempt};
use crate::transaction::state::{TransactionOptions, TransactionState};
use crate::transaction::write_buffer::Mutation;

impl ExpirySweep<'_> {
    /// Removes expired items one by one: each is a unit, so that one that may not go holds up no other.
    pub(crate) fn sweep_modelled(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entries: &[Entry],
        run: &mut BackgroundPass<'_>,
    ) {
        for entry in entries {
            let unit = UnitKey::of(container, UnitKind::ExpiredItem, &entry.value.bytes);
            let mut removed = false;
            self.engine.background().run_unit(run, &unit, 0, &mut |_| {
                let purged = self.engine.epochs().retry_on_stale_epoch(container, &mut |now| {
                    let _schema = self.engine.model_locks.schema_shared();
                    self.sweep_one(now, now.partition_with(partition.shard)?, entry)
                })?;
                removed = matches!(purged, Purged::Gone);
                match purged {
                    Purged::Gone | Purged::Visible => Ok(UnitProgress::Done),
                    Purged::Refused(error) => {
                        Err(UnitFailure::of_item(error, container, &entry.value.bytes))
                    }
                }
            });
            run.removed += usize::from(removed);
        }
    }

    /// Removes the item behind an expiry entry; an entry that is stale goes by itself.
    fn sweep_one(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        entry: &Entry,
    ) -> Result<Purged> {
        let row = key::parse_ttl(&entry.key).map(|(_, row)| row).unwrap_or_default();
        if let Some((at, _)) = self.locate_hidden(container, partition, row, &entry.value.bytes)? {
            return self.purge_modelled(container, &at);
        }
        let mut part = Part::new(partition.shard, partition.epoch);
        part.deletes.push((Space::Ttl, entry.key.clone()));
        self.engine.store.commit(Commit::new(vec![part])).map_err(storage)?;
        Ok(Purged::Visible)
    }

    /// Deletes all items of a logical partition in one commit, with all that follows. Nobody else
    /// writes to it meanwhile but for what follows from writes elsewhere.
    pub(crate) fn erase_modelled(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        partition_key: &PartitionKey,
    ) -> Result<CommitPosition> {
        retry::run(|_| {
            let database = self.engine.models().database_of(container);
            let model = ModelContext::of(database.as_deref(), container);
            let (view, options) = (ReadView::latest(self.engine), TransactionOptions::under(model));
            let mut tx = TransactionState::new(self.engine, container, partition, view, options);
            let mut changes = Vec::new();
            for key in self.keys_of(container, partition, partition_key)? {
                let at = ItemKey { partition, partition_key: partition_key.clone(), key };
                tx.load(tx.home(), &at)?;
                let Some(past) = tx.past_image(tx.home(), &at.key)? else { continue };
                tx.set_item(tx.home(), &at, Mutation::Delete);
                changes.push(ItemChange::new(tx.address(&at), Some(past), None));
            }
            // All of them are gone by now, so that none of them keeps another.
            if let Some(model) = model {
                for change in changes {
                    cascade::follow(&mut tx.under(model), vec![change])?;
                }
            }
            let (commit, unique) = tx.assemble()?.into_commit();
            match self.engine.point_writes().commit_all(commit) {
                Ok(committed) => {
                    let lsn = committed.lsns.first().copied().unwrap_or_default();
                    Ok(Attempt::Done(CommitPosition {
                        partition: partition.id,
                        lsn,
                        item_lsn: lsn,
                    }))
                }
                Err(StorageError::Conflict(failed)) => {
                    // Something that follows would get a unique key that another item has.
                    match unique.iter().find(|unique| unique.is(&failed)) {
                        Some(unique) if tx.validate(None)? => Err(unique.violation()),
                        _ => Ok(tx.after_conflict(&failed)),
                    }
                }
                Err(error) => Err(storage(error)),
            }
        })
    }

    /// The item keys of a logical partition, if they are not too many for one commit.
    fn keys_of(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        partition_key: &PartitionKey,
    ) -> Result<Vec<Vec<u8>>> {
        let effective = container.definition.partition_key.effective(partition_key);
        let bounds = key::items_of(&effective, partition_key);
        let snapshot =
            self.engine.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
        let scan = Scan {
            keys_only: true,
            ..bounds.scan(Space::Items, limits::MODEL_ITEMS_MAX + 1, usize::MAX)
        };
        let entries = snapshot.scan(&scan).map_err(storage)?;
        if entries.len() > limits::MODEL_ITEMS_MAX {
            return Err(Error::ModelViolated(
                format!(
                    "The partition key has more than {} items, and under a model they are deleted in \
                     one commit with all that follows. Delete some of them first.",
                    limits::MODEL_ITEMS_MAX
                )
                .into(),
            ));
        }
        Ok(entries.into_iter().map(|entry| entry.key).collect())
    }

    /// Removes an item if it is hidden and may go. The caller holds the schema lock.
    pub(crate) fn purge_modelled(self, container: &Container, at: &ItemKey<'_>) -> Result<Purged> {
        let purged = retry::run(|_| {
            let database = self.engine.models().database_of(container);
            let model = ModelContext::of(database.as_deref(), container);
            let (view, options) = (ReadView::latest(self.engine), TransactionOptions::under(model));
            let mut tx = TransactionState::new(self.engine, container, at.partition, view, options);
            tx.load(tx.home(), at)?;
            let Some(past) = tx.past_image(tx.home(), &at.key)? else {
                return Ok(Attempt::Done(Purged::Gone));
            };
            if tx.current(tx.home(), &at.key).is_some() {
                return Ok(Attempt::Done(Purged::Visible));
            }
            tx.set_item(tx.home(), at, Mutation::Delete);
            let change = ItemChange::new(tx.address(at), Some(past), None);
            let followed =
                model.map_or(Ok(()), |model| cascade::follow(&mut tx.under(model), vec![change]));
            let (commit, unique) = match followed.and_then(|()| Ok(tx.assemble()?.into_commit())) {
                Ok(prepared) => prepared,
                Err(error) if is_refusal(&error) => {
                    return Ok(Attempt::Done(Purged::Refused(error)));
                }
                Err(error) => return Err(error),
            };
            match self.engine.point_writes().commit_all(commit) {
                Ok(_) => Ok(Attempt::Done(Purged::Gone)),
                Err(StorageError::Conflict(failed)) => {
                    let refusal = self.engine.models().refusal_of(&unique, &failed)?;
                    Ok(match refusal {
                        Some(error) => Attempt::Done(Purged::Refused(error)),
                        None => tx.after_conflict(&failed),
                    })
                }
                Err(error) => Err(storage(error)),
            }
        });
        match purged {
            Err(error @ Error::RetryWith) => Ok(Purged::Refused(error)),
            purged => purged,
        }
    }
}

/// What became of a hidden item that was to be removed.
pub(crate) enum Purged {
    Gone,
    /// It is not hidden any more.
    Visible,
    /// It may not go: what follows from its end is refused.
    Refused(Error),
}
