//! One row by its schema. Both schemas of the batch protocol have two fixed numbers, then texts and
//! byte strings of variable length, then sparse columns; presence bits fit one byte.

use super::VERSION;
use super::cursor::{Cursor, write_varuint};
use super::error::{HybridRowError, HybridRowFault};

/// The columns of a row, in the order that numbers them.
pub(super) struct Schema {
    pub(super) id: u32,
    pub(super) columns: &'static [Column],
}

#[derive(Clone, Copy)]
pub(super) enum Column {
    /// A 32-bit number that takes its space whether it is set or not.
    Fixed(&'static str),
    Text(&'static str),
    Bytes(&'static str),
    /// Named by its number, and with its type, at the end of the row.
    Sparse(&'static str),
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Self::Fixed(name) | Self::Text(name) | Self::Bytes(name) | Self::Sparse(name) => name,
        }
    }

    fn is_sparse(self) -> bool {
        matches!(self, Self::Sparse(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Bool(bool),
    Int32(i32),
    UInt32(u32),
    Float64(f64),
    Text(Box<str>),
    Bytes(Vec<u8>),
    /// A type that no column of ours has; its bytes were skipped.
    Other,
}

impl Cell {
    pub(super) fn text(text: String) -> Self {
        Self::Text(text.into())
    }
}

mod code {
    pub(super) const NULL: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const TRUE: u8 = 3;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 11;
    pub(super) const FLOAT64: u8 = 16;
    pub(super) const UTF8: u8 = 20;
    pub(super) const BINARY: u8 = 21;
}

/// A row that was read: a cell for each column.
pub(super) struct Row {
    schema: &'static Schema,
    cells: Vec<Option<Cell>>,
    at: usize,
}

impl Row {
    /// Reads a row that is all of `bytes`, which begin at an offset of the stream.
    pub(super) fn read(
        schema: &'static Schema,
        bytes: &[u8],
        at: usize,
    ) -> Result<Self, HybridRowError> {
        let mut cursor = Cursor::new(bytes, at);
        let id = cursor.row_head()?;
        if id != schema.id {
            return Err(HybridRowFault::Schema(id).at(at));
        }
        let presence = cursor.byte()?;
        let mut cells = Vec::with_capacity(schema.columns.len());
        for (bit, column) in schema.columns.iter().enumerate() {
            let present = presence >> bit.min(7) & 1 == 1;
            cells.push(match column {
                Column::Fixed(_) => {
                    let number = i32::from_le_bytes(cursor.array()?);
                    present.then_some(Cell::Int32(number))
                }
                Column::Text(_) if present => Some(text(&mut cursor)?),
                Column::Bytes(_) if present => Some(Cell::Bytes(cursor.counted()?.to_vec())),
                _ => None,
            });
        }
        let mut row = Self { schema, cells, at };
        while !cursor.is_at_end() {
            row.read_sparse(&mut cursor)?;
        }
        Ok(row)
    }

    fn read_sparse(&mut self, cursor: &mut Cursor<'_>) -> Result<(), HybridRowError> {
        let at = cursor.at();
        let code = cursor.byte()?;
        let path = cursor.varuint()?;
        // Number 0 is the empty path; beyond the columns a name follows.
        let names_from = self.schema.columns.len() + 1;
        let column = match path.checked_sub(names_from) {
            None => path.checked_sub(1),
            Some(length) => {
                let name = cursor.take(length)?;
                let is_named = |column: &Column| column.name().as_bytes() == name;
                self.schema.columns.iter().position(is_named)
            }
        };
        let cell = value(code, cursor, at)?;
        let Some((column, cell)) = column.zip(cell) else { return Ok(()) };
        let Some(slot) = self.cells.get_mut(column) else { return Ok(()) };
        if slot.is_some() {
            return Err(HybridRowFault::Duplicate(self.name(column)).at(at));
        }
        *slot = Some(cell);
        Ok(())
    }

    fn name(&self, column: usize) -> &'static str {
        self.schema.columns.get(column).map_or("", |column| column.name())
    }

    fn cell<T>(
        &self,
        column: usize,
        read: impl Fn(&Cell) -> Option<T>,
    ) -> Result<Option<T>, HybridRowError> {
        let Some(cell) = self.cells.get(column).and_then(Option::as_ref) else { return Ok(None) };
        match read(cell) {
            Some(value) => Ok(Some(value)),
            None => Err(HybridRowFault::WrongType(self.name(column)).at(self.at)),
        }
    }

    pub(super) fn int32(&self, column: usize) -> Result<Option<i32>, HybridRowError> {
        self.cell(column, |cell| match cell {
            Cell::Int32(number) => Some(*number),
            _ => None,
        })
    }

    pub(super) fn uint32(&self, column: usize) -> Result<Option<u32>, HybridRowError> {
        self.cell(column, |cell| match cell {
            Cell::UInt32(number) => Some(*number),
            _ => None,
        })
    }

    pub(super) fn float64(&self, column: usize) -> Result<Option<f64>, HybridRowError> {
        self.cell(column, |cell| match cell {
            Cell::Float64(number) => Some(*number),
            _ => None,
        })
    }

    pub(super) fn boolean(&self, column: usize) -> Result<Option<bool>, HybridRowError> {
        self.cell(column, |cell| match cell {
            Cell::Bool(truth) => Some(*truth),
            _ => None,
        })
    }

    pub(super) fn text(&self, column: usize) -> Result<Option<String>, HybridRowError> {
        self.cell(column, |cell| match cell {
            Cell::Text(text) => Some(text.to_string()),
            _ => None,
        })
    }

    pub(super) fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, HybridRowError> {
        self.cell(column, |cell| match cell {
            Cell::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        })
    }
}

fn text(cursor: &mut Cursor<'_>) -> Result<Cell, HybridRowError> {
    let at = cursor.at();
    let text = std::str::from_utf8(cursor.counted()?).map_err(|_| HybridRowFault::Utf8.at(at))?;
    Ok(Cell::Text(text.into()))
}

/// A sparse value by its type; null is as if it were not there.
fn value(code: u8, cursor: &mut Cursor<'_>, at: usize) -> Result<Option<Cell>, HybridRowError> {
    let cell = match code {
        code::NULL => return Ok(None),
        code::FALSE => Cell::Bool(false),
        code::TRUE => Cell::Bool(true),
        code::INT32 => Cell::Int32(i32::from_le_bytes(cursor.array()?)),
        code::UINT32 => Cell::UInt32(u32::from_le_bytes(cursor.array()?)),
        code::FLOAT64 => Cell::Float64(f64::from_le_bytes(cursor.array()?)),
        code::UTF8 => text(cursor)?,
        code::BINARY => Cell::Bytes(cursor.counted()?.to_vec()),
        // Numbers, times and ids of other widths, which a later version may send.
        other => {
            let length = match other {
                5 | 9 => 1,
                6 | 10 => 2,
                15 => 4,
                8 | 12 | 18 | 23 => 8,
                17 | 19 | 22 => 16,
                24 => 12,
                13 | 14 => {
                    cursor.varuint()?;
                    0
                }
                // Scopes hold further values; no column has one.
                scope => return Err(HybridRowFault::Type(scope).at(at)),
            };
            cursor.take(length)?;
            Cell::Other
        }
    };
    Ok(Some(cell))
}

/// Writes a row; `cells` are in the order of the columns and have their types.
pub(super) fn write(schema: &Schema, cells: &[Option<Cell>], out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend(schema.id.to_le_bytes());
    let columns = || schema.columns.iter().zip(cells);
    let in_place = || columns().filter(|(column, _)| !column.is_sparse());
    let bits = in_place().enumerate().map(|(bit, (_, cell))| u8::from(cell.is_some()) << bit);
    out.push(bits.sum());
    for (column, cell) in in_place() {
        match (column, cell) {
            (Column::Fixed(_), Some(Cell::Int32(number))) => out.extend(number.to_le_bytes()),
            (Column::Fixed(_), _) => out.extend([0; 4]),
            (_, Some(cell)) => write_counted(cell, out),
            (_, None) => {}
        }
    }
    for (number, (column, cell)) in columns().enumerate() {
        if let Some(cell) = cell.as_ref().filter(|_| column.is_sparse()) {
            write_sparse(number + 1, cell, out);
        }
    }
}

fn write_counted(cell: &Cell, out: &mut Vec<u8>) {
    let bytes = match cell {
        Cell::Text(text) => text.as_bytes(),
        Cell::Bytes(bytes) => bytes,
        _ => &[],
    };
    write_varuint(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_sparse(number: usize, cell: &Cell, out: &mut Vec<u8>) {
    let code = match cell {
        Cell::Bool(false) => code::FALSE,
        Cell::Bool(true) => code::TRUE,
        Cell::Int32(_) => code::INT32,
        Cell::UInt32(_) => code::UINT32,
        Cell::Float64(_) => code::FLOAT64,
        Cell::Text(_) => code::UTF8,
        Cell::Bytes(_) => code::BINARY,
        Cell::Other => code::NULL,
    };
    out.push(code);
    write_varuint(number, out);
    match cell {
        Cell::Int32(number) => out.extend(number.to_le_bytes()),
        Cell::UInt32(number) => out.extend(number.to_le_bytes()),
        Cell::Float64(number) => out.extend(number.to_le_bytes()),
        Cell::Text(_) | Cell::Bytes(_) => write_counted(cell, out),
        Cell::Bool(_) | Cell::Other => {}
    }
}
