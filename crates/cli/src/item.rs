//! `orrery item`: items of a container, one at a time. `orrery query` and `orrery import` are for many.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use orrery_server::wire::headers;
use orrery_types::partition_key::KeyComponent;
use orrery_types::{Object, PartitionKey, PropertyPath, Value};

use crate::account;
use crate::exit::usage;
use crate::json_input;
use crate::output::{Print, PrintArguments};
use crate::query::partition_key;
use crate::remote::{Remote, RemoteAnswer, RemoteArguments};
use crate::transfer::ContainerArguments;

/// Items that are listed by default.
const LISTED: usize = 100;

/// What to do with items.
#[derive(Debug, Subcommand)]
pub(crate) enum ItemCommand {
    /// Create an item; refused if one with its id exists
    Create(WriteArguments),
    /// List items
    List {
        #[command(flatten)]
        place: ItemLocation,
        /// One logical partition only: a value, or a JSON list for a hierarchical key
        #[arg(long, short = 'k', value_name = "VALUE")]
        partition_key: Option<String>,
        /// Print at most so many
        #[arg(long, value_name = "NUMBER", default_value_t = LISTED)]
        limit: usize,
    },
    /// Print an item
    Read {
        #[command(flatten)]
        one: OneItem,
    },
    /// Write an item: create it, or replace the one that exists
    Write(WriteArguments),
    /// Delete an item
    Delete {
        #[command(flatten)]
        one: OneItem,
        /// Only if the item still has this etag
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
    },
}

/// A container on a server.
#[derive(Debug, Args)]
pub(crate) struct ItemLocation {
    #[command(flatten)]
    container: ContainerArguments,
    #[command(flatten)]
    remote: RemoteArguments,
    #[command(flatten)]
    print: PrintArguments,
}

/// One item of a container.
#[derive(Debug, Args)]
pub(crate) struct OneItem {
    /// The id of the item
    id: String,
    /// Its partition key: a value, or a JSON list for a hierarchical key [default: the id, where
    /// the container is partitioned by it]
    #[arg(long, short = 'k', value_name = "VALUE")]
    partition_key: Option<String>,
    #[command(flatten)]
    place: ItemLocation,
}

/// An item that is written.
#[derive(Debug, Args)]
pub(crate) struct WriteArguments {
    /// The item as JSON; `-`, or nothing, is standard input
    #[arg(value_name = "JSON")]
    item: Option<String>,
    /// Read the item from a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "item")]
    file: Option<PathBuf>,
    /// Replace the item that exists, and only if it still has this etag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    place: ItemLocation,
}

pub(crate) fn run(command: &ItemCommand) -> Result<()> {
    match command {
        ItemCommand::Create(arguments) if arguments.if_match.is_some() => {
            Err(usage("a new item has no etag; --if-match goes with `orrery item write`"))
        }
        ItemCommand::Create(arguments) => write(arguments, ItemExists::Refuse),
        ItemCommand::Write(arguments) => write(arguments, ItemExists::Replace),
        ItemCommand::Read { one } => {
            let mut remote = one.place.remote.connect()?;
            let mut items = Items::new(&mut remote, one.place.container.path());
            let found = items.read(&one.id, one.partition_key.as_deref())?;
            Print::new(one.place.print).resource(&found)
        }
        ItemCommand::Delete { one, if_match } => {
            let mut remote = one.place.remote.connect()?;
            let mut items = Items::new(&mut remote, one.place.container.path());
            items.delete(&one.id, one.partition_key.as_deref(), if_match.as_deref())?;
            eprintln!("Item '{}' is deleted.", one.id);
            Ok(())
        }
        ItemCommand::List { place, partition_key: key, limit } => {
            let mut remote = place.remote.connect()?;
            let mut items = Items::new(&mut remote, place.container.path());
            let (found, more) = items.list(key.as_deref(), *limit)?;
            // The properties of the first items are the columns, without the server's own.
            let mut columns: Vec<String> = Vec::new();
            for (name, _) in found.iter().filter_map(Value::as_object).flat_map(Object::iter) {
                if !name.starts_with('_') && !columns.iter().any(|known| **known == **name) {
                    columns.push(name.to_string());
                }
            }
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            Print::new(place.print).resources(&found, &columns)?;
            if more {
                eprintln!("There are more items: --limit NUMBER, or `orrery export`.");
            }
            Ok(())
        }
    }
}

fn write(arguments: &WriteArguments, existing: ItemExists) -> Result<()> {
    let item = json_input::object(arguments.item.as_deref(), arguments.file.as_deref())?;
    let mut remote = arguments.place.remote.connect()?;
    let mut items = Items::new(&mut remote, arguments.place.container.path());
    let stored = items.write(&item, existing, arguments.if_match.as_deref())?;
    Print::new(arguments.place.print).resource(&stored)
}

/// What becomes of an item that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemExists {
    Refuse,
    Replace,
}

/// The items of a container on a server.
pub(crate) struct Items<'r> {
    remote: &'r mut Remote,
    /// `/dbs/…/colls/…`
    container: String,
}

const JSON: (&str, &str) = ("content-type", "application/json");

impl<'r> Items<'r> {
    pub(crate) fn new(remote: &'r mut Remote, container: String) -> Self {
        Self { remote, container }
    }

    /// Writes an item and gives back what is stored. With an etag the item must exist and have it.
    pub(crate) fn write(
        &mut self,
        item: &Value,
        existing: ItemExists,
        if_match: Option<&str>,
    ) -> Result<Value> {
        let body = item.to_json();
        let answer = if let Some(etag) = if_match {
            let id = item.get("id").as_str().ok_or_else(|| usage("the item has no id"))?;
            let key = self.key_of(item)?;
            let sent = [JSON, (headers::IF_MATCH, etag), (headers::PARTITION_KEY, &*key)];
            let container = &self.container;
            account::send_item(self.remote, "PUT", container, id, &sent, body.as_bytes())?
        } else {
            let upsert = if existing == ItemExists::Replace { "true" } else { "false" };
            let sent = [JSON, (headers::IS_UPSERT, upsert)];
            let path = format!("{}/docs", self.container);
            account::send(self.remote, "POST", &path, &sent, body.as_bytes())?
        };
        self.value(&answer)
    }

    pub(crate) fn read(&mut self, id: &str, key: Option<&str>) -> Result<Value> {
        let key = self.key(id, key)?;
        let sent = [(headers::PARTITION_KEY, &*key)];
        let answer = account::send_item(self.remote, "GET", &self.container, id, &sent, b"")?;
        self.value(&answer)
    }

    pub(crate) fn delete(
        &mut self,
        id: &str,
        key: Option<&str>,
        if_match: Option<&str>,
    ) -> Result<()> {
        let key = self.key(id, key)?;
        let mut sent = vec![(headers::PARTITION_KEY, &*key)];
        sent.extend(if_match.map(|etag| (headers::IF_MATCH, etag)));
        let answer = account::send_item(self.remote, "DELETE", &self.container, id, &sent, b"")?;
        if answer.status < 400 { Ok(()) } else { Err(self.refusal(&answer)) }
    }

    /// The first items, and whether there are more.
    fn list(&mut self, key: Option<&str>, limit: usize) -> Result<(Vec<Value>, bool)> {
        let path = format!("{}/docs", self.container);
        let key = key.map(partition_key);
        let (mut found, mut continuation) = (Vec::new(), None::<String>);
        loop {
            let count = limit.saturating_sub(found.len()).clamp(1, 1000).to_string();
            let mut sent = vec![(headers::MAX_ITEM_COUNT, &*count)];
            sent.extend(key.as_deref().map(|key| (headers::PARTITION_KEY, key)));
            sent.extend(continuation.as_deref().map(|token| (headers::CONTINUATION, token)));
            let answer = account::must(self.remote, "GET", &path, &sent, b"")?;
            let body = Value::parse(&answer.body).map_err(|_| account::not_an_account())?;
            let Some(page) = body.get("Documents").as_array() else {
                return Err(account::not_an_account());
            };
            found.extend_from_slice(page);
            continuation = answer.header(headers::CONTINUATION).map(str::to_owned);
            if continuation.is_none() || found.len() >= limit {
                let more = continuation.is_some() || found.len() > limit;
                found.truncate(limit);
                return Ok((found, more));
            }
        }
    }

    fn value(&self, answer: &RemoteAnswer) -> Result<Value> {
        if answer.status >= 400 {
            return Err(self.refusal(answer));
        }
        Value::parse(&answer.body).map_err(|_| account::not_an_account())
    }

    fn refusal(&self, answer: &RemoteAnswer) -> anyhow::Error {
        use crate::exit::{Exit, Failure};
        let message = account::message(&answer.body);
        let advice = match answer.status {
            404 => "; check id and partition key",
            409 => "; an item with this id exists, or one with the same unique key",
            412 => "; the item has changed since: read it again, and use its new _etag",
            _ => return account::refusal(&self.container, answer),
        };
        let text = format!("the server refuses it ({}): {message}{advice}", answer.status);
        Failure::new(Exit::Refused, text).into()
    }

    /// The header for a partition key: as given, or the id where that is the key.
    fn key(&mut self, id: &str, given: Option<&str>) -> Result<String> {
        if let Some(given) = given {
            return Ok(partition_key(given));
        }
        let paths = self.key_paths()?;
        match &paths[..] {
            [path] if *path == "/id" => Ok(Value::array(vec![id.into()]).to_json()),
            _ => Err(usage(format!(
                "name the partition key, which is {}: -k VALUE, or -k '[VALUE,VALUE]'",
                paths.join(", ")
            ))),
        }
    }

    /// The header for the partition key that an item holds.
    fn key_of(&mut self, item: &Value) -> Result<String> {
        let component = |path: &String| {
            let path =
                PropertyPath::parse(path).context("the server's partition key is no path")?;
            let value = PropertyPath::value_in(&path, item);
            KeyComponent::from_value(value)
                .ok_or_else(|| usage("the partition key of the item is an array or an object"))
        };
        let key = self.key_paths()?.iter().map(component).collect::<Result<Vec<_>>>()?;
        Ok(PartitionKey(key).to_header())
    }

    fn key_paths(&mut self) -> Result<Vec<String>> {
        let answer = account::must(self.remote, "GET", &self.container, &[], b"")?;
        let container = Value::parse(&answer.body).map_err(|_| account::not_an_account())?;
        let paths = container.get("partitionKey").get("paths").as_array().unwrap_or_default();
        Ok(paths.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }
}
