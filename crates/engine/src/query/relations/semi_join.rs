//! A filter on what a relation leads to, turned round: first the targets that pass it, by their own
//! index, then the items that refer to them, by the references that are stored beside each target.
//! So a query for the books of a publisher's name looks at one publisher and its books alone.

use orrery_index::{IndexStep, Span};
use orrery_modeling::{RelationRule, Step};
use orrery_query::plan::access::Access;
use orrery_query::plan::{IndexFacts as _, PlanRequest};
use orrery_query::{BoundQuery, EvalContext, ItemSource, SemiJoin};
use orrery_storage::{Scan, Space};
use orrery_types::{Result, limits};

use super::{Expansion, Way};
use crate::error::storage;
use crate::query::access::index_facts::Facts;
use crate::query::access::keys::SnapshotScan;
use crate::query::access::ordered::OrderedSource;
use crate::query::access::prefetched::OpenLists;
use crate::query::access::rows::RowSource;
use crate::query::access::{Shards, within};
use crate::query::query_error;

/// Items that can yield a row.
pub(crate) struct Found {
    /// Their keys, sorted, each once.
    pub(crate) keys: Vec<Vec<u8>>,
    /// The relation.
    pub(crate) path: String,
    /// Targets that pass the filter.
    pub(crate) targets: usize,
}

/// Rows that a plan of targets is made for: all of them.
const ALL_ROWS: usize = 1 << 30;

impl Expansion<'_> {
    /// The items that a filter on targets leaves, where they are found sooner that way than by
    /// looking at `others` items.
    pub(crate) fn semi_join(
        &self,
        bound: &BoundQuery,
        source: &Shards<'_>,
        others: u64,
        context: &EvalContext<'_>,
    ) -> Result<Option<Found>> {
        for join in bound.semi_joins() {
            let Way::Target(relation) = Way::of(join.navigation.number) else { continue };
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
                return Ok(Some(Found { keys, path, targets }));
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
        let step = |step: &Step| match step {
            Step::Name(name) => IndexStep::Property(name.clone()),
            Step::Each => IndexStep::Elements,
        };
        let path: Vec<IndexStep> = rule.navigation.steps().iter().map(step).collect();
        if !Facts::new(source, true).is_usable(&path) {
            return Ok(true);
        }
        for shard in &source.list {
            let Some(head) = shard.head(&*source.engine.store, &path)? else { continue };
            let bounds = within(&head, &Span::Defined);
            let scan = Scan {
                space: Space::Index,
                from: &bounds.from,
                to: &bounds.to,
                reverse: false,
                max_rows: 1,
                max_bytes: usize::MAX,
                keys_only: true,
            };
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
            is_mortal: true,
            rows: ALL_ROWS,
        };
        let plan = join.targets.plan(&request, None);
        let read = match &plan.access {
            Access::Scan(_) => facts.items(),
            Access::Rows(set) => set.estimate(),
            Access::Ordered(ordered) => ordered.estimate,
            Access::Nothing | Access::Points { .. } | Access::Keys { .. } => 0,
        };
        if read > most as u64 * 4 {
            return Ok(None);
        }
        let mut source: Box<dyn ItemSource + '_> = match &plan.access {
            Access::Nothing => return Ok(Some(vec![])),
            Access::Rows(set) => {
                Box::new(RowSource::new(pool, Some(set.clone()), OpenLists::default()))
            }
            Access::Ordered(ordered) => Box::new(OrderedSource::new(pool, ordered)),
            Access::Scan(_) | Access::Points { .. } | Access::Keys { .. } => {
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
