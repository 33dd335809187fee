//! How many terms an item has, and how many of them another image of it lacks: what the index adds to
//! the charge of a write. Shapes are our own business and are not counted.

use orrery_storage::key::{TermKind, term_kind};

use crate::rules::NOW;
use crate::terms::Terms;

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
