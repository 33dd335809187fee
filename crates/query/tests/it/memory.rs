//! Items in memory, as the tests feed them to the executor.

use orrery_query::{
    BoundQuery, ContainerFacts, EvalContext, ItemSource, Page, PageLimits, Query, QueryError,
    Resume, Run, SeekPosition, SourceItem, UdfHost, execute,
};
use orrery_types::{BudgetLimits, CancellationToken, ExecutionBudget, Value};

/// A moment in 2024, so that times look like times.
pub(crate) const NOW_US: i64 = 1_720_000_000_000_000;

/// A list of items; the position of each is its number.
pub(crate) struct MemorySource {
    items: Vec<Value>,
    at: usize,
}

impl MemorySource {
    pub(crate) fn new(items: Vec<Value>) -> Self {
        Self { items, at: 0 }
    }
}

impl ItemSource for MemorySource {
    fn seek(&mut self, place: SeekPosition<'_>) -> orrery_types::Result<()> {
        let SeekPosition::Key(key) = place else { panic!("items come in the order of keys") };
        self.at = usize::from_be_bytes(key.try_into().expect("a position of ours"));
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> orrery_types::Result<Vec<SourceItem>> {
        let end = (self.at + items_max.min(3)).min(self.items.len());
        let batch = (self.at..end).map(|at| SourceItem {
            value: self.items[at].clone(),
            text: None,
            row: at as u64,
            key: at.to_be_bytes().into(),
        });
        let batch = batch.collect();
        self.at = end;
        Ok(batch)
    }
}

/// The one user-defined function that the tests know.
pub(crate) struct Twice;

impl UdfHost for Twice {
    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        match (name, arguments) {
            ("twice", [Value::Number(n)]) => Ok(Value::from(n.as_f64() * 2.0)),
            ("twice", _) => Ok(Value::from(f64::NAN)),
            _ => Err(format!("no function '{name}'")),
        }
    }
}

/// What each execution is given.
#[derive(Clone, Default)]
pub(crate) struct Given {
    pub(crate) limits: BudgetLimits,
    pub(crate) cancellation: CancellationToken,
}

impl Given {
    /// Does something within a budget of its own.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&EvalContext<'_>) -> T) -> T {
        let budget = ExecutionBudget::new(self.limits).with_cancellation(Some(&self.cancellation));
        let context = EvalContext::new(&budget);
        work(&EvalContext { now_us: NOW_US, udfs: Some(&Twice), ..context })
    }
}

pub(crate) fn context() -> Given {
    let limits =
        BudgetLimits { steps_max: 20_000_000, bytes_max: 32 << 20, ..BudgetLimits::default() };
    Given { limits, ..Given::default() }
}

/// One page over items in the order of their keys.
pub(crate) fn page(
    query: &BoundQuery,
    source: &mut dyn ItemSource,
    continuation: Option<&str>,
    limits: PageLimits,
    given: &Given,
) -> Result<Page, QueryError> {
    let resume = continuation.map(|text| Resume::parse(text, query)).transpose()?;
    let run = Run::over_keys(resume);
    given.run(|context| execute(query, source, &run, limits, context))
}

/// All rows, page after page of so many.
pub(crate) fn all_rows(
    query: &BoundQuery,
    items: &[Value],
    rows_max: usize,
    given: &Given,
) -> Result<Vec<Value>, QueryError> {
    let limits = PageLimits { rows_max, ..PageLimits::default() };
    let mut rows = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let mut source = MemorySource::new(items.to_vec());
        let page = page(query, &mut source, continuation.as_deref(), limits, given)?;
        assert!(page.rows.len() <= rows_max, "a page holds {} rows", page.rows.len());
        rows.extend(page.rows.into_iter().map(orrery_query::Row::into_value));
        match page.continuation {
            Some(next) => continuation = Some(next),
            None => return Ok(rows),
        }
    }
}

/// Parses, binds and runs a query over items given as JSON.
pub(crate) fn run(text: &str, items: &str) -> Result<Vec<Value>, QueryError> {
    let items = Value::parse(items.as_bytes()).expect("items");
    let query = Query::parse(text)?.bind(&[], &ContainerFacts::default())?;
    all_rows(&query, items.as_array().expect("an array of items"), 1000, &context())
}
