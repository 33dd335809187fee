//! The parts of a query that crosses physical partitions without having to merge them: a page is of
//! one range of keys, as the original's gateway has it, and the token says of which. The range stays
//! the same when its partition splits or merges; whatever partitions hold it then are read together.
//!
//! ```text
//! <min> | <max> | <state of the query within the range, if it has begun>
//! ```

use orrery_types::{EffectiveKey, Error, KeyRange, Result};

use crate::Container;
use crate::partition::scope::Scope;

/// One range of a query.
pub(super) struct Leg {
    /// The part of the query's scope that lies in it.
    pub(super) scope: Scope,
    range: KeyRange,
}

impl Leg {
    /// The range that a token names, or the first one where a query is to go from range to range;
    /// and what the token says beyond that.
    pub(super) fn parse(
        container: &Container,
        scope: &Scope,
        state: Option<Vec<u8>>,
        in_legs: bool,
    ) -> Result<(Option<Self>, Option<String>)> {
        let invalid = || Error::invalid("Invalid Continuation Token");
        let state = state.map(String::from_utf8).transpose().map_err(|_| invalid())?;
        let Some(text) = state else {
            let first = scope.range.as_ref().filter(|_| in_legs).map(|range| range.min.clone());
            return Ok((first.and_then(|at| Self::at(container, scope, &at)), None));
        };
        let mut parts = text.splitn(3, '|');
        let (Some(min), Some(max), Some(inner)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok((None, Some(text)));
        };
        let key = |hex: &str| EffectiveKey::parse(hex).ok_or_else(invalid);
        let range = KeyRange { min: key(min)?, max: key(max)? };
        let leg = Self { scope: confined(scope, &range), range };
        Ok((Some(leg), Some(inner.to_owned()).filter(|inner| !inner.is_empty())))
    }

    /// The range of the partition that holds a key, from that key on.
    fn at(container: &Container, scope: &Scope, key: &EffectiveKey) -> Option<Self> {
        let partition = container.partitions.iter().find(|p| p.range.contains(key))?;
        let range = KeyRange { min: key.clone(), max: partition.range.max.clone() };
        let range = scope.range.as_ref()?.intersect(&range)?;
        Some(Self { scope: confined(scope, &range), range })
    }

    /// The state after a page: further in this range, or the next one.
    pub(super) fn next(
        &self,
        container: &Container,
        scope: &Scope,
        inner: Option<String>,
    ) -> Option<String> {
        let write = |range: &KeyRange, inner: &str| format!("{}|{}|{inner}", range.min, range.max);
        match inner {
            Some(inner) => Some(write(&self.range, &inner)),
            None => Self::at(container, scope, &self.range.max).map(|leg| write(&leg.range, "")),
        }
    }
}

fn confined(scope: &Scope, range: &KeyRange) -> Scope {
    let range = scope.range.as_ref().and_then(|own| own.intersect(range));
    Scope { range, partition_key: scope.partition_key.clone(), confined: true }
}
