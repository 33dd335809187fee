//! Cached numbers of rows for the terms of one partition. Long postings change little in a few commits, and
//! planning is most of the work of a small query. Only long postings are cached; short ones are counted. A
//! cached number affects the choice of a plan and never the result.

use std::sync::{Mutex, MutexGuard, PoisonError};

use orrery_types::{Lsn, limits};
use quick_cache::unsync::Cache;
use xxhash_rust::xxh3::xxh3_64;

/// An estimate stays valid for one commit for each so many rows.
const COMMITS_PART: u64 = 8;

/// Commits after which a list that had some rows may have few.
const COMMITS_MAX: u64 = 1000;

/// Notes by term.
#[derive(Debug)]
pub(crate) struct TermSizes {
    noted: Mutex<Cache<u64, Note>>,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    /// When it was right.
    at: Lsn,
    /// Where it stands for all rows, and not only for the least that there are.
    is_guess: bool,
    rows: u64,
}

impl Default for TermSizes {
    fn default() -> Self {
        Self { noted: Mutex::new(Cache::new(limits::INDEX_TERM_SIZES_MAX)) }
    }
}

impl TermSizes {
    /// The rows of a term, if they are noted and the note still holds.
    pub(crate) fn of(&self, term: &[u8], at: Lsn) -> Option<u64> {
        let note = *self.lock().get(&xxh3_64(term))?;
        let holds = note.is_guess && at.0.abs_diff(note.at.0) <= note.rows / COMMITS_PART;
        holds.then_some(note.rows)
    }

    /// Whether a term is known to have more rows than these.
    pub(crate) fn exceed(&self, term: &[u8], at: Lsn, most: usize) -> bool {
        let noted = self.lock();
        let note = noted.get(&xxh3_64(term));
        note.is_some_and(|note| note.rows > most as u64 && at.0.abs_diff(note.at.0) <= COMMITS_MAX)
    }

    /// Notes how many there are, by a guess.
    pub(crate) fn note(&self, term: &[u8], at: Lsn, rows: u64) {
        self.lock().insert(xxh3_64(term), Note { at, is_guess: true, rows });
    }

    /// Notes that there are so many at least, unless more is known.
    pub(crate) fn note_least(&self, term: &[u8], at: Lsn, rows: u64) {
        if self.of(term, at).is_none() {
            self.lock().insert(xxh3_64(term), Note { at, is_guess: false, rows });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cache<u64, Note>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_an_eighth_of_its_rows() {
        let sizes = TermSizes::default();
        assert_eq!(sizes.of(b"a", Lsn(5)), None);
        sizes.note(b"a", Lsn(100), 80);
        assert_eq!(sizes.of(b"a", Lsn(110)), Some(80));
        assert_eq!(sizes.of(b"a", Lsn(90)), Some(80), "an older view");
        assert_eq!(sizes.of(b"a", Lsn(111)), None);
        assert_eq!(sizes.of(b"b", Lsn(100)), None);
        sizes.note(b"a", Lsn(111), 90);
        assert_eq!(sizes.of(b"a", Lsn(111)), Some(90));
    }

    #[test]
    fn what_a_term_has_at_least_is_no_guess() {
        let sizes = TermSizes::default();
        sizes.note_least(b"a", Lsn(100), 25);
        assert_eq!(sizes.of(b"a", Lsn(100)), None);
        assert!(sizes.exceed(b"a", Lsn(1100), 24) && !sizes.exceed(b"a", Lsn(100), 25));
        assert!(!sizes.exceed(b"a", Lsn(1101), 24) && !sizes.exceed(b"b", Lsn(100), 0));
        sizes.note(b"a", Lsn(100), 800);
        sizes.note_least(b"a", Lsn(100), 25);
        assert_eq!(sizes.of(b"a", Lsn(100)), Some(800), "more is known");
    }
}
