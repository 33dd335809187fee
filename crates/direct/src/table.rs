//! A struct for a table of tokens. The rows say number, name, type and whether the token must be
//! there; the struct has one field a row, so reading a request makes no map and copies no value.
//!
//! Numbers that the table does not have are skipped: clients of other versions send them. A number
//! that it has must come with its type and at most once, because which of two values a client meant
//! cannot be known.

use bytes::BytesMut;

use crate::error::DirectError;
use crate::token::{self, RawToken, TokenType, WireType};

/// Whether a token must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Presence {
    Required,
    Optional,
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TokenRow {
    pub id: u16,
    pub name: &'static str,
    pub kind: TokenType,
    pub presence: Presence,
}

/// Puts the value of a token where the table says.
pub(crate) fn set<'a, K: WireType>(
    token: &RawToken<'a>,
    field: &mut Option<K::Value<'a>>,
) -> Result<(), DirectError> {
    if field.is_some() {
        return Err(DirectError::Duplicate { id: token.id });
    }
    *field = Some(token.value::<K>()?);
    Ok(())
}

pub(crate) fn put<K: WireType>(
    id: u16,
    field: Option<K::Value<'_>>,
    out: &mut BytesMut,
) -> Result<(), DirectError> {
    match field {
        Some(value) => token::write::<K>(id, value, out),
        None => Ok(()),
    }
}

/// What a value of a type is in memory. The same as [`WireType::Value`], but written out: through the
/// trait, a struct could not be used for a shorter time than that for which it was borrowed.
macro_rules! value_type {
    (Byte, $life:lifetime) => { u8 };
    (ULong, $life:lifetime) => { u32 };
    (LongLong, $life:lifetime) => { i64 };
    (Guid, $life:lifetime) => { [u8; 16] };
    (SmallString, $life:lifetime) => { &$life str };
    (String, $life:lifetime) => { &$life str };
    (Bytes, $life:lifetime) => { &$life [u8] };
    (Double, $life:lifetime) => { f64 };
}

macro_rules! token_table {
    ($(#[$doc:meta])* $name:ident { $($id:literal $field:ident: $kind:ident, $presence:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "each is a row of the table, named as the protocol names it")]
        pub struct $name<'a> {
            $(pub $field: Option<$crate::table::value_type!($kind, 'a)>,)*
        }

        impl<'a> $name<'a> {
            /// The table, in the order in which tokens are written.
            pub const TABLE: &'static [$crate::table::TokenRow] = &[$($crate::table::TokenRow {
                id: $id,
                name: stringify!($field),
                kind: <$crate::token::$kind as $crate::token::WireType>::TYPE,
                presence: $crate::table::Presence::$presence,
            },)*];

            /// Reads the tokens of a frame.
            pub fn decode(tokens: &'a [u8]) -> Result<Self, $crate::error::DirectError> {
                let mut decoded = Self::default();
                for token in $crate::token::Tokens::new(tokens) {
                    let token = token?;
                    match token.id {
                        $($id => $crate::table::set::<$crate::token::$kind>(
                            &token,
                            &mut decoded.$field,
                        )?,)*
                        _ => {}
                    }
                }
                $(if $crate::table::Presence::$presence == $crate::table::Presence::Required
                    && decoded.$field.is_none()
                {
                    return Err($crate::error::DirectError::Missing { id: $id });
                })*
                Ok(decoded)
            }

            /// Writes the tokens that have a value.
            pub fn encode(
                &self,
                out: &mut bytes::BytesMut,
            ) -> Result<(), $crate::error::DirectError> {
                $($crate::table::put::<$crate::token::$kind>($id, self.$field, out)?;)*
                Ok(())
            }
        }
    };
}

pub(crate) use {token_table, value_type};
