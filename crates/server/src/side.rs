//! Routes beside the protocol: health, readiness, metrics, the certificate and the page. They
//! need no credentials and are told by their whole path, which no path of the protocol can be.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::Full;

use crate::service::Response;

/// A route that the front answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideRoute {
    Health,
    Ready,
    Metrics,
    Certificate,
    Explorer,
}

const EXPLORER_NOTICE: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Orrery</title>
<h1>Orrery is running</h1>
<p>The Data Explorer page is not built into this binary.</p>
<p>Clients connect to this address with a key of the account. The certificate is at
<a href=\"/_explorer/emulator.pem\">/_explorer/emulator.pem</a>, metrics are at
<a href=\"/metrics\">/metrics</a>.</p>
</html>
";

impl SideRoute {
    /// The side route of a path, if it is one.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        if method != Method::GET && method != Method::HEAD {
            return None;
        }
        match path {
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            "/_explorer/emulator.pem" => Some(Self::Certificate),
            "/_explorer" | "/_explorer/" | "/_explorer/index.html" => Some(Self::Explorer),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Ready => "ready",
            Self::Metrics => "metrics",
            Self::Certificate => "certificate",
            Self::Explorer => "explorer",
        }
    }
}

pub(crate) fn explorer_notice() -> Response {
    answer(StatusCode::OK, "text/html; charset=utf-8", EXPLORER_NOTICE)
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response {
    answer(status, "text/plain; charset=utf-8", text)
}

pub(crate) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
