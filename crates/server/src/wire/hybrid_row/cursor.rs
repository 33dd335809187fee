//! A place in a stream. Every read is checked against the end.

use super::error::{HybridRowError, HybridRowFault};

/// Seven bits a byte, so no number that fits 64 bits takes more.
const VARUINT_BYTES_MAX: u32 = 10;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the first byte in the whole stream.
    base: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, at: 0, base }
    }

    /// The offset in the whole stream.
    pub(super) fn at(&self) -> usize {
        self.base + self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn take(&mut self, needed: usize) -> Result<&'a [u8], HybridRowError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..needed) else {
            return Err(HybridRowFault::Truncated { needed, left: rest.len() }.at(self.at()));
        };
        self.at += needed;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], HybridRowError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, HybridRowError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn varuint(&mut self) -> Result<usize, HybridRowError> {
        let at = self.at();
        let mut number = 0_u64;
        for position in 0..VARUINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits.checked_shl(7 * position).filter(|s| s >> (7 * position) == bits);
            number |= shifted.ok_or_else(|| HybridRowFault::VarUInt.at(at))?;
            if byte & 0x80 == 0 {
                return usize::try_from(number).map_err(|_| HybridRowFault::VarUInt.at(at));
            }
        }
        Err(HybridRowFault::VarUInt.at(at))
    }

    /// A length and so many bytes.
    pub(super) fn counted(&mut self) -> Result<&'a [u8], HybridRowError> {
        let length = self.varuint()?;
        self.take(length)
    }

    /// The version byte and the schema with which every row begins.
    pub(super) fn row_head(&mut self) -> Result<u32, HybridRowError> {
        let at = self.at();
        match self.byte()? {
            super::VERSION => Ok(u32::from_le_bytes(self.array()?)),
            other => Err(HybridRowFault::Version(other).at(at)),
        }
    }
}

pub(super) fn write_varuint(mut number: usize, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
