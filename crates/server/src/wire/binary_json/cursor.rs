//! A place in a binary body. Every read is checked against the end of the innermost container, so
//! that nothing inside it can reach beyond it.

use super::error::{BinaryJsonError, BinaryJsonFault};

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// Bytes of a length or count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    One,
    Two,
    Four,
}

impl Width {
    /// Markers that differ by width alone stand in this order.
    pub(super) fn of(step: u8) -> Self {
        match step {
            0 => Self::One,
            1 => Self::Two,
            _ => Self::Four,
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    pub(super) fn take(&mut self, needed: usize) -> Result<&'a [u8], BinaryJsonError> {
        let left = self.end - self.at;
        if needed > left {
            return Err(BinaryJsonFault::Truncated { needed, left }.at(self.at));
        }
        let taken = &self.bytes[self.at..self.at + needed];
        self.at += needed;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], BinaryJsonError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, BinaryJsonError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn length(&mut self, width: Width) -> Result<usize, BinaryJsonError> {
        match width {
            Width::One => self.unsigned(1),
            Width::Two => self.unsigned(2),
            Width::Four => self.unsigned(4),
        }
    }

    /// An unsigned number of one to four bytes.
    pub(super) fn unsigned(&mut self, width: usize) -> Result<usize, BinaryJsonError> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    }

    /// Moves the end to so many bytes from here and returns where it was; `None` if it was nearer.
    pub(super) fn narrow(&mut self, length: usize) -> Option<usize> {
        if length > self.end - self.at {
            return None;
        }
        let outer_end = self.end;
        self.end = self.at + length;
        Some(outer_end)
    }

    /// Moves the end back to what [`Self::narrow`] returned.
    pub(super) fn widen(&mut self, outer_end: usize) {
        self.end = outer_end;
    }

    /// Asserts that nothing is left.
    pub(super) fn finish(&self) -> Result<(), BinaryJsonError> {
        match self.end - self.at {
            0 => Ok(()),
            left => Err(BinaryJsonFault::Trailing(left).at(self.at)),
        }
    }
}
