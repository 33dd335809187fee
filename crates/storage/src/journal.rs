//! The changes that commits made to a shard since the journal was opened: for the copier of the shard while
//! it is written to. Of each key only the last state is kept, so the order in which the keys are
//! taken does not matter.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use orrery_types::Lsn;

use crate::{Part, Space, StorageError, Value};

/// A key with its value and version, or that it is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Copied {
    pub space: Space,
    pub key: Vec<u8>,
    pub value: Option<Value>,
}

impl Copied {
    /// Bytes of the key and the value.
    pub fn size_bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, |value| value.bytes.len())
    }
}

/// The changes of one shard that nobody has taken yet. Commits are added to it as long as it is
/// held, whichever process makes them, and before they are answered.
pub trait Journal: std::fmt::Debug + Send + Sync {
    /// Takes the changes, items before what leads to them: of each key that was changed, the state that it has now.
    fn take(&self) -> Result<Vec<Copied>, JournalError>;
}

/// Why a journal has no changes to give. A copy that depends on it has to begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// More was written than a journal holds, or it was not read for too long; what it held is lost.
    Overflown,
    /// It could not be read.
    Failed(StorageError),
}

/// The journal of an engine in this process.
#[derive(Debug)]
pub struct MemoryJournal {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    changes: HashMap<(Space, Vec<u8>), Option<Value>>,
    bytes: usize,
    overflown: bool,
}

impl Journal for MemoryJournal {
    fn take(&self) -> Result<Vec<Copied>, JournalError> {
        let mut state = self.lock();
        if state.overflown {
            return Err(JournalError::Overflown);
        }
        let taken = std::mem::take(&mut *state);
        drop(state);
        let copied = |((space, key), value)| Copied { space, key, value };
        let mut changes: Vec<Copied> = taken.changes.into_iter().map(copied).collect();
        changes.sort_unstable_by(|a, b| (a.space, &a.key).cmp(&(b.space, &b.key)));
        Ok(changes)
    }
}

impl MemoryJournal {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the changes that wait.
    pub fn size_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Forgets everything: it may lack a commit.
    pub(crate) fn end(&self) {
        *self.lock() = State { overflown: true, ..State::default() };
    }

    /// Adds what a part of a commit did under its LSN.
    pub(crate) fn record(&self, part: &Part, lsn: Lsn) {
        let mut state = self.lock();
        if state.overflown {
            return;
        }
        for (space, key) in &part.deletes {
            state.set(*space, key.clone(), None);
        }
        let value = |space: Space, bytes: &[u8]| {
            let version = if space.is_versioned() { lsn } else { Lsn(0) };
            Some(Value { version, bytes: Bytes::copy_from_slice(bytes) })
        };
        for put in &part.puts {
            state.set(put.space, put.key.clone(), value(put.space, &put.value));
        }
        for (key, entry) in part.numbered(lsn) {
            state.set(Space::Feed, key, value(Space::Feed, entry));
        }
        if state.bytes > self.bytes_max {
            *state = State { overflown: true, ..State::default() };
        }
    }
}

impl State {
    fn set(&mut self, space: Space, key: Vec<u8>, value: Option<Value>) {
        let size = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.bytes.len());
        let (key_bytes, value_bytes) = (key.len(), size(&value));
        self.bytes += value_bytes;
        match self.changes.insert((space, key), value) {
            Some(old) => self.bytes -= size(&old),
            None => self.bytes += key_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_types::{Epoch, ShardId};

    use super::*;
    use crate::Put;

    fn part(deletes: &[&str], puts: &[(&str, &str)]) -> Part {
        let mut part = Part::new(ShardId(1), Epoch(1));
        part.deletes = deletes.iter().map(|key| (Space::Items, key.as_bytes().to_vec())).collect();
        let put = |(key, value): &(&str, &str)| Put {
            space: Space::Items,
            key: key.as_bytes().to_vec(),
            value: value.as_bytes().to_vec(),
        };
        part.puts = puts.iter().map(put).collect();
        part
    }

    #[test]
    fn the_last_state_of_each_key_is_kept() {
        let journal = MemoryJournal::new(1000);
        journal.record(&part(&[], &[("a", "1"), ("b", "1")]), Lsn(5));
        let mut fed = part(&["b"], &[("a", "two")]);
        fed.feed.push(b"a".to_vec());
        journal.record(&fed, Lsn(6));
        let state = |space, key: &[u8], value: Option<(u64, &str)>| Copied {
            space,
            key: key.to_vec(),
            value: value.map(|(v, b)| Value {
                version: Lsn(v),
                bytes: Bytes::copy_from_slice(b.as_bytes()),
            }),
        };
        let feed_key = crate::key::feed(Lsn(6), 0);
        let expected = vec![
            state(Space::Items, b"a", Some((6, "two"))),
            state(Space::Items, b"b", None),
            state(Space::Feed, &feed_key, Some((0, "a"))),
        ];
        let bytes: usize = expected.iter().map(Copied::size_bytes).sum();
        assert_eq!(journal.size_bytes(), bytes);
        assert_eq!(journal.take(), Ok(expected));
        assert_eq!((journal.size_bytes(), journal.take()), (0, Ok(vec![])));
    }

    #[test]
    fn too_much_is_told_and_not_kept() {
        let journal = MemoryJournal::new(10);
        journal.record(&part(&[], &[("a", "0123456789")]), Lsn(1));
        journal.record(&part(&[], &[("a", "0")]), Lsn(2));
        assert_eq!((journal.size_bytes(), journal.take()), (0, Err(JournalError::Overflown)));
    }
}
