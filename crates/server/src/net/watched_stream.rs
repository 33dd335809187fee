//! A stream that reports to [`ConnectionWatch`] what is read and written. It also gives the refusals of the HTTP
//! library the body that every other refusal has.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::refusal;
use crate::net::watch::ConnectionWatch;

/// A stream that reports what is read and written to the watch.
pub(crate) struct WatchedStream<I> {
    inner: I,
    watch: Arc<ConnectionWatch>,
    /// What is still to be written in place of a refusal of the HTTP library.
    refusal: Option<Bytes>,
}

impl<I: AsyncWrite + Unpin> WatchedStream<I> {
    pub(crate) fn new(inner: I, watch: Arc<ConnectionWatch>) -> Self {
        Self { inner, watch, refusal: None }
    }

    /// Writes our own refusal in place of that of the HTTP library, which is empty. It is only reported
    /// as written when ours is: the library offers the same bytes again until then.
    fn poll_refusal(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<bool>> {
        if self.refusal.is_none() && self.watch.is_refusal(bytes) {
            self.refusal = refusal::in_place_of(bytes);
        }
        let Some(rest) = &mut self.refusal else { return Poll::Ready(Ok(false)) };
        while !rest.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.advance(written);
        }
        self.watch.wrote();
        Poll::Ready(Ok(true))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WatchedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let fresh = &buf.filled()[before..];
        if !fresh.is_empty() {
            self.watch.read(fresh);
        } else if matches!(polled, Poll::Ready(Ok(()))) && self.watch.withholds_end() {
            return Poll::Pending;
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WatchedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if ready!(self.poll_refusal(cx, bytes))? {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if polled.is_ready() && self.watch.wrote() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.watch.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| buf);
        if ready!(self.poll_refusal(cx, first))? {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        if polled.is_ready() && self.watch.wrote() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
