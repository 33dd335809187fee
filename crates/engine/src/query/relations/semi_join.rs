//! A filter on the targets of a relation as a semi-join: first the targets that match, by their own index,
//! then the items that refer to them, by the references stored beside each target. A query for the books of
//! a publisher's name reads one publisher and its books.

use orrery_index::{IndexStep, ValueRange};
use orrery_modeling::{ModelStep, RelationRule};
use orrery_query::plan::access::AccessPath;
use orrery_query::plan::{IndexFacts as _, PlanRequest};
use orrery_query::{BoundQuery, EvalContext, ItemSource, SemiJoin};
use orrery_storage::{Scan, Space};
use orrery_types::{Reservation, Result, limits};

use super::{Expansion, NavigationKind};
use crate::error::storage;
use crate::query::access::index_facts::Facts;
use crate::query::access::keys::SnapshotScan;
use crate::query::access::ordered::OrderedSource;
use crate::query::access::prefetched::PrefetchedPostings;
use crate::query::access::rows::RowSource;
use crate::query::access::{Shards, within};
use crate::query::query_error;

/// Items that can yield a row.
pub(crate) struct SemiJoinResult<'b> {
    /// Their keys, sorted, each once.
    pub(crate) keys: Vec<Vec<u8>>,
    /// The relation.
    pub(crate) path: String,
    /// Targets that pass the filter.
    pub(crate) targets: usize,
    _held: Reservation<'b>,
}

/// Rows that a plan of targets is made for: all of them.
const ALL_ROWS: usize = 1 << 30;

impl<'e> Expansion<'e> {
    /// The items that a filter on targets leaves, where they are found sooner that way than by
    /// looking at `others` items.
    pub(crate) fn semi_join(
        &self,
        bound: &BoundQuery,
        source: &Shards<'_>,
        others: u64,
        context: &EvalContext<'_>,
    ) -> Result<Option<SemiJoinResult<'e>>> {
        for join in bound.semi_joins() {
            let NavigationKind::Target(relation) = NavigationKind::of(join.navigation.number)
            else {
                continue;
            };
            // While references are being written down, some are not found that way.
            let building = self.names.scope.model.is_building(relation);
            if building || self.may_be_stored(relation, source)? {
                continue;
            }
            let Some(targets) = self.passing(relation, &join, context)? else { continue };
            if let Some(keys) = self.referring(relation, &targets)?
                && (keys.len() as u64) <= others
            {
                let (path, targets) = (join.navigation.path.to_string(), targets.len());
                let mut held = self.budget.reservation();
                held.set(keys.iter().map(|key| 2 * size_of::<Vec<u8>>() + key.len()).sum())?;
                return Ok(Some(SemiJoinResult { keys, path, targets, _held: held }));
            }
        }
        Ok(None)
    }

    /// Whether items of other types may have a property where the name hangs: they have no
    /// references, and yet the filter may let them pass.
    fn may_be_stored(&self, relation: usize, source: &Shards<'_>) -> Result<bool> {
        let rules = &self.names.scope.model.rules;
        let rule: &RelationRule = &rules.relations[relation];
        if rules.types[rule.from].filter.is_none() {
            return Ok(false);
        }
        let step = |step: &ModelStep| match step {
            ModelStep::Name(name) => IndexStep::Property(name.clone()),
            ModelStep::Each => IndexStep::Elements,
        };
        let path: Vec<IndexStep> = rule.navigation.steps().iter().map(step).collect();
        if !Facts::new(source, true).is_usable(&path) {
            return Ok(true);
        }
        for shard in &source.list {
            let Some(head) = shard.head(&*source.engine.store, &path)? else { continue };
            let bounds = within(&head, &ValueRange::Defined);
            let scan = Scan { keys_only: true, ..bounds.scan(Space::Index, 1, usize::MAX) };
            if !shard.snapshot.scan(&scan).map_err(storage)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys of the targets that pass; `None` if they are many, or not found by an index.
    fn passing(
        &self,
        relation: usize,
        join: &SemiJoin,
        context: &EvalContext<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let rules = &self.names.scope.model.rules;
        let to = &rules.types[rules.relations[relation].to];
        let pool = self.pool(join.navigation.target)?;
        let facts = Facts::new(pool, true);
        let most = limits::MODEL_EXPAND_ITEMS_MAX;
        let request = PlanRequest {
            facts: &facts,
            key: None,
            key_paths: &[],
            is_whole: true,
            may_include_expired: true,
            rows: ALL_ROWS,
        };
        let plan = join.targets.plan(&request, None);
        let read = match &plan.access {
            AccessPath::Scan(_) => facts.items(),
            AccessPath::Rows(set) => set.estimate(),
            AccessPath::Ordered(ordered) => ordered.estimate,
            AccessPath::Nothing | AccessPath::Points { .. } | AccessPath::Keys { .. } => 0,
        };
        if read > most as u64 * 4 {
            return Ok(None);
        }
        let mut source: Box<dyn ItemSource + '_> = match &plan.access {
            AccessPath::Nothing => return Ok(Some(vec![])),
            AccessPath::Rows(set) => {
                Box::new(RowSource::new(pool, Some(set.clone()), PrefetchedPostings::default()))
            }
            AccessPath::Ordered(ordered) => Box::new(OrderedSource::new(pool, ordered)),
            AccessPath::Scan(_) | AccessPath::Points { .. } | AccessPath::Keys { .. } => {
                Box::new(SnapshotScan::new(pool))
            }
        };
        let mut keys = Vec::new();
        loop {
            let batch = source.next_batch(limits::PAGE_ITEMS_MAX)?;
            if batch.is_empty() {
                return Ok(Some(keys));
            }
            for item in batch {
                if to.matches(&to.def.container, &item.value)
                    && join.targets.matches(&item.value, context).map_err(query_error)?
                {
                    keys.push(item.key.into_vec());
                }
            }
            if keys.len() > most {
                return Ok(None);
            }
        }
    }

    /// The keys of all items that refer to one of the targets; `None` if they are too many.
    fn referring(&self, relation: usize, targets: &[Vec<u8>]) -> Result<Option<Vec<Vec<u8>>>> {
        let rules = &self.names.scope.model.rules;
        let pool = self.pool(self.names.container_of_type(rules.relations[relation].to))?;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for target in targets {
            let room = limits::MODEL_SEMI_JOIN_MAX - keys.len();
            match self.references(relation, pool, target, room)? {
                Some(found) => keys.extend(found),
                None => return Ok(None),
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(keys))
    }
}
