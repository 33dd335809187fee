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
use super::resume::Note;
use super::target::{Fate, Item, OnExisting, TransferTally, TransferTarget as _};
use super::{Bulk, ContainerArguments};
use crate::change_feed::{ChangeFeed, Positions};
use crate::progress::ProgressLine;
use crate::remote::RemoteArguments;
use crate::{account, interrupt};

/// How long to wait when there is nothing new.
const IDLE: Duration = Duration::from_millis(500);

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
            token: None,
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
) -> Result<TransferTally> {
    let (from, there) = arguments.source(place)?;
    let _cooperation = interrupt::cooperate();
    let mut source = ChangeFeed::latest(from.connect()?, there.path());
    let definition = definition_of(&mut source, &place.container)?;
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
    let mut positions = noted_positions(&note);
    // Behind a page of which something was refused, nothing is noted: the next start reads it again.
    let (mut noted, mut held) = (positions.clone(), Vec::new());
    if !positions.is_empty() {
        eprintln!("Continuing from the saved positions; --from-start starts over.");
    }
    let total = count(&mut source)?;
    let progress = ProgressLine::of_items(total);
    let mut tally = TransferTally::default();
    let began_us = SystemClock.now_us();
    let interrupted = loop {
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
                    note_positions(&note, &noted)?;
                }
                #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
                let rate = tally.total() as f64 * 1e6
                    / SystemClock.now_us().saturating_sub(began_us).max(1) as f64;
                progress.set(tally.total(), tally.total(), rate);
                // The page is written and noted.
                if interrupt::is_requested() {
                    break;
                }
            }
        }
        if interrupt::is_requested() {
            break true;
        }
        if !moved && !arguments.follow {
            break false;
        }
        if !moved && interrupt::sleep(IDLE).is_err() {
            break true;
        }
    };
    progress.end();
    // With --follow an interruption is how it ends.
    if interrupted && !arguments.follow {
        let text = format!(
            "interrupted: {}; the same command continues where it stopped",
            tally.to_text()
        );
        return Err(interrupt::failure(text));
    }
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
    progress: &ProgressLine,
    tally: &mut TransferTally,
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

/// What the container is like, for one that is created after it.
fn definition_of(source: &mut ChangeFeed, name: &str) -> Result<Value> {
    let answer = account::must(&mut source.remote, "GET", &source.path, &[], b"")?;
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
fn count(source: &mut ChangeFeed) -> Result<Option<u64>> {
    let sent = [(headers::POPULATE_QUOTA_INFO, "true")];
    let answer = account::must(&mut source.remote, "GET", &source.path, &sent, b"")?;
    let usage = answer.header(headers::RESOURCE_USAGE).unwrap_or_default();
    let count = usage.split(';').find_map(|pair| pair.strip_prefix("documentsCount="));
    Ok(count.and_then(|text| text.parse().ok()).filter(|count| *count > 0))
}

/// The positions that were noted.
fn noted_positions(note: &Note) -> Positions {
    let noted = note.read();
    let list = noted.as_ref().and_then(|noted| noted.get("positions").as_object());
    let pair = |(id, etag): (&std::sync::Arc<str>, &Value)| {
        Some((id.to_string(), etag.as_str()?.to_owned()))
    };
    Positions::new(list.map(|list| list.iter().filter_map(pair).collect()).unwrap_or_default())
}

/// Notes the positions.
fn note_positions(note: &Note, read: &Positions) -> Result<()> {
    let mut positions = Object::new();
    for (id, etag) in read.iter() {
        positions.set(id, etag.into());
    }
    let mut object = Object::new();
    object.set("positions", Value::object(positions));
    note.write(object)
}
