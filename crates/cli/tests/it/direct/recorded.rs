//! Requests that the .NET SDK sent, against a running server: signed anew and meant for its container,
//! but otherwise as they were. Each is answered with every token that the client needs.

use bytes::BytesMut;
use orrery_direct::{
    FrameKind, FrameLimits, FrameProgress, FrameRequest, OperationCode, ResourceCode, next_frame,
};

use super::{Ask, World};

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|c| u8::try_from(c.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// What the container of the recording had: an item, a trigger and a procedure.
fn furnish(world: &World) {
    let key = [("x-ms-documentdb-partitionkey", "[\"p\"]")];
    world.local.must("POST", "/dbs/d/colls/c/docs", &key, r#"{"id":"a b","pk":"p","n":1}"#);
    let procedure =
        r#"{"id":"s1","body":"function(n) { getContext().getResponse().setBody(n); }"}"#;
    world.local.must("POST", "/dbs/d/colls/c/sprocs", &[], procedure);
    let trigger =
        r#"{"id":"t1","triggerType":"Pre","triggerOperation":"All","body":"function() {}"}"#;
    world.local.must("POST", "/dbs/d/colls/c/triggers", &[], trigger);
    world.local.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
}

#[test]
fn every_recorded_request_is_answered_with_the_tokens_that_the_client_needs() {
    let mut world = World::start();
    furnish(&world);
    let text = include_str!("../../../../../testdata/direct/dotnet.txt");
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut answered = 0;
    while let (Some(title), Some(hex)) = (lines.next(), lines.next()) {
        if title.ends_with(" Connect") {
            continue;
        }
        let mut bytes = BytesMut::from(&from_hex(hex)[..]);
        let limits = FrameLimits::default();
        let Ok(FrameProgress::Whole(frame)) = next_frame(&mut bytes, FrameKind::Request, &limits)
        else {
            panic!("{title}");
        };
        let recorded = FrameRequest::decode(&frame.head).unwrap();
        let answer = world.call(&adapted(&recorded, &frame.body));
        check(title, &recorded, &answer);
        answered += 1;
    }
    assert!(answered > 40);
}

/// The request for this server: its names, its rid, and no session or position of another one.
fn adapted<'a>(recorded: &FrameRequest<'a>, body: &'a [u8]) -> Ask<'a> {
    let mut tokens = recorded.tokens;
    tokens.database_name = tokens.database_name.map(|_| "d");
    tokens.container_name = tokens.container_name.map(|_| "c");
    tokens.user_name = tokens.user_name.map(|_| "u");
    tokens.resource_id = None;
    tokens.container_rid = None;
    tokens.authorization = None;
    tokens.replica_path = None;
    tokens.session_token = None;
    tokens.continuation = None;
    tokens.range_id = tokens.range_id.map(|_| "0");
    if recorded.operation == OperationCode::ReadFeed {
        tokens.match_etag = None;
    }
    Ask { resource: recorded.resource, operation: recorded.operation, tokens, body }
}

fn check(title: &str, recorded: &FrameRequest<'_>, answer: &super::Answer) {
    let (status, tokens) = (answer.status(), answer.tokens());
    assert!(status < 500 && status != 401 && status != 403, "{title}: {status} {}", answer.body());
    for (name, lsn) in [
        ("LSN", tokens.lsn),
        ("LocalLSN", tokens.local_lsn),
        ("QuorumAckedLSN", tokens.quorum_acked_lsn),
        ("QuorumAckedLocalLSN", tokens.quorum_acked_local_lsn),
    ] {
        assert!(lsn.is_some_and(|lsn| lsn >= 1), "{title}: {name} is {lsn:?}");
    }
    assert!(tokens.request_charge.is_some(), "{title}");
    assert!(tokens.replica_set_size.is_some(), "{title}");
    let is_item = recorded.resource == ResourceCode::Item;
    if is_item {
        assert!(tokens.session_token.is_some(), "{title}: {status} {}", answer.body());
    }
    if is_item && recorded.tokens.a_im.is_some() && status < 400 {
        assert!(tokens.etag.is_some() && tokens.item_count.is_some(), "{title}");
    }
    if is_item && matches!(status, 200 | 201) && recorded.operation == OperationCode::Read {
        assert!(tokens.etag.is_some(), "{title}");
    }
}
