//! Sizes and times at and past their limits.

use tokio::io::AsyncWriteExt as _;

use crate::client::{
    body, get, get_with_key, header, hurried, read_response, read_to_close, start, status,
};
use orrery_server::Limits;
use orrery_types::limits::{REQUEST_BODY_BYTES_MAX, REQUEST_HEADERS_MAX};

const MIB: usize = 1024 * 1024;

fn head(length: usize) -> String {
    format!("POST /dbs HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n")
}

#[tokio::test]
async fn a_body_is_taken_up_to_the_limit_and_refused_past_it() {
    let running = start(Limits::default()).await;
    let limit = REQUEST_BODY_BYTES_MAX;
    for (size, expected) in
        [(3 * MIB, "200"), (limit, "200"), (limit + 1, "413"), (5 * MIB, "413"), (40 * MIB, "413")]
    {
        let mut stream = running.connect().await;
        stream.write_all(head(size).as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; size]).await.unwrap();
        let response = read_response(&mut stream).await;
        assert_eq!(status(&response), expected, "{size}");
        if expected == "413" {
            assert_eq!(header(&response, "content-type"), Some("application/json"));
            let text = body(&response);
            assert!(text.contains("\"code\":\"RequestEntityTooLarge\""), "{text}");
            assert!(text.contains(&size.to_string()), "{text}");
        }
    }
}

#[tokio::test]
async fn a_body_in_chunks_has_the_same_limit() {
    let running = start(Limits { body_bytes_max: 1000, ..Limits::default() }).await;
    let chunks = |count: usize| {
        let chunk = format!("64\r\n{}\r\n", "x".repeat(100));
        let head = "POST /dbs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{}0\r\n\r\n", chunk.repeat(count))
    };
    for (count, expected) in [(10, "200"), (11, "413"), (1000, "413")] {
        let mut stream = running.connect().await;
        stream.write_all(chunks(count).as_bytes()).await.unwrap();
        assert_eq!(status(&read_response(&mut stream).await), expected, "{count}");
    }
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let running = start(Limits::default()).await;
    let head = head(100 * MIB).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let response = running.exchange(head.as_bytes()).await;
    assert_eq!(status(&response), "413");
    let mut stream = running.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&read_response(&mut stream).await), "100");
    stream.write_all(b"ab").await.unwrap();
    assert_eq!(status(&read_response(&mut stream).await), "200");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_a_408() {
    let running = start(hurried()).await;
    let request = head(10) + "half";
    let response = running.exchange(request.as_bytes()).await;
    assert_eq!(status(&response), "408");
    assert!(body(&response).contains("\"code\":\"RequestTimeout\""), "{response}");
    assert_eq!(header(&response, "connection"), Some("close"));
}

#[tokio::test]
async fn a_head_past_its_limits_is_a_431() {
    let running = start(Limits::default()).await;
    let large = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(70 * 1024));
    let many = "A: b\r\n".repeat(REQUEST_HEADERS_MAX);
    let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n");
    for request in [large, many] {
        let response = running.exchange(request.as_bytes()).await;
        assert_eq!(status(&response), "431", "{response}");
        assert!(body(&response).contains("\"message\":"), "{response}");
    }
}

#[tokio::test]
async fn a_megabyte_of_header_is_refused_without_reading_it_all() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "x".repeat(MIB));
    // The server may close while this is written, which is its right.
    let _ = stream.write_all(head.as_bytes()).await;
    let response = read_to_close(&mut stream).await;
    assert!(matches!(status(&response), "431" | "none"), "{response}");
    assert_eq!(status(&get(&mut running.connect().await, "/").await), "200");
}

#[tokio::test]
async fn more_connections_than_the_limit_wait_for_a_place() {
    let running = start(Limits { connections_max: 2, ..Limits::default() }).await;
    let mut first = running.connect().await;
    let mut second = running.connect().await;
    assert_eq!(status(&get_with_key(&mut first, "/").await), "200");
    assert_eq!(status(&get_with_key(&mut second, "/").await), "200");
    let mut third = running.connect().await;
    third.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    drop(first);
    assert_eq!(status(&read_response(&mut third).await), "200");
}

#[tokio::test]
async fn all_bodies_together_have_a_limit_that_is_given_back() {
    let running = start(Limits { bodies_bytes_max: 1000, ..Limits::default() }).await;
    let request = |path: &str, size: usize| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n");
        head + &"x".repeat(size)
    };
    let mut holding = running.connect().await;
    holding.write_all(request("/wait", 600).as_bytes()).await.unwrap();
    running.service.waiting.notified().await;
    let mut other = running.connect().await;
    other.write_all(request("/dbs", 600).as_bytes()).await.unwrap();
    assert_eq!(status(&read_response(&mut other).await), "503");
    running.service.go.open();
    assert_eq!(status(&read_response(&mut holding).await), "200");
    let mut other = running.connect().await;
    other.write_all(request("/dbs", 600).as_bytes()).await.unwrap();
    assert_eq!(status(&read_response(&mut other).await), "200");
}
