//! Refusals of the HTTP library, with the body and headers of our own. The library answers a head that
//! it cannot parse by itself, with a status and nothing else; no service sees such a request.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::net::front;
use crate::wire::{error, response_head};

/// Our response in place of the library's, which is a head without body; `None` if it is something else.
pub(crate) fn in_place_of(written: &[u8]) -> Option<Bytes> {
    let head = std::str::from_utf8(written).ok()?.strip_suffix("\r\n\r\n")?;
    let (status_line, lines) = head.split_once("\r\n")?;
    let status = status_line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse::<u16>().ok()?;
    let status = StatusCode::from_u16(status).ok()?;
    let problem = match status {
        StatusCode::URI_TOO_LONG => "The URI of the request is too long.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "The head of the request is too large.",
        _ => "The head of the request is not valid HTTP.",
    };
    let activity_id = front::new_activity_id();
    let body = error::head_body(status, problem, activity_id);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, body.len().into());
    response_head::add_usual(&mut headers, activity_id, Duration::ZERO);
    let mut text = format!("{status_line}\r\n").into_bytes();
    let own = |line: &&str| !line.to_ascii_lowercase().starts_with("content-length");
    for line in lines.split("\r\n").filter(own) {
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    for (name, value) in &headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(body.as_bytes());
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_refusal_gets_a_body_and_keeps_its_status() {
        let bare = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let ours = String::from_utf8(in_place_of(bare).unwrap().to_vec()).unwrap();
        let (head, body) = ours.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 414 URI Too Long\r\nconnection: close\r\n"), "{head}");
        assert_eq!(head.matches("content-length").count(), 1, "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(head.contains("x-ms-activity-id: "), "{head}");
        assert!(body.contains("The URI of the request is too long."), "{body}");
    }

    #[test]
    fn what_is_no_bare_refusal_is_left_alone() {
        for written in [&b"HTTP/1.1 400 Bad Request\r\ncontent-le"[..], b"HTTP/1.1 4", b"{}", b""] {
            assert_eq!(in_place_of(written), None);
        }
    }
}
