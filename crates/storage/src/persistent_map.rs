//! The persistent ordered map of the memory store: sorted runs of entries, shared until they change. A
//! clone costs a counter; the first write after it copies the list of runs and the one run it
//! touches, so that a commit beside a long query stays cheap in a large store.
//!
//! `imbl::OrdMap` has the same contract. Its licence, MPL-2.0, is not among those that `deny.toml` permits.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// A run that grows past this is cut in two.
const RUN_LENGTH_MAX: usize = 256;

type Key = Arc<[u8]>;
type Run<V> = Vec<(Key, V)>;

/// An ordered map from bytes to values.
#[derive(Clone, Debug)]
pub(crate) struct PersistentMap<V> {
    /// Runs by a key that is not above their first and is above the last of the run before. The
    /// first run has the empty key, so every key has a run; no other run is empty.
    runs: Arc<BTreeMap<Key, Arc<Run<V>>>>,
}

impl<V> Default for PersistentMap<V> {
    fn default() -> Self {
        let first = (Key::from([]), Arc::default());
        Self { runs: Arc::new(BTreeMap::from([first])) }
    }
}

impl<V: Clone> PersistentMap<V> {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let (_, run) = self.runs.range::<[u8], _>((Unbounded, Included(key))).next_back()?;
        let at = run.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        run.get(at).map(|(_, value)| value)
    }

    /// Sets a value and returns the one before.
    pub(crate) fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let runs = Arc::make_mut(&mut self.runs);
        let (_, run) = runs
            .range_mut::<[u8], _>((Unbounded, Included(key)))
            .next_back()
            .expect("the first run begins below every key");
        let run = Arc::make_mut(run);
        match run.binary_search_by(|(k, _)| (**k).cmp(key)) {
            Ok(at) => Some(std::mem::replace(&mut run[at].1, value)),
            Err(at) => {
                run.insert(at, (key.into(), value));
                if run.len() > RUN_LENGTH_MAX {
                    // Keys that only ever rise leave full runs behind them.
                    let rising = at + 1 == run.len();
                    let cut = if rising { at } else { run.len() / 2 };
                    let tail = run.split_off(cut);
                    runs.insert(tail[0].0.clone(), Arc::new(tail));
                }
                None
            }
        }
    }

    /// Removes a key and returns its value.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        // Removing what is not there must not copy anything.
        self.get(key)?;
        let runs = Arc::make_mut(&mut self.runs);
        let (first, run) = runs.range_mut::<[u8], _>((Unbounded, Included(key))).next_back()?;
        let run = Arc::make_mut(run);
        let at = run.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        let (_, value) = run.remove(at);
        if run.is_empty() && !first.is_empty() {
            let first = first.clone();
            runs.remove(&first);
        }
        Some(value)
    }

    /// All entries in order.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.runs.values().flat_map(|run| run.iter()).map(|(k, v)| (&**k, v))
    }

    /// Entries from `from` (inclusive) to `to` (exclusive), from either end.
    pub(crate) fn range<'m>(
        &'m self,
        from: &'m [u8],
        to: &'m [u8],
    ) -> impl DoubleEndedIterator<Item = (&'m [u8], &'m V)> {
        let to = to.max(from);
        let first = self.runs.range::<[u8], _>((Unbounded, Included(from))).next_back();
        let start = first.map_or(from, |(key, _)| key);
        let end = if start < to { Excluded(to) } else { Included(start) };
        self.runs
            .range::<[u8], _>((Included(start), end))
            .flat_map(move |(_, run)| {
                let low = run.partition_point(|(k, _)| &**k < from);
                let high = run.partition_point(|(k, _)| &**k < to);
                run[low..high.max(low)].iter()
            })
            .map(|(k, v)| (&**k, v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(map: &PersistentMap<u32>, model: &BTreeMap<Vec<u8>, u32>) {
        let entries = |from: &[u8], to: &[u8]| -> Vec<(Vec<u8>, u32)> {
            map.range(from, to).map(|(k, v)| (k.to_vec(), *v)).collect()
        };
        let all: Vec<_> = model.iter().map(|(k, v)| (k.clone(), *v)).collect();
        assert_eq!(map.iter().map(|(k, v)| (k.to_vec(), *v)).collect::<Vec<_>>(), all);
        for (from, to) in
            [(0_u32, u32::MAX), (100, 300), (500, 500), (700, 600), (0, 1), (255, 777)]
        {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let inside = |(k, _): &&(Vec<u8>, u32)| from[..] <= k[..] && k[..] < to[..];
            let expected: Vec<_> = all.iter().filter(inside).cloned().collect();
            assert_eq!(entries(&from, &to), expected);
            let mut reversed: Vec<_> =
                map.range(&from, &to).rev().map(|(k, v)| (k.to_vec(), *v)).collect();
            reversed.reverse();
            assert_eq!(reversed, expected);
        }
    }

    #[test]
    fn it_is_a_map_and_a_clone_does_not_change() {
        let (mut map, mut model) = (PersistentMap::default(), BTreeMap::new());
        let mut clones = Vec::new();
        for n in 0..6000_u32 {
            // A stride that is prime to the number of keys visits all of them, out of order.
            let key = (n * 7919 % 3001).to_be_bytes();
            if n % 5 == 4 || (3500..5000).contains(&n) {
                assert_eq!(map.remove(&key), model.remove(&key[..]));
            } else {
                assert_eq!(map.insert(&key, n), model.insert(key.to_vec(), n));
            }
            assert_eq!(map.get(&key), model.get(&key[..]));
            if n % 500 == 0 {
                clones.push((map.clone(), model.clone()));
            }
        }
        clones.push((map, model));
        for (map, model) in &clones {
            check(map, model);
        }
    }

    #[test]
    fn rising_keys_fill_their_runs() {
        let mut map = PersistentMap::default();
        for n in 0..10_000_u32 {
            map.insert(&n.to_be_bytes(), n);
        }
        assert!(map.runs.len() <= 10_000 / RUN_LENGTH_MAX + 1);
        for n in 0..10_000_u32 {
            assert_eq!(map.remove(&n.to_be_bytes()), Some(n));
        }
        assert_eq!((map.runs.len(), map.iter().count()), (1, 0));
        map.insert(b"", 1);
        assert_eq!(map.range(b"", b"a").count(), 1);
    }
}
