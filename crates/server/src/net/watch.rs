//! What a connection waits for and since when. [`WatchedStream`] reports bytes, the service reports requests, and
//! [`ClientDeadline`] completes when the client takes too long. The stream also gives the refusals of the HTTP
//! library the body that every other refusal has.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hyper::body::{Body as _, Incoming};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::net::framing::{self, HeadBuffer};
use crate::net::listener::Limits;
use crate::net::refusal;
use crate::net::slots::Client;

/// How an HTTP/2 connection opens, and its length.
const HTTP2_OPENING: &[u8] = b"PRI";
const HTTP2_PREFACE_BYTES: usize = 24;

/// What is done to a connection whose client took too long.
pub(crate) enum Overdue {
    /// It is asked to close.
    Close,
    /// It is dropped.
    Cut,
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
    /// The heads of requests, as they were received.
    heads: HeadBuffer,
    /// Whether all that was written is flushed, and no response is pending.
    is_flushed: bool,
}

impl WatchState {
    fn is_http2(&self) -> bool {
        self.opening == HTTP2_OPENING && self.bytes_read >= HTTP2_PREFACE_BYTES
    }
}

/// The state of a connection, shared by the stream, which sees bytes, and the service, which sees
/// requests.
#[derive(Debug)]
pub(crate) struct ConnectionWatch {
    state: Mutex<WatchState>,
    client: Arc<Client>,
}

impl ConnectionWatch {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let state = WatchState {
            phase: Phase::Head { since: Instant::now() },
            opening: [0; HTTP2_OPENING.len()],
            bytes_read: 0,
            response_pending: false,
            half_closed: None,
            heads: HeadBuffer::default(),
            is_flushed: true,
        };
        Self { state: Mutex::new(state), client }
    }

    /// What is wrong with the head of a request that was just parsed.
    pub(crate) fn framing_problem(
        &self,
        request: &http::Request<Incoming>,
    ) -> Option<&'static str> {
        framing::problem(request.headers(), request.version(), || {
            self.with(|state| state.heads.names_length())
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut WatchState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn read(&self, bytes: &[u8]) {
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
                }
                Phase::Idle { .. } | Phase::Head { .. } | Phase::Serving { .. } => {}
            }
            if is_http2 {
                state.heads.clear();
            } else {
                state.heads.receive(bytes);
            }
        });
    }

    /// Whether the end of the stream is withheld from hyper: the client has closed its sending side and
    /// may still read, but hyper drops a connection as soon as it reads the end.
    pub(crate) fn withholds_end(&self) -> bool {
        self.with(|state| {
            if state.response_pending {
                state.half_closed.get_or_insert_with(Instant::now);
            }
            state.response_pending
        })
    }

    /// Records that bytes were written; returns whether the withheld end may now be read.
    pub(crate) fn wrote(&self) -> bool {
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

    /// Records that everything written so far was flushed.
    pub(crate) fn flushed(&self) {
        self.with(|state| state.is_flushed |= !state.response_pending);
    }

    /// Whether bytes that are about to be written are a refusal of the HTTP library itself: it has
    /// received part of a head, and no response is pending or partly written.
    pub(crate) fn is_refusal(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(b"HTTP/1.1 4")
            && self.with(|state| {
                let is_head = matches!(state.phase, Phase::Head { .. });
                is_head && state.is_flushed && !state.is_http2()
            })
    }

    fn deadline(&self, limits: &Limits) -> Option<(Instant, Overdue)> {
        let idle_time = if self.client.is_authenticated() {
            limits.idle_time
        } else {
            limits.unauthenticated_idle_time
        };
        self.with(|state| match (state.phase, state.half_closed) {
            (_, Some(since)) => Some((since + limits.half_closed_time, Overdue::Cut)),
            (Phase::Idle { since }, _) => Some((since + idle_time, Overdue::Close)),
            (Phase::Head { since }, _) => Some((since + limits.head_time, Overdue::Cut)),
            (Phase::Serving { .. }, _) => None,
        })
    }
}

/// Counts a request as being served until dropped.
pub(crate) struct RequestGuard(Arc<ConnectionWatch>);

impl RequestGuard {
    /// Begins to serve a request that was just parsed.
    pub(crate) fn begin(watch: &Arc<ConnectionWatch>, request: &http::Request<Incoming>) -> Self {
        let body_bytes = request.body().size_hint().exact();
        watch.with(|state| {
            let before = match state.phase {
                Phase::Serving { requests } => requests,
                Phase::Idle { .. } | Phase::Head { .. } => 0,
            };
            state.phase = Phase::Serving { requests: before + 1 };
            state.response_pending = true;
            state.is_flushed = false;
            state.heads.pass_request(body_bytes);
        });
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
                // A part of the next request may have arrived together with this one.
                Phase::Serving { .. } | Phase::Idle { .. } | Phase::Head { .. } => {
                    let since = Instant::now();
                    if state.heads.has_begun() {
                        Phase::Head { since }
                    } else {
                        Phase::Idle { since }
                    }
                }
            };
        });
    }
}

/// Completes when the client has exceeded the time limit of what the connection waits for. Bytes and
/// requests pass in the same task, so the deadline is checked whenever it may have moved.
pub(crate) struct ClientDeadline {
    watch: Arc<ConnectionWatch>,
    limits: Limits,
    sleep: Pin<Box<Sleep>>,
    /// The deadline of a connection that was asked to close.
    grace: Option<Instant>,
}

impl ClientDeadline {
    pub(crate) fn new(watch: &Arc<ConnectionWatch>, limits: Limits) -> Self {
        let sleep = Box::pin(sleep_until(Instant::now() + limits.head_time));
        Self { watch: Arc::clone(watch), limits, sleep, grace: None }
    }

    pub(crate) fn start_grace_period(mut self: Pin<&mut Self>) {
        self.grace = Some(Instant::now() + self.limits.head_time);
    }

    pub(crate) fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Overdue> {
        loop {
            let Some((at, overdue)) = self.watch.deadline(&self.limits) else {
                return Poll::Pending;
            };
            let (at, overdue) = self.grace.map_or((at, overdue), |grace| (grace, Overdue::Cut));
            // Every request moves the deadline on, and resetting a timer is expensive: one that is
            // early fires, and is then set to the current deadline.
            if self.sleep.deadline() > at {
                self.sleep.as_mut().reset(at);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() >= at {
                return Poll::Ready(overdue);
            }
            self.sleep.as_mut().reset(at);
        }
    }
}

/// A stream that reports what is read and written to the watch.
pub(crate) struct WatchedStream<I> {
    inner: I,
    watch: Arc<ConnectionWatch>,
    /// What is still to be written in place of a refusal of the HTTP library.
    refusal: Option<Bytes>,
}

impl<I: AsyncWrite + Unpin> WatchedStream<I> {
    pub(crate) fn new(inner: I, watch: Arc<ConnectionWatch>) -> Self {
        Self { inner, watch, refusal: None }
    }

    /// Writes our own refusal in place of that of the HTTP library, which is empty. It is only reported
    /// as written when ours is: the library offers the same bytes again until then.
    fn poll_refusal(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<bool>> {
        if self.refusal.is_none() && self.watch.is_refusal(bytes) {
            self.refusal = refusal::in_place_of(bytes);
        }
        let Some(rest) = &mut self.refusal else { return Poll::Ready(Ok(false)) };
        while !rest.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.advance(written);
        }
        self.watch.wrote();
        Poll::Ready(Ok(true))
    }
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
        if ready!(self.poll_refusal(cx, bytes))? {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if polled.is_ready() && self.watch.wrote() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.watch.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| buf);
        if ready!(self.poll_refusal(cx, first))? {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
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
