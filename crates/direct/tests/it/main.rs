//! The codec from outside: frames that a client really sent, frames that nobody should send, and
//! everything in between by chance.

mod bad_input;
mod handshake;
mod recorded;
mod round_trip;
mod tables;

use bytes::BytesMut;
use orrery_direct::{DirectError, Frame, FrameKind, FrameLimits, FrameProgress, next_frame};

/// Reads one frame that must be whole and leave nothing behind.
fn whole(bytes: &[u8], kind: FrameKind) -> Frame {
    let mut buffer = BytesMut::from(bytes);
    let progress = next_frame(&mut buffer, kind, &FrameLimits::default());
    let Ok(FrameProgress::Whole(frame)) = progress else { panic!("not a frame: {progress:?}") };
    assert!(buffer.is_empty(), "{} bytes are left", buffer.len());
    frame
}

/// What reading the next request says about some bytes.
fn progress(bytes: &[u8]) -> Result<FrameProgress, DirectError> {
    next_frame(&mut BytesMut::from(bytes), FrameKind::Request, &FrameLimits::default())
}

/// A request's head of these codes around some tokens, with its true length.
fn head(resource: u16, operation: u16, tokens: &[u8]) -> Vec<u8> {
    let length = u32::try_from(24 + tokens.len()).expect("it is short");
    let mut head = length.to_le_bytes().to_vec();
    head.extend(resource.to_le_bytes());
    head.extend(operation.to_le_bytes());
    head.extend([7; 16]);
    head.extend(tokens);
    head
}

/// `PayloadPresent` = 0 and `TransportRequestID` = 9.
const REQUIRED: &[u8] = &[2, 0, 0, 0, 0x4d, 0, 2, 9, 0, 0, 0];
