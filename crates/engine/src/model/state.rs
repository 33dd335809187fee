//! What a model says of itself: for each rule how far it holds, how far it is built, what breaks it,
//! and what is still to follow by it.

use orrery_modeling::RelationRule;
use orrery_storage::{ReadAt, Space, key};
use orrery_types::{Result, Value, limits};

use super::build::left_out;
use super::{ModelContext, Stage, StoredModel};
use crate::Database;
use crate::background::units::FailingUnit;
use crate::catalog::resource::object;
use crate::error::storage;
use crate::model::Models;
use crate::transaction::reads::ReadView;
use crate::transaction::state::{TransactionOptions, TransactionState};

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Verified => "verified",
            Self::Enforced => "enforced",
        }
    }
}

/// Violations that are counted.
const VIOLATIONS_MAX: usize = 1000;

impl Models<'_> {
    /// Each rule of a model and how far it holds.
    pub(crate) fn state(self, database: &Database, model: &StoredModel) -> Result<Value> {
        let (lags, now_us) =
            (self.engine.deferred_effects().lags(database, model)?, self.engine.clock.now_us());
        let failing = self.engine.units.list();
        let failing: Vec<&FailingUnit> =
            failing.iter().filter(|unit| unit.key.database == database.number).collect();
        let rule =
            |path: String, state: &str| object([("rule", path.into()), ("state", state.into())]);
        let enforced = Stage::Enforced.name();
        let types = model.rules.types.iter();
        let mut all: Vec<Value> = types
            .map(|t| Value::object(rule(format!("/types/{}", t.def.name), enforced)))
            .collect();
        let relations = model.rules.relations.len();
        let stage = |index: usize| model.stages.get(index).map_or(enforced, |stage| stage.name());
        for index in 0..relations {
            let mut state = rule(format!("/relations/{index}"), stage(index));
            self.add_progress(database, model, index, &mut state)?;
            let lag = lags.get(index).copied().unwrap_or_default();
            if let Some(since_us) = lag.since_us {
                state.set("pending", count(lag.pending));
                let lag_ms = now_us.saturating_sub(since_us) / 1000;
                state.set("lagMs", Value::from(i64::try_from(lag_ms).unwrap_or(i64::MAX)));
            }
            add_failing(&failing, model.numbers.get(index).copied(), &mut state);
            all.push(Value::object(state));
        }
        for (index, aggregate) in model.rules.aggregates.iter().enumerate() {
            let state = rule(format!("/aggregates/{index}"), stage(aggregate.relation));
            all.push(Value::object(state));
        }
        for index in 0..model.rules.buckets.len() {
            let mut state = rule(format!("/buckets/{index}"), stage(relations + index));
            self.add_progress(database, model, relations + index, &mut state)?;
            add_failing(&failing, model.numbers.get(relations + index).copied(), &mut state);
            all.push(Value::object(state));
        }
        Ok(Value::array(all))
    }

    fn add_progress(
        self,
        database: &Database,
        model: &StoredModel,
        index: usize,
        state: &mut orrery_types::Object,
    ) -> Result<()> {
        if !model.is_building(index) {
            return Ok(());
        }
        let scope = ModelContext { database, model };
        state
            .set("progress", Value::from(self.engine.model_builds().build_progress(scope, index)?));
        let (violations, samples) = self.violations(scope, index)?;
        if violations > 0 {
            state.set("violations", count(violations));
            state.set("samples", Value::array(samples.into_iter().map(Value::from).collect()));
        }
        Ok(())
    }

    /// How many items break a rule that is being built, and what is wrong with some.
    fn violations(self, scope: ModelContext<'_>, index: usize) -> Result<(usize, Vec<String>)> {
        let (mut found, mut samples) = (0, Vec::new());
        let rule: Option<&RelationRule> = scope.model.rules.relations.get(index).map(|r| &**r);
        let bounds = key::violations_of(scope.model.numbers[index]);
        for container in scope.database.containers() {
            for partition in &container.partitions {
                let snapshot = self.engine.store.snapshot(partition.shard, ReadAt::Latest);
                let scan = bounds.scan(Space::Meta, VIOLATIONS_MAX, usize::MAX);
                let notes = snapshot.map_err(storage)?.scan(&scan).map_err(storage)?;
                found += notes.len();
                for note in notes {
                    if samples.len() >= limits::MODEL_HOLDERS_MAX {
                        break;
                    }
                    let view = ReadView::latest(self.engine);
                    let options = TransactionOptions::default();
                    let mut tx =
                        TransactionState::new(self.engine, container, partition, view, options);
                    let item = key::parse_violation(&note.key).unwrap_or_default();
                    let Some(address) = tx.address_of_key(container, item)? else { continue };
                    let mut model = tx.under(scope);
                    let complaints = match (left_out(&note.value.bytes), rule) {
                        (Some(reason), _) => vec![reason.to_owned()],
                        (None, Some(rule)) => model.complaints_of(index, rule, &address)?,
                        (None, None) => model.complaints_of_arrays(&address)?,
                    };
                    samples.extend(complaints.into_iter().take(1).map(|complaint| {
                        format!("item '{}' in '{}': {complaint}", address.id(), container.id)
                    }));
                }
            }
        }
        Ok((found, samples))
    }
}

/// Background work of a rule that fails: how much of it is tried again, how much is not, and why.
fn add_failing(failing: &[&FailingUnit], number: Option<u32>, state: &mut orrery_types::Object) {
    let is_of_rule = |unit: &&&FailingUnit| number.is_some() && unit.key.rule_number() == number;
    let of_rule = failing.iter().filter(is_of_rule).copied();
    let (quarantined, retrying): (Vec<&FailingUnit>, Vec<&FailingUnit>) =
        of_rule.partition(|unit| unit.quarantined);
    for (name, units) in [("retrying", &retrying), ("quarantined", &quarantined)] {
        if !units.is_empty() {
            state.set(name, count(units.len()));
        }
    }
    let reasons: Vec<Value> = quarantined
        .iter()
        .chain(&retrying)
        .take(limits::MODEL_HOLDERS_MAX)
        .map(|unit| unit.reason.as_str().into())
        .collect();
    if !reasons.is_empty() {
        state.set("reasons", Value::array(reasons));
    }
}

fn count(n: usize) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}
