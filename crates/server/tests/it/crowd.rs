//! More connections than there are places.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::client::{Running, get, get_with_key, read_to_close, start, status};
use orrery_server::Limits;

/// Limits under which nothing but the want of places closes a connection.
fn patient(connections_max: usize) -> Limits {
    let long = Duration::from_secs(600);
    Limits {
        connections_max,
        waiting_connections_max: 4,
        head_time: long,
        idle_time: long,
        unauthenticated_idle_time: long,
        ..Limits::default()
    }
}

async fn serves_a_new_client(running: &Running) {
    let response = get_with_key(&mut running.connect().await, "/dbs").await;
    assert_eq!(status(&response), "200");
}

#[tokio::test]
async fn idle_connections_without_credentials_keep_nobody_out() {
    let running = start(patient(4)).await;
    // Silent, cut short in a head, cut short in a handshake, and idle after an answer.
    let opened: [&[u8]; 3] = [b"", b"GET / HTTP/1.1\r\nHost", &[0x16, 3, 1]];
    let mut idle = Vec::new();
    for bytes in opened {
        let mut stream = running.connect().await;
        tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await.unwrap();
        idle.push(stream);
    }
    let mut answered = running.connect().await;
    assert_eq!(status(&get(&mut answered, "/healthz").await), "200");
    idle.push(answered);
    for _ in 0..4 {
        serves_a_new_client(&running).await;
    }
    // Many more, of which each pushes out an older one.
    let mut crowd: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        crowd.push(running.connect().await);
    }
    serves_a_new_client(&running).await;
}

#[tokio::test]
async fn connections_that_hold_back_a_body_keep_nobody_out() {
    let body_time = Duration::from_secs(600);
    let running = start(Limits { body_time, ..patient(4) }).await;
    let mut crowd: Vec<TcpStream> = Vec::new();
    for part in ["", "{", "{\"id\":"].iter().cycle().take(12) {
        let mut stream = running.connect().await;
        let head = "POST /dbs HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n";
        let request = format!("{head}{part}");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        crowd.push(stream);
        serves_a_new_client(&running).await;
    }
    // The same with chunks, and with a body that was asked for.
    for head in ["Transfer-Encoding: chunked", "Content-Length: 100\r\nExpect: 100-continue"] {
        for _ in 0..5 {
            let mut stream = running.connect().await;
            let request = format!("POST /dbs HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n");
            tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
            crowd.push(stream);
        }
        serves_a_new_client(&running).await;
    }
}

#[tokio::test]
async fn a_connection_with_credentials_keeps_its_place() {
    let running = start(patient(2)).await;
    let mut proven = running.connect().await;
    assert_eq!(status(&get_with_key(&mut proven, "/dbs").await), "200");
    let mut idle = running.connect().await;
    assert_eq!(status(&get(&mut idle, "/dbs").await), "200");
    serves_a_new_client(&running).await;
    assert_eq!(read_to_close(&mut idle).await, "");
    assert_eq!(status(&get(&mut proven, "/dbs").await), "200");
}

#[tokio::test]
async fn a_connection_that_is_served_keeps_its_place() {
    let running = start(patient(2)).await;
    let mut served = running.connect().await;
    let request = b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut served, request).await.unwrap();
    running.service.waiting.notified().await;
    let mut idle = running.connect().await;
    assert_eq!(status(&get(&mut idle, "/dbs").await), "200");
    serves_a_new_client(&running).await;
    running.service.go.open();
    assert_eq!(status(&crate::client::read_response(&mut served).await), "200");
}

#[tokio::test]
async fn an_idle_connection_without_credentials_is_closed_soon() {
    let unauthenticated_idle_time = Duration::from_millis(20);
    let running = start(Limits { unauthenticated_idle_time, ..patient(4) }).await;
    let mut proven = running.connect().await;
    assert_eq!(status(&get_with_key(&mut proven, "/dbs").await), "200");
    let mut idle = running.connect().await;
    assert_eq!(status(&get(&mut idle, "/dbs").await), "200");
    assert_eq!(read_to_close(&mut idle).await, "");
    assert_eq!(status(&get(&mut proven, "/dbs").await), "200");
}

#[tokio::test]
async fn a_server_whose_places_are_all_taken_stops() {
    let running = start(Limits { head_time: Duration::from_secs(600), ..patient(1) }).await;
    let mut served = running.connect().await;
    assert_eq!(status(&get_with_key(&mut served, "/dbs").await), "200");
    let mut waiting = running.connect().await;
    let request = b"GET /dbs HTTP/1.1\r\nHost: h\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut waiting, request).await.unwrap();
    assert_eq!(running.server.stop().await, orrery_server::DrainOutcome::Complete);
}
