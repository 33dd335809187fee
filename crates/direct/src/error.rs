//! What can be wrong with bytes of the protocol. None of these says anything about the database.

use crate::token::TokenType;

/// Bytes that are not a frame, or a value that does not fit into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum DirectError {
    #[error("The head of the frame is {size} bytes; between {min} and {max} are allowed.")]
    HeadSize { size: usize, min: usize, max: usize },
    #[error("The body of the frame is {size} bytes; the limit is {max}.")]
    BodySize { size: usize, max: usize },
    #[error("The token at byte {offset} ends after its frame does.")]
    Truncated { offset: usize },
    #[error("The token {id:#06x} has the type {code:#04x}, which does not exist.")]
    UnknownType { id: u16, code: u8 },
    #[error("The token {id:#06x} must be of the type {expected:?} and is of the type {found:?}.")]
    WrongType { id: u16, expected: TokenType, found: TokenType },
    #[error("The token {id:#06x} is not UTF-8.")]
    NotUtf8 { id: u16 },
    #[error("The token {id:#06x} comes twice.")]
    Duplicate { id: u16 },
    #[error("The token {id:#06x} is missing.")]
    Missing { id: u16 },
    #[error("The token {id:#06x} has {size} bytes, more than its type holds.")]
    TooLong { id: u16, size: usize },
    #[error("The resource type {code:#06x} is not supported.")]
    UnknownResource { code: u16 },
    #[error("The operation type {code:#06x} is not supported.")]
    UnknownOperation { code: u16 },
    #[error("The connection must begin with a context request.")]
    NoContext,
    #[error("The protocol version {version} is not supported; the only one is 1.")]
    ProtocolVersion { version: u32 },
}
