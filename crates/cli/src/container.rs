//! `orrery container`: the containers of a database.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use orrery_server::wire::headers;
use orrery_types::Value;

use crate::account::{self, must};
use crate::confirm;
use crate::exit::usage;
use crate::json_input;
use crate::output::{Print, PrintArguments};
use crate::remote::RemoteArguments;
use crate::transfer::definition;

/// What to do with containers.
#[derive(Debug, Subcommand)]
pub(crate) enum ContainerCommand {
    /// Create a container
    Create {
        #[command(flatten)]
        on: OneContainer,
        /// Path of the partition key; several levels with commas
        #[arg(long, short = 'k', value_name = "PATH", required_unless_present = "definition")]
        partition_key: Option<String>,
        /// Seconds that an item lives unless it says otherwise; -1 for items that say so alone
        #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
        ttl: Option<i64>,
        /// The whole definition as JSON, from a file; `-` is standard input
        #[arg(long, value_name = "FILE", conflicts_with_all = ["partition_key", "ttl"])]
        definition: Option<PathBuf>,
        #[command(flatten)]
        offer: OfferArguments,
    },
    /// List the containers of a database
    List {
        /// Database
        #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
        database: String,
        #[command(flatten)]
        remote: RemoteArguments,
        #[command(flatten)]
        print: PrintArguments,
    },
    /// Print the definition of a container
    Read(OneContainer),
    /// Replace the definition of a container: its indexing policy, time to live and the like
    Write {
        #[command(flatten)]
        on: OneContainer,
        /// The whole definition as JSON, from a file; `-` is standard input
        #[arg(long, value_name = "FILE")]
        definition: PathBuf,
        /// Only if the container still has this etag
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
    },
    /// Delete a container with all its items
    Delete {
        #[command(flatten)]
        on: OneContainer,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// One container of a database.
#[derive(Debug, Args)]
pub(crate) struct OneContainer {
    /// The container
    #[arg(value_name = "NAME", required_unless_present = "container")]
    name: Option<String>,
    /// Database
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    database: String,
    /// The container, as other commands take it
    #[arg(long, short, env = "ORRERY_CONTAINER", value_name = "NAME")]
    container: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
    #[command(flatten)]
    print: PrintArguments,
}

impl OneContainer {
    /// The name as an argument counts over the one that the environment may hold.
    fn name(&self) -> Result<&str> {
        self.name.as_deref().or(self.container.as_deref()).context("name the container")
    }

    fn path(&self) -> Result<String> {
        Ok(format!("/dbs/{}/colls/{}", self.database, self.name()?))
    }
}

/// The throughput of something new.
#[derive(Debug, Args)]
pub(crate) struct OfferArguments {
    /// Request units a second, always the same
    #[arg(long, value_name = "NUMBER", conflicts_with = "autoscale")]
    manual: Option<u32>,
    /// Request units a second at the most, and a tenth of them at the least
    #[arg(long, value_name = "NUMBER")]
    autoscale: Option<u32>,
}

impl OfferArguments {
    pub(crate) fn headers(&self) -> Vec<(&'static str, String)> {
        let manual = self.manual.map(|units| (headers::OFFER_THROUGHPUT, units.to_string()));
        let autoscale = self
            .autoscale
            .map(|units| (headers::OFFER_AUTOPILOT, format!("{{\"maxThroughput\":{units}}}")));
        manual.into_iter().chain(autoscale).collect()
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");

pub(crate) fn run(command: &ContainerCommand) -> Result<()> {
    match command {
        ContainerCommand::Create { on, partition_key, ttl, definition: file, offer } => {
            let body = match (file, partition_key) {
                (Some(file), _) => named(json_input::object_in(file)?, on.name()?),
                (None, paths) => {
                    let paths = paths.as_deref().context("name the partition key")?;
                    let mut body = definition(on.name()?, paths);
                    if let (Some(ttl), Some(object)) = (ttl, body.as_object_mut()) {
                        object.set("defaultTtl", (*ttl).into());
                    }
                    Ok(body)
                }
            }?;
            let offer = offer.headers();
            let sent: Vec<(&str, &str)> =
                std::iter::once(JSON).chain(offer.iter().map(|(n, v)| (*n, &**v))).collect();
            let path = format!("/dbs/{}/colls", on.database);
            let mut remote = on.remote.connect()?;
            let made = must(&mut remote, "POST", &path, &sent, body.to_json().as_bytes())?;
            Print::new(on.print).body(&made.body)
        }
        ContainerCommand::List { database, remote, print } => {
            let path = format!("/dbs/{database}/colls");
            let all = account::list_all(&mut remote.connect()?, &path, "DocumentCollections")?;
            Print::new(*print).resources(&all, &["id", "partitionKey/paths", "defaultTtl", "_etag"])
        }
        ContainerCommand::Read(on) => {
            let found = must(&mut on.remote.connect()?, "GET", &on.path()?, &[], b"")?;
            Print::new(on.print).body(&found.body)
        }
        ContainerCommand::Write { on, definition, if_match } => {
            let body = named(json_input::object_in(definition)?, on.name()?)?;
            let sent: Vec<(&str, &str)> = std::iter::once(JSON)
                .chain(if_match.as_deref().map(|etag| (headers::IF_MATCH, etag)))
                .collect();
            let (path, mut remote) = (on.path()?, on.remote.connect()?);
            let made = must(&mut remote, "PUT", &path, &sent, body.to_json().as_bytes())?;
            Print::new(on.print).body(&made.body)
        }
        ContainerCommand::Delete { on, yes } => {
            let (path, mut remote) = (on.path()?, on.remote.connect()?);
            // Before anybody is asked: it exists.
            must(&mut remote, "GET", &path, &[], b"")?;
            confirm::delete(&format!("container '{}/{}'", on.database, on.name()?), *yes)?;
            must(&mut remote, "DELETE", &path, &[], b"")?;
            eprintln!("Container '{}/{}' is deleted.", on.database, on.name()?);
            Ok(())
        }
    }
}

/// A definition with the name of the command line; one that names another container is a mistake.
fn named(mut definition: Value, name: &str) -> Result<Value> {
    if let Some(other) = definition.get("id").as_str().filter(|id| *id != name) {
        let text = format!("the definition is of '{other}', and the command names '{name}'");
        return Err(usage(text));
    }
    if let Some(object) = definition.as_object_mut() {
        object.set("id", name.into());
    }
    Ok(definition)
}
