//! Clients that are slow, broken or malicious. Each is dropped; the next one is served.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use crate::client::{PATIENCE, Running, get, hurried, read_to_close, start, status};
use orrery_server::Limits;

async fn still_serves(running: &Running) {
    assert_eq!(status(&get(&mut running.connect().await, "/dbs").await), "200");
    assert_eq!(status(&get(&mut running.connect_tls("http/1.1").await, "/dbs").await), "200");
}

/// Sends byte by byte, always within any limit on silence, until the server closes.
async fn drip(running: &Running, text: &[u8]) {
    let (mut from, mut to) = running.connect().await.into_split();
    let bytes = text.to_vec();
    let sender = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for byte in bytes.iter().cycle() {
            ticks.tick().await;
            if to.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });
    let answer = read_to_close(&mut from).await;
    assert!(!answer.contains("200 OK"), "{answer}");
    tokio::time::timeout(PATIENCE, sender).await.expect("writing fails once it is closed").unwrap();
}

#[tokio::test]
async fn a_client_that_sends_a_byte_at_a_time_is_closed() {
    let running = start(hurried()).await;
    drip(&running, b"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
        .await;
    drip(&running, b"GET / HTTP/1.1\r\nHost: h\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
        .await;
    drip(&running, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r").await;
    drip(&running, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await;
    still_serves(&running).await;
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_is_closed() {
    let running = start(hurried()).await;
    for text in [
        "",
        "G",
        "PRI * HT",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\nHost",
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        running.exchange(text.as_bytes()).await;
    }
    still_serves(&running).await;
}

#[tokio::test]
async fn a_connection_that_is_half_closed_still_gets_its_answer() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /dbs HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(status(&read_to_close(&mut stream).await), "200");
}

#[tokio::test]
async fn a_connection_that_is_half_closed_waits_for_its_answer() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    running.service.waiting.notified().await;
    running.service.go.open();
    assert_eq!(status(&read_to_close(&mut stream).await), "200");
}

#[tokio::test]
async fn a_client_that_has_left_is_not_served_for_long() {
    let half_closed_time = Duration::from_millis(20);
    let running = start(Limits { connections_max: 1, half_closed_time, ..Limits::default() }).await;
    let mut stream = running.connect().await;
    stream.write_all(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    running.service.waiting.notified().await;
    drop(stream);
    still_serves(&running).await;
}

#[tokio::test]
async fn clients_that_leave_take_nothing_with_them() {
    let running = start(Limits { connections_max: 4, ..Limits::default() }).await;
    for n in 0..40 {
        let mut stream = running.connect().await;
        let bytes = &b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"[..n];
        stream.write_all(bytes).await.unwrap();
    }
    still_serves(&running).await;
}

#[tokio::test]
async fn garbage_is_answered_or_closed_and_nothing_else() {
    let running = start(hurried()).await;
    let tls_record = |body: &[u8]| {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[0x16, 3, 1][..], &length, body].concat()
    };
    let garbage: Vec<Vec<u8>> = vec![
        vec![0; 1000],
        vec![0xff; 1000],
        vec![0x16; 1000],
        tls_record(&[1; 400]),
        tls_record(&[0xff; 16000]),
        (0..=255).cycle().take(5000).collect(),
        b"\r\n\r\n\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
    ];
    for bytes in garbage {
        let answer = running.exchange(&bytes).await;
        assert!(!answer.contains("200 OK"), "{bytes:?}: {answer}");
    }
    still_serves(&running).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_closed() {
    let running = start(hurried()).await;
    let mut stream = running.connect().await;
    // Ask for more than the socket's buffers hold, and read nothing until writing fails.
    let request = b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n".repeat(1000);
    let write = async { while stream.write_all(&request).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, write).await.expect("the server closes");
    still_serves(&running).await;
}
