//! One GET for a set of keys: bounded in time and size, over TLS, without redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orrery_types::limits;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The body at a URL, or why there is none.
pub(super) async fn fetch(uri: &Uri, roots: Arc<RootCertStore>) -> Result<Bytes, String> {
    let time = Duration::from_millis(limits::JWKS_FETCH_MS_MAX);
    match tokio::time::timeout(time, exchange(uri, roots)).await {
        Ok(result) => result,
        Err(_) => Err(format!("it did not answer within {} s", time.as_secs())),
    }
}

async fn exchange(uri: &Uri, roots: Arc<RootCertStore>) -> Result<Bytes, String> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let stream = TcpStream::connect((&*host, port)).await.map_err(|error| error.to_string())?;
    if !is_secure {
        return get(uri, stream).await;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    get(uri, stream.map_err(|error| error.to_string())?).await
}

async fn get<S>(uri: &Uri, stream: S) -> Result<Bytes, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // It ends when the answer is read, or when the sender is dropped.
    let connection = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answers {}, and redirects are not followed", answer.status()));
    }
    let body = Limited::new(answer.into_body(), limits::JWKS_BYTES_MAX).collect().await;
    connection.abort();
    Ok(body.map_err(|error| error.to_string())?.to_bytes())
}
