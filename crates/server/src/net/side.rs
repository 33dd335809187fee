//! Routes beside the protocol: health, readiness, metrics, the certificate and the page. They
//! need no credentials, and no path of the protocol can be one of theirs. Those that the emulator's
//! image has are answered under its names, too.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::Full;

use crate::explorer;
use crate::service::Response;

/// A route that the front answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SideRoute {
    Health,
    Ready,
    Status,
    Metrics,
    MetricsHistory,
    Certificate,
    Explorer,
}

impl SideRoute {
    /// Every one; what is not here is not served.
    pub const ALL: &[Self] = &[
        Self::Health,
        Self::Ready,
        Self::Status,
        Self::Metrics,
        Self::MetricsHistory,
        Self::Certificate,
        Self::Explorer,
    ];
    /// The names that the emulator has for two of them; `/status` is the same in both.
    pub const EMULATOR_NAMES: &[(&str, Self)] =
        &[("/alive", Self::Health), ("/ready", Self::Ready)];

    /// Its path, below which the explorer has files.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Health => "/healthz",
            Self::Ready => "/readyz",
            Self::Status => "/status",
            Self::Metrics => "/metrics",
            Self::MetricsHistory => "/metrics/history",
            Self::Certificate => "/_explorer/emulator.pem",
            Self::Explorer => "/_explorer",
        }
    }

    /// The side route of a path, if it is one.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        if method != Method::GET && method != Method::HEAD {
            return None;
        }
        let exact = Self::ALL.iter().copied().find(|route| route.path() == path);
        let named = || Self::EMULATOR_NAMES.iter().find(|(name, _)| *name == path);
        let exact = exact.or_else(|| named().map(|(_, route)| *route));
        exact.or_else(|| explorer::file_name(path).map(|_| Self::Explorer))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Ready => "ready",
            Self::Status => "status",
            Self::Metrics | Self::MetricsHistory => "metrics",
            Self::Certificate => "certificate",
            Self::Explorer => "explorer",
        }
    }
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
