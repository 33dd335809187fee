//! Answers a request of a connection: limits on head and body, side routes, then the service; then the
//! headers that every response has. `connection` calls [`Front::answer`].
//!
//! It is plain hyper: six side routes and one service need no router, and the limits apply before any
//! framework could read the request.

use std::cell::Cell;
use std::future::poll_fn;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use orrery_types::Error;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::explorer;
use crate::net::body::{BodyMemory, BodyReservation, Expectation};
use crate::net::cors::CorsPolicy;
use crate::net::listener::{Limits, ListenerConfig};
use crate::net::side::{self, SideRoute};
use crate::net::slots::{Busy, Client};
use crate::service::{Answer, MaybeFuture, Request, Response, Scheme, Service};
use crate::telemetry::{self, Metrics, RequestOutcome};
use crate::wire::reply::Reply;
use crate::wire::response_head::{self, ResponseContext};
use crate::wire::{error, headers};

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Front<S> {
    config: ListenerConfig,
    bodies: BodyMemory,
    service: OnceLock<Arc<S>>,
    is_stopping: AtomicBool,
}

impl<S: Service> Front<S> {
    pub(crate) fn new(config: ListenerConfig) -> Self {
        let is_stopping = AtomicBool::new(false);
        Self { config, bodies: BodyMemory::default(), service: OnceLock::new(), is_stopping }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    pub(crate) fn tls(&self) -> Option<&Arc<rustls::ServerConfig>> {
        self.config.tls.as_ref().map(|tls| &tls.config)
    }

    /// Whether clients may speak Direct mode.
    pub(crate) fn is_direct(&self) -> bool {
        self.config.is_direct
    }

    /// Reserves memory for a body of so many bytes.
    pub(crate) fn reserve_body(&self, bytes: usize) -> Result<BodyReservation, Error> {
        self.bodies.reserve(bytes, self.limits())
    }

    /// Answers a request that another front than HTTP has read.
    pub(crate) fn call(&self, request: Request, client: &Arc<Client>) -> MaybeFuture<Answer> {
        let unauthenticated = (!client.is_authenticated()).then_some(client);
        let Some(service) = self.service.get() else {
            let uri = request.path_and_query.as_str();
            let reply = error::reply(&Error::ReplicaGone, request.activity_id, uri);
            return MaybeFuture::Ready(front_answer(reply));
        };
        call(service, request, unauthenticated)
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.config.metrics.clone()
    }

    pub(crate) fn set_service(&self, service: Arc<S>) {
        if self.service.set(service).is_err() {
            tracing::error!("a second service was set; the first one stays");
        }
    }

    pub(crate) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Why the server is not ready, if it is not. The reason why a store refuses writes may name files,
    /// so only the log has it.
    fn not_ready(&self) -> Option<&'static str> {
        match self.service.get() {
            None => Some("not ready: starting\n"),
            Some(_) if self.is_stopping.load(Ordering::Acquire) => Some("not ready: stopping\n"),
            Some(service) if !service.is_writable() => {
                Some("not ready: writes are refused; the log has the reason\n")
            }
            Some(_) => None,
        }
    }

    /// Version and state for programs that start the server and watch it.
    fn status(&self) -> Response {
        let (status, state) = match self.not_ready() {
            None => (StatusCode::OK, "ready"),
            Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason.trim_end()),
        };
        let version = env!("CARGO_PKG_VERSION");
        let body = format!("{{\"status\":\"{state}\",\"version\":\"{version}\"}}\n");
        side::answer(status, "application/json", body)
    }

    /// Answers one request.
    pub(crate) fn answer(
        self: &Arc<Self>,
        request: http::Request<Incoming>,
        arrival: Arrival,
    ) -> MaybeFuture<Response> {
        let activity_id = activity_id(request.headers());
        let span = telemetry::request_span(activity_id, request.method());
        let envelope = Envelope {
            began: Instant::now(),
            activity_id,
            arrival,
            authority: authority(&request),
            uri: request.uri().path_and_query().cloned(),
            origin: request.headers().get(http::header::ORIGIN).cloned(),
        };
        if envelope.arrival.problem.is_none()
            && let Some((operation, response)) = self.answer_aside(&request, activity_id)
        {
            return MaybeFuture::Ready(self.finish_aside(&envelope, &span, operation, response));
        }
        match span.in_scope(|| self.route(request, &envelope)) {
            MaybeFuture::Ready(answer) => MaybeFuture::Ready(self.finish(&envelope, &span, answer)),
            MaybeFuture::Future(answer) => {
                let front = Arc::clone(self);
                MaybeFuture::boxed(async move {
                    let answer = answer.instrument(span.clone()).await;
                    front.finish(&envelope, &span, answer)
                })
            }
        }
    }

    /// Writes the response, and counts the request.
    fn finish(&self, envelope: &Envelope, span: &Span, answer: Answer) -> Response {
        if answer.is_authenticated
            && let Some(client) = &envelope.arrival.unauthenticated
        {
            client.set_authenticated();
        }
        let took = envelope.began.elapsed();
        let outcome = RequestOutcome::of(&answer, took);
        let location = envelope.authority.as_ref().zip(envelope.uri.as_ref());
        let context = ResponseContext {
            activity_id: envelope.activity_id,
            took,
            location: location.map(|(host, uri)| (envelope.arrival.scheme, host, uri)),
        };
        let mut response = response_head::response(answer.reply, &context);
        self.mark(envelope, response.headers_mut());
        telemetry::request_ended(span, envelope.activity_id, &outcome);
        response
    }

    /// The same for a response of a side route.
    fn finish_aside(
        &self,
        envelope: &Envelope,
        span: &Span,
        operation: &'static str,
        mut response: Response,
    ) -> Response {
        let took = envelope.began.elapsed();
        self.mark(envelope, response.headers_mut());
        response_head::add_usual(response.headers_mut(), envelope.activity_id, took);
        let outcome = RequestOutcome { operation, status: response.status(), charge: 0.0, took };
        telemetry::request_ended(span, envelope.activity_id, &outcome);
        response
    }

    /// Adds what a page in a browser needs to read the response.
    fn mark(&self, envelope: &Envelope, headers: &mut HeaderMap) {
        if envelope.origin.is_some() {
            let authority =
                envelope.authority.as_ref().and_then(|authority| authority.to_str().ok());
            self.config.cors.mark(envelope.origin.as_ref(), authority, headers);
        }
    }

    /// The answer to a request that is none of the protocol, and what it is called.
    fn answer_aside(
        &self,
        request: &http::Request<Incoming>,
        activity_id: Uuid,
    ) -> Option<(&'static str, Response)> {
        if let Some(route) = SideRoute::of(request.method(), request.uri().path()) {
            return Some((route.name(), self.side(route, request, activity_id)));
        }
        if explorer::is_visit(request.method(), request.uri().path(), request.headers()) {
            return Some(("explorer", explorer::redirect()));
        }
        if request.method() == Method::OPTIONS {
            let mut response = side::text(StatusCode::OK, "");
            CorsPolicy::preflight(request.headers(), response.headers_mut());
            return Some(("other", response));
        }
        None
    }

    fn route(
        self: &Arc<Self>,
        request: http::Request<Incoming>,
        envelope: &Envelope,
    ) -> MaybeFuture<Answer> {
        if let Some(problem) = envelope.arrival.problem {
            let path = request.uri().path();
            let refusal = error::reply(&Error::invalid(problem), envelope.activity_id, path);
            return MaybeFuture::Ready(front_answer(closing(request.version(), refusal)));
        }
        let uri = envelope.uri.clone().unwrap_or_else(|| PathAndQuery::from_static("/"));
        if let Some(problem) = head_problem(&request, uri.as_str(), self.limits()) {
            let refusal = error::head_too_large(&problem, envelope.activity_id);
            return MaybeFuture::Ready(front_answer(closing(request.version(), refusal)));
        }
        let Some(service) = self.service.get() else {
            let starting = Error::Unavailable("The server is starting. Try again soon.".into());
            let reply = error::reply(&starting, envelope.activity_id, uri.as_str());
            return MaybeFuture::Ready(front_answer(reply));
        };
        let (mut parts, body) = request.into_parts();
        // HTTP/2 has `:authority` in place of `Host`; a service sees `Host` either way.
        if parts.version >= Version::HTTP_2
            && let Some(authority) = &envelope.authority
        {
            parts.headers.entry(http::header::HOST).or_insert_with(|| authority.clone());
        }
        let expectation = match parts.headers.get(http::header::EXPECT) {
            Some(_) => Expectation::Continue,
            None => Expectation::None,
        };
        let version = parts.version;
        let request = Request {
            activity_id: envelope.activity_id,
            method: parts.method,
            path_and_query: uri,
            authority: envelope.authority.clone(),
            headers: parts.headers,
            body: Bytes::new(),
            scheme: envelope.arrival.scheme,
            peer: envelope.arrival.peer,
            may_block: envelope.arrival.may_block,
            parts: None,
        };
        if body.is_end_stream() {
            return call(service, request, envelope.arrival.unauthenticated.as_ref());
        }
        let (front, service) = (Arc::clone(self), Arc::clone(service));
        let client = envelope.arrival.unauthenticated.clone();
        MaybeFuture::boxed(async move {
            let fail = |error: &Error| {
                let uri = request.path_and_query.as_str();
                error::reply(error, request.activity_id, uri)
            };
            let (body, _reservation) =
                match front.bodies.read(body, expectation, front.limits()).await {
                    Ok(read) => read,
                    Err(error) => return front_answer(closing(version, fail(&error))),
                };
            match call(&service, Request { body, ..request }, client.as_ref()) {
                MaybeFuture::Ready(answer) => answer,
                MaybeFuture::Future(answer) => answer.await,
            }
        })
    }

    fn side(
        &self,
        route: SideRoute,
        request: &http::Request<Incoming>,
        activity_id: Uuid,
    ) -> Response {
        match route {
            SideRoute::Health => side::text(StatusCode::OK, "ok\n"),
            SideRoute::Ready => match self.not_ready() {
                None => side::text(StatusCode::OK, "ready\n"),
                Some(reason) => side::text(StatusCode::SERVICE_UNAVAILABLE, reason),
            },
            SideRoute::Status => self.status(),
            SideRoute::Metrics => side::answer(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                self.config.metrics.render(),
            ),
            SideRoute::MetricsHistory => {
                side::answer(StatusCode::OK, "application/json", self.config.metrics.history())
            }
            SideRoute::Certificate => match &self.config.tls {
                Some(tls) => {
                    side::answer(StatusCode::OK, "application/x-pem-file", tls.pem.clone())
                }
                None => side::text(StatusCode::NOT_FOUND, "This server speaks no TLS.\n"),
            },
            SideRoute::Explorer => {
                let path = request.uri().path();
                explorer::answer(path, request.headers()).unwrap_or_else(|| {
                    let missing = error::reply(&Error::NotFound, activity_id, path);
                    let took = Duration::ZERO;
                    let context = ResponseContext { activity_id, took, location: None };
                    response_head::response(missing, &context)
                })
            }
        }
    }
}

/// What the connection knows of a request.
pub(crate) struct Arrival {
    pub(crate) scheme: Scheme,
    pub(crate) peer: SocketAddr,
    /// Whether its thread may wait for the disk.
    pub(crate) may_block: bool,
    /// What is wrong with its head.
    pub(crate) problem: Option<&'static str>,
    /// The client, if it has not authenticated yet.
    pub(crate) unauthenticated: Option<Arc<Client>>,
}

/// What is known of a request before it is parsed.
struct Envelope {
    began: Instant,
    activity_id: Uuid,
    arrival: Arrival,
    authority: Option<HeaderValue>,
    uri: Option<PathAndQuery>,
    origin: Option<HeaderValue>,
}

/// The answer of the front itself.
pub(crate) fn front_answer(reply: Reply) -> Answer {
    Answer { reply, operation: "other", is_authenticated: false }
}

fn activity_id(headers: &HeaderMap) -> Uuid {
    headers
        .get(const { HeaderName::from_static(headers::ACTIVITY_ID) })
        .and_then(|value| Uuid::try_parse_ascii(value.as_bytes()).ok())
        .unwrap_or_else(new_activity_id)
}

/// A new random id. It is not a secret, so it is made of two counters with a random start per thread,
/// and a mixing function.
pub(crate) fn new_activity_id() -> Uuid {
    thread_local! {
        static COUNTS: Cell<[u64; 2]> = {
            let random = RandomState::new();
            Cell::new([random.hash_one(0), random.hash_one(1)])
        };
    }
    COUNTS.with(|counts| {
        let next = counts.get().map(|count| count.wrapping_add(0x9e37_79b9_7f4a_7c15));
        counts.set(next);
        let [high, low] = next.map(|count| u128::from(mixed(count)));
        uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes()).into_uuid()
    })
}

/// The finalizer of `SplitMix64`, a bijection.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The authority that the client used: the URI's under HTTP/2, `Host` under HTTP/1.
fn authority(request: &http::Request<Incoming>) -> Option<HeaderValue> {
    match request.uri().authority() {
        Some(authority) => HeaderValue::try_from(authority.as_str()).ok(),
        None => request.headers().get(http::header::HOST).cloned(),
    }
}

fn head_problem(request: &http::Request<Incoming>, uri: &str, limits: &Limits) -> Option<String> {
    let headers = request.headers();
    let size = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum::<usize>()
        .saturating_add(uri.len());
    if size > limits.head_bytes_max {
        let limit = limits.head_bytes_max;
        return Some(format!("The request's head is {size} bytes, the limit is {limit}."));
    }
    let limit = limits.headers_max;
    let count = headers.len();
    (count > limit).then(|| format!("The request has {count} headers, the limit is {limit}."))
}

/// Closes the connection after this response, because the rest of the request was not read. HTTP/2 has
/// streams for that, and no such header.
fn closing(version: Version, reply: Reply) -> Reply {
    if version < Version::HTTP_2 { reply.closing() } else { reply }
}

/// Calls the service; a panic inside becomes a 500. A client that has not authenticated keeps its slot
/// while the service works: only then, since holding back a body costs nothing.
fn call<S: Service>(
    service: &Arc<S>,
    request: Request,
    unauthenticated: Option<&Arc<Client>>,
) -> MaybeFuture<Answer> {
    let (activity_id, uri) = (request.activity_id, request.path_and_query.clone());
    let panicked = move || {
        front_answer(error::reply(
            &Error::internal("the service panicked"),
            activity_id,
            uri.as_str(),
        ))
    };
    match catch_unwind(AssertUnwindSafe(|| service.call(request))) {
        Ok(MaybeFuture::Ready(answer)) => MaybeFuture::Ready(answer),
        Ok(MaybeFuture::Future(mut answer)) => {
            let busy = unauthenticated.map(Busy::begin);
            MaybeFuture::boxed(poll_fn(move |cx| {
                let _busy = &busy;
                let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)));
                polled.unwrap_or_else(|_| Poll::Ready(panicked()))
            }))
        }
        Err(_) => MaybeFuture::Ready(panicked()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_activity_ids_are_random_and_differ() {
        let ids: std::collections::HashSet<Uuid> = (0..1000).map(|_| new_activity_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.get_version() == Some(uuid::Version::Random)));
    }
}
