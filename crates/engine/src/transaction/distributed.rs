//! Distributed transactions: operations on items of any logical partitions and containers of the account,
//! all in one transaction and hence in one commit. Operations run in their order and see what those before
//! them did. All shards that they name are read from snapshots of one instant, and the stripes of all their
//! logical partitions are held, in the order of containers, partitions and stripes.
//!
//! Unlike a batch, every operation is judged, also behind one that was refused: the answer names all that
//! were. If there is one, nothing is written. A transaction with writes leaves its outcome under its
//! idempotency token in the same commit (`outcomes`).

use std::collections::BTreeMap;
use std::sync::Arc;

use orrery_storage::StorageError;
use orrery_types::ids::Address;
use orrery_types::{Error, Lsn, PartitionKey, Result, ShardId, limits};

use super::batch::{BatchAction, BatchAnswer, BatchOperation, BatchRun, is_refusal, partition_of};
use super::locks::{LockGuard, LockMode, stripe_of};
pub use super::outcomes::IdempotencyToken;
use super::outcomes::{Fingerprint, TokenState};
use super::reads::ReadView;
use super::retry::{self, Attempt, RetryReason};
use super::state::TransactionOptions;
use super::{Transaction, Transactions};
use crate::catalog::State;
use crate::error::storage;
use crate::item::address::complete_key;
use crate::item::read::CommitPosition;
use crate::maintain::index_terms::PathIdAllocation;
use crate::maintain::unique_keys::UniqueClaims;
use crate::model::ModelContext;
use crate::partition::PhysicalPartition;
use crate::throughput::charge::rounded;
use crate::{Container, Database};

/// One operation, and where it takes place.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DistributedOperation {
    pub container: Arc<Container>,
    pub partition_key: PartitionKey,
    pub operation: BatchOperation,
}

/// What came of one operation, and the partition where it did.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DistributedAnswer {
    pub answer: BatchAnswer,
    pub container: Arc<Container>,
    pub place: CommitPosition,
}

/// What came of a transaction.
#[derive(Clone, Debug)]
pub struct DistributedAnswers {
    /// One for each operation, in their order. If one of them has failed, the others are
    /// [`BatchAnswer::Dependent`] and nothing was written.
    pub answers: Vec<DistributedAnswer>,
    /// The charge of everything that was done, or tried.
    pub charge: f64,
    /// Whether it was committed by an earlier request with the same token.
    pub is_repeated: bool,
}

/// The shard in which an operation takes place.
struct Home<'c> {
    container: &'c Arc<Container>,
    database: &'c Database,
    partition: &'c PhysicalPartition,
    key: PartitionKey,
}

/// What an attempt came to.
struct Finished {
    answers: Vec<BatchAnswer>,
    /// The LSN of each shard that was read or written; empty if the outcome was stored before.
    lsns: BTreeMap<u32, Lsn>,
    is_repeated: bool,
}

impl BatchAction {
    /// The item that it names beside its body.
    pub fn item(&self) -> Option<&Address> {
        match self {
            Self::Create(_) | Self::Upsert(_) => None,
            Self::Read(item)
            | Self::Replace(item, _)
            | Self::Patch(item, _)
            | Self::Delete(item) => Some(item),
        }
    }
}

impl Transactions<'_> {
    /// Runs all operations in one transaction. One that writes needs a token.
    pub fn distributed(
        self,
        operations: &[DistributedOperation],
        token: Option<IdempotencyToken>,
    ) -> Result<DistributedAnswers> {
        check_operations(operations, token)?;
        // What only reads may be done twice, and leaves nothing under its token.
        let token = token.filter(|_| writes(operations));
        let containers: Vec<Arc<Container>> =
            operations.iter().map(|operation| operation.container.clone()).collect();
        self.engine.epochs().retry_all_on_stale_epoch(&containers, &mut |now| {
            self.distributed_under(now, operations, token)
        })
    }

    /// The same under one definition of each container.
    fn distributed_under(
        self,
        containers: &[Arc<Container>],
        operations: &[DistributedOperation],
        token: Option<IdempotencyToken>,
    ) -> Result<DistributedAnswers> {
        let fingerprint = Fingerprint::of(operations);
        let mut kept = vec![];
        retry::run(|attempt| {
            let version =
                match token.map(|token| self.token_state(token, fingerprint)).transpose()? {
                    Some(TokenState::Answered(answers)) => {
                        let (lsns, is_repeated) = (BTreeMap::new(), true);
                        let finished = Finished { answers, lsns, is_repeated };
                        // Its ranges may have been split since the request found its containers.
                        let now = self.current(containers);
                        return self.answer(&now, operations, finished).map(Attempt::Done);
                    }
                    Some(TokenState::Free { version }) => version,
                    None => None,
                };
            let locks = lock_all(containers, operations, LockMode::of_attempt(attempt))?;
            let escalation = self.engine.models().escalation_lock(attempt);
            // Under the locks: a model takes over while it holds all of them.
            let state = self.engine.catalog.state();
            let homes = homes(&state, containers, operations)?;
            let options = TransactionOptions {
                path_ids: PathIdAllocation::Immediate,
                claims: Some(UniqueClaims::new(kept.clone())),
                model: None,
                relaxed: false,
            };
            let mut transaction = self.begin_distributed(&homes, options)?;
            transaction.together = locks;
            let answers = run_all(&mut transaction, &homes, operations);
            if let Some(reason) = transaction.tx.doomed() {
                drop((transaction, escalation));
                kept.extend(self.before_retry(reason)?);
                return Ok(Attempt::Again(reason.text()));
            }
            let token = token.map(|token| (token, version, fingerprint));
            match self.finish(&transaction, answers?, token)? {
                Attempt::Done(finished) => {
                    self.answer(containers, operations, finished).map(Attempt::Done)
                }
                Attempt::Again(reason) => Ok(Attempt::Again(reason)),
            }
        })
    }

    /// The containers as the catalog has them now; those that were deleted stay as they were.
    fn current(self, containers: &[Arc<Container>]) -> Vec<Arc<Container>> {
        let now = |container: &Arc<Container>| {
            let database = Address::Rid(container.database_rid());
            let found = self.engine.catalog.container(&database, &Address::Rid(container.rid()));
            found.unwrap_or_else(|_| container.clone())
        };
        containers.iter().map(now).collect()
    }

    /// Begins on snapshots of all shards, taken at one instant.
    fn begin_distributed<'t>(
        self,
        homes: &'t [Home<'t>],
        options: TransactionOptions<'t>,
    ) -> Result<Transaction<'t>>
    where
        Self: 't,
    {
        let mut shards: Vec<ShardId> = homes.iter().map(|home| home.partition.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let view = ReadView::snapshots(self.engine, &shards)?;
        let first = homes.first().ok_or_else(|| Error::internal("there is an operation"))?;
        Ok(Transaction::over(
            self.engine,
            first.container,
            first.partition,
            &first.key,
            view,
            options,
        ))
    }

    /// Commits what was done, or makes sure that what it was refused for holds at one instant.
    fn finish(
        self,
        transaction: &Transaction<'_>,
        mut answers: Vec<BatchAnswer>,
        token: Option<(IdempotencyToken, Option<Lsn>, Fingerprint)>,
    ) -> Result<Attempt<Finished>> {
        let tx = &transaction.tx;
        let outdated = || Ok(Attempt::Again(RetryReason::RefusalOutdated.text()));
        let is_refused = answers.iter().any(|answer| !answer.is_success());
        if is_refused || tx.writes.written() == 0 {
            if !tx.is_of_one_instant() && !tx.validate(None)? {
                return outdated();
            }
            for answer in answers.iter_mut().filter(|answer| is_refused && answer.is_success()) {
                *answer = BatchAnswer::Dependent(answer.charge());
            }
            let lsn = |shard: ShardId| Some((shard.0, tx.view().lsn_of(shard)?));
            let shards = tx.writes.shards().map(|(_, shard)| shard.partition.shard);
            let lsns = shards.filter_map(lsn).collect();
            return Ok(Attempt::Done(Finished { answers, lsns, is_repeated: false }));
        }
        let (mut commit, _) = tx.assemble()?.into_commit();
        if let Some((token, version, fingerprint)) = token {
            commit.parts.push(self.outcome_part(token, version, fingerprint, &answers));
        }
        let shards: Vec<u32> = commit.parts.iter().map(|part| part.shard.0).collect();
        match self.engine.point_writes().commit_all(commit) {
            Ok(committed) => {
                let lsns = shards.into_iter().zip(committed.lsns).collect();
                Ok(Attempt::Done(Finished { answers, lsns, is_repeated: false }))
            }
            Err(StorageError::Conflict(failed)) => Ok(tx.after_conflict(&failed)),
            Err(error) => Err(storage(error)),
        }
    }

    /// The answers with their places. What was answered before is not older than the partitions are now.
    fn answer(
        self,
        containers: &[Arc<Container>],
        operations: &[DistributedOperation],
        finished: Finished,
    ) -> Result<DistributedAnswers> {
        let charge = rounded(finished.answers.iter().map(BatchAnswer::charge).sum());
        let mut answers = Vec::with_capacity(operations.len());
        for ((operation, container), answer) in
            operations.iter().zip(containers).zip(finished.answers)
        {
            let place = match partition_of(container, &operation.partition_key) {
                Err(_) => CommitPosition { partition: 0, lsn: Lsn(0), item_lsn: Lsn(0) },
                Ok(partition) => match finished.lsns.get(&partition.shard.0) {
                    Some(&lsn) if lsn > Lsn(0) => {
                        CommitPosition { partition: partition.id, lsn, item_lsn: lsn }
                    }
                    _ => self.place_now(partition)?,
                },
            };
            answers.push(DistributedAnswer { answer, container: container.clone(), place });
        }
        Ok(DistributedAnswers { answers, charge, is_repeated: finished.is_repeated })
    }
}

fn writes(operations: &[DistributedOperation]) -> bool {
    operations.iter().any(|listed| !matches!(listed.operation.action, BatchAction::Read(_)))
}

fn check_operations(
    operations: &[DistributedOperation],
    token: Option<IdempotencyToken>,
) -> Result<()> {
    if operations.is_empty() {
        return Err(Error::invalid("The transaction has no operations."));
    }
    let (count, limit) = (operations.len(), limits::DISTRIBUTED_OPERATIONS_MAX);
    if count > limit {
        return Err(Error::invalid(format!(
            "The transaction has {count} operations; the limit is {limit}."
        )));
    }
    if token.is_none() && writes(operations) {
        return Err(Error::invalid("A transaction that writes needs an idempotency token."));
    }
    operations.iter().try_for_each(|operation| {
        complete_key(&operation.container, &operation.partition_key).map(drop)
    })
}

/// Takes the stripes of all logical partitions, each once, in the order in which whoever takes several does.
fn lock_all(
    containers: &[Arc<Container>],
    operations: &[DistributedOperation],
    mode: LockMode,
) -> Result<Vec<LockGuard>> {
    let mut stripes = BTreeMap::new();
    for (container, operation) in containers.iter().zip(operations) {
        let key = complete_key(container, &operation.partition_key)?;
        let partition = partition_of(container, &key)?;
        let position = container.partitions.iter().position(|other| other.id == partition.id);
        let key = key.to_canonical();
        let order = (container.number, position, stripe_of(&key));
        stripes.insert(order, partition.locks.stripe(&key));
    }
    Ok(stripes.into_values().map(|stripe| stripe.acquire(mode)).collect())
}

/// Where the operations take place, by one picture of the catalog. If a container has another layout than
/// the one whose locks are held, the work starts over with the new one.
fn homes<'s>(
    state: &'s State,
    containers: &[Arc<Container>],
    operations: &[DistributedOperation],
) -> Result<Vec<Home<'s>>> {
    let home = |(locked, operation): (&Arc<Container>, &DistributedOperation)| {
        let database = state.database(&Address::Rid(locked.database_rid()));
        let database = database.ok_or(Error::OwnerNotFound)?;
        let container = database.container(&Address::Rid(locked.rid()));
        let container = container.ok_or(Error::OwnerNotFound)?;
        if container.shards() != locked.shards() {
            return Err(Error::PartitionGone);
        }
        let key = complete_key(container, &operation.partition_key)?;
        let partition = partition_of(container, &key)?;
        Ok(Home { container, database, partition, key })
    };
    containers.iter().zip(operations).map(home).collect()
}

/// Runs all operations; a refusal is an answer like any other.
fn run_all<'t>(
    transaction: &mut Transaction<'t>,
    homes: &'t [Home<'t>],
    operations: &[DistributedOperation],
) -> Result<Vec<BatchAnswer>> {
    let mut run = BatchRun::default();
    let mut answers = Vec::with_capacity(operations.len());
    for (home, operation) in homes.iter().zip(operations) {
        let model = ModelContext::of(Some(home.database), home.container);
        transaction.turn_to_container(home.container, home.partition, &home.key, model);
        match run.run(transaction, &operation.operation, None) {
            Ok(answer) => answers.push(answer),
            Err(error) if is_refusal(&error) => answers.push(BatchAnswer::Failed(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}
