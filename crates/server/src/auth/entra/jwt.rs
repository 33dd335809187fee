//! A JSON Web Token in its compact form, and the claims that are looked at. Nothing in a token chooses how
//! it is verified but the id of a key, which must be one that is known.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_engine::catalog::role::principal_id;
use orrery_types::{Result, TokenFault, limits};
use serde_json::Value;

use super::{DirectorySettings, refused};

/// A token whose signature is not verified yet.
pub(super) struct Jwt<'t> {
    pub(super) algorithm: String,
    pub(super) key_id: String,
    /// What is signed: header and claims as they were sent.
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
    claims: Vec<u8>,
}

impl<'t> Jwt<'t> {
    /// Reads `header.claims.signature`.
    pub(super) fn parse(token: &'t str) -> Result<Self> {
        let malformed = || {
            let message = "The Entra ID token is not a JSON Web Token: three parts in base64url with \
                           dots between, the first two of which are JSON objects.";
            refused(TokenFault::NotAToken, message)
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed());
        let (signed, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        if claims.contains('.') {
            return Err(malformed());
        }
        let header: Value = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        if !header.is_object() {
            return Err(malformed());
        }
        let text = |name: &str| header[name].as_str().unwrap_or_default().to_owned();
        if !header["crit"].is_null() {
            let message = "The Entra ID token has a header 'crit': it requires an extension that this \
                           server does not have.";
            return Err(refused(TokenFault::NotAToken, message));
        }
        Ok(Self {
            algorithm: text("alg"),
            key_id: text("kid"),
            signed: signed.as_bytes(),
            signature: decode(signature)?,
            claims: decode(claims)?,
        })
    }

    /// The claims; the signature must have been verified.
    pub(super) fn claims(&self, settings: &DirectorySettings) -> Result<Claims> {
        let claims = serde_json::from_slice::<Value>(&self.claims).ok();
        let claims = claims.filter(Value::is_object).ok_or_else(|| {
            refused(
                TokenFault::NotAToken,
                "The claims of the Entra ID token are not a JSON object.",
            )
        })?;
        let issuer = claims["iss"].as_str().unwrap_or_default();
        if !settings.issuers.iter().any(|accepted| accepted == issuer) {
            let message = format!(
                "The issuer '{}' of the Entra ID token is not accepted here.",
                issuer.escape_debug()
            );
            return Err(refused(TokenFault::Issuer, message));
        }
        let audiences = strings(&claims["aud"]);
        if !audiences.iter().any(|audience| settings.audiences.iter().any(|one| one == audience)) {
            let message = format!(
                "The Entra ID token is for the audience '{}', which is not accepted here. Ask for the \
                 scope of this server.",
                audiences.join(" ").escape_debug()
            );
            return Err(refused(TokenFault::Audience, message));
        }
        let principal = claims[&*settings.principal_claim].as_str().map(principal_id);
        let Some(Ok(principal)) = principal else {
            let message = format!(
                "The Entra ID token has no claim '{}' that names its principal.",
                settings.principal_claim
            );
            return Err(refused(TokenFault::NoPrincipal, message));
        };
        let groups = strings(&claims[&*settings.groups_claim]);
        let groups = groups.iter().take(limits::JWT_GROUPS_MAX);
        let groups = groups.filter_map(|group| principal_id(group).ok()).collect();
        Ok(Claims { time: ClaimsTime::read(&claims)?, principal, groups })
    }
}

/// A string, or an array of them.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// What is read from the claims of a genuine token.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) time: ClaimsTime,
    pub(super) principal: Box<str>,
    pub(super) groups: Vec<Box<str>>,
}

/// When a token is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimsTime {
    from_s: u64,
    until_s: u64,
}

impl ClaimsTime {
    #[cfg(test)]
    pub(super) fn until(until_s: u64) -> Self {
        Self { from_s: 0, until_s }
    }

    fn read(claims: &Value) -> Result<Self> {
        let Some(until_s) = seconds(&claims["exp"]) else {
            let message = "The Entra ID token has no claim 'exp': it would be valid for ever.";
            return Err(refused(TokenFault::Expired, message));
        };
        let from = &claims["nbf"];
        let from_s = if from.is_null() { Some(0) } else { seconds(from) };
        let Some(from_s) = from_s else {
            let message = "The claim 'nbf' of the Entra ID token is not a number of seconds.";
            return Err(refused(TokenFault::NotYetValid, message));
        };
        Ok(Self { from_s, until_s })
    }

    pub(super) fn check(self, now_s: u64, leeway_s: u64) -> Result<()> {
        if now_s >= self.until_s.saturating_add(leeway_s) {
            let message = format!(
                "The Entra ID token has expired at {}; it is {now_s} now, in seconds since 1970. Ask \
                 the issuer for a new one.",
                self.until_s
            );
            return Err(refused(TokenFault::Expired, message));
        }
        if now_s.saturating_add(leeway_s) < self.from_s {
            let message = format!(
                "The Entra ID token is valid from {} on; it is {now_s} now, in seconds since 1970. \
                 Check the clocks.",
                self.from_s
            );
            return Err(refused(TokenFault::NotYetValid, message));
        }
        Ok(())
    }
}

/// Seconds since 1970; issuers may send fractions.
fn seconds(value: &Value) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked")]
    let whole = |number: f64| (0.0..9e15).contains(&number).then_some(number as u64);
    value.as_u64().or_else(|| whole(value.as_f64()?))
}
