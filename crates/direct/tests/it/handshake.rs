//! The first exchange of a connection, and how the protocol is told from others.

use bytes::BytesMut;
use orrery_direct::handshake::{ContextRequestTokens, ContextResponseTokens};
use orrery_direct::{ContextRequest, ContextResponse, DirectError, FrameKind, is_direct};

use crate::{head, whole};

fn request() -> ContextRequest<'static> {
    ContextRequest {
        activity_id: [3; 16],
        tokens: ContextRequestTokens {
            protocol_version: Some(1),
            client_version: Some("2020-07-15"),
            user_agent: Some("a client"),
            caller_id: Some(0),
            enable_multiplexing: None,
        },
    }
}

#[test]
fn a_context_request_reads_back() {
    let mut out = BytesMut::new();
    request().encode(&mut out).expect("it fits");
    assert!(is_direct(out[..8].try_into().expect("eight bytes")));
    let frame = whole(&out, FrameKind::ContextRequest);
    assert_eq!(ContextRequest::decode(&frame.head), Ok(request()));
}

#[test]
fn other_protocols_are_told_apart() {
    let openings: [&[u8; 8]; 5] = [
        b"GET / HT",
        b"POST /db",
        b"PRI * HT",
        b"\x16\x03\x01\x02\0\x01\0\x01",
        b"\r\n\r\n\r\n\r\n",
    ];
    for opening in openings {
        assert!(!is_direct(opening), "{opening:?}");
    }
    // A frame too long for a context request, and one that is a request already.
    assert!(!is_direct(&[0, 0, 1, 0, 0, 0, 0, 0]));
    assert!(!is_direct(&[0x80, 0, 0, 0, 3, 0, 3, 0]));
}

#[test]
fn a_context_request_without_version_or_agent_is_refused() {
    let refused = |tokens: ContextRequestTokens<'_>| {
        let mut out = BytesMut::new();
        ContextRequest { tokens, ..request() }.encode(&mut out).expect("it fits");
        ContextRequest::decode(&out).expect_err("something is missing")
    };
    let tokens = request().tokens;
    let without = ContextRequestTokens { protocol_version: None, ..tokens };
    assert_eq!(refused(without), DirectError::Missing { id: 0 });
    let without = ContextRequestTokens { client_version: None, ..tokens };
    assert_eq!(refused(without), DirectError::Missing { id: 1 });
    let without = ContextRequestTokens { user_agent: None, ..tokens };
    assert_eq!(refused(without), DirectError::Missing { id: 2 });
    let other = ContextRequestTokens { protocol_version: Some(2), ..tokens };
    assert_eq!(refused(other), DirectError::ProtocolVersion { version: 2 });
}

#[test]
fn a_request_in_place_of_the_context_is_refused() {
    assert_eq!(ContextRequest::decode(&head(3, 3, crate::REQUIRED)), Err(DirectError::NoContext));
    assert_eq!(ContextRequest::decode(&head(0, 3, &[])), Err(DirectError::NoContext));
}

#[test]
fn an_answer_has_a_body_only_if_it_refuses() {
    let tokens = ContextResponseTokens {
        protocol_version: Some(1),
        client_version: Some("2020-07-15"),
        server_agent: Some("a server"),
        server_version: Some("1"),
        idle_timeout_s: Some(1800),
        unauthenticated_timeout_s: Some(5),
    };
    for (status, body) in [(200, ""), (304, ""), (400, "{}"), (500, "{}")] {
        let response = ContextResponse { status, activity_id: [3; 16], tokens };
        let mut out = BytesMut::new();
        response.encode(b"{}", &mut out).expect("it fits");
        let frame = whole(&out, FrameKind::ContextResponse);
        assert_eq!(ContextResponse::decode(&frame.head), Ok(response));
        assert_eq!(frame.body, body);
    }
}
