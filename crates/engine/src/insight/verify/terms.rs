//! Whether the index holds exactly the terms of the items. Every item's terms are looked up; if the
//! index then has as many as the items, there is none without its item. If it has more, each is
//! traced back.

use orrery_index::Terms;
use orrery_index::maintain;
use orrery_index::rules::NOW;
use orrery_index::stored_ids::{NoNumber, StoredIds};
use orrery_index::terms::TermEntry;
use orrery_storage::key;
use orrery_storage::{Entry, Space, Value};
use orrery_types::Result;

use super::{FaultKind, Item, Verifier};
use crate::error::storage;
use crate::maintain::index_terms::indexed_item;

/// Terms that were found: from the items, and in the index.
#[derive(Default)]
pub(super) struct TermCount {
    of_items: usize,
    of_index: usize,
}

impl Verifier<'_> {
    /// The terms of an item are there.
    pub(super) fn terms_of_item(&mut self, item: &Item) -> Result<()> {
        let Some(terms) = self.terms(item)? else {
            self.fault(FaultKind::TermMissing, &item.key);
            return Ok(());
        };
        let row = item.header.row;
        let wanted: Vec<Vec<u8>> = terms.iter().map(|(term, _)| maintain::key(term, row)).collect();
        let keys: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
        let found = self.snapshot.get_many(Space::Index, &keys).map_err(storage)?;
        let present = found.iter().flatten().count();
        self.count.of_items += present;
        if present < keys.len() {
            self.fault(FaultKind::TermMissing, &item.key);
        }
        // What was written before numbers were kept beside shapes has none.
        let is_true = |(entry, found): (TermEntry<'_>, &Option<Value>)| {
            found.as_ref().is_none_or(|found| found.bytes.is_empty() || found.bytes == entry.value)
        };
        if !terms.entries().zip(&found).all(is_true) {
            self.fault(FaultKind::TermUntrue, &item.key);
        }
        Ok(())
    }

    /// Whether an entry of the index is a term, which is then counted.
    pub(super) fn is_term(&mut self, entry: &Entry) -> bool {
        let all = key::all_index_terms();
        let is_term = all.from <= entry.key && entry.key < all.to;
        self.count.of_index += usize::from(is_term);
        is_term
    }

    /// Finds terms without their item, if there must be some.
    pub(super) fn terms_without_item(&mut self) -> Result<()> {
        if self.count.of_items == self.count.of_index {
            return Ok(());
        }
        self.scan(Space::Index, |verifier, entry| {
            if verifier.is_term(entry) && !verifier.has_item(&entry.key)? {
                verifier.fault(FaultKind::TermOrphan, &entry.key);
            }
            Ok(())
        })
    }

    fn has_item(&self, entry: &[u8]) -> Result<bool> {
        let row = entry.last_chunk::<8>().map(|row| key::Row(u64::from_be_bytes(*row)));
        let item = row.map(|row| self.item_of_row(row)).transpose()?.flatten();
        let Some(item) = item else { return Ok(false) };
        let terms = self.terms(&item)?.unwrap_or_default();
        let row = item.header.row;
        Ok(terms.iter().any(|(term, _)| maintain::key(term, row) == entry))
    }

    /// The terms that an item should have; `None` if one of its paths has no number.
    fn terms(&self, item: &Item) -> Result<Option<Terms>> {
        let rules = self.container.index.rules();
        let indexed = indexed_item(rules, &item.body, item.stamp())?;
        let mut ids = self.ids.borrow_mut();
        match Terms::extract::<StoredIds<'_>>(rules, &indexed, &mut ids) {
            Ok(terms) => Ok(Some(terms.of(NOW))),
            Err(NoNumber::Unknown) => Ok(None),
            Err(NoNumber::Failed(error)) => Err(storage(error)),
        }
    }
}
