//! Ways to the items: which entries of which index lead to them, and in which order they come.

use std::fmt;

use orrery_index::IndexStep;
use orrery_index::span::Span;
use orrery_types::{PartitionKey, Value};

use super::condition::ItemPath;
use crate::ast::Direction;

/// How a query gets at its items.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// There is nothing to be had.
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
    /// Items in the order that the query wants.
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

impl Access {
    /// The order of what it gives.
    pub fn order(&self) -> SourceOrder {
        match self {
            Self::Points { by_row: true, .. }
            | Self::Keys { by_row: true, .. }
            | Self::Scan(ScanPath::Directory | ScanPath::Entries(_))
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

/// Items with a value in one of the spans at a path.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct TermSet {
    pub path: ItemPath,
    pub spans: Vec<Span>,
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
    /// The terms of one path, within a span.
    Path {
        /// The path.
        path: ItemPath,
        /// The part of it.
        span: Span,
    },
    /// A composite index.
    Composite {
        /// Its components, as the policy has them.
        components: Vec<(ItemPath, Direction)>,
        /// Values of the first components.
        fixed: Vec<Value>,
        /// The part of the next component.
        span: Option<Span>,
        /// Which components are the keys of the order.
        keys: std::ops::Range<usize>,
    },
}

impl Access {
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
        match self.spans.as_slice() {
            [span] => write!(f, "{path} {span}"),
            spans => {
                write!(f, "{path} ")?;
                for (number, span) in spans.iter().take(4).enumerate() {
                    let separator = if number > 0 { " or " } else { "" };
                    write!(f, "{separator}{span}")?;
                }
                match spans.len() {
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
