//! One connection in Direct mode: the context request, then requests as they come, answered in the
//! order in which they are done.
//!
//! Requests that are done at once are answered by this task; the others run beside it as tasks of the
//! same thread. Nothing is read while as many requests run, or as many bytes wait to be written, as a
//! connection may have: then the client waits. A client that closes the connection cancels what it has
//! asked for.
//!
//! Clients do not repeat a write whose connection is cut. So a connection is never cut while a request
//! runs: after bytes that are no frame nothing more is read, but what runs is answered first. When
//! the server stops, requests that come are turned away with a status after which clients try again, and
//! the connection is closed once nothing has come for a moment.
//!
//! A close ends the sending side first, and reads until the client has closed, too. What comes then is
//! thrown away and was never begun; the client sees that the connection has ended. A socket that is closed
//! with unread bytes would be reset, and a reset can destroy answers that the client has not read yet.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http::HeaderValue;
use orrery_direct::handshake::{self, ContextResponseTokens};
use orrery_direct::token::{self, ULong};
use orrery_direct::{
    ContextRequest, ContextResponse, DirectError, Frame, FrameKind, FrameLimits, FrameProgress,
    next_frame, request,
};
use orrery_types::{Error, limits};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{Instrument as _, Span};

use super::decode;
use super::encode::{self, Envelope};
use crate::net::body::BodyReservation;
use crate::net::connection::{BoxError, EVICTED};
use crate::net::front::{Front, front_answer};
use crate::net::listener::Limits;
use crate::net::serving_threads;
use crate::net::slots::Client;
use crate::service::{Answer, MaybeFuture, Service};
use crate::telemetry::{self, RequestOutcome};
use crate::wire::{error, headers};

/// Room that is made for what comes next, once a quarter of it is left.
const READ_BYTES: usize = 16 * 1024;
/// A buffer that has grown beyond this is given back once it is empty.
const KEPT_BYTES: usize = 256 * 1024;
/// Bytes of a frame that are read before memory for the rest is reserved.
const UNRESERVED_BYTES: usize = 64 * 1024;
/// How long nothing must come before a server that stops closes a connection.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// How long a close may take.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// How often time limits are looked at.
const TICK_TIME: Duration = Duration::from_secs(1);
/// When to try again if there is no memory for a body.
const RETRY_AFTER_MS: u64 = 1000;

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub(crate) struct DirectPeer {
    pub(crate) peer: SocketAddr,
    /// The name of the server that the client used, if it used one and not an address.
    pub(crate) server_name: Option<HeaderValue>,
}

/// Serves a connection whose first bytes are those of a context request.
pub(crate) async fn serve<S: Service, I: AsyncRead + AsyncWrite + Send + 'static>(
    stream: I,
    opening: BytesMut,
    peer_info: DirectPeer,
    front: Arc<Front<S>>,
    stopping: watch::Receiver<bool>,
    client: &Arc<Client>,
) -> Result<(), BoxError> {
    let (reader, writer) = tokio::io::split(stream);
    let limits = *front.limits();
    let now = Instant::now();
    let connection = Connection {
        reader,
        writer,
        input: opening,
        output: FrameQueue::default(),
        running: JoinSet::new(),
        state: State::Opening,
        discard_bytes: 0,
        reservation: None,
        lacks_memory: false,
        needs_flush: false,
        frame_since: Some(now),
        progress_at: now,
        frame_limits: FrameLimits {
            body_bytes_max: limits.body_bytes_max,
            ..FrameLimits::default()
        },
        limits,
        front,
        peer_info,
        client: Arc::clone(client),
    };
    connection.run(stopping).await
}

/// What a connection does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the context request.
    Opening,
    /// Serves requests.
    Open,
    /// Turns requests away, because the server stops.
    Closing,
    /// Reads nothing more; ends when everything is answered.
    Failed(DirectError),
}

struct Connection<S, I> {
    reader: ReadHalf<I>,
    writer: WriteHalf<I>,
    input: BytesMut,
    output: FrameQueue,
    /// Requests that were not done at once.
    running: JoinSet<FinishedRequest>,
    state: State,
    /// Bytes of a body past the limit, which are thrown away.
    discard_bytes: usize,
    /// Memory for the body of the frame that is being read.
    reservation: Option<BodyReservation>,
    /// Whether the rest of a frame waits for such memory.
    lacks_memory: bool,
    needs_flush: bool,
    /// When the frame began of which a part has come.
    frame_since: Option<Instant>,
    /// When bytes came or went last.
    progress_at: Instant,
    frame_limits: FrameLimits,
    limits: Limits,
    front: Arc<Front<S>>,
    peer_info: DirectPeer,
    client: Arc<Client>,
}

/// A request and where its answer goes.
struct RequestContext {
    envelope: Envelope,
    began: Instant,
    span: Span,
    _reservation: Option<BodyReservation>,
}

/// A request that is done.
struct FinishedRequest {
    context: RequestContext,
    answer: Answer,
}

/// What happens next.
enum Event {
    Finished(Box<Result<FinishedRequest, JoinError>>),
    /// Something is written; all of it, if that is so.
    Wrote(bool),
    Read(usize),
    Stop,
    Evicted,
    Quiet,
    Tick,
}

impl<S: Service, I: AsyncRead + AsyncWrite + Send + 'static> Connection<S, I> {
    async fn run(mut self, mut stopping: watch::Receiver<bool>) -> Result<(), BoxError> {
        let client = Arc::clone(&self.client);
        let mut evicted = pin!(client.evicted());
        let mut ticks = interval(TICK_TIME.min(self.limits.head_time / 4));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ended = loop {
            self.read_frames();
            self.needs_flush |= !self.output.is_empty();
            if let (State::Failed(error), true) = (self.state, self.is_idle()) {
                break Err(error.into());
            }
            match self.next_event(&mut stopping, evicted.as_mut(), &mut ticks).await {
                Err(error) => return Err(error.into()),
                Ok(Event::Finished(finished)) => self.finish_task(*finished),
                Ok(Event::Wrote(is_all)) => self.wrote(is_all),
                // The client is gone: dropping the tasks cancels them.
                Ok(Event::Read(0)) => return Ok(()),
                Ok(Event::Read(_)) => self.progress_at = Instant::now(),
                Ok(Event::Evicted) if self.running.is_empty() => break Err(EVICTED.into()),
                Ok(Event::Stop | Event::Evicted) => self.stop(),
                Ok(Event::Quiet) => break Ok(()),
                Ok(Event::Tick) => {
                    self.lacks_memory = false;
                    if self.is_slow() {
                        break Err("the client took too long".into());
                    }
                    // Nothing has come up to now: reading goes before this.
                    if self.has_been_idle() {
                        break Ok(());
                    }
                }
            }
        };
        // A client that does not close is left alone after a moment.
        let _ = timeout(CLOSE_TIME, self.close()).await;
        ended
    }

    /// Ends the sending side, and waits until the client has ended its own.
    async fn close(&mut self) -> std::io::Result<()> {
        self.writer.shutdown().await?;
        loop {
            self.input.clear();
            self.input.reserve(READ_BYTES);
            if self.reader.read_buf(&mut self.input).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn next_event(
        &mut self,
        stopping: &mut watch::Receiver<bool>,
        evicted: Pin<&mut impl Future<Output = ()>>,
        ticks: &mut Interval,
    ) -> std::io::Result<Event> {
        let may_read = self.has_room() && !self.lacks_memory && !self.is_failed();
        let is_open = matches!(self.state, State::Opening | State::Open);
        let may_be_evicted = !self.client.is_authenticated() && is_open;
        let is_quiet = self.state == State::Closing && self.is_idle() && self.frame_since.is_none();
        if may_read && self.input.capacity() - self.input.len() < READ_BYTES / 4 {
            self.input.reserve(READ_BYTES);
        }
        Ok(tokio::select! {
            // What is done goes out before anything else is taken in.
            biased;
            Some(finished) = self.running.join_next() => Event::Finished(Box::new(finished)),
            written = write_frame(&mut self.writer, &mut self.output), if self.needs_flush => {
                Event::Wrote(written?)
            }
            read = self.reader.read_buf(&mut self.input), if may_read => Event::Read(read?),
            _ = stopping.wait_for(|stopping| *stopping), if is_open => Event::Stop,
            () = evicted, if may_be_evicted => Event::Evicted,
            () = quiet_time(self.progress_at), if is_quiet => Event::Quiet,
            _ = ticks.tick() => Event::Tick,
        })
    }

    fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Whether everything is answered and written.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.output.is_empty() && !self.needs_flush
    }

    /// Whether another request may be begun.
    fn has_room(&self) -> bool {
        self.running.len() < self.limits.direct_requests_max
            && self.output.len() < limits::DIRECT_OUTPUT_BYTES_MAX
    }

    fn stop(&mut self) {
        if matches!(self.state, State::Opening | State::Open) {
            self.state = State::Closing;
            // It must be quiet from now on.
            self.progress_at = Instant::now();
        }
    }

    /// Whether the client takes too long to read an answer, or to send the rest of a frame.
    fn is_slow(&self) -> bool {
        let now = Instant::now();
        let is_writing = !self.output.is_empty() || self.needs_flush;
        if is_writing {
            return now.duration_since(self.progress_at) > self.limits.body_time;
        }
        let is_large = self.input.len() >= UNRESERVED_BYTES || self.discard_bytes > 0;
        let time = if is_large { self.limits.body_time } else { self.limits.head_time };
        let began = self.frame_since.filter(|_| self.running.is_empty());
        began.is_some_and(|began| now.duration_since(began) > time)
    }

    /// Whether nothing has come or gone for as long as a connection may be idle.
    fn has_been_idle(&self) -> bool {
        let idle_time = if self.client.is_authenticated() {
            self.limits.direct_idle_time
        } else {
            self.limits.direct_unauthenticated_idle_time
        };
        let is_idle = self.is_idle() && self.frame_since.is_none();
        is_idle && self.progress_at.elapsed() > idle_time
    }

    fn wrote(&mut self, is_all: bool) {
        self.needs_flush = !is_all;
        self.progress_at = Instant::now();
        self.output.shrink();
    }

    /// Begins every request that has come whole, as far as there is room.
    fn read_frames(&mut self) {
        while self.has_room() && !self.is_failed() {
            let discarded = self.discard_bytes.min(self.input.len());
            self.input.advance(discarded);
            self.discard_bytes -= discarded;
            if self.discard_bytes > 0 {
                return self.reserve(0);
            }
            let kind = match self.state {
                State::Opening => FrameKind::ContextRequest,
                _ => FrameKind::Request,
            };
            match next_frame(&mut self.input, kind, &self.frame_limits) {
                Ok(FrameProgress::Whole(frame)) => {
                    self.frame_since = None;
                    self.take_frame(&frame);
                }
                Ok(FrameProgress::Partial(bytes)) => return self.reserve(bytes),
                Err(DirectError::BodySize { size, max }) => self.refuse_body(size, max),
                Err(error) if self.state == State::Opening => self.refuse_context(error),
                Err(error) => self.state = State::Failed(error),
            }
        }
    }

    /// Sees to it that there is memory for a frame of so many bytes, or that nothing more of it is read
    /// until there is.
    fn reserve(&mut self, bytes: usize) {
        let is_partial = !self.input.is_empty() || self.discard_bytes > 0;
        if is_partial {
            self.frame_since.get_or_insert_with(Instant::now);
        } else {
            self.frame_since = None;
        }
        if bytes > UNRESERVED_BYTES && self.reservation.is_none() {
            self.reservation = self.front.reserve_body(bytes).ok();
            self.lacks_memory = self.reservation.is_none();
        }
    }

    fn take_frame(&mut self, frame: &Frame) {
        match self.state {
            State::Opening => self.open(frame),
            State::Open => self.begin(frame),
            State::Closing => self.turn_away(frame, &Error::ReplicaGone),
            State::Failed(_) => {}
        }
    }

    fn open(&mut self, frame: &Frame) {
        match ContextRequest::decode(&frame.head) {
            Ok(request) => {
                self.answer_context(200, request.activity_id, b"");
                self.state = State::Open;
            }
            Err(error) => self.refuse_context(error),
        }
    }

    fn refuse_context(&mut self, error: DirectError) {
        let body = error::body(&Error::invalid(error.to_string()), uuid::Uuid::nil(), "/");
        self.answer_context(400, [0; 16], body.to_string().as_bytes());
        self.state = State::Failed(error);
    }

    fn answer_context(&mut self, status: u32, activity_id: [u8; 16], error: &[u8]) {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let tokens = ContextResponseTokens {
            protocol_version: Some(handshake::PROTOCOL_VERSION),
            client_version: Some(headers::PROTOCOL_VERSION),
            server_agent: Some(headers::SERVER_AGENT),
            server_version: Some(headers::SERVICE_VERSION_VALUE),
            idle_timeout_s: Some(seconds(self.limits.direct_idle_time)),
            unauthenticated_timeout_s: Some(seconds(self.limits.direct_unauthenticated_idle_time)),
        };
        let response = ContextResponse { status, activity_id, tokens };
        let mut encoded = Ok(());
        self.output.add(|out| {
            let from = out.len();
            encoded = response.encode(error, out);
            if encoded.is_err() {
                out.truncate(from);
            }
        });
        if let Err(error) = encoded {
            self.state = State::Failed(error);
        }
    }

    /// Begins a request, and answers it if it is done at once.
    fn begin(&mut self, frame: &Frame) {
        let Some(envelope) = self.envelope(frame) else { return };
        let began = Instant::now();
        // With more requests at hand the thread must go on to them: their commits share a sync.
        let is_alone = self.running.is_empty() && self.input.is_empty();
        let may_block = is_alone && serving_threads::has_one_connection();
        let request = match decode::request(frame, &self.peer_info, may_block) {
            Ok(request) => request,
            Err(error) => return self.turn_away(frame, &error),
        };
        let reservation = match self.reservation.take() {
            None if !frame.body.is_empty() => {
                let Ok(reservation) = self.front.reserve_body(frame.body.len()) else {
                    let busy = Error::RateLimited { retry_after_ms: RETRY_AFTER_MS };
                    return self.turn_away(frame, &busy);
                };
                Some(reservation)
            }
            reservation => reservation,
        };
        let span = telemetry::request_span(request.activity_id, &request.method);
        let context =
            RequestContext { envelope, began, span: span.clone(), _reservation: reservation };
        match span.in_scope(|| self.front.call(request, &self.client)) {
            MaybeFuture::Ready(answer) => self.finish(FinishedRequest { context, answer }),
            MaybeFuture::Future(answer) => {
                let answer = answer.instrument(span);
                self.running
                    .spawn(async move { FinishedRequest { answer: answer.await, context } });
            }
        }
    }

    /// By what the answer to a frame finds its request. A frame that does not say cannot be answered.
    fn envelope(&mut self, frame: &Frame) -> Option<Envelope> {
        let head = frame.head.get(orrery_direct::frame::HEAD_BYTES_MIN..).unwrap_or_default();
        let activity_id = frame.head.get(8..24).and_then(|id| id.try_into().ok());
        let id = match token::find::<ULong>(head, request::TRANSPORT_REQUEST_ID) {
            Ok(Some(id)) => id,
            Ok(None) => {
                let missing = DirectError::Missing { id: request::TRANSPORT_REQUEST_ID };
                self.state = State::Failed(missing);
                return None;
            }
            Err(error) => {
                self.state = State::Failed(error);
                return None;
            }
        };
        Some(Envelope {
            transport_request_id: id,
            activity_id: activity_id.unwrap_or_default(),
            head: frame.head.clone(),
        })
    }

    /// Answers a frame with an error, without asking the service.
    fn turn_away(&mut self, frame: &Frame, error: &Error) {
        self.reservation = None;
        if let Some(envelope) = self.envelope(frame) {
            let activity_id = envelope.activity();
            let span = telemetry::request_span(activity_id, &http::Method::GET);
            let context =
                RequestContext { envelope, began: Instant::now(), span, _reservation: None };
            let answer = front_answer(error::reply(error, activity_id, "/"));
            self.finish(FinishedRequest { context, answer });
        }
    }

    /// Answers a request whose body is too large, and goes on after that body.
    fn refuse_body(&mut self, size: usize, max: usize) {
        let head_bytes = self.input.get(..4).and_then(|bytes| bytes.try_into().ok());
        let head_bytes = head_bytes.map_or(0, |bytes| u32::from_le_bytes(bytes) as usize);
        let head = self.input.split_to(head_bytes.min(self.input.len())).freeze();
        self.discard_bytes = size.saturating_add(4);
        if size > self.limits.discard_bytes_max {
            self.state = State::Failed(DirectError::BodySize { size, max });
        }
        let frame = Frame { head, body: bytes::Bytes::new() };
        let too_large = Error::TooLarge { what: "the body of the request", size, limit: max };
        self.turn_away(&frame, &too_large);
    }

    fn finish_task(&mut self, finished: Result<FinishedRequest, JoinError>) {
        match finished {
            Ok(finished) => self.finish(finished),
            // The front catches panics of the service, so none is expected here.
            Err(error) => tracing::error!(%error, "a request panicked"),
        }
    }

    fn finish(&mut self, finished: FinishedRequest) {
        let FinishedRequest { context, answer } = finished;
        if answer.is_authenticated && !self.client.is_authenticated() {
            self.client.set_authenticated();
        }
        self.output.add(|out| encode::write(&context.envelope, &answer.reply, out));
        let outcome = RequestOutcome::of(&answer, context.began.elapsed());
        telemetry::request_ended(&context.span, context.envelope.activity(), &outcome);
    }
}

/// Writes the next frame that waits, or a part of it, and flushes if that was all; says whether it was. Each
/// frame has a TLS record of its own: the client for Java confuses the bodies of frames that come in one.
async fn write_frame<W: AsyncWrite + Unpin>(
    writer: &mut W,
    output: &mut FrameQueue,
) -> std::io::Result<bool> {
    if !output.is_empty() {
        let written = writer.write(output.next_frame()).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        output.advance(written);
    }
    if !output.is_empty() {
        return Ok(false);
    }
    writer.flush().await.map(|()| true)
}

/// Frames that wait to be written, one behind the other.
#[derive(Default)]
struct FrameQueue {
    bytes: BytesMut,
    /// How much of each is still to be written.
    lengths: VecDeque<usize>,
}

impl FrameQueue {
    /// Adds what is written as one frame, or nothing.
    fn add(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let from = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - from;
        if length > 0 {
            self.lengths.push_back(length);
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn next_frame(&self) -> &[u8] {
        &self.bytes[..self.lengths.front().copied().unwrap_or_default()]
    }

    /// So much of the next frame was written.
    fn advance(&mut self, written: usize) {
        self.bytes.advance(written);
        match self.lengths.front_mut() {
            Some(left) if *left > written => *left -= written,
            _ => drop(self.lengths.pop_front()),
        }
    }

    /// Gives back memory that only a large answer has needed.
    fn shrink(&mut self) {
        if self.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = BytesMut::new();
        }
    }
}

/// Waits until nothing has come for a moment. A timer is made only where one is waited for.
async fn quiet_time(since: Instant) {
    sleep_until(since + QUIET_TIME).await;
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use super::*;

    /// Takes up to four bytes of each write, and keeps the writes apart.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl AsyncWrite for Writes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            let taken = &bytes[..bytes.len().min(4)];
            self.0.push(taken.to_vec());
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn no_write_has_parts_of_two_frames() {
        let (mut writes, mut output) = (Writes::default(), FrameQueue::default());
        for frame in [&b"one"[..], b"", b"longer", b"two"] {
            output.add(|out| out.extend_from_slice(frame));
        }
        assert_eq!((output.len(), output.next_frame()), (12, &b"one"[..]));
        while !write_frame(&mut writes, &mut output).await.unwrap() {}
        assert_eq!(writes.0, [&b"one"[..], b"long", b"er", b"two"]);
        assert!(output.is_empty() && output.next_frame().is_empty());
    }
}
