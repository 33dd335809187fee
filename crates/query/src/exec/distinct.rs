//! DISTINCT without ORDER BY: values in the order of the rows that have them first, each once. Items come
//! in that order, or in any order; then all of them are looked at, and the values are sorted in the end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use orrery_types::Value;

use super::look_ahead::PageProgress;

/// Distinct values, each with the first row that has it: the number of its item, and which of the item's
/// rows it is.
#[derive(Default)]
pub(super) struct DistinctValues {
    places: HashMap<Value, usize>,
    list: Vec<((u64, u64), Value)>,
    next: (u64, u64),
    in_any_order: bool,
}

impl DistinctValues {
    /// The values that follow are of this item.
    pub(super) fn begin(&mut self, item: u64) {
        self.next = (item, 0);
    }

    /// Takes the value of a row; returns it if it is new.
    pub(super) fn add(&mut self, value: Value) -> Option<&Value> {
        let place = self.next;
        self.next.1 += 1;
        match self.places.entry(value) {
            Entry::Occupied(known) => {
                let first = &mut self.list[*known.get()].0;
                *first = place.min(*first);
                None
            }
            Entry::Vacant(new) => {
                let value = new.key().clone();
                new.insert(self.list.len());
                self.list.push((place, value));
                self.list.last().map(|(_, value)| value)
            }
        }
    }

    /// Whether the first so many are known.
    pub(super) fn has_first(&self, count: usize) -> bool {
        !self.in_any_order && self.list.len() >= count
    }

    /// What was found of so many, while items come in order.
    pub(super) fn progress(&self, items_read: u64, rows_max: usize) -> Option<PageProgress> {
        let needed = rows_max.saturating_sub(self.list.len()) as u64;
        let rows_found = self.list.len() as u64;
        let progress = PageProgress { items_read, rows_found, rows_needed: needed };
        (!self.in_any_order).then_some(progress)
    }

    /// From now on items come in any order.
    pub(super) fn begin_any_order(&mut self) {
        self.in_any_order = true;
    }

    pub(super) fn into_values(mut self) -> Vec<Value> {
        self.list.sort_unstable_by_key(|(place, _)| *place);
        self.list.into_iter().map(|(_, value)| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_as_the_rows_that_have_them_first() {
        let mut values = DistinctValues::default();
        values.begin(1);
        assert!(values.add(1.into()).is_some() && values.add(2.into()).is_some());
        values.begin_any_order();
        for (item, of_item) in [(7, [5, 1]), (3, [4, 5]), (5, [4, 3])] {
            values.begin(item);
            for n in of_item {
                let _ = values.add(n.into());
            }
        }
        assert!(!values.has_first(1));
        let found: Vec<i64> = values.into_values().iter().filter_map(Value::as_i64).collect();
        assert_eq!(found, [1, 2, 4, 5, 3]);
    }
}
