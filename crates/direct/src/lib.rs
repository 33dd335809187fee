//! The binary protocol of Direct mode: what clients send to a replica instead of HTTP, and what they
//! get back. This crate turns bytes into typed requests and typed answers into bytes. It opens no
//! socket and knows nothing of the database.
//!
//! A connection begins with one context request and its answer ([`handshake`]). After that the client
//! sends requests without waiting for answers, and answers come in any order; each names the request
//! it belongs to. All integers are little-endian.
//!
//! ```text
//!            0        4          6           8               24               n
//! request    | n: u32 | resource | operation | activity id   | tokens         | m: u32, m bytes of body
//! answer     | n: u32 | status: u32          | activity id   | tokens         | m: u32, m bytes of body
//! ```
//!
//! `n` counts its own four bytes and everything to the last token; `m` counts the body alone. Body
//! and `m` are there only if a token says so. Reading goes through [`frame`], which finds where a frame
//! ends, [`token`], which reads one token, [`table`], which fills a struct by a table of tokens, and
//! [`request`] or [`response`], which hold those tables.

pub mod code;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod request;
pub mod response;
pub mod table;
pub mod token;

pub use code::{OperationCode, ResourceCode};
pub use error::DirectError;
pub use frame::{Frame, FrameKind, FrameLimits, FrameProgress, is_direct, next_frame};
pub use handshake::{ContextRequest, ContextResponse};
pub use request::{FrameRequest, RequestTokens};
pub use response::{FrameResponse, ResponseTokens};
