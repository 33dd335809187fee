//! The interface between a front and what serves: a front turns bytes into [`Request`]s and a [`Service`]
//! answers them. A front knows nothing of databases, a service nothing of sockets.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::Full;
use uuid::Uuid;

use crate::wire::headers::RequestHeaders;
use crate::wire::link::ResourceLink;
use crate::wire::reply::Reply;

/// The scheme a request used; the account's endpoints are returned with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// As in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// A whole request: its body is read and within the limits.
#[derive(Clone, Debug)]
pub struct Request {
    /// The client's activity id if it sent one, else a new one.
    pub activity_id: Uuid,
    /// The method.
    pub method: Method,
    /// Path and query as sent, percent-encoding and all.
    pub path_and_query: PathAndQuery,
    /// The name and port the client used: `Host`, or `:authority` under HTTP/2.
    pub authority: Option<HeaderValue>,
    /// All headers as sent.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Plain or TLS.
    pub scheme: Scheme,
    /// The other end.
    pub peer: SocketAddr,
    /// Whether the thread may wait for the disk: no other request needs it.
    pub may_block: bool,
    /// What a front has read already in place of path and headers.
    pub parts: Option<Box<RequestParts>>,
}

/// The parts of a request that came as a frame and not as HTTP.
#[derive(Clone, Debug)]
pub struct RequestParts {
    /// Its subject.
    pub link: ResourceLink,
    /// What HTTP has in headers.
    pub headers: Box<RequestHeaders>,
    /// The credentials, as HTTP has them in `Authorization`.
    pub authorization: Option<Bytes>,
    /// The date that was signed.
    pub date: Option<Bytes>,
    /// The name of the server that the client used.
    pub host: Option<HeaderValue>,
}

/// A whole response of HTTP.
pub(crate) type Response = http::Response<Full<Bytes>>;

impl Request {
    /// The name and port the client used, if they are text.
    pub fn host(&self) -> Option<&str> {
        self.authority.as_ref()?.to_str().ok()
    }
}

/// A reply, and what spans and metrics say of it.
#[derive(Debug)]
pub struct Answer {
    /// The reply itself.
    pub reply: Reply,
    /// What the service did.
    pub operation: &'static str,
    /// Whether the request came with valid credentials, whatever its outcome.
    pub is_authenticated: bool,
}

/// A value that is ready, or a future of it. Most requests complete at once, and a boxed future would
/// cost more than they do: only those that wait are given one.
pub enum MaybeFuture<T> {
    /// The value.
    Ready(T),
    /// A future of the value.
    Future(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> MaybeFuture<T> {
    /// A future, boxed.
    pub fn boxed(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::Future(Box::pin(future))
    }
}

/// Answers requests. A panic inside becomes a 500, so an implementation need not catch any.
pub trait Service: Send + Sync + 'static {
    /// Answers one request; errors are answers too.
    fn call(self: &Arc<Self>, request: Request) -> MaybeFuture<Answer>;

    /// Whether it takes writes.
    fn is_writable(&self) -> bool {
        true
    }
}
