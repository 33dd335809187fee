//! Keys of the Index space that lead from values to rows: terms, composite keys and shapes. The
//! layout stands at the head of `key`; `term` says how values are written.

use orrery_types::Value;

use super::{Bounds, Row};
use crate::term::encode_term;

const TERM: u8 = 0x02;
const COMPOSITE: u8 = 0x03;
const SHAPE: u8 = 0x04;

/// Number of a property path within a shard's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// The item itself: where every path begins. No other path has its number.
pub const ROOT_PATH: PathId = PathId(0);

/// Number of a composite index within a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompositeId(pub u32);

/// Number of a set of paths within a shard; zero stands for any set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// The shape of items whose paths are not noted.
    pub const ANY: Self = Self(0);
}

/// What an index term says; the value is written as `term` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Term<'k> {
    pub path: PathId,
    pub value: &'k [u8],
    pub row: Row,
}

/// What a composite key says; the values are written one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Composite<'k> {
    pub id: CompositeId,
    pub values: &'k [u8],
    pub row: Row,
}

/// Begins a key of one of the three kinds; the row is appended to what was begun.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TermPrefix {
    Path(PathId),
    Composite(CompositeId),
    Shape(ShapeId),
}

/// The kind of what such a prefix began; `None` if it is none of them.
pub fn term_kind(term: &[u8]) -> Option<TermKind> {
    match *term.first()? {
        TERM => Some(TermKind::Path),
        COMPOSITE => Some(TermKind::Composite),
        SHAPE => Some(TermKind::Shape),
        _ => None,
    }
}

/// What a term is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TermKind {
    Path,
    Composite,
    Shape,
}

impl TermPrefix {
    /// Appends the tag and the number.
    pub fn write(self, out: &mut Vec<u8>) {
        let (tag, number) = match self {
            Self::Path(id) => (TERM, id.0),
            Self::Composite(id) => (COMPOSITE, id.0),
            Self::Shape(id) => (SHAPE, id.0),
        };
        out.push(tag);
        out.extend(number.to_be_bytes());
    }

    fn bounds(self) -> Bounds {
        let mut prefix = Vec::with_capacity(5);
        self.write(&mut prefix);
        Bounds::prefix(prefix)
    }
}

/// Key saying that the item with this row has this value at this path.
pub fn term(path: PathId, value: &Value, row: Row) -> Vec<u8> {
    let mut key = term_prefix(path, value);
    key.extend(row.0.to_be_bytes());
    key
}

/// Where the terms of one value at one path begin; with [`Bounds::prefix`], all of them by row.
/// Long strings that begin alike share a term, and so do all arrays and all objects of a path.
pub fn term_prefix(path: PathId, value: &Value) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    TermPrefix::Path(path).write(&mut key);
    encode_term(value, &mut key);
    key
}

/// Takes a term apart; `None` if it is not one.
pub fn parse_term(key: &[u8]) -> Option<Term<'_>> {
    let (path, value, row) = parse(TERM, key)?;
    Some(Term { path: PathId(path), value, row })
}

/// All terms of one path, by value and then by row.
pub fn terms_of(path: PathId) -> Bounds {
    TermPrefix::Path(path).bounds()
}

/// Where the keys of a composite index begin; component values follow, then the row.
pub fn composite_prefix(id: CompositeId) -> Vec<u8> {
    composites_of(id).from
}

/// All keys of one composite index, in its order and then by row.
pub fn composites_of(id: CompositeId) -> Bounds {
    TermPrefix::Composite(id).bounds()
}

/// Takes a composite key apart; `None` if it is not one.
pub fn parse_composite(key: &[u8]) -> Option<Composite<'_>> {
    let (id, values, row) = parse(COMPOSITE, key)?;
    Some(Composite { id: CompositeId(id), values, row })
}

/// All rows of one shape.
pub fn shapes_of(id: ShapeId) -> Bounds {
    TermPrefix::Shape(id).bounds()
}

/// Shape and row of a shape key; `None` if it is not one.
pub fn parse_shape(key: &[u8]) -> Option<(ShapeId, Row)> {
    let (id, rest, row) = parse(SHAPE, key)?;
    rest.is_empty().then_some((ShapeId(id), row))
}

/// The row at the end of a term, a composite key or a shape key; `None` if it is none of them.
pub fn index_row(key: &[u8]) -> Option<Row> {
    [TERM, COMPOSITE, SHAPE].into_iter().find_map(|tag| parse(tag, key)).map(|(.., row)| row)
}

/// The number of a term, a composite key or a shape key, and what stands behind it; `None` if it is
/// none of them.
pub fn split_index_key(key: &[u8]) -> Option<(TermPrefix, &[u8])> {
    let (tag, rest) = key.split_first()?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    let number = u32::from_be_bytes(*number);
    let prefix = match *tag {
        TERM => TermPrefix::Path(PathId(number)),
        COMPOSITE => TermPrefix::Composite(CompositeId(number)),
        SHAPE => TermPrefix::Shape(ShapeId(number)),
        _ => return None,
    };
    Some((prefix, rest))
}

/// Everything that the indexing policy puts into the Index space: all but unique keys.
pub fn all_index_terms() -> Bounds {
    Bounds { from: vec![TERM], to: vec![SHAPE + 1] }
}

fn parse(tag: u8, key: &[u8]) -> Option<(u32, &[u8], Row)> {
    let (number, rest) = key.strip_prefix(&[tag])?.split_first_chunk::<4>()?;
    let (middle, row) = rest.split_last_chunk::<8>()?;
    Some((u32::from_be_bytes(*number), middle, Row(u64::from_be_bytes(*row))))
}
