//! The ways in which a client reaches a server: HTTP/1.1 in plain text and over TLS, HTTP/2, and Direct
//! mode. Requests are bytes in every case: those of HTTP/1.1, which HTTP/2 sends as its own, or a frame.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use orrery_direct::handshake::ContextRequestTokens;
use orrery_direct::{
    ContextRequest, ContextResponse, Frame, FrameKind, FrameLimits, FrameProgress, FrameResponse,
    next_frame,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::Client;

const SERVER_NAME: &str = "localhost";
const READ_BYTES: usize = 16 * 1024;

/// A way to a server.
#[derive(Clone)]
pub(crate) enum Wire {
    Http1,
    Http1Tls(Trust),
    Http2(Trust),
    Direct(Trust),
}

/// The certificate that a server has made for itself.
#[derive(Clone)]
pub(crate) struct Trust(CertificateDer<'static>);

impl Trust {
    /// The one in the data folder of a server.
    pub(crate) fn of_server(data: &Path) -> Result<Self> {
        let file = data.join("tls").join("certificate.pem");
        let certificate = CertificateDer::from_pem_file(&file);
        Ok(Self(certificate.with_context(|| format!("no certificate in {}", file.display()))?))
    }

    async fn connect(&self, address: SocketAddr, protocol: &str) -> Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.0.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        }
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(connector.connect(SERVER_NAME.try_into()?, stream).await?)
    }
}

impl Wire {
    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<Connection> {
        Ok(match self {
            Self::Http1 => Connection::Http1(Box::new(Client::connect(address).await?)),
            Self::Http1Tls(trust) => {
                let stream = trust.connect(address, "http/1.1").await?;
                Connection::Http1Tls(Box::new(Client::over(stream)))
            }
            Self::Http2(trust) => {
                let stream = TokioIo::new(trust.connect(address, "h2").await?);
                let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
                let (sender, connection) = handshake.await?;
                // What breaks it off is reported to the request that waits.
                tokio::spawn(async move { drop(connection.await) });
                Connection::Http2(sender)
            }
            Self::Direct(trust) => {
                // Clients in Direct mode negotiate no protocol.
                let stream = trust.connect(address, "").await?;
                Connection::Direct(Box::new(DirectClient::open(stream).await?))
            }
        })
    }
}

/// One connection of any kind, with one request at a time.
pub(crate) enum Connection {
    Http1(Box<Client>),
    Http1Tls(Box<Client<TlsStream<TcpStream>>>),
    Http2(SendRequest<Full<Bytes>>),
    Direct(Box<DirectClient>),
}

impl Connection {
    /// Sends a request that must be answered with this status.
    pub(crate) async fn expect(&mut self, request: &[u8], status: u16) -> Result<()> {
        match self {
            Self::Http1(client) => client.expect(request, status).await.map(drop),
            Self::Http1Tls(client) => client.expect(request, status).await.map(drop),
            Self::Http2(sender) => {
                let response = sender.send_request(http2_request(request)?).await?;
                let answered = response.status().as_u16();
                let body = response.into_body().collect().await?.to_bytes();
                check(answered, status, &body)
            }
            Self::Direct(client) => client.expect(request, status).await.map(drop),
        }
    }
}

fn check(answered: u16, status: u16, body: &[u8]) -> Result<()> {
    if answered != status {
        bail!("answered with {answered}, not with {status}: {}", String::from_utf8_lossy(body));
    }
    Ok(())
}

/// A request of HTTP/1.1 as one of HTTP/2.
fn http2_request(bytes: &[u8]) -> Result<Request<Full<Bytes>>> {
    let head_end = memchr::memmem::find(bytes, b"\r\n\r\n").context("a request without end")?;
    let mut lines = std::str::from_utf8(&bytes[..head_end])?.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let uri = Uri::builder().scheme("https").authority(SERVER_NAME).path_and_query(path).build()?;
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if name != "host" {
            request = request.header(name, value);
        }
    }
    Ok(request.body(Full::new(Bytes::copy_from_slice(&bytes[head_end + 4..])))?)
}

/// A connection in Direct mode.
pub(crate) struct DirectClient {
    stream: TlsStream<TcpStream>,
    input: BytesMut,
}

impl DirectClient {
    /// Sends the context request, and reads its answer.
    async fn open(stream: TlsStream<TcpStream>) -> Result<Self> {
        let mut client = Self { stream, input: BytesMut::with_capacity(READ_BYTES) };
        let tokens = ContextRequestTokens {
            protocol_version: Some(1),
            client_version: Some("2020-07-15"),
            user_agent: Some("orrery-bench"),
            ..ContextRequestTokens::default()
        };
        let mut out = BytesMut::new();
        ContextRequest { activity_id: [1; 16], tokens }.encode(&mut out)?;
        client.send(&out).await?;
        let frame = client.read(FrameKind::ContextResponse).await?;
        let status = ContextResponse::decode(&frame.head)?.status;
        ensure!(status == 200, "the context request was answered with {status}");
        Ok(client)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    async fn read(&mut self, kind: FrameKind) -> Result<Frame> {
        let limits = FrameLimits { head_bytes_max: 1 << 20, body_bytes_max: 1 << 24 };
        loop {
            if let FrameProgress::Whole(frame) = next_frame(&mut self.input, kind, &limits)? {
                return Ok(frame);
            }
            self.input.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.input).await?;
            ensure!(read > 0, "the server closed the connection");
        }
    }

    /// Sends a frame that must be answered with this status.
    pub(crate) async fn expect(&mut self, frame: &[u8], status: u16) -> Result<Frame> {
        self.send(frame).await?;
        let answer = self.read(FrameKind::Response).await?;
        let answered = FrameResponse::decode(&answer.head)?.status;
        check(u16::try_from(answered)?, status, &answer.body)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_http_1_becomes_one_of_http_2() {
        let bytes = b"POST /dbs?a=b HTTP/1.1\r\nhost: localhost\r\nx-ms-date: now\r\n\r\n{}";
        let request = http2_request(bytes).unwrap();
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri(), "https://localhost/dbs?a=b");
        assert_eq!(request.headers().len(), 1);
        assert_eq!(request.headers()["x-ms-date"], "now");
    }
}
