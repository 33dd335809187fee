//! Requests whose end two readers could see in different places. A proxy before the server and the
//! server must agree where one request ends and the next begins, or a client can put a request of its
//! own between those of others. The HTTP library refuses most such heads; what it settles by a rule of
//! its own is refused here, because a proxy may have another rule.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Version};

/// Bytes of a head that are kept to look at it as it came. In a longer one a second length is not
/// found; the library goes by the chunks then, and closes the connection.
pub(crate) const HEAD_KEPT_BYTES_MAX: usize = 16 * 1024;

/// What is wrong with the head of a request, if something is. `is_double` says of the head as it came
/// whether it has a length beside its chunks.
pub(crate) fn problem(
    headers: &HeaderMap,
    version: Version,
    is_double: impl FnOnce() -> bool,
) -> Option<&'static str> {
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Some("The request has more than one Host header.");
    }
    if version >= Version::HTTP_2 {
        return None;
    }
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let encoding = encodings.next()?;
    if encodings.next().is_some() || !encoding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Some("The header Transfer-Encoding may only be 'chunked', and stand once.");
    }
    is_double()
        .then_some("The request has both Content-Length and Transfer-Encoding. Send one of them.")
}

/// Whether a head, with or without what follows it, has a `Content-Length`. The library takes it out
/// where the request comes in chunks.
pub(crate) fn names_length(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let mut lines = lines.take_while(|line| !line.trim_ascii().is_empty());
    lines.any(|line| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"content-length")
    })
}
