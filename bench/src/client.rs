//! The smallest HTTP/1.1 client that will do: one kept connection, bytes out, bytes in, and of the
//! answer nothing but its status and length. It shares two cores with what it measures, so what
//! it does not do counts.

use anyhow::{Context as _, Result, bail, ensure};
use memchr::memmem::Finder;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

const READ_BYTES: usize = 16 * 1024;

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
    head_end: Finder<'static>,
    /// The header as Rust's servers write it, and as Node.js does.
    lengths: [Finder<'static>; 2],
}

/// An answer, as far as it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer<'b> {
    pub(crate) status: u16,
    /// Status line and headers, without the empty line.
    pub(crate) head: &'b [u8],
    pub(crate) body: &'b [u8],
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// A client of a connection that exists.
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(READ_BYTES),
            head_end: Finder::new(b"\r\n\r\n"),
            lengths: [Finder::new(b"\r\ncontent-length: "), Finder::new(b"\r\nContent-Length: ")],
        }
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server closed the connection");
            if let Some(head_end) = self.head_end.find(&self.buffer) {
                return self.finish(head_end).await;
            }
        }
    }

    async fn finish(&mut self, head_end: usize) -> Result<Answer<'_>> {
        let head = &self.buffer[..head_end];
        let length = self
            .lengths
            .iter()
            .find_map(|name| name.find(head).map(|at| number(&head[at + name.needle().len()..])));
        let length = length.unwrap_or(0);
        let body_at = head_end + self.head_end.needle().len();
        while self.buffer.len() < body_at + length {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server closed the connection within an answer");
        }
        let head = &self.buffer[..head_end];
        let status = u16::try_from(number(head.get(9..).unwrap_or_default()))?;
        Ok(Answer { status, head, body: &self.buffer[body_at..body_at + length] })
    }

    /// Sends a request that must be answered with this status.
    pub(crate) async fn expect(&mut self, request: &[u8], status: u16) -> Result<Answer<'_>> {
        let answer = self.call(request).await?;
        if answer.status != status {
            let body = String::from_utf8_lossy(answer.body);
            bail!("answered with {}, not with {status}: {body}", answer.status);
        }
        Ok(answer)
    }
}

/// The number that stands at the front.
fn number(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_pieces_is_read_whole() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4];
                stream.read_exact(&mut request).await.unwrap();
                for piece in ["HTTP/1.1 201 Cr", "eated\r\ncontent-length: 5\r\n", "\r\n12", "345"]
                {
                    stream.write_all(piece.as_bytes()).await.unwrap();
                    tokio::task::yield_now().await;
                }
            });
            let mut client = Client::connect(address).await.unwrap();
            let answer = client.expect(b"ping", 201).await.unwrap();
            assert_eq!((answer.status, answer.body), (201, &b"12345"[..]));
        });
    }
}
