//! From the terms before and after a write to what is put and deleted. A term that stays, with what
//! is stored under it, costs nothing; while older policies are in effect it is put all the same unless each of them has put
//! it, because the item may not have been built anew yet.

use std::cmp::Ordering;

use orrery_storage::key::Row;
use orrery_storage::{Part, Put, Space};

use crate::rules::{NOW, PolicySet};
use crate::terms::{TermEntry, Terms};

/// The terms of an item and the row under which they stand.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Image<'t> {
    pub terms: &'t Terms,
    pub row: Row,
}

/// Adds to a part what turns the terms of `before` into those of `after`. `all` are the policies in
/// effect: what any of them asks for may be there, what each of them asks for is.
pub fn maintain(
    before: Option<Image<'_>>,
    after: Option<Image<'_>>,
    all: PolicySet,
    part: &mut Part,
) {
    match (before, after) {
        (Some(before), Some(after)) if before.row == after.row => {
            merge(before.terms, after, all, part);
        }
        (before, after) => {
            if let Some(image) = before {
                let keys = image.terms.iter().map(|(term, _)| key(term, image.row));
                part.deletes.extend(keys.map(|key| (Space::Index, key)));
            }
            if let Some(image) = after {
                let entries = image.terms.entries().filter(|entry| entry.policies & NOW != 0);
                part.puts.extend(entries.map(|entry| put(entry, image.row)));
            }
        }
    }
}

fn merge(before: &Terms, after: Image<'_>, all: PolicySet, part: &mut Part) {
    let row = after.row;
    let mut old = before.entries().peekable();
    let mut new = after.terms.entries().filter(|entry| entry.policies & NOW != 0).peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.term.cmp(b.term),
        };
        let gone = if order.is_le() { old.next() } else { None };
        let here = if order.is_ge() { new.next() } else { None };
        match (gone, here) {
            (Some(gone), Some(here)) if gone.policies == all && gone.value == here.value => {}
            (_, Some(here)) => part.puts.push(put(here, row)),
            (Some(gone), None) => part.deletes.push((Space::Index, key(gone.term, row))),
            (None, None) => {}
        }
    }
}

fn put(entry: TermEntry<'_>, row: Row) -> Put {
    Put { space: Space::Index, key: key(entry.term, row), value: entry.value.to_vec() }
}

/// The key of a term of a row.
pub fn key(term: &[u8], row: Row) -> Vec<u8> {
    let mut key = Vec::with_capacity(term.len() + 8);
    key.extend_from_slice(term);
    key.extend(row.0.to_be_bytes());
    key
}
