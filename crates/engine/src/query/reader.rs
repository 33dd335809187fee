//! Runs one page of a planned query, and reports what it took.

use orrery_query::plan::access::{AccessPath, ScanPath, SourceOrder};
use orrery_query::plan::index_only::IndexOnly;
use orrery_query::plan::{Plan, PlanNode, PlanPath};
use orrery_query::{
    AnyOrder, BoundQuery, EvalContext, Followed, ItemSource, Page, PageLimits, Resume, Run,
    SeekPosition, SourceItem, answer_aggregates, answer_rows, execute,
};
use orrery_storage::key;
use orrery_types::{Error, PartitionKey, Reservation, Result, limits};

use super::query_error;
use crate::partition::scope::Scope;
use crate::query::access::index_only::IndexAnswer;
use crate::query::access::keys::{KeySource, SnapshotScan};
use crate::query::access::ordered::OrderedSource;
use crate::query::access::points::PointSource;
use crate::query::access::prefetched::{LoadedItems, PrefetchedPostings};
use crate::query::access::rows::RowSource;
use crate::query::access::sorted_scope::SortedScope;
use crate::query::access::{Shards, source_item};
use crate::query::read_feed::ItemCursor;
use crate::query::relations::{Expansion, NavigationKind, PrefetchingSource, SemiJoinResult};
use crate::query::times::{QueryTimes, add_time};

/// What a page took.
#[derive(Clone, Debug, Default)]
pub struct QueryReport {
    /// Items loaded.
    pub items: u64,
    /// Their bytes.
    pub items_bytes: u64,
    /// Physical partitions read.
    pub partitions: u64,
    /// Index entries read.
    pub entries: u64,
    /// Time it took.
    pub time_us: u64,
    /// What of it its parts took.
    pub times: QueryTimes,
    /// Steps of evaluation.
    pub steps: u64,
    /// Whether the index led to the items.
    pub uses_index: bool,
    /// The paths of the query, and whether they are indexed.
    pub paths: Vec<PlanPath>,
    /// The composite index that gave the order, by its components.
    pub composite: Option<Vec<String>>,
    /// The plan, if it was asked for.
    pub plan: Option<PlanNode>,
    pub(crate) session_token: String,
}

/// A query with its plan.
pub(super) struct Reader<'r, 's, 'e> {
    pub(super) bound: &'r BoundQuery,
    pub(super) run: Run,
    pub(super) shards: &'s Shards<'e>,
    pub(super) scope: &'r Scope,
    pub(super) plan: Plan,
    pub(super) context: &'r EvalContext<'r>,
    /// Follows the relations of the query, if it has any.
    pub(super) expansion: Option<&'r Expansion<'e>>,
    /// What the planner read already.
    pub(super) prefetched: PrefetchedPostings<'s>,
    /// The items that a filter on relations leaves, if they were found that way.
    pub(super) found: Option<SemiJoinResult<'e>>,
}

impl<'e> Reader<'_, '_, 'e> {
    /// One page and its report.
    pub(super) fn read(mut self, size: PageLimits, explains: bool) -> Result<(Page, QueryReport)> {
        self.find()?;
        let answered = add_time(&self.shards.taken.source_time, || {
            self.index_page(self.run.resume.as_ref(), size)
        })?;
        if answered.is_none() {
            self.plan.only = None;
        }
        let (page, scanned) = match answered {
            Some(page) => (page, None),
            None => self.items_page(size)?,
        };
        let taken = &self.shards.taken;
        let (items, items_bytes) = (taken.items.get(), taken.bytes.get());
        let token = scanned.map(|cursor| cursor.session_token()).filter(|t| !t.is_empty());
        let mut report = QueryReport {
            items,
            items_bytes,
            partitions: self.shards.list.len() as u64,
            entries: taken.entries.get(),
            time_us: 0,
            times: self.times(),
            steps: page.steps,
            uses_index: !matches!(self.plan.access, AccessPath::Scan(_))
                || self.plan.only.is_some()
                || self.found.is_some(),
            paths: std::mem::take(&mut self.plan.paths),
            composite: self.plan.access.composite_specs().filter(|_| self.plan.only.is_none()),
            plan: None,
            session_token: token.unwrap_or_else(|| self.shards.session_token()),
        };
        if explains {
            report.plan = Some(self.explain(&page, &report));
        }
        Ok((page, report))
    }

    /// What the source of items took, in the index and in loading them.
    fn times(&self) -> QueryTimes {
        let taken = &self.shards.taken;
        let (all, load) = (taken.source_time.get(), taken.load_time.get());
        let uses_index = matches!(self.plan.access, AccessPath::Rows(_) | AccessPath::Ordered(_))
            || self.plan.only.is_some();
        let load = if uses_index { load } else { all };
        QueryTimes { index: all.saturating_sub(load), load, ..QueryTimes::default() }
    }

    fn explain(&self, page: &Page, report: &QueryReport) -> PlanNode {
        let mut node = self.plan.explain(self.bound, self.scope.partition_key.is_some());
        let access = node.access_mut();
        if let Some(found) = &self.found {
            let text = format!(
                "SemiJoin {}: {} targets, {} references",
                found.path,
                found.targets,
                found.keys.len()
            );
            *access = PlanNode { text, ..PlanNode::default() };
        }
        access.actual.extend([("entriesRead", report.entries), ("itemsLoaded", report.items)]);
        node.actual.insert(0, ("rows", page.rows.len() as u64));
        if self.plan.only.is_none() {
            node.note_rows(page.items_read, page.rows_passed);
        }
        node
    }

    fn index_page(&self, resume: Option<&Resume>, size: PageLimits) -> Result<Option<Page>> {
        let Some(only) = &self.plan.only else { return Ok(None) };
        let Some(answer) = self.shards.answer(only, &self.prefetched)? else { return Ok(None) };
        Ok(Some(match (answer, only) {
            (IndexAnswer::Distinct(values, _held), IndexOnly::Distinct { name, .. }) => {
                let row = |value| IndexOnly::row(name.as_ref(), value);
                let rows = values.into_iter().map(row).collect();
                answer_rows(self.bound, rows, resume, size)
            }
            (IndexAnswer::Distinct(values, _) | IndexAnswer::Aggregates(values), _) => {
                answer_aggregates(self.bound, values, self.context).map_err(query_error)?
            }
        }))
    }

    /// Runs the query over items; gives also the cursor that scanned them, if one did.
    fn items_page(&self, size: PageLimits) -> Result<(Page, Option<ItemCursor<'_>>)> {
        let (run, shards) = (&self.run, self.shards);
        let run_over = |source: &mut dyn ItemSource| {
            let held = shards.budget.reservation();
            let source: &mut dyn ItemSource = &mut CountedSource { inner: source, shards, held };
            let mut ahead = self.ahead(source, size);
            let source: &mut dyn ItemSource = match &mut ahead {
                Ok(ahead) => ahead,
                Err(source) => *source,
            };
            execute(self.bound, source, run, size, self.context).map_err(query_error)
        };
        if let Some(found) = &self.found {
            return Ok((run_over(&mut KeySource::new(shards, found.keys.clone()))?, None));
        }
        if let AccessPath::Scan(path) = &self.plan.access
            && let Some(mut loaded) = add_time(&shards.taken.source_time, || {
                self.prefetched.take_partition(shards, *path != ScanPath::Keys)
            })?
        {
            return Ok((run_over(&mut loaded)?, None));
        }
        match &self.plan.access {
            // A page that follows relations is of one moment.
            AccessPath::Scan(ScanPath::Keys) if self.expansion.is_some() => {
                Ok((run_over(&mut SnapshotScan::new(shards))?, None))
            }
            AccessPath::Nothing => Ok((run_over(&mut LoadedItems::new(Vec::new(), false))?, None)),
            AccessPath::Points { ids, by_row } => {
                let prefix = self.prefix()?;
                let keys = ids.iter().map(|id| [&prefix[..], id.as_bytes()].concat()).collect();
                Ok((run_over(&mut *self.points(keys, *by_row)?)?, None))
            }
            AccessPath::Keys { keys: named, by_row } => {
                let definition = &shards.container.definition.partition_key;
                let item_key = |(key, id): &(PartitionKey, String)| {
                    let partition = key::items_of(&definition.effective(key), key).from;
                    [&partition, id.as_bytes()].concat()
                };
                let mut keys: Vec<Vec<u8>> = named.iter().map(item_key).collect();
                keys.sort_unstable();
                keys.dedup();
                Ok((run_over(&mut *self.points(keys, *by_row)?)?, None))
            }
            AccessPath::Rows(set) => {
                let prefetched = self.prefetched.take_all();
                let mut source = RowSource::new(shards, Some(set.clone()), prefetched);
                Ok((run_over(&mut source)?, None))
            }
            AccessPath::Scan(ScanPath::Entries(set)) => {
                let prefetched = self.prefetched.take_all();
                let mut source = RowSource::scan(shards, Some(set.clone()), prefetched);
                Ok((run_over(&mut source)?, None))
            }
            AccessPath::Scan(ScanPath::Directory) => {
                let mut source = RowSource::scan(shards, None, self.prefetched.take_all());
                Ok((run_over(&mut source)?, None))
            }
            AccessPath::Scan(ScanPath::Sorted) => {
                Ok((run_over(&mut SortedScope::new(shards))?, None))
            }
            AccessPath::Ordered(ordered) => {
                Ok((run_over(&mut OrderedSource::new(shards, ordered))?, None))
            }
            AccessPath::Scan(ScanPath::Keys) => {
                let (engine, container) = (shards.engine, shards.container);
                let cursor = ItemCursor::new(engine, container, self.scope, None, shards.budget)?;
                let mut source = ScanSource { shards, scope: self.scope, cursor };
                Ok((run_over(&mut source)?, Some(source.cursor)))
            }
        }
    }

    /// The items of keys that the filter names, which are sorted.
    fn points(&self, keys: Vec<Vec<u8>>, by_row: bool) -> Result<Box<dyn ItemSource + '_>> {
        Ok(if by_row {
            Box::new(PointSource::new(self.shards, keys)?)
        } else {
            Box::new(KeySource::new(self.shards, keys))
        })
    }

    /// Has targets loaded for many items at once, where most items that are read yield a row.
    fn ahead<'a>(
        &'a self,
        source: &'a mut dyn ItemSource,
        size: PageLimits,
    ) -> std::result::Result<PrefetchingSource<'a, 'e>, &'a mut dyn ItemSource> {
        let Some(expansion) = self.expansion else { return Err(source) };
        let is_scan = matches!(self.plan.access, AccessPath::Scan(_)) && self.found.is_none();
        if is_scan && self.bound.filters() {
            return Err(source);
        }
        let target = |followed: Followed| match NavigationKind::of(followed.navigation.number) {
            NavigationKind::Target(relation) if followed.from_items => Some(relation),
            NavigationKind::Target(_) | NavigationKind::Inverse(_) | NavigationKind::Array(_) => {
                None
            }
        };
        let relations: Vec<usize> = self.bound.relations().into_iter().filter_map(target).collect();
        Ok(PrefetchingSource { inner: source, expansion, relations, items: size.rows_max })
    }

    /// Finds the items by what their relations lead to, where the plan would look at more.
    fn find(&mut self) -> Result<()> {
        let Some(expansion) = self.expansion else { return Ok(()) };
        let in_order = self.run.resume.as_ref().and_then(Resume::source_order);
        let by_key = in_order.is_none_or(|order| order == SourceOrder::Keys);
        let others = match &self.plan.access {
            AccessPath::Scan(_) => u64::MAX,
            AccessPath::Rows(set) => set.estimate(),
            AccessPath::Ordered(ordered) => ordered.estimate,
            AccessPath::Nothing | AccessPath::Points { .. } | AccessPath::Keys { .. } => {
                return Ok(());
            }
        };
        let chosen = self.run.resume.is_some() && self.run.chosen_order.is_some();
        if !by_key || self.plan.only.is_some() || chosen {
            return Ok(());
        }
        self.found = expansion.semi_join(self.bound, self.shards, others, self.context)?;
        if self.found.is_some() {
            self.run.order = SourceOrder::Keys;
            self.run.chosen_order = None;
            self.plan.access = AccessPath::Scan(ScanPath::Keys);
            self.plan.chosen_order = None;
        }
        Ok(())
    }

    /// Where the keys of the logical partition begin.
    fn prefix(&self) -> Result<Vec<u8>> {
        let key = self.scope.partition_key.as_ref();
        let key = key.ok_or_else(|| Error::internal("points need a partition key"))?;
        let definition = &self.shards.container.definition.partition_key;
        Ok(key::items_of(&definition.effective(key), key).from)
    }
}

/// Counts the memory of the batch at hand.
struct CountedSource<'a, 's, 'e> {
    inner: &'a mut dyn ItemSource,
    shards: &'s Shards<'e>,
    held: Reservation<'s>,
}

impl ItemSource for CountedSource<'_, '_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        self.inner.seek(place)
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let before = self.shards.taken.bytes.get();
        let time = &self.shards.taken.source_time;
        let batch = add_time(time, || self.inner.next_batch(items_max))?;
        self.held.set(self.shards.loaded_since(before))?;
        Ok(batch)
    }

    fn any_order(&mut self) -> Option<&mut dyn AnyOrder> {
        self.inner.any_order()
    }
}

/// All items of the scope.
struct ScanSource<'s, 'e> {
    shards: &'s Shards<'e>,
    scope: &'s Scope,
    cursor: ItemCursor<'s>,
}

impl ItemSource for ScanSource<'_, '_> {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let key = place.key()?;
        let Shards { engine, container, budget, .. } = self.shards;
        self.cursor = ItemCursor::at(engine, container, self.scope, key, budget)?;
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let mut batch = Vec::with_capacity(items_max.min(limits::PAGE_ITEMS_MAX));
        let end_bytes = self.cursor.loaded_bytes + limits::QUERY_BATCH_BYTES_MAX;
        while batch.len() < items_max && self.cursor.loaded_bytes < end_bytes {
            let Some(item) = self.cursor.next()? else { break };
            batch.push(source_item(self.shards.members(), item.key, item.row, item.body)?);
        }
        self.shards.taken.items.set(self.cursor.loaded as u64);
        self.shards.taken.bytes.set(self.cursor.loaded_bytes);
        Ok(batch)
    }
}
