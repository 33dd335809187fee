//! Rows of items, in ascending order, out of the index: the list of one term, of all items, and
//! what is made of lists by intersection, union and difference. Every cursor answers one question,
//! the first row at or after a given one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use orrery_storage::key::{self, Bounds, Row};
use orrery_storage::{KeyCursor, Snapshot, Space, StorageError};

type Result<T> = std::result::Result<T, StorageError>;

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
    pub fn of(snapshot: &'s dyn Snapshot, prefix: Vec<u8>) -> Self {
        Self::over(snapshot, Space::Index, prefix)
    }

    /// The rows of all items.
    pub fn all(snapshot: &'s dyn Snapshot) -> Self {
        Self::over(snapshot, Space::Items, key::all_rows().from)
    }

    fn over(snapshot: &'s dyn Snapshot, space: Space, prefix: Vec<u8>) -> Self {
        let (keys, counted) = (None, Vec::new());
        Self { snapshot, space, prefix, keys, counted, behind: 0, steps: STEPS_MAX, read: 0 }
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
        if self.behind < self.counted.len()
            && let Some(row) = self.seek_counted(target)
        {
            return Ok(Some(row));
        }
        let Some(keys) = &mut self.keys else {
            let (from, to) = (self.key(target), key::prefix_end(&self.prefix));
            let keys = self.keys.insert(self.snapshot.keys(self.space, &from, &to)?);
            self.read += 1;
            return keys.key().map(row_of).transpose();
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
        keys.key().map(row_of).transpose()
    }

    fn entries_read(&self) -> u64 {
        self.read
    }
}

/// The row at the end of an index key.
pub(crate) fn row_of(key: &[u8]) -> Result<Row> {
    let (_, row) = key
        .split_last_chunk::<8>()
        .ok_or_else(|| StorageError::Corrupt("an index entry is too short".into()))?;
    Ok(Row(u64::from_be_bytes(*row)))
}

/// Rows that are in memory.
#[derive(Debug, Default)]
pub struct RowList {
    rows: Vec<Row>,
    at: usize,
    read: u64,
}

impl RowList {
    /// Sorts them and drops repetitions; `read` is what it took to find them.
    pub fn new(mut rows: Vec<Row>, read: u64) -> Self {
        rows.sort_unstable();
        rows.dedup();
        Self { rows, at: 0, read }
    }
}

impl RowCursor for RowList {
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
}

impl<'s> Intersection<'s> {
    /// Of one list at least.
    pub fn new(lists: Vec<Rows<'s>>) -> Self {
        debug_assert!(!lists.is_empty(), "no list at all would be all rows");
        Self { lists }
    }
}

impl RowCursor for Intersection<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        let mut target = target;
        'again: loop {
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
}

impl<'s> Difference<'s> {
    /// The first without the second.
    pub fn new(rows: Rows<'s>, without: Rows<'s>) -> Self {
        Self { rows, without }
    }
}

impl RowCursor for Difference<'_> {
    fn seek(&mut self, target: Row) -> Result<Option<Row>> {
        let mut target = target;
        while let Some(row) = self.rows.seek(target)? {
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

/// All rows of a range of index keys, in whatever order they stand there; `None` if there are more
/// than so many.
pub fn collect_rows(
    snapshot: &dyn Snapshot,
    bounds: &Bounds,
    rows_max: usize,
) -> Result<Option<Vec<Row>>> {
    let mut rows = Vec::new();
    let mut keys = snapshot.keys(Space::Index, &bounds.from, &bounds.to)?;
    while let Some(key) = keys.key() {
        if rows.len() >= rows_max {
            return Ok(None);
        }
        rows.push(row_of(key)?);
        keys.next()?;
    }
    Ok(Some(rows))
}

#[cfg(test)]
mod tests {
    use orrery_storage::{Commit, MemoryStore, Part, Put, ReadAt, Store as _};
    use orrery_types::{Epoch, ShardId};

    use super::*;

    fn list(rows: &[u64]) -> Rows<'static> {
        Box::new(RowList::new(rows.iter().map(|n| Row(*n)).collect(), 0))
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
        let a = || list(&[1, 3, 5, 7, 9, 100]);
        let b = || list(&[3, 4, 5, 9, 9, 100, 101]);
        let c = || list(&[0, 5, 100]);
        assert_eq!(all(Box::new(Intersection::new(vec![a(), b(), c()]))), [5, 100]);
        assert_eq!(all(Box::new(Union::new(vec![a(), c()]))), [0, 1, 3, 5, 7, 9, 100]);
        assert_eq!(all(Box::new(Difference::new(a(), b()))), [1, 7]);
        assert_eq!(all(Box::new(Union::new(vec![]))), [0; 0]);
        assert_eq!(all(Box::new(Intersection::new(vec![a(), list(&[])]))), [0; 0]);
    }

    #[test]
    fn a_list_that_was_counted_is_read_as_any_other() {
        let store = MemoryStore::new();
        store.create_shard(ShardId(1), Epoch(1)).unwrap();
        let mut part = Part::new(ShardId(1), Epoch(1));
        let key = |row: u64| [&b"term"[..], &row.to_be_bytes()].concat();
        for row in (3..200).step_by(7) {
            part.puts.push(Put { space: Space::Index, key: key(row), value: vec![] });
        }
        store.commit(Commit { parts: vec![part] }).unwrap();
        let snapshot = store.snapshot(ShardId(1), ReadAt::Latest).unwrap();
        for counted in [0, 1, 5, 28, 29, 50] {
            for step in [1, 10, 60, 150] {
                let mut plain = Postings::of(&*snapshot, b"term".to_vec());
                let mut begun = Postings::of(&*snapshot, b"term".to_vec());
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
    fn a_cursor_can_begin_anywhere() {
        let mut union = Union::new(vec![list(&[1, 5]), list(&[2, 6])]);
        assert_eq!(union.seek(Row(3)).unwrap(), Some(Row(5)));
        assert_eq!(union.seek(Row(6)).unwrap(), Some(Row(6)));
        assert_eq!(union.seek(Row(7)).unwrap(), None);
    }
}
