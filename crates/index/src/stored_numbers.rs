//! The numbers of an item, stored beside its shape, so that sums need no items: every path of the shape at
//! which the item has a number, with the nearest double. System properties are left out, because they
//! change with every write.
//!
//! ```text
//! 01 | for each path, ascending: gap to the last one × 16 + n, as a varint | the first n bytes of
//!      the double, big-endian; those that are missing are zero
//! ```
//!
//! An empty value means unknown: the item was written before numbers were stored, or has too many.

use orrery_storage::key::{self, PathId, Row, ShapeId};
use orrery_storage::{Snapshot, StorageError};
use orrery_types::{ExecutionBudget, limits};

use crate::path::IndexStep;
use crate::postings::{Postings, RowCursor as _};
use crate::read_error::ReadError;
use crate::shapes;

type Result<T> = std::result::Result<T, StorageError>;
type Read<T> = std::result::Result<T, ReadError>;

/// The first byte of a value that says something.
const KEPT: u8 = 0x01;
/// Bits of a varint's number that count the bytes of the double.
const COUNT_BITS: u32 = 4;
/// Properties of the system that are numbers.
const SYSTEM_NUMBERS: [&str; 1] = ["_ts"];

/// Whether the numbers at a path are kept, where items have some and the path is indexed.
pub fn are_stored(path: &[IndexStep]) -> bool {
    let is_name = |step: &IndexStep| matches!(step, IndexStep::Property(_));
    let is_system = match path.first() {
        Some(IndexStep::Property(name)) => SYSTEM_NUMBERS.contains(&&**name),
        _ => true,
    };
    !is_system && path.iter().all(is_name)
}

/// Appends the numbers of one item; the paths ascend.
pub fn write(numbers: impl ExactSizeIterator<Item = (PathId, f64)>, out: &mut Vec<u8>) {
    if numbers.len() > limits::INDEX_NUMBERS_MAX {
        return;
    }
    out.push(KEPT);
    let mut last = 0;
    for (path, number) in numbers {
        let bytes = number.to_bits().to_be_bytes();
        let count = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let mut head = (u64::from(path.0 - last) << COUNT_BITS) | count as u64;
        last = path.0;
        while head >= 0x80 {
            out.push(low_byte(head) | 0x80);
            head >>= 7;
        }
        out.push(low_byte(head));
        out.extend_from_slice(&bytes[..count]);
    }
}

fn low_byte(n: u64) -> u8 {
    (n & 0x7f) as u8
}

/// Reads the numbers of one item.
struct Reader<'v> {
    rest: &'v [u8],
    last: u32,
}

impl<'v> Reader<'v> {
    /// `None` if the value says nothing.
    fn new(value: &'v [u8]) -> Result<Option<Self>> {
        match value.split_first() {
            None => Ok(None),
            Some((&KEPT, rest)) => Ok(Some(Self { rest, last: 0 })),
            Some(_) => Err(corrupt()),
        }
    }

    fn next(&mut self) -> Result<Option<(PathId, f64)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (mut head, mut shift) = (0_u64, 0_u32);
        loop {
            let (byte, rest) = self.rest.split_first().ok_or_else(corrupt)?;
            self.rest = rest;
            head |= u64::from(byte & 0x7f).checked_shl(shift).ok_or_else(corrupt)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let count = usize::from(low_byte(head) & 0x0f);
        let gap = u32::try_from(head >> COUNT_BITS).map_err(|_| corrupt())?;
        self.last = self.last.checked_add(gap).ok_or_else(corrupt)?;
        let (kept, rest) = self.rest.split_at_checked(count).ok_or_else(corrupt)?;
        let mut bytes = [0; 8];
        bytes.get_mut(..count).ok_or_else(corrupt)?.copy_from_slice(kept);
        self.rest = rest;
        Ok(Some((PathId(self.last), f64::from_bits(u64::from_be_bytes(bytes)))))
    }
}

/// The same numbers under other numbers of their paths; `None` if one of those is not known.
pub fn renumber(
    value: &[u8],
    mut path: impl FnMut(PathId) -> Option<PathId>,
) -> Result<Option<Vec<u8>>> {
    let Some(mut reader) = Reader::new(value)? else { return Ok(Some(Vec::new())) };
    let mut numbers = Vec::new();
    while let Some((old, number)) = reader.next()? {
        let Some(new) = path(old) else { return Ok(None) };
        numbers.push((new, number));
    }
    numbers.sort_unstable_by_key(|(path, _)| *path);
    let mut out = Vec::with_capacity(value.len());
    write(numbers.into_iter(), &mut out);
    Ok(Some(out))
}

/// What the index knows about the value of an item at a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StoredNumber {
    /// Nothing.
    Undefined,
    /// A number: the nearest double.
    Number(f64),
    /// Something else.
    Other,
    /// The item has to be loaded to find out.
    Unknown,
}

fn kept(value: &[u8], path: PathId) -> Result<StoredNumber> {
    let Some(mut reader) = Reader::new(value)? else { return Ok(StoredNumber::Unknown) };
    while let Some((found, number)) = reader.next()? {
        if found >= path {
            return Ok(if found == path {
                StoredNumber::Number(number)
            } else {
                StoredNumber::Other
            });
        }
    }
    Ok(StoredNumber::Other)
}

/// The numbers of items at one path, by ascending row.
pub struct StoredNumbers<'s> {
    path: PathId,
    shapes: Vec<Shape<'s>>,
}

/// The rows of one shape, each with its numbers.
struct Shape<'s> {
    rows: Postings<'s>,
    at: Place,
}

/// Where a walk over rows stands.
#[derive(Clone, Copy)]
enum Place {
    Before,
    At(Row),
    Behind,
}

impl Shape<'_> {
    fn has(&mut self, row: Row) -> Read<bool> {
        let to_seek = match self.at {
            Place::Before => true,
            Place::At(at) => at < row,
            Place::Behind => false,
        };
        if to_seek {
            self.at = self.rows.seek(row)?.map_or(Place::Behind, Place::At);
        }
        Ok(matches!(self.at, Place::At(at) if at == row))
    }
}

impl<'s> StoredNumbers<'s> {
    /// Those of a snapshot's items; `None` if the items that have the path have more shapes than so
    /// many, or one has none of its own. Relies on every item having its shape: see
    /// `IndexState::has_shapes`.
    pub fn of(
        snapshot: &'s dyn Snapshot,
        path: PathId,
        shapes_max: usize,
        budget: &'s ExecutionBudget<'s>,
    ) -> Read<Option<Self>> {
        let list = |shape| Postings::of(snapshot, key::shapes_of(shape).from, budget);
        if list(ShapeId::ANY).seek(Row(0))?.is_some() {
            return Ok(None);
        }
        let with = |(paths, id): (Box<[PathId]>, ShapeId)| {
            paths.binary_search(&path).is_ok().then_some(id)
        };
        let with: Vec<ShapeId> = shapes::all(snapshot)?.into_iter().filter_map(with).collect();
        if with.len() > shapes_max {
            return Ok(None);
        }
        let shapes =
            with.into_iter().map(|shape| Shape { rows: list(shape), at: Place::Before }).collect();
        Ok(Some(Self { path, shapes }))
    }

    /// What the item of a row has; rows never go back.
    pub fn at(&mut self, row: Row) -> Read<StoredNumber> {
        for shape in &mut self.shapes {
            if shape.has(row)? {
                return Ok(kept(shape.rows.value().unwrap_or_default(), self.path)?);
            }
        }
        Ok(StoredNumber::Undefined)
    }

    /// Calls back with what each item has that has anything there, until it says no.
    pub fn each(&mut self, mut f: impl FnMut(StoredNumber) -> bool) -> Read<()> {
        for Shape { rows, .. } in &mut self.shapes {
            let mut next = rows.seek(Row(0))?;
            while let Some(row) = next {
                if !f(kept(rows.value().unwrap_or_default(), self.path)?) {
                    return Ok(());
                }
                next = rows.seek(Row(row.0.saturating_add(1)))?;
            }
        }
        Ok(())
    }

    /// Entries read from the store so far.
    pub fn entries_read(&self) -> u64 {
        self.shapes.iter().map(|shape| shape.rows.entries_read()).sum()
    }
}

fn corrupt() -> StorageError {
    StorageError::Corrupt("the numbers beside an item's shape are malformed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(numbers: &[(u32, f64)]) -> Vec<u8> {
        let mut value = Vec::new();
        write(numbers.iter().map(|(path, number)| (PathId(*path), *number)), &mut value);
        value
    }

    #[test]
    fn numbers_are_read_back_to_the_bit() {
        let numbers = [(1, 0.0), (2, -0.0), (9, 12.5), (200, 0.1), (u32::MAX, f64::MIN_POSITIVE)];
        let value = written(&numbers);
        for (path, number) in numbers {
            let Ok(StoredNumber::Number(found)) = kept(&value, PathId(path)) else {
                panic!("{path}")
            };
            assert_eq!(found.to_bits(), number.to_bits());
        }
        for path in [3, 10, 199, 201] {
            assert_eq!(kept(&value, PathId(path)), Ok(StoredNumber::Other), "{path}");
        }
        assert_eq!(written(&[(1, 12.5), (2, 0.0)]), [KEPT, 0x12, 0x40, 0x29, 0x10]);
    }

    #[test]
    fn nothing_is_known_of_items_without_numbers_kept() {
        assert_eq!(kept(&[], PathId(1)), Ok(StoredNumber::Unknown));
        assert_eq!(kept(&written(&[]), PathId(1)), Ok(StoredNumber::Other));
        let many: Vec<(u32, f64)> = (1..1000).map(|path| (path, 1.0)).collect();
        assert!(written(&many).is_empty());
    }

    #[test]
    fn damage_is_reported() {
        let value = written(&[(1, 0.1), (7, 3.0)]);
        for end in [2, 5, value.len() - 1] {
            assert!(kept(&value[..end], PathId(9)).is_err(), "cut to {end} bytes");
        }
        assert!(kept(&[2], PathId(1)).is_err());
        assert!(kept(&[KEPT, 0x1f], PathId(2)).is_err());
        assert!(
            kept(&[KEPT, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], PathId(2))
                .is_err()
        );
    }

    #[test]
    fn paths_get_other_numbers() {
        let value = written(&[(1, 0.1), (7, 3.0)]);
        let turned = renumber(&value, |path| Some(PathId(10 - path.0)));
        assert_eq!(turned, Ok(Some(written(&[(3, 3.0), (9, 0.1)]))));
        assert_eq!(renumber(&value, |path| (path.0 < 5).then_some(path)), Ok(None));
        assert_eq!(renumber(&[], |_| None), Ok(Some(vec![])));
    }
}
