//! From another account, by its change feed: everything that is there, and with `--follow` everything
//! that comes, until it is interrupted. Items are put in the place of older versions, so that reading
//! a change twice does no harm. Deletes do not show in the feed of latest versions.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_server::wire::headers;
use orrery_types::partition_key::KeyComponent;
use orrery_types::{Clock as _, Object, PartitionKey, PropertyPath, SystemClock, Value};

use super::import::{lane, load, prepare};
use super::progress::Progress;
use super::resume::Note;
use super::target::{Fate, Item, OnExisting, Tally, Target as _};
use super::{Bulk, ContainerArguments};
use crate::account;
use crate::remote::{Remote, RemoteArguments};

/// How long to wait when there is nothing new.
const IDLE: Duration = Duration::from_millis(500);
/// How often the feed of a busy account is asked again before it is given up.
const ATTEMPTS_MAX: u32 = 10;
const GONE: u16 = 410;
const NOTHING_NEW: u16 = 304;

/// What the feed adds to an item beside what every account writes itself.
const ADDED: [&str; 6] = ["_lsn", "_rid", "_self", "_etag", "_attachments", "_ts"];

/// Arguments of an import from another account.
#[derive(Debug, Args)]
pub(crate) struct LiveArguments {
    /// Read from this account instead of a file
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = [
            "file", "data", "create", "format", "existing", "id", "texts", "strict"
        ]
    )]
    pub(crate) from_endpoint: Option<String>,
    /// Its key
    #[arg(
        long,
        value_name = "KEY",
        env = "ORRERY_FROM_KEY",
        hide_env_values = true,
        requires = "from_endpoint"
    )]
    from_key: Option<String>,
    /// Certificate that it is trusted by, as PEM
    #[arg(long, value_name = "FILE", requires = "from_endpoint")]
    from_ca: Option<std::path::PathBuf>,
    /// Its database [default: of the same name]
    #[arg(long, value_name = "NAME", requires = "from_endpoint")]
    from_database: Option<String>,
    /// Its container [default: of the same name]
    #[arg(long, value_name = "NAME", requires = "from_endpoint")]
    from_container: Option<String>,
    /// Go on with what changes there, until interrupted
    #[arg(long, requires = "from_endpoint")]
    follow: bool,
}

impl LiveArguments {
    /// The other account, and the container in it; `place` is where items go.
    fn source(&self, place: &ContainerArguments) -> Result<(RemoteArguments, ContainerArguments)> {
        let from = RemoteArguments {
            endpoint: self.from_endpoint.clone().context("name the account to read")?,
            key: self.from_key.clone(),
            ca: self.from_ca.clone(),
        };
        let there = ContainerArguments {
            database: self.from_database.clone().unwrap_or_else(|| place.database.clone()),
            container: self.from_container.clone().unwrap_or_else(|| place.container.clone()),
        };
        Ok((from, there))
    }
}

/// Copies, and follows if that is asked for.
pub(super) fn run(
    arguments: &LiveArguments,
    server: &RemoteArguments,
    place: &ContainerArguments,
    connections: usize,
    from_start: bool,
) -> Result<Tally> {
    let (from, there) = arguments.source(place)?;
    let mut source = Feed { remote: from.connect()?, path: there.path() };
    let definition = source.definition(&place.container)?;
    let key = key_paths(&definition);
    let mut remote = server.connect()?;
    prepare(&mut remote, place, Some(&definition))?;
    let target = Bulk::open(server, &place.path(), connections)?;
    let note = Note::new(&[
        "live",
        &from.endpoint,
        &there.path(),
        &there.identity(&mut source.remote)?,
        &server.endpoint,
        &place.path(),
        &place.identity(&mut remote)?,
    ]);
    if from_start {
        note.remove();
    }
    let mut positions = Positions::read(&note);
    // Behind a page of which something was refused, nothing is noted: the next start reads it again.
    let (mut noted, mut held) = (positions.clone(), Vec::new());
    if !positions.0.is_empty() {
        eprintln!("Going on from the positions that were noted; --from-start begins anew.");
    }
    let total = source.count()?;
    let progress = Progress::of_items(total);
    let mut tally = Tally::default();
    let began_us = SystemClock.now_us();
    loop {
        let mut moved = false;
        for range in source.ranges()? {
            while let Some(changes) = source.next(&range, &mut positions)? {
                moved = true;
                let before = tally.bad;
                copy(&target, changes, &key, &progress, &mut tally)?;
                if tally.bad > before {
                    held.push(range.id.clone());
                }
                if let Some(etag) = positions.of(&range).filter(|_| !range.is_of(&held)) {
                    noted.set(&range, &etag);
                    noted.write(&note)?;
                }
                #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
                let rate = tally.total() as f64 * 1e6
                    / SystemClock.now_us().saturating_sub(began_us).max(1) as f64;
                progress.set(tally.total(), tally.total(), rate);
            }
        }
        match (moved, arguments.follow) {
            (true, _) => {}
            (false, true) => std::thread::sleep(IDLE),
            (false, false) => break,
        }
    }
    progress.end();
    Ok(tally)
}

/// Where the partition key stands in an item.
fn key_paths(definition: &Value) -> Vec<PropertyPath> {
    let paths = definition.get("partitionKey").get("paths").as_array().unwrap_or_default();
    paths.iter().filter_map(|path| PropertyPath::parse(path.as_str()?).ok()).collect()
}

/// An item as a person finds it again.
fn name(item: &Value, key: &[PropertyPath]) -> String {
    let component = |path| KeyComponent::from_value(PropertyPath::value_in(path, item));
    let key = key.iter().map(|path| component(path).unwrap_or(KeyComponent::Undefined));
    let key = PartitionKey(key.collect()).to_header();
    format!("item {} with the partition key {key}", item.get("id").to_json())
}

fn copy(
    target: &Bulk,
    changes: Vec<Value>,
    key: &[PropertyPath],
    progress: &Progress,
    tally: &mut Tally,
) -> Result<()> {
    let names: Vec<String> = changes.iter().map(|item| name(item, key)).collect();
    let mut lanes: Vec<Vec<Item>> = vec![Vec::new(); target.lanes()];
    for (line, mut value) in (0_u64..).zip(changes) {
        if let Some(object) = value.as_object_mut() {
            for name in ADDED {
                object.remove(name);
            }
        }
        lanes[lane(&value, target.lanes())].push(Item { line, value });
    }
    for (line, fate) in load(target, lanes, OnExisting::Replace)? {
        if let Fate::Refused(reason) = &fate {
            let name = usize::try_from(line).ok().and_then(|at| names.get(at));
            progress.say(&format!("{}: {reason}", name.map_or("an item", String::as_str)));
        }
        tally.add(&fate);
    }
    Ok(())
}

/// The other account's container.
struct Feed {
    remote: Remote,
    path: String,
}

impl Feed {
    /// What the container is like, for one that is made after it.
    fn definition(&mut self, name: &str) -> Result<Value> {
        let answer = account::must(&mut self.remote, "GET", &self.path, &[], b"")?;
        let there = Value::parse(&answer.body).map_err(|_| account::not_an_account())?;
        let mut here = Object::new();
        here.set("id", name.into());
        for property in [
            "partitionKey",
            "indexingPolicy",
            "uniqueKeyPolicy",
            "defaultTtl",
            "computedProperties",
            "vectorEmbeddingPolicy",
            "fullTextPolicy",
        ] {
            match there.get(property) {
                Value::Undefined | Value::Null => {}
                value => here.set(property, value.clone()),
            }
        }
        Ok(Value::object(here))
    }

    /// How many items it has, if it tells.
    fn count(&mut self) -> Result<Option<u64>> {
        let sent = [(headers::POPULATE_QUOTA_INFO, "true")];
        let answer = account::must(&mut self.remote, "GET", &self.path, &sent, b"")?;
        let usage = answer.header(headers::RESOURCE_USAGE).unwrap_or_default();
        let count = usage.split(';').find_map(|pair| pair.strip_prefix("documentsCount="));
        Ok(count.and_then(|text| text.parse().ok()).filter(|count| *count > 0))
    }

    fn ranges(&mut self) -> Result<Vec<Range>> {
        let path = format!("{}/pkranges", self.path);
        let list = account::list_all(&mut self.remote, &path, "PartitionKeyRanges")?;
        let range = |value: &Value| {
            let parents = value.get("parents").as_array().unwrap_or_default();
            let parents = parents.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            Some(Range { id: value.get("id").as_str()?.to_owned(), parents })
        };
        list.iter().map(|value| range(value).ok_or_else(account::not_an_account)).collect()
    }

    /// Changes of a range after its position, which moves; `None` if there are none by now.
    fn next(&mut self, range: &Range, positions: &mut Positions) -> Result<Option<Vec<Value>>> {
        let path = format!("{}/docs", self.path);
        let after = positions.of(range);
        for attempt in 0.. {
            let mut sent = vec![
                (headers::A_IM, "Incremental Feed"),
                (headers::MAX_ITEM_COUNT, "1000"),
                (headers::PARTITION_KEY_RANGE_ID, &*range.id),
            ];
            sent.extend(after.as_deref().map(|etag| (headers::IF_NONE_MATCH, etag)));
            let answer = account::send(&mut self.remote, "GET", &path, &sent, b"")?;
            let busy = answer.status == 429 || answer.status == 503;
            if busy && attempt < ATTEMPTS_MAX {
                let told = answer.header(headers::RETRY_AFTER_MS).and_then(|ms| ms.parse().ok());
                std::thread::sleep(Duration::from_millis(told.unwrap_or(1000)));
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
            if answer.status == NOTHING_NEW {
                return Ok(None);
            }
            let body = Value::parse(&answer.body).map_err(|_| account::not_an_account())?;
            let changes = body.get("Documents").as_array().unwrap_or_default();
            return Ok(Some(changes.to_vec()));
        }
        Ok(None)
    }
}

/// A physical partition of the other account.
struct Range {
    id: String,
    parents: Vec<String>,
}

impl Range {
    /// Whether it is one of these, or a part of one.
    fn is_of(&self, ids: &[String]) -> bool {
        std::iter::once(&self.id).chain(&self.parents).any(|id| ids.contains(id))
    }
}

/// How far each range was read.
#[derive(Clone)]
struct Positions(Vec<(String, String)>);

impl Positions {
    fn read(note: &Note) -> Self {
        let noted = note.read();
        let list = noted.as_ref().and_then(|noted| noted.get("positions").as_object());
        let pair = |(id, etag): (&std::sync::Arc<str>, &Value)| {
            Some((id.to_string(), etag.as_str()?.to_owned()))
        };
        Self(list.map(|list| list.iter().filter_map(pair).collect()).unwrap_or_default())
    }

    fn write(&self, note: &Note) -> Result<()> {
        let mut positions = Object::new();
        for (id, etag) in &self.0 {
            positions.set(id, etag.as_str().into());
        }
        let mut object = Object::new();
        object.set("positions", Value::object(positions));
        note.write(object)
    }

    fn get(&self, id: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, etag)| &**etag)
    }

    /// The position of a range, or of the one that it was split from.
    fn of(&self, range: &Range) -> Option<String> {
        let parents = range.parents.iter().rev().map(String::as_str);
        std::iter::once(&*range.id).chain(parents).find_map(|id| self.get(id)).map(str::to_owned)
    }

    fn set(&mut self, range: &Range, etag: &str) {
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
