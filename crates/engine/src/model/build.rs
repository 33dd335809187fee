//! Brings data under a model that is being stored. First everything is checked, and if something
//! breaks the model nothing is changed; then references are written down, and what the server keeps
//! is computed, until nothing changes any more.

use orrery_modeling::{OnMissing, RelationRule, Rules};
use orrery_storage::{Commit, Part, ReadAt, Scan, Space, StorageError, key};
use orrery_types::{Error, Result, Value, limits};

use super::references::{part_of, put_reference};
use super::spot::Spot;
use super::{ModelScope, StoredModel};
use crate::change::stored_value;
use crate::draft::{Draft, View};
use crate::feed::ItemCursor;
use crate::gate::Pass;
use crate::items::Located;
use crate::scope::ScopeRequest;
use crate::storage_error::storage;
use crate::{Container, Database, Engine};

/// Items that one commit of the build is about.
const ITEMS_PER_COMMIT: usize = 200;
/// Rounds until everything that is kept has come to rest: chains of copies are short.
const ROUNDS_MAX: usize = 16;

/// What to do with one item.
type Visit<'v, 'e> = dyn FnMut(&mut Draft<'e>, &Spot<'e>, &Value) -> Result<()> + 'v;

impl Engine {
    /// Builds what the relations at these places need.
    pub(crate) fn build_model(&self, database: &Database, fresh: &[usize]) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let model =
            database.model.as_deref().ok_or_else(|| Error::internal("no model to build"))?;
        let scope = ModelScope { database, model };
        self.check_violations(scope, fresh)?;
        self.build_references(scope, fresh)?;
        for _ in 0..ROUNDS_MAX {
            if !self.build_kept(scope)? {
                return Ok(());
            }
        }
        Err(Error::internal("what the model keeps does not come to rest"))
    }

    /// Calls back for every item of the containers of some types, with a draft to read by.
    fn visit<'e>(
        &'e self,
        scope: ModelScope<'e>,
        types: &[usize],
        visit: &mut Visit<'_, 'e>,
        done: &mut dyn FnMut(&Draft<'e>) -> Result<()>,
    ) -> Result<()> {
        let mut names: Vec<&str> =
            types.iter().map(|t| &*scope.model.rules.types[*t].def.container).collect();
        names.sort_unstable();
        names.dedup();
        let mut seen = 0;
        for container in scope.database.containers().filter(|c| names.contains(&&*c.id)) {
            let container: &'e Container = container;
            let everything = container.scope(&ScopeRequest::default())?;
            let mut cursor = ItemCursor::new(self, container, &everything, None)?;
            let Some(first) = container.partitions.first() else { continue };
            let draft = || {
                let mut draft = Draft::new(self, container, first, View::Now);
                draft.model.scope = Some(scope);
                draft
            };
            let (mut batch, mut count) = (draft(), 0);
            while let Some(item) = cursor.next()? {
                seen += 1;
                if seen > limits::MODEL_BUILD_ITEMS_MAX {
                    return Err(Error::invalid(format!(
                        "The containers of the model have more than {} items, and bringing so many \
                         under new relations is not built yet in this version.",
                        limits::MODEL_BUILD_ITEMS_MAX
                    )));
                }
                let value = stored_value(&item.body)?;
                let place =
                    key::parse_item(&item.key).ok_or_else(|| Error::internal("no item key"))?;
                let partition = container.partition_of(&place.effective)?;
                let partition_key = container.definition.partition_key.extract(&value);
                let at = Located { partition, partition_key, key: item.key };
                visit(&mut batch, &Spot { container, at }, &value)?;
                count += 1;
                if count >= ITEMS_PER_COMMIT {
                    done(&batch)?;
                    (batch, count) = (draft(), 0);
                }
            }
            done(&batch)?;
        }
        Ok(())
    }

    /// Refuses a model that the data breaks, and lists where.
    fn check_violations(&self, scope: ModelScope<'_>, fresh: &[usize]) -> Result<()> {
        let rules = &scope.model.rules;
        let (types, mut found, mut count) = (sources(rules, fresh), Vec::new(), 0_usize);
        self.visit(
            scope,
            &types,
            &mut |draft, spot, value| {
                for index in fresh {
                    let rule = &rules.relations[*index];
                    if !rules.types[rule.from].matches(&spot.container.id, value) {
                        continue;
                    }
                    for problem in violations(draft, rule, value)? {
                        count += 1;
                        if found.len() < limits::MODEL_HOLDERS_MAX {
                            found.push(format!("item '{}': {problem}", spot.id()));
                        }
                    }
                }
                Ok(())
            },
            &mut |_| Ok(()),
        )?;
        if count == 0 {
            return Ok(());
        }
        Err(Error::ModelViolated(
            format!(
                "The data breaks the model in {count} places; nothing was changed. Correct them, or \
                 say \"onMissing\":\"allow\". {}",
                found.join("; ")
            )
            .into(),
        ))
    }

    /// Writes down all references.
    fn build_references(&self, scope: ModelScope<'_>, fresh: &[usize]) -> Result<()> {
        let rules = &scope.model.rules;
        let parts = std::cell::RefCell::new(Vec::<Part>::new());
        self.visit(
            scope,
            &sources(rules, fresh),
            &mut |draft, spot, value| {
                for index in fresh {
                    let rule = &rules.relations[*index];
                    let targets = draft.target_spots(scope, rule, spot.container, Some(value))?;
                    for target in targets {
                        let mut parts = parts.borrow_mut();
                        let part = part_of(&mut parts, target.at.partition);
                        put_reference(
                            part,
                            scope.model.numbers[*index],
                            &target.at.key,
                            &spot.at.key,
                        );
                    }
                }
                Ok(())
            },
            &mut |_| self.commit_parts(parts.take()),
        )
    }

    fn commit_parts(&self, parts: Vec<Part>) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        self.store.commit(Commit { parts }).map(drop).map_err(storage)
    }

    /// Puts everything that the server keeps to what is true; whether anything changed.
    fn build_kept(&self, scope: ModelScope<'_>) -> Result<bool> {
        let all: Vec<usize> = (0..scope.model.rules.types.len()).collect();
        let changed = std::cell::Cell::new(false);
        self.visit(
            scope,
            &all,
            &mut |draft, spot, value| {
                let kept = draft.kept_anew(spot, value)?;
                if kept != *value {
                    changed.set(true);
                    draft.value_at(spot)?;
                    draft.put_derived(spot, kept)?;
                }
                Ok(())
            },
            &mut |draft| {
                let written = !draft.is_empty() || draft.model.others.iter().any(|o| !o.is_empty());
                if written { self.commit_parts(draft.parts()?.0) } else { Ok(()) }
            },
        )?;
        Ok(changed.get())
    }

    /// Removes stored references by the numbers of their rules.
    pub(crate) fn purge_references(
        &self,
        database: &Database,
        dead: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        for partition in database.containers().flat_map(|container| &container.partitions) {
            let mut bounds = key::all_references();
            loop {
                let snapshot = match self.store.snapshot(partition.shard, ReadAt::Latest) {
                    Err(StorageError::Gone { .. }) => break,
                    other => other.map_err(storage)?,
                };
                let scan = Scan {
                    space: Space::Index,
                    from: &bounds.from,
                    to: &bounds.to,
                    reverse: false,
                    max_rows: limits::PAGE_ITEMS_MAX,
                    max_bytes: usize::MAX,
                    keys_only: true,
                };
                let entries = snapshot.scan(&scan).map_err(storage)?;
                drop(snapshot);
                let Some(last) = entries.last() else { break };
                bounds = bounds.after(&last.key);
                let is_dead = |key: &[u8]| key::parse_reference(key).is_none_or(|r| dead(r.rule));
                let mut part = Part::new(partition.shard, partition.epoch);
                let keys = entries.into_iter().map(|entry| entry.key);
                part.deletes.extend(keys.filter(|key| is_dead(key)).map(|key| (Space::Index, key)));
                if !part.deletes.is_empty() {
                    self.commit_parts(vec![part])?;
                }
            }
        }
        Ok(())
    }
}

impl Database {
    /// Closes the gates of all containers that its model or the old one names.
    pub(crate) fn close_gates(&self, old: Option<&StoredModel>) -> Vec<Pass> {
        let concerned = |container: &Container| {
            let new = self.model.as_deref();
            [old, new].into_iter().flatten().any(|model| model.rules.concerns(&container.id))
        };
        let containers = self.containers().filter(|container| concerned(container));
        let partitions = containers.flat_map(|container| &container.partitions);
        partitions.flat_map(|partition| partition.gates.close()).collect()
    }
}

fn sources(rules: &Rules, fresh: &[usize]) -> Vec<usize> {
    fresh.iter().map(|index| rules.relations[*index].from).collect()
}

/// What an item that is there would be refused for.
fn violations(draft: &mut Draft<'_>, rule: &RelationRule, value: &Value) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if let Some((_, hidden)) = rule.navigation.collect(value).first() {
        let text: String = hidden.to_json().chars().take(40).collect();
        all.push(format!(
            "it has {text} at '{}', which the name of the relation '{}' would hide",
            rule.navigation, rule.def.name
        ));
    }
    if rule.def.on_missing == OnMissing::Reject {
        for reference in rule.references(value) {
            let spot = match &reference.target {
                Some(target) => draft.spot_of(rule, target)?,
                None => None,
            };
            let found = match &spot {
                Some(spot) => draft.target_at(rule, spot)?,
                None => None,
            };
            if found.is_none() {
                let value = reference.value.to_json();
                all.push(format!("{value} at '{}' leads nowhere", rule.def.path));
            }
        }
    }
    Ok(all)
}

impl<'e> Draft<'e> {
    /// An item with everything the server keeps of it computed anew.
    pub(crate) fn kept_anew(&mut self, spot: &Spot<'e>, value: &Value) -> Result<Value> {
        let Some(scope) = self.model.scope else { return Ok(value.clone()) };
        let rules = &scope.model.rules;
        let types = rules.types_of(&spot.container.id, value);
        let mut kept = value.clone();
        for (index, rule) in rules.relations.iter().enumerate() {
            if types.contains(&rule.from) && !rule.copies.is_empty() {
                self.copies_anew(rule, &mut kept)?;
            }
            let inverse = rule.def.inverse.as_ref().filter(|_| types.contains(&rule.to));
            let Some(inverse) = inverse else { continue };
            let Some(path) = &inverse.store else { continue };
            let truth = self.true_inverse(index, spot)?;
            let count = truth.as_array().map_or(0, <[Value]>::len);
            if count > inverse.max_items {
                return Err(Error::ModelViolated(
                    format!(
                        "The item '{}' has {count} items that refer to it, more than 'maxItems' of the \
                         inverse '{}'. Nothing was changed.",
                        spot.id(),
                        inverse.name
                    )
                    .into(),
                ));
            }
            if !same_ids(path.get(&kept, &[]), &truth) {
                path.set(&mut kept, &[], truth);
            }
        }
        for aggregate in rules.aggregates.iter().filter(|a| types.contains(&a.on)) {
            let truth = self.true_aggregate(aggregate, spot)?;
            aggregate.def.path.set(&mut kept, &[], truth);
        }
        Ok(kept)
    }

    fn copies_anew(&mut self, rule: &RelationRule, kept: &mut Value) -> Result<()> {
        for reference in rule.references(kept) {
            let Some(target) = &reference.target else { continue };
            let Some(spot) = self.spot_of(rule, target)? else { continue };
            let Some(target) = self.target_at(rule, &spot)? else { continue };
            for (path, copy) in &rule.copies {
                path.set(kept, &reference.place, copy.value(&target));
            }
        }
        Ok(())
    }
}

/// Whether two lists hold the same ids, in whatever order.
fn same_ids(a: &Value, b: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut ids = value.as_array()?.to_vec();
        ids.sort();
        Some(ids)
    };
    sorted(a).is_some() && sorted(a) == sorted(b)
}
