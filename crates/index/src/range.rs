//! Index entries in the order of their values: a range of one path's terms or of a composite index, read
//! forward or backward, from any position.

use std::collections::VecDeque;

use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{Scan, Snapshot, Space, StorageError};
use orrery_types::ExecutionBudget;

use crate::postings::row_of;
use crate::read_error::ReadError;

/// One entry: the code of its value or values, and the row of the item that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct ValueEntry {
    pub code: Box<[u8]>,
    pub row: Row,
}

/// Reads a range of keys that consist of a head of fixed length, a code and a row.
pub struct ValueCursor<'s> {
    snapshot: &'s dyn Snapshot,
    budget: &'s ExecutionBudget<'s>,
    bounds: Bounds,
    head_bytes: usize,
    reverse: bool,
    buffer: VecDeque<ValueEntry>,
    batch: usize,
    exhausted: bool,
    read: u64,
}

const FIRST_BATCH: usize = 64;
const LARGEST_BATCH: usize = 4096;

impl<'s> ValueCursor<'s> {
    /// A cursor over the range; codes begin after so many bytes of the key.
    pub fn new(
        snapshot: &'s dyn Snapshot,
        bounds: Bounds,
        head_bytes: usize,
        reverse: bool,
        budget: &'s ExecutionBudget<'s>,
    ) -> Self {
        Self {
            snapshot,
            budget,
            bounds,
            head_bytes,
            reverse,
            buffer: VecDeque::new(),
            batch: FIRST_BATCH,
            exhausted: false,
            read: 0,
        }
    }

    /// The next entry.
    pub fn advance(&mut self) -> Result<Option<ValueEntry>, ReadError> {
        if self.buffer.is_empty() && !self.exhausted {
            self.fill()?;
        }
        Ok(self.buffer.pop_front())
    }

    /// The next entry, left where it is.
    pub fn peek(&mut self) -> Result<Option<&ValueEntry>, ReadError> {
        if self.buffer.is_empty() && !self.exhausted {
            self.fill()?;
        }
        Ok(self.buffer.front())
    }

    /// Entries read from the store so far.
    pub fn entries_read(&self) -> u64 {
        self.read
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        let scan = Scan {
            space: Space::Index,
            from: &self.bounds.from,
            to: &self.bounds.to,
            reverse: self.reverse,
            max_rows: self.batch,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        let entries = self.snapshot.scan(&scan)?;
        self.read += entries.len() as u64;
        self.budget.read(entries.len() as u64)?;
        self.exhausted = entries.len() < self.batch;
        self.batch = (self.batch * 4).min(LARGEST_BATCH);
        if let Some(last) = entries.last() {
            if self.reverse {
                self.bounds.to.clone_from(&last.key);
            } else {
                self.bounds.from = key::after(&last.key);
            }
        }
        for entry in &entries {
            let row = row_of(&entry.key)?;
            let code = entry.key.get(self.head_bytes..entry.key.len() - 8);
            let code = code
                .ok_or_else(|| StorageError::Corrupt("an index entry is too short".into()))?
                .into();
            self.buffer.push_back(ValueEntry { code, row });
        }
        Ok(())
    }
}
