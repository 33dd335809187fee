//! Several operations in one request. A transactional batch is one transaction of one logical
//! partition: all of it happens, or the failing operation is named and nothing happens. Bulk is
//! many operations that succeed and fail each for itself; those of one logical partition share a
//! transaction, and so a sync, and what one is refused does not touch the others.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::charge::{REFUSED, rounded};
use crate::item_body::ItemBody;
use crate::items::{ItemRead, Place, Written, complete_key, key_missing};
use crate::partition::PhysicalPartition;
use crate::patch::Patch;
use crate::resource::Preconditions;
use crate::transaction::Transaction;
use crate::{Container, Engine};

/// One operation of a batch or of bulk.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What to do.
    pub action: Action,
    /// The key it names for itself.
    pub partition_key: Option<PartitionKey>,
    /// Its own etag conditions.
    pub conditions: Preconditions,
    /// Whether its result shall hold the item.
    pub content: Content,
}

/// What an operation does. Bodies are JSON text, read when their turn comes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Action {
    Create(Bytes),
    Upsert(Bytes),
    Read(Address),
    Replace(Address, Bytes),
    Patch(Address, Bytes),
    Delete(Address),
}

/// Whether a result holds the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Content {
    Full,
    Minimal,
}

/// What came of an operation. Where no content was asked for, the body is empty.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The item.
    Read(ItemRead),
    /// The item has the etag that the client has already.
    NotModified(ItemRead),
    /// The item as it was written.
    Written(Written),
    /// It was refused.
    Failed(Error),
    /// It was undone, or never begun, because another one failed.
    Dependent,
}

impl Answer {
    /// Whether it did what was asked.
    pub fn is_success(&self) -> bool {
        !matches!(self, Self::Failed(_) | Self::Dependent)
    }

    /// Its own share of the charge.
    pub fn charge(&self) -> f64 {
        match self {
            Self::Read(item) | Self::NotModified(item) => item.charge,
            Self::Written(item) => item.charge,
            Self::Failed(_) => REFUSED,
            Self::Dependent => 0.0,
        }
    }
}

/// What came of all operations.
#[derive(Clone, Debug)]
pub struct Answers {
    /// One for each operation, in their order.
    pub answers: Vec<Answer>,
    /// The physical partitions that were touched, each once.
    pub places: Vec<Place>,
    /// The charge of everything that was done, or tried.
    pub charge: f64,
}

/// What bulk does after an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OnError {
    Continue,
    Stop,
}

impl Engine {
    /// Runs all operations in one transaction.
    pub fn batch(
        &self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        operations: &[Operation],
    ) -> Result<Answers> {
        check_count(operations)?;
        let key = partition_key.ok_or_else(key_missing)?;
        let mut failed = None;
        let transacted = self.transact(container, key, &mut |transaction| {
            failed = None;
            let mut run = Run::default();
            let mut answers = Vec::with_capacity(operations.len());
            for (at, operation) in operations.iter().enumerate() {
                let answer = run.run(transaction, operation);
                let answer = answer.inspect_err(|error| {
                    failed = Some((at, error.clone(), transaction.charge()));
                })?;
                answers.push(answer);
            }
            Ok(answers)
        });
        match (transacted, failed) {
            (Ok(done), _) => {
                let (answers, charge) = (done.value, done.charge);
                Ok(Answers { answers, places: vec![done.place], charge: rounded(charge) })
            }
            (Err(error), Some((at, of_operation, charge)))
                if error == of_operation && is_refusal(&error) =>
            {
                let mut answers = vec![Answer::Dependent; operations.len()];
                answers[at] = Answer::Failed(error);
                let place = self.place_now(partition_of(container, key)?)?;
                let charge = rounded(charge + REFUSED);
                Ok(Answers { answers, places: vec![place], charge })
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Runs each operation for itself. `partition` is the physical one that the client means them
    /// for; `partition_key` stands for the keys that operations do not name.
    pub fn bulk(
        &self,
        container: &Container,
        partition: Option<&PhysicalPartition>,
        partition_key: Option<&PartitionKey>,
        operations: &[Operation],
        on_error: OnError,
    ) -> Result<Answers> {
        check_count(operations)?;
        let mut tally =
            Tally { answers: vec![Answer::Dependent; operations.len()], places: vec![] };
        let key = |at: usize| key_of(container, partition, partition_key, &operations[at]);
        match on_error {
            OnError::Continue => {
                let groups = grouped(operations.len(), &key, &mut tally);
                self.run_groups(container, operations, &groups, &mut tally);
            }
            OnError::Stop => {
                for at in 0..operations.len() {
                    match key(at) {
                        Ok(key) => {
                            let group = Group { key, operations: vec![at] };
                            tally.add(self.run_group(container, operations, &group));
                        }
                        Err(error) => tally.answers[at] = Answer::Failed(error),
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
        let charge = rounded(tally.answers.iter().map(Answer::charge).sum());
        Ok(Answers { answers: tally.answers, places: tally.places, charge })
    }

    /// Runs groups on a few threads, so that their commits share syncs.
    fn run_groups(
        &self,
        container: &Container,
        operations: &[Operation],
        groups: &[Group],
        tally: &mut Tally,
    ) {
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
    fn run_group(&self, container: &Container, operations: &[Operation], group: &Group) -> Done {
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
                    let failed = rest.iter().map(|at| (*at, Answer::Failed(error.clone())));
                    done.answers.extend(failed);
                }
            }
        }
        done
    }

    /// A partition as it is now, for the session of a client that changed nothing.
    fn place_now(&self, partition: &PhysicalPartition) -> Result<Place> {
        let lsn = self.shard_lsn(partition)?;
        Ok(Place { partition: partition.id, lsn, item_lsn: lsn })
    }
}

/// Operations of one logical partition, by their places in the request.
struct Group {
    key: PartitionKey,
    operations: Vec<usize>,
}

/// The operations by logical partition; those that name none are answered.
fn grouped(
    operations: usize,
    key: &dyn Fn(usize) -> Result<PartitionKey>,
    tally: &mut Tally,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for at in 0..operations {
        match key(at) {
            Ok(key) => match groups.iter_mut().find(|group| group.key == key) {
                Some(group) => group.operations.push(at),
                None => groups.push(Group { key, operations: vec![at] }),
            },
            Err(error) => tally.answers[at] = Answer::Failed(error),
        }
    }
    groups
}

/// What came of a group.
struct Done {
    answers: Vec<(usize, Answer)>,
    place: Option<Place>,
}

/// What came of the groups so far.
struct Tally {
    answers: Vec<Answer>,
    places: Vec<Place>,
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

/// Runs operations until the transaction is full; a refusal is an answer like any other.
fn run_some(
    transaction: &mut Transaction<'_>,
    operations: &[Operation],
    which: &[usize],
) -> Result<Vec<(usize, Answer)>> {
    let mut run = Run::default();
    let mut answers = Vec::with_capacity(which.len());
    for at in which {
        let answer = match run.run(transaction, &operations[*at]) {
            Ok(answer) => answer,
            Err(Error::TransactionTooLarge { .. }) => break,
            Err(error) if is_refusal(&error) => Answer::Failed(error),
            Err(error) => return Err(error),
        };
        answers.push((*at, answer));
    }
    Ok(answers)
}

/// What a run of operations holds in memory, which is bounded.
#[derive(Default)]
struct Run {
    sent_bytes: usize,
    written_bytes: usize,
}

impl Run {
    fn run(&mut self, transaction: &mut Transaction<'_>, operation: &Operation) -> Result<Answer> {
        if let Some(own) = &operation.partition_key
            && complete_key(transaction.container(), own)? != *transaction.partition_key()
        {
            return Err(Error::PartitionKeyMismatch(
                "The partition key of the operation is not the one of its batch.".into(),
            ));
        }
        self.check_size(&operation.action)?;
        let conditions = &operation.conditions;
        let mut answer = match &operation.action {
            Action::Read(item) => {
                let read = transaction.read(item)?;
                conditions.check_read(read.stamp)?;
                if conditions.unmodified(read.stamp) {
                    return Ok(Answer::NotModified(ItemRead { body: Bytes::new(), ..read }));
                }
                Answer::Read(read)
            }
            Action::Create(body) => Answer::Written(transaction.create(body)?),
            Action::Upsert(body) => Answer::Written(transaction.upsert(body, conditions)?),
            Action::Replace(item, body) => {
                Answer::Written(transaction.replace(item, body, conditions)?)
            }
            Action::Patch(item, body) => {
                let patch = Value::parse(body)
                    .map_err(|e| Error::invalid(format!("The patch is not valid JSON: {e}.")))?;
                Answer::Written(transaction.patch(item, &Patch::parse(&patch)?, conditions)?)
            }
            Action::Delete(item) => Answer::Written(transaction.delete(item, conditions)?),
        };
        self.count(&mut answer, operation.content);
        Ok(answer)
    }

    /// An item that comes out of the store may be large whatever the size of the request.
    fn check_size(&self, action: &Action) -> Result<()> {
        let reads = matches!(action, Action::Read(_) | Action::Patch(..));
        let (size, limit) = (self.sent_bytes, limits::BATCH_RESPONSE_BYTES_MAX);
        if reads && size > limit {
            return Err(Error::ResponseTooLarge { size, limit });
        }
        let (size, limit) = (self.written_bytes, limits::BATCH_WRITTEN_BYTES_MAX);
        if !matches!(action, Action::Read(_)) && size > limit {
            return Err(Error::TransactionTooLarge { size, limit });
        }
        Ok(())
    }

    fn count(&mut self, answer: &mut Answer, content: Content) {
        let body = match answer {
            Answer::Read(item) => &mut item.body,
            Answer::Written(item) => {
                self.written_bytes += item.body.len();
                &mut item.body
            }
            Answer::NotModified(_) | Answer::Failed(_) | Answer::Dependent => return,
        };
        match content {
            Content::Full => self.sent_bytes += body.len(),
            Content::Minimal => *body = Bytes::new(),
        }
    }
}

/// The logical partition that an operation of bulk is about.
fn key_of(
    container: &Container,
    partition: Option<&PhysicalPartition>,
    given: Option<&PartitionKey>,
    operation: &Operation,
) -> Result<PartitionKey> {
    let key = match (&operation.partition_key, given, &operation.action) {
        (Some(own), Some(given), _) => {
            let own = complete_key(container, own)?;
            if own != complete_key(container, given)? {
                return Err(Error::PartitionKeyMismatch(
                    "The partition key of the operation is not the one of the request.".into(),
                ));
            }
            own
        }
        (Some(key), None, _) | (None, Some(key), _) => complete_key(container, key)?,
        (None, None, Action::Create(body) | Action::Upsert(body) | Action::Replace(_, body)) => {
            ItemBody::parse(container, body)?.key
        }
        (None, None, Action::Read(_) | Action::Patch(..) | Action::Delete(_)) => {
            return Err(key_missing());
        }
    };
    let found = partition_of(container, &key)?;
    match partition {
        Some(named) if named.id != found.id => Err(Error::PartitionGone),
        _ => Ok(key),
    }
}

fn partition_of<'c>(container: &'c Container, key: &PartitionKey) -> Result<&'c PhysicalPartition> {
    let definition = &container.definition.partition_key;
    container.partition_of(&definition.effective(&complete_key(container, key)?))
}

fn check_count(operations: &[Operation]) -> Result<()> {
    if operations.is_empty() {
        return Err(Error::invalid("Batch request has no operations."));
    }
    if operations.len() > limits::BATCH_OPERATIONS_MAX {
        return Err(Error::invalid(format!(
            "Batch request has more operations than what is supported. The limit is {}.",
            limits::BATCH_OPERATIONS_MAX
        )));
    }
    Ok(())
}

/// Whether an error is about the operation, rather than about the server or the whole transaction.
pub(crate) fn is_refusal(error: &Error) -> bool {
    !error.retryable() && !matches!(error, Error::Internal(_) | Error::PartitionGone)
}
