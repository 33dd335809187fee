//! The seam between the front and what serves: the listener turns bytes into [`Request`]s and a
//! [`Service`] answers them. The front knows nothing of databases, a service nothing of sockets.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::Full;
use uuid::Uuid;

/// How a request came in; the account's endpoints answer in kind.
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
}

/// A whole response. The front adds the headers that every response has.
pub type Response = http::Response<Full<Bytes>>;

impl Request {
    /// The name and port the client used, if they are text.
    pub fn host(&self) -> Option<&str> {
        self.authority.as_ref()?.to_str().ok()
    }
}

/// A response, and what spans and metrics say of it.
#[derive(Debug)]
pub struct Answer {
    /// The response itself.
    pub response: Response,
    /// What the service did.
    pub operation: &'static str,
    /// What it cost, in request units.
    pub charge: f64,
    /// Whether the request came with credentials that prove who sent it, whatever became of it.
    pub is_authenticated: bool,
}

/// Something that is there, or will be. Most requests are answered at once, and what they would wait
/// in is larger than they are: only what does wait is given a place.
pub enum Answering<T> {
    /// It is there.
    Now(T),
    /// It has to be waited for.
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Answering<T> {
    /// What is to be waited for.
    pub fn later(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }
}

/// Answers requests. A panic inside becomes a 500, so an implementation need not catch any.
pub trait Service: Send + Sync + 'static {
    /// Answers one request; errors are answers too.
    fn call(self: &Arc<Self>, request: Request) -> Answering<Answer>;

    /// Whether it takes writes.
    fn is_writable(&self) -> bool {
        true
    }
}
