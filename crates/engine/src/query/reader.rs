//! Runs one page of a planned query, and reports what it took.

use orrery_query::plan::access::{Access, ScanPath, SourceOrder};
use orrery_query::plan::index_only::IndexOnly;
use orrery_query::plan::{Plan, PlanNode, PlanPath};
use orrery_query::{
    BoundQuery, EvalContext, Followed, ItemSource, Page, PageLimits, Place, Resume, Run,
    SourceItem, answer_aggregates, answer_rows, execute,
};
use orrery_storage::key;
use orrery_types::{Error, PartitionKey, Result, limits};

use super::query_error;
use crate::partition::scope::Scope;
use crate::query::access::index_only::Answer;
use crate::query::access::keys::{KeySource, SnapshotScan};
use crate::query::access::ordered::OrderedSource;
use crate::query::access::prefetched::{LoadedItems, OpenLists};
use crate::query::access::rows::RowSource;
use crate::query::access::{Shards, source_item};
use crate::query::read_feed::ItemCursor;
use crate::query::relations::{Expansion, Found, Prefetching, Way};

/// What a page took.
#[derive(Clone, Debug, Default)]
pub struct Report {
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
    /// Who follows the relations of the query, if it has any.
    pub(super) expansion: Option<&'r Expansion<'e>>,
    /// Lists that the planner began to read.
    pub(super) open: OpenLists<'s>,
    /// The items that a filter on relations leaves, if they were found that way.
    pub(super) found: Option<Found>,
}

impl<'e> Reader<'_, '_, 'e> {
    /// One page and its report.
    pub(super) fn read(mut self, size: PageLimits, explains: bool) -> Result<(Page, Report)> {
        self.find()?;
        let answered = self.index_page(self.run.resume.as_ref(), size)?;
        if answered.is_none() {
            self.plan.only = None;
        }
        let (page, scanned) = match answered {
            Some(page) => (page, None),
            None => self.items_page(size)?,
        };
        let taken = &self.shards.taken;
        let (items, items_bytes) = match &scanned {
            Some(scanned) => (scanned.loaded as u64, scanned.loaded_bytes),
            None => (taken.items.get(), taken.bytes.get()),
        };
        let token = scanned.map(|cursor| cursor.session_token()).filter(|t| !t.is_empty());
        let mut report = Report {
            items,
            items_bytes,
            partitions: self.shards.list.len() as u64,
            entries: taken.entries.get(),
            time_us: 0,
            steps: page.steps,
            uses_index: !matches!(self.plan.access, Access::Scan(_))
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

    fn explain(&self, page: &Page, report: &Report) -> PlanNode {
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
        let Some(answer) = self.shards.answer(only, &self.open)? else { return Ok(None) };
        Ok(Some(match (answer, only) {
            (Answer::Distinct(values), IndexOnly::Distinct { name, .. }) => {
                let row = |value| IndexOnly::row(name.as_ref(), value);
                let rows = values.into_iter().map(row).collect();
                answer_rows(self.bound, rows, resume, size)
            }
            (Answer::Distinct(values) | Answer::Aggregates(values), _) => {
                answer_aggregates(self.bound, values, self.context).map_err(query_error)?
            }
        }))
    }

    /// Runs the query over items; gives also the cursor that scanned them, if one did.
    fn items_page(&self, size: PageLimits) -> Result<(Page, Option<ItemCursor<'_>>)> {
        let (run, shards) = (&self.run, self.shards);
        let run_over = |source: &mut dyn ItemSource| {
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
        if let Access::Scan(path) = &self.plan.access
            && let Some(mut loaded) = self.open.take_partition(shards, *path != ScanPath::Keys)?
        {
            return Ok((run_over(&mut loaded)?, None));
        }
        match &self.plan.access {
            // A page that follows relations is of one moment.
            Access::Scan(ScanPath::Keys) if self.expansion.is_some() => {
                Ok((run_over(&mut SnapshotScan::new(shards))?, None))
            }
            Access::Nothing => Ok((run_over(&mut LoadedItems::new(Vec::new(), false))?, None)),
            Access::Points { ids, by_row } => {
                let items = shards.points(&self.prefix()?, ids)?;
                Ok((run_over(&mut LoadedItems::new(items, *by_row))?, None))
            }
            Access::Keys { keys: named, by_row } => {
                let definition = &shards.container.definition.partition_key;
                let item_key = |(key, id): &(PartitionKey, String)| {
                    let partition = key::items_of(&definition.effective(key), key).from;
                    [&partition, id.as_bytes()].concat()
                };
                let mut keys: Vec<Vec<u8>> = named.iter().map(item_key).collect();
                keys.sort_unstable();
                keys.dedup();
                if *by_row {
                    let items = shards.by_keys(&keys)?.into_iter().flatten().collect();
                    return Ok((run_over(&mut LoadedItems::new(items, true))?, None));
                }
                Ok((run_over(&mut KeySource::new(shards, keys))?, None))
            }
            Access::Rows(set) | Access::Scan(ScanPath::Entries(set)) => {
                let mut source = RowSource::new(shards, Some(set.clone()), self.open.take_all());
                Ok((run_over(&mut source)?, None))
            }
            Access::Scan(ScanPath::Directory) => {
                let mut source = RowSource::new(shards, None, self.open.take_all());
                Ok((run_over(&mut source)?, None))
            }
            Access::Ordered(ordered) => {
                Ok((run_over(&mut OrderedSource::new(shards, ordered))?, None))
            }
            Access::Scan(ScanPath::Keys) => {
                let cursor = ItemCursor::new(shards.engine, shards.container, self.scope, None)?;
                let mut source = ScanSource { shards, scope: self.scope, cursor };
                Ok((run_over(&mut source)?, Some(source.cursor)))
            }
        }
    }

    /// Has targets loaded for many items at once, where most items that are read yield a row.
    fn ahead<'a>(
        &'a self,
        source: &'a mut dyn ItemSource,
        size: PageLimits,
    ) -> std::result::Result<Prefetching<'a, 'e>, &'a mut dyn ItemSource> {
        let Some(expansion) = self.expansion else { return Err(source) };
        let is_scan = matches!(self.plan.access, Access::Scan(_)) && self.found.is_none();
        if is_scan && self.bound.filters() {
            return Err(source);
        }
        let target = |followed: Followed| match Way::of(followed.navigation.number) {
            Way::Target(relation) if followed.from_items => Some(relation),
            Way::Target(_) | Way::Inverse(_) | Way::Array(_) => None,
        };
        let relations: Vec<usize> = self.bound.relations().into_iter().filter_map(target).collect();
        Ok(Prefetching { inner: source, expansion, relations, items: size.rows_max })
    }

    /// Finds the items by what their relations lead to, where the plan would look at more.
    fn find(&mut self) -> Result<()> {
        let Some(expansion) = self.expansion else { return Ok(()) };
        let in_order = self.run.resume.as_ref().and_then(Resume::source_order);
        let by_key = in_order.is_none_or(|order| order == SourceOrder::Keys);
        let others = match &self.plan.access {
            Access::Scan(_) => u64::MAX,
            Access::Rows(set) => set.estimate(),
            Access::Ordered(ordered) => ordered.estimate,
            Access::Nothing | Access::Points { .. } | Access::Keys { .. } => return Ok(()),
        };
        let chosen = self.run.resume.is_some() && self.run.chosen_order.is_some();
        if !by_key || self.plan.only.is_some() || chosen {
            return Ok(());
        }
        self.found = expansion.semi_join(self.bound, self.shards, others, self.context)?;
        if self.found.is_some() {
            self.run.order = SourceOrder::Keys;
            self.run.chosen_order = None;
            self.plan.access = Access::Scan(ScanPath::Keys);
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

/// All items of the scope.
struct ScanSource<'s, 'e> {
    shards: &'s Shards<'e>,
    scope: &'s Scope,
    cursor: ItemCursor<'s>,
}

impl ItemSource for ScanSource<'_, '_> {
    fn seek(&mut self, place: Place<'_>) -> Result<()> {
        let key = place.key()?;
        self.cursor = ItemCursor::at(self.shards.engine, self.shards.container, self.scope, key)?;
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let mut batch = Vec::with_capacity(items_max.min(limits::PAGE_ITEMS_MAX));
        let end_bytes = self.cursor.loaded_bytes + limits::QUERY_BATCH_BYTES_MAX;
        while batch.len() < items_max && self.cursor.loaded_bytes < end_bytes {
            let Some(item) = self.cursor.next()? else { break };
            batch.push(source_item(self.shards.members(), item.key, item.row, item.body)?);
        }
        Ok(batch)
    }
}
