//! Tokens that were verified already, by their digest: an SDK sends the same one with every request, and a
//! signature costs more than a point read.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use orrery_types::limits;
use sha2::{Digest as _, Sha256};

use super::DirectoryPrincipal;
use super::jwt::ClaimsTime;

pub(super) type TokenDigest = [u8; 32];

/// Verified tokens, the oldest of which make room.
#[derive(Default)]
pub(super) struct VerifiedTokens {
    known: HashMap<TokenDigest, (ClaimsTime, Arc<DirectoryPrincipal>)>,
    order: VecDeque<TokenDigest>,
}

impl VerifiedTokens {
    pub(super) fn digest(token: &str) -> TokenDigest {
        Sha256::digest(token.as_bytes()).into()
    }

    pub(super) fn get(
        &self,
        digest: &TokenDigest,
    ) -> Option<(ClaimsTime, Arc<DirectoryPrincipal>)> {
        self.known.get(digest).cloned()
    }

    pub(super) fn insert(
        &mut self,
        digest: TokenDigest,
        time: ClaimsTime,
        principal: Arc<DirectoryPrincipal>,
    ) {
        if self.known.insert(digest, (time, principal)).is_none() {
            self.order.push_back(digest);
        }
        while self.order.len() > limits::JWTS_KEPT_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|digest| self.known.remove(&digest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let mut tokens = VerifiedTokens::default();
        let principal =
            DirectoryPrincipal { id: "p".into(), groups: vec![], is_administrator: false };
        let principal = Arc::new(principal);
        let digest = |n: usize| VerifiedTokens::digest(&n.to_string());
        let time = ClaimsTime::until(1);
        for n in 0..limits::JWTS_KEPT_MAX + 10 {
            tokens.insert(digest(n), time, principal.clone());
            tokens.insert(digest(n), time, principal.clone());
        }
        assert_eq!(tokens.known.len(), limits::JWTS_KEPT_MAX);
        assert!(tokens.get(&digest(9)).is_none() && tokens.get(&digest(10)).is_some());
    }
}
