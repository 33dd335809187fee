//! Keys as the server stores them. The byte of the space comes first. An index entry holds at most 2,704
//! bytes, and keys reach 6 KB, so a long key is *folded*: its first 2,048 bytes, then a hash of the rest, its
//! *tail*, which has a column of its own.
//!
//! Folding keeps the order but among folded keys of the same first bytes, a *fold*: those lie side by side, and
//! are ordered by their tails.

use orrery_storage::Space;
use orrery_types::limits::POSTGRES_KEY_BYTES_MAX;
use sha2::{Digest as _, Sha256};

const HASH_BYTES: usize = 32;
/// The length of a folded key, which no other key has.
const FOLDED_BYTES: usize = 1 + POSTGRES_KEY_BYTES_MAX + HASH_BYTES;

/// A key in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) key: Vec<u8>,
    pub(crate) tail: Option<Vec<u8>>,
}

fn space_byte(space: Space) -> u8 {
    space as u8
}

/// A key, or what keys begin with, in a space.
pub(crate) fn plain(space: Space, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + key.len());
    stored.push(space_byte(space));
    stored.extend_from_slice(key);
    stored
}

impl StoredKey {
    pub(crate) fn new(space: Space, key: &[u8]) -> Self {
        let Some((head, tail)) = key.split_at_checked(POSTGRES_KEY_BYTES_MAX) else {
            return Self { key: plain(space, key), tail: None };
        };
        if tail.is_empty() {
            return Self { key: plain(space, key), tail: None };
        }
        let mut stored = plain(space, head);
        stored.extend_from_slice(&Sha256::digest(tail));
        Self { key: stored, tail: Some(tail.to_vec()) }
    }
}

/// The space of a stored key.
pub(crate) fn space_of(stored: &[u8]) -> Option<Space> {
    let first = stored.first()?;
    Space::ALL.into_iter().find(|space| space_byte(*space) == *first)
}

/// The key that was stored.
pub(crate) fn original(stored: &[u8], tail: Option<&[u8]>) -> Vec<u8> {
    match tail {
        Some(tail) => [fold_of(stored).unwrap_or_default(), tail].concat(),
        None => stored.get(1..).unwrap_or_default().to_vec(),
    }
}

/// The first bytes of a folded key; `None` if the key is not folded.
pub(crate) fn fold_of(stored: &[u8]) -> Option<&[u8]> {
    if stored.len() == FOLDED_BYTES { stored.get(1..=POSTGRES_KEY_BYTES_MAX) } else { None }
}

/// A bound of a range in stored form: all stored keys at or after it are those at or after the bound, but for a
/// fold that the bound lies in, which is after it as a whole.
pub(crate) fn lower_bound(space: Space, bound: &[u8]) -> Vec<u8> {
    match bound.split_at_checked(POSTGRES_KEY_BYTES_MAX) {
        Some((head, tail)) if !tail.is_empty() => fold_start(space, head),
        _ => plain(space, bound),
    }
}

/// The same for an upper bound: a fold that it lies in is before it as a whole.
pub(crate) fn upper_bound(space: Space, bound: &[u8]) -> Vec<u8> {
    match bound.split_at_checked(POSTGRES_KEY_BYTES_MAX) {
        Some((head, tail)) if !tail.is_empty() => fold_end(space, head),
        _ => plain(space, bound),
    }
}

/// Before all keys of a fold, and after the key that consists of their first bytes.
pub(crate) fn fold_start(space: Space, head: &[u8]) -> Vec<u8> {
    [&plain(space, head)[..], &[0]].concat()
}

/// After all keys of a fold.
pub(crate) fn fold_end(space: Space, head: &[u8]) -> Vec<u8> {
    [&plain(space, head)[..], &[0xff; HASH_BYTES + 1]].concat()
}

/// The part of a bound that applies to the tails of a fold, if the bound lies in it.
pub(crate) fn tail_bound<'b>(bound: &'b [u8], head: &[u8]) -> Option<&'b [u8]> {
    bound.strip_prefix(head).filter(|tail| !tail.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = POSTGRES_KEY_BYTES_MAX;

    #[test]
    fn a_key_reads_back_and_a_long_one_is_folded() {
        for length in [0, 1, MAX - 1, MAX, MAX + 1, 6200] {
            let key: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).expect("small")).collect();
            let stored = StoredKey::new(Space::Index, &key);
            assert_eq!(original(&stored.key, stored.tail.as_deref()), key);
            assert_eq!(stored.tail.is_some(), length > MAX, "{length}");
            assert_eq!(fold_of(&stored.key).is_some(), length > MAX, "{length}");
            assert!(stored.key.len() <= FOLDED_BYTES);
        }
    }

    #[test]
    fn bounds_enclose_what_they_should() {
        let head = vec![7; MAX];
        let long = |tail: &[u8]| StoredKey::new(Space::Items, &[&head, tail].concat()).key;
        let exact = StoredKey::new(Space::Items, &head).key;
        for bound in [&b"a"[..], b"\xff\xff"] {
            let bound = [&head, bound].concat();
            let (from, to) = (lower_bound(Space::Items, &bound), upper_bound(Space::Items, &bound));
            assert!(exact < from && exact < to);
            assert!((from..to).contains(&long(b"x")));
        }
        assert!(
            lower_bound(Space::Items, &head) <= exact && upper_bound(Space::Items, &head) <= exact
        );
        assert!(long(b"x") > upper_bound(Space::Items, &head));
        let next = [&head[..MAX - 1], &[8]].concat();
        assert!(long(b"\xff") < StoredKey::new(Space::Items, &next).key);
    }
}
