//! The first bytes of a connection behind TLS. Clients in Direct mode use the same port as HTTP and
//! negotiate no protocol, so what they speak is seen from how they begin.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use orrery_direct::frame::OPENING_BYTES;
use orrery_direct::is_direct;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Direct,
}

/// Reads until it is known what the client speaks. What was read is returned too; it is empty if the
/// client closed the connection.
pub(crate) async fn read<I: AsyncRead + Unpin>(stream: &mut I) -> io::Result<(Protocol, BytesMut)> {
    let mut bytes = BytesMut::with_capacity(1024);
    loop {
        if let Some(protocol) = protocol(&bytes) {
            return Ok((protocol, bytes));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok((Protocol::Http, bytes));
        }
    }
}

/// What is spoken by a client that begins so; `None` if more must come.
fn protocol(bytes: &[u8]) -> Option<Protocol> {
    if let Some(opening) = bytes.first_chunk::<OPENING_BYTES>() {
        return Some(if is_direct(opening) { Protocol::Direct } else { Protocol::Http });
    }
    let is_text = bytes.iter().skip(2).any(|byte| *byte != 0);
    is_text.then_some(Protocol::Http)
}

/// A stream of which some bytes were read already; they are read again first.
pub(crate) struct PrefixedStream<I> {
    pub(crate) bytes: BytesMut,
    pub(crate) inner: I,
}

impl<I: AsyncRead + Unpin> AsyncRead for PrefixedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let count = self.bytes.len().min(buf.remaining());
        buf.put_slice(&self.bytes[..count]);
        self.bytes.advance(count);
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_spoken_is_known_as_soon_as_it_can_be_and_nothing_is_lost() {
        let cases: [(&[u8], Option<Protocol>); 7] = [
            (b"", None),
            (b"GE", None),
            (b"GET", Some(Protocol::Http)),
            (b"GET / HTTP/1.1", Some(Protocol::Http)),
            (b"\x8a\0\0\0\0\0\0", None),
            (b"\x8a\0\0\0\0\0\0\0", Some(Protocol::Direct)),
            (b"\x8a\0\0\0\x03\0\x03\0", Some(Protocol::Http)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(protocol(bytes), expected, "{bytes:?}");
            let (found, read) = read(&mut &*bytes).await.expect("memory can be read");
            assert_eq!((found, &read[..]), (expected.unwrap_or(Protocol::Http), bytes));
            let mut again = Vec::new();
            let mut prefixed = PrefixedStream { bytes: read, inner: &b" and more"[..] };
            prefixed.read_to_end(&mut again).await.expect("memory can be read");
            assert_eq!(again, [bytes, b" and more"].concat());
        }
    }
}
