//! Reads the write-ahead log before `RocksDB` replays it, to tell a crash from damage. A crash leaves a
//! log that ends in the middle of a record: at most one record is written at a time and none is
//! acknowledged before it is synced, so no whole record can follow such an end. After damage in the
//! middle of the log, acknowledged records do follow; `RocksDB` would drop them or, where a block is
//! zero, continue behind the gap. A store with such a log is not opened unless its owner accepts the
//! loss.
//!
//! Damage to the last record of the log cannot be told from a crash.
//!
//! Log files are recycled, so behind the last record of a log stand records of its earlier use. They
//! carry the number of the log that the file was then, and are no damage. `RocksDB` does take them for
//! damage: it continues with the next log only if the sequence numbers continue, and refuses to open a
//! database of which some column families were flushed later than that. So these remainders are cut off
//! before the log is replayed.
//!
//! - `records`   the format of the log
//! - `manifest`  which logs are replayed

mod manifest;
mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use manifest::Logs;
use records::{Ending, Place};

/// What to do about a log that is damaged in the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLogDamage {
    /// Leave everything as it is, and do not open the store.
    #[default]
    Refuse,
    /// Keep what lies before the damage, and set aside what lies behind it.
    Accept,
}

/// A log with whole records behind something that does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// The number in the name of the damaged file.
    pub log: u64,
    /// Where in the file the damage begins.
    pub at_byte: u64,
    /// Whether the file is missing, or shorter than it was when it was closed.
    pub is_cut: bool,
    /// Whole records behind the damage; each is a group of commits.
    pub records: u64,
    /// How many puts and deletes these records hold.
    pub entries: u64,
    /// The length of these records.
    pub bytes: u64,
    /// Whether the table files hold data of later logs, so that no earlier state can be restored.
    pub is_in_tables: bool,
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, at_byte, is_cut, records, entries, bytes, is_in_tables } = self;
        let what = if *is_cut { "missing or cut off" } else { "damaged" };
        let name = name(*log);
        write!(
            f,
            "{name} of the write-ahead log is {what} at byte {at_byte}, and {records} whole records with \
             {entries} changes ({bytes} bytes) lie behind that"
        )?;
        if *is_in_tables {
            f.write_str("; table files hold later data, so no earlier state can be kept")?;
        }
        Ok(())
    }
}

/// The file of a log.
pub(super) fn name(log: u64) -> String {
    format!("{log:06}.log")
}

/// The logs in a folder, by number.
fn list(files: &Path) -> io::Result<Vec<u64>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(files)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log"));
        logs.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    logs.sort_unstable();
    Ok(logs)
}

/// The log that was begun last.
pub(super) fn newest(files: &Path) -> io::Result<Option<u64>> {
    Ok(list(files)?.pop())
}

/// What the logs hold that will be replayed.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    /// Whole records behind something that does not read.
    pub(super) damage: Option<LogDamage>,
    /// Logs with remainders of an earlier use behind their last record, which ends there.
    remainders: Vec<(u64, u64)>,
}

/// The first place that does not read, and what is whole behind it.
#[derive(Default)]
struct Search {
    /// The sequence number that the next record has.
    next: Option<u64>,
    damage: Option<LogDamage>,
    remainders: Vec<(u64, u64)>,
}

impl Search {
    fn damaged(&mut self, log: u64, at_byte: u64) {
        self.damage.get_or_insert(LogDamage {
            log,
            at_byte,
            is_cut: false,
            records: 0,
            entries: 0,
            bytes: 0,
            is_in_tables: false,
        });
    }

    /// What was synced is not there; nothing goes on behind it.
    fn cut(&mut self, log: u64, at_byte: u64) {
        self.damaged(log, at_byte);
        if let Some(damage) = self.damage.as_mut().filter(|damage| damage.log == log) {
            damage.is_cut = true;
            self.next = None;
        }
    }

    /// Reads one log. `synced` is the length that it had when it was closed, if that is known.
    fn log(&mut self, files: &Path, log: u64, synced: Option<u64>) -> io::Result<()> {
        // The number in the fragments of a recycled file has 32 bits.
        #[expect(clippy::cast_possible_truncation, reason = "as it is written")]
        let number = log as u32;
        let mut is_first = true;
        let mut short = None;
        let ending = records::read(&files.join(name(log)), number, |place, record| {
            let Some((sequence, count)) = record.batch() else {
                short = short.or(Some(record.at));
                return;
            };
            // After a crash the next log begins with the number that the unfinished record had.
            let goes_on = place == Place::InOrder && self.next == Some(sequence);
            if std::mem::take(&mut is_first) && goes_on {
                self.damage.take_if(|damage| damage.records == 0);
            }
            let is_behind = place == Place::BehindDamage || short.is_some();
            if is_behind && self.damage.is_none() {
                // Where it begins is known once the file is read.
                self.damaged(log, 0);
            }
            match &mut self.damage {
                None => self.next = Some(sequence.saturating_add(u64::from(count))),
                // What has a lower number was replayed, or belongs to an earlier use of the disk.
                Some(damage) if self.next.is_none_or(|next| sequence >= next) => {
                    damage.records += 1;
                    damage.entries += u64::from(count);
                    damage.bytes += record.payload.len() as u64;
                }
                Some(_) => {}
            }
        })?;
        let damage = [ending.damage, short].into_iter().flatten().min();
        self.end(log, Ending { damage, ..ending }, synced);
        Ok(())
    }

    /// Judges what stands behind the records of a log.
    fn end(&mut self, log: u64, ending: Ending, synced: Option<u64>) {
        let content_bytes = ending.content_bytes();
        if ending.is_recyclable && content_bytes < ending.file_bytes {
            self.remainders.push((log, content_bytes));
        }
        let has_records_behind =
            self.damage.as_ref().is_some_and(|damage| damage.log == log && damage.records > 0);
        if !has_records_behind && let Some(synced) = synced {
            // All that the log had when it was closed is whole, or its end is gone.
            if content_bytes < synced {
                self.cut(log, content_bytes);
            }
            return;
        }
        if let Some(end) = ending.damage {
            self.damaged(log, end);
            if let Some(damage) = self.damage.as_mut().filter(|damage| damage.log == log) {
                damage.at_byte = end;
            }
        }
    }
}

/// Reads the logs that will be replayed.
pub(super) fn inspect(files: &Path) -> io::Result<Inspection> {
    let logs = Logs::read(files).unwrap_or_default();
    let synced: BTreeMap<u64, u64> = logs.synced().collect();
    let present: Vec<u64> = list(files)?.into_iter().filter(|log| *log >= logs.first()).collect();
    let mut all: Vec<u64> = present.iter().chain(synced.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    let mut search = Search::default();
    for log in all {
        let synced = synced.get(&log).copied();
        if present.binary_search(&log).is_ok() {
            search.log(files, log, synced)?;
        } else {
            search.cut(log, 0);
        }
    }
    let is_hole = |damage: &LogDamage| damage.records > 0 || damage.is_cut;
    let damage = search.damage.filter(is_hole).map(|mut damage| {
        damage.is_in_tables = logs.is_in_tables_after(damage.log);
        damage
    });
    Ok(Inspection { damage, remainders: search.remainders })
}

impl Inspection {
    /// Cuts off what stands behind the last record of recycled logs.
    pub(super) fn cut_remainders(&self, files: &Path) -> io::Result<()> {
        for (log, content_bytes) in &self.remainders {
            // A damaged log may have been set aside.
            let path = files.join(name(*log));
            if path.exists() {
                let file = File::options().write(true).open(&path)?;
                if file.metadata()?.len() > *content_bytes {
                    file.set_len(*content_bytes)?;
                    file.sync_all()?;
                }
            }
        }
        Ok(())
    }
}

/// Takes the damaged end of the log out of the database's folder, so that what is replayed ends where
/// the damage begins. All of it is kept in `aside`.
pub(super) fn set_aside(files: &Path, damage: &LogDamage, aside: &Path) -> io::Result<()> {
    orrery_files::create_folders(aside)?;
    // From the last on: until the damaged file itself is cut, the damage shows at the next start.
    for log in list(files)?.into_iter().rev().filter(|log| *log > damage.log) {
        orrery_files::rename(&files.join(name(log)), &aside.join(name(log)))?;
    }
    let damaged = files.join(name(damage.log));
    if damaged.exists() {
        let mut copy = orrery_files::create(&aside.join(name(damage.log)))?;
        io::copy(&mut File::open(&damaged)?, &mut copy)?;
        copy.sync_all()?;
        let file = File::options().write(true).open(&damaged)?;
        file.set_len(damage.at_byte)?;
        file.sync_all()?;
    }
    Ok(())
}
