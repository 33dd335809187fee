//! Requests of the .NET SDK, as it sent them.

use bytes::BytesMut;
use orrery_direct::token::Tokens;
use orrery_direct::{ContextRequest, FrameKind, FrameRequest, OperationCode, RequestTokens};

use crate::whole;

struct Recorded {
    name: &'static str,
    resource: &'static str,
    operation: &'static str,
    bytes: Vec<u8>,
}

fn recorded() -> Vec<Recorded> {
    let text = include_str!("../../../../testdata/direct/dotnet.txt");
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut all = Vec::new();
    while let Some(title) = lines.next() {
        let words: Vec<&str> = title.split(' ').collect();
        let [name, resource, operation] = words[..] else { panic!("a title: {title}") };
        let bytes = from_hex(lines.next().expect("a frame follows its title"));
        all.push(Recorded { name, resource, operation, bytes });
    }
    assert!(all.len() > 40, "only {} frames were read", all.len());
    all
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| u8::try_from(c.to_digit(16).expect("hex")).expect("a digit"))
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn every_recorded_request_decodes_to_its_operation_and_encodes_to_the_same_bytes() {
    for Recorded { name, resource, operation, bytes } in recorded() {
        let mut out = BytesMut::new();
        if operation == "Connect" {
            let frame = whole(&bytes, FrameKind::ContextRequest);
            let request = ContextRequest::decode(&frame.head).expect(name);
            assert_eq!(request.tokens.client_version, Some("2020-07-15"));
            request.encode(&mut out).expect(name);
        } else {
            let frame = whole(&bytes, FrameKind::Request);
            let request = FrameRequest::decode(&frame.head).expect(name);
            assert_eq!(format!("{:?}", request.resource), resource, "{name}");
            assert_eq!(format!("{:?}", request.operation), operation, "{name}");
            request.encode(&frame.body, &mut out).expect(name);
        }
        assert_eq!(out, bytes, "{name}");
    }
}

#[test]
fn every_recorded_token_is_in_the_table_with_its_type() {
    for Recorded { name, operation, bytes, .. } in recorded() {
        if operation == "Connect" {
            continue;
        }
        let frame = whole(&bytes, FrameKind::Request);
        for token in Tokens::new(&frame.head[24..]) {
            let token = token.expect(name);
            let row = RequestTokens::TABLE.iter().find(|row| row.id == token.id);
            assert_eq!(row.map(|row| row.kind), Some(token.kind), "{name}: {:#x}", token.id);
        }
    }
}

#[test]
fn a_recorded_point_read_has_the_values_that_its_sender_gave() {
    let all = recorded();
    let read = all.iter().find(|recorded| recorded.name == "read-item").expect("it is there");
    let frame = whole(&read.bytes, FrameKind::Request);
    let request = FrameRequest::decode(&frame.head).expect("it decodes");
    assert_eq!(request.operation, OperationCode::Read);
    let tokens = request.tokens;
    assert_eq!(tokens.database_name, Some("d1"));
    assert_eq!(tokens.container_name, Some("c1"));
    assert_eq!(tokens.item_name, Some("a b"));
    assert_eq!(tokens.partition_key, Some("[\"p\"]"));
    assert_eq!(tokens.session_token, Some("0:22#3"));
    assert_eq!(tokens.container_rid, Some("AAAAB4AAABY="));
    assert_eq!(tokens.resource_id, Some(&[0, 0, 0, 7, 0x80, 0, 0, 22][..]));
    assert_eq!(tokens.transport_request_id, Some(5));
    assert_eq!(tokens.match_etag, None);
}

#[test]
fn a_recorded_batch_keeps_its_body() {
    let all = recorded();
    let batch = all.iter().find(|recorded| recorded.name == "batch").expect("it is there");
    let frame = whole(&batch.bytes, FrameKind::Request);
    assert_eq!(frame.body.first(), Some(&0x81), "a HybridRow segment");
    assert_eq!(frame.head.len() + 4 + frame.body.len(), batch.bytes.len());
}

#[test]
fn cut_anywhere_a_recorded_request_is_waited_for() {
    for Recorded { name, operation, bytes, .. } in recorded() {
        if operation == "Connect" {
            continue;
        }
        for length in 0..bytes.len() {
            let progress = crate::progress(&bytes[..length]);
            let Ok(orrery_direct::FrameProgress::Partial(needed)) = progress else {
                panic!("{name} cut at {length}: {progress:?}")
            };
            assert!(length < needed && needed <= bytes.len(), "{name} cut at {length}: {needed}");
        }
    }
}
