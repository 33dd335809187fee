//! The budget of one execution: how many steps it may take, how much it may read and hold, and until
//! when. Everything that runs for a request spends the same [`ExecutionBudget`]: the evaluator of the
//! query language, the cursors of the index and the loads of items. One that is exceeded stays
//! exceeded, so that work which swallows the first error ends with the next call.
//!
//! | Limit | When it is reached |
//! |---|---|
//! | steps, items, reads | the execution fails; under an inline budget it moves to a blocking thread |
//! | bytes | it fails; the pool of the process, which all budgets share, makes it fail with *try again* |
//! | page time, page steps | the page ends at the next place where it can be resumed |
//! | deadline | it fails |
//! | cancellation token | it fails: nobody waits for the result |
//!
//! The clock and the token are looked at every few thousand steps or reads, and so ends a time slice.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{CancellationToken, Clock, Error, limits};

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Steps of evaluation.
    Steps,
    /// Entries and items read from the store.
    Reads,
    /// Items that relations lead to.
    Items,
    /// Memory of the execution.
    Bytes,
    /// Memory of all executions of the process together.
    Pool,
    /// Time.
    Deadline,
    /// The cancellation token was cancelled.
    Cancelled,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => {
                "The query exceeded the maximum amount of work that one execution may take. \
                 Narrow its filter or its joins."
            }
            Self::Reads => "The query read more than one execution may read. Narrow its filter.",
            Self::Items => "The relations of the query lead to more items than it may load.",
            Self::Bytes => {
                "The query exceeded the maximum memory for values that it builds and for rows that \
                 must be sorted, grouped or compared with each other. Narrow its filter or use TOP."
            }
            Self::Pool => "The memory of queries is used up for now.",
            Self::Deadline => {
                "The query took longer than one execution may take. Narrow its filter, or give it \
                 an order that an index has."
            }
            Self::Cancelled => "The query was cancelled.",
        })
    }
}

impl std::error::Error for Exceeded {}

impl From<Exceeded> for Error {
    fn from(exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::Steps | Exceeded::Reads | Exceeded::Items | Exceeded::Bytes => {
                let mut text = String::from("{\"Errors\":[");
                crate::json::write_json_string(&exceeded.to_string(), &mut text);
                text.push_str("]}");
                Self::Query(text.into())
            }
            Exceeded::Pool => Self::RateLimited { retry_after_ms: limits::QUERY_MEMORY_RETRY_MS },
            Exceeded::Deadline | Exceeded::Cancelled => Self::Timeout(exceeded.to_string().into()),
        }
    }
}

/// The memory that all executions of a process share.
#[derive(Debug)]
pub struct MemoryPool {
    bytes_max: usize,
    used: AtomicUsize,
}

impl MemoryPool {
    /// A pool of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, used: AtomicUsize::new(0) }
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves so many bytes; false if there are not as many left.
    fn reserve(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Default for MemoryPool {
    fn default() -> Self {
        Self::new(limits::QUERY_MEMORY_TOTAL_BYTES_DEFAULT)
    }
}

/// How much an execution may use.
#[derive(Clone, Copy, Debug)]
pub struct BudgetLimits {
    /// Steps of evaluation, about one per expression and row.
    pub steps_max: u64,
    /// Steps after which a page ends where it can be resumed.
    pub page_steps: u64,
    /// Index entries read; an item counts as [`ITEM_READS`] of them.
    pub reads_max: u64,
    /// Items that relations lead to.
    pub items_max: u64,
    /// Memory.
    pub bytes_max: usize,
}

impl Default for BudgetLimits {
    /// Those of a page.
    fn default() -> Self {
        Self {
            steps_max: limits::QUERY_STEPS_MAX,
            page_steps: limits::QUERY_STEPS_MAX / 2,
            reads_max: u64::MAX,
            items_max: u64::MAX,
            bytes_max: limits::QUERY_MEMORY_BYTES_MAX,
        }
    }
}

impl BudgetLimits {
    /// Those of work on a connection's thread, about a millisecond: other connections wait for it.
    pub fn inline() -> Self {
        Self {
            steps_max: limits::INLINE_QUERY_STEPS_MAX,
            reads_max: limits::INLINE_QUERY_READS_MAX,
            items_max: limits::IN_PLACE_EXPAND_ITEMS_MAX as u64,
            ..Self::default()
        }
    }
}

/// Until when an execution may run, in microseconds of its clock.
#[derive(Clone, Copy)]
struct Deadlines<'a> {
    clock: &'a dyn Clock,
    page_us: u64,
    last_us: u64,
}

/// What one execution may use, and how much of it is used. It belongs to one thread.
pub struct ExecutionBudget<'a> {
    limits: BudgetLimits,
    pool: Option<&'a MemoryPool>,
    deadlines: Option<Deadlines<'a>>,
    cancellation: Option<&'a CancellationToken>,
    /// Called at the end of each time slice; may block while others run.
    end_slice: Option<&'a dyn Fn()>,
    steps: Cell<u64>,
    /// Steps at which the next check is due.
    steps_check: Cell<u64>,
    reads: Cell<u64>,
    reads_check: Cell<u64>,
    items: Cell<u64>,
    bytes: Cell<usize>,
    /// Taken from the pool.
    reserved: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
}

/// Reads that one item counts as.
pub const ITEM_READS: u64 = 16;
/// Steps between two checks, about a millisecond.
const STEPS_PER_CHECK: u64 = 1 << 14;
/// Reads between two checks, about a millisecond too.
const READS_PER_CHECK: u64 = 1 << 12;
/// An execution that needs no more does not ask the pool.
const UNASKED_BYTES: usize = 64 * 1024;
/// What is taken from the pool at once.
const CHUNK_BYTES: usize = 1024 * 1024;

impl Default for ExecutionBudget<'_> {
    /// The limits of a page, without clock, pool and token.
    fn default() -> Self {
        Self::new(BudgetLimits::default())
    }
}

impl<'a> ExecutionBudget<'a> {
    /// A budget without clock, pool and token.
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            pool: None,
            deadlines: None,
            cancellation: None,
            end_slice: None,
            steps: Cell::new(0),
            steps_check: Cell::new(STEPS_PER_CHECK.min(limits.steps_max)),
            reads: Cell::new(0),
            reads_check: Cell::new(READS_PER_CHECK.min(limits.reads_max)),
            items: Cell::new(0),
            bytes: Cell::new(0),
            reserved: Cell::new(0),
            exceeded: Cell::new(None),
        }
    }

    /// The same, with memory out of a pool.
    #[must_use]
    pub fn with_pool(mut self, pool: &'a MemoryPool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// The same, with so much time from now on for the page and for all of it.
    #[must_use]
    pub fn with_time(mut self, clock: &'a dyn Clock, page_ms: u64, all_ms: u64) -> Self {
        let now_us = clock.now_us();
        let (page_us, last_us) = (now_us + page_ms * 1000, now_us + all_ms * 1000);
        self.deadlines = Some(Deadlines { clock, page_us, last_us });
        self
    }

    /// The same, ended by a cancellation token.
    #[must_use]
    pub fn with_cancellation(mut self, token: Option<&'a CancellationToken>) -> Self {
        self.cancellation = token;
        self
    }

    /// The same, in time slices: `end_slice` is called at the end of each, and may block.
    #[must_use]
    pub fn with_slices(mut self, end_slice: &'a dyn Fn()) -> Self {
        self.end_slice = Some(end_slice);
        self
    }

    /// How much it may use.
    pub fn limits(&self) -> &BudgetLimits {
        &self.limits
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Which limit was reached, if one was.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }

    /// Takes steps of evaluation.
    #[inline]
    pub fn step(&self, steps: u64) -> Result<(), Exceeded> {
        let taken = self.steps.get().saturating_add(steps);
        self.steps.set(taken);
        if taken < self.steps_check.get() { Ok(()) } else { self.check_steps(taken) }
    }

    /// Reads entries of the store.
    #[inline]
    pub fn read(&self, entries: u64) -> Result<(), Exceeded> {
        let read = self.reads.get().saturating_add(entries);
        self.reads.set(read);
        if read < self.reads_check.get() { Ok(()) } else { self.check_reads(read) }
    }

    /// Loads items that relations lead to.
    pub fn load_related(&self, items: u64) -> Result<(), Exceeded> {
        self.items.set(self.items.get().saturating_add(items));
        if self.items.get() > self.limits.items_max { self.fail(Exceeded::Items) } else { Ok(()) }
    }

    #[cold]
    fn check_steps(&self, taken: u64) -> Result<(), Exceeded> {
        if taken > self.limits.steps_max {
            return self.fail(Exceeded::Steps);
        }
        self.check()?;
        self.steps_check.set(taken.saturating_add(STEPS_PER_CHECK).min(self.limits.steps_max));
        Ok(())
    }

    #[cold]
    fn check_reads(&self, read: u64) -> Result<(), Exceeded> {
        if read > self.limits.reads_max {
            return self.fail(Exceeded::Reads);
        }
        self.check()?;
        self.reads_check.set(read.saturating_add(READS_PER_CHECK).min(self.limits.reads_max));
        Ok(())
    }

    /// Ends a time slice, and looks at the token and the clock.
    pub fn check(&self) -> Result<(), Exceeded> {
        if let Some(exceeded) = self.exceeded.get() {
            return Err(exceeded);
        }
        if let Some(end_slice) = self.end_slice {
            end_slice();
        }
        if self.cancellation.is_some_and(CancellationToken::is_cancelled) {
            return self.fail(Exceeded::Cancelled);
        }
        match &self.deadlines {
            Some(at) if at.clock.now_us() > at.last_us => self.fail(Exceeded::Deadline),
            _ => Ok(()),
        }
    }

    #[cold]
    fn fail(&self, exceeded: Exceeded) -> Result<(), Exceeded> {
        let first = self.exceeded.get().unwrap_or(exceeded);
        self.exceeded.set(Some(first));
        // Whoever goes on is stopped by the next call.
        self.steps_check.set(0);
        self.reads_check.set(0);
        Err(first)
    }

    /// Whether a page should end here, where it can be resumed.
    pub fn is_page_over(&self) -> bool {
        self.steps.get() > self.limits.page_steps
            || self.deadlines.as_ref().is_some_and(|at| at.clock.now_us() > at.page_us)
    }

    /// Memory that may still be used.
    pub fn bytes_left(&self) -> usize {
        self.limits.bytes_max.saturating_sub(self.bytes.get())
    }

    /// Counts memory that is in use from now on.
    #[inline]
    pub fn take_bytes(&self, bytes: usize) -> Result<(), Exceeded> {
        let used = self.bytes.get().saturating_add(bytes);
        if used >= self.limits.bytes_max {
            return self.fail(Exceeded::Bytes);
        }
        if used > self.reserved.get().max(UNASKED_BYTES) {
            self.reserve_in_pool(used)?;
        }
        self.bytes.set(used);
        Ok(())
    }

    /// Counts memory that is free again.
    #[inline]
    pub fn give_bytes(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    #[cold]
    fn reserve_in_pool(&self, used: usize) -> Result<(), Exceeded> {
        let Some(pool) = self.pool else { return Ok(()) };
        let reserved = self.reserved.get();
        let wanted = (used - reserved).next_multiple_of(CHUNK_BYTES);
        if !pool.reserve(wanted) {
            return self.fail(Exceeded::Pool);
        }
        self.reserved.set(reserved + wanted);
        Ok(())
    }

    /// A reservation that holds nothing yet.
    pub fn reservation(&self) -> Reservation<'_> {
        Reservation { budget: self, bytes: 0 }
    }
}

impl Drop for ExecutionBudget<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            pool.release(self.reserved.get());
        }
    }
}

/// Memory of a list or batch, given back when it is dropped.
pub struct Reservation<'b> {
    budget: &'b ExecutionBudget<'b>,
    bytes: usize,
}

impl Reservation<'_> {
    /// Holds so many bytes from now on.
    pub fn set(&mut self, bytes: usize) -> Result<(), Exceeded> {
        if bytes > self.bytes {
            self.budget.take_bytes(bytes - self.bytes)?;
        } else {
            self.budget.give_bytes(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Holds so many bytes more.
    pub fn add(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.set(self.bytes.saturating_add(bytes))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.give_bytes(self.bytes);
    }
}

#[cfg(test)]
mod tests;
