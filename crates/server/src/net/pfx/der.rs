//! Reads DER: a cursor over tag, length and value. Only what PKCS #12 files hold is known; lengths are
//! definite, as DER requires.

use super::PfxError;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// `[0]`, with a value inside.
pub(super) const EXPLICIT_0: u8 = 0xa0;
/// `[0]`, in place of another tag.
pub(super) const IMPLICIT_0: u8 = 0x80;

/// What is left of a value that is read from front to back.
#[derive(Clone, Copy)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next value, whatever its tag is.
    pub(super) fn next(&mut self) -> Result<(u8, Der<'a>), PfxError> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>().ok_or(PfxError::Form)?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Indefinite lengths are BER; longer ones than four bytes cannot be true.
            0x81..=0x84 => {
                let (digits, rest) =
                    rest.split_at_checked(usize::from(first & 0x7f)).ok_or(PfxError::Form)?;
                let length = digits.iter().fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte));
                (length, rest)
            }
            _ => return Err(PfxError::Form),
        };
        let (value, rest) = rest.split_at_checked(length).ok_or(PfxError::Form)?;
        self.0 = rest;
        Ok((tag, Der(value)))
    }

    /// The next value, which must have this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<Der<'a>, PfxError> {
        match self.next()? {
            (found, value) if found == tag => Ok(value),
            _ => Err(PfxError::Form),
        }
    }

    /// The next value, if there is one with this tag.
    pub(super) fn find(&mut self, tag: u8) -> Result<Option<Der<'a>>, PfxError> {
        match self.0.first() {
            Some(&found) if found == tag => self.expect(tag).map(Some),
            _ => Ok(None),
        }
    }

    /// The next value as a small number.
    pub(super) fn number(&mut self) -> Result<u32, PfxError> {
        let bytes = self.expect(INTEGER)?.0;
        let digits = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        if digits.is_empty() && bytes.is_empty() || digits.len() > 4 {
            return Err(PfxError::Form);
        }
        Ok(digits.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
    }
}
