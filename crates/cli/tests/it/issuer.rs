//! An issuer of tokens, as a directory is one: a key pair, the document that publishes the public key, and
//! tokens signed with the other one.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use orrery_server::auth::entra::key_set::{KeyLocation, KeySets};
use orrery_server::auth::entra::{DirectorySettings, TokenVerifier};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://issuer.example/tenant/v2.0";
pub(crate) const AUDIENCE: &str = "https://db.example";

pub(crate) struct TestIssuer {
    key: EcdsaKeyPair,
    key_id: String,
}

impl TestIssuer {
    pub(crate) fn new() -> Self {
        Self::with_key_id("k1")
    }

    pub(crate) fn with_key_id(key_id: &str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { key, key_id: key_id.to_owned() }
    }

    /// The document that publishes the key.
    pub(crate) fn key_set(&self) -> String {
        let point = self.key.public_key().as_ref();
        let (x, y) = (BASE64_URL.encode(&point[1..33]), BASE64_URL.encode(&point[33..]));
        let key = json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.key_id, "x": x, "y": y
        });
        json!({ "keys": [key] }).to_string()
    }

    pub(crate) fn write_key_set(&self, path: &Path) {
        orrery_files::replace(path, self.key_set().as_bytes(), orrery_files::FileAccess::Owner)
            .unwrap();
    }

    /// A verifier of its tokens.
    pub(crate) fn verifier(&self) -> TokenVerifier {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwks.json");
        self.write_key_set(&path);
        let settings = DirectorySettings {
            issuers: vec![ISSUER.into()],
            audiences: vec![AUDIENCE.into()],
            key_locations: vec![KeyLocation::File(path)],
            ca: None,
            leeway_s: 300,
            principal_claim: "oid".into(),
            groups_claim: "groups".into(),
            administrators: vec![],
            keys_disabled: false,
        };
        let keys = KeySets::open(&settings).unwrap();
        let verifier = TokenVerifier::new(settings);
        verifier.use_keys(&keys);
        verifier
    }

    /// The claims of a token that is valid for an hour.
    pub(crate) fn claims(principal: &str, now_s: u64) -> Value {
        json!({
            "iss": ISSUER, "aud": AUDIENCE, "oid": principal, "nbf": now_s, "exp": now_s + 3600
        })
    }

    pub(crate) fn token(&self, principal: &str, now_s: u64) -> String {
        self.sign(&Self::claims(principal, now_s))
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({ "typ": "JWT", "alg": "ES256", "kid": self.key_id });
        let signed = [&header, claims].map(|part| BASE64_URL.encode(part.to_string())).join(".");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL.encode(signature))
    }
}
