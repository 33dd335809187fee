//! Continuation tokens: where a query stopped, as a short text that a client carries. A token
//! bears a version, the fingerprint of the query it belongs to and a checksum, so that one that
//! was edited or belongs to another query is refused and not misread.
//!
//! ```text
//! version(1) kind(1) fingerprint(8) seen(8) rows(8) position(…) checksum(8)   as base64url
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::QueryError;

const VERSION: u8 = 1;

/// Where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Continuation {
    /// A query that streams.
    Stream {
        /// The item to go on with.
        position: Box<[u8]>,
        /// How many rows of that item are done; all of them at [`ALL_ROWS`].
        rows: u64,
        /// Rows seen in all, those before OFFSET included.
        seen: u64,
    },
    /// A query whose result is computed whole: how many rows are done.
    Whole {
        /// Rows done.
        rows: u64,
    },
}

/// The item is done.
pub(super) const ALL_ROWS: u64 = u64::MAX;

impl Continuation {
    pub(super) fn to_text(&self, fingerprint: u64) -> String {
        let (kind, seen, rows, position) = match self {
            Self::Stream { position, rows, seen } => (1, *seen, *rows, &**position),
            Self::Whole { rows } => (2, 0, *rows, &[][..]),
        };
        let mut bytes = vec![VERSION, kind];
        bytes.extend(fingerprint.to_le_bytes());
        bytes.extend(seen.to_le_bytes());
        bytes.extend(rows.to_le_bytes());
        bytes.extend(position);
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn parse(text: &str, fingerprint: u64) -> Result<Self, QueryError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| QueryError::Token)?;
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(QueryError::Token)?;
        let (head, position) = content.split_first_chunk::<26>().ok_or(QueryError::Token)?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let genuine = u64::from_le_bytes(*checksum) == xxh3_64(content)
            && head[0] == VERSION
            && number(2) == fingerprint;
        match head[1] {
            1 if genuine => {
                Ok(Self::Stream { position: position.into(), rows: number(18), seen: number(10) })
            }
            2 if genuine => Ok(Self::Whole { rows: number(18) }),
            _ => Err(QueryError::Token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_forgeries_do_not() {
        let stream = Continuation::Stream { position: Box::new([1, 2, 3]), rows: 7, seen: 9 };
        let whole = Continuation::Whole { rows: 5 };
        for token in [stream, whole] {
            let text = token.to_text(42);
            assert_eq!(Continuation::parse(&text, 42).unwrap(), token);
            assert_eq!(Continuation::parse(&text, 43), Err(QueryError::Token));
            for at in 0..text.len() {
                let mut edited = text.clone().into_bytes();
                edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
                let edited = String::from_utf8(edited).unwrap();
                assert_eq!(Continuation::parse(&edited, 42), Err(QueryError::Token), "{at}");
            }
        }
        for text in ["", "x", "é", "AAAA", &"A".repeat(200)] {
            assert_eq!(Continuation::parse(text, 42), Err(QueryError::Token));
        }
    }
}
