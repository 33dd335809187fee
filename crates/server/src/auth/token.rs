//! Resource tokens: what a permission hands to a client that must not have a key. `engine` says
//! what a permission allows, [`TokenIssuer`] writes it down and signs it, `auth` reads it back.
//!
//! ```text
//! type=resource&ver=1&sig=<base64 of signature>;<base64 of claims>;
//! ```
//! The claims are JSON with a format number. Clients carry the text and never look into it. There
//! is no list of tokens: one is good until it expires, the key that signs tokens is replaced, or the
//! permission it was issued for is gone or allows something else (`handlers/grant`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use orrery_types::ids::Rid;
use orrery_types::{Error, Result};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::auth::keys::Key;

/// What a token's holder may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum GrantMode {
    Read,
    All,
}

/// A permission, as a token carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The permission it was issued for.
    pub permission: Rid,
    /// The etag that the permission had then.
    pub etag: String,
    /// The link of the resource, its container by rids: `dbs/AQAAAA==/colls/AQAAAIAAAAE=/docs/x`.
    /// Rids do not come back, so a token for a deleted container opens nothing that is made later.
    /// Empty if there was no such container.
    pub resource: String,
    /// What is allowed.
    pub mode: GrantMode,
    /// Where given, the JSON array of the only partition key the token opens.
    pub partition_key: Option<String>,
}

const FORMAT: u8 = 2;
const PREFIX: &str = "type=resource&ver=1&sig=";

#[derive(Serialize, Deserialize)]
struct Claims {
    v: u8,
    permission: String,
    etag: String,
    resource: String,
    mode: GrantMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    expires_s: u64,
}

/// Writes and reads tokens with the server's own key.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    key: Key,
}

impl TokenIssuer {
    /// An issuer that signs with this key.
    pub fn new(key: Key) -> Self {
        Self { key }
    }

    /// The token for a grant, good until the given second.
    pub fn issue(&self, grant: &Grant, expires_s: u64) -> String {
        let claims = Claims {
            v: FORMAT,
            permission: grant.permission.to_string(),
            etag: grant.etag.clone(),
            resource: grant.resource.clone(),
            mode: grant.mode,
            key: grant.partition_key.clone(),
            expires_s,
        };
        let claims = serde_json::to_vec(&claims).expect("strings and numbers are always JSON");
        let signature = BASE64.encode(self.key.sign(&claims));
        format!("{PREFIX}{signature};{};", BASE64.encode(claims))
    }

    /// Reads a token, with or without its `type=resource&ver=1&sig=` in front.
    pub fn verify(&self, token: &str, now_s: u64) -> Result<Grant> {
        let malformed = || Error::Unauthenticated(crate::auth::MALFORMED.into());
        let sig = token.strip_prefix(PREFIX).unwrap_or(token);
        let (signature, claims) =
            sig.trim_end_matches(';').split_once(';').ok_or_else(malformed)?;
        let signature = BASE64.decode(signature).map_err(|_| malformed())?;
        let claims = BASE64.decode(claims).map_err(|_| malformed())?;
        if !bool::from(self.key.sign(&claims).as_slice().ct_eq(&signature)) {
            let message = "The resource token was not issued by this server, or its key changed. \
                           Read the permission again to get a new token.";
            return Err(Error::Unauthenticated(message.into()));
        }
        // From here on the text is our own; what does not read is of another release.
        let claims: Claims = serde_json::from_slice(&claims).map_err(|_| malformed())?;
        let permission = claims.permission.parse().map_err(|_| malformed())?;
        if claims.v != FORMAT {
            return Err(malformed());
        }
        if now_s >= claims.expires_s {
            let message = "The authorization token is not valid at the current time. The resource \
                           token has expired; read the permission again to get a new one.";
            return Err(Error::OutsideTime(message.into()));
        }
        Ok(Grant {
            permission,
            etag: claims.etag,
            resource: claims.resource,
            mode: claims.mode,
            partition_key: claims.key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::keys::WELL_KNOWN_KEY;

    fn issuer() -> TokenIssuer {
        TokenIssuer::new(Key::parse(WELL_KNOWN_KEY).unwrap())
    }

    fn grant() -> Grant {
        Grant {
            permission: Rid::Permission { database: 1, user: 2, permission: 3 },
            etag: "\"1\"".into(),
            resource: "dbs/AQAAAA==/colls/AQAAAIAAAAE=/".into(),
            mode: GrantMode::Read,
            partition_key: Some("[\"p\"]".into()),
        }
    }

    #[test]
    fn a_token_reads_back_until_it_expires() {
        let token = issuer().issue(&grant(), 1000);
        assert!(token.starts_with("type=resource&ver=1&sig=") && token.ends_with(';'));
        assert_eq!(issuer().verify(&token, 999), Ok(grant()));
        let bare = token.strip_prefix(PREFIX).unwrap();
        assert_eq!(issuer().verify(bare, 999), Ok(grant()));
        assert!(matches!(issuer().verify(&token, 1000), Err(Error::OutsideTime(_))));
    }

    #[test]
    fn a_changed_token_proves_nothing() {
        let token = issuer().issue(&grant(), 1000);
        let (head, claims) = token.trim_end_matches(';').split_once(';').unwrap();
        let text = String::from_utf8(BASE64.decode(claims).unwrap()).unwrap();
        let forged = text.replace("\"Read\"", "\"All\"");
        assert_ne!(forged, text);
        let forged = format!("{head};{};", BASE64.encode(forged));
        for bad in [forged.as_str(), "", ";", ";;", "a;b;", "type=resource&ver=1&sig="] {
            let answer = issuer().verify(bad, 0);
            assert!(matches!(answer, Err(Error::Unauthenticated(_))), "{bad}");
        }
    }
}
