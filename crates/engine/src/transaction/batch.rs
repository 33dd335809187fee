//! Several operations in one request. A transactional batch is one transaction of one logical
//! partition: all of it happens, or the failing operation is named and nothing happens. Bulk, whose
//! operations succeed and fail each for itself, is in `bulk`.

use bytes::Bytes;
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::Container;
use crate::catalog::resource::Preconditions;
use crate::item::address::{complete_key, key_missing};
use crate::item::operation::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::patch::Patch;
use crate::item::read::{CommitPosition, ItemRead, Written};
use crate::partition::PhysicalPartition;
use crate::throughput::charge::{REFUSED, rounded};
use crate::transaction::Transaction;
use crate::transaction::Transactions;

/// One operation of a batch or of bulk.
#[derive(Clone, Debug)]
pub struct BatchOperation {
    /// What to do.
    pub action: BatchAction,
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
pub enum BatchAction {
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
pub enum BatchAnswer {
    /// The item.
    Read(ItemRead),
    /// The item has the etag that the client has already.
    NotModified(ItemRead),
    /// The item as it was written.
    Written(Written),
    /// It was refused.
    Failed(Error),
    /// It was undone, or never begun, because another one failed; and what it had cost.
    Dependent(f64),
}

impl BatchAnswer {
    /// Whether it did what was asked.
    pub fn is_success(&self) -> bool {
        !matches!(self, Self::Failed(_) | Self::Dependent(_))
    }

    /// Its own share of the charge.
    pub fn charge(&self) -> f64 {
        match self {
            Self::Read(item) | Self::NotModified(item) => item.charge,
            Self::Written(item) => item.charge,
            Self::Failed(_) => REFUSED,
            Self::Dependent(charge) => *charge,
        }
    }
}

/// What came of all operations.
#[derive(Clone, Debug)]
pub struct Answers {
    /// One for each operation, in their order.
    pub answers: Vec<BatchAnswer>,
    /// The physical partitions that were touched, each once.
    pub places: Vec<CommitPosition>,
    /// The charge of everything that was done, or tried.
    pub charge: f64,
}

impl Answers {
    /// Those of one partition. They cost together what each of them cost.
    fn of(answers: Vec<BatchAnswer>, place: CommitPosition) -> Self {
        let charge = rounded(answers.iter().map(BatchAnswer::charge).sum());
        Self { answers, places: vec![place], charge }
    }
}

impl Transactions<'_> {
    /// Runs all operations in one transaction.
    pub fn batch(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        operations: &[BatchOperation],
    ) -> Result<Answers> {
        check_count(operations)?;
        let key = partition_key.ok_or_else(key_missing)?;
        let mut failed = None;
        let transacted = self.transact(container, key, &mut |transaction| {
            failed = None;
            let mut run = BatchRun::default();
            let mut answers = Vec::with_capacity(operations.len());
            for operation in operations {
                match run.run(transaction, operation, None) {
                    Ok(answer) => answers.push(answer),
                    Err(error) => {
                        let undone: Vec<f64> = answers.iter().map(BatchAnswer::charge).collect();
                        failed = Some((undone, error.clone()));
                        return Err(error);
                    }
                }
            }
            // What later operations changed by a model has the etag that was answered before.
            for answer in &mut answers {
                if let BatchAnswer::Written(written) = answer
                    && !written.body.is_empty()
                    && let Some(text) = transaction.latest_text(written.stamp)
                {
                    written.body = text;
                }
            }
            Ok(answers)
        });
        match (transacted, failed) {
            (Ok(done), _) => Ok(Answers::of(done.value, done.place)),
            (Err(error), Some((undone, of_operation)))
                if error == of_operation && is_refusal(&error) =>
            {
                let place = self.place_now(partition_of(container, key)?)?;
                let mut answers: Vec<_> = undone.into_iter().map(BatchAnswer::Dependent).collect();
                answers.push(BatchAnswer::Failed(error));
                answers.resize(operations.len(), BatchAnswer::Dependent(0.0));
                Ok(Answers::of(answers, place))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// A partition as it is now, for the session of a client that changed nothing.
    pub(crate) fn place_now(self, partition: &PhysicalPartition) -> Result<CommitPosition> {
        let lsn = self.engine.sessions().shard_lsn(partition)?;
        Ok(CommitPosition { partition: partition.id, lsn, item_lsn: lsn })
    }
}

/// What a run of operations holds in memory, which is bounded.
#[derive(Default)]
pub(crate) struct BatchRun {
    sent_bytes: usize,
    written_bytes: usize,
}

impl BatchRun {
    /// Runs one operation. `body` is the item that it brings, if it was read already.
    pub(crate) fn run(
        &mut self,
        transaction: &mut Transaction<'_>,
        operation: &BatchOperation,
        body: Option<&ItemBody>,
    ) -> Result<BatchAnswer> {
        let container = transaction.container();
        let read = |text: &Bytes| match body {
            Some(body) => Ok(body.clone()),
            None => ItemBody::parse(container, text),
        };
        if let Some(own) = &operation.partition_key
            && complete_key(container, own)? != *transaction.partition_key()
        {
            return Err(Error::PartitionKeyMismatch(
                "The partition key of the operation is not the one of its batch.".into(),
            ));
        }
        self.check_size(&operation.action)?;
        let conditions = &operation.conditions;
        let mut answer = match &operation.action {
            BatchAction::Read(item) => {
                let read = transaction.read(item)?;
                conditions.check_read(read.stamp)?;
                if conditions.unmodified(read.stamp) {
                    return Ok(BatchAnswer::NotModified(ItemRead { body: Bytes::new(), ..read }));
                }
                BatchAnswer::Read(read)
            }
            BatchAction::Create(text) => {
                BatchAnswer::Written(transaction.write(&ItemWrite::Create(read(text)?))?)
            }
            BatchAction::Upsert(text) => {
                let upsert = ItemWrite::Upsert(read(text)?, conditions.clone());
                BatchAnswer::Written(transaction.write(&upsert)?)
            }
            BatchAction::Replace(item, text) => {
                let replace = ItemWrite::Replace(item.clone(), read(text)?, conditions.clone());
                BatchAnswer::Written(transaction.write(&replace)?)
            }
            BatchAction::Patch(item, text) => {
                let patch = Value::parse(text)
                    .map_err(|e| Error::invalid(format!("The patch is not valid JSON: {e}.")))?;
                BatchAnswer::Written(transaction.patch(item, &Patch::parse(&patch)?, conditions)?)
            }
            BatchAction::Delete(item) => {
                BatchAnswer::Written(transaction.delete(item, conditions)?)
            }
        };
        self.count(&mut answer, operation.content);
        Ok(answer)
    }

    /// An item that comes out of the store may be large whatever the size of the request.
    fn check_size(&self, action: &BatchAction) -> Result<()> {
        let reads = matches!(action, BatchAction::Read(_) | BatchAction::Patch(..));
        let (size, limit) = (self.sent_bytes, limits::BATCH_RESPONSE_BYTES_MAX);
        if reads && size > limit {
            return Err(Error::ResponseTooLarge { size, limit });
        }
        let (size, limit) = (self.written_bytes, limits::BATCH_WRITTEN_BYTES_MAX);
        if !matches!(action, BatchAction::Read(_)) && size > limit {
            return Err(Error::TransactionTooLarge { size, limit });
        }
        Ok(())
    }

    fn count(&mut self, answer: &mut BatchAnswer, content: Content) {
        let body = match answer {
            BatchAnswer::Read(item) => &mut item.body,
            BatchAnswer::Written(item) => {
                self.written_bytes += item.body.len();
                &mut item.body
            }
            BatchAnswer::NotModified(_) | BatchAnswer::Failed(_) | BatchAnswer::Dependent(_) => {
                return;
            }
        };
        match content {
            Content::Full => self.sent_bytes += body.len(),
            Content::Minimal => *body = Bytes::new(),
        }
    }
}

pub(crate) fn partition_of<'c>(
    container: &'c Container,
    key: &PartitionKey,
) -> Result<&'c PhysicalPartition> {
    let definition = &container.definition.partition_key;
    container.partition_of(&definition.effective(&complete_key(container, key)?))
}

pub(crate) fn check_count(operations: &[BatchOperation]) -> Result<()> {
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
