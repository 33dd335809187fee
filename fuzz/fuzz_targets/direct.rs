//! Frames of Direct mode: what is read can be written and is read back the same, and no bytes take
//! more memory than they have.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use orrery_direct::{
    ContextRequest, ContextResponse, FrameKind, FrameLimits, FrameRequest, FrameResponse, FrameProgress,
    next_frame,
};

fuzz_target!(|bytes: &[u8]| {
    let limits = FrameLimits { head_bytes_max: 4096, body_bytes_max: 4096 };
    for kind in [
        FrameKind::ContextRequest,
        FrameKind::ContextResponse,
        FrameKind::Request,
        FrameKind::Response,
    ] {
        let mut buffer = BytesMut::from(bytes);
        while let Ok(progress) = next_frame(&mut buffer, kind, &limits) {
            let FrameProgress::Whole(frame) = progress else {
                let FrameProgress::Partial(needed) = progress else { unreachable!() };
                assert!(needed > buffer.len(), "what is there is enough");
                break;
            };
            again(&frame.head, &frame.body, kind);
        }
    }
});

/// Writes what the head says and reads it back. Numbers are compared as bytes: not every one equals
/// itself.
fn again(head: &[u8], body: &[u8], kind: FrameKind) {
    let mut first = BytesMut::new();
    let mut second = BytesMut::new();
    match kind {
        FrameKind::ContextRequest => {
            let Ok(request) = ContextRequest::decode(head) else { return };
            request.encode(&mut first).expect("it fitted before");
            let read = ContextRequest::decode(&first).expect("what we wrote");
            read.encode(&mut second).expect("it fitted before");
        }
        FrameKind::ContextResponse => {
            let Ok(response) = ContextResponse::decode(head) else { return };
            response.encode(body, &mut first).expect("it fitted before");
        }
        FrameKind::Request => {
            let Ok(request) = FrameRequest::decode(head) else { return };
            request.encode(body, &mut first).expect("it fitted before");
            let whole = next_frame(&mut first.clone(), kind, &FrameLimits::default());
            let Ok(FrameProgress::Whole(frame)) = whole else { panic!("what we wrote is a frame") };
            assert_eq!(frame.body, body);
            let read = FrameRequest::decode(&frame.head).expect("what we wrote");
            read.encode(body, &mut second).expect("it fitted before");
        }
        FrameKind::Response => {
            let Ok(response) = FrameResponse::decode(head) else { return };
            response.encode_head(body.len(), &mut first).expect("it fitted before");
            let length = u32::from_le_bytes(first[..4].try_into().expect("four bytes")) as usize;
            let read = FrameResponse::decode(&first[..length]).expect("what we wrote");
            read.encode_head(body.len(), &mut second).expect("it fitted before");
        }
    }
    if !second.is_empty() {
        assert_eq!(first, second);
    }
}
