//! Units of background work and their failures. A *unit* is the expiry sweep of one partition, the index
//! build of one container, one erasure, one rule of a model, or one deferred effect. A unit that fails is
//! retried with exponential backoff and does not delay other units. After repeated failures it is
//! quarantined until an operator retries it, until the state that it works on changes, or until the next
//! start. A unit that waits for an external condition (disk space, items that a model protects) is retried
//! without limit.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orrery_storage::key::{self, Job};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Result, Value, limits};

use crate::background::BackgroundWork;
use crate::catalog::State;
use crate::catalog::resource::object;
use crate::{Container, Database};

/// Kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UnitKind {
    /// Expiry entries follow a new default time to live.
    ExpiryEntries,
    /// The history of versions begins, ends or is trimmed.
    History,
    /// The items of an erased partition key are removed.
    Erasure,
    /// The index is built under a new policy.
    Index,
    /// Expired items of a partition are removed.
    Expiry,
    /// One expired item is removed with all that follows by the model.
    ExpiredItem,
    /// Shards that were split or merged are dropped.
    RetiredShards,
    /// Outcomes of distributed transactions are removed.
    TransactionOutcomes,
    /// Items are brought under a rule of a model.
    ModelBuild,
    /// What follows from a write by a model is done.
    ModelEffects,
    /// A global secondary index follows one shard of its source.
    SecondaryIndex,
    /// Items that an index cannot hold are tried again.
    SecondaryIndexHeld,
    /// The keys of a deleted index are removed.
    FormerIndex,
}

impl UnitKind {
    fn name(self) -> &'static str {
        match self {
            Self::ExpiryEntries => "expiryEntries",
            Self::History => "history",
            Self::Erasure => "erasure",
            Self::Index => "index",
            Self::Expiry => "expiry",
            Self::ExpiredItem => "expiredItem",
            Self::RetiredShards => "retiredShards",
            Self::TransactionOutcomes => "transactionOutcomes",
            Self::ModelBuild => "modelBuild",
            Self::ModelEffects => "modelEffects",
            Self::SecondaryIndex => "secondaryIndex",
            Self::SecondaryIndexHeld => "secondaryIndexItem",
            Self::FormerIndex => "formerIndex",
        }
    }

    /// Whether the worker of global secondary indexes does it.
    pub(crate) fn is_of_secondary_indexes(self) -> bool {
        matches!(self, Self::SecondaryIndex | Self::SecondaryIndexHeld | Self::FormerIndex)
    }
}

/// Names a unit across layouts of its container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitKey {
    pub(crate) database: u32,
    /// Zero if it is about none.
    pub(crate) container: u32,
    pub(crate) kind: UnitKind,
    /// Which of them: a partition, an item key, the key of a note.
    pub(crate) detail: Vec<u8>,
}

impl UnitKey {
    pub(crate) fn account(kind: UnitKind) -> Self {
        Self { database: 0, container: 0, kind, detail: vec![] }
    }

    pub(crate) fn rule(database: &Database, kind: UnitKind, number: u32) -> Self {
        let detail = number.to_be_bytes().to_vec();
        Self { database: database.number, container: 0, kind, detail }
    }

    pub(crate) fn of(container: &Container, kind: UnitKind, detail: &[u8]) -> Self {
        let (database, container) = (container.database, container.number);
        Self { database, container, kind, detail: detail.to_vec() }
    }

    /// The job that it belongs to: whoever holds its lease does the unit.
    pub(crate) fn job(&self) -> Job {
        let (database, container) = (self.database, self.container);
        match self.kind {
            UnitKind::RetiredShards | UnitKind::TransactionOutcomes => Job::Account,
            UnitKind::ModelBuild | UnitKind::ModelEffects => Job::Database(database),
            UnitKind::ExpiryEntries
            | UnitKind::History
            | UnitKind::Erasure
            | UnitKind::Index
            | UnitKind::Expiry
            | UnitKind::ExpiredItem
            | UnitKind::SecondaryIndex
            | UnitKind::SecondaryIndexHeld
            | UnitKind::FormerIndex => Job::Container { database, container },
        }
    }

    /// The number of the model's rule that it is about.
    pub(crate) fn rule_number(&self) -> Option<u32> {
        match self.kind {
            UnitKind::ModelEffects => key::rule_of(&self.detail),
            UnitKind::ModelBuild => {
                self.detail.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
            }
            _ => None,
        }
    }
}

/// Why a step of a unit failed.
#[derive(Clone, Debug)]
pub(crate) struct UnitFailure {
    pub(crate) error: Error,
    /// The item that caused it, for messages.
    pub(crate) item: Option<String>,
}

impl From<Error> for UnitFailure {
    fn from(error: Error) -> Self {
        Self { error, item: None }
    }
}

impl UnitFailure {
    /// A failure caused by one item.
    pub(crate) fn of_item(error: Error, container: &Container, item_key: &[u8]) -> Self {
        let id = key::parse_item(item_key).map(|key| key.id);
        Self { error, item: id.map(|id| format!("item '{id}' in '{}'", container.id)) }
    }

    /// Whether it has an external cause that passes: then the unit is not quarantined.
    pub(crate) fn is_external(&self) -> bool {
        matches!(
            self.error,
            Error::Unavailable(_) | Error::StillReferenced(_) | Error::PartitionGone
        )
    }

    fn reason(&self) -> String {
        match &self.item {
            Some(item) => format!("{item}: {}", self.error),
            None => self.error.to_string(),
        }
    }
}

/// A unit whose last step failed.
#[derive(Clone, Debug)]
struct Failing {
    failures: u32,
    reason: String,
    since_us: u64,
    /// When it is retried; `None` in quarantine.
    retry_us: Option<u64>,
    /// The version of the state that it works on; a change makes it due at once.
    version: u64,
    /// Whether the current pass has seen it.
    seen: bool,
}

impl Failing {
    /// Lets it run in the next pass, with as many attempts as a new one.
    fn make_due(&mut self) {
        (self.failures, self.retry_us) = (0, Some(0));
    }
}

/// A failing unit as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailingUnit {
    pub(crate) key: UnitKey,
    pub(crate) quarantined: bool,
    pub(crate) reason: String,
    failures: u32,
    since_us: u64,
    retry_us: Option<u64>,
}

/// Number of failing units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailingUnits {
    /// Units that are retried automatically.
    pub retrying: usize,
    /// Units that wait for an operator.
    pub quarantined: usize,
}

/// All units whose last step failed.
#[derive(Debug, Default)]
pub(crate) struct Units(Mutex<BTreeMap<UnitKey, Failing>>);

impl Units {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<UnitKey, Failing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a unit is to run now.
    pub(crate) fn is_due(&self, key: &UnitKey, version: u64, now_us: u64) -> bool {
        let mut all = self.lock();
        let Some(unit) = all.get_mut(key) else { return true };
        unit.seen = true;
        if unit.version != version {
            unit.version = version;
            unit.make_due();
        }
        unit.retry_us.is_some_and(|retry_us| retry_us <= now_us)
    }

    /// Records a change of the state that was made by the unit itself.
    pub(crate) fn update_version(&self, key: &UnitKey, version: u64) {
        if let Some(unit) = self.lock().get_mut(key) {
            unit.version = version;
        }
    }

    /// Records a step after which a unit has more to do. It may then find itself done in a way that it does
    /// not report, as when a rule is no longer built; so the pass has to see it again.
    pub(crate) fn progressed(&self, key: &UnitKey) {
        if let Some(unit) = self.lock().get_mut(key) {
            unit.seen = false;
        }
    }

    /// Forgets the failures of a unit that is done.
    pub(crate) fn succeeded(&self, key: &UnitKey) {
        if let Some(unit) = self.lock().remove(key) {
            tracing::info!(
                kind = key.kind.name(),
                failures = unit.failures,
                "background work that had failed succeeded"
            );
        }
    }

    /// Records a failure.
    fn failed(
        &self,
        key: &UnitKey,
        version: u64,
        failure: &UnitFailure,
        now_us: u64,
    ) -> Option<Failing> {
        let mut all = self.lock();
        let full = all.len() >= limits::BACKGROUND_UNITS_KEPT;
        if full && !all.contains_key(key) {
            return None;
        }
        let new = Failing {
            failures: 0,
            reason: String::new(),
            since_us: now_us,
            retry_us: None,
            version,
            seen: true,
        };
        let unit = all.entry(key.clone()).or_insert(new);
        unit.failures = unit.failures.saturating_add(1);
        unit.reason = failure.reason();
        (unit.version, unit.seen) = (version, true);
        let given_up = !failure.is_external() && unit.failures >= limits::BACKGROUND_ATTEMPTS_MAX;
        unit.retry_us = (!given_up).then(|| now_us.saturating_add(backoff_us(unit.failures)));
        Some(unit.clone())
    }

    /// Starts a pass over units: those that it does not see are forgotten when it ends.
    pub(crate) fn begin_pass(&self, is_of_pass: impl Fn(UnitKind) -> bool) {
        for (_, unit) in self.lock().iter_mut().filter(|(key, _)| is_of_pass(key.kind)) {
            unit.seen = false;
        }
    }

    /// Ends a pass that has seen every existing unit.
    pub(crate) fn end_pass(&self, is_of_pass: impl Fn(UnitKind) -> bool) {
        self.lock().retain(|key, unit| unit.seen || !is_of_pass(key.kind));
    }

    /// Makes the units of a database, or all, due at once; returns their number. They stay listed until they
    /// have succeeded: an empty list means that nothing is left to do.
    fn retry(&self, database: Option<u32>) -> usize {
        let mut all = self.lock();
        let is_meant = |key: &UnitKey| database.is_none_or(|number| number == key.database);
        let meant = all.iter_mut().filter(|(key, _)| is_meant(key));
        meant.map(|(_, unit)| unit.make_due()).count()
    }

    pub(crate) fn list(&self) -> Vec<FailingUnit> {
        let shown = |(key, unit): (&UnitKey, &Failing)| FailingUnit {
            key: key.clone(),
            quarantined: unit.retry_us.is_none(),
            reason: unit.reason.clone(),
            failures: unit.failures,
            since_us: unit.since_us,
            retry_us: unit.retry_us,
        };
        self.lock().iter().map(shown).collect()
    }

    fn count(&self) -> FailingUnits {
        let all = self.lock();
        let quarantined = all.values().filter(|unit| unit.retry_us.is_none()).count();
        FailingUnits { retrying: all.len() - quarantined, quarantined }
    }
}

/// Backoff after a number of failures. The first retry is in the next pass: most failures have passed by
/// then.
fn backoff_us(failures: u32) -> u64 {
    let Some(doublings) = failures.checked_sub(2) else { return 0 };
    let first = limits::BACKGROUND_RETRY_MS_FIRST;
    let ms = first.checked_shl(doublings).filter(|ms| ms >> doublings == first);
    ms.unwrap_or(u64::MAX).min(limits::BACKGROUND_RETRY_MS_MAX).saturating_mul(1000)
}

impl BackgroundWork<'_> {
    /// Records and logs a failure.
    pub(crate) fn unit_failed(self, key: &UnitKey, version: u64, failure: &UnitFailure) {
        let Some(unit) =
            self.engine.units.failed(key, version, failure, self.engine.clock.now_us())
        else {
            tracing::error!(
                kind = key.kind.name(),
                reason = failure.reason(),
                "background work failed; too many other units are failing to track it"
            );
            return;
        };
        let state = self.engine.catalog.state();
        let (database, container) = names(&state, key);
        let (database, container) = (database.as_deref(), container.as_deref());
        let (kind, attempt, reason) = (key.kind.name(), unit.failures, unit.reason);
        match unit.retry_us {
            None => tracing::error!(
                kind,
                database,
                container,
                attempt,
                reason,
                "background work is quarantined; remove the cause, then run `orrery tasks retry`"
            ),
            // A concurrent change of the layout is expected.
            Some(_) if failure.error == Error::PartitionGone => {}
            Some(retry_us) => {
                let retry_in_ms = retry_us.saturating_sub(self.engine.clock.now_us()) / 1000;
                tracing::warn!(
                    kind,
                    database,
                    container,
                    attempt,
                    retry_in_ms,
                    reason,
                    "background work failed; it will be retried"
                );
            }
        }
    }

    /// How many units of background work fail.
    pub fn failing_units(self) -> FailingUnits {
        self.engine.units.count()
    }

    /// Failing background work with reasons and times of the next retry.
    pub fn failing_work(self) -> Value {
        let (state, now_us) = (self.engine.catalog.state(), self.engine.clock.now_us());
        let units = self.engine.units.list();
        Value::array(units.iter().map(|unit| to_value(&state, unit, now_us)).collect())
    }

    /// Retries failing background work of a database, or all of it; returns the number of units.
    pub fn retry_failing_work(self, database: Option<&Address>) -> Result<usize> {
        let number = match database {
            Some(address) => Some(self.engine.catalog.database(address)?.number),
            None => None,
        };
        let retried = self.engine.units.retry(number);
        self.engine.model_locks.wake();
        Ok(retried)
    }
}

impl State {
    /// The ids of a database and a container by their numbers.
    pub(crate) fn names_of(
        &self,
        database: u32,
        container: u32,
    ) -> (Option<Box<str>>, Option<Box<str>>) {
        let Some(found) = self.database(&Address::Rid(Rid::Database(database))) else {
            return (None, None);
        };
        let rid = Rid::Container { database, container };
        let container = found.container(&Address::Rid(rid)).map(|found| found.id.clone());
        (Some(found.id.clone()), container)
    }
}

/// The ids of the database and the container of a unit.
fn names(state: &State, key: &UnitKey) -> (Option<Box<str>>, Option<Box<str>>) {
    state.names_of(key.database, key.container)
}

fn to_value(state: &State, unit: &FailingUnit, now_us: u64) -> Value {
    let text = |text: Option<Box<str>>| text.map_or(Value::Undefined, |text| (&*text).into());
    let whole = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
    let (database, container) = names(state, &unit.key);
    let found = state.database(&Address::Rid(Rid::Database(unit.key.database)));
    let model = found.and_then(|database| database.model.as_deref());
    let rule = unit.key.rule_number().zip(model).and_then(|(number, model)| model.path_of(number));
    let retry = unit.retry_us.map(|retry_us| whole(retry_us.saturating_sub(now_us) / 1000));
    Value::object(object([
        ("work", unit.key.kind.name().into()),
        ("database", text(database)),
        ("container", text(container)),
        ("rule", rule.map_or(Value::Undefined, Value::from)),
        ("state", if unit.quarantined { "quarantined" } else { "retrying" }.into()),
        ("failures", whole(u64::from(unit.failures))),
        ("reason", unit.reason.as_str().into()),
        ("failingMs", whole(now_us.saturating_sub(unit.since_us) / 1000)),
        ("retryInMs", retry.unwrap_or(Value::Undefined)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_retried_later_and_later_and_then_no_more() {
        let (units, key) = (Units::default(), UnitKey::account(UnitKind::Index));
        let failure = UnitFailure::from(Error::internal("broken"));
        let (mut now_us, mut waits_ms) = (0, Vec::new());
        while let Some(retry_us) = units.failed(&key, 7, &failure, now_us).and_then(|u| u.retry_us)
        {
            assert!(units.is_due(&key, 7, retry_us));
            assert!(retry_us == now_us || !units.is_due(&key, 7, retry_us - 1));
            waits_ms.push((retry_us - now_us) / 1000);
            now_us = retry_us;
        }
        assert_eq!(waits_ms, [0, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000]);
        assert!(!units.is_due(&key, 7, u64::MAX), "it is quarantined");
        assert_eq!(units.count(), FailingUnits { retrying: 0, quarantined: 1 });
        assert!(units.is_due(&key, 8, now_us), "what it works on has changed");
    }

    #[test]
    fn what_waits_for_something_outside_is_never_given_up() {
        let (units, key) = (Units::default(), UnitKey::account(UnitKind::Expiry));
        let failure = UnitFailure::from(Error::Unavailable("the disk is full".into()));
        for attempt in 1..1000 {
            let unit = units.failed(&key, 0, &failure, 0).expect("it is kept");
            let wait_ms = unit.retry_us.expect("it is retried") / 1000;
            assert!(wait_ms <= limits::BACKGROUND_RETRY_MS_MAX, "attempt {attempt}: {wait_ms}");
        }
        let own = UnitFailure::from(Error::internal("broken"));
        assert_eq!(units.failed(&key, 0, &own, 0).expect("it is kept").retry_us, None);
    }

    #[test]
    fn units_that_a_pass_does_not_meet_are_forgotten_and_others_retried_by_database() {
        let units = Units::default();
        let failure = UnitFailure::from(Error::internal("broken"));
        let key = |database: u32, kind: UnitKind| UnitKey { database, ..UnitKey::account(kind) };
        for key in
            [key(1, UnitKind::Index), key(2, UnitKind::Index), key(2, UnitKind::ModelEffects)]
        {
            units.failed(&key, 0, &failure, 0);
        }
        let is_index = |kind: UnitKind| kind == UnitKind::Index;
        units.begin_pass(is_index);
        assert!(units.is_due(&key(1, UnitKind::Index), 0, 0));
        units.end_pass(is_index);
        assert_eq!(units.count().retrying, 2, "that of another pass stays");
        assert_eq!(units.retry(Some(1)), 1);
        assert_eq!(units.retry(None), 2);
    }

    #[test]
    fn a_retried_unit_is_due_at_once_and_listed_until_it_succeeds() {
        let (units, key) = (Units::default(), UnitKey::account(UnitKind::ModelEffects));
        let failure = UnitFailure::from(Error::internal("broken"));
        while units.failed(&key, 7, &failure, 0).and_then(|unit| unit.retry_us).is_some() {}
        let quarantined = FailingUnits { retrying: 0, quarantined: 1 };
        let retrying = FailingUnits { retrying: 1, quarantined: 0 };
        assert_eq!(units.count(), quarantined);
        assert_eq!((units.retry(None), units.count()), (1, retrying));
        assert!(units.is_due(&key, 7, 0));
        while units.failed(&key, 7, &failure, 0).and_then(|unit| unit.retry_us).is_some() {}
        assert!(units.is_due(&key, 8, 0), "what it works on has changed");
        assert_eq!(units.count(), retrying);
        units.succeeded(&key);
        assert_eq!(units.count(), FailingUnits::default());
    }
}
