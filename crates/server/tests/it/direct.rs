//! Connections in Direct mode: how they are told apart, what bad input gets, and how they end. The
//! service echoes; the path of the replica says what it does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use orrery_direct::handshake::ContextRequestTokens;
use orrery_direct::{
    ContextRequest, ContextResponse, Frame, FrameKind, FrameLimits, FrameProgress, FrameRequest,
    FrameResponse, OperationCode, RequestTokens, ResourceCode, next_frame,
};
use orrery_server::{DrainOutcome, Limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use crate::client::{PATIENCE, Running, get, hurried, read_to_close, start, status};

struct Client {
    stream: TlsStream<TcpStream>,
    input: BytesMut,
}

fn context() -> ContextRequestTokens<'static> {
    ContextRequestTokens {
        protocol_version: Some(1),
        client_version: Some("2020-07-15"),
        user_agent: Some("the tests"),
        ..ContextRequestTokens::default()
    }
}

fn request(path: &'static str, id: u32) -> BytesMut {
    request_with(path, id, b"")
}

fn request_with(path: &'static str, id: u32, body: &[u8]) -> BytesMut {
    let tokens = RequestTokens {
        payload_present: Some(u8::from(!body.is_empty())),
        replica_path: Some(path),
        database_name: Some("d"),
        transport_request_id: Some(id),
        ..RequestTokens::default()
    };
    let (resource, operation) = (ResourceCode::Database, OperationCode::Read);
    let mut out = BytesMut::new();
    let request = FrameRequest { resource, operation, activity_id: [1; 16], tokens };
    request.encode(body, &mut out).unwrap();
    out
}

impl Client {
    async fn connect(running: &Running) -> Self {
        let stream = running.connect_tls("").await;
        Self { stream, input: BytesMut::new() }
    }

    /// Connects, with the context behind it.
    async fn open(running: &Running) -> Self {
        let mut client = Self::connect(running).await;
        let answer = client.send_context(context()).await;
        assert_eq!(ContextResponse::decode(&answer.head).unwrap().status, 200);
        client
    }

    async fn send_context(&mut self, tokens: ContextRequestTokens<'_>) -> Frame {
        let mut out = BytesMut::new();
        ContextRequest { activity_id: [3; 16], tokens }.encode(&mut out).unwrap();
        self.send(&out).await;
        self.read(FrameKind::ContextResponse).await
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    async fn read(&mut self, kind: FrameKind) -> Frame {
        let limits = FrameLimits::default();
        let read = async {
            loop {
                let progress = next_frame(&mut self.input, kind, &limits).unwrap();
                if let FrameProgress::Whole(frame) = progress {
                    return frame;
                }
                let read = self.stream.read_buf(&mut self.input).await.unwrap();
                assert!(read > 0, "the server closed the connection");
            }
        };
        timeout(PATIENCE, read).await.expect("the server answers")
    }

    /// The number of the request that is answered next, and the status.
    async fn answer(&mut self) -> (u32, u32) {
        let frame = self.read(FrameKind::Response).await;
        let response = FrameResponse::decode(&frame.head).unwrap();
        (response.tokens.transport_request_id.unwrap(), response.status)
    }

    /// The next answer, if the server does not close the connection instead.
    async fn answer_or_close(&mut self) -> Option<(u32, u32)> {
        let limits = FrameLimits::default();
        let read = async {
            loop {
                let next = next_frame(&mut self.input, FrameKind::Response, &limits).unwrap();
                if let FrameProgress::Whole(frame) = next {
                    let response = FrameResponse::decode(&frame.head).unwrap();
                    let id = response.tokens.transport_request_id.unwrap();
                    return Some((id, response.status));
                }
                match self.stream.read_buf(&mut self.input).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        timeout(PATIENCE, read).await.expect("the server answers or closes")
    }

    async fn closes(mut self) {
        read_to_close(&mut self.stream).await;
    }
}

#[tokio::test]
async fn http_and_direct_mode_share_a_port_behind_tls() {
    let running = start(Limits::default()).await;
    let mut direct = Client::open(&running).await;
    direct.send(&request("/a", 5)).await;
    assert_eq!(direct.answer().await, (5, 200));
    let mut http = running.connect_tls("").await;
    assert_eq!(status(&get(&mut http, "/a").await), "200");
    let mut negotiated = running.connect_tls("http/1.1").await;
    assert_eq!(status(&get(&mut negotiated, "/a").await), "200");
}

#[tokio::test]
async fn frames_in_plain_text_are_not_served() {
    let running = start(hurried()).await;
    let mut out = BytesMut::new();
    ContextRequest { activity_id: [3; 16], tokens: context() }.encode(&mut out).unwrap();
    let answer = running.exchange(&out).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_context_request_without_version_is_refused_with_400() {
    let running = start(Limits::default()).await;
    let mut client = Client::connect(&running).await;
    let without = ContextRequestTokens { protocol_version: None, ..context() };
    let answer = client.send_context(without).await;
    assert_eq!(ContextResponse::decode(&answer.head).unwrap().status, 400);
    assert!(answer.body.starts_with(b"{\"code\":\"BadRequest\""));
    client.closes().await;
}

#[tokio::test]
async fn answers_come_as_they_are_done_and_a_slow_one_holds_up_no_other() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    client.send(&[request("/wait", 1), request("/a", 2), request("/a", 3)].concat()).await;
    assert_eq!(client.answer().await, (2, 200));
    assert_eq!(client.answer().await, (3, 200));
    running.service.go.open();
    assert_eq!(client.answer().await, (1, 200));
}

#[tokio::test]
async fn a_panic_is_a_500_and_the_connection_stays() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    client.send(&request("/panic", 1)).await;
    assert_eq!(client.answer().await, (1, 500));
    client.send(&request("/panic-later", 2)).await;
    assert_eq!(client.answer().await, (2, 500));
    client.send(&request("/a", 3)).await;
    assert_eq!(client.answer().await, (3, 200));
}

#[tokio::test]
async fn no_more_requests_run_than_a_connection_may_have() {
    let limits = Limits { direct_requests_max: 2, ..Limits::default() };
    let running = start(limits).await;
    let mut client = Client::open(&running).await;
    let frames: Vec<BytesMut> =
        (1..=3).map(|id| request("/wait", id)).chain([request("/a", 4)]).collect();
    client.send(&frames.concat()).await;
    running.service.waiting.notified().await;
    // The fourth would be answered at once if it were read.
    let early = timeout(Duration::from_millis(200), client.answer()).await;
    assert!(early.is_err(), "{early:?}");
    for _ in 0..3 {
        running.service.go.open();
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(client.answer().await.0);
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_frame_that_cannot_be_understood_is_400_and_the_connection_stays() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    let mut unknown_operation = request("/a", 1);
    unknown_operation[6] = 0x77;
    client.send(&unknown_operation).await;
    assert_eq!(client.answer().await, (1, 400));
    let mut unknown_resource = request("/a", 2);
    unknown_resource[4] = 0x77;
    client.send(&unknown_resource).await;
    assert_eq!(client.answer().await, (2, 400));
    // The database's name as bytes.
    let mut wrong_type = request("/a", 3);
    let at = wrong_type.windows(3).position(|token| token == [0x15, 0, 8]).unwrap();
    wrong_type[at + 2] = 0x0b;
    client.send(&wrong_type).await;
    assert_eq!(client.answer().await, (3, 400));
    client.send(&request("/a", 4)).await;
    assert_eq!(client.answer().await, (4, 200));
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection_after_what_runs_is_answered() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    client.send(&[&request("/wait", 1)[..], &[0xff; 32]].concat()).await;
    running.service.waiting.notified().await;
    running.service.go.open();
    assert_eq!(client.answer().await, (1, 200));
    client.closes().await;
    // Without a number there is nobody to answer.
    let mut client = Client::open(&running).await;
    let mut out = request("/a", 1);
    let at = out.windows(3).position(|token| token == [0x4d, 0, 2]).unwrap();
    out[at] = 0xee;
    client.send(&out).await;
    client.closes().await;
}

#[tokio::test]
async fn a_body_past_the_limit_is_413_and_the_connection_goes_on_after_it() {
    let limits = Limits { body_bytes_max: 1000, ..Limits::default() };
    let running = start(limits).await;
    let mut client = Client::open(&running).await;
    let large = vec![b'x'; 200_000];
    client.send(&request_with("/a", 1, &large)).await;
    client.send(&request_with("/a", 2, &large[..1000])).await;
    assert_eq!(client.answer().await, (1, 413));
    assert_eq!(client.answer().await, (2, 200));
}

#[tokio::test]
async fn half_a_frame_and_silence_ends_the_connection_and_no_other() {
    let running = start(hurried()).await;
    let mut silent = Client::open(&running).await;
    let mut other = Client::open(&running).await;
    silent.send(&request("/a", 1)[..30]).await;
    silent.closes().await;
    other.send(&request("/a", 2)).await;
    assert_eq!(other.answer().await, (2, 200));
    // A context request that never comes whole.
    let mut client = Client::connect(&running).await;
    client.send(&[0x80, 0, 0, 0, 0, 0, 0, 0, 1]).await;
    client.closes().await;
}

#[tokio::test]
async fn idle_connections_are_kept_longer_than_those_of_http() {
    let limits = Limits {
        idle_time: Duration::from_millis(50),
        unauthenticated_idle_time: Duration::from_millis(50),
        head_time: Duration::from_millis(100),
        direct_unauthenticated_idle_time: Duration::from_secs(3600),
        ..Limits::default()
    };
    let running = start(limits).await;
    let mut client = Client::open(&running).await;
    let early = timeout(Duration::from_millis(500), client.answer()).await;
    assert!(early.is_err(), "nothing comes, and the connection stays");
    client.send(&request("/a", 1)).await;
    assert_eq!(client.answer().await, (1, 200));
    let limits = Limits {
        direct_unauthenticated_idle_time: Duration::from_millis(50),
        head_time: Duration::from_millis(100),
        ..Limits::default()
    };
    let running = start(limits).await;
    Client::open(&running).await.closes().await;
}

/// A client that sends a frame at the very moment at which its idle connection ends: the frame is served, or
/// the client sees the end of the connection and nothing was begun.
#[tokio::test]
async fn a_frame_that_meets_the_end_of_an_idle_connection_is_answered_or_seen_unserved() {
    let idle_time = Duration::from_millis(50);
    let limits = Limits {
        direct_unauthenticated_idle_time: idle_time,
        direct_idle_time: idle_time,
        head_time: Duration::from_millis(100),
        ..Limits::default()
    };
    let running = Arc::new(start(limits).await);
    let mut clients = JoinSet::new();
    // From before the end of the idle time to after the close.
    for step in 0..60_u32 {
        let running = Arc::clone(&running);
        clients.spawn(async move {
            let mut client = Client::open(&running).await;
            sleep(Duration::from_millis(6) * step).await;
            let frame = request("/a", 7);
            let sent = async {
                client.stream.write_all(&frame).await?;
                client.stream.flush().await
            };
            // A connection that has ended refuses it, or says so when it is read.
            if sent.await.is_ok() { client.answer_or_close().await } else { None }
        });
    }
    let (mut served, mut unserved) = (0, 0);
    for answer in clients.join_all().await {
        match answer {
            Some((7, 200)) => served += 1,
            None => unserved += 1,
            answer => panic!("{answer:?}"),
        }
    }
    let begun = running.service.begun.load(Ordering::Relaxed);
    assert_eq!(begun, served, "{unserved} unserved");
    assert!(served > 0 && unserved > 0);
}

#[tokio::test]
async fn a_large_frame_that_comes_slowly_is_answered_although_the_server_stops() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    let frame = request_with("/a", 1, &[b'x'; 3000]);
    let (first, rest) = frame.split_at(1000);
    client.send(first).await;
    // The answer shows that what was sent before it has come.
    let mut other = Client::open(&running).await;
    other.send(&request("/a", 2)).await;
    assert_eq!(other.answer().await, (2, 200));
    let stopped = tokio::spawn(running.server.stop());
    // Longer than it must be quiet for.
    let early = timeout(Duration::from_millis(500), client.answer()).await;
    assert!(early.is_err(), "{early:?}");
    client.send(rest).await;
    assert_eq!(client.answer().await, (1, 410));
    client.closes().await;
    assert_eq!(stopped.await.unwrap(), DrainOutcome::Complete);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_what_it_has_asked_for() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    client.send(&request("/wait", 1)).await;
    running.service.waiting.notified().await;
    drop(client);
    let cancelled = timeout(PATIENCE, running.service.cancelled.notified());
    cancelled.await.expect("the request is cancelled");
}

#[tokio::test]
async fn a_stop_answers_what_runs_turns_away_what_comes_and_closes_when_it_is_quiet() {
    let running = start(Limits::default()).await;
    let mut client = Client::open(&running).await;
    client.send(&request("/wait", 1)).await;
    running.service.waiting.notified().await;
    let Running { server, service, .. } = running;
    let stopped = tokio::spawn(server.stop());
    // The stop is known to the connection once it turns a request away.
    let mut id = 1;
    loop {
        id += 1;
        client.send(&request("/a", id)).await;
        match client.answer().await {
            (answered, 410) if answered == id => break,
            answer => assert_eq!(answer, (id, 200)),
        }
    }
    service.go.open();
    assert_eq!(client.answer().await, (1, 200));
    client.closes().await;
    assert_eq!(stopped.await.unwrap(), DrainOutcome::Complete);
}

#[tokio::test]
async fn a_hundred_and_thirty_connections_of_thirty_requests_are_all_answered() {
    let running = start(Limits::default()).await;
    let mut clients = Vec::new();
    for _ in 0..130 {
        clients.push(Client::open(&running).await);
    }
    let frames: Vec<u8> = (1..=30).flat_map(|id| request("/a", id)).collect();
    for client in &mut clients {
        client.send(&frames).await;
    }
    for client in &mut clients {
        for id in 1..=30 {
            assert_eq!(client.answer().await, (id, 200));
        }
    }
}
