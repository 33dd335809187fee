//! The change feed of a container on a server. `orrery feed` reads it whole, and the server keeps its
//! position over splits and merges. `orrery import` reads it range by range, as any account offers it: a
//! range that was split is continued in its parts, from the position of the whole.

use std::time::Duration;

use anyhow::Result;
use orrery_server::wire::headers;
use orrery_types::Value;

use crate::remote::Remote;
use crate::{account, interrupt};

/// How often a busy server is asked again before it is given up.
const ATTEMPTS_MAX: u32 = 10;
/// How long to wait for a busy server that does not say how long.
const WAIT_MS: u64 = 1000;
const GONE: u16 = 410;
const NOT_MODIFIED: u16 = 304;
/// The form of changes in the feed of all versions.
const ALL_VERSIONS_FORMAT: &str = "2021-09-15";

/// What the feed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeFeedMode {
    /// The latest version of each item that changed.
    Latest,
    /// Every version, and deletes.
    AllVersions,
}

/// Where a range is begun that has no position yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Beginning,
    Now,
}

/// The change feed of a container.
pub(crate) struct ChangeFeed {
    pub(crate) remote: Remote,
    /// `/dbs/…/colls/…`
    pub(crate) path: String,
    pub(crate) mode: ChangeFeedMode,
    pub(crate) start: Start,
    pub(crate) scope: ChangeFeedScope,
}

/// What is read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeFeedScope {
    /// The whole container.
    Container,
    /// Each of its ranges.
    Ranges,
    /// One logical partition, by its key as the header spells it.
    Partition(String),
}

impl ChangeFeed {
    /// The latest versions of all items, from the beginning, range by range.
    pub(crate) fn latest(remote: Remote, path: String) -> Self {
        let (mode, start, scope) =
            (ChangeFeedMode::Latest, Start::Beginning, ChangeFeedScope::Ranges);
        Self { remote, path, mode, start, scope }
    }

    /// What is read in turn: the ranges of the container, or all that is read as one.
    pub(crate) fn ranges(&mut self) -> Result<Vec<Range>> {
        if self.scope != ChangeFeedScope::Ranges {
            return Ok(vec![Range { id: String::new(), parents: Vec::new() }]);
        }
        let path = format!("{}/pkranges", self.path);
        let list = account::list_all(&mut self.remote, &path, "PartitionKeyRanges")?;
        let range = |value: &Value| {
            let parents = value.get("parents").as_array().unwrap_or_default();
            let parents = parents.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            Some(Range { id: value.get("id").as_str()?.to_owned(), parents })
        };
        list.iter().map(|value| range(value).ok_or_else(account::not_an_account)).collect()
    }

    /// Changes of a range after its position, which advances; `None` if there are none at present.
    pub(crate) fn next(
        &mut self,
        range: &Range,
        positions: &mut Positions,
    ) -> Result<Option<Vec<Value>>> {
        let path = format!("{}/docs", self.path);
        let start = (self.start == Start::Now).then(|| "*".to_owned());
        let after = positions.of(range).or(start);
        for attempt in 0.. {
            let mut sent = vec![(headers::MAX_ITEM_COUNT, "1000")];
            match self.mode {
                ChangeFeedMode::Latest => sent.push((headers::A_IM, "Incremental Feed")),
                ChangeFeedMode::AllVersions => sent.extend([
                    (headers::A_IM, "Full-Fidelity Feed"),
                    (headers::CHANGE_FEED_FORMAT, ALL_VERSIONS_FORMAT),
                ]),
            }
            match &self.scope {
                ChangeFeedScope::Container => {}
                ChangeFeedScope::Ranges => sent.push((headers::PARTITION_KEY_RANGE_ID, &*range.id)),
                ChangeFeedScope::Partition(key) => sent.push((headers::PARTITION_KEY, key)),
            }
            sent.extend(after.as_deref().map(|etag| (headers::IF_NONE_MATCH, etag)));
            let answer = account::send(&mut self.remote, "GET", &path, &sent, b"")?;
            let is_busy = answer.status == 429 || answer.status == 503;
            if is_busy && attempt < ATTEMPTS_MAX {
                let told = answer.header(headers::RETRY_AFTER_MS).and_then(|ms| ms.parse().ok());
                interrupt::sleep(Duration::from_millis(told.unwrap_or(WAIT_MS)))?;
                continue;
            }
            // The range was split: its parts are in the next list.
            if answer.status == GONE {
                return Ok(None);
            }
            if answer.status >= 400 {
                return Err(account::refusal(&path, &answer));
            }
            if let Some(etag) = answer.header(headers::ETAG) {
                positions.set(range, etag);
            }
            if answer.status == NOT_MODIFIED {
                return Ok(None);
            }
            let body = Value::parse(&answer.body).map_err(|_| account::not_an_account())?;
            let changes = body.get("Documents").as_array().unwrap_or_default();
            return Ok(Some(changes.to_vec()));
        }
        Ok(None)
    }
}

/// A physical partition of the container.
pub(crate) struct Range {
    pub(crate) id: String,
    parents: Vec<String>,
}

impl Range {
    /// Whether it is one of these, or a part of one.
    pub(crate) fn is_of(&self, ids: &[String]) -> bool {
        std::iter::once(&self.id).chain(&self.parents).any(|id| ids.contains(id))
    }
}

/// How far each range was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions(Vec<(String, String)>);

impl Positions {
    /// By the ids of ranges.
    pub(crate) fn new(positions: Vec<(String, String)>) -> Self {
        Self(positions)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(id, etag)| (&**id, &**etag))
    }

    fn get(&self, id: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, etag)| &**etag)
    }

    /// The position of a range, or of the one that it was split from.
    pub(crate) fn of(&self, range: &Range) -> Option<String> {
        let parents = range.parents.iter().rev().map(String::as_str);
        std::iter::once(&*range.id).chain(parents).find_map(|id| self.get(id)).map(str::to_owned)
    }

    pub(crate) fn set(&mut self, range: &Range, etag: &str) {
        match self.0.iter_mut().find(|(known, _)| *known == range.id) {
            Some((_, known)) => etag.clone_into(known),
            None => self.0.push((range.id.clone(), etag.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_split_range_goes_on_where_the_whole_was() {
        let mut positions = Positions(vec![("0".into(), "\"7\"".into())]);
        let part = Range { id: "2".into(), parents: vec!["0".into()] };
        assert_eq!(positions.of(&part).as_deref(), Some("\"7\""));
        positions.set(&part, "\"9\"");
        assert_eq!(positions.of(&part).as_deref(), Some("\"9\""));
        let other = Range { id: "3".into(), parents: vec![] };
        assert_eq!(positions.of(&other), None);
    }
}
