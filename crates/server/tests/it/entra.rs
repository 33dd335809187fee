//! Tokens of a test issuer: what is accepted, and every way in which one is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use std::path::Path;
use std::sync::Arc;

use orrery_server::auth::entra::key_set::{KeyLocation, KeySets};
use orrery_server::auth::entra::{DirectoryPrincipal, DirectorySettings, TokenVerifier};
use orrery_types::{Error, Result, TokenFault, limits};

const NOW_S: u64 = 1_800_000_000;
const OID: &str = "96313034-4739-43cb-93cd-74193adbe5b6";
/// A key of this test alone.
const RSA_KEY: &[u8] = include_bytes!("../../../../testdata/entra/rsa-2048.pk8");

/// An issuer with a key of each kind.
struct TestIssuer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

impl TestIssuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { rsa: RsaKeyPair::from_pkcs8(RSA_KEY).unwrap(), ec }
    }

    fn key_set(&self) -> Value {
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let (n, e) = (BASE64_URL.encode(public.n), BASE64_URL.encode(public.e));
        let point = self.ec.public_key().as_ref();
        json!({ "keys": [
            { "kty": "RSA", "use": "sig", "kid": "rsa", "n": n, "e": e },
            { "kty": "EC", "crv": "P-256", "kid": "ec", "alg": "ES256",
              "x": BASE64_URL.encode(&point[1..33]), "y": BASE64_URL.encode(&point[33..]) },
            { "kty": "oct", "kid": "shared", "k": "c2VjcmV0" },
            { "kty": "RSA", "use": "enc", "kid": "other-use", "n": "AQAB", "e": "AQAB" },
        ]})
    }

    fn verifier(&self) -> TokenVerifier {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&folder.path().join("keys.json"));
        let verifier = TokenVerifier::new(settings.clone());
        verifier.use_keys(&published(&settings, &self.key_set()).unwrap());
        verifier
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = [header, claims].map(|part| BASE64_URL.encode(part.to_string())).join(".");
        let random = SystemRandom::new();
        let signature = if header["kid"] == "ec" {
            self.ec.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec()
        } else {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
            signature
        };
        format!("{signed}.{}", BASE64_URL.encode(signature))
    }
}

fn settings(keys: &Path) -> DirectorySettings {
    DirectorySettings {
        issuers: vec!["https://issuer.example/".into()],
        audiences: vec!["https://db.example".into()],
        key_locations: vec![KeyLocation::File(keys.to_owned())],
        ca: None,
        leeway_s: 300,
        principal_claim: "oid".into(),
        groups_claim: "groups".into(),
        administrators: vec!["ADMINS".into()],
        keys_disabled: false,
    }
}

/// The keys of a document, as a verifier takes them.
fn published(
    settings: &DirectorySettings,
    document: &Value,
) -> std::result::Result<KeySets, String> {
    let [KeyLocation::File(path)] = &settings.key_locations[..] else { panic!("it is a file") };
    std::fs::write(path, document.to_string()).unwrap();
    KeySets::open(settings).map_err(|error| error.to_string())
}

fn header(algorithm: &str, key: &str) -> Value {
    json!({ "typ": "JWT", "alg": algorithm, "kid": key })
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.example/", "aud": "https://db.example", "oid": OID,
        "nbf": NOW_S - 60, "exp": NOW_S + 3600, "groups": ["g1", "g2"],
    })
}

fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn fault(answer: Result<Arc<DirectoryPrincipal>>) -> Option<TokenFault> {
    match answer {
        Ok(_) => None,
        Err(Error::TokenRefused(fault, _)) => Some(fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_signed_token_becomes_its_principal() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    for header in [header("RS256", "rsa"), header("ES256", "ec")] {
        let token = issuer.sign(&header, &claims());
        let principal = verifier.verify(&token, NOW_S).unwrap();
        assert_eq!(principal.ids().collect::<Vec<_>>(), [OID, "g1", "g2"]);
        assert!(!principal.is_administrator());
        // The second time without a signature.
        assert!(Arc::ptr_eq(&principal, &verifier.verify(&token, NOW_S).unwrap()));
    }
    let upper = issuer.sign(&header("ES256", "ec"), &claims_with("oid", OID.to_uppercase().into()));
    assert_eq!(&*verifier.verify(&upper, NOW_S).unwrap().id, OID);
    let several = claims_with("aud", json!(["x", "https://db.example"]));
    assert!(verifier.verify(&issuer.sign(&header("RS256", "rsa"), &several), NOW_S).is_ok());
    let admin = claims_with("groups", json!(["ADMINS"]));
    let admin = verifier.verify(&issuer.sign(&header("ES256", "ec"), &admin), NOW_S).unwrap();
    assert!(admin.is_administrator());
}

#[test]
fn claims_that_are_not_accepted_have_their_fault() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    let leeway = 300;
    for (name, value, expected) in [
        ("exp", json!(NOW_S - leeway), Some(TokenFault::Expired)),
        ("exp", json!(NOW_S - leeway + 1), None),
        ("exp", Value::Null, Some(TokenFault::Expired)),
        ("exp", json!("soon"), Some(TokenFault::Expired)),
        ("exp", json!(-1), Some(TokenFault::Expired)),
        ("exp", json!(1e300), Some(TokenFault::Expired)),
        ("nbf", json!(NOW_S + leeway + 1), Some(TokenFault::NotYetValid)),
        ("nbf", json!(NOW_S + leeway), None),
        ("nbf", json!("now"), Some(TokenFault::NotYetValid)),
        ("nbf", Value::Null, None),
        ("iss", json!("https://evil.example/"), Some(TokenFault::Issuer)),
        ("iss", Value::Null, Some(TokenFault::Issuer)),
        ("iss", json!(["https://issuer.example/"]), Some(TokenFault::Issuer)),
        ("aud", json!("https://cosmos.azure.com"), Some(TokenFault::Audience)),
        ("aud", json!([]), Some(TokenFault::Audience)),
        ("aud", Value::Null, Some(TokenFault::Audience)),
        ("oid", Value::Null, Some(TokenFault::NoPrincipal)),
        ("oid", json!(""), Some(TokenFault::NoPrincipal)),
        (
            "oid",
            json!("x".repeat(limits::PRINCIPAL_ID_BYTES_MAX + 1)),
            Some(TokenFault::NoPrincipal),
        ),
        ("groups", json!("g"), None),
        ("groups", json!(vec!["g"; 10_000]), Some(TokenFault::NotAToken)),
    ] {
        let token = issuer.sign(&header("ES256", "ec"), &claims_with(name, value.clone()));
        assert_eq!(fault(verifier.verify(&token, NOW_S)), expected, "{name} {value}");
    }
    let many = claims_with("groups", json!(vec!["g"; limits::JWT_GROUPS_MAX + 1]));
    let many = verifier.verify(&issuer.sign(&header("ES256", "ec"), &many), NOW_S).unwrap();
    assert_eq!(many.ids().count(), 1 + limits::JWT_GROUPS_MAX);
}

#[test]
fn a_verified_token_expires_all_the_same() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    let token = issuer.sign(&header("RS256", "rsa"), &claims());
    assert_eq!(fault(verifier.verify(&token, NOW_S)), None);
    assert_eq!(fault(verifier.verify(&token, NOW_S + 3600 + 299)), None);
    assert_eq!(fault(verifier.verify(&token, NOW_S + 3600 + 300)), Some(TokenFault::Expired));
}

#[test]
fn a_token_does_not_choose_how_it_is_verified() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    let refused = |token: &str| fault(verifier.verify(token, NOW_S));
    // None, in every spelling, with and without a signature.
    for algorithm in ["none", "None", "NONE", "", "HS256", "HS512", "RS1", "ES384", "EdDSA"] {
        for key in ["rsa", "ec"] {
            let token = issuer.sign(&header(algorithm, key), &claims());
            assert_eq!(refused(&token), Some(TokenFault::Signature), "{algorithm} {key}");
            let bare = token.rsplit_once('.').unwrap().0.to_owned() + ".";
            assert_eq!(refused(&bare), Some(TokenFault::Signature), "{algorithm} {key}");
        }
    }
    // HMAC with the text of the public key, which everybody has.
    let set = issuer.key_set();
    for secret in [set["keys"][0]["n"].as_str().unwrap().to_owned(), set.to_string()] {
        let signed = [header("HS256", "rsa"), claims()].map(|v| BASE64_URL.encode(v.to_string()));
        let signed = signed.join(".");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let signature = BASE64_URL.encode(ring::hmac::sign(&key, signed.as_bytes()));
        assert_eq!(refused(&format!("{signed}.{signature}")), Some(TokenFault::Signature));
    }
    // A key of another kind than the algorithm, and one for another use.
    for (algorithm, key, expected) in [
        ("ES256", "rsa", TokenFault::Signature),
        ("RS256", "ec", TokenFault::Signature),
        ("RS384", "rsa", TokenFault::Signature),
        ("HS256", "shared", TokenFault::UnknownKey),
        ("RS256", "other-use", TokenFault::UnknownKey),
        ("RS256", "", TokenFault::UnknownKey),
    ] {
        let token = issuer.sign(&header(algorithm, key), &claims());
        assert_eq!(refused(&token), Some(expected), "{algorithm} {key}");
    }
    // A key or an address of one inside the token counts for nothing.
    let mut own = header("RS256", "mine");
    own["jwk"] = set["keys"][0].clone();
    own["jku"] = json!("https://evil.example/keys");
    assert_eq!(refused(&issuer.sign(&own, &claims())), Some(TokenFault::UnknownKey));
    let mut critical = header("RS256", "rsa");
    critical["crit"] = json!(["exp"]);
    assert_eq!(refused(&issuer.sign(&critical, &claims())), Some(TokenFault::NotAToken));
}

#[test]
fn a_refusal_repeats_little_of_what_nobody_has_signed() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    // A character that is written with many when it is escaped.
    let long = "\u{7}".repeat(2000);
    for (algorithm, key) in [("RS256", &*long), (&*long, "rsa")] {
        let token = issuer.sign(&header(algorithm, key), &claims());
        match verifier.verify(&token, NOW_S) {
            Err(Error::TokenRefused(_, message)) => assert!(message.len() < 2000, "{message}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_changed_token_is_refused() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    let token = issuer.sign(&header("RS256", "rsa"), &claims());
    let [head, _, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let forged = BASE64_URL.encode(claims_with("oid", json!("root")).to_string());
    let forged = format!("{head}.{forged}.{signature}");
    assert_eq!(fault(verifier.verify(&forged, NOW_S)), Some(TokenFault::Signature));
    for wrong in ["", ".", "..", "a.b", "a.b.c", "e30.e30.e30.e30", "e30..", "W10.e30.AA"] {
        let found = fault(verifier.verify(wrong, NOW_S));
        let is_refused = matches!(found, Some(TokenFault::NotAToken | TokenFault::UnknownKey));
        assert!(is_refused, "{wrong}: {found:?}");
    }
    let long = format!("{token}{}", "A".repeat(limits::JWT_BYTES_MAX));
    assert_eq!(fault(verifier.verify(&long, NOW_S)), Some(TokenFault::NotAToken));
}

#[test]
fn a_token_of_a_withdrawn_key_is_refused_although_it_was_verified() {
    let issuer = TestIssuer::new();
    let verifier = issuer.verifier();
    let token = issuer.sign(&header("RS256", "rsa"), &claims());
    assert_eq!(fault(verifier.verify(&token, NOW_S)), None);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder.path().join("keys.json"));
    let rest = json!({ "keys": [issuer.key_set()["keys"][1]] });
    verifier.use_keys(&published(&settings, &rest).unwrap());
    assert_eq!(fault(verifier.verify(&token, NOW_S)), Some(TokenFault::UnknownKey));
}

#[test]
fn a_document_without_usable_keys_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder.path().join("keys.json"));
    let shared = json!({ "keys": [{ "kty": "oct", "kid": "a", "k": "AA" }] });
    for document in [json!([]), json!({}), json!({ "keys": [] }), shared] {
        let error = published(&settings, &document).map(drop).expect_err("no key");
        assert!(error.contains("keys.json"), "{document}: {error}");
    }
    let huge = json!("x".repeat(limits::JWKS_BYTES_MAX));
    assert!(published(&settings, &huge).is_err());
}
