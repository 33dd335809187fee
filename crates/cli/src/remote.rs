//! A server, as the commands that need one see it: requests signed with an account key, or with an Entra
//! ID token, as the SDKs send them, over one connection that is kept. Blocking: a command does one thing after another.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use clap::Args;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use orrery_server::auth::keys::WELL_KNOWN_KEY;
use orrery_server::net::trust::trusted_roots;
use orrery_server::wire::headers;
use orrery_types::{Clock as _, SystemClock};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::exit::usage;
use crate::interrupt;

/// What a path keeps of a link as it is.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What a path keeps of an id, which may hold slashes.
const ESCAPED_ID: &AsciiSet = &ESCAPED.add(b'/');
/// The version of the protocol that is spoken.
const VERSION: &str = "2020-07-15";

/// Where a server answers that was started without settings.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://localhost:8081";

/// Which server, and what proves who asks.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemoteArguments {
    /// Where the server answers
    #[arg(
        long,
        env = "ORRERY_ENDPOINT",
        value_name = "URL",
        default_value = DEFAULT_ENDPOINT
    )]
    pub(crate) endpoint: String,
    /// An account key [default: for a server on this machine, the emulator's key]
    #[arg(long, env = "ORRERY_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// An Entra ID token, in place of a key
    #[arg(long, env = "ORRERY_TOKEN", value_name = "JWT", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Certificate that an https endpoint is trusted by, as PEM [default: the system's certificates;
    /// for localhost, any certificate]
    #[arg(long, env = "ORRERY_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

impl RemoteArguments {
    pub(crate) fn connect(&self) -> Result<Remote> {
        let ca = self.ca.as_deref();
        match &self.token {
            Some(token) => {
                let token = RemoteCredential::Token(token.trim().to_owned());
                Remote::open(&self.endpoint, |_| Ok(token), ca)
            }
            None => Remote::connect(&self.endpoint, self.key.as_deref(), ca),
        }
    }
}

/// What proves who asks.
enum RemoteCredential {
    /// A key of the account, decoded.
    Key(Vec<u8>),
    /// An Entra ID token.
    Token(String),
}

/// A connection to a server.
pub(crate) struct Remote {
    runtime: Runtime,
    authority: String,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    credential: RemoteCredential,
    sender: Option<Sender>,
    on_interrupt: OnInterrupt,
    time_max: Option<Duration>,
}

type Sender = SendRequest<Full<Bytes>>;

/// What becomes of a request when the command is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnInterrupt {
    /// The answer is awaited; the command looks for itself.
    Wait,
    /// The caller no longer waits for the answer.
    Abandon,
}

/// One request. `link` is what is signed: the resource itself, or the parent of a feed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// Not escaped: `/dbs/my shop/colls`.
    pub(crate) path: &'a str,
    /// The last segment, where it is an id that may hold slashes.
    pub(crate) id: Option<&'a str>,
    /// The type of the resource: `dbs`, `colls`, `docs`, `_model`, …
    pub(crate) kind: &'a str,
    pub(crate) link: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(crate) struct RemoteAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl RemoteAnswer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Remote {
    /// Makes ready; the connection is opened by the first request.
    pub(crate) fn connect(endpoint: &str, key: Option<&str>, ca: Option<&Path>) -> Result<Self> {
        Self::open(endpoint, |is_local| decoded_key(key, is_local), ca)
    }

    fn open(
        endpoint: &str,
        credential: impl FnOnce(bool) -> Result<RemoteCredential>,
        ca: Option<&Path>,
    ) -> Result<Self> {
        let uri: Uri = endpoint.parse().map_err(|_| usage(format!("'{endpoint}' is no URL")))?;
        let authority = uri.authority();
        let authority = authority.ok_or_else(|| usage(format!("'{endpoint}' names no host")))?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let (secure, port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => {
                let text = format!("'{endpoint}' starts neither with http:// nor with https://");
                return Err(usage(text));
            }
        };
        let local = is_loopback(&host);
        let credential = credential(local)?;
        let tls = secure.then(|| connector(local, ca)).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let port = authority.port_u16().unwrap_or(port);
        let authority = authority.to_string();
        let (sender, on_interrupt, time_max) = (None, OnInterrupt::Wait, None);
        Ok(Self { runtime, authority, host, port, tls, credential, sender, on_interrupt, time_max })
    }

    /// Abandons a request when the command is interrupted.
    pub(crate) fn abandon_on_interrupt(&mut self) {
        self.on_interrupt = OnInterrupt::Abandon;
    }

    /// Gives up an answer that takes longer.
    pub(crate) fn wait_at_most(&mut self, time_max: Duration) {
        self.time_max = Some(time_max);
    }

    /// Sends one request and reads its answer, whatever the status.
    pub(crate) fn request(&mut self, ask: &Ask<'_>) -> Result<RemoteAnswer> {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(SystemClock.now_s()));
        let authorization = self.signature(ask, &date)?;
        let mut uri = utf8_percent_encode(ask.path, ESCAPED).to_string();
        if let Some(id) = ask.id {
            uri.push('/');
            uri.extend(utf8_percent_encode(id, ESCAPED_ID));
        }
        let mut request = Request::builder()
            .method(ask.method)
            .uri(uri)
            .header(header::HOST, &self.authority)
            .header(header::AUTHORIZATION, authorization)
            .header(headers::DATE, &date)
            .header(headers::VERSION, VERSION);
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(ask.body)))?;
        let open = self.sender.take().filter(|sender| !sender.is_closed());
        let (host, port, tls) = (&self.host, self.port, self.tls.as_ref());
        let (on_interrupt, time_max) = (self.on_interrupt, self.time_max);
        let (sender, answer) = self.runtime.block_on(async {
            let exchanged = exchange(open, request, host, port, tls);
            let in_time = async {
                match time_max {
                    Some(time) => tokio::time::timeout(time, exchanged)
                        .await
                        .map_err(|_| anyhow!("{host}:{port} does not answer"))?,
                    None => exchanged.await,
                }
            };
            match on_interrupt {
                OnInterrupt::Wait => in_time.await,
                OnInterrupt::Abandon => tokio::select! {
                    answered = in_time => answered,
                    () = interrupt::requested() => Err(interrupt::failure("interrupted")),
                },
            }
        })?;
        self.sender = Some(sender);
        Ok(answer)
    }

    fn signature(&self, ask: &Ask<'_>, date: &str) -> Result<String> {
        let key = match &self.credential {
            RemoteCredential::Key(key) => key,
            RemoteCredential::Token(token) => {
                let text = format!("type=aad&ver=1.0&sig={token}");
                return Ok(utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string());
            }
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(key).context("the key is too short")?;
        let (method, kind) = (ask.method.to_lowercase(), ask.kind.to_lowercase());
        mac.update(
            format!("{method}\n{kind}\n{}\n{}\n\n", ask.link, date.to_lowercase()).as_bytes(),
        );
        let signature = BASE64.encode(mac.finalize().into_bytes());
        let text = format!("type=master&ver=1.0&sig={signature}");
        Ok(utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string())
    }
}

/// The key that was given, or on this machine the emulator's.
fn decoded_key(key: Option<&str>, is_local: bool) -> Result<RemoteCredential> {
    let key = match key {
        Some(key) => key,
        None if is_local => WELL_KNOWN_KEY,
        None => return Err(usage("give the account key: --key KEY, or ORRERY_KEY")),
    };
    let key = BASE64.decode(key.trim()).map_err(|_| {
        usage("the key is not base64; `orrery keys list` on the server's machine prints it")
    })?;
    Ok(RemoteCredential::Key(key))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Sends a request and reads its answer. A connection that the server has closed meanwhile is replaced:
/// that is known only when something is sent on it.
async fn exchange(
    open: Option<Sender>,
    request: Request<Full<Bytes>>,
    host: &str,
    port: u16,
    tls: Option<&TlsConnector>,
) -> Result<(Sender, RemoteAnswer)> {
    let mut unsent = request;
    if let Some(mut sender) = open {
        match sender.try_send_request(unsent).await {
            Ok(response) => return Ok((sender, whole(response).await?)),
            Err(mut refused) => match refused.take_message() {
                Some(request) => unsent = request,
                None => return Err(refused.into_error()).context("the server hung up"),
            },
        }
    }
    let mut sender = dial(host, port, tls).await?;
    let response = sender.send_request(unsent).await.context("the server hung up")?;
    Ok((sender, whole(response).await?))
}

async fn whole(response: http::Response<hyper::body::Incoming>) -> Result<RemoteAnswer> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.context("the answer broke off")?.to_bytes();
    Ok(RemoteAnswer { status: head.status.as_u16(), headers: head.headers, body })
}

async fn dial(host: &str, port: u16, tls: Option<&TlsConnector>) -> Result<Sender> {
    let at = || format!("cannot reach {host}:{port}");
    let stream = TcpStream::connect((host, port)).await.with_context(at)?;
    stream.set_nodelay(true)?;
    let Some(tls) = tls else {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.with_context(at)?;
        tokio::spawn(connection);
        return Ok(sender);
    };
    let name = ServerName::try_from(host.to_owned()).with_context(at)?;
    let stream = tls.connect(name, stream).await.with_context(|| {
        format!("{}: no TLS; if its certificate is its own, name it with --ca FILE", at())
    })?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.with_context(at)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Trusts the given certificate; without one, any certificate on this machine.
fn connector(local: bool, ca: Option<&Path>) -> Result<TlsConnector> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match ca {
        Some(path) => {
            let roots = trusted_roots(Some(path)).map_err(anyhow::Error::msg)?;
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None if local => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(loopback::Trusting::new()))
            .with_no_client_auth(),
        None => {
            let roots = trusted_roots(None)
                .map_err(|reason| anyhow!("{reason}; name that of the server: --ca FILE"))?;
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// On the loopback interface there is nobody in between: signatures of the handshake are checked, the
/// name and the issuer are not.
mod loopback {
    use tokio_rustls::rustls::client::danger::{
        HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
    };
    use tokio_rustls::rustls::crypto::{
        WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    };
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub(super) struct Trusting(WebPkiSupportedAlgorithms);

    impl Trusting {
        pub(super) fn new() -> Self {
            let provider = tokio_rustls::rustls::crypto::ring::default_provider();
            Self(provider.signature_verification_algorithms)
        }
    }

    impl ServerCertVerifier for Trusting {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signed, &self.0)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &self.0)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.supported_schemes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_says_what_is_missing() {
        let refusal = |endpoint: &str, key: Option<&str>| {
            Remote::connect(endpoint, key, None).map(drop).expect_err(endpoint).to_string()
        };
        assert!(refusal("localhost:8081", None).contains("neither with http://"));
        assert!(refusal("http://db.example:8081", None).contains("account key"));
        assert!(refusal("http://localhost", Some("?")).contains("base64"));
        for local in ["http://localhost:1", "https://127.0.0.1:1", "http://[::1]:1"] {
            assert!(Remote::connect(local, None, None).is_ok(), "{local}");
        }
    }
}
