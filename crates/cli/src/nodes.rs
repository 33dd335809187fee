//! `orrery nodes`: the processes that serve the same store.

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_types::Value;

use crate::account::must;
use crate::output::{Print, PrintArguments};
use crate::remote::RemoteArguments;

/// Which server is asked; any node knows all of them.
#[derive(Debug, Args)]
pub(crate) struct NodesArguments {
    #[command(flatten)]
    server: RemoteArguments,
    #[command(flatten)]
    print: PrintArguments,
}

const COLUMNS: [&str; 9] = [
    "node",
    "state",
    "host",
    "version",
    "addresses",
    "uptimeS",
    "heartbeatAgeMs",
    "jobCount",
    "lagS",
];

pub(crate) fn run(arguments: &NodesArguments) -> Result<()> {
    let answer = must(&mut arguments.server.connect()?, "GET", "/_orrery/nodes", &[], b"")?;
    let body = Value::parse(&answer.body).context("the server's answer is not JSON")?;
    let nodes = body.get("nodes").as_array().context("the server's answer lists no nodes")?;
    if nodes.is_empty() {
        eprintln!("The server has its store to itself: it is no node among others.");
    }
    Print::new(arguments.print).resources(nodes, &COLUMNS)
}
