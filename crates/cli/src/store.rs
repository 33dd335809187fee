//! `orrery store`: creates, shows and migrates a store in `PostgreSQL`. `orrery serve --store` runs on it.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use orrery_postgres::{NodeOfStore, StoreStatus};
use orrery_server::config::{Choices, Settings, StoreSettings};
use orrery_storage::{Head, ShardState};
use orrery_types::{Object, ShardId, Value};

use crate::exit::{Exit, Failure, UNREAD, usage};
use crate::postgres::{failure, options};
use crate::table::Table;

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Create an empty store in a database that exists
    Init(StoreArguments),
    /// Show the server, the tables and the nodes that use them; exit code 4 if no node could start
    Status {
        #[command(flatten)]
        store: StoreArguments,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the tables of an older release into those of this one, while no node runs
    Migrate(StoreArguments),
}

/// Which store.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArguments {
    /// Address of the database: a URL, or settings as libpq has them
    #[arg(long, env = "ORRERY_STORE", hide_env_values = true, value_name = "ADDRESS")]
    pub(crate) store: Option<String>,
    /// Schema of the database that holds the store [default: orrery]
    #[arg(long, env = "ORRERY_STORE_SCHEMA", value_name = "NAME")]
    pub(crate) store_schema: Option<String>,
    /// File with the password of the database [default: PGPASSWORD, PGPASSFILE or ~/.pgpass]
    #[arg(long, env = "ORRERY_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) store_password_file: Option<PathBuf>,
}

impl StoreArguments {
    /// The store, if one is named.
    pub(crate) fn settings(&self) -> Result<Option<StoreSettings>> {
        let Self { store, store_schema, store_password_file } = self.clone();
        if store.is_none() {
            return Ok(None);
        }
        let choices = Choices { store, store_schema, store_password_file, ..Choices::default() };
        let settings = Settings::resolve(choices, None);
        Ok(settings.map_err(|error| usage(error.to_string()))?.store)
    }

    fn named(&self) -> Result<StoreSettings> {
        let none = "name the store: --store postgres://USER@HOST/DATABASE";
        self.settings()?.ok_or_else(|| usage(none))
    }
}

pub(crate) fn run(command: &StoreCommand) -> Result<()> {
    let text = match command {
        StoreCommand::Init(store) => {
            let store = store.named()?;
            orrery_postgres::init(&store.address, &options(&store)).map_err(failure)?;
            format!("The store is created in the schema '{}'.\n", store.schema)
        }
        StoreCommand::Migrate(store) => {
            let store = store.named()?;
            let found = orrery_postgres::migrate(&store.address, &options(&store));
            let found = found.map_err(failure)?;
            format!(
                "The store in the schema '{}' had version {found} of its tables and has the newest.\n",
                store.schema
            )
        }
        StoreCommand::Status { store, json } => return status(&store.named()?, *json),
    };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

fn status(store: &StoreSettings, json: bool) -> Result<()> {
    let status = orrery_postgres::status(&store.address, &options(store)).map_err(failure)?;
    let text = if json { to_json(&status) } else { to_text(&status) };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)?;
    match &status.problem {
        Some(problem) => Err(Failure::new(Exit::Refused, problem.clone()).into()),
        None => Ok(()),
    }
}

fn node_text(node: &NodeOfStore) -> String {
    let host = node.host.as_deref().unwrap_or("the machine of the server");
    format!("on {host} since {}, session {}", node.since, node.pid)
}

fn shard_count(status: &StoreStatus, state: ShardState) -> usize {
    status.heads.iter().filter(|(_, head)| head.state == state).count()
}

fn to_text(status: &StoreStatus) -> String {
    let standbys = match &*status.synchronous_standbys {
        "" => "none".to_owned(),
        names => names.to_owned(),
    };
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let (declared, available) = (status.connections_declared, status.connections_available);
    let connections = format!("{declared} of {available} may be opened by nodes");
    let count = |state| shard_count(status, state);
    let shards = format!(
        "{} open, {} being made, {} closed, {} dropped",
        count(ShardState::Open),
        count(ShardState::Building),
        count(ShardState::Closed),
        count(ShardState::Dropped)
    );
    let mut table = Table::new(["store", &*status.place]);
    let rows = [
        ("server", format!("PostgreSQL {}", status.server_version)),
        ("standby", yes(status.is_standby)),
        ("encrypted connection", yes(status.is_encrypted)),
        ("fsync", status.fsync.clone()),
        ("full_page_writes", status.full_page_writes.clone()),
        ("synchronous_commit", status.synchronous_commit.clone()),
        ("synchronous standbys", standbys),
        ("tables", format!("version {}, needed {}", status.version, status.version_needed)),
        ("nodes", status.nodes.len().to_string()),
        ("connections", connections),
        ("shards", shards),
        ("size in bytes", status.size_bytes.to_string()),
    ];
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    for node in &status.nodes {
        table.row(["node".to_owned(), node_text(node)]);
    }
    table.to_text(usize::MAX)
}

fn node_json(node: &NodeOfStore) -> Value {
    let mut object = Object::new();
    object.set("session", i64::from(node.pid).into());
    object.set("application", node.application.as_str().into());
    object.set("host", node.host.as_deref().map_or(Value::Null, Value::from));
    object.set("since", node.since.as_str().into());
    Value::object(object)
}

fn head_json((shard, head): &(ShardId, Head)) -> Value {
    let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let state = match head.state {
        ShardState::Building => "building",
        ShardState::Open => "open",
        ShardState::Closed => "closed",
        ShardState::Dropped => "dropped",
    };
    let mut object = Object::new();
    object.set("shard", i64::from(shard.0).into());
    object.set("lsn", number(head.lsn.0));
    object.set("epoch", number(head.epoch.0));
    object.set("control", number(head.control.0));
    object.set("state", state.into());
    Value::object(object)
}

fn to_json(status: &StoreStatus) -> String {
    let mut object = Object::new();
    object.set("store", status.place.as_str().into());
    object.set("server", status.server_version.as_str().into());
    object.set("standby", status.is_standby.into());
    object.set("encrypted", status.is_encrypted.into());
    object.set("fsync", status.fsync.as_str().into());
    object.set("fullPageWrites", status.full_page_writes.as_str().into());
    object.set("synchronousCommit", status.synchronous_commit.as_str().into());
    object.set("synchronousStandbys", status.synchronous_standbys.as_str().into());
    object.set("version", i64::from(status.version).into());
    object.set("versionNeeded", i64::from(status.version_needed).into());
    object.set("nodes", Value::array(status.nodes.iter().map(node_json).collect()));
    object.set("connectionsDeclared", status.connections_declared.into());
    object.set("connectionsAvailable", status.connections_available.into());
    object.set("shards", Value::array(status.heads.iter().map(head_json).collect()));
    object.set("sizeBytes", status.size_bytes.into());
    object.set("problem", status.problem.as_deref().map_or(Value::Null, Value::from));
    Value::object(object).to_json() + "\n"
}
