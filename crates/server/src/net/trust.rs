//! The certificates by which other servers are trusted: those of a file, or the system's.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Where systems keep the certificates that they trust, in one file.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates of a file, all of which must be usable; without one those that this machine trusts, or
/// that `SSL_CERT_FILE` names. The error says why there are none.
pub fn trusted_roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        let what =
            |reason: String| format!("cannot use the certificate {}: {reason}", path.display());
        let found = CertificateDer::pem_file_iter(path).map_err(|error| what(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| what(error.to_string()))?;
            roots.add(certificate).map_err(|error| what(error.to_string()))?;
        }
        return Ok(roots);
    }
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = BUNDLES.iter().map(PathBuf::from).find(|path| path.exists());
    let path = named.or(usual).ok_or("this machine has no list of trusted certificates")?;
    let found = CertificateDer::pem_file_iter(&path)
        .map_err(|error| format!("cannot use the certificates in {}: {error}", path.display()))?;
    // A list may hold one that the library does not take; the others count.
    roots.add_parsable_certificates(found.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(format!("{} holds no certificate", path.display()));
    }
    Ok(roots)
}
