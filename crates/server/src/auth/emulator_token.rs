//! Entra ID tokens as the emulator takes them. No directory is asked: the token is a JWT without a
//! signature, and has a key of the account in its place. Credentials of the SDKs' own tests send such
//! tokens. The key travels with every request, so `auth` accepts them only where the well-known key opens
//! the account too.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What such a token says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EmulatorToken {
    /// The text of a key.
    pub(crate) key: Vec<u8>,
    /// When it ends, if it does.
    pub(crate) expires_s: Option<u64>,
}

impl EmulatorToken {
    /// Reads `header.claims.key`, each part in base64 for URLs.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        let mut parts = token.split('.').map(|part| BASE64_URL.decode(part).ok());
        let (header, claims, key) = (parts.next()??, parts.next()??, parts.next()??);
        let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
        let claims = json(&claims)?;
        if parts.next().is_some() || !json(&header)?.is_object() || !claims.is_object() {
            return None;
        }
        Some(Self { key, expires_s: claims["exp"].as_u64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_three_parts_of_base64() {
        let part = |text: &str| BASE64_URL.encode(text);
        let token = |claims: &str| format!("{}.{}.{}", part("{}"), part(claims), part("a+/="));
        let parsed = |expires_s| Some(EmulatorToken { key: b"a+/=".to_vec(), expires_s });
        assert_eq!(EmulatorToken::parse(&token(r#"{"exp":7}"#)), parsed(Some(7)));
        let bare = token("{}").replace('=', "");
        assert_eq!(EmulatorToken::parse(&bare), parsed(None));
        for wrong in ["", "a", "..", "e30.e30", "e30.e30.e30.e30", "e30.*.e30", "e30.MQ.e30"] {
            assert_eq!(EmulatorToken::parse(wrong), None, "{wrong}");
        }
    }
}
