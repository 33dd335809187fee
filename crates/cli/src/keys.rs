//! `orrery keys`: the keys of the account that a data folder or a store keeps. A server that has it open
//! takes new ones within a second or two.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum as _};
use orrery_server::auth::keys::{AccountKeys, KeyName};
use orrery_server::config::{Choices, Settings};
use orrery_types::{Object, Value};

use crate::exit::{UNREAD, usage};
use crate::postgres::StoreRecords;
use crate::store::StoreArguments;
use crate::table::Table;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List them
    List(PlaceArguments),
    /// Replace a key by a new one; clients that use the old key are refused
    Rotate {
        /// Which one
        #[arg(value_enum)]
        which: KeyName,
        #[command(flatten)]
        place: PlaceArguments,
    },
}

/// Where the account is kept.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Folder that holds the data [default: orrery in your data folder]
    #[arg(long, env = "ORRERY_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PlaceArguments {
    /// The records of the store, if one is named.
    fn records(&self) -> Result<Option<StoreRecords>> {
        let Some(store) = self.store.settings()? else { return Ok(None) };
        if self.data.is_some() {
            return Err(usage("A store and a data folder were both named. Choose one."));
        }
        StoreRecords::open(&store).map(Some)
    }

    fn list(&self) -> Result<Vec<(KeyName, String)>> {
        Ok(match self.records()? {
            Some(records) => AccountKeys::list_records(&records)?,
            None => AccountKeys::list(&self.path()?)?,
        })
    }

    fn rotate(&self, which: KeyName) -> Result<String> {
        Ok(match self.records()? {
            Some(records) => AccountKeys::rotate_record(&records, which)?,
            None => AccountKeys::rotate(&self.path()?, which)?,
        })
    }

    fn path(&self) -> Result<PathBuf> {
        let choices = Choices { data: self.data.clone(), ..Choices::default() };
        Settings::resolve(choices, None)?.data.context("name the data folder: --data FOLDER")
    }
}

pub(crate) fn run(command: &KeysCommand) -> Result<()> {
    let (keys, json) = match command {
        KeysCommand::List(place) => (place.list()?, place.json),
        KeysCommand::Rotate { which, place } => (vec![(*which, place.rotate(*which)?)], place.json),
    };
    let name = |key: &KeyName| {
        key.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let text = if json {
        let mut object = Object::new();
        for (key, text) in &keys {
            object.set(&name(key), text.as_str().into());
        }
        Value::object(object).to_json() + "\n"
    } else {
        let mut table = Table::new(["key", "in base64"]);
        for (key, text) in &keys {
            table.row([name(key), text.clone()]);
        }
        table.to_text(usize::MAX)
    };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}
