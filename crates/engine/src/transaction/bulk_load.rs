//! Many items at once, of any logical partitions, in few large commits: the way into a data folder
//! that no server has open. Everything that a single write checks is checked here, and an item and
//! what stands beside it are one commit here too. Only the partition locks are not taken: a transaction that
//! reads a range would not notice, so a process that loads has the engine to itself.

use orrery_storage::StorageError;
use orrery_types::{Error, Result};

use super::reads::ReadView;
use super::retry::{self, Attempt};
use super::state::{TransactionOptions, TransactionState};
use crate::Container;
use crate::catalog::resource::Preconditions;
use crate::error::storage;
use crate::item::address::ItemKey;
use crate::item::operation::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::read::Outcome;
use crate::maintain::unique_keys::UniqueClaims;
use crate::model::ModelContext;
use crate::partition::PhysicalPartition;
use crate::transaction::Transactions;
use crate::transaction::batch::is_refusal;

/// What to do with an item whose id is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The one that is there stays.
    Keep,
    /// The new one takes its place.
    Replace,
    /// The new one is refused.
    Refuse,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Loaded {
    Created,
    Replaced,
    /// One with its id was there, and stays.
    Kept,
}

/// One item, where it goes, and which of the given ones it is.
struct Arrival<'c> {
    number: usize,
    at: ItemKey<'c>,
    write: ItemWrite,
}

impl Transactions<'_> {
    /// Writes the items; returns when all that were taken are durable, with an answer for each in
    /// their order. An error of the whole says that some may be missing: loading them again does no
    /// harm. Nobody else may write to the container meanwhile.
    pub fn load_items(
        self,
        container: &Container,
        bodies: Vec<ItemBody>,
        existing: Existing,
    ) -> Result<Vec<Result<Loaded>>> {
        let now;
        let container = if self.engine.is_shared() {
            // What another process has changed before; it writes nothing to the container meanwhile.
            now = self.engine.epochs().reload(container)?.ok_or(Error::OwnerNotFound)?;
            &*now
        } else {
            container
        };
        let mut answers: Vec<Result<Loaded>> = bodies.iter().map(|_| Ok(Loaded::Kept)).collect();
        let mut groups: Vec<Vec<Arrival<'_>>> = Vec::new();
        groups.resize_with(container.partitions.len(), Vec::new);
        for (number, body) in bodies.into_iter().enumerate() {
            let write = match existing {
                Existing::Keep | Existing::Refuse => ItemWrite::Create(body),
                Existing::Replace => ItemWrite::Upsert(body, Preconditions::default()),
            };
            match write.locate(self.engine, container, None) {
                Ok(at) => {
                    let home = container.partitions.iter().position(|p| p.id == at.partition.id);
                    let group = home.and_then(|home| groups.get_mut(home));
                    let group = group.ok_or(Error::PartitionGone)?;
                    group.push(Arrival { number, at, write });
                }
                Err(error) => answers[number] = Err(error),
            }
        }
        for (partition, group) in container.partitions.iter().zip(&groups) {
            self.load_group(container, partition, group, existing, &mut answers)?;
        }
        Ok(answers)
    }

    fn load_group(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        group: &[Arrival<'_>],
        existing: Existing,
        answers: &mut [Result<Loaded>],
    ) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        let database = self.engine.models().database_of(container);
        let mut kept = vec![];
        retry::run(|_| {
            let (view, _) = ReadView::snapshot(self.engine, partition.shard)?;
            let claims = Some(UniqueClaims::new(kept.clone()));
            let model = ModelContext::of(database.as_deref(), container);
            let options = TransactionOptions { claims, model, ..TransactionOptions::default() };
            let mut tx = TransactionState::new(self.engine, container, partition, view, options);
            for Arrival { number, at, write } in group {
                let applied = tx.apply(at, write);
                if tx.doomed().is_some() {
                    break;
                }
                answers[*number] = answer(applied.map(|written| written.outcome), existing)?;
            }
            if let Some(reason) = tx.doomed() {
                drop(tx);
                kept.extend(self.before_retry(reason)?);
                return Ok(Attempt::Again(reason.text()));
            }
            if tx.writes.written_at_first() == 0 {
                return Ok(Attempt::Done(()));
            }
            let (commit, _) = tx.assemble()?.into_commit();
            match self.engine.store.commit(commit) {
                Ok(_) => Ok(Attempt::Done(())),
                // Another one loads too, and was faster.
                Err(StorageError::Conflict(failed)) => Ok(tx.after_conflict(&failed)),
                Err(StorageError::TooLarge) if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    self.load_group(container, partition, first, existing, answers)?;
                    self.load_group(container, partition, second, existing, answers)?;
                    Ok(Attempt::Done(()))
                }
                Err(error) => Err(storage(error)),
            }
        })
    }
}

/// What is wrong with an item is its own answer; what is wrong with the store is everybody's.
fn answer(applied: Result<Outcome>, existing: Existing) -> Result<Result<Loaded>> {
    match applied {
        Ok(Outcome::Created) => Ok(Ok(Loaded::Created)),
        Ok(Outcome::Replaced | Outcome::Deleted) => Ok(Ok(Loaded::Replaced)),
        Err(Error::AlreadyExists) if existing == Existing::Keep => Ok(Ok(Loaded::Kept)),
        Err(error) if is_refusal(&error) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
