//! The many ways to write a string: plain, by reference, as a GUID, as the bytes that its base64
//! stands for, or packed into fewer than eight bits a character.
//!
//! ```text
//! 71 72 73 74  groups of four, padding, bytes: base64; 73 and 74 with the URL's alphabet
//! 75 76 77     16 bytes: GUID in lower case, in upper case, in lower case within quotes
//! 78 79 7a     length, two characters a byte: lower hex, upper hex, date and time
//! 7b 7c 7d     length, first character, 4, 5 or 6 bits a character from there
//! 7e 7f        length of one or two bytes, 7 bits a character
//! ```
//!
//! Within a byte the low bits come first.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{
    BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD,
};

use super::Decoder;
use super::cursor::Width;
use super::error::{BinaryJsonError, BinaryJsonFault};
use super::system_string::SYSTEM_STRINGS;

type Alphabet = [u8; 16];
const LOWER_HEX: &Alphabet = b"0123456789abcdef";
const UPPER_HEX: &Alphabet = b"0123456789ABCDEF";
const DATE_TIME: &Alphabet = b" 0123456789:-.TZ";

impl Decoder<'_> {
    /// The string that a marker calls for; `None` if it calls for no string.
    pub(super) fn string(
        &mut self,
        marker: u8,
        at: usize,
    ) -> Result<Option<Arc<str>>, BinaryJsonError> {
        let text: Arc<str> = match marker {
            0x20..=0x3f => SYSTEM_STRINGS[usize::from(marker - 0x20)].into(),
            0x40..=0x67 => return Err(BinaryJsonFault::UserString(marker).at(at)),
            0x71 | 0x72 => self.base64(Width::of(marker - 0x71), Base64::Standard, at)?.into(),
            0x73 | 0x74 => self.base64(Width::of(marker - 0x73), Base64::Url, at)?.into(),
            0x75 => guid(self.cursor.array()?, LOWER_HEX).into(),
            0x76 => guid(self.cursor.array()?, UPPER_HEX).into(),
            0x77 => format!("\"{}\"", guid(self.cursor.array()?, LOWER_HEX)).into(),
            0x78 => self.nibbles(LOWER_HEX, at)?.into(),
            0x79 => self.nibbles(UPPER_HEX, at)?.into(),
            0x7a => self.nibbles(DATE_TIME, at)?.into(),
            0x7b..=0x7d => {
                let length = self.cursor.length(Width::One)?;
                let base = self.cursor.byte()?;
                self.packed(length, u32::from(marker - 0x7b) + 4, base, at)?.into()
            }
            0x7e | 0x7f => {
                let length = self.cursor.length(Width::of(marker - 0x7e))?;
                self.packed(length, 7, 0, at)?.into()
            }
            0x80..=0xbf => self.plain(usize::from(marker & 0x3f), at)?,
            0xc0..=0xc2 => {
                let length = self.cursor.length(Width::of(marker - 0xc0))?;
                self.plain(length, at)?
            }
            0xc3..=0xc6 => return self.reference(usize::from(marker - 0xc2), at).map(Some),
            _ => return Ok(None),
        };
        self.charge(text.len() + 2, at)?;
        self.strings.push((at, text.clone()));
        Ok(Some(text))
    }

    fn plain(&mut self, length: usize, at: usize) -> Result<Arc<str>, BinaryJsonError> {
        let bytes = self.cursor.take(length)?;
        std::str::from_utf8(bytes).map(Arc::from).map_err(|_| BinaryJsonFault::Utf8.at(at))
    }

    /// A string that was written before. It must be one that was read as such: any other offset
    /// would let the same bytes mean two things.
    fn reference(&mut self, width: usize, at: usize) -> Result<Arc<str>, BinaryJsonError> {
        let target = self.cursor.unsigned(width)?;
        let found = self.strings.binary_search_by_key(&target, |(offset, _)| *offset);
        let place = found.map_err(|_| BinaryJsonFault::Reference(target).at(at))?;
        let text = self.strings[place].1.clone();
        self.charge(text.len() + 2, at)?;
        Ok(text)
    }

    /// The padding is how many `=` the text has; its complement says that they were left out.
    fn base64(
        &mut self,
        width: Width,
        alphabet: Base64,
        at: usize,
    ) -> Result<String, BinaryJsonError> {
        let groups = self.cursor.length(width)?;
        let byte = self.cursor.byte()?;
        let (padding, is_written) = if byte <= 2 { (byte, true) } else { (!byte, false) };
        let size = (groups * 3).checked_sub(usize::from(padding)).filter(|_| padding <= 2);
        let bytes = self.cursor.take(size.ok_or_else(|| BinaryJsonFault::Padding.at(at))?)?;
        let engine = match (alphabet, is_written) {
            (Base64::Standard, true) => &BASE64_STANDARD,
            (Base64::Standard, false) => &BASE64_STANDARD_NO_PAD,
            (Base64::Url, true) => &BASE64_URL_SAFE,
            (Base64::Url, false) => &BASE64_URL_SAFE_NO_PAD,
        };
        Ok(engine.encode(bytes))
    }

    fn nibbles(&mut self, alphabet: &Alphabet, at: usize) -> Result<String, BinaryJsonError> {
        let length = self.cursor.length(Width::One)?;
        let bytes = self.cursor.take(length.div_ceil(2))?;
        if length % 2 == 1 && bytes.last().is_some_and(|last| last >> 4 != 0) {
            return Err(BinaryJsonFault::Padding.at(at));
        }
        Ok(bytes.iter().flat_map(|byte| pair(*byte, alphabet)).take(length).collect())
    }

    /// Bits after the last character may be anything: one of the SDKs leaves ones there.
    fn packed(
        &mut self,
        length: usize,
        bits: u32,
        base: u8,
        at: usize,
    ) -> Result<String, BinaryJsonError> {
        let bytes = self.cursor.take((length * bits as usize).div_ceil(8))?;
        let mut bytes = bytes.iter();
        let (mut window, mut filled) = (0_u32, 0);
        let mut text = String::with_capacity(length);
        for _ in 0..length {
            if filled < bits {
                let next = bytes.next().expect("as many bytes were taken as the characters need");
                window |= u32::from(*next) << filled;
                filled += 8;
            }
            let code = (window & ((1 << bits) - 1)) + u32::from(base);
            let ascii = u8::try_from(code).ok().filter(u8::is_ascii);
            text.push(char::from(ascii.ok_or_else(|| BinaryJsonFault::NotAscii.at(at))?));
            window >>= bits;
            filled -= bits;
        }
        Ok(text)
    }
}

/// Which characters stand for 62 and 63.
#[derive(Clone, Copy)]
enum Base64 {
    Standard,
    Url,
}

/// The two characters of a byte.
fn pair(byte: u8, alphabet: &Alphabet) -> [char; 2] {
    [byte & 0x0f, byte >> 4].map(|nibble| char::from(alphabet[usize::from(nibble)]))
}

/// A GUID whose digits were packed one after the other.
fn guid(bytes: [u8; 16], alphabet: &Alphabet) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend(pair(byte, alphabet));
    }
    text
}

/// A GUID that was written as the numbers it consists of.
pub(super) fn guid_value(bytes: [u8; 16]) -> String {
    uuid::Uuid::from_bytes_le(bytes).to_string()
}
