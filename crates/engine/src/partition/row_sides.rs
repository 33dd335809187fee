//! Which side of a split a row is on. Index terms end with the row of their item and nothing else
//! that says where it belongs; rows are numbered densely, so a few bits for each do.

use std::collections::HashMap;

use orrery_storage::key::Row;

const WORDS: usize = 1024;
const BLOCK_BITS: u32 = 16;

/// The rows that have been met.
#[derive(Default)]
pub(super) struct RowSides(HashMap<u64, Box<Block>>);

struct Block {
    known: [u64; WORDS],
    second: [u64; WORDS],
}

impl RowSides {
    /// Notes that a row belongs to the first or the second child.
    pub(super) fn insert(&mut self, row: Row, child: usize) {
        let empty = || Box::new(Block { known: [0; WORDS], second: [0; WORDS] });
        let block = self.0.entry(row.0 >> BLOCK_BITS).or_insert_with(empty);
        let (word, bit) = place(row);
        block.known[word] |= bit;
        if child > 0 {
            block.second[word] |= bit;
        }
    }

    /// The child of a row that has been met.
    pub(super) fn get(&self, row: Row) -> Option<usize> {
        let block = self.0.get(&(row.0 >> BLOCK_BITS))?;
        let (word, bit) = place(row);
        (block.known[word] & bit != 0).then_some(usize::from(block.second[word] & bit != 0))
    }
}

fn place(row: Row) -> (usize, u64) {
    let [.., high, low] = row.0.to_be_bytes();
    let within = u16::from_be_bytes([high, low]);
    (usize::from(within >> 6), 1 << (within & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart() {
        let mut sides = RowSides::default();
        let rows = [0, 1, 63, 64, 65_535, 65_536, 7 << 40, (7 << 40) + 1].map(Row);
        for (i, row) in rows.into_iter().enumerate() {
            assert_eq!(sides.get(row), None);
            sides.insert(row, i % 2);
        }
        for (i, row) in rows.into_iter().enumerate() {
            assert_eq!(sides.get(row), Some(i % 2), "{row:?}");
        }
        assert_eq!(sides.get(Row(2)), None);
    }
}
