//! Access paths: which entries of which index lead to the items, and in which order the items come.

use std::fmt;

use orrery_index::IndexStep;
use orrery_index::value_range::ValueRange;
use orrery_types::{PartitionKey, Value};

use super::condition::ItemPath;
use crate::ast::Direction;

/// How a plan reaches its items.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessPath {
    /// No item can match.
    Nothing,
    /// Some items of the one logical partition, by id.
    #[expect(missing_docs, reason = "the summary says it")]
    Points { ids: Vec<String>, by_row: bool },
    /// Some items by partition key and id, of any number of logical partitions.
    #[expect(missing_docs, reason = "the summary says it")]
    Keys { keys: Vec<(PartitionKey, String)>, by_row: bool },
    /// All items of the scope.
    Scan(ScanPath),
    /// Items whose rows are in a set, in the order of rows.
    Rows(RowSet),
    /// Items in the order of the query.
    Ordered(OrderedAccess),
}

/// How a scan gets from one item to the next, which also decides on their order.
#[derive(Clone, Debug, PartialEq)]
pub enum ScanPath {
    /// Along the items themselves, in the order of keys: the least work.
    Keys,
    /// Along the row directory, in the order of rows, which is that of insertion.
    Directory,
    /// Along the index entries that all items of the logical partition have, in the order of rows.
    Entries(RowSet),
    /// Along the items, whose rows are sorted: the order of rows, for a small part of a partition.
    Sorted,
}

/// The order in which an access gives items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOrder {
    /// By item key.
    Keys,
    /// By row number.
    Rows,
    /// By the keys of ORDER BY, or of the order that the plan chose, and then by row.
    Values,
}

impl AccessPath {
    /// The order of what it gives.
    pub fn order(&self) -> SourceOrder {
        match self {
            Self::Points { by_row: true, .. }
            | Self::Keys { by_row: true, .. }
            | Self::Scan(ScanPath::Directory | ScanPath::Entries(_) | ScanPath::Sorted)
            | Self::Rows(_) => SourceOrder::Rows,
            Self::Nothing
            | Self::Points { .. }
            | Self::Keys { .. }
            | Self::Scan(ScanPath::Keys) => SourceOrder::Keys,
            Self::Ordered(_) => SourceOrder::Values,
        }
    }
}

/// A set of rows out of the index.
#[derive(Clone, Debug, PartialEq)]
pub enum RowSet {
    /// Items with one of the values at the path.
    Terms(TermSet),
    /// In all of them, the smallest first.
    And(Vec<RowSet>),
    /// In any of them.
    Or(Vec<RowSet>),
}

/// Items with a value in one of the ranges at a path.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct TermSet {
    pub path: ItemPath,
    pub ranges: Vec<ValueRange>,
    /// Rows that are expected.
    pub estimate: u64,
}

/// A walk along an index.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedAccess {
    /// Along what.
    pub index: OrderedIndex,
    /// Backward.
    pub reverse: bool,
    /// Whether items without the key may belong to the result. They come first, or last when
    /// walking backward.
    pub with_undefined: bool,
    /// Rows that alone need be looked at.
    pub only: Option<RowSet>,
    /// Entries that are expected to be walked.
    pub estimate: u64,
}

/// What an ordered access walks along.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderedIndex {
    /// The terms of one path, within a range.
    Path {
        /// The path.
        path: ItemPath,
        /// The part of it.
        range: ValueRange,
    },
    /// A composite index.
    Composite {
        /// Its components, as the policy has them.
        components: Vec<(ItemPath, Direction)>,
        /// Values of the first components.
        fixed: Vec<Value>,
        /// The part of the next component.
        range: Option<ValueRange>,
        /// Which components are the keys of the order.
        keys: std::ops::Range<usize>,
    },
}

impl AccessPath {
    /// The components of the composite index that it goes along, as index metrics name them.
    pub fn composite_specs(&self) -> Option<Vec<String>> {
        let Self::Ordered(OrderedAccess {
            index: OrderedIndex::Composite { components, .. }, ..
        }) = self
        else {
            return None;
        };
        let spec = |(path, direction): &(ItemPath, Direction)| {
            let order = if *direction == Direction::Descending { "DESC" } else { "ASC" };
            format!("{} {order}", ShownPath(path))
        };
        Some(components.iter().map(spec).collect())
    }
}

/// A path as the policy writes it.
pub struct ShownPath<'p>(pub &'p [IndexStep]);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.0 {
            match step {
                IndexStep::Property(name)
                    if name.chars().all(|c| c.is_alphanumeric() || c == '_') =>
                {
                    write!(f, "/{name}")?;
                }
                IndexStep::Property(name) => write!(f, "/\"{name}\"")?,
                IndexStep::Elements => f.write_str("/[]")?,
                IndexStep::Tuple(names) => write!(f, "/{{{}}}", names.join(", "))?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for TermSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = ShownPath(&self.path);
        match self.ranges.as_slice() {
            [range] => write!(f, "{path} {range}"),
            ranges => {
                write!(f, "{path} ")?;
                for (number, range) in ranges.iter().take(4).enumerate() {
                    let separator = if number > 0 { " or " } else { "" };
                    write!(f, "{separator}{range}")?;
                }
                match ranges.len() {
                    0..=4 => Ok(()),
                    more => write!(f, " or {} more", more - 4),
                }
            }
        }
    }
}

impl RowSet {
    /// Rows that are expected of its smallest part.
    pub fn estimate(&self) -> u64 {
        match self {
            Self::Terms(terms) => terms.estimate,
            Self::And(list) => list.iter().map(Self::estimate).min().unwrap_or(0),
            Self::Or(list) => list.iter().map(Self::estimate).sum(),
        }
    }
}
