//! The routes beside the protocol.

use crate::client::{body, get, header, start, status};
use orrery_server::Limits;

#[tokio::test]
async fn the_certificate_that_is_served_is_the_one_in_use() {
    let running = start(Limits::default()).await;
    let response = get(&mut running.connect().await, "/_explorer/emulator.pem").await;
    assert_eq!(body(&response).as_bytes(), &running.tls.pem[..]);
    // The client of the tests trusts this certificate and nothing else.
    assert_eq!(status(&get(&mut running.connect_tls("http/1.1").await, "/").await), "200");
}

#[tokio::test]
async fn the_page_may_run_scripts_of_this_server_only() {
    let running = start(Limits::default()).await;
    for path in ["/_explorer", "/_explorer/", "/_explorer/index.html"] {
        let response = get(&mut running.connect().await, path).await;
        assert_eq!(status(&response), "200");
        assert_eq!(header(&response, "content-type"), Some("text/html; charset=utf-8"));
        let policy = header(&response, "content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'; script-src 'self';"), "{policy}");
    }
}

#[tokio::test]
async fn a_file_that_the_page_does_not_have_is_not_found() {
    let running = start(Limits::default()).await;
    for path in ["/_explorer/none.js", "/_explorer/..%2f..%2fCargo.toml", "/_explorer/%2e%2e/x"] {
        let response = get(&mut running.connect().await, path).await;
        assert_eq!(status(&response), "404", "{path}");
        assert_eq!(header(&response, "content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn a_server_whose_store_refuses_writes_is_not_ready() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    assert_eq!(status(&get(&mut stream, "/readyz").await), "200");
    running.service.is_read_only.store(true, std::sync::atomic::Ordering::Relaxed);
    let response = get(&mut stream, "/readyz").await;
    assert_eq!(status(&response), "503");
    assert!(body(&response).contains("writes are refused"), "{response}");
    assert_eq!(status(&get(&mut stream, "/healthz").await), "200");
    running.service.is_read_only.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(status(&get(&mut stream, "/readyz").await), "200");
}

#[tokio::test]
async fn metrics_count_requests_by_operation_and_status() {
    let running = start(Limits::default()).await;
    let mut stream = running.connect().await;
    get(&mut stream, "/dbs").await;
    let response = get(&mut stream, "/metrics").await;
    let text = body(&response);
    let counter = "orrery_requests_total{operation=\"echo\",status=\"200\"}";
    assert!(text.contains(counter), "{text}");
    assert!(text.contains("orrery_request_seconds_bucket{operation=\"echo\""), "{text}");
    assert!(text.contains("orrery_request_charge_total{operation=\"echo\"}"), "{text}");
}

#[tokio::test]
async fn a_page_of_this_machine_may_call_and_another_may_not() {
    let running = start(Limits::default()).await;
    let ask = |line: &str, origin: &str| {
        let close = "Connection: close\r\n\r\n";
        format!("{line} HTTP/1.1\r\nHost: h\r\nOrigin: {origin}\r\n{close}").into_bytes()
    };
    let allowed = "access-control-allow-origin";
    for line in ["OPTIONS /dbs", "GET /dbs"] {
        let response = running.exchange(&ask(line, "http://localhost:5173")).await;
        assert_eq!(status(&response), "200", "{line}");
        assert_eq!(header(&response, allowed), Some("http://localhost:5173"), "{line}");
        let response = running.exchange(&ask(line, "https://evil.example")).await;
        assert_eq!(header(&response, allowed), None, "{line}");
    }
    let preflight = running.exchange(&ask("OPTIONS /dbs", "http://localhost")).await;
    let headers = header(&preflight, "access-control-allow-headers").unwrap();
    assert!(headers.contains("x-ms-documentdb-partitionkey"), "{headers}");
    let response = running.exchange(&ask("GET /dbs", "http://localhost")).await;
    let exposed = header(&response, "access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-ms-request-charge"), "{exposed}");
}
