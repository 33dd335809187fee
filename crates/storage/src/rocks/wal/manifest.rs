//! What the MANIFEST says about logs: from which number on they are replayed, which closed ones were
//! synced and how long they were then, and which column families have data of later logs in tables.
//!
//! A record is a list of fields, each a tag and what belongs to it. Tags that this version of `RocksDB`
//! does not know carry their length if they may be skipped. Where a MANIFEST does not read, its reader
//! in `RocksDB` says what is wrong; here nothing is known then.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::records::{self, Place};

/// Tags from here on, but for four old ones, carry their length.
const TAG_SKIPPED_MIN: u64 = 1 << 13;
const TAG_WAL_ADDED: u64 = TAG_SKIPPED_MIN + 7;
const TAG_WALS_DELETED: u64 = TAG_SKIPPED_MIN + 8;
/// Of the fields of a new table file: the last one, and one about logs.
const FILE_END: u64 = 1;
const FILE_MIN_LOG: u64 = 3;
const WAL_SIZE: u64 = 2;

/// A column family.
#[derive(Debug, Default)]
struct Family {
    /// What older logs hold for it is in tables.
    log: u64,
    /// How many tables it has.
    tables: i64,
}

/// What is known of logs.
#[derive(Debug, Default)]
pub(super) struct Logs {
    families: BTreeMap<u64, Family>,
    kept_from: u64,
    /// Closed logs, with the length that was synced.
    synced: BTreeMap<u64, u64>,
}

impl Logs {
    /// Reads the MANIFEST that is in use.
    pub(super) fn read(files: &Path) -> Option<Self> {
        let current = fs::read_to_string(files.join("CURRENT")).ok()?;
        let mut logs = Self::default();
        let mut known = Some(());
        let path = files.join(current.trim());
        let read = records::read(&path, 0, |place, record| {
            // The last record may have been cut off by a crash; nothing may come behind it.
            let applied = (place == Place::InOrder).then(|| logs.apply(record.payload)).flatten();
            known = known.and(applied);
        });
        read.ok()?;
        known?;
        Some(logs)
    }

    /// The first log that is replayed.
    pub(super) fn first(&self) -> u64 {
        let unflushed = self.families.values().map(|family| family.log).min();
        self.kept_from.max(unflushed.unwrap_or(0))
    }

    /// The synced lengths of logs that are replayed.
    pub(super) fn synced(&self) -> impl Iterator<Item = (u64, u64)> {
        let first = self.first();
        self.synced.iter().map(|(log, bytes)| (*log, *bytes)).filter(move |(log, _)| *log >= first)
    }

    /// Whether tables hold what came after a log: then nothing that the log lacks can be left out.
    pub(super) fn is_in_tables_after(&self, log: u64) -> bool {
        self.families.values().any(|family| family.log > log && family.tables > 0)
    }

    fn apply(&mut self, record: &[u8]) -> Option<()> {
        let (mut fields, mut family) = (Fields(record), 0);
        let (mut log, mut tables, mut is_dropped, mut is_added) = (None, 0, false, false);
        while !fields.0.is_empty() {
            match fields.number()? {
                2 => log = Some(fields.number()?),
                3 | 4 | 9 | 203 | 300 => drop(fields.number()?),
                5 => fields.numbers_and_texts(1, 1)?,
                6 => {
                    fields.numbers_and_texts(2, 0)?;
                    tables -= 1;
                }
                10 => self.kept_from = self.kept_from.max(fields.number()?),
                103 => {
                    fields.numbers_and_texts(3, 2)?;
                    fields.numbers_and_texts(2, 0)?;
                    self.file_fields(&mut fields)?;
                    tables += 1;
                }
                200 => family = fields.number()?,
                1 => drop(fields.text()?),
                201 => {
                    fields.text()?;
                    is_added = true;
                }
                202 => is_dropped = true,
                TAG_WAL_ADDED => self.wal_added(fields.text()?)?,
                TAG_WALS_DELETED => {
                    let before = Fields(fields.text()?).number()?;
                    self.synced.retain(|log, _| *log >= before);
                }
                tag if tag >= TAG_SKIPPED_MIN && !(2..=5).contains(&(tag - TAG_SKIPPED_MIN)) => {
                    fields.text()?;
                }
                _ => return None,
            }
        }
        if is_dropped {
            self.families.remove(&family);
            return Some(());
        }
        if is_added || log.is_some() || tables != 0 {
            let family = self.families.entry(family).or_default();
            family.log = family.log.max(log.unwrap_or(0));
            family.tables += tables;
        }
        Some(())
    }

    fn file_fields(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        loop {
            let tag = fields.number()?;
            if tag == FILE_END {
                return Some(());
            }
            let field = fields.text()?;
            if tag == FILE_MIN_LOG {
                let log = u64::from_le_bytes(*field.first_chunk()?);
                self.kept_from = self.kept_from.max(log);
            }
        }
    }

    fn wal_added(&mut self, text: &[u8]) -> Option<()> {
        let mut fields = Fields(text);
        let log = fields.number()?;
        while !fields.0.is_empty() {
            if fields.number()? == WAL_SIZE {
                let bytes = fields.number()?;
                self.synced.insert(log, bytes);
            }
        }
        Some(())
    }
}

/// Takes fields off the front of a record.
struct Fields<'f>(&'f [u8]);

impl<'f> Fields<'f> {
    /// Seven bits a byte, the low ones first; the high bit says that more follow.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'f [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn numbers_and_texts(&mut self, numbers: usize, texts: usize) -> Option<()> {
        for _ in 0..numbers {
            self.number()?;
        }
        for _ in 0..texts {
            self.text()?;
        }
        Some(())
    }
}
