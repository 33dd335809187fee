//! Where a request ends. A proxy before the server and the server must agree on it, or a client can put
//! a request of its own between those of others (request smuggling). The HTTP library refuses most
//! ambiguous heads; what it settles by a rule of its own is refused here, because a proxy may have
//! another rule.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Version};

/// Bytes of a head that are kept as they were received. In a longer one a second length is not found;
/// the library goes by the chunks then, and closes the connection.
const HEAD_KEPT_BYTES_MAX: usize = 16 * 1024;

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
fn names_length(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let mut lines = lines.take_while(|line| !line.trim_ascii().is_empty());
    lines.any(|line| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"content-length")
    })
}

/// Follows the bytes of an HTTP/1 connection from request to request: keeps the head of the next request
/// as it was received, and knows whether a part of one has arrived. The HTTP library has its own buffer
/// and shows neither.
#[derive(Debug, Default)]
pub(crate) struct HeadBuffer {
    /// What was received since the end of the last request.
    bytes: Vec<u8>,
    /// Bytes of the last request's body that have not arrived yet.
    body_rest: u64,
    /// What is known of the end of the last request.
    end: RequestEnd,
    /// The last bytes received.
    tail: [u8; 4],
}

/// What is known of the end of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestEnd {
    /// It follows from the length.
    #[default]
    Counted,
    /// It came in chunks, which are not followed: a message in chunks ends with an empty line.
    EmptyLine,
    /// Its head is longer than what is kept.
    Unknown,
}

impl HeadBuffer {
    /// Adds what was received.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.tail.len());
        self.tail.rotate_left(kept);
        let from = self.tail.len() - kept;
        self.tail[from..].copy_from_slice(&bytes[bytes.len() - kept..]);
        if self.end != RequestEnd::Counted {
            return;
        }
        let of_body = usize::try_from(self.body_rest).map_or(bytes.len(), |n| n.min(bytes.len()));
        self.body_rest -= of_body as u64;
        let bytes = &bytes[of_body..];
        if self.bytes.len() + bytes.len() > HEAD_KEPT_BYTES_MAX {
            self.lose(RequestEnd::Unknown);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether the head of the request that was just parsed has a `Content-Length`.
    pub(crate) fn names_length(&self) -> bool {
        names_length(self.bytes.trim_ascii_start())
    }

    /// Passes over the request that was just parsed; `body_bytes` is the length of its body, if it has
    /// one.
    pub(crate) fn pass_request(&mut self, body_bytes: Option<u64>) {
        if self.end != RequestEnd::Counted {
            return;
        }
        let Some(head) = head_bytes(&self.bytes) else { return self.lose(RequestEnd::Unknown) };
        let Some(body) = body_bytes else { return self.lose(RequestEnd::EmptyLine) };
        let here = (self.bytes.len() - head) as u64;
        self.body_rest = body.saturating_sub(here);
        let passed = head + usize::try_from(body.min(here)).unwrap_or(usize::MAX);
        self.bytes.drain(..passed.min(self.bytes.len()));
    }

    /// Whether part of another request has arrived, asked when all requests are answered. Some clients
    /// send an empty line behind a body, which is none.
    pub(crate) fn has_begun(&mut self) -> bool {
        match self.end {
            RequestEnd::Counted => !self.bytes.trim_ascii_start().is_empty(),
            RequestEnd::EmptyLine if self.tail != *b"\r\n\r\n" => true,
            RequestEnd::EmptyLine | RequestEnd::Unknown => {
                *self = Self::default();
                false
            }
        }
    }

    /// Forgets everything: the connection is not HTTP/1.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn lose(&mut self, end: RequestEnd) {
        self.bytes.clear();
        (self.body_rest, self.end) = (0, end);
    }
}

/// The length of the head at the start of what was received, with the empty lines before it, which the
/// HTTP library passes over; `None` if its end is not there.
fn head_bytes(bytes: &[u8]) -> Option<usize> {
    let first = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let mut line_ends = memchr::memchr_iter(b'\n', &bytes[first..]).map(|at| first + at + 1);
    line_ends.find_map(|at| match &bytes[at..] {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    const POST: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n";

    /// Head, body, and the length that the library knows.
    type Sent<'a> = (&'a [u8], &'a [u8], Option<u64>);

    /// Receives bytes in pieces of a size; every whole head with its body is a request.
    fn begun(pieces: usize, requests: &[Sent<'_>], rest: &[u8]) -> bool {
        let mut buffer = HeadBuffer::default();
        let mut sent: Vec<u8> = Vec::new();
        let mut ends = Vec::new();
        for (head, body, length) in requests {
            sent.extend_from_slice(head);
            ends.push((sent.len(), *length));
            sent.extend_from_slice(body);
        }
        sent.extend_from_slice(rest);
        let (mut received, mut next) = (0, 0);
        for piece in sent.chunks(pieces) {
            buffer.receive(piece);
            received += piece.len();
            // The library parses a head as soon as it is complete.
            while let Some((_, length)) = ends.get(next).filter(|(end, _)| *end <= received) {
                buffer.pass_request(*length);
                next += 1;
            }
        }
        buffer.has_begun()
    }

    #[test]
    fn a_part_of_another_request_is_noticed_however_the_bytes_arrive() {
        for pieces in [1, 2, 3, 7, 16, 1000] {
            let get: Sent<'_> = (GET, b"", Some(0));
            let post: Sent<'_> = (POST, b"\r\n\r\nx", Some(5));
            for requests in [&[][..], &[get], &[post], &[get, post, get]] {
                for (rest, expected) in [
                    (&b""[..], false),
                    (b"\r\n", false),
                    (b"G", true),
                    (b"GET / HTTP/1.1\r\n", true),
                ] {
                    let found = begun(pieces, requests, rest);
                    assert_eq!(found, expected, "{pieces} {requests:?} {rest:?}");
                }
            }
            let chunked: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            let requests = &[(chunked, &b"1\r\nx\r\n0\r\n\r\n"[..], None)];
            assert!(!begun(pieces, requests, b""));
            assert!(begun(pieces, requests, b"GET / HT"));
        }
    }

    #[test]
    fn a_head_longer_than_what_is_kept_is_followed_no_further() {
        let long =
            [b"GET / HTTP/1.1\r\nX: ", &*vec![b'x'; HEAD_KEPT_BYTES_MAX], b"\r\n\r\n"].concat();
        assert!(!begun(4096, &[(&long, b"", Some(0))], b""));
        let mut buffer = HeadBuffer::default();
        buffer.receive(&long);
        buffer.pass_request(Some(0));
        assert!(buffer.bytes.is_empty() && !buffer.has_begun());
        buffer.receive(b"GET");
        assert!(buffer.has_begun());
    }

    #[test]
    fn the_length_of_each_pipelined_request_is_seen() {
        let mut buffer = HeadBuffer::default();
        buffer.receive(&[GET, POST, b"12345", GET].concat());
        let mut seen = Vec::new();
        for length in [0, 5, 0] {
            seen.push(buffer.names_length());
            buffer.pass_request(Some(length));
        }
        assert_eq!(seen, [false, true, false]);
        assert!(!buffer.has_begun());
    }
}
