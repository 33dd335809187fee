//! Passwords of PKCS #12 files: keys derived from them, checks and decryption. The schemes are those that
//! OpenSSL 3 and .NET write (PBES2 with AES), and the older one with Triple-DES.

use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use orrery_types::limits::PFX_ITERATIONS_MAX;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

use super::PfxError;
use super::der::{Der, OCTET_STRING, OID, SEQUENCE};

const PBES2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d";
const PBKDF2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c";
const SHA1_AND_3DES: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x03";
const AES_128: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x02";
const AES_192: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x16";
const AES_256: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x2a";
const TRIPLE_DES: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x03\x07";
const HMAC_SHA1: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x02\x07";
const HMAC_SHA256: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x02\x09";
const HMAC_SHA384: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x02\x0a";
const HMAC_SHA512: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x02\x0b";
const SHA1: &[u8] = b"\x2b\x0e\x03\x02\x1a";
const SHA256: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x01";
const SHA384: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x02";
const SHA512: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x03";

/// What a derived key is for, as the derivation of PKCS #12 numbers it.
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// Decrypts by an algorithm identifier: the name of a scheme and its parameters.
pub(super) fn decrypt(
    mut algorithm: Der<'_>,
    encrypted: &[u8],
    password: &str,
) -> Result<Vec<u8>, PfxError> {
    let scheme = algorithm.expect(OID)?.0;
    let mut parameters = algorithm.expect(SEQUENCE)?;
    match scheme {
        PBES2 => decrypt_pbes2(parameters, encrypted, password),
        SHA1_AND_3DES => {
            let salt = parameters.expect(OCTET_STRING)?.0;
            let rounds = rounds(&mut parameters)?;
            let hash = Hash::of(SHA1)?;
            let derived = |purpose, bytes| hash.derive(password, salt, rounds, purpose, bytes);
            let (key, iv) = (derived(Purpose::Key, 24), derived(Purpose::Iv, 8));
            unpad::<cbc::Decryptor<des::TdesEde3>>(&key, &iv, encrypted)
        }
        _ => Err(PfxError::Scheme),
    }
}

fn decrypt_pbes2(
    mut parameters: Der<'_>,
    encrypted: &[u8],
    password: &str,
) -> Result<Vec<u8>, PfxError> {
    let mut derivation = parameters.expect(SEQUENCE)?;
    let mut encryption = parameters.expect(SEQUENCE)?;
    if derivation.expect(OID)?.0 != PBKDF2 {
        return Err(PfxError::Scheme);
    }
    let mut settings = derivation.expect(SEQUENCE)?;
    let salt = settings.expect(OCTET_STRING)?.0;
    let rounds = rounds(&mut settings)?;
    settings.find(super::der::INTEGER)?;
    let function = match settings.find(SEQUENCE)? {
        None => HMAC_SHA1,
        Some(mut function) => function.expect(OID)?.0,
    };
    let function = match function {
        HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
        HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
        HMAC_SHA384 => pbkdf2::PBKDF2_HMAC_SHA384,
        HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
        _ => return Err(PfxError::Scheme),
    };
    let cipher = encryption.expect(OID)?.0;
    let iv = encryption.expect(OCTET_STRING)?.0;
    let key = |bytes| {
        let mut key = vec![0; bytes];
        pbkdf2::derive(function, rounds, salt, password.as_bytes(), &mut key);
        key
    };
    match cipher {
        AES_128 => unpad::<cbc::Decryptor<aes::Aes128>>(&key(16), iv, encrypted),
        AES_192 => unpad::<cbc::Decryptor<aes::Aes192>>(&key(24), iv, encrypted),
        AES_256 => unpad::<cbc::Decryptor<aes::Aes256>>(&key(32), iv, encrypted),
        TRIPLE_DES => unpad::<cbc::Decryptor<des::TdesEde3>>(&key(24), iv, encrypted),
        _ => Err(PfxError::Scheme),
    }
}

/// Wrong padding is what a wrong password looks like.
fn unpad<D: KeyIvInit + BlockModeDecrypt>(
    key: &[u8],
    iv: &[u8],
    encrypted: &[u8],
) -> Result<Vec<u8>, PfxError> {
    let cipher = D::new_from_slices(key, iv).map_err(|_| PfxError::Form)?;
    cipher.decrypt_padded_vec::<Pkcs7>(encrypted).map_err(|_| PfxError::Password)
}

/// The number of rounds, within the limit.
fn rounds(parameters: &mut Der<'_>) -> Result<NonZeroU32, PfxError> {
    let rounds = parameters.number()?;
    if rounds > PFX_ITERATIONS_MAX {
        return Err(PfxError::TooManyRounds(rounds));
    }
    NonZeroU32::new(rounds).ok_or(PfxError::Form)
}

/// Checks the code over the content. One of an unknown form is left to the decryption, which fails as
/// well when the password is wrong.
pub(super) fn check(mac: Der<'_>, content: &[u8], password: &str) -> Result<(), PfxError> {
    let mut mac = mac;
    let mut digest_info = mac.expect(SEQUENCE)?;
    let name = digest_info.expect(SEQUENCE)?.expect(OID)?.0;
    let expected = digest_info.expect(OCTET_STRING)?.0;
    let salt = mac.expect(OCTET_STRING)?.0;
    let one = NonZeroU32::MIN;
    let rounds = if mac.is_empty() { one } else { rounds(&mut mac)? };
    let Ok(hash) = Hash::of(name) else { return Ok(()) };
    let key = hash.derive(password, salt, rounds, Purpose::Mac, hash.digest.output_len());
    let key = hmac::Key::new(hash.mac, &key);
    hmac::verify(&key, content, expected).map_err(|_| PfxError::Password)
}

/// A hash function, with and without a key.
struct Hash {
    digest: &'static digest::Algorithm,
    mac: hmac::Algorithm,
}

impl Hash {
    fn of(name: &[u8]) -> Result<Self, PfxError> {
        let (digest, mac) = match name {
            SHA1 => (&digest::SHA1_FOR_LEGACY_USE_ONLY, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            SHA256 => (&digest::SHA256, hmac::HMAC_SHA256),
            SHA384 => (&digest::SHA384, hmac::HMAC_SHA384),
            SHA512 => (&digest::SHA512, hmac::HMAC_SHA512),
            _ => return Err(PfxError::Scheme),
        };
        Ok(Self { digest, mac })
    }

    /// The derivation of RFC 7292, appendix B.2: hash diversifier, salt and password, each filled up to
    /// whole blocks, so many times, and change the input for the next part of the key.
    fn derive(
        &self,
        password: &str,
        salt: &[u8],
        rounds: NonZeroU32,
        purpose: Purpose,
        bytes: usize,
    ) -> Vec<u8> {
        let block = self.digest.block_len();
        let password: Vec<u8> =
            password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect();
        let fill = |text: &[u8]| -> Vec<u8> {
            text.iter().copied().cycle().take(text.len().next_multiple_of(block)).collect()
        };
        let mut input = [fill(salt), fill(&password)].concat();
        let diversifier = vec![purpose as u8; block];
        let mut key = Vec::new();
        while key.len() < bytes {
            let mut hash = digest::digest(self.digest, &[&diversifier[..], &input].concat());
            for _ in 1..rounds.get() {
                hash = digest::digest(self.digest, hash.as_ref());
            }
            key.extend_from_slice(hash.as_ref());
            let addend: Vec<u8> = hash.as_ref().iter().copied().cycle().take(block).collect();
            for chunk in input.chunks_mut(block) {
                add_one_and(chunk, &addend);
            }
        }
        key.truncate(bytes);
        key
    }
}

/// Adds a number and one, both as long as the place is; what overflows is dropped.
fn add_one_and(place: &mut [u8], addend: &[u8]) {
    let mut carry = 1_u16;
    for (byte, add) in place.iter_mut().zip(addend).rev() {
        carry += u16::from(*byte) + u16::from(*add);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
}
