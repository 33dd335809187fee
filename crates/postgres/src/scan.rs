//! Ranges of keys. The order of stored keys is that of keys but within a fold, which is read by itself in the order
//! of its tails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use orrery_storage::{Entry, KeyCursor, Scan, Space, StorageError, Value, key};
use orrery_types::{Lsn, ShardId};
use postgres::Row;

use crate::connection::{Lent, Parameters};
use crate::failure::read_error;
use crate::folded_key::{self, fold_end, fold_of, fold_start, tail_bound};

const FORWARD: &str = "SELECT key, tail, ver, value FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $4";
const REVERSE: &str = "SELECT key, tail, ver, value FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 ORDER BY key DESC LIMIT $4";
const FORWARD_KEYS: &str = "SELECT key, tail, ver FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $4";
const REVERSE_KEYS: &str = "SELECT key, tail, ver FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 ORDER BY key DESC LIMIT $4";
const FOLD_FORWARD: &str = "SELECT key, tail, ver, value FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 AND ($4::bytea IS NULL OR tail >= $4) \
    AND ($5::bytea IS NULL OR tail < $5) ORDER BY tail LIMIT $6";
const FOLD_REVERSE: &str = "SELECT key, tail, ver, value FROM kv \
    WHERE shard = $1 AND key >= $2 AND key < $3 AND ($4::bytea IS NULL OR tail >= $4) \
    AND ($5::bytea IS NULL OR tail < $5) ORDER BY tail DESC LIMIT $6";

/// Rows of the first page of a scan and of the largest.
const PAGE_ROWS_FIRST: usize = 32;
const PAGE_ROWS_MAX: usize = 1024;
/// Bytes that a page should not exceed, by the sizes of the entries before it.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The connection of a snapshot, in its transaction.
pub(crate) type SharedConnection<'p> = Arc<Mutex<Lent<'p>>>;

pub(crate) fn lock<'s, 'p>(shared: &'s SharedConnection<'p>) -> MutexGuard<'s, Lent<'p>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads within one shard of a snapshot.
#[derive(Clone)]
pub(crate) struct ShardReader<'p> {
    pub(crate) connection: SharedConnection<'p>,
    pub(crate) shard: ShardId,
    /// The same as the server's type.
    pub(crate) number: i32,
}

/// An entry in stored form.
struct StoredEntry {
    key: Vec<u8>,
    entry: Entry,
}

impl StoredEntry {
    fn read(row: &Row, has_value: bool) -> Self {
        let (key, tail): (Vec<u8>, Option<&[u8]>) = (row.get(0), row.get(1));
        let bytes = if has_value { Bytes::copy_from_slice(row.get(3)) } else { Bytes::new() };
        let entry = Entry {
            key: folded_key::original(&key, tail),
            value: Value { version: lsn(row, 2), bytes },
        };
        Self { key, entry }
    }
}

/// A number of the server's as an LSN.
pub(crate) fn lsn(row: &Row, column: usize) -> Lsn {
    Lsn(u64::try_from(row.get::<_, i64>(column)).unwrap_or_default())
}

/// What a scan has found so far.
struct Found<'s> {
    scan: &'s Scan<'s>,
    entries: Vec<Entry>,
    size_bytes: usize,
}

impl Found<'_> {
    /// Adds an entry; whether a bound of the scan is reached.
    fn push(&mut self, mut entry: Entry) -> bool {
        if self.scan.keys_only {
            entry.value.bytes = Bytes::new();
        }
        self.size_bytes += entry.key.len() + entry.value.bytes.len();
        self.entries.push(entry);
        self.entries.len() >= self.scan.max_rows || self.size_bytes >= self.scan.max_bytes
    }

    /// How many rows to ask for next.
    fn page_rows(&self) -> i64 {
        let found = self.entries.len();
        let grown = (found * 4).clamp(PAGE_ROWS_FIRST, PAGE_ROWS_MAX);
        let average = self.size_bytes / found.max(1);
        let by_bytes = (PAGE_BYTES / average.max(1)).max(1);
        let missing = self.scan.max_rows.saturating_sub(found).max(1);
        i64::try_from(grown.min(by_bytes).min(missing)).unwrap_or(1)
    }
}

impl ShardReader<'_> {
    pub(crate) fn rows(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StorageError> {
        lock(&self.connection).get().query(text, parameters).map_err(read_error)
    }

    pub(crate) fn scan(&self, scan: &Scan<'_>) -> Result<Vec<Entry>, StorageError> {
        if scan.from >= scan.to {
            return Ok(vec![]);
        }
        let mut found = Found { scan, entries: vec![], size_bytes: 0 };
        let result =
            if scan.reverse { self.backwards(&mut found) } else { self.forwards(&mut found) };
        result.map_err(|error| error.at(self.shard, scan.space, scan.from))?;
        Ok(found.entries)
    }

    fn page(
        &self,
        scan: &Scan<'_>,
        (from, to): (&[u8], &[u8]),
        rows_max: i64,
    ) -> Result<Vec<StoredEntry>, StorageError> {
        let text = match (scan.reverse, scan.keys_only) {
            (false, false) => FORWARD,
            (true, false) => REVERSE,
            (false, true) => FORWARD_KEYS,
            (true, true) => REVERSE_KEYS,
        };
        let rows = self.rows(text, &[&self.number, &from, &to, &rows_max])?;
        Ok(rows.iter().map(|row| StoredEntry::read(row, !scan.keys_only)).collect())
    }

    fn forwards(&self, found: &mut Found<'_>) -> Result<(), StorageError> {
        let scan = found.scan;
        let mut from = folded_key::lower_bound(scan.space, scan.from);
        let to = folded_key::upper_bound(scan.space, scan.to);
        loop {
            let rows_max = found.page_rows();
            let page = self.page(scan, (&from, &to), rows_max)?;
            let is_last = (page.len() as u64) < rows_max.unsigned_abs();
            let mut fold = None;
            for stored in page {
                if let Some(head) = fold_of(&stored.key) {
                    fold = Some(head.to_vec());
                    break;
                }
                from = key::after(&stored.key);
                if found.push(stored.entry) {
                    return Ok(());
                }
            }
            match fold {
                Some(head) if self.fold(found, &head)? => return Ok(()),
                Some(head) => from = fold_end(scan.space, &head),
                None if is_last => return Ok(()),
                None => {}
            }
        }
    }

    fn backwards(&self, found: &mut Found<'_>) -> Result<(), StorageError> {
        let scan = found.scan;
        let from = folded_key::lower_bound(scan.space, scan.from);
        let mut to = folded_key::upper_bound(scan.space, scan.to);
        loop {
            let rows_max = found.page_rows();
            let page = self.page(scan, (&from, &to), rows_max)?;
            let is_last = (page.len() as u64) < rows_max.unsigned_abs();
            let mut fold = None;
            for stored in page {
                if let Some(head) = fold_of(&stored.key) {
                    fold = Some(head.to_vec());
                    break;
                }
                to = stored.key;
                if found.push(stored.entry) {
                    return Ok(());
                }
            }
            match fold {
                Some(head) if self.fold(found, &head)? => return Ok(()),
                Some(head) => to = fold_start(scan.space, &head),
                None if is_last => return Ok(()),
                None => {}
            }
        }
    }

    /// Reads the keys of a fold that lie in the range; whether a bound of the scan is reached.
    fn fold(&self, found: &mut Found<'_>, head: &[u8]) -> Result<bool, StorageError> {
        let scan = found.scan;
        let text = if scan.reverse { FOLD_REVERSE } else { FOLD_FORWARD };
        let (start, end) = (fold_start(scan.space, head), fold_end(scan.space, head));
        let mut low = tail_bound(scan.from, head).map(<[u8]>::to_vec);
        let mut high = tail_bound(scan.to, head).map(<[u8]>::to_vec);
        loop {
            let rows_max = found.page_rows();
            let rows = self.rows(text, &[&self.number, &start, &end, &low, &high, &rows_max])?;
            for row in &rows {
                let tail: Vec<u8> = row.get(1);
                if scan.reverse {
                    high = Some(tail);
                } else {
                    low = Some(key::after(&tail));
                }
                if found.push(StoredEntry::read(row, true).entry) {
                    return Ok(true);
                }
            }
            if (rows.len() as u64) < rows_max.unsigned_abs() {
                return Ok(false);
            }
        }
    }
}

/// A walk along keys: a sequence of scans. A seek within what was read costs nothing.
pub(crate) struct PostgresKeys<'p> {
    reader: ShardReader<'p>,
    space: Space,
    to: Vec<u8>,
    page: Vec<Entry>,
    /// Where it stands in the page.
    at: usize,
    /// The page has all keys from here.
    from: Vec<u8>,
    /// Nothing comes after the page.
    is_last: bool,
    rows: usize,
}

impl<'p> PostgresKeys<'p> {
    pub(crate) fn new(
        reader: ShardReader<'p>,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> Result<Self, StorageError> {
        let (page, rows) = (vec![], PAGE_ROWS_FIRST);
        let mut keys = Self {
            reader,
            space,
            to: to.to_vec(),
            page,
            at: 0,
            from: vec![],
            is_last: false,
            rows,
        };
        keys.read(from.to_vec())?;
        Ok(keys)
    }

    fn read(&mut self, from: Vec<u8>) -> Result<(), StorageError> {
        let scan = Scan {
            space: self.space,
            from: &from,
            to: &self.to,
            reverse: false,
            max_rows: self.rows,
            max_bytes: PAGE_BYTES,
            keys_only: self.space.is_versioned(),
        };
        self.page = self.reader.scan(&scan)?;
        let size_bytes: usize = self.page.iter().map(|e| e.key.len() + e.value.bytes.len()).sum();
        self.is_last = self.page.len() < self.rows && size_bytes < PAGE_BYTES;
        (self.from, self.at) = (from, 0);
        self.rows = (self.rows * 4).min(PAGE_ROWS_MAX);
        Ok(())
    }
}

impl KeyCursor for PostgresKeys<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.page.get(self.at).map(|entry| &entry.key[..])
    }

    fn value(&self) -> Option<&[u8]> {
        self.page.get(self.at).map(|entry| &entry.value.bytes[..])
    }

    fn next(&mut self) -> Result<(), StorageError> {
        if self.at < self.page.len() {
            self.at += 1;
        }
        match self.page.last() {
            Some(last) if self.at == self.page.len() && !self.is_last => {
                let after = key::after(&last.key);
                self.read(after)
            }
            _ => Ok(()),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), StorageError> {
        let is_covered = self.is_last || self.page.last().is_some_and(|last| &last.key[..] >= key);
        if key >= &self.from[..] && is_covered {
            self.at = self.page.partition_point(|entry| &entry.key[..] < key);
            return Ok(());
        }
        self.rows = PAGE_ROWS_FIRST;
        self.read(key.to_vec())
    }
}
