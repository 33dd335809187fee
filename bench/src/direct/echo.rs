//! The bare echo: frames over the same TLS library and runtime as the server's, each answered with what
//! the server has answered to one of its kind, without a thought in between.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::{Buf as _, BytesMut};
use orrery_direct::handshake::ContextResponseTokens;
use orrery_direct::{
    ContextResponse, FrameKind, FrameLimits, FrameProgress, FrameRequest, OperationCode, next_frame,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::bare::{Parts, add_part, serving_threads};

const READ_BYTES: usize = 16 * 1024;

/// The answers to a read, a create and a query.
pub(super) type Answers = [Vec<u8>; 3];

/// What the process is given: certificate and key of the server, and the answers.
pub(super) fn input(certificate: &[u8], key: &[u8], answers: &Answers) -> Vec<u8> {
    let mut input = Vec::new();
    add_part(&mut input, certificate);
    add_part(&mut input, key);
    for answer in answers {
        add_part(&mut input, answer);
    }
    input
}

/// Serves until killed, after it has printed its address.
pub(crate) fn run() -> Result<()> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let mut parts = Parts(&input);
    let acceptor = acceptor(parts.next()?, parts.next()?)?;
    let answers: Arc<Answers> =
        Arc::new([parts.next()?.to_vec(), parts.next()?.to_vec(), parts.next()?.to_vec()]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    // A connection stays with one thread, as in the server.
    let threads = serving_threads()?;
    for thread in threads.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (acceptor, answers) = (acceptor.clone(), Arc::clone(&answers));
        thread.spawn(async move {
            let stream = acceptor.accept(TcpStream::from_std(stream)?).await?;
            // A connection that breaks off is the client's business.
            let _ = serve(stream, &answers).await;
            std::io::Result::Ok(())
        });
    }
    Ok(())
}

fn acceptor(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(mut stream: TlsStream<TcpStream>, answers: &Answers) -> Result<()> {
    let mut input = BytesMut::with_capacity(READ_BYTES);
    let mut output = BytesMut::new();
    let mut kind = FrameKind::ContextRequest;
    let limits = FrameLimits::default();
    loop {
        while let FrameProgress::Whole(frame) = next_frame(&mut input, kind, &limits)? {
            if kind == FrameKind::ContextRequest {
                kind = FrameKind::Request;
                let tokens = ContextResponseTokens {
                    server_agent: Some("bare"),
                    server_version: Some("1"),
                    ..ContextResponseTokens::default()
                };
                let activity_id = [0; 16];
                ContextResponse { status: 200, activity_id, tokens }.encode(b"", &mut output)?;
                continue;
            }
            let answer = match FrameRequest::decode(&frame.head)?.operation {
                OperationCode::Read => &answers[0],
                OperationCode::Create => &answers[1],
                _ => &answers[2],
            };
            output.extend_from_slice(answer);
        }
        while output.has_remaining() {
            stream.write_buf(&mut output).await?;
        }
        stream.flush().await?;
        input.reserve(READ_BYTES);
        let read = stream.read_buf(&mut input).await.context("the connection broke off")?;
        ensure!(read > 0, "the client has gone");
    }
}
