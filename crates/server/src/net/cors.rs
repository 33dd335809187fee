//! Which pages in a browser may talk to the server. Browsers send `Origin`; `front` asks
//! [`CorsPolicy`] and adds the headers that let the page read the answer.
//!
//! Pages from this machine and from the server itself may, others when named in the settings. A
//! server on loopback may accept the well-known emulator key: were every page let in, any site a
//! developer visits could read and write the local database.

use http::{HeaderMap, HeaderValue, Uri};

use crate::wire::headers::{CORS_ALLOW, CORS_EXPOSE};

/// How long a browser may remember the answer to its preflight.
const MAX_AGE_S: &str = "3600";

/// The pages that are let in beside those of this machine.
#[derive(Clone, Debug, Default)]
pub struct CorsPolicy {
    origins: Vec<String>,
}

impl CorsPolicy {
    /// A policy that also lets these origins in; `*` is all of them.
    pub fn new(origins: Vec<String>) -> Self {
        Self { origins }
    }

    fn allows(&self, origin: &str, authority: Option<&str>) -> bool {
        let named = |allowed: &String| {
            allowed == "*" || allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)
        };
        if self.origins.iter().any(named) {
            return true;
        }
        let Ok(uri) = origin.parse::<Uri>() else { return false };
        let (Some(host), Some(own)) = (uri.host(), uri.authority()) else { return false };
        let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        is_local || authority.is_some_and(|authority| authority.eq_ignore_ascii_case(own.as_str()))
    }

    /// Adds what a browser needs to see on an answer to a request from a page.
    pub(crate) fn mark(
        &self,
        origin: Option<&HeaderValue>,
        authority: Option<&str>,
        response: &mut HeaderMap,
    ) {
        let Some(origin) = origin else { return };
        response.append(http::header::VARY, HeaderValue::from_static("Origin"));
        if origin.to_str().is_ok_and(|text| self.allows(text, authority)) {
            response.insert(http::header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.insert(http::header::ACCESS_CONTROL_EXPOSE_HEADERS, joined(CORS_EXPOSE));
        }
    }

    /// Adds what a browser asks before it sends the request itself.
    pub(crate) fn preflight(asked: &HeaderMap, response: &mut HeaderMap) {
        // A browser names the headers it will send; those that mean nothing here do no harm.
        let headers = asked.get(http::header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let headers = headers.unwrap_or_else(|| joined(CORS_ALLOW));
        let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        response.insert(http::header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        response.insert(http::header::ACCESS_CONTROL_ALLOW_HEADERS, headers);
        let max_age = HeaderValue::from_static(MAX_AGE_S);
        response.insert(http::header::ACCESS_CONTROL_MAX_AGE, max_age);
    }
}

fn joined(names: &[&str]) -> HeaderValue {
    HeaderValue::from_str(&names.join(", ")).expect("names of headers are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(named: &[&str], origin: &str, expected: bool) {
        let policy = CorsPolicy::new(named.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(policy.allows(origin, Some("db.example:8081")), expected, "{origin}");
    }

    #[test]
    fn pages_of_this_machine_and_of_the_server_are_let_in() {
        check(&[], "http://localhost:3000", true);
        check(&[], "https://127.0.0.1", true);
        check(&[], "http://[::1]:5173", true);
        check(&[], "https://db.example:8081", true);
    }

    #[test]
    fn other_pages_are_let_in_when_they_are_named() {
        check(&[], "https://evil.example", false);
        check(&[], "https://localhost.evil.example", false);
        check(&[], "null", false);
        check(&["https://app.example/"], "https://app.example", true);
        check(&["https://app.example"], "https://app.example.evil", false);
        check(&["*"], "https://anything.example", true);
    }
}
