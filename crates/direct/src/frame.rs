//! Where a frame ends. Bytes come in pieces of any size; [`next_frame`] takes a whole frame off the
//! front of what has come, or says how much is missing. Nothing is set aside for bytes that a client
//! only announces, and what it announces is checked before it is waited for.
//!
//! ```text
//! 0        4                  24        n        n+4        n+4+m
//! | n: u32 | codes or status  | tokens  | m: u32 | body     |
//!                                        only if the token PayloadPresent is 1
//! ```

use bytes::{Bytes, BytesMut};
use orrery_types::limits;

use crate::error::DirectError;
use crate::handshake::ContextResponse;
use crate::token::{self, Byte};
use crate::{request, response};

/// Bytes before the first token.
pub const HEAD_BYTES_MIN: usize = 24;
/// Bytes that are enough to tell this protocol from others.
pub const OPENING_BYTES: usize = 8;

/// How large a frame may be.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each is the limit of its name")]
pub struct FrameLimits {
    pub head_bytes_max: usize,
    pub body_bytes_max: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: limits::DIRECT_HEAD_BYTES_MAX,
            body_bytes_max: limits::REQUEST_BODY_BYTES_MAX,
        }
    }
}

/// Which frames are read: the token that announces a body differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum FrameKind {
    ContextRequest,
    ContextResponse,
    Request,
    Response,
}

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Everything from the length to the last token.
    pub head: Bytes,
    /// The body; empty if there is none.
    pub body: Bytes,
}

/// What has come so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameProgress {
    /// A frame, which was taken off the front.
    Whole(Frame),
    /// Part of one: so many bytes in all are needed to know more.
    Partial(usize),
}

/// Whether a connection that begins with these bytes speaks this protocol. A context request is
/// shorter than 64 KB and has two codes of zero, so that six of its first eight bytes are zero; HTTP
/// begins with text.
pub fn is_direct(opening: &[u8; OPENING_BYTES]) -> bool {
    opening[2..] == [0; 6]
}

/// Takes the next frame off the front of what has come.
pub fn next_frame(
    buffer: &mut BytesMut,
    kind: FrameKind,
    limits: &FrameLimits,
) -> Result<FrameProgress, DirectError> {
    let Some(length) = length_at(buffer, 0) else {
        return Ok(FrameProgress::Partial(HEAD_BYTES_MIN));
    };
    if !(HEAD_BYTES_MIN..=limits.head_bytes_max).contains(&length) {
        let max = limits.head_bytes_max;
        return Err(DirectError::HeadSize { size: length, min: HEAD_BYTES_MIN, max });
    }
    let Some(head) = buffer.get(..length) else { return Ok(FrameProgress::Partial(length)) };
    if !has_body(head, kind)? {
        let head = buffer.split_to(length).freeze();
        return Ok(FrameProgress::Whole(Frame { head, body: Bytes::new() }));
    }
    let body_from = length + 4;
    let Some(size) = length_at(buffer, length) else {
        return Ok(FrameProgress::Partial(body_from));
    };
    if size > limits.body_bytes_max {
        return Err(DirectError::BodySize { size, max: limits.body_bytes_max });
    }
    if buffer.len() < body_from + size {
        return Ok(FrameProgress::Partial(body_from + size));
    }
    let head = buffer.split_to(length).freeze();
    let _ = buffer.split_to(4);
    let body = buffer.split_to(size).freeze();
    Ok(FrameProgress::Whole(Frame { head, body }))
}

fn length_at(buffer: &[u8], from: usize) -> Option<usize> {
    let bytes = buffer.get(from..from + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn has_body(head: &[u8], kind: FrameKind) -> Result<bool, DirectError> {
    let FrameHead { first, second, tokens, .. } = FrameHead::read(head)?;
    let id = match kind {
        FrameKind::ContextRequest => return Ok(false),
        FrameKind::ContextResponse => {
            let status = u32::from(first) | u32::from(second) << 16;
            return Ok(!ContextResponse::accepts(status));
        }
        FrameKind::Request => request::PAYLOAD_PRESENT,
        FrameKind::Response => response::PAYLOAD_PRESENT,
    };
    let flag = token::find::<Byte>(tokens, id)?.ok_or(DirectError::Missing { id })?;
    Ok(flag != 0)
}

/// The parts of a head that every frame has.
pub(crate) struct FrameHead<'a> {
    /// Bytes 4 and 5: the resource type, or the lower half of the status.
    pub(crate) first: u16,
    /// Bytes 6 and 7: the operation type, or the upper half of the status.
    pub(crate) second: u16,
    pub(crate) activity_id: [u8; 16],
    pub(crate) tokens: &'a [u8],
}

impl<'a> FrameHead<'a> {
    pub(crate) fn read(head: &'a [u8]) -> Result<Self, DirectError> {
        let parts = head.split_first_chunk::<4>().and_then(|(_, rest)| {
            let (first, rest) = rest.split_first_chunk::<2>()?;
            let (second, rest) = rest.split_first_chunk::<2>()?;
            let (activity_id, tokens) = rest.split_first_chunk::<16>()?;
            Some((u16::from_le_bytes(*first), u16::from_le_bytes(*second), activity_id, tokens))
        });
        let (first, second, activity_id, tokens) = parts.ok_or(DirectError::HeadSize {
            size: head.len(),
            min: HEAD_BYTES_MIN,
            max: u32::MAX as usize,
        })?;
        Ok(Self { first, second, activity_id: *activity_id, tokens })
    }
}

/// Writes the length of a head that begins at `from` and ends here.
pub(crate) fn write_length(from: usize, out: &mut BytesMut) -> Result<(), DirectError> {
    let size = out.len() - from;
    let too_large = DirectError::HeadSize { size, min: HEAD_BYTES_MIN, max: u32::MAX as usize };
    let length = u32::try_from(size).map_err(|_| too_large)?;
    match out.get_mut(from..from + 4) {
        Some(place) => place.copy_from_slice(&length.to_le_bytes()),
        None => return Err(too_large),
    }
    Ok(())
}
