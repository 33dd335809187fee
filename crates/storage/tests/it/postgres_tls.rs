//! Which servers are trusted: a proxy before the server speaks TLS with a certificate of a test's own, or refuses to.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use orrery_postgres::{PostgresOpenError, PostgresStore};
use orrery_storage::Store;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::postgres_store;
use crate::stores::{EPOCH, SHARD, write};

/// How long each side is listened to before the other one is.
const TURN: Duration = Duration::from_millis(2);

/// An authority, its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let file = folder.join(name);
        std::fs::write(&file, issuer.pem()).expect("a file");
        Self { issuer, file }
    }

    /// A certificate for `localhost` and no other name.
    fn config(&self) -> Arc<ServerConfig> {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
        Arc::new(config.expect("a certificate and its key"))
    }
}

/// Reads what there is; `None` at the end.
fn take(from: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    match from.read(buffer) {
        Ok(0) => None,
        Ok(size) => Some(size),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Some(0)
        }
        Err(_) => None,
    }
}

/// Answers the request for TLS, and passes on what comes through it. Without a certificate it is refused.
fn pass_on(
    mut client: TcpStream,
    mut server: UnixStream,
    config: Option<Arc<ServerConfig>>,
    in_clear: &AtomicUsize,
) -> Option<()> {
    client.read_exact(&mut [0; 8]).ok()?;
    let Some(config) = config else {
        client.write_all(b"N").ok()?;
        in_clear.fetch_add(client.read(&mut [0; 64]).unwrap_or_default(), SeqCst);
        return None;
    };
    client.write_all(b"S").ok()?;
    client.set_read_timeout(Some(TURN)).ok()?;
    server.set_read_timeout(Some(TURN)).ok()?;
    let mut tls = StreamOwned::new(ServerConnection::new(config).ok()?, client);
    let mut buffer = [0; 16_384];
    loop {
        let size = take(&mut tls, &mut buffer)?;
        server.write_all(&buffer[..size]).ok()?;
        let size = take(&mut server, &mut buffer)?;
        tls.write_all(&buffer[..size]).ok()?;
    }
}

/// Listens on a port and passes connections on to a socket; counts what should not have been sent.
fn proxy(socket: &Path, config: Option<Arc<ServerConfig>>, in_clear: &Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (socket, in_clear) = (socket.to_owned(), in_clear.clone());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, UnixStream::connect(&socket)) else { return };
            let (config, in_clear) = (config.clone(), in_clear.clone());
            std::thread::spawn(move || pass_on(client, server, config, &in_clear));
        }
    });
    port
}

#[test]
fn a_server_is_trusted_by_its_certificate_and_its_name() {
    let Some((address, options)) = postgres_store::new_store() else { return };
    let folder = address.split_whitespace().find_map(|word| word.strip_prefix("host="));
    let socket = Path::new(folder.expect("a socket")).join(".s.PGSQL.5432");
    let files = tempfile::tempdir().expect("a folder");
    let (own, other) =
        (Authority::new(files.path(), "own.crt"), Authority::new(files.path(), "other.crt"));
    let in_clear = Arc::new(AtomicUsize::new(0));
    let with = proxy(&socket, Some(own.config()), &in_clear);
    let without = proxy(&socket, None, &in_clear);
    let open = |host: &str, port: u16, mode: &str, roots: &Authority| {
        let roots = roots.file.display();
        let address = format!(
            "postgres://postgres:secret@{host}:{port}/postgres?sslmode={mode}&sslrootcert={roots}"
        );
        PostgresStore::open(&address, &options)
    };
    for (host, mode, roots) in [
        ("localhost", "verify-full", &own),
        ("localhost", "verify-ca", &own),
        ("127.0.0.1", "verify-ca", &own),
        ("127.0.0.1", "require", &other),
    ] {
        let store = open(host, with, mode, roots).expect(mode);
        store.create_open_shard(SHARD, EPOCH).expect("a shard");
        write(&store, &[("a", "1")]);
    }
    for (host, port, mode, roots, reason) in [
        ("127.0.0.1", with, "verify-full", &own, "not valid for name"),
        ("localhost", with, "verify-full", &other, "UnknownIssuer"),
        ("127.0.0.1", with, "verify-ca", &other, "UnknownIssuer"),
        ("localhost", without, "verify-full", &own, "does not support TLS"),
        ("localhost", without, "require", &own, "does not support TLS"),
    ] {
        let error = open(host, port, mode, roots).expect_err(reason);
        assert!(matches!(error, PostgresOpenError::Connect(_)), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(reason) && !error.contains("secret"), "{error}");
    }
    assert_eq!(in_clear.load(SeqCst), 0, "nothing is sent in clear");
}
