//! The memory of an evaluation: what it keeps to the end (rows that are sorted, grouped or compared)
//! and what the expressions under evaluation hold. Both are counted as they lie on the heap, in the
//! [`ExecutionBudget`], which bounds them for the execution and for all executions together.

use std::cell::Cell;

use orrery_types::{ExecutionBudget, Value};

use crate::error::QueryError;

/// What one evaluation uses; given back when it ends.
pub(crate) struct EvaluationMemory<'a> {
    budget: &'a ExecutionBudget<'a>,
    kept: Cell<usize>,
    held: Cell<usize>,
}

/// Values that are smaller by themselves are not counted while an expression holds them: there are
/// no more of them than the text of the query has expressions.
const HELD_BYTES_MIN: usize = 4 * 1024;

impl<'a> EvaluationMemory<'a> {
    pub(crate) fn new(budget: &'a ExecutionBudget<'a>) -> Self {
        Self { budget, kept: Cell::new(0), held: Cell::new(0) }
    }

    /// What may still be used.
    pub(crate) fn left(&self) -> usize {
        self.budget.bytes_left()
    }

    /// Counts memory that is kept until the end, or until [`Self::release_to`].
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), QueryError> {
        take(self.budget, &self.kept, bytes)
    }

    /// Kept so far.
    pub(crate) fn kept(&self) -> usize {
        self.kept.get()
    }

    /// Forgets what was kept since.
    pub(crate) fn release_to(&self, kept: usize) {
        give(self.budget, &self.kept, kept);
    }

    /// Counts a value that an expression holds until [`Self::drop_to`].
    pub(crate) fn hold(&self, value: &Value) -> Result<(), QueryError> {
        if shallow_bytes(value) < HELD_BYTES_MIN {
            return Ok(());
        }
        self.hold_bytes(heap_bytes(value, self.left()))
    }

    pub(crate) fn hold_bytes(&self, bytes: usize) -> Result<(), QueryError> {
        take(self.budget, &self.held, bytes)
    }

    /// Held so far.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// Forgets what was held since.
    pub(crate) fn drop_to(&self, held: usize) {
        if self.held.get() != held {
            give(self.budget, &self.held, held);
        }
    }
}

fn take(
    budget: &ExecutionBudget<'_>,
    account: &Cell<usize>,
    bytes: usize,
) -> Result<(), QueryError> {
    budget.take_bytes(bytes)?;
    account.set(account.get() + bytes);
    Ok(())
}

/// Brings an account back to what it was.
fn give(budget: &ExecutionBudget<'_>, account: &Cell<usize>, to: usize) {
    budget.give_bytes(account.get().saturating_sub(to));
    account.set(to);
}

impl Drop for EvaluationMemory<'_> {
    fn drop(&mut self) {
        self.budget.give_bytes(self.kept.get() + self.held.get());
    }
}

/// What an allocator takes for so many bytes.
pub(crate) const fn allocated(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

/// The counters before what is shared.
const COUNTERS: usize = 2 * size_of::<usize>();

/// Memory of a value without what its parts hold.
pub(crate) fn shallow_bytes(value: &Value) -> usize {
    match value {
        Value::String(s) => s.len(),
        Value::Array(elements) => elements.len() * size_of::<Value>(),
        Value::Object(object) => object.len() * 40,
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Memory of a value and all its parts; what is shared counts each time. Counting ends at `max`.
pub(crate) fn heap_bytes(value: &Value, max: usize) -> usize {
    let mut size = size_of::<Value>();
    match value {
        Value::String(s) => size += allocated(COUNTERS + s.len()),
        Value::Array(elements) => {
            size += allocated(COUNTERS + size_of::<Vec<Value>>()) + allocated(0);
            for element in elements.iter() {
                if size >= max {
                    break;
                }
                size += heap_bytes(element, max - size);
            }
        }
        Value::Object(object) => {
            size += allocated(COUNTERS + size_of::<Vec<Value>>()) + allocated(0);
            for (name, value) in object.iter() {
                if size >= max {
                    break;
                }
                size += size_of_val(name) + allocated(COUNTERS + name.len());
                size += heap_bytes(value, max.saturating_sub(size));
            }
        }
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    size
}
