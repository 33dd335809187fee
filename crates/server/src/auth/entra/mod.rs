//! Sign-in with tokens of a directory: JSON Web Tokens that an OIDC issuer has signed.
//! [`TokenVerifier`] makes a [`DirectoryPrincipal`] of one; what the principal may do, roles say.
//!
//! `jwt` reads a token and its claims, `signing_key` are the issuer's public keys, `key_set` says where they
//! come from and fetches them again. Verification waits for nothing: a token whose key is unknown is
//! refused, and the keys are fetched in the background. [docs/entra.md](../../../../../docs/entra.md).

pub mod key_set;
mod jwt;
mod fetch;
mod signing_key;
mod verified_tokens;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use orrery_engine::catalog::role::principal_id;
use orrery_types::{Error, Result, TokenFault, limits};

use self::jwt::{Claims, Jwt};
use self::key_set::KeyLocation;
use self::signing_key::SigningKey;
use self::verified_tokens::VerifiedTokens;

/// Which tokens are accepted, and what is read from them.
#[derive(Clone, Debug)]
pub struct DirectorySettings {
    /// Issuers; each is trusted like any other.
    pub issuers: Vec<String>,
    /// Audiences, one of which a token must be for.
    pub audiences: Vec<String>,
    /// Where the issuers publish their signing keys.
    pub key_locations: Vec<KeyLocation>,
    /// Certificates by which https locations are trusted, if not by the system's.
    pub ca: Option<PathBuf>,
    /// By how many seconds clocks may differ.
    pub leeway_s: u64,
    /// The claim that names the principal.
    pub principal_claim: String,
    /// The claim that names its groups.
    pub groups_claim: String,
    /// Principals and groups that may do what a read-write key may.
    pub administrators: Vec<String>,
    /// Whether its tokens are the only credentials: keys, and what is signed with them, are refused.
    pub keys_disabled: bool,
}

/// The holder of a token.
#[derive(Debug, PartialEq, Eq)]
pub struct DirectoryPrincipal {
    /// Who it is.
    pub id: Box<str>,
    /// The groups it belongs to.
    groups: Vec<Box<str>>,
    is_administrator: bool,
}

impl DirectoryPrincipal {
    /// Whether it may do what a read-write key may.
    pub fn is_administrator(&self) -> bool {
        self.is_administrator
    }

    /// Itself and its groups: each may have roles.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.id).chain(self.groups.iter().map(|group| &**group))
    }
}

/// Verifies tokens.
pub struct TokenVerifier {
    settings: DirectorySettings,
    /// The administrators, as principals are compared.
    administrators: Vec<Box<str>>,
    keys: ArcSwap<Vec<SigningKey>>,
    /// Whether a token has named a key that is not known, since the keys were fetched.
    has_missed: AtomicBool,
    verified: Mutex<VerifiedTokens>,
}

impl TokenVerifier {
    /// Whether tokens are the only credentials.
    pub(crate) fn keys_disabled(&self) -> bool {
        self.settings.keys_disabled
    }

    /// A verifier without keys yet.
    pub fn new(settings: DirectorySettings) -> Self {
        let normal = |text: &String| principal_id(text).unwrap_or_else(|_| text.as_str().into());
        let administrators = settings.administrators.iter().map(normal).collect();
        Self {
            settings,
            administrators,
            keys: ArcSwap::default(),
            has_missed: AtomicBool::new(false),
            verified: Mutex::default(),
        }
    }

    /// Takes other keys. Tokens that are verified already are verified anew: their key may be withdrawn.
    fn replace_keys(&self, keys: Vec<SigningKey>) {
        self.keys.store(Arc::new(keys));
        self.has_missed.store(false, Ordering::Relaxed);
        *self.verified() = VerifiedTokens::default();
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, VerifiedTokens> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The holder of a token, at this second.
    pub fn verify(&self, token: &str, now_s: u64) -> Result<Arc<DirectoryPrincipal>> {
        if token.len() > limits::JWT_BYTES_MAX {
            let message = format!(
                "The Entra ID token has {} bytes; {} are accepted.",
                token.len(),
                limits::JWT_BYTES_MAX
            );
            return Err(refused(TokenFault::NotAToken, message));
        }
        let digest = VerifiedTokens::digest(token);
        let known = self.verified().get(&digest);
        if let Some((claims_time, principal)) = known {
            claims_time.check(now_s, self.settings.leeway_s)?;
            return Ok(principal);
        }
        // Keys that are replaced meanwhile must not leave a token of theirs among the verified ones.
        let keys = self.keys.load_full();
        let (claims, principal) = self.verify_anew(token, &keys, now_s)?;
        let principal = Arc::new(principal);
        let mut verified = self.verified();
        if Arc::ptr_eq(&keys, &self.keys.load()) {
            verified.insert(digest, claims.time, principal.clone());
        }
        Ok(principal)
    }

    /// The signature comes first: only the holder of a genuine token learns what else is wrong with it.
    fn verify_anew(
        &self,
        token: &str,
        keys: &[SigningKey],
        now_s: u64,
    ) -> Result<(Claims, DirectoryPrincipal)> {
        let jwt = Jwt::parse(token)?;
        let mut candidates = keys.iter().filter(|key| key.id == jwt.key_id).peekable();
        if candidates.peek().is_none() {
            self.has_missed.store(true, Ordering::Relaxed);
            let message = format!(
                "The Entra ID token is signed with the key '{}', which none of the issuers publishes. \
                 Keys that were published lately are known within a minute; try again then.",
                quoted(&jwt.key_id)
            );
            return Err(refused(TokenFault::UnknownKey, message));
        }
        if !candidates.any(|key| key.verifies(&jwt)) {
            let message = format!(
                "The signature of the Entra ID token (algorithm '{}') is not one of the key that it \
                 names.",
                quoted(&jwt.algorithm)
            );
            return Err(refused(TokenFault::Signature, message));
        }
        let claims = jwt.claims(&self.settings)?;
        claims.time.check(now_s, self.settings.leeway_s)?;
        let mut principal = DirectoryPrincipal {
            id: claims.principal.clone(),
            groups: claims.groups.clone(),
            is_administrator: false,
        };
        let is_listed = |id: &str| self.administrators.iter().any(|one| **one == *id);
        let is_administrator = principal.ids().any(is_listed);
        principal.is_administrator = is_administrator;
        Ok((claims, principal))
    }
}

/// The beginning of a text out of a token that nobody has vouched for, as a message may show it.
fn quoted(text: &str) -> String {
    text.chars().take(limits::JWT_QUOTED_CHARS_MAX).flat_map(char::escape_debug).collect()
}

/// The refusal of a token.
pub(crate) fn refused(fault: TokenFault, message: impl Into<Box<str>>) -> Error {
    Error::TokenRefused(fault, message.into())
}
