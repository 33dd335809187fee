//! The memory of an execution: what it keeps to the end (rows that are sorted, grouped or compared)
//! and what the expressions under evaluation hold. Both are counted as they lie on the heap, and
//! bounded for the execution alone and, through a [`MemoryPool`], for all executions together.

use std::cell::Cell;

use orrery_types::Value;

use crate::error::QueryError;

/// The memory that all executions of a process share.
pub trait MemoryPool {
    /// Takes so many bytes; false if there are not as many left.
    fn reserve(&self, bytes: usize) -> bool;
    /// Gives them back.
    fn release(&self, bytes: usize);
}

/// What one execution uses.
pub(crate) struct Memory<'a> {
    bytes_max: usize,
    pool: Option<&'a dyn MemoryPool>,
    kept: Cell<usize>,
    held: Cell<usize>,
    reserved: Cell<usize>,
}

/// An execution that needs no more does not ask the pool.
const UNASKED_BYTES: usize = 64 * 1024;
/// What is taken from the pool at once.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Values that are smaller by themselves are not counted while an expression holds them: there are
/// no more of them than the text of the query has expressions.
const HELD_BYTES_MIN: usize = 4 * 1024;

impl<'a> Memory<'a> {
    pub(crate) fn new(bytes_max: usize, pool: Option<&'a dyn MemoryPool>) -> Self {
        let zero = || Cell::new(0);
        Self { bytes_max, pool, kept: zero(), held: zero(), reserved: zero() }
    }

    /// What may still be used.
    pub(crate) fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.kept.get()).saturating_sub(self.held.get())
    }

    /// Counts memory that is kept until the end, or until [`Self::release_to`].
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), QueryError> {
        self.kept.set(self.kept.get().saturating_add(bytes));
        self.check()
    }

    /// Kept so far.
    pub(crate) fn kept(&self) -> usize {
        self.kept.get()
    }

    /// Forgets what was kept since.
    pub(crate) fn release_to(&self, kept: usize) {
        self.kept.set(kept);
    }

    /// Counts a value that an expression holds until [`Self::drop_to`].
    pub(crate) fn hold(&self, value: &Value) -> Result<(), QueryError> {
        if shallow_bytes(value) < HELD_BYTES_MIN {
            return Ok(());
        }
        self.hold_bytes(heap_bytes(value, self.left()))
    }

    pub(crate) fn hold_bytes(&self, bytes: usize) -> Result<(), QueryError> {
        self.held.set(self.held.get().saturating_add(bytes));
        self.check()
    }

    /// Held so far.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// Forgets what was held since.
    pub(crate) fn drop_to(&self, held: usize) {
        self.held.set(held);
    }

    fn check(&self) -> Result<(), QueryError> {
        let used = self.kept.get().saturating_add(self.held.get());
        if used >= self.bytes_max {
            return Err(too_large());
        }
        let reserved = self.reserved.get();
        if used <= reserved.max(UNASKED_BYTES) {
            return Ok(());
        }
        let Some(pool) = self.pool else { return Ok(()) };
        let wanted = (used - reserved).next_multiple_of(CHUNK_BYTES);
        if !pool.reserve(wanted) {
            return Err(QueryError::Exhausted);
        }
        self.reserved.set(reserved + wanted);
        Ok(())
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            pool.release(self.reserved.get());
        }
    }
}

pub(crate) fn too_large() -> QueryError {
    QueryError::runtime(
        "The query exceeded the maximum memory for values that it builds and for rows that must be \
         sorted, grouped or compared with each other. Narrow its filter or use TOP.",
    )
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
