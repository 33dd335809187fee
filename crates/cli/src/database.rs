//! `orrery db`: the databases of an account.

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use orrery_types::{Object, Value};

use crate::account::{self, must};
use crate::confirm;
use crate::container::OfferArguments;
use crate::output::{Print, PrintArguments};
use crate::remote::RemoteArguments;

/// What to do with databases.
#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseCommand {
    /// Create a database
    Create {
        #[command(flatten)]
        on: OneDatabase,
        #[command(flatten)]
        offer: OfferArguments,
    },
    /// List all databases
    List {
        #[command(flatten)]
        remote: RemoteArguments,
        #[command(flatten)]
        print: PrintArguments,
    },
    /// Print a database
    Read(OneDatabase),
    /// Delete a database with everything in it
    Delete {
        #[command(flatten)]
        on: OneDatabase,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// One database of an account.
#[derive(Debug, Args)]
pub(crate) struct OneDatabase {
    /// The database
    #[arg(value_name = "NAME", required_unless_present = "database")]
    name: Option<String>,
    /// The database, as other commands take it
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    database: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
    #[command(flatten)]
    print: PrintArguments,
}

impl OneDatabase {
    /// The name as an argument counts over the one that the environment may hold.
    fn name(&self) -> Result<&str> {
        self.name.as_deref().or(self.database.as_deref()).context("name the database")
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");

pub(crate) fn run(command: &DatabaseCommand) -> Result<()> {
    match command {
        DatabaseCommand::Create { on, offer } => {
            let mut body = Object::new();
            body.set("id", on.name()?.into());
            let body = Value::object(body).to_json();
            let offer = offer.headers();
            let headers: Vec<(&str, &str)> =
                std::iter::once(JSON).chain(offer.iter().map(|(n, v)| (*n, &**v))).collect();
            let mut remote = on.remote.connect()?;
            let made = must(&mut remote, "POST", "/dbs", &headers, body.as_bytes())?;
            Print::new(on.print).body(&made.body)
        }
        DatabaseCommand::List { remote, print } => {
            let all = account::list_all(&mut remote.connect()?, "/dbs", "Databases")?;
            Print::new(*print).resources(&all, &["id", "_etag", "_ts"])
        }
        DatabaseCommand::Read(on) => {
            let path = format!("/dbs/{}", on.name()?);
            let found = must(&mut on.remote.connect()?, "GET", &path, &[], b"")?;
            Print::new(on.print).body(&found.body)
        }
        DatabaseCommand::Delete { on, yes } => {
            let name = on.name()?;
            let mut remote = on.remote.connect()?;
            let path = format!("/dbs/{name}");
            // Before anybody is asked: it exists.
            must(&mut remote, "GET", &path, &[], b"")?;
            confirm::delete(&format!("database '{name}'"), *yes)?;
            must(&mut remote, "DELETE", &path, &[], b"")?;
            eprintln!("Database '{name}' is deleted.");
            Ok(())
        }
    }
}
