//! `orrery tasks`: background work of a server that fails, and another attempt at it.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use orrery_types::{Object, Value};

use crate::account::must;
use crate::exit::UNREAD;
use crate::remote::RemoteArguments;

/// What to do about background work that fails.
#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List the background work that fails: what, why, and when it is tried again
    List(TasksArguments),
    /// Try it again now, what is quarantined too
    Retry(TasksArguments),
}

/// Which of it, and on which server.
#[derive(Debug, Args)]
pub(crate) struct TasksArguments {
    /// Only that of one database
    #[arg(long, short, value_name = "NAME")]
    database: Option<String>,
    #[command(flatten)]
    server: RemoteArguments,
}

const PATH: &str = "/_orrery/tasks";

pub(crate) fn run(command: &TasksCommand) -> Result<()> {
    let text = match command {
        TasksCommand::List(arguments) => list(arguments)?,
        TasksCommand::Retry(arguments) => retry(arguments)?,
    };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

/// One JSON object a line.
fn list(arguments: &TasksArguments) -> Result<String> {
    let answer = must(&mut arguments.server.connect()?, "GET", PATH, &[], b"")?;
    let body = Value::parse(&answer.body).context("the server's answer is not JSON")?;
    let tasks = body.get("tasks").as_array().context("the server's answer lists no tasks")?;
    let is_asked = |task: &&Value| {
        let database = arguments.database.as_deref();
        database.is_none_or(|id| task.get("database").as_str() == Some(id))
    };
    Ok(tasks.iter().filter(is_asked).map(|task| task.to_json() + "\n").collect())
}

fn retry(arguments: &TasksArguments) -> Result<String> {
    let mut body = Object::new();
    if let Some(database) = &arguments.database {
        body.set("database", database.as_str().into());
    }
    let body = Value::object(body).to_json();
    let answer = must(&mut arguments.server.connect()?, "POST", PATH, &[], body.as_bytes())?;
    let answer = Value::parse(&answer.body).context("the server's answer is not JSON")?;
    let retried = answer.get("retried").as_i64().unwrap_or_default();
    Ok(format!("{retried} failing tasks are tried again.\n"))
}
