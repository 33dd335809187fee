//! Rows of items in ascending order: the postings of one term, all rows, and their intersections, unions and
//! differences. Every cursor has one operation: the first row at or after a given one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{KeyCursor, Snapshot, Space, StorageError};
use orrery_types::{ExecutionBudget, Reservation};

use crate::read_error::ReadError;

type Result<T> = std::result::Result<T, ReadError>;

/// Rows in ascending order.
pub trait RowCursor {
    /// The first row at or after the target; targets never go back.
    fn seek(&mut self, target: Row) -> Result<Option<Row>>;
    /// Entries read from the store so far.
    fn entries_read(&self) -> u64;
}

/// A cursor of any kind.
pub type Rows<'s> = Box<dyn RowCursor + 's>;

/// Entries that are passed over on the way to a row before it is searched for: a step costs much less
/// than a search.
const STEPS_MAX: usize = 8;
/// Rows that are so far apart may have many entries between them.
const FAR: u64 = 64;

/// Entries whose keys are a fixed prefix and a row: the list of one term, or all items.
pub struct Postings<'s> {
    snapshot: &'s dyn Snapshot,
    budget: &'s ExecutionBudget<'s>,
    space: Space,
    prefix: Vec<u8>,
    /// Opened by the first question.
    keys: Option<Box<dyn KeyCursor + 's>>,
    /// The first rows, if they were counted before anybody asked for them; how many of them are behind.
    counted: Vec<Row>,
    behind: usize,
    /// Entries that are passed over on the way to a row far ahead: fewer where that did not reach it.
    steps: usize,
    read: u64,
}

impl<'s> Postings<'s> {
    /// The rows behind one prefix of the index.
    pub fn of(
        snapshot: &'s dyn Snapshot,
        prefix: Vec<u8>,
        budget: &'s ExecutionBudget<'s>,
    ) -> Self {
        Self::over(snapshot, Space::Index, prefix, budget)
    }

    /// The rows of all items.
    pub fn all(snapshot: &'s dyn Snapshot, budget: &'s ExecutionBudget<'s>) -> Self {
        Self::over(snapshot, Space::Items, key::all_rows().from, budget)
    }

    fn over(
        snapshot: &'s dyn Snapshot,
        space: Space,
        prefix: Vec<u8>,
        budget: &'s ExecutionBudget<'s>,
    ) -> Self {
        Self {
            snapshot,
            budget,
            space,
            prefix,
            keys: None,
            counted: Vec::new(),
            behind: 0,
            steps: STEPS_MAX,
            read: 0,
        }
    }

    /// What stands before the row in every key.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How many rows there are, counted up to so many; before any of them is asked for. What is
    /// read for that is not read again.
    pub fn count_up_to(&mut self, most: usize) -> Result<usize> {
        let keys = if let Some(keys) = &mut self.keys {
            keys
        } else {
            let (from, to) = (self.key(Row(0)), key::prefix_end(&self.prefix));
            self.keys.insert(self.snapshot.keys(self.space, &from, &to)?)
        };
        while self.counted.len() < most {
            let Some(key) = keys.key() else { break };
            self.counted.push(row_of(key)?);
            keys.next()?;
        }
        Ok(self.counted.len())
    }

    /// The first counted row at or after the target.
    fn seek_counted(&mut self, target: Row) -> Option<Row> {
        let rest = self.counted.get(self.behind..).unwrap_or_default();
        let passed = rest.partition_point(|row| *row < target);
        self.behind += passed;
        // About as many as a cursor would have read on the way.
        self.read += passed.min(STEPS_MAX + 1) as u64 + u64::from(self.read == 0);
        self.counted.get(self.behind).copied()
    }

    /// What stands beside the row that was found last.
    pub fn value(&self) -> Option<&[u8]> {
        self.keys.as_ref().and_then(|keys| keys.value())
    }

    fn key(&self, row: Row) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 8);
        key.extend_from_slice(&self.prefix);
        key.extend(row.0.to_be_bytes());
        key
    }
}

impl RowCursor for Postings<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        self.budget.read(1)?;
        if self.behind < self.counted.len()
            && let Some(row) = self.seek_counted(target)
        {
            return Ok(Some(row));
        }
        let Some(keys) = &mut self.keys else {
            let (from, to) = (self.key(target), key::prefix_end(&self.prefix));
            let keys = self.keys.insert(self.snapshot.keys(self.space, &from, &to)?);
            self.read += 1;
            return Ok(keys.key().map(row_of).transpose()?);
        };
        let mut is_far = None;
        for step in 0..=STEPS_MAX {
            let Some(key) = keys.key() else { return Ok(None) };
            let row = row_of(key)?;
            let is_far = *is_far.get_or_insert(target.0.saturating_sub(row.0) > FAR);
            if row >= target {
                if is_far {
                    self.steps = (self.steps * 2).min(STEPS_MAX);
                }
                return Ok(Some(row));
            }
            if step == if is_far { self.steps } else { STEPS_MAX } {
                break;
            }
            keys.next()?;
            self.read += 1;
        }
        if is_far == Some(true) {
            self.steps = (self.steps / 2).max(1);
        }
        let from = self.key(target);
        let Some(keys) = &mut self.keys else { return Ok(None) };
        keys.seek(&from)?;
        self.read += 1;
        Ok(keys.key().map(row_of).transpose()?)
    }

    fn entries_read(&self) -> u64 {
        self.read
    }
}

/// The row at the end of an index key.
pub(crate) fn row_of(key: &[u8]) -> std::result::Result<Row, StorageError> {
    let (_, row) = key
        .split_last_chunk::<8>()
        .ok_or_else(|| StorageError::Corrupt("an index entry is too short".into()))?;
    Ok(Row(u64::from_be_bytes(*row)))
}

/// Rows that are in memory.
#[derive(Default)]
pub struct RowList<'s> {
    rows: Vec<Row>,
    at: usize,
    read: u64,
    _held: Option<Reservation<'s>>,
}

impl<'s> RowList<'s> {
    /// Sorts them and drops repetitions.
    pub fn new(collected: CollectedRows<'s>) -> Self {
        let CollectedRows { mut rows, held } = collected;
        let read = rows.len() as u64;
        rows.sort_unstable();
        rows.dedup();
        Self { rows, at: 0, read, _held: Some(held) }
    }
}

impl RowCursor for RowList<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        let rest = &self.rows[self.at..];
        self.at += match rest.first() {
            Some(row) if *row >= target => 0,
            _ => rest.partition_point(|row| *row < target),
        };
        Ok(self.rows.get(self.at).copied())
    }

    fn entries_read(&self) -> u64 {
        self.read
    }
}

/// Rows that are in every one of several lists. The shortest list had better stand first.
pub struct Intersection<'s> {
    lists: Vec<Rows<'s>>,
    budget: &'s ExecutionBudget<'s>,
}

impl<'s> Intersection<'s> {
    /// Of one list at least.
    pub fn new(lists: Vec<Rows<'s>>, budget: &'s ExecutionBudget<'s>) -> Self {
        debug_assert!(!lists.is_empty(), "no list at all would be all rows");
        Self { lists, budget }
    }
}

impl RowCursor for Intersection<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        let mut target = target;
        'again: loop {
            self.budget.read(1)?;
            let mut row = target;
            for (number, list) in self.lists.iter_mut().enumerate() {
                let Some(found) = list.seek(row)? else { return Ok(None) };
                if found > row && number > 0 {
                    target = found;
                    continue 'again;
                }
                row = found;
            }
            return Ok(Some(row));
        }
    }

    fn entries_read(&self) -> u64 {
        self.lists.iter().map(|list| list.entries_read()).sum()
    }
}

/// Rows that are in any of several lists, each once.
pub struct Union<'s> {
    lists: Vec<Rows<'s>>,
    /// The next row of each list that has one; empty until the first question.
    heads: BinaryHeap<Reverse<(Row, usize)>>,
    opened: bool,
}

impl<'s> Union<'s> {
    /// Of any number of lists.
    pub fn new(lists: Vec<Rows<'s>>) -> Self {
        Self { lists, heads: BinaryHeap::new(), opened: false }
    }
}

impl RowCursor for Union<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        if !self.opened {
            self.opened = true;
            for (number, list) in self.lists.iter_mut().enumerate() {
                if let Some(row) = list.seek(target)? {
                    self.heads.push(Reverse((row, number)));
                }
            }
        }
        while let Some(Reverse((row, number))) = self.heads.peek().copied() {
            if row >= target {
                return Ok(Some(row));
            }
            self.heads.pop();
            if let Some(list) = self.lists.get_mut(number)
                && let Some(row) = list.seek(target)?
            {
                self.heads.push(Reverse((row, number)));
            }
        }
        Ok(None)
    }

    fn entries_read(&self) -> u64 {
        self.lists.iter().map(|list| list.entries_read()).sum()
    }
}

/// Rows of one list that are not in another.
pub struct Difference<'s> {
    rows: Rows<'s>,
    without: Rows<'s>,
    budget: &'s ExecutionBudget<'s>,
}

impl<'s> Difference<'s> {
    /// The first without the second.
    pub fn new(rows: Rows<'s>, without: Rows<'s>, budget: &'s ExecutionBudget<'s>) -> Self {
        Self { rows, without, budget }
    }
}

impl RowCursor for Difference<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        let mut target = target;
        while let Some(row) = self.rows.seek(target)? {
            self.budget.read(1)?;
            if self.without.seek(row)? != Some(row) {
                return Ok(Some(row));
            }
            target = Row(row.0.saturating_add(1));
        }
        Ok(None)
    }

    fn entries_read(&self) -> u64 {
        self.rows.entries_read() + self.without.entries_read()
    }
}

/// Rows that were collected, and the memory that they take.
pub struct CollectedRows<'s> {
    rows: Vec<Row>,
    held: Reservation<'s>,
}

impl<'s> CollectedRows<'s> {
    /// No rows.
    pub fn new(budget: &'s ExecutionBudget<'s>) -> Self {
        Self { rows: Vec::new(), held: budget.reservation() }
    }

    /// Adds one.
    pub fn push(&mut self, row: Row) -> Result<()> {
        if self.rows.len() == self.rows.capacity() {
            // While it grows, the list is in memory twice.
            let capacity = (self.rows.len() * 2).max(64);
            self.held.set((self.rows.len() + capacity) * size_of::<Row>())?;
            self.rows.reserve_exact(capacity - self.rows.len());
        }
        self.rows.push(row);
        Ok(())
    }

    /// Those so far, in the order in which they were added.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Removes and returns the last one.
    pub fn pop(&mut self) -> Option<Row> {
        self.rows.pop()
    }

    /// Adds all rows of a range of index keys, in whatever order they stand there; false if there are
    /// more than so many in all.
    pub fn add_range(
        &mut self,
        snapshot: &dyn Snapshot,
        bounds: &Bounds,
        rows_max: usize,
        budget: &ExecutionBudget<'_>,
    ) -> Result<bool> {
        let mut keys = snapshot.keys(Space::Index, &bounds.from, &bounds.to)?;
        while let Some(key) = keys.key() {
            if self.rows.len() >= rows_max {
                return Ok(false);
            }
            budget.read(1)?;
            self.push(row_of(key)?)?;
            keys.next()?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use orrery_storage::{Commit, MemoryStore, Part, Put, ReadAt, Store as _};
    use orrery_types::{CancellationToken, Epoch, Exceeded, ShardId};

    use super::*;

    fn list<'b>(budget: &'b ExecutionBudget<'b>, rows: &[u64]) -> Rows<'b> {
        let mut collected = CollectedRows::new(budget);
        for n in rows {
            collected.push(Row(*n)).unwrap();
        }
        Box::new(RowList::new(collected))
    }

    fn all(mut cursor: Rows<'_>) -> Vec<u64> {
        let mut rows = Vec::new();
        let mut target = Row(0);
        while let Some(row) = cursor.seek(target).unwrap() {
            rows.push(row.0);
            target = Row(row.0 + 1);
        }
        rows
    }

    #[test]
    fn lists_are_combined_as_sets() {
        let budget = &ExecutionBudget::default();
        let list = |rows: &[u64]| list(budget, rows);
        let a = || list(&[1, 3, 5, 7, 9, 100]);
        let b = || list(&[3, 4, 5, 9, 9, 100, 101]);
        let c = || list(&[0, 5, 100]);
        assert_eq!(all(Box::new(Intersection::new(vec![a(), b(), c()], budget))), [5, 100]);
        assert_eq!(all(Box::new(Union::new(vec![a(), c()]))), [0, 1, 3, 5, 7, 9, 100]);
        assert_eq!(all(Box::new(Difference::new(a(), b(), budget))), [1, 7]);
        assert_eq!(all(Box::new(Union::new(vec![]))), [0; 0]);
        assert_eq!(all(Box::new(Intersection::new(vec![a(), list(&[])], budget))), [0; 0]);
    }

    #[test]
    fn a_list_that_was_counted_is_read_as_any_other() {
        let store = MemoryStore::new();
        store.create_open_shard(ShardId(1), Epoch(1)).unwrap();
        let mut part = Part::new(ShardId(1), Epoch(1));
        let key = |row: u64| [&b"term"[..], &row.to_be_bytes()].concat();
        for row in (3..200).step_by(7) {
            part.puts.push(Put { space: Space::Index, key: key(row), value: vec![] });
        }
        store.commit(Commit::new(vec![part])).unwrap();
        let snapshot = store.snapshot(ShardId(1), ReadAt::Latest).unwrap();
        let budget = &ExecutionBudget::default();
        for counted in [0, 1, 5, 28, 29, 50] {
            for step in [1, 10, 60, 150] {
                let mut plain = Postings::of(&*snapshot, b"term".to_vec(), budget);
                let mut begun = Postings::of(&*snapshot, b"term".to_vec(), budget);
                assert_eq!(begun.count_up_to(counted / 2).unwrap(), (counted / 2).min(29));
                assert_eq!(begun.count_up_to(counted).unwrap(), counted.min(29));
                let mut target = Row(0);
                loop {
                    let row = plain.seek(target).unwrap();
                    assert_eq!(begun.seek(target).unwrap(), row, "{counted} {step} {target:?}");
                    let Some(row) = row else { break };
                    target = Row(row.0 + step);
                }
                assert_eq!(begun.entries_read() > 0, plain.entries_read() > 0);
            }
        }
    }

    #[test]
    fn lists_that_have_nothing_in_common_are_left_when_nobody_waits() {
        let token = CancellationToken::default();
        token.cancel();
        let budget = &ExecutionBudget::default().with_cancellation(Some(&token));
        let lists = || {
            let odd: Vec<u64> = (0..20_000).map(|n| 2 * n + 1).collect();
            let even: Vec<u64> = (0..20_000).map(|n| 2 * n).collect();
            (list(budget, &odd), list(budget, &even))
        };
        let (a, b) = lists();
        let found = Intersection::new(vec![a, b], budget).seek(Row(0));
        assert!(matches!(found, Err(ReadError::Exceeded(Exceeded::Cancelled))), "{found:?}");
        let (a, _) = lists();
        let (same, _) = lists();
        let found = Difference::new(a, same, budget).seek(Row(0));
        assert!(matches!(found, Err(ReadError::Exceeded(Exceeded::Cancelled))), "{found:?}");
    }

    #[test]
    fn a_cursor_can_begin_anywhere() {
        let budget = &ExecutionBudget::default();
        let mut union = Union::new(vec![list(budget, &[1, 5]), list(budget, &[2, 6])]);
        assert_eq!(union.seek(Row(3)).unwrap(), Some(Row(5)));
        assert_eq!(union.seek(Row(6)).unwrap(), Some(Row(6)));
        assert_eq!(union.seek(Row(7)).unwrap(), None);
    }
}
