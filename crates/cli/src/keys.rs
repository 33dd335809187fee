//! `orrery keys`: the keys of the account that a data folder keeps. A server that has the folder open
//! takes new ones within a second or two.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum as _};
use orrery_server::auth::keys::{AccountKeys, KeyName};
use orrery_server::config::{Choices, Settings};
use orrery_types::{Object, Value};

use crate::exit::UNREAD;
use crate::table::Table;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List them
    List(FolderArguments),
    /// Make a new one in the place of one; who has the old one is locked out
    Rotate {
        /// Which one
        #[arg(value_enum)]
        which: KeyName,
        #[command(flatten)]
        folder: FolderArguments,
    },
}

/// The data folder.
#[derive(Debug, Args)]
pub(crate) struct FolderArguments {
    /// Folder that holds the data [default: orrery in your data folder]
    #[arg(long, env = "ORRERY_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl FolderArguments {
    fn path(&self) -> Result<PathBuf> {
        let choices = Choices { data: self.data.clone(), ..Choices::default() };
        Settings::resolve(choices, None)?.data.context("name the data folder: --data FOLDER")
    }
}

pub(crate) fn run(command: &KeysCommand) -> Result<()> {
    let (keys, json) = match command {
        KeysCommand::List(folder) => (AccountKeys::list(&folder.path()?)?, folder.json),
        KeysCommand::Rotate { which, folder } => {
            let fresh = AccountKeys::rotate(&folder.path()?, *which)?;
            (vec![(*which, fresh)], folder.json)
        }
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
