//! One port, four ways to speak.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::{PATIENCE, body, get, header, hurried, start, status};
use orrery_server::{DrainOutcome, Limits};

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;
type Driver = tokio::task::JoinHandle<hyper::Result<()>>;

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (Sender, Driver) {
    let io = TokioIo::new(stream);
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn post(path: &str, size: usize) -> http::Request<Full<Bytes>> {
    let uri = format!("http://db.test:1{path}");
    http::Request::post(uri).body(Full::new(vec![b' '; size].into())).unwrap()
}

async fn check_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    scheme: &str,
    requests: usize,
) {
    let (sender, driver) = http2(stream).await;
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..requests {
        let mut sender = sender.clone();
        let uri = format!("{scheme}://db.test:1/dbs/{n}");
        answers.spawn(async move {
            let request =
                http::Request::post(uri).body(Full::new(Bytes::from_static(b"hello"))).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.version(), http::Version::HTTP_2);
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            (n, String::from_utf8(bytes.to_vec()).unwrap())
        });
    }
    for (n, text) in answers.join_all().await {
        assert_eq!(text, format!("{scheme} POST /dbs/{n} db.test:1 5"));
    }
    drop(sender);
    driver.abort();
}

#[tokio::test]
async fn http1_and_http2_with_and_without_tls_share_one_port() {
    let running = start(Limits::default()).await;
    let mut plain = running.connect().await;
    let response = get(&mut plain, "/dbs?x=%20").await;
    assert_eq!((status(&response), body(&response)), ("200", "http GET /dbs?x=%20 db.test:1 0"));
    let mut secure = running.connect_tls("http/1.1").await;
    let response = get(&mut secure, "/dbs").await;
    assert_eq!(body(&response), "https GET /dbs db.test:1 0");
    check_http2(running.connect().await, "http", 50).await;
    let stream = running.connect_tls("h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    check_http2(stream, "https", 50).await;
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    for n in 0..20 {
        let response = get(&mut stream, &format!("/{n}")).await;
        assert_eq!(body(&response), format!("http GET /{n} db.test:1 0"));
    }
}

#[tokio::test]
async fn every_answer_has_the_common_headers() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    let response = get(&mut stream, "/dbs").await;
    for name in ["date", "x-ms-activity-id", "x-ms-version", "x-ms-request-charge", "server"] {
        assert!(header(&response, name).is_some(), "{name}: {response}");
    }
    let id = "5a7c1c46-5b0a-4e0a-9d2b-3f6d2d1c9b11";
    let request = format!("/dbs HTTP/1.1\r\nx-ms-activity-id: {id}\r\nHost: h");
    let request = format!("GET {request}\r\nConnection: close\r\n\r\n");
    let response = running.exchange(request.as_bytes()).await;
    assert_eq!(header(&response, "x-ms-activity-id"), Some(id));
}

#[tokio::test]
async fn a_panic_in_the_service_is_a_500_and_the_connection_goes_on() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    for path in ["/panic", "/panic-later"] {
        let response = get(&mut stream, path).await;
        assert_eq!(status(&response), "500");
        assert!(body(&response).contains("\"code\":\"InternalServerError\""), "{response}");
    }
    assert_eq!(status(&get(&mut stream, "/dbs").await), "200");
}

#[tokio::test]
async fn limits_hold_under_http2_and_cost_one_stream_only() {
    let running = start(Limits { body_bytes_max: 100_000, ..Limits::default() }).await;
    let (mut sender, _driver) = http2(running.connect().await).await;
    for (size, expected) in [(100_000, 200), (100_001, 413), (3_000_000, 413), (10, 200)] {
        let response = sender.send_request(post("/dbs", size)).await.unwrap();
        assert_eq!(response.status().as_u16(), expected, "{size}");
    }
    let mut large = post("/dbs", 0);
    large.headers_mut().insert("x", "y".repeat(70 * 1024).parse().unwrap());
    assert_eq!(sender.send_request(large).await.unwrap().status().as_u16(), 431);
    assert_eq!(sender.send_request(post("/dbs", 0)).await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn an_idle_http2_connection_is_told_to_go_away() {
    let running = start(hurried()).await;
    let (mut sender, driver) = http2(running.connect().await).await;
    assert_eq!(sender.send_request(post("/dbs", 0)).await.unwrap().status().as_u16(), 200);
    let ended = tokio::time::timeout(PATIENCE, driver).await.expect("the server closes");
    ended.unwrap().expect("the server says goodbye");
}

#[tokio::test]
async fn a_stop_lets_an_http2_stream_in_flight_end() {
    let running = start(Limits::default()).await;
    let (mut sender, driver) = http2(running.connect().await).await;
    let answer = tokio::spawn(async move { sender.send_request(post("/wait", 0)).await });
    running.service.waiting.notified().await;
    let service = running.service.clone();
    let stop = tokio::spawn(running.server.stop());
    service.go.open();
    assert_eq!(answer.await.unwrap().unwrap().status().as_u16(), 200);
    assert_eq!(stop.await.unwrap(), DrainOutcome::Complete);
    driver.await.unwrap().expect("the server says goodbye");
}
