//! Serves one connection from its first byte to its last. `listener` calls [`serve`].
//!
//! The first byte distinguishes TLS (0x16 opens a handshake) from plain HTTP; the first bytes after
//! that distinguish HTTP/2 from HTTP/1. Every wait for the client has a time limit: [`ConnectionWatch`] knows
//! what the connection waits for and since when, and [`ClientDeadline`] ends that wait.

use std::convert::Infallible;
use std::future::{Future, Ready, poll_fn, ready};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::direct::{self, connection::DirectPeer};
use crate::net::front::{Arrival, Front};
use crate::net::listener::Limits;
use crate::net::opening::{self, PrefixedStream, Protocol};
use crate::net::serving_threads;
use crate::net::slots::Client;
use crate::net::watch::WatchedStream;
use crate::net::watch::{ClientDeadline, ConnectionWatch, Overdue, RequestGuard};
use crate::service::{MaybeFuture, Response, Scheme, Service};

/// First byte of a TLS record that holds a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Hyper's limits on a head are this many times ours: within that range our own refusal has a JSON
/// body; beyond it hyper answers or closes by itself.
const HEAD_ROOM: usize = 2;

pub(crate) const EVICTED: &str = "evicted: another connection needed its slot";

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a connection until either side is done with it.
pub(crate) async fn serve<S: Service>(
    stream: TcpStream,
    peer: SocketAddr,
    front: Arc<Front<S>>,
    stopping: watch::Receiver<bool>,
    client: &Arc<Client>,
) -> Result<(), BoxError> {
    let limits = *front.limits();
    let mut first = [0];
    let mut stop = stopping.clone();
    let peeked = tokio::select! {
        peeked = timeout(limits.head_time, stream.peek(&mut first)) => peeked??,
        _ = stop.wait_for(|stopping| *stopping) => return Ok(()),
        () = client.evicted() => return Err(EVICTED.into()),
    };
    if peeked == 0 {
        return Ok(());
    }
    match front.tls() {
        Some(tls) if first[0] == TLS_HANDSHAKE => {
            let acceptor = TlsAcceptor::from(Arc::clone(tls));
            let stream = tokio::select! {
                accepted = timeout(limits.tls_time, acceptor.accept(stream)) => accepted??,
                () = client.evicted() => return Err(EVICTED.into()),
            };
            serve_tls(stream, peer, front, stopping, client).await
        }
        _ => speak(stream, peer, Scheme::Http, front, stopping, client).await,
    }
}

/// Serves a connection behind TLS: HTTP, or Direct mode.
async fn serve_tls<S: Service>(
    mut stream: TlsStream<TcpStream>,
    peer: SocketAddr,
    front: Arc<Front<S>>,
    stopping: watch::Receiver<bool>,
    client: &Arc<Client>,
) -> Result<(), BoxError> {
    // Clients in Direct mode negotiate no protocol.
    if !front.is_direct() || stream.get_ref().1.alpn_protocol().is_some() {
        return speak(stream, peer, Scheme::Https, front, stopping, client).await;
    }
    let mut stop = stopping.clone();
    let (protocol, bytes) = tokio::select! {
        read = timeout(front.limits().head_time, opening::read(&mut stream)) => read??,
        _ = stop.wait_for(|stopping| *stopping) => return Ok(()),
        () = client.evicted() => return Err(EVICTED.into()),
    };
    match protocol {
        Protocol::Http => {
            let stream = PrefixedStream { bytes, inner: stream };
            speak(stream, peer, Scheme::Https, front, stopping, client).await
        }
        Protocol::Direct => {
            let server_name = stream.get_ref().1.server_name();
            let server_name = server_name.and_then(|name| HeaderValue::try_from(name).ok());
            let peer_info = DirectPeer { peer, server_name };
            direct::connection::serve(stream, bytes, peer_info, front, stopping, client).await
        }
    }
}

async fn speak<S: Service, I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: I,
    peer: SocketAddr,
    scheme: Scheme,
    front: Arc<Front<S>>,
    mut stopping: watch::Receiver<bool>,
    client: &Arc<Client>,
) -> Result<(), BoxError> {
    let limits = *front.limits();
    let watch = Arc::new(ConnectionWatch::new(Arc::clone(client)));
    let stream = WatchedStream::new(stream, Arc::clone(&watch));
    let builder = builder(&limits);
    let mut is_closing = false;
    let service = service_fn(|request: http::Request<Incoming>| {
        let problem = watch.framing_problem(&request);
        let guard = RequestGuard::begin(&watch, &request);
        // Only the first authenticated request has to be reported.
        let unauthenticated = (!client.is_authenticated()).then(|| Arc::clone(client));
        // A connection of HTTP/2 may have many requests at once.
        let may_block =
            request.version() < Version::HTTP_2 && serving_threads::has_one_connection();
        let arrival = Arrival { scheme, peer, may_block, problem, unauthenticated };
        match front.answer(request, arrival) {
            MaybeFuture::Ready(response) => ResponseFuture::Ready(ready(Ok(response))),
            MaybeFuture::Future(response) => ResponseFuture::Pending { response, _guard: guard },
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut deadline = pin!(ClientDeadline::new(&watch, limits));
    let mut evicted = pin!(client.evicted());
    loop {
        // The connection is polled first: what it does moves the deadline.
        let step = poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Step::Ended(ended)),
            Poll::Pending => {
                let may_be_evicted = !is_closing && !client.is_authenticated();
                if may_be_evicted && evicted.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Step::Evict);
                }
                deadline.as_mut().poll(cx).map(Step::Overdue)
            }
        });
        let step = tokio::select! {
            step = step => step,
            _ = stopping.wait_for(|stopping| *stopping), if !is_closing => Step::Close,
        };
        match step {
            Step::Ended(ended) => return ended,
            Step::Evict if !client.is_busy() => return Err(EVICTED.into()),
            // An idle connection ends at once, one with a request in flight after its answer.
            Step::Close | Step::Overdue(Overdue::Close) | Step::Evict if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
                deadline.as_mut().start_grace_period();
            }
            Step::Close | Step::Evict | Step::Overdue(_) => {
                return Err("the client took too long".into());
            }
        }
    }
}

/// The response future that hyper polls. The request counts as being served until it completes.
enum ResponseFuture {
    Ready(Ready<Result<Response, Infallible>>),
    Pending { response: Pin<Box<dyn Future<Output = Response> + Send>>, _guard: RequestGuard },
}

impl Future for ResponseFuture {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(response) => Pin::new(response).poll(cx),
            Self::Pending { response, .. } => response.as_mut().poll(cx).map(Ok),
        }
    }
}

/// What happens next to a connection.
enum Step {
    Ended(Result<(), BoxError>),
    /// The server stops.
    Close,
    /// Another connection needs its slot.
    Evict,
    /// The client took too long.
    Overdue(Overdue),
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let head_bytes = limits.head_bytes_max.saturating_mul(HEAD_ROOM);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // `ConnectionWatch` keeps the time, because hyper's timeout also runs while the connection is idle.
        .header_read_timeout(None)
        .max_headers(limits.headers_max.saturating_mul(HEAD_ROOM))
        .max_buf_size(head_bytes.max(16 * 1024));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX));
    builder
}
