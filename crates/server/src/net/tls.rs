//! The certificate: from files (PEM, or PKCS #12 as `pfx` reads it), or self-signed, made once and kept
//! in the data folder so that a client that trusts it need not do so again at every start.
//!
//! ```text
//! <data>/tls/certificate.pem   what clients are given to trust
//! <data>/tls/key.pem           readable by the owner only
//! <data>/tls/made-for.toml     names and end, to know when it must be renewed
//! ```
//!
//! Where a store keeps the account, the three are one record of it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use orrery_types::Clock;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::auth::private_file;
use crate::auth::records::AccountRecords;
use crate::net::pfx;

const DAY_S: u64 = 24 * 60 * 60;
/// Apple's systems refuse what is valid for longer.
const VALID_S: u64 = 820 * DAY_S;
/// Renewed when less than this is left, so that it does not end while the server runs.
const RENEW_BEFORE_S: u64 = 60 * DAY_S;

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum TlsSource {
    /// Files of the user's, in PEM.
    #[expect(missing_docs, reason = "the names say it")]
    Files { certificate: PathBuf, key: PathBuf },
    /// One PKCS #12 file of the user's.
    #[expect(missing_docs, reason = "the names say it")]
    Pfx { file: PathBuf, password: String },
    /// Made here for these names beside the usual ones; kept in the folder if there is one.
    #[expect(missing_docs, reason = "the names say it")]
    SelfSigned { folder: Option<PathBuf>, names: Vec<String> },
}

/// A certificate, ready to serve.
#[derive(Clone, Debug)]
pub struct Tls {
    /// For the handshake.
    pub config: Arc<ServerConfig>,
    /// What clients are given to trust.
    pub pem: Bytes,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("Cannot use {path} for TLS: {reason}")]
    #[expect(missing_docs, reason = "the message says it")]
    File { path: PathBuf, reason: String },
    /// The records of the account cannot be read or written.
    #[error("Cannot keep the certificate in {place}: {reason}")]
    #[expect(missing_docs, reason = "the message says it")]
    Record { place: String, reason: String },
    /// Key and certificate do not go together, or a name cannot stand in a certificate.
    #[error("Cannot use the certificate: {0}")]
    Certificate(String),
}

impl Tls {
    /// Reads or makes the certificate.
    pub fn load(source: &TlsSource, clock: &dyn Clock) -> Result<Self, TlsError> {
        match source {
            TlsSource::Files { certificate, key } => {
                Self::from_pem(&read(certificate)?, &read(key)?)
            }
            TlsSource::Pfx { file, password } => Self::from_pfx(file, password),
            TlsSource::SelfSigned { folder, names } => {
                let names = all_names(names);
                let Some(folder) = folder else {
                    let (certificate, key) = make(&names, clock.now_s())?;
                    return Self::from_pem(&certificate, &key);
                };
                kept(&folder.join("tls"), names, clock.now_s())
            }
        }
    }

    /// The self-signed certificate for these names beside the usual ones that the records of an account keep,
    /// made and kept now if there is none or it must be renewed. The name of the machine is not among them: any
    /// machine may serve the account.
    pub fn load_record(
        records: &dyn AccountRecords,
        names: &[String],
        clock: &dyn Clock,
    ) -> Result<Self, TlsError> {
        let failed = |reason: String| TlsError::Record { place: records.place(), reason };
        let (names, now_s) = (shared_names(names), clock.now_s());
        // Another process may renew it at the same time: then its certificate counts.
        for _ in 0..3 {
            let kept = records.read(TLS_RECORD).map_err(failed)?;
            let found = kept.as_deref().and_then(|text| toml::from_str::<KeptTls>(text).ok());
            if let Some(found) = found.filter(|found| found.made_for.is_good(&names, now_s)) {
                return Self::from_pem(&found.certificate, &found.key);
            }
            let (certificate, key) = make(&names, now_s)?;
            let made_for = MadeFor { names: names.clone(), ends_s: now_s + VALID_S };
            let fresh = toml::to_string(&KeptTls { certificate, key, made_for });
            let fresh = fresh.map_err(|error| failed(error.to_string()))?;
            match kept {
                Some(old) => drop(records.replace(TLS_RECORD, &old, &fresh).map_err(failed)?),
                None => drop(records.create(TLS_RECORD, &fresh).map_err(failed)?),
            }
        }
        Err(failed("others change it all the time".into()))
    }

    fn from_pem(certificate: &str, key: &str) -> Result<Self, TlsError> {
        let broken = |reason: String| TlsError::Certificate(reason);
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| broken(format!("the certificate is not PEM: {error}")))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| broken(format!("the key is not PEM: {error}")))?;
        Self::new(chain, key, Bytes::copy_from_slice(certificate.as_bytes()))
    }

    fn from_pfx(file: &Path, password: &str) -> Result<Self, TlsError> {
        let failed = |reason: String| TlsError::File { path: file.to_owned(), reason };
        let bytes = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
        let identity = pfx::read(&bytes, password).map_err(|error| failed(error.to_string()))?;
        let pem = identity.chain_pem();
        let chain = identity.chain.into_iter().map(CertificateDer::from).collect();
        let key = PrivateKeyDer::Pkcs8(identity.key.into());
        Self::new(chain, key, pem.into())
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        pem: Bytes,
    ) -> Result<Self, TlsError> {
        let broken = |reason: String| TlsError::Certificate(reason);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| broken(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), pem })
    }
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct MadeFor {
    names: Vec<String>,
    ends_s: u64,
}

impl MadeFor {
    fn is_good(&self, names: &[String], now_s: u64) -> bool {
        self.names == names && now_s + RENEW_BEFORE_S < self.ends_s
    }
}

/// The name of the certificate among the records of an account.
const TLS_RECORD: &str = "certificate";

/// A certificate among the records of an account.
#[derive(Serialize, Deserialize)]
struct KeptTls {
    certificate: String,
    key: String,
    made_for: MadeFor,
}

fn kept(folder: &Path, names: Vec<String>, now_s: u64) -> Result<Tls, TlsError> {
    let file = |name: &str| folder.join(name);
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let made_for = file("made-for.toml");
    let found = find(&made_for)?.and_then(|text| toml::from_str::<MadeFor>(&text).ok());
    if found.as_ref().is_some_and(|made| made.is_good(&names, now_s))
        && let (Some(certificate), Some(key)) = (find(&certificate)?, find(&key)?)
    {
        return Tls::from_pem(&certificate, &key);
    }
    let (certificate_pem, key_pem) = make(&names, now_s)?;
    let failed = |path: &Path, reason: String| TlsError::File { path: path.to_owned(), reason };
    let write = |path: &Path, text: &str| {
        private_file::write(path, text).map_err(|error| failed(path, error.to_string()))
    };
    orrery_files::create_folders(folder).map_err(|error| failed(folder, error.to_string()))?;
    let note = toml::to_string(&MadeFor { names, ends_s: now_s + VALID_S })
        .map_err(|error| failed(&made_for, error.to_string()))?;
    write(&key, &key_pem)?;
    write(&certificate, &certificate_pem)?;
    // The note comes last: without it an interrupted start begins again.
    write(&made_for, &note)?;
    Tls::from_pem(&certificate_pem, &key_pem)
}

fn make(names: &[String], now_s: u64) -> Result<(String, String), TlsError> {
    let broken = |error: rcgen::Error| TlsError::Certificate(error.to_string());
    let date = |seconds: u64| {
        i64::try_from(seconds)
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .ok_or_else(|| TlsError::Certificate("the machine's clock is wrong".into()))
    };
    let mut params = CertificateParams::new(names.to_vec()).map_err(broken)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.distinguished_name.push(DnType::OrganizationName, "Orrery");
    params.not_before = date(now_s.saturating_sub(DAY_S))?;
    params.not_after = date(now_s + VALID_S)?;
    let key = KeyPair::generate().map_err(broken)?;
    let certificate = params.self_signed(&key).map_err(broken)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The usual names, this machine's, and those asked for; sorted, each once.
fn all_names(extra: &[String]) -> Vec<String> {
    let own: Vec<String> = host_name().into_iter().chain(extra.iter().cloned()).collect();
    shared_names(&own)
}

/// The usual names and those asked for; sorted, each once.
fn shared_names(extra: &[String]) -> Vec<String> {
    let usual = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut names: Vec<String> = usual.into_iter().chain(extra.iter().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The machine's name, where it can stand in a certificate.
fn host_name() -> Option<String> {
    let told = || std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(told)?;
    let name = name.trim().to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    (!name.is_empty() && name.parse::<IpAddr>().is_err() && name.chars().all(is_plain))
        .then_some(name)
}

fn find(path: &Path) -> Result<Option<String>, TlsError> {
    private_file::read(path)
        .map_err(|error| TlsError::File { path: path.to_owned(), reason: error.to_string() })
}

fn read(path: &Path) -> Result<String, TlsError> {
    find(path)?.ok_or_else(|| TlsError::File {
        path: path.to_owned(),
        reason: "there is no such file".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use orrery_types::ManualClock;

    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn load(folder: &Path, names: &[&str], clock: &ManualClock) -> Bytes {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let source = TlsSource::SelfSigned { folder: Some(folder.to_owned()), names };
        Tls::load(&source, clock).unwrap().pem
    }

    #[test]
    fn a_certificate_is_made_once_and_again_when_it_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at_s(NOW_S);
        let first = load(folder.path(), &[], &clock);
        assert_eq!(load(folder.path(), &[], &clock), first);
        let named = load(folder.path(), &["db.example"], &clock);
        assert_ne!(named, first);
        clock.advance_s(VALID_S - RENEW_BEFORE_S - 1);
        assert_eq!(load(folder.path(), &["db.example"], &clock), named);
        clock.advance_s(1);
        let renewed = load(folder.path(), &["db.example"], &clock);
        assert_ne!(renewed, named);
        std::fs::remove_file(folder.path().join("tls/key.pem")).unwrap();
        assert_ne!(load(folder.path(), &["db.example"], &clock), renewed);
    }

    #[test]
    fn records_keep_a_certificate_until_it_must_be_renewed() {
        let records = crate::auth::records::tests::MemoryRecords::default();
        let clock = ManualClock::at_s(NOW_S);
        let load = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            Tls::load_record(&records, &names, &clock).unwrap().pem
        };
        let first = load(&[]);
        assert_eq!(load(&[]), first);
        let named = load(&["db.example"]);
        assert_ne!(named, first);
        assert_eq!(load(&["db.example"]), named);
        clock.advance_s(VALID_S);
        assert_ne!(load(&["db.example"]), named);
    }

    #[test]
    fn files_of_the_users_own_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at_s(NOW_S);
        let pem = load(folder.path(), &[], &clock);
        let tls = folder.path().join("tls");
        let files = |key: &str| TlsSource::Files {
            certificate: tls.join("certificate.pem"),
            key: tls.join(key),
        };
        assert_eq!(Tls::load(&files("key.pem"), &clock).unwrap().pem, pem);
        let error = Tls::load(&files("none.pem"), &clock).unwrap_err();
        assert!(error.to_string().contains("there is no such file"), "{error}");
        let error = Tls::load(&files("certificate.pem"), &clock).unwrap_err();
        assert!(matches!(error, TlsError::Certificate(_)), "{error}");
    }

    #[test]
    fn the_usual_names_stand_in_every_certificate_once() {
        let names = all_names(&["localhost".into(), "db.example".into()]);
        for name in ["localhost", "127.0.0.1", "::1", "db.example"] {
            assert_eq!(names.iter().filter(|found| *found == name).count(), 1, "{name}");
        }
    }
}
