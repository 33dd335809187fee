//! Public keys of issuers, out of JSON Web Key sets. A key verifies the algorithms of its own type alone,
//! and there is no code here for `none` or for HMAC: a token cannot make a public key a shared secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_types::limits;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::jwt::Jwt;

/// A key that signatures are verified with.
#[derive(Clone, Debug)]
pub(super) struct SigningKey {
    /// What tokens call it.
    pub(super) id: String,
    /// The only algorithm it is for, if the issuer says so.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, Debug)]
enum KeyMaterial {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

impl SigningKey {
    /// Every usable key of a set; what is for something else is left out.
    pub(super) fn read_set(text: &[u8]) -> Result<Vec<Self>, String> {
        let set: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let keys = set["keys"].as_array().ok_or("it has no array 'keys'")?;
        let usable: Vec<Self> =
            keys.iter().filter_map(Self::read).take(limits::JWKS_KEYS_MAX).collect();
        if usable.is_empty() {
            return Err("it has no key that can verify RS, PS or ES signatures".to_owned());
        }
        Ok(usable)
    }

    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key[name].as_str();
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let fits = x.len() == length && y.len() == length;
            fits.then(|| [&[4], &x[..], &y[..]].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyMaterial::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            _ => return None,
        };
        let id = text("kid").filter(|id| !id.is_empty())?.to_owned();
        Some(Self { id, algorithm: text("alg").map(str::to_owned), material })
    }

    /// Whether the signature of a token is this key's.
    pub(super) fn verifies(&self, jwt: &Jwt<'_>) -> bool {
        if self.algorithm.as_ref().is_some_and(|only| *only != jwt.algorithm) {
            return false;
        }
        let (signed, by) = (jwt.signed, &jwt.signature);
        match &self.material {
            KeyMaterial::Rsa { n, e } => {
                let Some(parameters) = rsa_parameters(&jwt.algorithm) else { return false };
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, by).is_ok()
            }
            KeyMaterial::P256(point) if jwt.algorithm == "ES256" => {
                let algorithm = &signature::ECDSA_P256_SHA256_FIXED;
                UnparsedPublicKey::new(algorithm, point).verify(signed, by).is_ok()
            }
            KeyMaterial::P384(point) if jwt.algorithm == "ES384" => {
                let algorithm = &signature::ECDSA_P384_SHA384_FIXED;
                UnparsedPublicKey::new(algorithm, point).verify(signed, by).is_ok()
            }
            KeyMaterial::P256(_) | KeyMaterial::P384(_) => false,
        }
    }
}

/// Keys of fewer than 2048 bits are refused by all of them.
fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}
