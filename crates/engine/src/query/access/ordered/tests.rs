//! The merge without a store: positions of several sequences come in the order of all.

use orrery_query::SortValue;
use orrery_query::plan::access::{OrderedAccess, OrderedIndex};
use orrery_types::Value;

use super::*;

struct List(VecDeque<SortPosition>, usize);

impl Positions for List {
    fn next(&mut self) -> Result<Option<SortPosition>> {
        self.1 += 1;
        Ok(self.0.pop_front())
    }
}

fn order(reverse: bool) -> Rc<SortOrder> {
    let path = [orrery_index::IndexStep::Property("n".into())].into();
    let index = OrderedIndex::Path { path, range: orrery_index::ValueRange::Defined };
    let (with_undefined, only, estimate) = (false, None, 0);
    Rc::new(SortOrder::of(&OrderedAccess { index, reverse, with_undefined, only, estimate }))
}

fn position(value: i64, row: u64) -> SortPosition {
    SortPosition { keys: vec![SortValue::of(&Value::from(value))], row: Row(row) }
}

#[test]
fn any_number_of_sequences_is_merged_in_order() {
    for reverse in [false, true] {
        let order = order(reverse);
        for sequences in [1, 2, 3, 7, 40] {
            // Values repeat within and across sequences; some sequences are empty.
            let mut all: Vec<(usize, SortPosition)> = (0..500_u64)
                .map(|n| (usize::try_from(n * n % 97).unwrap() % sequences, n))
                .map(|(of, n)| (of, position(i64::try_from(n % 13).unwrap(), n)))
                .collect();
            all.sort_by(|(_, a), (_, b)| order.compare(a, b));
            let list = |of| {
                let own = all.iter().filter(move |(own, _)| *own == of);
                own.map(|(_, position)| position.clone())
            };
            let lists = (0..sequences).map(|of| List(list(of).collect(), 0)).collect();
            let mut merge = Merge::new(lists, &order).unwrap();
            let mut merged = Vec::new();
            while let Some((of, position)) = merge.next().unwrap() {
                merged.push((of, position.row));
            }
            let expected: Vec<(usize, Row)> = all.iter().map(|(of, p)| (*of, p.row)).collect();
            assert_eq!(merged, expected, "{sequences} sequences, reverse: {reverse}");
            // Each position is asked for once, and each end.
            let asked: usize = merge.cursors.iter().map(|list| list.1).sum();
            assert!(asked <= 500 + sequences, "{asked} questions to {sequences} sequences");
        }
    }
}

#[test]
fn items_of_several_partitions_are_put_back_into_the_order_of_their_rows() {
    let item = |row: u64| SourceItem { value: Value::Null, text: None, row, key: Box::new([]) };
    let rows = [(0, Row(5)), (1, Row(2)), (0, Row(1)), (1, Row(9)), (1, Row(4)), (0, Row(7))];
    // The items of rows 2 and 7 are hidden.
    let loaded = vec![vec![item(5), item(1)], vec![item(9), item(4)]];
    let order: Vec<u64> = interleave(&rows, loaded).iter().map(|item| item.row).collect();
    assert_eq!(order, [5, 1, 9, 4]);
}
