//! Outcomes of distributed transactions, by idempotency token. The commit of a transaction also writes its
//! outcome, so both exist or neither does: a client that got no answer sends the same request again, and it
//! is answered without being done twice. They are kept in the system shard, which no split or merge
//! moves, for a bounded time; background work removes them.

use orrery_storage::key;
use orrery_storage::{Commit, Part, Precondition, Put, ReadAt, Space, StorageError};
use orrery_types::{Error, Etag, Lsn, Result, Value, limits};
use xxhash_rust::xxh3::Xxh3;

use super::Transactions;
use super::batch::{BatchAction, BatchAnswer};
use super::distributed::DistributedOperation;
use crate::background::units::{UnitFailure, UnitKey, UnitKind};
use crate::background::{BATCHES_PER_STEP, BackgroundPass, UnitProgress};
use crate::catalog::resource::{Stamp, object};
use crate::catalog::{SYSTEM_EPOCH, SYSTEM_SHARD};
use crate::error::storage;
use crate::item::read::{CommitPosition, ItemRead, Outcome, Written};

/// The name that a client gives a transaction, a GUID; it stays the same when the request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyToken(pub [u8; 16]);

/// What a request says, by which a token that is used for another one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    /// Everything that decides what the transaction does. Session tokens are not part of it: a client may
    /// know more when it repeats a request.
    pub(crate) fn of(operations: &[DistributedOperation]) -> Self {
        let mut hasher = Xxh3::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&bytes.len().to_be_bytes());
            hasher.update(bytes);
        };
        for operation in operations {
            let (kind, body) = match &operation.operation.action {
                BatchAction::Create(body) => ("create", Some(body)),
                BatchAction::Upsert(body) => ("upsert", Some(body)),
                BatchAction::Read(_) => ("read", None),
                BatchAction::Replace(_, body) => ("replace", Some(body)),
                BatchAction::Patch(_, body) => ("patch", Some(body)),
                BatchAction::Delete(_) => ("delete", None),
            };
            let conditions = &operation.operation.conditions;
            let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
            add(operation.container.rid_text().as_bytes());
            add(kind.as_bytes());
            add(&operation.partition_key.to_canonical());
            add(format!("{:?}", operation.operation.action.item()).as_bytes());
            add(text(&conditions.if_match).as_bytes());
            add(text(&conditions.if_none_match).as_bytes());
            add(body.map_or(&[][..], |body| body));
        }
        Self(hasher.digest128())
    }
}

/// What is kept of a transaction.
pub(crate) struct StoredOutcome {
    fingerprint: Fingerprint,
    expires_s: u64,
    answers: Vec<BatchAnswer>,
}

impl StoredOutcome {
    fn encode(&self) -> Vec<u8> {
        let answer = |answer: &BatchAnswer| {
            let (kind, stamp, charge) = match answer {
                BatchAnswer::Written(written) => {
                    let kind = match written.outcome {
                        Outcome::Created => "created",
                        Outcome::Replaced => "replaced",
                        Outcome::Deleted => "deleted",
                    };
                    (kind, written.stamp, written.charge)
                }
                BatchAnswer::NotModified(item) => ("notModified", item.stamp, item.charge),
                BatchAnswer::Read(item) => ("read", item.stamp, item.charge),
                BatchAnswer::Failed(_) | BatchAnswer::Dependent(_) => return Value::Null,
            };
            let fields = [
                ("kind", Value::from(kind)),
                ("node", Value::from(i64::from(stamp.etag.node))),
                ("stamp", Value::from(format!("{:x}", stamp.etag.stamp))),
                ("ts", Value::from(format!("{:x}", stamp.ts))),
                ("charge", Value::from(charge)),
            ];
            Value::object(object(fields))
        };
        let fields = [
            ("fingerprint", Value::from(format!("{:x}", self.fingerprint.0))),
            ("expires", Value::from(format!("{:x}", self.expires_s))),
            ("answers", Value::array(self.answers.iter().map(answer).collect())),
        ];
        Value::object(object(fields)).to_json().into_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupt = || Error::internal("the outcome of a transaction is corrupt");
        let value = Value::parse(bytes).map_err(|_| corrupt())?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(corrupt);
        let number = |value: &Value| u64::from_str_radix(&text(value)?, 16).map_err(|_| corrupt());
        let fingerprint = u128::from_str_radix(&text(value.get("fingerprint"))?, 16);
        let stored = value.get("answers").as_array().ok_or_else(corrupt)?;
        let mut answers = Vec::with_capacity(stored.len());
        for answer in stored {
            let node = answer.get("node").as_i64().and_then(|node| u32::try_from(node).ok());
            let etag =
                Etag { node: node.ok_or_else(corrupt)?, stamp: number(answer.get("stamp"))? };
            let stamp = Stamp { etag, ts: number(answer.get("ts"))? };
            let charge = answer.get("charge").as_number().ok_or_else(corrupt)?.as_f64();
            answers.push(stored_answer(&text(answer.get("kind"))?, stamp, charge)?);
        }
        let fingerprint = Fingerprint(fingerprint.map_err(|_| corrupt())?);
        Ok(Self { fingerprint, expires_s: number(value.get("expires"))?, answers })
    }
}

/// An answer without the item and its place, which are not kept.
fn stored_answer(kind: &str, stamp: Stamp, charge: f64) -> Result<BatchAnswer> {
    let place = CommitPosition { partition: 0, lsn: Lsn(0), item_lsn: Lsn(0) };
    let body = bytes::Bytes::new();
    let outcome = match kind {
        "created" => Outcome::Created,
        "replaced" => Outcome::Replaced,
        "deleted" => Outcome::Deleted,
        "read" => return Ok(BatchAnswer::Read(ItemRead { body, stamp, place, charge })),
        "notModified" => {
            return Ok(BatchAnswer::NotModified(ItemRead { body, stamp, place, charge }));
        }
        _ => return Err(Error::internal("the outcome of a transaction is of an unknown kind")),
    };
    Ok(BatchAnswer::Written(Written { outcome, body, stamp, place, charge, warnings: vec![] }))
}

/// What is stored under a token: the answers of the transaction, or the version under which its outcome can
/// be written.
pub(crate) enum TokenState {
    Answered(Vec<BatchAnswer>),
    Free { version: Option<Lsn> },
}

impl Transactions<'_> {
    /// What is stored under a token. One that was used for another request is refused.
    pub(super) fn token_state(
        self,
        token: IdempotencyToken,
        fingerprint: Fingerprint,
    ) -> Result<TokenState> {
        let key = key::transaction_outcome(&token.0);
        let found = self.engine.store.get(SYSTEM_SHARD, Space::Meta, &key).map_err(storage)?.1;
        let Some(found) = found else { return Ok(TokenState::Free { version: None }) };
        let stored = StoredOutcome::decode(&found.bytes)?;
        if stored.expires_s <= self.engine.clock.now_s() {
            return Ok(TokenState::Free { version: Some(found.version) });
        }
        if stored.fingerprint != fingerprint {
            return Err(Error::invalid(
                "The idempotency token was used for another transaction. Every transaction needs a \
                 token of its own.",
            ));
        }
        Ok(TokenState::Answered(stored.answers))
    }

    /// The part of a transaction's commit that keeps its outcome.
    pub(super) fn outcome_part(
        self,
        token: IdempotencyToken,
        version: Option<Lsn>,
        fingerprint: Fingerprint,
        answers: &[BatchAnswer],
    ) -> Part {
        let expires_s =
            self.engine.clock.now_s().saturating_add(limits::TRANSACTION_OUTCOME_KEPT_S);
        let outcome = StoredOutcome { fingerprint, expires_s, answers: answers.to_vec() };
        let key = key::transaction_outcome(&token.0);
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        part.preconditions.push(Precondition::unchanged(Space::Meta, key.clone(), version));
        part.puts.push(Put { space: Space::Meta, key, value: outcome.encode() });
        let expiry = key::outcome_expiry(expires_s, &token.0);
        part.puts.push(Put { space: Space::Meta, key: expiry, value: vec![] });
        part
    }

    /// Removes outcomes whose time is over.
    pub(crate) fn remove_outcomes(self, run: &mut BackgroundPass<'_>) {
        let unit = UnitKey::account(UnitKind::TransactionOutcomes);
        self.engine.background().run_unit(run, &unit, 0, &mut |run| {
            for _ in 0..BATCHES_PER_STEP {
                if (run.stop)() {
                    return Ok(UnitProgress::Unfinished);
                }
                if self.remove_some_outcomes()? < limits::OUTCOMES_REMOVED_MAX {
                    return Ok(UnitProgress::Done);
                }
            }
            Ok(UnitProgress::Unfinished)
        });
    }

    /// Removes outcomes in one commit; how many expiry entries it has looked at.
    fn remove_some_outcomes(self) -> std::result::Result<usize, UnitFailure> {
        let now_s = self.engine.clock.now_s();
        let snapshot = self.engine.store.snapshot(SYSTEM_SHARD, ReadAt::Latest);
        let snapshot = snapshot.map_err(storage)?;
        let bounds = key::outcomes_expired_at(now_s);
        let scan = bounds.scan(Space::Meta, limits::OUTCOMES_REMOVED_MAX, usize::MAX);
        let expired = snapshot.scan(&scan).map_err(storage)?;
        if expired.is_empty() {
            return Ok(0);
        }
        let mut part = Part::new(SYSTEM_SHARD, SYSTEM_EPOCH);
        for entry in &expired {
            let token = key::parse_outcome_expiry(&entry.key);
            let token =
                token.ok_or_else(|| Error::internal("an expiry of an outcome is corrupt"))?;
            part.deletes.push((Space::Meta, entry.key.clone()));
            let key = key::transaction_outcome(&token);
            let Some(stored) = snapshot.get(Space::Meta, &key).map_err(storage)? else { continue };
            // The token may have been used again since.
            if StoredOutcome::decode(&stored.bytes)?.expires_s <= now_s {
                let version = Some(stored.version);
                part.preconditions.push(Precondition::unchanged(Space::Meta, key.clone(), version));
                part.deletes.push((Space::Meta, key));
            }
        }
        match self.engine.store.commit(Commit::new(vec![part])) {
            Ok(_) => Ok(expired.len()),
            // A token was used again; the next pass looks anew.
            Err(StorageError::Conflict(_)) => Ok(0),
            Err(error) => Err(storage(error).into()),
        }
    }
}
