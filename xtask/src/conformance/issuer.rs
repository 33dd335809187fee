//! A test issuer of tokens, as a directory is one: it makes signing keys of both kinds, publishes them in a key
//! set, signs tokens for the credentials of the suites, and rotates its keys when a test asks for it.
//!
//! | Request | |
//! | --- | --- |
//! | `POST /token` with `principal`, `scope`, `lifetime` in seconds | a token; one whose lifetime is negative has expired |
//! | `POST /keys` | makes a key of the other kind, which signs from now on; earlier keys stay published |
//! | `DELETE /keys` | withdraws every key but the one that signs |

use crate::stopwatch;
use anyhow::{Context as _, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The `iss` of its tokens.
pub(super) const ISSUER: &str = "https://issuer.example/tenant/v2.0";
/// What a scope adds to the audience that it asks for.
const SCOPE_SUFFIX: &str = "/.default";
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 10_000;
/// A token is valid from a little earlier, because clocks differ.
const EARLY_S: i64 = 60;

/// The issuer, which answers until the process ends.
pub(super) struct Issuer {
    endpoint: String,
    key_set: PathBuf,
}

impl Issuer {
    /// Makes a first key, publishes it in a file, and listens.
    pub(super) fn start(key_set: PathBuf) -> Result<Self> {
        let mut keys = Keys { published: Vec::new(), made: 0, path: key_set.clone() };
        keys.rotate()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let endpoint = format!("http://{}/", listener.local_addr()?);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that breaks off fails its own test.
                let _ = keys.serve(stream);
            }
        });
        Ok(Self { endpoint, key_set })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The file with the public keys.
    pub(super) fn key_set(&self) -> &Path {
        &self.key_set
    }
}

/// The keys that are published; the last one signs.
struct Keys {
    published: Vec<SigningKey>,
    made: usize,
    path: PathBuf,
}

impl Keys {
    fn serve(&mut self, mut stream: TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(REQUEST_LIMIT))?;
        let (target, body) = read_request(&stream)?;
        let (status, answer) = match self.answer(&target, &body) {
            Ok(answer) => ("200 OK", answer),
            Err(error) => ("400 Bad Request", json!({ "error": format!("{error:#}") })),
        };
        let text = answer.to_string();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        )?;
        Ok(())
    }

    fn answer(&mut self, target: &str, body: &[u8]) -> Result<Value> {
        match target {
            "POST /token" => self.token(&serde_json::from_slice(body)?),
            "POST /keys" => self.rotate(),
            "DELETE /keys" => self.withdraw(),
            _ => Err(anyhow!("there is no {target}")),
        }
    }

    fn token(&self, asked: &Value) -> Result<Value> {
        let text = |name: &str| asked[name].as_str().with_context(|| format!("{name} is missing"));
        let (principal, scope) = (text("principal")?, text("scope")?);
        let audience = scope
            .strip_suffix(SCOPE_SUFFIX)
            .with_context(|| format!("the scope {scope} does not end with {SCOPE_SUFFIX}"))?;
        let lifetime_s = asked["lifetime"].as_i64().context("lifetime is missing")?;
        let now_s = stopwatch::unix_time_s()?;
        let expiry_s = now_s + lifetime_s;
        let starts_s = now_s.min(expiry_s) - EARLY_S;
        let claims = json!({
            "iss": ISSUER, "aud": audience, "oid": principal, "sub": principal,
            "iat": starts_s, "nbf": starts_s, "exp": expiry_s,
        });
        let key = self.published.last().context("there is no key")?;
        Ok(json!({ "access_token": key.token(&claims)?, "expires_on": expiry_s }))
    }

    /// Makes a key of the kind that does not sign now.
    fn rotate(&mut self) -> Result<Value> {
        let material = match self.published.last().map(|key| &key.material) {
            Some(Material::Rsa(_)) => Material::elliptic()?,
            _ => Material::rsa()?,
        };
        self.made += 1;
        let id = format!("key-{}", self.made);
        self.published.push(SigningKey { id: id.clone(), material });
        self.publish()?;
        Ok(json!({ "kid": id }))
    }

    fn withdraw(&mut self) -> Result<Value> {
        let outdated = self.published.len() - 1;
        self.published.drain(..outdated);
        self.publish()?;
        Ok(json!({}))
    }

    /// Writes the public keys; a reader finds the old file or the new one.
    fn publish(&self) -> Result<()> {
        let keys: Vec<Value> = self.published.iter().map(SigningKey::public).collect();
        let new = self.path.with_extension("new");
        fs::write(&new, json!({ "keys": keys }).to_string())
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// The method and path of a request, and its body.
fn read_request(stream: &TcpStream) -> Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream.take(BODY_BYTES_MAX as u64));
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let target = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    ensure!(length <= BODY_BYTES_MAX, "the body has {length} bytes");
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((target, body))
}

struct SigningKey {
    id: String,
    material: Material,
}

enum Material {
    Rsa(RsaKeyPair),
    Elliptic(EcdsaKeyPair),
}

impl Material {
    /// The library that signs makes no RSA keys; `openssl` does. Its PEM is PKCS #8 in every version, its DER
    /// is not.
    fn rsa() -> Result<Self> {
        let mut openssl = Command::new("openssl");
        openssl.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
        let made = openssl.output().context("openssl is needed for keys (Debian: openssl)")?;
        ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        let text = String::from_utf8(made.stdout)?;
        let lines = text.lines().filter(|line| !line.starts_with("-----"));
        let pair = RsaKeyPair::from_pkcs8(&BASE64.decode(lines.collect::<String>())?);
        Ok(Self::Rsa(pair.map_err(|e| anyhow!("openssl made a key that is none: {e}"))?))
    }

    fn elliptic() -> Result<Self> {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
            .map_err(|_| anyhow!("the system has no randomness"))?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random);
        Ok(Self::Elliptic(pair.map_err(|e| anyhow!("a new key is none: {e}"))?))
    }
}

impl SigningKey {
    /// The key as a key set has it.
    fn public(&self) -> Value {
        match &self.material {
            Material::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                let (n, e) = (BASE64_URL.encode(public.n), BASE64_URL.encode(public.e));
                json!({ "kty": "RSA", "use": "sig", "kid": self.id, "n": n, "e": e })
            }
            Material::Elliptic(pair) => {
                // One byte says that both coordinates follow, which have 32 each.
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (BASE64_URL.encode(x), BASE64_URL.encode(y));
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": x, "y": y })
            }
        }
    }

    fn token(&self, claims: &Value) -> Result<String> {
        let algorithm = match &self.material {
            Material::Rsa(_) => "RS256",
            Material::Elliptic(_) => "ES256",
        };
        let header = json!({ "typ": "JWT", "alg": algorithm, "kid": self.id });
        let signed = [&header, claims].map(|part| BASE64_URL.encode(part.to_string())).join(".");
        let (random, refused) = (SystemRandom::new(), |_| anyhow!("the key does not sign"));
        let signature = match &self.material {
            Material::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                    .map_err(refused)?;
                signature
            }
            Material::Elliptic(pair) => {
                pair.sign(&random, signed.as_bytes()).map_err(refused)?.as_ref().to_vec()
            }
        };
        Ok(format!("{signed}.{}", BASE64_URL.encode(signature)))
    }
}
