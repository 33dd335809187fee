//! Direct mode against a whole server: a client that sends frames as SDKs do, and what they rely on.

mod addresses;
mod kill;
mod recorded;
mod session;
mod stale;
mod ten;

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use orrery_direct::handshake::ContextRequestTokens;
use orrery_direct::{
    ContextRequest, ContextResponse, Frame, FrameKind, FrameLimits, FrameProgress, FrameRequest,
    FrameResponse, OperationCode, RequestTokens, ResourceCode, ResponseTokens, next_frame,
};
use orrery_server::consistency::ConsistencyLevel;
use orrery_types::Clock as _;
use tokio_rustls::rustls;

use crate::client::{http_date, signature};
use crate::local::{Local, PRIMARY};

const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one connection.
pub(super) struct Client {
    stream: rustls::StreamOwned<rustls::ClientConnection, TcpStream>,
    input: BytesMut,
    next_id: u32,
}

/// What a client says of itself.
fn context() -> ContextRequestTokens<'static> {
    ContextRequestTokens {
        protocol_version: Some(1),
        client_version: Some("2020-07-15"),
        user_agent: Some("the tests"),
        ..ContextRequestTokens::default()
    }
}

fn tls_config() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust::Anyone))
        .with_no_client_auth()
}

/// Answers that are larger than requests may be.
const LIMITS: FrameLimits = FrameLimits { head_bytes_max: 1 << 20, body_bytes_max: 8 << 20 };

impl Client {
    pub(super) fn connect(local: &Local) -> Self {
        let mut client = Self::connect_without_context(local);
        let mut out = BytesMut::new();
        ContextRequest { activity_id: [3; 16], tokens: context() }.encode(&mut out).unwrap();
        client.send_bytes(&out);
        let frame = client.read_frame(FrameKind::ContextResponse);
        let answer = ContextResponse::decode(&frame.head).unwrap();
        assert_eq!((answer.status, answer.activity_id), (200, [3; 16]));
        client
    }

    fn connect_without_context(local: &Local) -> Self {
        let name = "localhost".try_into().unwrap();
        let connection = rustls::ClientConnection::new(Arc::new(tls_config()), name).unwrap();
        let socket = TcpStream::connect(local.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let stream = rustls::StreamOwned::new(connection, socket);
        Self { stream, input: BytesMut::new(), next_id: 0 }
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        use std::io::Write as _;
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    fn read_frame(&mut self, kind: FrameKind) -> Frame {
        use std::io::Read as _;
        loop {
            if let FrameProgress::Whole(frame) = next_frame(&mut self.input, kind, &LIMITS).unwrap()
            {
                return frame;
            }
            let mut bytes = [0; 4096];
            let read = self.stream.read(&mut bytes).unwrap();
            assert!(read > 0, "the server closed the connection");
            self.input.extend_from_slice(&bytes[..read]);
        }
    }

    /// Sends a request and does not wait; returns its number.
    pub(super) fn send(&mut self, request: &FrameRequest<'_>, body: &[u8]) -> u32 {
        self.next_id += 1;
        let mut request = *request;
        request.tokens.transport_request_id = Some(self.next_id);
        request.tokens.payload_present = Some(u8::from(!body.is_empty()));
        let mut out = BytesMut::new();
        request.encode(body, &mut out).unwrap();
        self.send_bytes(&out);
        self.next_id
    }

    pub(super) fn receive(&mut self) -> Answer {
        Answer(self.read_frame(FrameKind::Response))
    }
}

/// An answer, whole.
pub(super) struct Answer(pub(super) Frame);

impl Answer {
    pub(super) fn response(&self) -> FrameResponse<'_> {
        FrameResponse::decode(&self.0.head).unwrap()
    }

    pub(super) fn status(&self) -> u32 {
        self.response().status
    }

    pub(super) fn tokens(&self) -> ResponseTokens<'_> {
        self.response().tokens
    }

    pub(super) fn body(&self) -> &str {
        std::str::from_utf8(&self.0.body).unwrap()
    }
}

/// A server with a database and a container, and a client of it.
pub(super) struct World {
    pub(super) local: Local,
    pub(super) rid: String,
    /// Of every range, the path of its primary.
    pub(super) paths: HashMap<String, String>,
    pub(super) client: Client,
}

/// A request on its way: its codes, and what it differs in from a plain one.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) resource: ResourceCode,
    pub(super) operation: OperationCode,
    pub(super) tokens: RequestTokens<'a>,
    pub(super) body: &'a [u8],
}

pub(super) fn ask(operation: OperationCode, body: &str) -> Ask<'_> {
    let tokens = RequestTokens {
        database_name: Some("d"),
        container_name: Some("c"),
        capabilities: Some(9),
        ..RequestTokens::default()
    };
    Ask { resource: ResourceCode::Item, operation, tokens, body: body.as_bytes() }
}

impl<'a> Ask<'a> {
    pub(super) fn item(mut self, name: &'a str) -> Self {
        self.tokens.item_name = Some(name);
        self
    }

    pub(super) fn key(mut self, key: &'a str) -> Self {
        self.tokens.partition_key = Some(key);
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut RequestTokens<'a>)) -> Self {
        change(&mut self.tokens);
        self
    }
}

/// What clients sign: the method, the type and the link.
fn to_sign(ask: &Ask<'_>) -> (&'static str, &'static str, String) {
    let method = match ask.operation {
        OperationCode::Read | OperationCode::ReadFeed => "get",
        OperationCode::Replace => "put",
        OperationCode::Patch => "patch",
        OperationCode::Delete => "delete",
        OperationCode::Head | OperationCode::HeadFeed => "head",
        _ => "post",
    };
    let kind = match ask.resource {
        ResourceCode::Database => "dbs",
        ResourceCode::Container => "colls",
        ResourceCode::User => "users",
        ResourceCode::Permission => "permissions",
        ResourceCode::Procedure => "sprocs",
        ResourceCode::Conflict => "conflicts",
        _ => "docs",
    };
    let names = [
        ("dbs", ask.tokens.database_name),
        ("colls", ask.tokens.container_name),
        ("docs", ask.tokens.item_name),
        ("users", ask.tokens.user_name),
        ("permissions", ask.tokens.permission_name),
        ("sprocs", ask.tokens.procedure_name),
    ];
    let levels = names.iter().filter_map(|(word, name)| Some(format!("{word}/{}", (*name)?)));
    (method, kind, levels.collect::<Vec<_>>().join("/"))
}

impl World {
    pub(super) fn start() -> Self {
        Self::of(Local::start_direct(ConsistencyLevel::default(), |engine| engine), 400)
    }

    /// With a container of several ranges.
    pub(super) fn with_ranges() -> Self {
        let local = Local::start_direct(ConsistencyLevel::default(), |engine| engine);
        Self::of(local, 18_000)
    }

    pub(super) fn of(local: Local, throughput: u32) -> Self {
        local.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
        let throughput = throughput.to_string();
        let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
        let offer = [("x-ms-offer-throughput", &*throughput)];
        local.must("POST", "/dbs/d/colls", &offer, container);
        let client = Client::connect(&local);
        let (rid, paths) = (String::new(), HashMap::new());
        let mut world = Self { local, rid, paths, client };
        world.refresh();
        world
    }

    /// Reads what clients keep: the rid of the container and the addresses of its ranges.
    pub(super) fn refresh(&mut self) {
        let container = self.local.must("GET", "/dbs/d/colls/c", &[], "");
        let body: serde_json::Value = serde_json::from_str(&container.body).unwrap();
        body["_rid"].as_str().unwrap().clone_into(&mut self.rid);
        self.paths.clear();
        for address in self.addresses("dbs/d/colls/c/docs", "") {
            if address["isPrimary"] == true {
                let uri = address["physcialUri"].as_str().unwrap();
                let path = uri.strip_prefix("rntbd://").unwrap().split_once('/').unwrap().1;
                let range = address["partitionKeyRangeId"].as_str().unwrap();
                let path = format!("/{}", path.trim_end_matches('/'));
                self.paths.insert(range.to_owned(), path);
            }
        }
    }

    /// What `/addresses` answers.
    pub(super) fn addresses(&self, resolved: &str, ranges: &str) -> Vec<serde_json::Value> {
        let answer = self.ask_addresses(resolved, ranges);
        assert_eq!(answer.status, 200, "{answer:?}");
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let list = body["Addresss"].as_array().unwrap().clone();
        assert_eq!(body["_count"], list.len());
        list
    }

    pub(super) fn ask_addresses(&self, resolved: &str, ranges: &str) -> crate::client::Answer {
        let escaped = resolved.replace('/', "%2f").replace('=', "%3d");
        let path = format!(
            "//addresses/?$resolveFor={escaped}&$filter=protocol%20eq%20rntbd\
             &$partitionKeyRangeIds={ranges}"
        );
        let (kind, link) = crate::client::signed(&format!("/{resolved}"));
        let date = http_date(self.local.clock.now_s());
        let authorization = signature(PRIMARY, "get", &kind, &link, &date);
        let headers = [("authorization", authorization), ("x-ms-date", date)];
        let headers = headers.map(|(name, value)| (name.to_owned(), value));
        let mut connection = crate::client::Connection::open(self.local.address).unwrap();
        connection.send("GET", &path, &headers, b"").unwrap()
    }

    /// Sends a request to a range, or to the only one, without waiting.
    pub(super) fn send(&mut self, ask: &Ask<'_>) -> u32 {
        let mut ask = *ask;
        let (method, kind, link) = to_sign(&ask);
        let date = http_date(self.local.clock.now_s());
        let authorization = signature(PRIMARY, method, kind, &link, &date);
        let range = ask.tokens.range_id.unwrap_or("0");
        let is_in_container = ask.tokens.container_name.is_some();
        let path = self.paths.get(range).cloned().filter(|_| is_in_container);
        let path =
            path.unwrap_or_else(|| "/apps/orrery/services/master/partitions/M/replicas/1p".into());
        ask.tokens.replica_path = ask.tokens.replica_path.or(Some(&path));
        if is_in_container {
            ask.tokens.container_rid = ask.tokens.container_rid.or(Some(&self.rid));
        }
        ask.tokens.authorization = ask.tokens.authorization.or(Some(&authorization));
        ask.tokens.date = Some(&date);
        let request = FrameRequest {
            resource: ask.resource,
            operation: ask.operation,
            activity_id: [7; 16],
            tokens: ask.tokens,
        };
        self.client.send(&request, ask.body)
    }

    pub(super) fn call(&mut self, ask: &Ask<'_>) -> Answer {
        let id = self.send(ask);
        let answer = self.client.receive();
        assert_eq!(answer.tokens().transport_request_id, Some(id));
        assert_eq!(answer.response().activity_id, [7; 16]);
        answer
    }

    /// Sends a request that is right.
    #[track_caller]
    pub(super) fn must(&mut self, ask: &Ask<'_>) -> Answer {
        let answer = self.call(ask);
        assert!(answer.status() < 400, "{}: {}", answer.status(), answer.body());
        answer
    }
}

/// A certificate that was made for the test proves nothing, and nothing is to be proven.
mod trust {
    use tokio_rustls::rustls::client::danger::{
        HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
    };
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub(super) struct Anyone;

    impl ServerCertVerifier for Anyone {
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
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let provider = tokio_rustls::rustls::crypto::ring::default_provider();
            provider.signature_verification_algorithms.supported_schemes()
        }
    }
}
