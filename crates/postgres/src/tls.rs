//! Connections with TLS: which certificates of a server are trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::{Protection, StoreAddress};
use crate::schema::PostgresOpenError;

/// Where systems keep the certificates that they trust, in one file.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Makes TLS connections as an address wants them; `None` if it wants none.
pub(crate) fn connector(
    address: &StoreAddress,
) -> Result<Option<MakeRustlsConnect>, PostgresOpenError> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match address.protection {
        Protection::Plain => return Ok(None),
        Protection::Unverified => Arc::new(AnyCertificate(provider.clone())),
        Protection::Authority => {
            Arc::new(AnyName(verifier(address.authorities.as_deref(), &provider)?))
        }
        Protection::Host => verifier(address.authorities.as_deref(), &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresOpenError::Certificates(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn verifier(
    file: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, PostgresOpenError> {
    let roots = Arc::new(match file {
        Some(file) => authorities(file)?,
        None => authorities(&system()?)?,
    });
    WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|error| PostgresOpenError::Certificates(error.to_string()))
}

fn system() -> Result<PathBuf, PostgresOpenError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = || SYSTEM.iter().map(PathBuf::from).find(|file| file.exists());
    named.or_else(usual).ok_or_else(|| {
        let reason = "this machine has no list of trusted certificates; name that of the server with \
            sslrootcert=FILE in the address of the store";
        PostgresOpenError::Certificates(reason.into())
    })
}

/// The authorities of a file in PEM.
fn authorities(file: &Path) -> Result<RootCertStore, PostgresOpenError> {
    let failed = |reason: String| {
        PostgresOpenError::Certificates(format!("cannot use {}: {reason}", file.display()))
    };
    let found = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.filter_map(Result::ok));
    if roots.is_empty() { Err(failed("it holds no certificate".into())) } else { Ok(roots) }
}

/// Trusts a certificate of an authority whatever host it names.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last, when the chain is verified.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Trusts whoever answers: what is sent is encrypted, and nobody knows for whom.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
