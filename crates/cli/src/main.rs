//! The one binary. Here arguments become a command and errors one sentence; each command lives
//! in a file of its own. Without a command it serves.

mod account;
mod advise;
mod exit;
mod model;
mod query;
mod remote;
mod serve;
mod table;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use orrery_server::config::Choices;

/// A request makes dozens of small allocations; the system's allocator took a fifth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(
    name = "orrery",
    version,
    about = "A document database that speaks the Azure Cosmos DB for NoSQL protocol",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the database; what happens without a command too
    Serve(Box<ServeArguments>),
    /// Ask a running server
    Query(Box<query::QueryArguments>),
    /// Find out from the data itself what a model would do for it
    Advise(advise::AdviseArguments),
    /// Check or draw a model
    #[command(subcommand)]
    Model(model::ModelCommand),
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
struct ServeArguments {
    /// File with settings in TOML; flags and environment count over it
    #[arg(long, env = "ORRERY_CONFIG", value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    #[command(flatten)]
    choices: Choices,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Some(Command::Query(arguments)) => query::run(&arguments),
        Some(Command::Advise(arguments)) => advise::run(&arguments),
        Some(Command::Model(command)) => model::run(&command),
        Some(Command::Serve(serve)) => serve::run(serve.choices, serve.config.as_deref()),
        None => serve::run(arguments.serve.choices, arguments.serve.config.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orrery: {error:#}");
            exit::code(&error).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn flags_mean_the_same_with_and_without_the_command() {
        let choices = |line: &[&str]| {
            let arguments = Arguments::try_parse_from(line).unwrap();
            match arguments.command {
                Some(Command::Serve(serve)) => serve.choices,
                _ => arguments.serve.choices,
            }
        };
        let bare = choices(&["orrery", "--memory", "--listen", "127.0.0.1:0"]);
        let named = choices(&["orrery", "serve", "--memory", "--listen", "127.0.0.1:0"]);
        assert_eq!(bare, named);
        assert_eq!(bare.memory, Some(true));
        assert_eq!(choices(&["orrery", "--memory=false"]).memory, Some(false));
        let names = choices(&["orrery", "--tls-names", "a.example,b.example"]).tls_names;
        assert_eq!(names.unwrap().len(), 2);
    }
}
