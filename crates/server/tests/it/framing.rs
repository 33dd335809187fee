//! Heads whose body two readers could see end in different places, byte by byte on a socket. Either
//! the request is refused and the connection closed, so that nothing behind it is taken for a second
//! request, or exactly one reading is possible.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use crate::client::{Running, body, get, header, read_response, read_to_close, start, status};
use orrery_server::Limits;

/// What a proxy with another reading would take for part of the body, and we for a request.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

async fn exchange(running: &Running, head: &str, rest: &str) -> String {
    let text = format!("POST /dbs HTTP/1.1\r\n{head}\r\n\r\n{rest}");
    let mut stream = running.connect().await;
    stream.write_all(text.as_bytes()).await.unwrap();
    read_to_close(&mut stream).await
}

#[tokio::test]
async fn an_ambiguous_request_is_refused_and_nothing_behind_it_is_read() {
    let running = start(Limits::default()).await;
    for head in [
        "Host: h\r\nHost: h",
        "Host: h\r\nHost: other",
        "Host: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
        "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
        "Host: h\r\ntransfer-encoding: chunked\r\ncontent-length: 0",
        "Host: h\r\nTransfer-Encoding: Chunked\r\nContent-Length: 3\r\nContent-Length: 3",
        "Host: h\r\nContent-Length: 3\r\nContent-Length: 5",
        "Host: h\r\nContent-Length: 3, 5",
        "Host: h\r\nContent-Length: 3, 3",
        "Host: h\r\nContent-Length: +3",
        "Host: h\r\nContent-Length: -3",
        "Host: h\r\nContent-Length: 0x3",
        "Host: h\r\nContent-Length: 3 3",
        "Host: h\r\nContent-Length: 99999999999999999999",
        "Host: h\r\nContent-Length:",
        "Host: h\r\nTransfer-Encoding: xchunked",
        "Host: h\r\nTransfer-Encoding: chunked, identity",
        "Host: h\r\nTransfer-Encoding: identity, chunked",
        "Host: h\r\nTransfer-Encoding: identity",
        "Host: h\r\nTransfer-Encoding: gzip, chunked",
        "Host: h\r\nTransfer-Encoding: chunked, chunked",
        "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Host: h\r\nTransfer-Encoding: \"chunked\"",
        "Host: h\r\nTransfer-Encoding: \u{b}chunked",
        "Host: h\r\nTransfer-Encoding:",
        "Host: h\r\nTransfer-Encoding : chunked",
        "Host: h\r\n Transfer-Encoding: chunked",
        "Host: h\r\nX: a\r\n Transfer-Encoding: chunked",
        "Host: h\r\nX: a\r\n\tb",
        "Host: h\r\nX: a\rTransfer-Encoding: chunked",
        "Host: h\r\nX: a\0b",
        "Host: h\r\nContent-Length\r\n: 3",
        "Host: h\r\n: 3",
    ] {
        let answer = exchange(&running, head, &format!("0\r\n\r\n{SMUGGLED}")).await;
        assert_eq!(status(&answer), "400", "{head:?}: {answer}");
        assert!(!answer.contains("smuggled"), "{head:?}: {answer}");
        assert_eq!(header(&answer, "content-type"), Some("application/json"), "{head:?}: {answer}");
        assert!(body(&answer).contains("\"code\":\"BadRequest\""), "{head:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn a_refusal_says_what_is_wrong() {
    let running = start(Limits::default()).await;
    for (head, text) in [
        ("Host: h\r\nHost: h", "more than one Host"),
        ("Host: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked", "both Content-Length"),
        ("Host: h\r\nTransfer-Encoding: gzip, chunked", "may only be 'chunked'"),
    ] {
        let answer = exchange(&running, head, "0\r\n\r\n").await;
        assert!(body(&answer).contains(text), "{head:?}: {answer}");
        assert_eq!(header(&answer, "connection"), Some("close"));
    }
}

#[tokio::test]
async fn every_refusal_has_a_body_whoever_refuses() {
    let running = start(Limits::default()).await;
    let after = "GET /dbs HTTP/1.1\r\nHost: h\r\n\r\n";
    let uri = "x".repeat(70_000);
    for (bad, code) in [
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "400"),
        ("GET\r\n\r\n".into(), "400"),
        ("G\u{7f}T / HTTP/1.1\r\n\r\n".into(), "400"),
        (format!("GET /{uri} HTTP/1.1\r\nHost: h\r\n\r\n"), "414"),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(300)), "431"),
    ] {
        // The first request of a connection, and one after an answer.
        let mut kept = running.connect().await;
        assert_eq!(status(&get(&mut kept, "/dbs").await), "200");
        for mut stream in [running.connect().await, kept] {
            stream.write_all(bad.as_bytes()).await.unwrap();
            let answer = read_to_close(&mut stream).await;
            assert_eq!(status(&answer), code, "{answer}");
            let length = header(&answer, "content-length").unwrap().parse().ok();
            assert_eq!(Some(body(&answer).len()), length, "{answer}");
            assert!(body(&answer).contains("\"message\":"), "{answer}");
            assert_eq!(header(&answer, "connection"), Some("close"), "{answer}");
        }
    }
    // Behind another request in the same bytes it is refused all the same.
    let answer = running.exchange(format!("{after}GET\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn lengths_are_judged_in_every_pipelined_request() {
    let running = start(Limits::default()).await;
    let first = "POST /dbs HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    let second =
        "POST /two HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = running.exchange(format!("{first}{second}0\r\n\r\n{SMUGGLED}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("both Content-Length"), "{answer}");
    assert!(!answer.contains("smuggled"), "{answer}");
}

#[tokio::test]
async fn part_of_a_second_head_has_the_time_of_a_head() {
    let long = Duration::from_secs(600);
    let limits = Limits {
        head_time: Duration::from_millis(100),
        idle_time: long,
        unauthenticated_idle_time: long,
        ..Limits::default()
    };
    let running = start(limits).await;
    for first in [
        "GET /dbs HTTP/1.1\r\nHost: h\r\nAuthorization: key\r\n\r\n",
        "POST /dbs HTTP/1.1\r\nHost: h\r\nAuthorization: key\r\nContent-Length: 3\r\n\r\nabc",
        "POST /dbs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ] {
        let mut stream = running.connect().await;
        stream.write_all(format!("{first}GET /two HTT").as_bytes()).await.unwrap();
        assert_eq!(status(&read_response(&mut stream).await), "200");
        assert_eq!(read_to_close(&mut stream).await, "");
        // Whole requests that come together are served, and an empty line behind one is none.
        let mut stream = running.connect().await;
        stream.write_all(format!("{first}{first}\r\n").as_bytes()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(status(&read_response(&mut stream).await), "200");
        }
        assert_eq!(status(&get(&mut stream, "/dbs").await), "200");
    }
}

#[tokio::test]
async fn what_has_one_reading_is_served() {
    let running = start(Limits::default()).await;
    for (head, rest, length) in [
        ("Host: h\r\nContent-Length: 3", "abc", 3),
        ("Host: h\r\nTransfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n", 3),
        ("Host: h\r\nTransfer-Encoding: Chunked", "3;x=y\r\nabc\r\n0\r\n\r\n", 3),
        // The same length twice is one length (RFC 9110, 8.6).
        ("Host: h\r\nContent-Length: 3\r\nContent-Length: 3", "abc", 3),
        // A body may speak of lengths.
        (
            "Host: h\r\nTransfer-Encoding: chunked",
            "15\r\n\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            21,
        ),
        ("Host: h\r\nX-Content-Length: 3\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 0),
    ] {
        let answer = exchange(&running, head, &format!("{rest}{SMUGGLED}")).await;
        assert_eq!(status(&answer), "200", "{head:?}: {answer}");
        assert!(answer.contains(&format!("POST /dbs h {length}")), "{head:?}: {answer}");
        // What follows is a request of its own.
        assert!(answer.contains("GET /smuggled h 0"), "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn a_head_in_pieces_is_judged_as_a_whole() {
    let running = start(Limits::default()).await;
    let text =
        "POST /dbs HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    for at in [1, 20, 35, 47, 60, text.len() - 1] {
        let mut stream = running.connect().await;
        stream.set_nodelay(true).unwrap();
        let (first, second) = text.as_bytes().split_at(at);
        stream.write_all(first).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
        stream.write_all(second).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        assert_eq!(status(&answer), "400", "{at}: {answer}");
    }
}
