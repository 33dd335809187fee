//! `orrery inspect`: what a data folder holds, and whether it is whole.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_engine::{Container, Engine};
use orrery_types::ids::Address;
use orrery_types::{Object, Value};

use crate::data_folder::{self, STORE, unread};
use crate::exit::{Exit, Failure, UNREAD};
use crate::interrupt;
use crate::progress::ProgressLine;
use crate::table::{self, Table};

/// Faults that are reported one by one.
const FAULTS_TOLD: usize = 20;

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// The data folder, which no server may have open
    folder: PathBuf,
    /// Read everything: each item with its checksum, its index terms and its place in the feed
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was seen of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) containers: u64,
    pub(crate) items: u64,
}

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    let engine = data_folder::open(&arguments.folder)?;
    let format = std::fs::read_to_string(arguments.folder.join(STORE).join("FORMAT"));
    let format = format.context("the folder has no FORMAT")?.trim().to_owned();
    let containers = containers(&engine)?;
    let mut rows = Vec::new();
    for (database, container) in &containers {
        rows.push(Row::of(&engine, database, container)?);
    }
    let text = if arguments.json {
        let list = Value::array(rows.iter().map(Row::to_value).collect());
        let mut object = Object::new();
        object.set("format", format.into());
        object.set("bytes", number(size_of(&arguments.folder)));
        object.set("databases", Value::array(databases(&engine).map(Value::from).collect()));
        object.set("containers", list);
        Value::object(object).to_json() + "\n"
    } else {
        describe(&arguments.folder, &format, &engine, &rows)
    };
    let printed = std::io::stdout().write_all(text.as_bytes()).context(UNREAD);
    if arguments.verify {
        let seen = verify(&engine)?;
        eprintln!("{} verified, no faults.", table::counted(seen.items, "item"));
    }
    printed
}

fn describe(folder: &Path, format: &str, engine: &Engine, rows: &[Row]) -> String {
    let mut text = format!("{}: {format}, {}\n", folder.display(), table::size(size_of(folder)));
    let mut table = Table::new([
        "database",
        "container",
        "partition key",
        "ranges",
        "items",
        "size of items",
        "of index",
        "LSN",
        "model",
    ]);
    for row in rows {
        table.row([
            row.database.clone(),
            row.container.clone(),
            row.partition_key.clone(),
            row.ranges.to_string(),
            table::count(row.items),
            table::size(row.items_bytes),
            table::size(row.index_bytes),
            row.lsn.to_string(),
            row.model.clone(),
        ]);
    }
    let empty = databases(engine).filter(|name| !rows.iter().any(|row| row.database == *name));
    for name in empty {
        table.row([name, String::new()]);
    }
    if !table.is_empty() {
        text += &table.to_text(table::width());
    }
    text
}

fn databases(engine: &Engine) -> impl Iterator<Item = String> {
    let list = engine.databases().list().into_iter();
    list.filter_map(|database| database.body.get("id").as_str().map(str::to_owned))
}

fn containers(engine: &Engine) -> Result<Vec<(String, std::sync::Arc<Container>)>> {
    let mut found = Vec::new();
    for name in databases(engine) {
        let database = engine.databases().read(&Address::Name(name.clone()));
        let database = database.map_err(|error| unread(&error))?;
        found.extend(database.containers().map(|container| (name.clone(), container.clone())));
    }
    Ok(found)
}

fn number(n: u64) -> Value {
    i64::try_from(n).unwrap_or(i64::MAX).into()
}

/// One container.
struct Row {
    database: String,
    container: String,
    partition_key: String,
    ranges: usize,
    items: u64,
    items_bytes: u64,
    index_bytes: u64,
    lsn: u64,
    model: String,
}

impl Row {
    fn of(engine: &Engine, database: &str, container: &Container) -> Result<Self> {
        let usage = engine.insight().usage(container).map_err(|error| unread(&error))?;
        let resource = container.to_resource();
        let paths = resource.body.get("partitionKey").get("paths").as_array().unwrap_or_default();
        let paths: Vec<&str> = paths.iter().filter_map(Value::as_str).collect();
        let (mut items_bytes, mut index_bytes, mut lsn) = (0, 0, 0);
        for sizes in engine.insight().shard_sizes(container).map_err(|error| unread(&error))? {
            items_bytes += sizes.items_bytes;
            index_bytes += sizes.index_bytes;
            lsn = lsn.max(sizes.lsn.0);
        }
        let model = if engine.models().is_modelled(container) { "yes" } else { "" };
        Ok(Self {
            database: database.to_owned(),
            container: resource.body.get("id").as_str().unwrap_or_default().to_owned(),
            partition_key: paths.join(", "),
            ranges: container.partitions.len(),
            items: usage.items,
            items_bytes,
            index_bytes,
            lsn,
            model: model.to_owned(),
        })
    }

    fn to_value(&self) -> Value {
        let mut object = Object::new();
        object.set("database", self.database.as_str().into());
        object.set("container", self.container.as_str().into());
        object.set("partitionKey", self.partition_key.as_str().into());
        object.set("ranges", number(self.ranges as u64));
        object.set("items", number(self.items));
        object.set("itemsBytes", number(self.items_bytes));
        object.set("indexBytes", number(self.index_bytes));
        object.set("lsn", number(self.lsn));
        object.set("modelled", (self.model == "yes").into());
        Value::object(object)
    }
}

/// Counts what is there.
pub(crate) fn count(engine: &Engine) -> Result<Seen> {
    let mut seen = Seen::default();
    for (_, container) in containers(engine)? {
        seen.containers += 1;
        seen.items += engine.insight().usage(&container).map_err(|error| unread(&error))?.items;
    }
    Ok(seen)
}

/// Reads everything, and fails if anything is not as it should be.
pub(crate) fn verify(engine: &Engine) -> Result<Seen> {
    let mut faults: Vec<String> = Vec::new();
    let progress = ProgressLine::of_items(Some(count(engine)?.items));
    let mut verified = 0;
    for (database, container) in containers(engine)? {
        interrupt::check()?;
        let name = format!("{database}/{}", container.id);
        progress.set_step(verified, &format!("verifying {name}"));
        verified += engine.insight().usage(&container).map_err(|error| unread(&error))?.items;
        match engine.insight().verify(&container) {
            Ok(found) => faults.extend(found.iter().map(|fault| format!("{name}: {fault}"))),
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    progress.end();
    if faults.is_empty() {
        return count(engine);
    }
    for fault in faults.iter().take(FAULTS_TOLD) {
        eprintln!("{fault}");
    }
    let text = format!("{} faults; restore a backup, or export what can be read", faults.len());
    Err(Failure::new(Exit::Damaged, text).into())
}

/// Bytes of all files below a folder; what cannot be read counts nothing.
pub(crate) fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size_of(&entry.path()),
        _ => entry.metadata().map_or(0, |about| about.len()),
    };
    entries.filter_map(std::io::Result::ok).map(size).sum()
}
