//! The difference between the terms before and after a write: as puts and deletes, and as numbers for the charge. An
//! unchanged term with an unchanged value is not written. While older policies are in effect it is written unless
//! each of them includes it, because the item may not have been reindexed yet.

use std::cmp::Ordering;

use orrery_storage::key::{Row, TermKind, term_kind};
use orrery_storage::{Part, Put, Space};

use crate::rules::{NOW, PolicySet};
use crate::terms::{TermEntry, Terms};

/// The terms of an item and the row under which they stand.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct TermImage<'t> {
    pub terms: &'t Terms,
    pub row: Row,
}

/// Adds to a part what turns the terms of `before` into those of `after`. `all` are the policies in
/// effect: what any of them asks for may be there, what each of them asks for is.
pub fn maintain(
    before: Option<TermImage<'_>>,
    after: Option<TermImage<'_>>,
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

fn merge(before: &Terms, after: TermImage<'_>, all: PolicySet, part: &mut Part) {
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

/// Terms under the policy of now, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct TermCount {
    pub paths: usize,
    pub composites: usize,
}

impl TermCount {
    /// All terms of an item.
    pub fn of(terms: &Terms) -> Self {
        let mut count = Self::default();
        for term in of_now(terms) {
            count.add(term);
        }
        count
    }

    /// The terms that only one of two images has: of the first, and of the second.
    pub fn differing(before: &Terms, after: &Terms) -> (Self, Self) {
        let (mut gone, mut new) = (Self::default(), Self::default());
        let (mut old, mut fresh) = (of_now(before).peekable(), of_now(after).peekable());
        loop {
            let order = match (old.peek(), fresh.peek()) {
                (None, None) => return (gone, new),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            let a = if order.is_le() { old.next() } else { None };
            let b = if order.is_ge() { fresh.next() } else { None };
            match (a, b) {
                (Some(term), None) => gone.add(term),
                (None, Some(term)) => new.add(term),
                _ => {}
            }
        }
    }

    /// Of every kind.
    pub fn total(self) -> usize {
        self.paths + self.composites
    }

    fn add(&mut self, term: &[u8]) {
        match term_kind(term) {
            Some(TermKind::Path) => self.paths += 1,
            Some(TermKind::Composite) => self.composites += 1,
            Some(TermKind::Shape) | None => {}
        }
    }
}

fn of_now(terms: &Terms) -> impl Iterator<Item = &[u8]> {
    terms.iter().filter(|(_, policies)| policies & NOW != 0).map(|(term, _)| term)
}
