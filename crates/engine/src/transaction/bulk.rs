//! Bulk: many operations in one request that succeed and fail each for itself. What one is refused does not
//! touch the others.
//!
//! Those of one physical partition are tried in one transaction together, whatever their logical
//! partitions: one commit costs little more than the smallest. If somebody is in the way (another
//! writer was faster, a lock is held exclusively, a model applies) nothing was written, and each logical
//! partition goes for itself, a few at a time, so that their commits share syncs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use orrery_types::{Error, PartitionKey, Result, limits};

use crate::Container;
use crate::item::address::{complete_key, key_missing};
use crate::item::operation::ItemBody;
use crate::item::read::CommitPosition;
use crate::partition::PhysicalPartition;
use crate::throughput::charge::rounded;
use crate::transaction::Transaction;
use crate::transaction::Transactions;
use crate::transaction::batch::{
    Answers, BatchAction, BatchAnswer, BatchOperation, BatchRun, check_count, is_refusal,
    partition_of,
};

/// What bulk does after an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OnError {
    Continue,
    Stop,
}

impl Transactions<'_> {
    /// Runs each operation for itself. `partition` is the physical one that the client means them
    /// for; `partition_key` stands for the keys that operations do not name.
    pub fn bulk(
        self,
        container: &Container,
        partition: Option<&PhysicalPartition>,
        partition_key: Option<&PartitionKey>,
        operations: &[BatchOperation],
        on_error: OnError,
    ) -> Result<Answers> {
        check_count(operations)?;
        let mut tally =
            Tally { answers: vec![BatchAnswer::Dependent(0.0); operations.len()], places: vec![] };
        let aim = |at: usize| aim_of(container, partition, partition_key, &operations[at]);
        match on_error {
            OnError::Continue => {
                let groups = grouped(operations.len(), &aim, &mut tally);
                let alone = self.run_together(container, operations, groups, &mut tally);
                self.run_groups(container, operations, &alone, &mut tally);
            }
            OnError::Stop => {
                for at in 0..operations.len() {
                    match aim(at) {
                        Ok(Aim { key, .. }) => {
                            let group = Group { key, operations: vec![(at, None)] };
                            tally.add(self.run_group(container, operations, &group));
                        }
                        Err(error) => tally.answers[at] = BatchAnswer::Failed(error),
                    }
                    if !tally.answers[at].is_success() {
                        break;
                    }
                }
            }
        }
        if tally.places.is_empty() {
            let named =
                partition.map_or_else(|| container.partitions.iter().collect(), |p| vec![p]);
            tally.places = named.into_iter().map(|p| self.place_now(p)).collect::<Result<_>>()?;
        }
        let charge = rounded(tally.answers.iter().map(BatchAnswer::charge).sum());
        Ok(Answers { answers: tally.answers, places: tally.places, charge })
    }

    /// Runs the groups of each physical partition in one transaction; gives back those that must go
    /// for themselves.
    fn run_together(
        self,
        container: &Container,
        operations: &[BatchOperation],
        groups: Vec<Group>,
        tally: &mut Tally,
    ) -> Vec<Group> {
        let mut alone = Vec::new();
        let mut homes: HashMap<u32, Vec<Group>> = HashMap::new();
        for group in groups {
            match partition_of(container, &group.key) {
                Ok(home) => homes.entry(home.id).or_default().push(group),
                Err(_) => alone.push(group),
            }
        }
        for partition in &container.partitions {
            let Some(groups) = homes.remove(&partition.id) else { continue };
            let (mut locks, mut open) = (Vec::with_capacity(groups.len()), Vec::new());
            for group in groups {
                match partition.locks.stripe(&group.key.to_canonical()).try_shared() {
                    Some(lock) => {
                        locks.push(lock);
                        open.push(group);
                    }
                    None => alone.push(group),
                }
            }
            let transacted = self.transact_together(container, partition, locks, &mut |together| {
                run_all(together, operations, &open)
            });
            match transacted {
                Ok(Some(done)) => {
                    tally.add(Done { answers: done.value, place: Some(done.place) });
                }
                Ok(None) => alone.extend(open),
                Err(error) => {
                    let failed = open.iter().flat_map(|group| &group.operations);
                    let failed = failed.map(|(at, _)| (*at, BatchAnswer::Failed(error.clone())));
                    tally.add(Done { answers: failed.collect(), place: None });
                }
            }
        }
        alone
    }

    /// Runs groups on a few threads, so that their commits share syncs.
    fn run_groups(
        self,
        container: &Container,
        operations: &[BatchOperation],
        groups: &[Group],
        tally: &mut Tally,
    ) {
        if groups.is_empty() {
            return;
        }
        let next = AtomicUsize::new(0);
        let tally = Mutex::new(tally);
        let work = || {
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let done = self.run_group(container, operations, group);
                tally.lock().unwrap_or_else(PoisonError::into_inner).add(done);
            }
        };
        std::thread::scope(|scope| {
            // This thread is one of them, and does all the work if the system gives no other.
            for _ in 1..groups.len().min(limits::BULK_THREADS_MAX) {
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// Runs the operations of one logical partition, in as few transactions as hold them.
    fn run_group(
        self,
        container: &Container,
        operations: &[BatchOperation],
        group: &Group,
    ) -> Done {
        let mut done = Done { answers: Vec::with_capacity(group.operations.len()), place: None };
        while done.answers.len() < group.operations.len() {
            let rest = &group.operations[done.answers.len()..];
            let transacted = self.transact(container, &group.key, &mut |transaction| {
                run_some(transaction, operations, rest)
            });
            match transacted {
                Ok(transacted) => {
                    done.answers.extend(transacted.value);
                    done.place = Some(transacted.place);
                }
                // The transaction failed as a whole, so each of its operations did. Other groups
                // may have been committed, so it is not the request that failed.
                Err(error) => {
                    let failed =
                        rest.iter().map(|(at, _)| (*at, BatchAnswer::Failed(error.clone())));
                    done.answers.extend(failed);
                }
            }
        }
        done
    }
}

/// Operations of one logical partition, by their places in the request, each with the item that it
/// brings if that had to be read to find the partition.
struct Group {
    key: PartitionKey,
    operations: Vec<(usize, Option<ItemBody>)>,
}

/// The operations by logical partition; those that name none are answered.
fn grouped(operations: usize, aim: &dyn Fn(usize) -> Result<Aim>, tally: &mut Tally) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::with_capacity(operations);
    for at in 0..operations {
        match aim(at) {
            Ok(Aim { key, body }) => {
                let group = *known.entry(key.to_canonical()).or_insert(groups.len());
                match groups.get_mut(group) {
                    Some(group) => group.operations.push((at, body)),
                    None => groups.push(Group { key, operations: vec![(at, body)] }),
                }
            }
            Err(error) => tally.answers[at] = BatchAnswer::Failed(error),
        }
    }
    groups
}

/// What came of a group.
struct Done {
    answers: Vec<(usize, BatchAnswer)>,
    place: Option<CommitPosition>,
}

/// What came of the groups so far.
struct Tally {
    answers: Vec<BatchAnswer>,
    places: Vec<CommitPosition>,
}

impl Tally {
    fn add(&mut self, done: Done) {
        for (at, answer) in done.answers {
            self.answers[at] = answer;
        }
        let Some(place) = done.place else { return };
        match self.places.iter_mut().find(|p| p.partition == place.partition) {
            Some(known) => known.lsn = known.lsn.max(place.lsn),
            None => self.places.push(place),
        }
    }
}

/// Runs the operations of all groups. They fit, or none of them is done.
fn run_all(
    transaction: &mut Transaction<'_>,
    operations: &[BatchOperation],
    groups: &[Group],
) -> Result<Vec<(usize, BatchAnswer)>> {
    let mut run = BatchRun::default();
    let mut answers = Vec::with_capacity(groups.iter().map(|group| group.operations.len()).sum());
    for group in groups {
        transaction.turn_to(&group.key);
        for (at, body) in &group.operations {
            let answer = match run.run(transaction, &operations[*at], body.as_ref()) {
                Ok(answer) => answer,
                Err(full @ Error::TransactionTooLarge { .. }) => return Err(full),
                Err(error) if is_refusal(&error) => BatchAnswer::Failed(error),
                Err(error) => return Err(error),
            };
            answers.push((*at, answer));
        }
    }
    Ok(answers)
}

/// Runs operations until the transaction is full; a refusal is an answer like any other. Items are read
/// anew: the definition of the container may be another by now.
fn run_some(
    transaction: &mut Transaction<'_>,
    operations: &[BatchOperation],
    which: &[(usize, Option<ItemBody>)],
) -> Result<Vec<(usize, BatchAnswer)>> {
    let mut run = BatchRun::default();
    let mut answers = Vec::with_capacity(which.len());
    for (at, _) in which {
        let answer = match run.run(transaction, &operations[*at], None) {
            Ok(answer) => answer,
            Err(Error::TransactionTooLarge { .. }) => break,
            Err(error) if is_refusal(&error) => BatchAnswer::Failed(error),
            Err(error) => return Err(error),
        };
        answers.push((*at, answer));
    }
    Ok(answers)
}

/// The logical partition that an operation is about, and its item if it had to be read.
struct Aim {
    key: PartitionKey,
    body: Option<ItemBody>,
}

fn aim_of(
    container: &Container,
    partition: Option<&PhysicalPartition>,
    given: Option<&PartitionKey>,
    operation: &BatchOperation,
) -> Result<Aim> {
    let aim = match (&operation.partition_key, given, &operation.action) {
        (Some(own), Some(given), _) => {
            let own = complete_key(container, own)?;
            if own != complete_key(container, given)? {
                return Err(Error::PartitionKeyMismatch(
                    "The partition key of the operation is not the one of the request.".into(),
                ));
            }
            Aim { key: own, body: None }
        }
        (Some(key), None, _) | (None, Some(key), _) => {
            Aim { key: complete_key(container, key)?, body: None }
        }
        (
            None,
            None,
            BatchAction::Create(text) | BatchAction::Upsert(text) | BatchAction::Replace(_, text),
        ) => {
            let body = ItemBody::parse(container, text)?;
            Aim { key: body.key.clone(), body: Some(body) }
        }
        (None, None, BatchAction::Read(_) | BatchAction::Patch(..) | BatchAction::Delete(_)) => {
            return Err(key_missing());
        }
    };
    let found = partition_of(container, &aim.key)?;
    match partition {
        Some(named) if named.id != found.id => Err(Error::PartitionGone),
        _ => Ok(aim),
    }
}
