//! The service's binary form of JSON, which official SDKs send instead of text: bytes to
//! [`Value`]. `api` decodes a request body that begins with [`PREAMBLE`]; no JSON text does, so
//! the first byte tells the two apart. Responses are text, which every SDK takes.
//!
//! After the preamble comes one value: a marker byte, then what the marker calls for. All numbers
//! are little-endian.
//!
//! ```text
//! 00..1f  the integer itself              c7..ce  numbers of 1 to 8 bytes
//! 20..3f  a system string                 d0..d2  null, false, true
//! 40..67  a user string (refused)         d3      GUID
//! 71..7f  base64, GUID, packed strings    d7..dc  more integers
//! 80..bf  a string of 0 to 63 bytes       dd..df  bytes, read as base64
//! c0..c2  length, string                  e0..e7  array    e8..ef  object
//! c3..c6  offset of an earlier string     f0..f3  arrays of one type of number
//! ```
//!
//! A container's three low bits say how far it goes: 0 empty, 1 one member, 2 to 4 a length in
//! bytes, 5 to 7 a length and a count of members.
//!
//! Reading is as strict as that of text: one value, no duplicate property, nesting within the
//! limit, finite numbers. Beyond that every length is checked against its container, and the text
//! that the value would make is bounded, since a reference of two bytes can stand for a megabyte.

mod cursor;
mod error;
mod string;
mod system_string;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orrery_types::{Object, Value, limits};

use cursor::{Cursor, Width};
pub use error::{BinaryJsonError, BinaryJsonFault};

/// The first byte of every binary body.
pub const PREAMBLE: u8 = 0x80;

/// Reads exactly one value in binary form.
pub fn decode(bytes: &[u8]) -> Result<Value, BinaryJsonError> {
    let mut decoder = Decoder { cursor: Cursor::new(bytes), strings: Vec::new(), text_bytes: 0 };
    if decoder.cursor.byte()? != PREAMBLE {
        return Err(BinaryJsonFault::Preamble.at(0));
    }
    let value = decoder.value(0)?;
    decoder.cursor.finish()?;
    Ok(value)
}

struct Decoder<'a> {
    cursor: Cursor<'a>,
    /// Every string read so far and where it began, in that order; references name these.
    strings: Vec<(usize, Arc<str>)>,
    /// What the value read so far takes as text if its numbers are short; a separator too many per
    /// container.
    text_bytes: usize,
}

/// How far a container goes.
enum Extent {
    /// So many members, each of which knows its own end.
    Members(usize),
    /// Up to the cursor's end; then the end of the container around it, and the count to check.
    Bytes { outer_end: usize, count: Option<usize> },
}

impl Decoder<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, BinaryJsonError> {
        let at = self.cursor.at();
        let marker = self.cursor.byte()?;
        self.charge(1, at)?;
        if let Some(text) = self.string(marker, at)? {
            return Ok(Value::String(text));
        }
        self.charge(1, at)?;
        match marker {
            0x00..=0x1f => Ok(Value::from(i64::from(marker))),
            0xd0 => Ok(Value::Null),
            0xd1 => Ok(Value::Bool(false)),
            0xd2 => Ok(Value::Bool(true)),
            0xd3 => Ok(Value::from(string::guid_value(self.cursor.array()?))),
            0xdd..=0xdf => self.binary(marker, at),
            0xe0..=0xe7 => self.array(marker & 7, at, depth),
            0xe8..=0xef => self.object(marker & 7, at, depth),
            0xf0 => self.numbers(Width::One, at, depth),
            0xf1 => self.numbers(Width::Two, at, depth),
            0xf2 => self.number_arrays(Width::One, at, depth),
            0xf3 => self.number_arrays(Width::Two, at, depth),
            _ => self.number(marker, at),
        }
    }

    /// The number that a marker calls for; any other marker is unknown.
    #[expect(clippy::cast_precision_loss, reason = "beyond 64 signed bits a number is a double")]
    fn number(&mut self, marker: u8, at: usize) -> Result<Value, BinaryJsonError> {
        let cursor = &mut self.cursor;
        let integer = match marker {
            0xc8 | 0xd7 => i64::from(cursor.byte()?),
            0xd8 => i64::from(i8::from_le_bytes(cursor.array()?)),
            0xc9 | 0xd9 => i64::from(i16::from_le_bytes(cursor.array()?)),
            0xca | 0xda => i64::from(i32::from_le_bytes(cursor.array()?)),
            0xcb | 0xdb => i64::from_le_bytes(cursor.array()?),
            0xdc => i64::from(u32::from_le_bytes(cursor.array()?)),
            0xc7 => {
                let wide = u64::from_le_bytes(cursor.array()?);
                return Ok(
                    i64::try_from(wide).map_or_else(|_| Value::from(wide as f64), Value::from)
                );
            }
            0xcc | 0xce => return finite(f64::from_le_bytes(cursor.array()?), at),
            0xcd => return finite(f64::from(f32::from_le_bytes(cursor.array()?)), at),
            _ => return Err(BinaryJsonFault::Marker(marker).at(at)),
        };
        Ok(Value::from(integer))
    }

    /// Bytes have no form of their own in JSON; the SDKs read them as base64.
    fn binary(&mut self, marker: u8, at: usize) -> Result<Value, BinaryJsonError> {
        let width = Width::of(marker - 0xdd);
        let length = self.cursor.length(width)?;
        let text = BASE64_STANDARD.encode(self.cursor.take(length)?);
        self.charge(text.len(), at)?;
        Ok(Value::from(text))
    }

    fn array(&mut self, form: u8, at: usize, depth: usize) -> Result<Value, BinaryJsonError> {
        let depth = self.deeper(depth, at)?;
        let extent = self.enter(form, at)?;
        let mut elements = Vec::new();
        while self.has_more(&extent, elements.len()) {
            elements.push(self.value(depth)?);
        }
        self.leave(&extent, elements.len(), at)?;
        Ok(Value::Array(Arc::new(elements)))
    }

    fn object(&mut self, form: u8, at: usize, depth: usize) -> Result<Value, BinaryJsonError> {
        let depth = self.deeper(depth, at)?;
        let extent = self.enter(form, at)?;
        let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
        let mut names = Names::default();
        while self.has_more(&extent, entries.len()) {
            let name_at = self.cursor.at();
            let marker = self.cursor.byte()?;
            self.charge(1, name_at)?;
            let Some(name) = self.string(marker, name_at)? else {
                return Err(BinaryJsonFault::Name(marker).at(name_at));
            };
            if !names.insert(&name, &entries) {
                return Err(BinaryJsonFault::Duplicate(Box::from(&*name)).at(name_at));
            }
            entries.push((name, self.value(depth)?));
        }
        self.leave(&extent, entries.len(), at)?;
        Ok(Value::object(Object::from_distinct(entries)))
    }

    /// The depth inside a container at this depth; also counts its second bracket.
    fn deeper(&mut self, depth: usize, at: usize) -> Result<usize, BinaryJsonError> {
        if depth >= limits::NESTING_DEPTH_MAX {
            return Err(BinaryJsonFault::Depth.at(at));
        }
        self.charge(1, at)?;
        Ok(depth + 1)
    }

    /// Reads how far a container goes and sets the cursor's end to it.
    fn enter(&mut self, form: u8, at: usize) -> Result<Extent, BinaryJsonError> {
        if form < 2 {
            return Ok(Extent::Members(usize::from(form)));
        }
        let width = Width::of((form - 2) % 3);
        let length = self.cursor.length(width)?;
        let count = if form < 5 { None } else { Some(self.cursor.length(width)?) };
        let outer_end =
            self.cursor.narrow(length).ok_or_else(|| BinaryJsonFault::Length(length).at(at))?;
        Ok(Extent::Bytes { outer_end, count })
    }

    fn has_more(&self, extent: &Extent, members: usize) -> bool {
        match extent {
            Extent::Members(count) => members < *count,
            Extent::Bytes { .. } => !self.cursor.is_at_end(),
        }
    }

    fn leave(&mut self, extent: &Extent, found: usize, at: usize) -> Result<(), BinaryJsonError> {
        let Extent::Bytes { outer_end, count } = *extent else { return Ok(()) };
        self.cursor.widen(outer_end);
        match count {
            Some(told) if told != found => Err(BinaryJsonFault::Count { told, found }.at(at)),
            _ => Ok(()),
        }
    }

    /// `type of number, count, numbers`: none of the numbers has a marker of its own.
    fn numbers(&mut self, width: Width, at: usize, depth: usize) -> Result<Value, BinaryJsonError> {
        self.deeper(depth, at)?;
        let (marker, marker_at) = self.number_marker()?;
        let count = self.cursor.length(width)?;
        self.uniform(marker, marker_at, count)
    }

    /// `type of array, type of number, count of numbers, count of arrays, numbers`.
    fn number_arrays(
        &mut self,
        width: Width,
        at: usize,
        depth: usize,
    ) -> Result<Value, BinaryJsonError> {
        let depth = self.deeper(depth, at)?;
        self.deeper(depth, at)?;
        let inner_at = self.cursor.at();
        let inner = self.cursor.byte()?;
        if inner != if width == Width::One { 0xf0 } else { 0xf1 } {
            return Err(BinaryJsonFault::Marker(inner).at(inner_at));
        }
        let (marker, marker_at) = self.number_marker()?;
        let count = self.cursor.length(width)?;
        let arrays = self.cursor.length(width)?;
        let mut elements = Vec::new();
        for _ in 0..arrays {
            self.charge(3, at)?;
            elements.push(self.uniform(marker, marker_at, count)?);
        }
        Ok(Value::Array(Arc::new(elements)))
    }

    /// The type of the numbers of a uniform array: only some markers may stand there.
    fn number_marker(&mut self) -> Result<(u8, usize), BinaryJsonError> {
        let at = self.cursor.at();
        match self.cursor.byte()? {
            marker @ (0xcd | 0xce | 0xd7..=0xdc) => Ok((marker, at)),
            marker => Err(BinaryJsonFault::Marker(marker).at(at)),
        }
    }

    fn uniform(
        &mut self,
        marker: u8,
        marker_at: usize,
        count: usize,
    ) -> Result<Value, BinaryJsonError> {
        let mut elements = Vec::new();
        for _ in 0..count {
            self.charge(2, marker_at)?;
            elements.push(self.number(marker, marker_at)?);
        }
        Ok(Value::Array(Arc::new(elements)))
    }

    /// Counts bytes of text; no body may stand for more text than a body may have.
    fn charge(&mut self, text_bytes: usize, at: usize) -> Result<(), BinaryJsonError> {
        self.text_bytes = self.text_bytes.saturating_add(text_bytes);
        if self.text_bytes > limits::REQUEST_BODY_BYTES_MAX {
            return Err(BinaryJsonFault::TooLarge { text_bytes: self.text_bytes }.at(at));
        }
        Ok(())
    }
}

fn finite(number: f64, at: usize) -> Result<Value, BinaryJsonError> {
    if number.is_finite() {
        Ok(Value::from(number))
    } else {
        Err(BinaryJsonFault::NotFinite.at(at))
    }
}

/// Property names met so far. Few are compared one by one; many go through a set, so that an
/// object of very many properties takes no quadratic time.
#[derive(Default)]
struct Names {
    set: HashSet<Arc<str>>,
}

impl Names {
    const FEW: usize = 16;

    fn insert(&mut self, name: &Arc<str>, before: &[(Arc<str>, Value)]) -> bool {
        if before.len() < Self::FEW {
            return before.iter().all(|(other, _)| other != name);
        }
        if self.set.is_empty() {
            self.set.extend(before.iter().map(|(other, _)| other.clone()));
        }
        self.set.insert(name.clone())
    }
}
