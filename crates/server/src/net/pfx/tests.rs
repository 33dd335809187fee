//! Files that OpenSSL has made, whole, cut, changed and with another password.

use orrery_types::limits::PFX_ITERATIONS_MAX;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::*;

const AES: &[u8] = include_bytes!("../../../../../testdata/tls/aes.pfx");
const AES_128: &[u8] = include_bytes!("../../../../../testdata/tls/aes128.pfx");
const TRIPLE_DES: &[u8] = include_bytes!("../../../../../testdata/tls/triple-des.pfx");
const PLAIN: &[u8] = include_bytes!("../../../../../testdata/tls/plain.pfx");
const RC2: &[u8] = include_bytes!("../../../../../testdata/tls/rc2.pfx");
const NO_KEY: &[u8] = include_bytes!("../../../../../testdata/tls/no-key.pfx");
const LEAF: &[u8] = include_bytes!("../../../../../testdata/tls/leaf.pem");
const KEY: &[u8] = include_bytes!("../../../../../testdata/tls/leaf.key.pem");

#[test]
fn every_form_gives_the_certificate_and_its_key() {
    let leaf = CertificateDer::from_pem_slice(LEAF).unwrap();
    let key = PrivatePkcs8KeyDer::from_pem_slice(KEY).unwrap();
    for (file, password, certificates) in
        [(AES, "secret", 2), (AES_128, "Grüße", 1), (TRIPLE_DES, "", 2), (PLAIN, "", 1)]
    {
        let identity = read(file, password).unwrap();
        assert_eq!(identity.chain.len(), certificates);
        assert_eq!(identity.chain[0], leaf.as_ref());
        assert_eq!(identity.key, key.secret_pkcs8_der());
        let pem = identity.chain_pem();
        assert!(pem.as_bytes().starts_with(LEAF), "{pem}");
    }
}

#[track_caller]
fn check_refused(file: &[u8], password: &str, expected: PfxError) {
    assert_eq!(read(file, password).unwrap_err(), expected);
}

#[test]
fn what_cannot_be_used_is_refused_with_its_reason() {
    check_refused(AES, "Secret", PfxError::Password);
    check_refused(AES, "", PfxError::Password);
    check_refused(TRIPLE_DES, "secret", PfxError::Password);
    check_refused(RC2, "secret", PfxError::Scheme);
    check_refused(NO_KEY, "secret", PfxError::Incomplete);
    check_refused(LEAF, "", PfxError::Form);
    check_refused(b"", "", PfxError::Form);
}

#[test]
fn a_file_that_is_cut_or_changed_anywhere_is_refused_or_gives_something_and_never_panics() {
    for file in [AES, TRIPLE_DES, PLAIN] {
        for end in 0..file.len() {
            assert!(read(&file[..end], "secret").is_err(), "cut at {end}");
        }
    }
    // Without a code the change may hit the certificate itself, which TLS refuses later.
    for at in 0..PLAIN.len() {
        let mut changed = PLAIN.to_vec();
        changed[at] ^= 0xff;
        let _ = read(&changed, "");
    }
}

#[test]
fn rounds_are_limited() {
    let mac = |rounds: u32| {
        let rounds = rounds.to_be_bytes();
        let mut file = b"\x30\x15\x30\x0b\x30\x07\x06\x05\x2b\x0e\x03\x02\x1a\x04\x00".to_vec();
        file.extend_from_slice(b"\x04\x00\x02\x04");
        file.extend_from_slice(&rounds);
        cipher::check(Der(&file).expect(SEQUENCE).unwrap(), b"", "")
    };
    assert_eq!(mac(PFX_ITERATIONS_MAX + 1), Err(PfxError::TooManyRounds(PFX_ITERATIONS_MAX + 1)));
    // At the limit it is only slow; one round shows that the form is right.
    assert_eq!(mac(1), Err(PfxError::Password));
}
