//! A server to test, and clients that send exactly what a test says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use orrery_server::net::cors::CorsPolicy;
use orrery_server::net::tls::{Tls, TlsSource};
use orrery_server::telemetry::Metrics;
use orrery_server::{Answer, Limits, ListenerConfig, MaybeFuture, Reply, Request, Server, Service};
use orrery_types::SystemClock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A wait that no test should come near; it turns a hang into a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Answers with what it was asked; some paths do more.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// Told when a request for `/wait` has come.
    pub(crate) waiting: Notify,
    /// Lets one request for `/wait` go on.
    pub(crate) go: Arc<OpenGate>,
    /// Whether writes are refused.
    pub(crate) is_read_only: AtomicBool,
    /// How many requests have come.
    pub(crate) begun: AtomicUsize,
    /// Told when a request for `/wait` is cancelled.
    pub(crate) cancelled: Arc<Notify>,
}

/// Tells of a request that ends before it is answered.
struct CancelGuard(Option<Arc<Notify>>);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if let Some(cancelled) = self.0.take() {
            cancelled.notify_one();
        }
    }
}

#[derive(Debug)]
pub(crate) struct OpenGate(Semaphore);

impl Default for OpenGate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl OpenGate {
    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }
}

impl Service for Echo {
    fn call(self: &Arc<Self>, request: Request) -> MaybeFuture<Answer> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        match request.path_and_query.as_str() {
            "/panic" => panic!("asked to"),
            "/panic-later" => MaybeFuture::boxed(async { panic!("asked to") }),
            "/wait" => {
                let echo = Arc::clone(self);
                MaybeFuture::boxed(async move {
                    let mut guard = CancelGuard(Some(Arc::clone(&echo.cancelled)));
                    echo.waiting.notify_one();
                    echo.go.0.acquire().await.unwrap().forget();
                    guard.0 = None;
                    echo_of(&request)
                })
            }
            _ => MaybeFuture::Ready(echo_of(&request)),
        }
    }

    fn is_writable(&self) -> bool {
        !self.is_read_only.load(Ordering::Relaxed)
    }
}

fn echo_of(request: &Request) -> Answer {
    let text = format!(
        "{} {} {} {} {}",
        request.scheme.as_str(),
        request.method,
        request.path_and_query,
        request.host().unwrap_or("-"),
        request.body.len()
    );
    let reply = Reply::json(StatusCode::OK, text);
    let is_authenticated = request.headers.contains_key("authorization");
    Answer { reply, operation: "echo", is_authenticated }
}

pub(crate) struct Running {
    pub(crate) server: Server<Echo>,
    pub(crate) service: Arc<Echo>,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Tls,
}

pub(crate) fn config(limits: Limits) -> ListenerConfig {
    let source = TlsSource::SelfSigned { folder: None, names: Vec::new() };
    let tls = Some(Tls::load(&source, &SystemClock).unwrap());
    let (cors, metrics) = (CorsPolicy::default(), Metrics::install());
    ListenerConfig { also_listen: Vec::new(), tls, is_direct: true, limits, cors, metrics }
}

pub(crate) async fn start(limits: Limits) -> Running {
    let config = config(limits);
    let tls = config.tls.clone().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
    let service = Arc::new(Echo::default());
    server.serve(Arc::clone(&service));
    let address = server.address();
    Running { server, service, address, tls }
}

/// The default limits with short times.
pub(crate) fn hurried() -> Limits {
    Limits {
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        tls_time: Duration::from_millis(300),
        idle_time: Duration::from_millis(500),
        unauthenticated_idle_time: Duration::from_millis(500),
        drain_time: Duration::from_millis(300),
        ..Limits::default()
    }
}

impl Running {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) async fn connect_tls(&self, protocol: &str) -> TlsStream<TcpStream> {
        use rustls::pki_types::pem::PemObject as _;
        let mut roots = rustls::RootCertStore::empty();
        let der = rustls::pki_types::CertificateDer::from_pem_slice(&self.tls.pem).unwrap();
        roots.add(der).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        }
        let name = "localhost".try_into().unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.connect().await).await.unwrap()
    }

    /// Sends bytes on a connection of their own and reads until it is closed.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_to_close(&mut stream).await
    }
}

/// What comes until the other side closes or resets.
pub(crate) async fn read_to_close(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    // A reset is a close too; what came before it was kept.
    let _ = tokio::time::timeout(PATIENCE, read).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one response of HTTP/1 with a Content-Length.
pub(crate) async fn read_response(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let read = async {
        let mut text = String::new();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            text.push(char::from(byte[0]));
            if text.ends_with("\r\n\r\n") {
                break;
            }
        }
        let length = header(&text, "content-length").map_or(0, |value| value.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        text + &String::from_utf8(body).unwrap()
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the server answers")
}

pub(crate) fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let head = response.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

pub(crate) fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("none")
}

pub(crate) fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

pub(crate) async fn get(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: db.test:1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_response(stream).await
}

/// The same with credentials, which the service takes as they are.
pub(crate) async fn get_with_key(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: key\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_response(stream).await
}
