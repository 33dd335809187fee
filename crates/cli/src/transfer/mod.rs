//! Items on their way in and out: `orrery import` and `orrery export`.
//!
//! - `records`   a file of JSON lines, or of one array, taken apart item by item
//! - `sheet`     CSV, both ways
//! - `import`    the command: rounds of items, what became of each, where to go on
//! - `target`    where items go, and what may become of them
//! - `bulk`      into a running server
//! - `offline`   into a data folder that no server has open
//! - `live`      from another account, by its change feed
//! - `export`    the command
//! - `resume`    how far a transfer got, for the next start

mod bulk;
mod export;
mod import;
mod live;
mod offline;
mod records;
mod resume;
mod sheet;
mod target;

use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};
use orrery_types::Value;

use crate::account;
use crate::remote::Remote;
pub(crate) use bulk::Bulk;
pub(crate) use export::ExportArguments;
pub(crate) use export::run as export;
pub(crate) use import::load;
pub(crate) use import::run as import;
pub(crate) use import::{ImportArguments, definition};
pub(crate) use resume::state_folder;
pub(crate) use target::{Fate, Item, OnExisting, TransferTally};

/// The container of a transfer.
#[derive(Clone, Debug, Args)]
pub(crate) struct ContainerArguments {
    /// Database
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    pub(crate) database: String,
    /// Container
    #[arg(long, short, env = "ORRERY_CONTAINER", value_name = "NAME")]
    pub(crate) container: String,
}

impl ContainerArguments {
    pub(crate) fn path(&self) -> String {
        format!("/dbs/{}/colls/{}", self.database, self.container)
    }

    /// Which container it is: one that was deleted and recreated under the same names is another. A `_rid` is
    /// never given twice within an account; the etag of the database tells a fresh account apart,
    /// which counts from one again.
    fn identity(&self, remote: &mut Remote) -> Result<String> {
        let mut read = |path: &str| {
            let answer = account::must(remote, "GET", path, &[], b"")?;
            Value::parse(&answer.body).map_err(|_| account::not_an_account())
        };
        let database = read(&format!("/dbs/{}", self.database))?;
        Ok(identity(&database, &read(&self.path())?))
    }
}

/// The same, of a database and a container as they were read.
fn identity(database: &Value, container: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(database.get("_etag")), text(container.get("_rid")))
}

/// How a file holds items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One item on each line
    Lines,
    /// One array of items
    Json,
    /// A row for each item, with the names of properties in the first
    Csv,
}

impl Format {
    /// What the name of a file says.
    fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "jsonl" | "ndjson" => Some(Self::Lines),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}
