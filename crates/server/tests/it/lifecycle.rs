//! Starting, being ready, stopping.

use std::sync::Arc;
use std::time::Duration;

use orrery_server::{DrainOutcome, Limits, ListenerConfig, Server};

use crate::client::{
    Echo, body, config, get, hurried, read_response, read_to_close, start, status,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_server_is_ready_once_it_has_a_service() {
    let config = config(Limits::default());
    let server = Server::start("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    assert_eq!(status(&get(&mut stream, "/healthz").await), "200");
    assert_eq!(status(&get(&mut stream, "/readyz").await), "503");
    let response = get(&mut stream, "/dbs").await;
    assert_eq!(status(&response), "503");
    assert!(body(&response).contains("\"code\":\"ServiceUnavailable\""), "{response}");
    server.serve(Arc::new(Echo::default()));
    assert_eq!(status(&get(&mut stream, "/readyz").await), "200");
    assert_eq!(status(&get(&mut stream, "/dbs").await), "200");
}

#[tokio::test]
async fn every_address_serves_the_same_and_all_close_at_the_stop() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = ListenerConfig { also_listen: vec![free], ..config(Limits::default()) };
    let server = Server::start("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
    server.serve(Arc::new(Echo::default()));
    let addresses = [server.address(), free];
    for address in addresses {
        let mut stream = TcpStream::connect(address).await.unwrap();
        for path in ["/dbs", "/readyz", "/ready", "/alive", "/status"] {
            assert_eq!(status(&get(&mut stream, path).await), "200", "{path}");
        }
    }
    server.stop().await;
    for address in addresses {
        assert!(TcpStream::connect(address).await.is_err(), "{address}");
    }
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
    let config = ListenerConfig { also_listen: vec![taken.1], ..config(Limits::default()) };
    let listen = "127.0.0.1:0".parse().unwrap();
    let error = Server::<Echo>::start(listen, config).await.unwrap_err();
    assert_eq!(error.address, taken.1);
}

#[tokio::test]
async fn a_stop_lets_the_request_in_flight_end_and_closes_the_rest() {
    let running = start(Limits::default()).await;
    let mut idle = running.connect().await;
    get(&mut idle, "/dbs").await;
    let silent = running.connect().await;
    let mut busy = running.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    running.service.waiting.notified().await;
    let (service, address) = (Arc::clone(&running.service), running.address);
    let stop = tokio::spawn(running.server.stop());
    // The idle one is closed while the busy one is still served.
    assert_eq!(read_to_close(&mut idle).await, "");
    service.go.open();
    assert_eq!(status(&read_response(&mut busy).await), "200");
    assert_eq!(read_to_close(&mut busy).await, "");
    assert_eq!(stop.await.unwrap(), DrainOutcome::Complete);
    assert!(TcpStream::connect(address).await.is_err());
    drop(silent);
}

#[tokio::test]
async fn a_stop_cuts_what_does_not_end() {
    let running = start(hurried()).await;
    let mut busy = running.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    running.service.waiting.notified().await;
    assert_eq!(running.server.stop().await, DrainOutcome::Aborted(1));
    assert_eq!(read_to_close(&mut busy).await, "");
}

#[tokio::test]
async fn a_request_may_take_longer_than_any_limit_on_the_client() {
    let limits = Limits { idle_time: Duration::from_millis(100), ..hurried() };
    let limits = Limits { head_time: Duration::from_millis(100), ..limits };
    let running = start(limits).await;
    let mut busy = running.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    running.service.waiting.notified().await;
    // Another connection outlives its limits meanwhile, so that the time has surely passed.
    running.exchange(b"GET / HT").await;
    running.service.go.open();
    assert_eq!(status(&read_response(&mut busy).await), "200");
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let running = start(Limits::default()).await;
    let second = Server::<Echo>::start(running.address, config(Limits::default())).await;
    assert_eq!(second.unwrap_err().source.kind(), std::io::ErrorKind::AddrInUse);
}
