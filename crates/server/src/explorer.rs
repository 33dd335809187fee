//! The Data Explorer: static files of a page that talks to the public protocol like any client.
//! `cargo xtask explorer` builds them, this file serves them. Nothing here knows an account or a
//! key: the user enters one, and it stays in the browser.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::Full;

use crate::service::Response;

/// The built page. A release build holds it; a debug build reads the folder at each request.
#[derive(rust_embed::RustEmbed)]
#[folder = "../../explorer/dist"]
struct Built;

/// One file of the page, and a name for its version.
struct File {
    bytes: Bytes,
    etag: String,
}

/// Scripts and styles come from this server only and never out of the page's text, and the page
/// talks to no other host. Its editors keep their styles in style sheets made by script, which
/// this permits.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

/// A file whose name holds a digest of its content never changes.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_FIRST: &str = "no-cache";

const NOTICE: &str = "<!doctype html>
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

/// The name of a file of the page, if the path is below the page's address.
pub(crate) fn file_name(path: &str) -> Option<&str> {
    match path.strip_prefix("/_explorer")? {
        "" | "/" => Some("index.html"),
        rest => rest.strip_prefix('/'),
    }
}

/// Whether somebody has opened the server's address in a browser: no client of the protocol asks
/// for HTML, and each signs what it asks.
pub(crate) fn is_visit(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let asks_for_html = |accept: &HeaderValue| {
        accept.to_str().is_ok_and(|kinds| {
            kinds
                .split(',')
                .any(|kind| kind.split(';').next().is_some_and(|k| k.trim() == "text/html"))
        })
    };
    path == "/"
        && (method == Method::GET || method == Method::HEAD)
        && !headers.contains_key(AUTHORIZATION)
        && headers.get_all(ACCEPT).iter().any(asks_for_html)
}

/// Sends a visitor to the page.
pub(crate) fn redirect() -> Response {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static("/_explorer/"));
    headers.insert(VARY, HeaderValue::from_static("accept, authorization"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to a request for a file of the page; `None` where there is no such file.
pub(crate) fn answer(path: &str, headers: &HeaderMap) -> Option<Response> {
    serve(file_name(path)?, headers, find)
}

fn find(name: &str) -> Option<File> {
    if name.split('/').any(|part| part == "..") {
        return None;
    }
    // The page is a folder within the folder, which exists even where nothing was built.
    let file = Built::get(&format!("page/{name}"))?;
    let digest = file.metadata.sha256_hash();
    let etag = digest.iter().take(16).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let bytes = match file.data {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    Some(File { bytes, etag: format!("\"{etag}\"") })
}

/// Whether the client decompresses gzip. Browsers offer brotli on secure origins alone, so the build
/// compresses with gzip.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let is_refused = |part: &str| {
            part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0)
        };
        is_gzip && !parts.any(is_refused)
    })
}

fn serve(name: &str, headers: &HeaderMap, find: impl Fn(&str) -> Option<File>) -> Option<Response> {
    let compressed = accepts_gzip(headers).then(|| find(&format!("{name}.gz"))).flatten();
    let is_compressed = compressed.is_some();
    let Some(file) = compressed.or_else(|| find(name)) else {
        return (name == "index.html").then(|| {
            let notice = Bytes::from_static(NOTICE.as_bytes());
            response(StatusCode::OK, name, notice)
        });
    };
    let is_known =
        headers.get(IF_NONE_MATCH).is_some_and(|etag| etag.as_bytes() == file.etag.as_bytes());
    let mut response = if is_known {
        response(StatusCode::NOT_MODIFIED, name, Bytes::new())
    } else {
        response(StatusCode::OK, name, file.bytes)
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::try_from(file.etag) {
        headers.insert(ETAG, etag);
    }
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

fn response(status: StatusCode, name: &str, body: Bytes) -> Response {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let cache = if name.starts_with("assets/") { FOR_EVER } else { ASK_FIRST };
    let headers: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, content_type(name)),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The kinds of file that the page is made of; anything else is bytes to a browser.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> Option<File> {
        let text = match name {
            "index.html" => "<!doctype html>",
            "assets/index-1a2b.js" => "export {}",
            "assets/index-1a2b.js.gz" => "compressed",
            _ => return None,
        };
        Some(File { bytes: Bytes::from(text), etag: format!("\"{}\"", text.len()) })
    }

    fn header(response: &Response, name: HeaderName) -> &str {
        response.headers()[name].to_str().unwrap()
    }

    #[test]
    fn files_have_their_type_and_are_kept_as_long_as_their_name_says() {
        let check = |name, kind, cache| {
            let response = serve(name, &HeaderMap::new(), page).unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(header(&response, CONTENT_TYPE), kind);
            assert_eq!(header(&response, CACHE_CONTROL), cache);
            assert!(header(&response, CONTENT_SECURITY_POLICY).contains("default-src 'none'"));
            assert_eq!(header(&response, X_CONTENT_TYPE_OPTIONS), "nosniff");
        };
        check("index.html", "text/html; charset=utf-8", ASK_FIRST);
        check("assets/index-1a2b.js", "text/javascript; charset=utf-8", FOR_EVER);
    }

    #[test]
    fn files_are_compressed_for_those_who_can_read_them() {
        let check = |accepts: Option<&'static str>, name: &str, is_compressed: bool| {
            let accepts = accepts.map(|value| (ACCEPT_ENCODING, HeaderValue::from_static(value)));
            let response = serve(name, &HeaderMap::from_iter(accepts), page).unwrap();
            let coding = response.headers().get(CONTENT_ENCODING);
            assert_eq!(coding.is_some_and(|coding| coding == "gzip"), is_compressed, "{name}");
            assert_eq!(header(&response, VARY), "accept-encoding");
            let etag = if is_compressed { "\"10\"" } else { "\"9\"" };
            assert!(name == "index.html" || header(&response, ETAG) == etag, "{name}");
        };
        let script = "assets/index-1a2b.js";
        check(Some("gzip, deflate, br, zstd"), script, true);
        check(Some("br, GZIP;q=0.5"), script, true);
        check(Some("gzip;q=0"), script, false);
        check(Some("br"), script, false);
        check(None, script, false);
        check(Some("gzip"), "index.html", false);
        let gzip = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let kind = serve(script, &gzip, page).unwrap();
        assert_eq!(header(&kind, CONTENT_TYPE), "text/javascript; charset=utf-8");
    }

    #[test]
    fn a_browser_that_opens_the_address_is_sent_to_the_page_and_a_client_is_not() {
        let headers = |all: &[(HeaderName, &'static str)]| -> HeaderMap {
            all.iter()
                .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
                .collect()
        };
        let browser = headers(&[(ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8")]);
        assert!(is_visit(&Method::GET, "/", &browser));
        assert!(!is_visit(&Method::POST, "/", &browser));
        assert!(!is_visit(&Method::GET, "/dbs", &browser));
        let others = [
            headers(&[(ACCEPT, "text/html"), (AUTHORIZATION, "type=master")]),
            headers(&[(ACCEPT, "application/json")]),
            headers(&[(ACCEPT, "*/*")]),
            HeaderMap::new(),
        ];
        for other in others {
            assert!(!is_visit(&Method::GET, "/", &other), "{other:?}");
        }
        assert_eq!(header(&redirect(), LOCATION), "/_explorer/");
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"15\""))]);
        let response = serve("index.html", &headers, page).unwrap();
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        let other = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"16\""))]);
        assert_eq!(serve("index.html", &other, page).unwrap().status(), StatusCode::OK);
    }

    #[test]
    fn a_binary_without_the_page_says_so() {
        let response = serve("index.html", &HeaderMap::new(), |_| None).unwrap();
        assert_eq!(header(&response, CONTENT_TYPE), "text/html; charset=utf-8");
        assert!(NOTICE.contains("not built into this binary"));
        assert!(serve("assets/index-1a2b.js", &HeaderMap::new(), |_| None).is_none());
    }

    #[test]
    fn only_files_below_the_page_have_names() {
        assert_eq!(file_name("/_explorer"), Some("index.html"));
        assert_eq!(file_name("/_explorer/"), Some("index.html"));
        assert_eq!(file_name("/_explorer/assets/a.js"), Some("assets/a.js"));
        assert_eq!(file_name("/_explorers"), None);
        assert_eq!(file_name("/dbs"), None);
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        for path in ["/_explorer/../.gitignore", "/_explorer/../../../Cargo.toml"] {
            assert!(answer(path, &HeaderMap::new()).is_none(), "{path}");
        }
    }
}
