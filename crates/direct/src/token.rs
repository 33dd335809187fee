//! One token: a number that says what it means, the type of its value, and the value.
//!
//! ```text
//! | id: u16 | type: u8 | value                                                  |
//!
//! 00 Byte       1 byte, also a flag      08 String       u16 length, UTF-8
//! 01 UShort     u16                      09 ULongString  u32 length, UTF-8
//! 02 ULong      u32                      0A SmallBytes   u8 length, bytes
//! 03 Long       i32                      0B Bytes        u16 length, bytes
//! 04 ULongLong  u64                      0C ULongBytes   u32 length, bytes
//! 05 LongLong   i64                      0D Float        f32
//! 06 Guid       16 bytes                 0E Double       f64
//! 07 SmallString u8 length, UTF-8
//! ```
//!
//! A Guid is written as Microsoft does: its first three groups little-endian, the rest as it is. It is
//! kept in that order here.

use bytes::BytesMut;

use crate::error::DirectError;

/// How the length of a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The type alone says it.
    Fixed(usize),
    /// It stands before the value, in so many bytes.
    Prefixed(usize),
}

macro_rules! token_types {
    ($($name:ident = $code:literal, $layout:ident($size:literal);)*) => {
        /// The type of a value on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the head of the file describes each")]
        pub enum TokenType { $($name,)* }

        impl TokenType {
            /// Every type.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The type with this number.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its number.
            pub const fn code(self) -> u8 {
                match self { $(Self::$name => $code,)* }
            }

            const fn layout(self) -> Layout {
                match self { $(Self::$name => Layout::$layout($size),)* }
            }
        }
    };
}

token_types! {
    Byte = 0x00, Fixed(1);
    UShort = 0x01, Fixed(2);
    ULong = 0x02, Fixed(4);
    Long = 0x03, Fixed(4);
    ULongLong = 0x04, Fixed(8);
    LongLong = 0x05, Fixed(8);
    Guid = 0x06, Fixed(16);
    SmallString = 0x07, Prefixed(1);
    String = 0x08, Prefixed(2);
    ULongString = 0x09, Prefixed(4);
    SmallBytes = 0x0a, Prefixed(1);
    Bytes = 0x0b, Prefixed(2);
    ULongBytes = 0x0c, Prefixed(4);
    Float = 0x0d, Fixed(4);
    Double = 0x0e, Fixed(8);
}

/// A token whose value has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawToken<'a> {
    /// What it means.
    pub id: u16,
    /// Of which type its value is.
    pub kind: TokenType,
    /// The value, without its length.
    pub bytes: &'a [u8],
}

impl<'a> RawToken<'a> {
    /// The value, if it is of this type.
    pub fn value<K: WireType>(&self) -> Result<K::Value<'a>, DirectError> {
        let id = self.id;
        if self.kind != K::TYPE {
            return Err(DirectError::WrongType { id, expected: K::TYPE, found: self.kind });
        }
        // Only text can be wrong here: the length of everything else is that of its type.
        K::read(self.bytes).ok_or(DirectError::NotUtf8 { id })
    }
}

/// Reads tokens one after the other. After an error there is nothing more.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    all: &'a [u8],
    offset: usize,
}

impl<'a> Tokens<'a> {
    /// The tokens in these bytes.
    pub const fn new(all: &'a [u8]) -> Self {
        Self { all, offset: 0 }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.all.get(self.offset..self.offset.checked_add(count)?)?;
        self.offset += count;
        Some(taken)
    }

    /// A length of one, two or four bytes.
    fn length(&mut self, count: usize) -> Option<usize> {
        let bytes = self.take(count)?;
        let number = bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        usize::try_from(number).ok()
    }

    fn read(&mut self) -> Result<RawToken<'a>, DirectError> {
        let truncated = DirectError::Truncated { offset: self.offset };
        let Some([low, high, code]) = self.take(3) else { return Err(truncated) };
        let id = u16::from_le_bytes([*low, *high]);
        let kind =
            TokenType::from_code(*code).ok_or(DirectError::UnknownType { id, code: *code })?;
        let length = match kind.layout() {
            Layout::Fixed(length) => Some(length),
            Layout::Prefixed(count) => self.length(count),
        };
        let bytes = length.and_then(|length| self.take(length)).ok_or(truncated)?;
        Ok(RawToken { id, kind, bytes })
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<RawToken<'a>, DirectError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.all.len() {
            return None;
        }
        let token = self.read();
        if token.is_err() {
            self.offset = self.all.len();
        }
        Some(token)
    }
}

/// The first token with this number, if there is one of this type.
pub fn find<K: WireType>(tokens: &[u8], id: u16) -> Result<Option<K::Value<'_>>, DirectError> {
    for token in Tokens::new(tokens) {
        let token = token?;
        if token.id == id {
            return token.value::<K>().map(Some);
        }
    }
    Ok(None)
}

/// A type of values: how one is read and written.
pub trait WireType {
    /// Its number on the wire.
    const TYPE: TokenType;
    /// What a value is in memory.
    type Value<'a>: Copy + std::fmt::Debug + PartialEq;

    /// Reads a value from bytes of the length that the type demands; `None` if it is not UTF-8.
    fn read(bytes: &[u8]) -> Option<Self::Value<'_>>;

    /// Writes a value behind its length. A value that is too long is not written, and its length
    /// returned.
    fn write(value: Self::Value<'_>, out: &mut BytesMut) -> Result<(), usize>;
}

/// Writes a whole token.
pub fn write<K: WireType>(
    id: u16,
    value: K::Value<'_>,
    out: &mut BytesMut,
) -> Result<(), DirectError> {
    let [low, high] = id.to_le_bytes();
    out.extend_from_slice(&[low, high, K::TYPE.code()]);
    K::write(value, out).map_err(|size| DirectError::TooLong { id, size })
}

macro_rules! fixed_kinds {
    ($($name:ident: $value:ty;)*) => {$(
        /// The type of this name.
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl WireType for $name {
            const TYPE: TokenType = TokenType::$name;
            type Value<'a> = $value;

            fn read(bytes: &[u8]) -> Option<$value> {
                bytes.try_into().ok().map(<$value>::from_le_bytes)
            }

            fn write(value: $value, out: &mut BytesMut) -> Result<(), usize> {
                out.extend_from_slice(&value.to_le_bytes());
                Ok(())
            }
        }
    )*};
}

fixed_kinds! {
    Byte: u8;
    UShort: u16;
    ULong: u32;
    Long: i32;
    ULongLong: u64;
    LongLong: i64;
    Float: f32;
    Double: f64;
}

/// The type of this name.
#[derive(Clone, Copy, Debug)]
pub struct Guid;

impl WireType for Guid {
    const TYPE: TokenType = TokenType::Guid;
    type Value<'a> = [u8; 16];

    fn read(bytes: &[u8]) -> Option<[u8; 16]> {
        bytes.try_into().ok()
    }

    fn write(value: [u8; 16], out: &mut BytesMut) -> Result<(), usize> {
        out.extend_from_slice(&value);
        Ok(())
    }
}

macro_rules! prefixed_kinds {
    ($($name:ident: $value:ty, $length:ty, $read:expr, $bytes:expr;)*) => {$(
        /// The type of this name.
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl WireType for $name {
            const TYPE: TokenType = TokenType::$name;
            type Value<'a> = &'a $value;

            fn read(bytes: &[u8]) -> Option<&$value> {
                $read(bytes)
            }

            fn write(value: &$value, out: &mut BytesMut) -> Result<(), usize> {
                let bytes: &[u8] = $bytes(value);
                let length = <$length>::try_from(bytes.len()).map_err(|_| bytes.len())?;
                out.extend_from_slice(&length.to_le_bytes());
                out.extend_from_slice(bytes);
                Ok(())
            }
        }
    )*};
}

prefixed_kinds! {
    SmallString: str, u8, text, str::as_bytes;
    String: str, u16, text, str::as_bytes;
    ULongString: str, u32, text, str::as_bytes;
    SmallBytes: [u8], u8, Some, std::convert::identity;
    Bytes: [u8], u16, Some, std::convert::identity;
    ULongBytes: [u8], u32, Some, std::convert::identity;
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
