//! Serves one connection from its first byte to its last. `listener` calls [`serve`].
//!
//! The first byte distinguishes TLS (0x16 opens a handshake) from plain HTTP; the first bytes after
//! that distinguish HTTP/2 from HTTP/1. Every wait for the client has a time limit: [`Watch`] knows
//! what the connection waits for and since when, and [`Deadline`] ends it when that takes too long.

use std::convert::Infallible;
use std::future::{Future, Ready, poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::net::framing;
use crate::net::front::{Arrival, Front};
use crate::net::listener::Limits;
use crate::net::slots::Client;
use crate::service::{MaybeFuture, Response, Scheme, Service};

/// First byte of a TLS record that holds a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// How an HTTP/2 connection opens, and its length.
const HTTP2_OPENING: &[u8] = b"PRI";
const HTTP2_PREFACE_BYTES: usize = 24;
/// Hyper's limits on a head are this many times ours: within that range our own refusal has a JSON
/// body; beyond it hyper answers or closes by itself.
const HEAD_ROOM: usize = 2;

const EVICTED: &str = "evicted: another connection needed its slot";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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
            speak(stream, peer, Scheme::Https, front, stopping, client).await
        }
        _ => speak(stream, peer, Scheme::Http, front, stopping, client).await,
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
    let watch = Arc::new(Watch::new(Arc::clone(client)));
    let stream = WatchedStream { inner: stream, watch: Arc::clone(&watch) };
    let builder = builder(&limits);
    let mut is_closing = false;
    let service = service_fn(|request: http::Request<Incoming>| {
        let guard = RequestGuard::begin(&watch);
        let problem = watch.framing_problem(&request);
        // Only the first authenticated request has to be reported.
        let unauthenticated = (!client.is_authenticated()).then(|| Arc::clone(client));
        match front.answer(request, Arrival { scheme, peer, problem, unauthenticated }) {
            MaybeFuture::Ready(response) => ResponseFuture::Ready(ready(Ok(response))),
            MaybeFuture::Future(response) => ResponseFuture::Pending { response, _guard: guard },
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut deadline = pin!(Deadline::new(&watch, limits));
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
                deadline.as_mut().poll(cx)
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
            Step::Close | Step::Evict if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
                deadline.as_mut().start_grace_period();
            }
            Step::Close | Step::Evict | Step::Cut => {
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
    /// The connection was idle too long, or the server stops.
    Close,
    /// Another connection needs its slot.
    Evict,
    /// The client is too slow.
    Cut,
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let head_bytes = limits.head_bytes_max.saturating_mul(HEAD_ROOM);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // `Watch` keeps the time, because hyper's timeout also runs while the connection is idle.
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

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// For a first byte, or for the client to read what was written.
    Idle { since: Instant },
    /// For the rest of a request's head.
    Head { since: Instant },
    /// For the service: this many requests are being answered.
    Serving { requests: usize },
}

#[derive(Debug)]
struct WatchState {
    phase: Phase,
    /// The first bytes, which identify the protocol.
    opening: [u8; HTTP2_OPENING.len()],
    bytes_read: usize,
    /// Whether a request was received whose response is not written yet.
    response_pending: bool,
    /// When the client closed its sending side while a response was pending.
    half_closed: Option<Instant>,
    /// The first bytes received since the connection was idle, and the number of requests parsed since:
    /// the head of the first of them begins there.
    head: Vec<u8>,
    heads: usize,
}

impl WatchState {
    fn is_http2(&self) -> bool {
        self.opening == HTTP2_OPENING && self.bytes_read >= HTTP2_PREFACE_BYTES
    }
}

/// The state of a connection, shared by the stream, which sees bytes, and the service, which sees
/// requests.
#[derive(Debug)]
struct Watch {
    state: Mutex<WatchState>,
    client: Arc<Client>,
}

impl Watch {
    fn new(client: Arc<Client>) -> Self {
        let state = WatchState {
            phase: Phase::Head { since: Instant::now() },
            opening: [0; HTTP2_OPENING.len()],
            bytes_read: 0,
            response_pending: false,
            half_closed: None,
            head: Vec::new(),
            heads: 0,
        };
        Self { state: Mutex::new(state), client }
    }

    /// What is wrong with the head of a request. Of pipelined requests only the first head is available
    /// as it was received.
    fn framing_problem(&self, request: &http::Request<Incoming>) -> Option<&'static str> {
        framing::problem(request.headers(), request.version(), || {
            self.with(|state| state.heads == 1 && framing::names_length(&state.head))
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut WatchState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self, bytes: &[u8]) {
        self.with(|state| {
            let places = state.opening.iter_mut().skip(state.bytes_read);
            places.zip(bytes).for_each(|(place, byte)| *place = *byte);
            state.bytes_read = state.bytes_read.saturating_add(bytes.len());
            let is_http2 = state.is_http2();
            match state.phase {
                // HTTP/2 sends frames between requests too; only requests count there.
                Phase::Head { since } if is_http2 => state.phase = Phase::Idle { since },
                Phase::Idle { .. } if !is_http2 => {
                    state.phase = Phase::Head { since: Instant::now() };
                    state.head.clear();
                    state.heads = 0;
                }
                Phase::Idle { .. } | Phase::Head { .. } | Phase::Serving { .. } => {}
            }
            if matches!(state.phase, Phase::Head { .. }) {
                let room = framing::HEAD_KEPT_BYTES_MAX.saturating_sub(state.head.len());
                state.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        });
    }

    /// Whether the end of the stream is withheld from hyper: the client has closed its sending side and
    /// may still read, but hyper drops a connection as soon as it reads the end.
    fn withholds_end(&self) -> bool {
        self.with(|state| {
            if state.response_pending {
                state.half_closed.get_or_insert_with(Instant::now);
            }
            state.response_pending
        })
    }

    /// Records that bytes were written; returns whether the withheld end may now be read.
    fn wrote(&self) -> bool {
        self.with(|state| {
            if !matches!(state.phase, Phase::Serving { .. }) {
                state.response_pending = false;
            }
            // HTTP/2 also writes answers to pings, which are not requests.
            if let (Phase::Idle { .. }, false) = (state.phase, state.is_http2()) {
                state.phase = Phase::Idle { since: Instant::now() };
            }
            !state.response_pending && state.half_closed.is_some()
        })
    }

    fn deadline(&self, limits: &Limits) -> Option<(Instant, Step)> {
        let idle_time = if self.client.is_authenticated() {
            limits.idle_time
        } else {
            limits.unauthenticated_idle_time
        };
        self.with(|state| match (state.phase, state.half_closed) {
            (_, Some(since)) => Some((since + limits.half_closed_time, Step::Cut)),
            (Phase::Idle { since }, _) => Some((since + idle_time, Step::Close)),
            (Phase::Head { since }, _) => Some((since + limits.head_time, Step::Cut)),
            (Phase::Serving { .. }, _) => None,
        })
    }
}

/// Counts a request as being served until dropped.
struct RequestGuard(Arc<Watch>);

impl RequestGuard {
    fn begin(watch: &Arc<Watch>) -> Self {
        watch.with(|state| {
            let before = match state.phase {
                Phase::Serving { requests } => requests,
                Phase::Idle { .. } | Phase::Head { .. } => 0,
            };
            state.phase = Phase::Serving { requests: before + 1 };
            state.response_pending = true;
            state.heads += 1;
        });
        watch.client.set_busy(true);
        Self(Arc::clone(watch))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.phase = match state.phase {
                Phase::Serving { requests } if requests > 1 => {
                    Phase::Serving { requests: requests - 1 }
                }
                Phase::Serving { .. } | Phase::Idle { .. } | Phase::Head { .. } => {
                    self.0.client.set_busy(false);
                    Phase::Idle { since: Instant::now() }
                }
            };
        });
    }
}

/// A stream that reports what is read and written to the watch.
struct WatchedStream<I> {
    inner: I,
    watch: Arc<Watch>,
}

impl<I: AsyncRead + Unpin> AsyncRead for WatchedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let fresh = &buf.filled()[before..];
        if !fresh.is_empty() {
            self.watch.read(fresh);
        } else if matches!(polled, Poll::Ready(Ok(()))) && self.watch.withholds_end() {
            return Poll::Pending;
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WatchedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if polled.is_ready() && self.watch.wrote() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        if polled.is_ready() && self.watch.wrote() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// Completes when the client has exceeded the time limit of what the connection waits for. Bytes and
/// requests pass in the same task, so the deadline is checked whenever it may have moved.
struct Deadline {
    watch: Arc<Watch>,
    limits: Limits,
    sleep: Pin<Box<Sleep>>,
    /// The deadline of a connection that was asked to close.
    grace: Option<Instant>,
}

impl Deadline {
    fn new(watch: &Arc<Watch>, limits: Limits) -> Self {
        let sleep = Box::pin(sleep_until(Instant::now() + limits.head_time));
        Self { watch: Arc::clone(watch), limits, sleep, grace: None }
    }

    fn start_grace_period(mut self: Pin<&mut Self>) {
        self.grace = Some(Instant::now() + self.limits.head_time);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            let Some((at, step)) = self.watch.deadline(&self.limits) else { return Poll::Pending };
            let (at, step) = self.grace.map_or((at, step), |grace| (grace, Step::Cut));
            // Every request moves the deadline on, and resetting a timer is expensive: one that is
            // early fires, and is then set to the current deadline.
            if self.sleep.deadline() > at {
                self.sleep.as_mut().reset(at);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() >= at {
                return Poll::Ready(step);
            }
            self.sleep.as_mut().reset(at);
        }
    }
}
