//! Certificate and private key of a PKCS #12 file (.pfx, .p12), which is how .NET and the emulator's image
//! pass a certificate along. `tls` calls [`read`].
//!
//! ```text
//! PFX ─ content ─ list of safes, each plain or encrypted ─ bags: certificates, and the shrouded key
//!     └ code over the content, by which a wrong password is recognised
//! ```

mod cipher;
mod der;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use der::{Der, EXPLICIT_0, IMPLICIT_0, OCTET_STRING, OID, SEQUENCE, SET};
use orrery_types::limits::PFX_ITERATIONS_MAX;

const DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
const ENCRYPTED_DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x06";
const KEY_BAG: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x01";
const SHROUDED_KEY_BAG: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x02";
const CERTIFICATE_BAG: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x03";
const X509: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x16\x01";
const LOCAL_KEY_ID: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x15";

/// Why a file gives no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PfxError {
    #[error("it is not a PKCS #12 file")]
    Form,
    #[error("the password is wrong")]
    Password,
    #[error("its encryption is not known here; export it with AES-256 or Triple-DES")]
    Scheme,
    #[error("its key takes {0} rounds to derive, and {PFX_ITERATIONS_MAX} is the limit")]
    TooManyRounds(u32),
    #[error("it holds no private key with its certificate")]
    Incomplete,
}

/// A private key in PKCS #8, and its certificate before those that vouch for it, all in DER.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) key: Vec<u8>,
}

impl Identity {
    /// The certificates as clients are given them.
    pub(crate) fn chain_pem(&self) -> String {
        let mut text = String::new();
        for certificate in &self.chain {
            text += "-----BEGIN CERTIFICATE-----\n";
            let encoded = BASE64.encode(certificate);
            let mut rest = encoded.as_str();
            while !rest.is_empty() {
                let (line, more) = rest.split_at(rest.len().min(64));
                text += line;
                text.push('\n');
                rest = more;
            }
            text += "-----END CERTIFICATE-----\n";
        }
        text
    }
}

/// Reads a file that a password protects; an empty password is one, too.
pub(crate) fn read(bytes: &[u8], password: &str) -> Result<Identity, PfxError> {
    let mut file = Der(bytes).expect(SEQUENCE)?;
    file.number()?;
    let content = data(&mut file.expect(SEQUENCE)?)?;
    if !file.is_empty() {
        cipher::check(file.expect(SEQUENCE)?, content.0, password)?;
    }
    let mut bags = Bags::default();
    let mut safes = Der(content.0).expect(SEQUENCE)?;
    while !safes.is_empty() {
        let mut safe = safes.expect(SEQUENCE)?;
        if safe.0.starts_with(&name(ENCRYPTED_DATA)) {
            let decrypted = decrypted_safe(&mut safe, password)?;
            bags.read(&decrypted, password)?;
        } else {
            bags.read(data(&mut safe)?.0, password)?;
        }
    }
    bags.identity()
}

/// A name as it stands in a file.
fn name(oid: &[u8]) -> Vec<u8> {
    let length = u8::try_from(oid.len()).unwrap_or(u8::MAX);
    [&[OID, length], oid].concat()
}

/// The content of a `ContentInfo` that is plain data.
fn data<'a>(info: &mut Der<'a>) -> Result<Der<'a>, PfxError> {
    if info.expect(OID)?.0 != DATA {
        return Err(PfxError::Scheme);
    }
    info.expect(EXPLICIT_0)?.expect(OCTET_STRING)
}

fn decrypted_safe(safe: &mut Der<'_>, password: &str) -> Result<Vec<u8>, PfxError> {
    safe.expect(OID)?;
    let mut encrypted_data = safe.expect(EXPLICIT_0)?.expect(SEQUENCE)?;
    encrypted_data.number()?;
    let mut content = encrypted_data.expect(SEQUENCE)?;
    content.expect(OID)?;
    let algorithm = content.expect(SEQUENCE)?;
    cipher::decrypt(algorithm, content.expect(IMPLICIT_0)?.0, password)
}

/// What the bags hold, each with the id by which a key names its certificate.
#[derive(Default)]
struct Bags {
    keys: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    certificates: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Bags {
    fn read(&mut self, safe: &[u8], password: &str) -> Result<(), PfxError> {
        let mut safe = Der(safe).expect(SEQUENCE)?;
        while !safe.is_empty() {
            let mut bag = safe.expect(SEQUENCE)?;
            let kind = bag.expect(OID)?.0;
            let mut value = bag.expect(EXPLICIT_0)?;
            let id = local_key_id(bag)?;
            match kind {
                KEY_BAG => self.keys.push((value.0.to_vec(), id)),
                SHROUDED_KEY_BAG => {
                    let mut shrouded = value.expect(SEQUENCE)?;
                    let algorithm = shrouded.expect(SEQUENCE)?;
                    let encrypted = shrouded.expect(OCTET_STRING)?.0;
                    self.keys.push((cipher::decrypt(algorithm, encrypted, password)?, id));
                }
                CERTIFICATE_BAG => {
                    let mut certificate = value.expect(SEQUENCE)?;
                    if certificate.expect(OID)?.0 == X509 {
                        let bytes = certificate.expect(EXPLICIT_0)?.expect(OCTET_STRING)?;
                        self.certificates.push((bytes.0.to_vec(), id));
                    }
                }
                // Revocation lists and secrets of other kinds.
                _ => {}
            }
        }
        Ok(())
    }

    /// The first key with its certificate. Where no id names it, the first certificate is meant.
    fn identity(mut self) -> Result<Identity, PfxError> {
        if self.keys.is_empty() || self.certificates.is_empty() {
            return Err(PfxError::Incomplete);
        }
        let (key, id) = self.keys.swap_remove(0);
        let own = self.certificates.iter().position(|(_, found)| id.is_some() && *found == id);
        let own = self.certificates.remove(own.unwrap_or(0));
        let chain = std::iter::once(own).chain(self.certificates);
        Ok(Identity { chain: chain.map(|(bytes, _)| bytes).collect(), key })
    }
}

/// The id among the attributes of a bag.
fn local_key_id(mut bag: Der<'_>) -> Result<Option<Vec<u8>>, PfxError> {
    let Some(mut attributes) = bag.find(SET)? else { return Ok(None) };
    while !attributes.is_empty() {
        let mut attribute = attributes.expect(SEQUENCE)?;
        if attribute.expect(OID)?.0 == LOCAL_KEY_ID {
            return Ok(Some(attribute.expect(SET)?.expect(OCTET_STRING)?.0.to_vec()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
