//! One connection from its first byte to its last. `listener` calls [`serve`].
//!
//! The first byte tells TLS (0x16 opens a handshake) from plain HTTP; the first bytes after that
//! tell HTTP/2 from HTTP/1. Every wait for the client has an end: [`Watch`] knows what the
//! connection waits for and since when, and [`Deadline`] ends it when that takes too long.

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
use crate::net::slots::Visitor;
use crate::service::{Answering, Response, Scheme, Service};

/// First byte of a TLS record that holds a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// How an HTTP/2 connection opens, and its length.
const HTTP2_OPENING: &[u8] = b"PRI";
const HTTP2_PREFACE_BYTES: usize = 24;
/// Room above our own limits on a head, within which the refusal is a proper answer with a body;
/// past it the HTTP library answers or closes by itself.
const HEAD_ROOM: usize = 2;

const MADE_ROOM: &str = "it made room for another connection";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a connection until either side is done with it.
pub(crate) async fn serve<S: Service>(
    stream: TcpStream,
    peer: SocketAddr,
    front: Arc<Front<S>>,
    stopping: watch::Receiver<bool>,
    visitor: &Arc<Visitor>,
) -> Result<(), BoxError> {
    let limits = *front.limits();
    let mut first = [0];
    let mut stop = stopping.clone();
    let peeked = tokio::select! {
        peeked = timeout(limits.head_time, stream.peek(&mut first)) => peeked??,
        _ = stop.wait_for(|stopping| *stopping) => return Ok(()),
        () = visitor.evicted() => return Err(MADE_ROOM.into()),
    };
    if peeked == 0 {
        return Ok(());
    }
    match front.tls() {
        Some(tls) if first[0] == TLS_HANDSHAKE => {
            let acceptor = TlsAcceptor::from(Arc::clone(tls));
            let stream = tokio::select! {
                accepted = timeout(limits.tls_time, acceptor.accept(stream)) => accepted??,
                () = visitor.evicted() => return Err(MADE_ROOM.into()),
            };
            speak(stream, peer, Scheme::Https, front, stopping, visitor).await
        }
        _ => speak(stream, peer, Scheme::Http, front, stopping, visitor).await,
    }
}

async fn speak<S: Service, I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: I,
    peer: SocketAddr,
    scheme: Scheme,
    front: Arc<Front<S>>,
    mut stopping: watch::Receiver<bool>,
    visitor: &Arc<Visitor>,
) -> Result<(), BoxError> {
    let limits = *front.limits();
    let watch = Arc::new(Watch::new(Arc::clone(visitor)));
    let stream = WatchedStream { inner: stream, watch: Arc::clone(&watch) };
    let builder = builder(&limits);
    let mut is_closing = false;
    let service = service_fn(|request: http::Request<Incoming>| {
        let serving = Serving::begin(&watch);
        let problem = watch.framing_problem(&request);
        // Nobody needs to know more often than once.
        let unproven = (!visitor.is_proven()).then(|| Arc::clone(visitor));
        match front.answer(request, Arrival { scheme, peer, problem, unproven }) {
            Answering::Now(response) => Served::Now(ready(Ok(response))),
            Answering::Later(response) => Served::Later { response, _serving: serving },
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut deadline = pin!(Deadline::new(&watch, limits));
    let mut evicted = pin!(visitor.evicted());
    loop {
        // The connection is polled first: what it does moves the deadline.
        let step = poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Step::Ended(ended)),
            Poll::Pending => {
                let may_be_evicted = !is_closing && !visitor.is_proven();
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
            Step::Evict if !visitor.is_busy() => return Err(MADE_ROOM.into()),
            // An idle connection ends at once, one with a request in flight after its answer.
            Step::Close | Step::Evict if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
                deadline.as_mut().give_grace();
            }
            Step::Close | Step::Evict | Step::Cut => {
                return Err("the client took too long".into());
            }
        }
    }
}

/// The answer to a request, as the HTTP library waits for it. While it does, the request counts as one
/// that is being served.
enum Served {
    Now(Ready<Result<Response, Infallible>>),
    Later { response: Pin<Box<dyn Future<Output = Response> + Send>>, _serving: Serving },
}

impl Future for Served {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(response) => Pin::new(response).poll(cx),
            Self::Later { response, .. } => response.as_mut().poll(cx).map(Ok),
        }
    }
}

/// What becomes of a connection.
enum Step {
    Ended(Result<(), BoxError>),
    /// It was idle too long, or the server stops.
    Close,
    /// Another client needs its place.
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
        // `Watch` keeps the time, because the library's own clock also runs while idle.
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
    /// For a first byte, or for the client to take what was written.
    Idle { since: Instant },
    /// For the rest of a request's head.
    Head { since: Instant },
    /// For us: so many requests are being answered.
    Serving { requests: usize },
}

#[derive(Debug)]
struct WatchState {
    phase: Phase,
    /// The first bytes, enough to know the protocol.
    opening: [u8; HTTP2_OPENING.len()],
    bytes_read: usize,
    /// Whether a request came whose answer is not written yet.
    owes: bool,
    /// When the client closed its side although an answer is owed.
    ended: Option<Instant>,
    /// The first bytes that came since the connection was idle, and how many requests were read since:
    /// the head of the first of them begins there.
    head: Vec<u8>,
    heads: usize,
}

impl WatchState {
    fn is_http2(&self) -> bool {
        self.opening == HTTP2_OPENING && self.bytes_read >= HTTP2_PREFACE_BYTES
    }
}

/// Shared by the stream, which sees bytes, and the service, which sees requests.
#[derive(Debug)]
struct Watch {
    state: Mutex<WatchState>,
    visitor: Arc<Visitor>,
}

impl Watch {
    fn new(visitor: Arc<Visitor>) -> Self {
        let state = WatchState {
            phase: Phase::Head { since: Instant::now() },
            opening: [0; HTTP2_OPENING.len()],
            bytes_read: 0,
            owes: false,
            ended: None,
            head: Vec::new(),
            heads: 0,
        };
        Self { state: Mutex::new(state), visitor }
    }

    /// What is wrong with the head of a request. Of requests that a client sends without awaiting
    /// answers only the first is at hand as it came.
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
                // Frames of HTTP/2 come between requests too; only requests count there.
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

    /// Whether the client has said all that it wants to say and may still listen. The HTTP library
    /// takes the end of what it reads for the end of the client, so it hears of it later.
    fn holds_end(&self) -> bool {
        self.with(|state| {
            if state.owes {
                state.ended.get_or_insert_with(Instant::now);
            }
            state.owes
        })
    }

    /// Notes that bytes went out; says whether the client waits for nothing more.
    fn wrote(&self) -> bool {
        self.with(|state| {
            if !matches!(state.phase, Phase::Serving { .. }) {
                state.owes = false;
            }
            // Under HTTP/2 an answer to a ping is written too, and pings are no requests.
            if let (Phase::Idle { .. }, false) = (state.phase, state.is_http2()) {
                state.phase = Phase::Idle { since: Instant::now() };
            }
            !state.owes && state.ended.is_some()
        })
    }

    fn deadline(&self, limits: &Limits) -> Option<(Instant, Step)> {
        let idle_time =
            if self.visitor.is_proven() { limits.idle_time } else { limits.unproven_idle_time };
        self.with(|state| match (state.phase, state.ended) {
            (_, Some(ended)) => Some((ended + limits.left_time, Step::Cut)),
            (Phase::Idle { since }, _) => Some((since + idle_time, Step::Close)),
            (Phase::Head { since }, _) => Some((since + limits.head_time, Step::Cut)),
            (Phase::Serving { .. }, _) => None,
        })
    }
}

/// Counts a request while it is answered.
struct Serving(Arc<Watch>);

impl Serving {
    fn begin(watch: &Arc<Watch>) -> Self {
        watch.with(|state| {
            let before = match state.phase {
                Phase::Serving { requests } => requests,
                Phase::Idle { .. } | Phase::Head { .. } => 0,
            };
            state.phase = Phase::Serving { requests: before + 1 };
            state.owes = true;
            state.heads += 1;
        });
        watch.visitor.set_busy(true);
        Self(Arc::clone(watch))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.phase = match state.phase {
                Phase::Serving { requests } if requests > 1 => {
                    Phase::Serving { requests: requests - 1 }
                }
                Phase::Serving { .. } | Phase::Idle { .. } | Phase::Head { .. } => {
                    self.0.visitor.set_busy(false);
                    Phase::Idle { since: Instant::now() }
                }
            };
        });
    }
}

/// A stream that tells the watch what passes.
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
        } else if matches!(polled, Poll::Ready(Ok(()))) && self.watch.holds_end() {
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

/// Completes when the client has taken too long for what the connection waits for. Bytes and
/// requests pass in the same task, so that the deadline is looked up whenever it may have moved.
struct Deadline {
    watch: Arc<Watch>,
    limits: Limits,
    sleep: Pin<Box<Sleep>>,
    /// The end of a connection that was asked to close.
    grace: Option<Instant>,
}

impl Deadline {
    fn new(watch: &Arc<Watch>, limits: Limits) -> Self {
        let sleep = Box::pin(sleep_until(Instant::now() + limits.head_time));
        Self { watch: Arc::clone(watch), limits, sleep, grace: None }
    }

    fn give_grace(mut self: Pin<&mut Self>) {
        self.grace = Some(Instant::now() + self.limits.head_time);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            let Some((at, step)) = self.watch.deadline(&self.limits) else { return Poll::Pending };
            let (at, step) = self.grace.map_or((at, step), |grace| (grace, Step::Cut));
            // Every request moves the deadline on, and setting a timer is dear: one that is early
            // is left to ring, and then set to what the deadline has become.
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
