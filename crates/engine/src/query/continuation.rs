//! Where a query or a feed goes on.
//!
//! A *continuation token* is opaque to clients, and valid across restarts and splits because it names a place in the
//! order of keys and nothing of a process. It carries what it belongs to and a checksum, so that an edited one,
//! or one of another feed, is refused.
//!
//! ```text
//! base64url( version u8 = 1 | checksum u64 | state )
//! ```
//! The checksum covers the owner (which feed of which resource) and the state. A query that reads one partition
//! key range after the other, because its rows need no merge, has the range in its state. A page holds rows of
//! one range, as in the original's gateway. A split or merge does not change the range of a token: all
//! partitions that overlap it are read together.
//!
//! ```text
//! <min> | <max> | <state of the query within the range, if it has begun>
//! ```
//! A client that merges the ranges of an ordered query itself says in the request's `resumeFilter` where it resumes
//! a range. Ranges before the one in which it stopped begin behind the keys, those after it with them; the one
//! in which it stopped begins with the item.
//!
//! ```text
//! {"value": [<a key of ORDER BY>, …], "rid": "<an item's _rid>", "exclude": <bool>}
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use orrery_query::{ResumeFilter, SortValue};
use orrery_types::ids::{ChildKind, Rid};
use orrery_types::{EffectiveKey, Error, KeyRange, Result, Value};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::Container;
use crate::partition::scope::Scope;

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

/// The error for a malformed token.
pub(crate) fn invalid() -> Error {
    Error::invalid("Invalid Continuation Token")
}

fn checksum(owner: &str, state: &[u8]) -> u64 {
    xxh3_64_with_seed(state, xxh3_64(owner.as_bytes()))
}

/// The range that a query reads now.
pub(super) struct PartitionRangeCursor {
    /// The query's scope, restricted to the range.
    pub(super) scope: Scope,
    range: KeyRange,
}

impl PartitionRangeCursor {
    /// The range that a token names, with the state of the query within it. Without a token it is the first
    /// range if the query is read `by_range`, and none otherwise.
    pub(super) fn parse(
        container: &Container,
        scope: &Scope,
        state: Option<Vec<u8>>,
        by_range: bool,
    ) -> Result<(Option<Self>, Option<String>)> {
        let invalid = || Error::invalid("Invalid Continuation Token");
        let state = state.map(String::from_utf8).transpose().map_err(|_| invalid())?;
        let Some(text) = state else {
            let first = scope.range.as_ref().filter(|_| by_range).map(|range| range.min.clone());
            return Ok((first.and_then(|at| Self::at(container, scope, &at)), None));
        };
        let mut parts = text.splitn(3, '|');
        let (Some(min), Some(max), Some(inner)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok((None, Some(text)));
        };
        let key = |hex: &str| EffectiveKey::parse(hex).ok_or_else(invalid);
        let range = KeyRange { min: key(min)?, max: key(max)? };
        let cursor = Self { scope: confined(scope, &range), range };
        Ok((Some(cursor), Some(inner.to_owned()).filter(|inner| !inner.is_empty())))
    }

    /// The range of the partition that holds a key, from that key on.
    fn at(container: &Container, scope: &Scope, key: &EffectiveKey) -> Option<Self> {
        let partition = container.partitions.iter().find(|p| p.range.contains(key))?;
        let range = KeyRange { min: key.clone(), max: partition.range.max.clone() };
        let range = scope.range.as_ref()?.intersect(&range)?;
        Some(Self { scope: confined(scope, &range), range })
    }

    /// The state after a page: a later position in this range, or the start of the next one.
    pub(super) fn next(
        &self,
        container: &Container,
        scope: &Scope,
        inner: Option<String>,
    ) -> Option<String> {
        let write = |range: &KeyRange, inner: &str| format!("{}|{}|{inner}", range.min, range.max);
        match inner {
            Some(inner) => Some(write(&self.range, &inner)),
            None => {
                Self::at(container, scope, &self.range.max).map(|cursor| write(&cursor.range, ""))
            }
        }
    }
}

fn confined(scope: &Scope, range: &KeyRange) -> Scope {
    let range = scope.range.as_ref().and_then(|own| own.intersect(range));
    Scope { range, partition_key: scope.partition_key.clone(), confined: true }
}

/// The filter before its container is known.
#[derive(Clone, Debug)]
pub(super) struct ResumePosition {
    keys: Vec<SortValue>,
    rid: Option<Rid>,
    exclude: bool,
}

impl ResumePosition {
    /// Reads the property; `None` if it is missing.
    pub(super) fn parse(filter: &Value) -> Result<Option<Self>> {
        if matches!(filter, Value::Undefined | Value::Null) {
            return Ok(None);
        }
        let values = filter.get("value").as_array().filter(|values| !values.is_empty());
        let values = values.ok_or_else(|| {
            Error::invalid("'resumeFilter' must be an object with an array 'value' of one or more.")
        })?;
        let keys = values.iter().map(key).collect::<Result<_>>()?;
        let rid = match filter.get("rid") {
            Value::Undefined | Value::Null => None,
            text => Some(rid(text)?),
        };
        let exclude = match filter.get("exclude") {
            Value::Undefined | Value::Null => false,
            Value::Bool(exclude) => *exclude,
            _ => return Err(Error::invalid("'exclude' of 'resumeFilter' must be a boolean.")),
        };
        Ok(Some(Self { keys, rid, exclude }))
    }

    /// The place among the items of a container.
    pub(super) fn within(&self, container: &Container) -> Result<ResumeFilter> {
        let row = match self.rid {
            None => None,
            Some(Rid::Child { database, container: of, kind: ChildKind::Item, number })
                if (database, of) == (container.database, container.number) =>
            {
                Some(number)
            }
            Some(rid) => {
                return Err(Error::invalid(format!(
                    "'rid' of 'resumeFilter', '{rid}', names no item of this container."
                )));
            }
        };
        Ok(ResumeFilter { keys: self.keys.clone(), row, exclude: self.exclude })
    }
}

fn key(value: &Value) -> Result<SortValue> {
    SortValue::from_resume_value(value).ok_or_else(|| {
        Error::invalid(
            "A 'value' of 'resumeFilter' must be null, a boolean, a number, a string, [] for \
             undefined, or an object with 'type', 'low' and 'high' for the hash of an array or \
             object.",
        )
    })
}

fn rid(text: &Value) -> Result<Rid> {
    let parsed = text.as_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Error::invalid("'rid' of 'resumeFilter' must be the _rid of an item."))
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
