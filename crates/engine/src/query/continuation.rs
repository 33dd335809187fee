//! Continuation tokens: opaque to clients, valid across restarts and splits because they name a
//! place in the order of keys and nothing of a process. A token carries what it belongs to and a
//! checksum, so that an edited one, or one of another feed, is refused.
//!
//! ```text
//! base64url( version u8 = 1 | checksum u64 | state )
//! ```
//! The checksum covers the owner (which feed of which resource) and the state.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use orrery_types::{Error, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const VERSION: u8 = 1;

/// Wraps a state for the client.
pub fn encode(owner: &str, state: &[u8]) -> String {
    BASE64URL.encode(seal(owner, state))
}

/// The bytes of a token.
pub(crate) fn seal(owner: &str, state: &[u8]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(checksum(owner, state).to_be_bytes());
    bytes.extend_from_slice(state);
    bytes
}

/// Takes back a state that was given for the same owner.
pub fn decode(owner: &str, token: &str) -> Result<Vec<u8>> {
    unseal(owner, &BASE64URL.decode(token.trim()).map_err(|_| invalid())?)
}

/// The same from the bytes of a token.
pub(crate) fn unseal(owner: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let (version, rest) = bytes.split_first().ok_or_else(invalid)?;
    let (sum, state) = rest.split_first_chunk::<8>().ok_or_else(invalid)?;
    if *version != VERSION || u64::from_be_bytes(*sum) != checksum(owner, state) {
        return Err(invalid());
    }
    Ok(state.to_vec())
}

/// What a client is told of a token that is none.
pub(crate) fn invalid() -> Error {
    Error::invalid("Invalid Continuation Token")
}

fn checksum(owner: &str, state: &[u8]) -> u64 {
    xxh3_64_with_seed(state, xxh3_64(owner.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_feed_takes_a_token() {
        let token = encode("feed a", b"place");
        assert_eq!(decode("feed a", &token).as_deref(), Ok(&b"place"[..]));
        assert!(decode("feed b", &token).is_err());
        for i in 0..token.len() {
            let mut edited = token.clone().into_bytes();
            edited[i] = if edited[i] == b'A' { b'B' } else { b'A' };
            let edited = String::from_utf8(edited).expect("ascii");
            assert!(decode("feed a", &edited).is_err(), "edited at {i}");
        }
        assert!(decode("feed a", "").is_err() && decode("feed a", "%%%").is_err());
    }
}
