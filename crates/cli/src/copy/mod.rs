//! `orrery copy`: everything of one store into another of the same or another kind. A running server goes on serving until
//! its copy has caught up; then it refuses writes, the rest is copied and compared, and the new store may be used.

mod copier;
mod source;
pub(crate) mod target;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_postgres::PostgresStore;
use orrery_server::config::StoreSettings;
use orrery_storage::{RocksOptions, RocksStore, Store};
use orrery_types::{Object, Value};

use crate::exit::{Exit, Failure, UNREAD, is_interrupted, usage};
use crate::interrupt;
use crate::postgres::{failure, options};
use crate::store::StoreArguments;
use crate::{data_folder, inspect, table};
use copier::{Copier, CopyTally};
use source::{CopySource, LocalSource, ServerSource};
use target::CopyTarget;

/// Arguments of `copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// Data folder or store that no server has open, or the URL of a running server
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// New data folder, or address of a database: postgres://…
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// Schema of the database that is copied from [default: orrery]
    #[arg(long, value_name = "NAME")]
    from_schema: Option<String>,
    /// Schema of the database that is copied to; it must not hold tables [default: orrery]
    #[arg(long, value_name = "NAME")]
    to_schema: Option<String>,
    /// File with the password of the database [default: PGPASSWORD, PGPASSFILE or ~/.pgpass]
    #[arg(long, env = "ORRERY_STORE_PASSWORD_FILE", value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// A read-write key of the server [default: for a server on this machine, the emulator's key]
    #[arg(long, env = "ORRERY_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// Certificate that an https endpoint is trusted by, as PEM
    #[arg(long, env = "ORRERY_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A place as the arguments name it.
enum Place {
    Folder(PathBuf),
    Server(String),
    Store(StoreSettings),
}

impl CopyArguments {
    fn place(&self, text: &str, schema: Option<&String>) -> Result<Place> {
        let lower = text.to_ascii_lowercase();
        let begins = |start: &str| lower.starts_with(start);
        if begins("http://") || begins("https://") {
            return Ok(Place::Server(text.to_owned()));
        }
        if begins("postgres://") || begins("postgresql://") || text.contains("host=") {
            let store = StoreArguments {
                store: Some(text.to_owned()),
                store_schema: schema.cloned(),
                store_password_file: self.store_password_file.clone(),
            };
            let none = || usage("the address of the database is empty");
            return Ok(Place::Store(store.settings()?.ok_or_else(none)?));
        }
        Ok(Place::Folder(text.into()))
    }
}

/// A source, and the account's keys beside it if they can be read.
struct OpenedSource {
    source: Box<dyn CopySource>,
    keys: Option<String>,
    is_server: bool,
}

pub(crate) fn run(arguments: &CopyArguments) -> Result<()> {
    let from = arguments.place(&arguments.from, arguments.from_schema.as_ref())?;
    let to = arguments.place(&arguments.to, arguments.to_schema.as_ref())?;
    let _cooperation = interrupt::cooperate();
    let target = match to {
        Place::Folder(folder) => CopyTarget::folder(&folder)?,
        Place::Store(settings) => CopyTarget::postgres(settings)?,
        Place::Server(_) => {
            let text =
                "a running server cannot be copied to; name a new data folder, or postgres://…";
            return Err(usage(text));
        }
    };
    let opened = match open_source(arguments, from) {
        Ok(opened) => opened,
        Err(error) => {
            target.discard();
            return Err(error);
        }
    };
    let (is_server, has_keys) = (opened.is_server, opened.keys.is_some());
    let place = target.place();
    let watch = orrery_types::stopwatch::Stopwatch::start();
    let (tally, seen) = fill(opened, target)?;
    let seconds = watch.elapsed().as_secs_f64();
    if arguments.json {
        return print(&(to_json(tally, seen, seconds, has_keys) + "\n"));
    }
    let mut text = format!(
        "{} with {} copied to {place} in {seconds:.1} s and compared entry by entry.\n",
        table::counted(seen.containers, "container"),
        table::counted(seen.items, "item"),
    );
    if is_server {
        let closed = tally.closed.as_secs_f64();
        let refused = format!(
            "The server has refused writes for {closed:.1} s, and goes on refusing them: stop it, and start one on the \
             copy.\n"
        );
        text += &refused;
    }
    if !has_keys {
        text += "Not copied: the keys of the account. The first start makes new ones, and resource tokens of \
                 the old ones end.\n";
    }
    print(&text)
}

fn open_source(arguments: &CopyArguments, from: Place) -> Result<OpenedSource> {
    Ok(match from {
        Place::Folder(folder) => {
            let source = Box::new(LocalSource::begin(open_folder(&folder)?)?);
            OpenedSource { source, keys: target::keys_of_folder(&folder)?, is_server: false }
        }
        Place::Store(settings) => {
            let store = PostgresStore::open(&settings.address, &options(&settings));
            let source = Box::new(LocalSource::begin(Arc::new(store.map_err(failure)?))?);
            OpenedSource { source, keys: target::keys_of_store(&settings)?, is_server: false }
        }
        Place::Server(endpoint) => {
            let (key, ca) = (arguments.key.as_deref(), arguments.ca.as_deref());
            let source = Box::new(ServerSource::begin(&endpoint, key, ca)?);
            OpenedSource { source, keys: None, is_server: true }
        }
    })
}

/// The store of a folder that no server has open.
fn open_folder(folder: &Path) -> Result<Arc<dyn Store>> {
    let store = RocksStore::open(&data_folder::existing(folder)?, &RocksOptions::default());
    let advice = "to copy it while a server has it open, name the server's URL with --from";
    Ok(Arc::new(store.map_err(data_folder::unopened).context(advice)?))
}

/// Copies into the target, and gives it its name; what is unfinished is removed.
fn fill(opened: OpenedSource, target: CopyTarget) -> Result<(CopyTally, inspect::Seen)> {
    let filled = copy_into(opened, &target);
    match filled {
        Ok(found) => target.publish().map(|()| found),
        Err(error) => {
            target.discard();
            if is_interrupted(&error) {
                return Err(interrupt::failure("interrupted; nothing was copied"));
            }
            if let Some(full) = data_folder::full_disk(&error) {
                let text = format!("the target is full: {full}; free some space and copy again");
                return Err(Failure::new(Exit::Failed, text).into());
            }
            Err(error)
        }
    }
}

fn copy_into(mut opened: OpenedSource, target: &CopyTarget) -> Result<(CopyTally, inspect::Seen)> {
    let store = target.open()?;
    if let Some(keys) = &opened.keys {
        target.keep_keys(keys)?;
    }
    let tally = Copier::new(&mut *opened.source, store.clone()).run()?;
    // That the catalog can be read, too, is known before the source is given up.
    let seen = inspect::count(&data_folder::open_engine(store)?)?;
    opened.source.finish()?;
    Ok((tally, seen))
}

/// Copies a store that this process has open into a new place, as `restore` does.
pub(crate) fn copy_local(store: Arc<dyn Store>, target: CopyTarget) -> Result<inspect::Seen> {
    let source = Box::new(LocalSource::begin(store)?);
    fill(OpenedSource { source, keys: None, is_server: false }, target).map(|(_, seen)| seen)
}

fn to_json(tally: CopyTally, seen: inspect::Seen, seconds: f64, has_keys: bool) -> String {
    let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
    let mut object = Object::new();
    object.set("containers", number(seen.containers));
    object.set("items", number(seen.items));
    object.set("shards", number(tally.shards));
    object.set("entries", number(tally.entries));
    object.set("bytes", number(tally.bytes));
    object.set("changes", number(tally.changes));
    object.set("seconds", seconds.into());
    object.set("secondsWithoutWrites", tally.closed.as_secs_f64().into());
    object.set("keys", has_keys.into());
    Value::object(object).to_json()
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}
