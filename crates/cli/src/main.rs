//! The one binary. Here arguments become a command and errors one sentence; each command lives
//! in a file of its own. Without a command it serves.

mod account;
mod advise;
mod announce;
mod archive;
mod backup;
mod bench;
mod change_feed;
mod confirm;
mod container;
mod copy;
mod data_folder;
mod database;
mod demo;
mod emulator;
mod exit;
mod feed;
mod inspect;
mod interrupt;
mod item;
mod json_input;
mod keys;
mod layout;
mod man;
mod model;
mod nodes;
mod output;
mod pager;
mod postgres;
mod pretty;
mod progress;
mod query;
mod ready;
mod remote;
mod role;
mod serve;
mod store;
mod table;
mod tasks;
mod throughput;
mod top;
mod transfer;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
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
    /// Serve the database; the default without a command
    Serve(Box<ServeArguments>),
    /// Serve as the emulator's image does: its settings, ports and messages
    Emulator(Box<emulator::EmulatorArguments>),
    /// Ask whether the server of this machine is ready, or wait until it is
    Ready(ready::ReadyArguments),
    /// Create, list, read and delete databases
    #[command(subcommand)]
    Db(database::DatabaseCommand),
    /// Create, list, read, replace and delete containers
    #[command(subcommand)]
    Container(Box<container::ContainerCommand>),
    /// Create, list, read, write and delete items
    #[command(subcommand)]
    Item(item::ItemCommand),
    /// Print the changes of a container, and follow them
    Feed(feed::FeedArguments),
    /// Query a running server, once or from a shell
    Query(Box<query::QueryArguments>),
    /// Show what a server is busy with: charge, rate and latency
    Top(top::TopArguments),
    /// List failing background work of a server, or retry it
    #[command(subcommand)]
    Tasks(tasks::TasksCommand),
    /// List the nodes of a store that several processes serve
    Nodes(nodes::NodesArguments),
    /// Show or set the throughput of a database or container
    Throughput(throughput::ThroughputArguments),
    /// Import items from files, or from another account
    Import(Box<transfer::ImportArguments>),
    /// Export the items of a container into a file
    Export(Box<transfer::ExportArguments>),
    /// Write a consistent backup of everything into a file
    Backup(backup::BackupArguments),
    /// Restore a backup into a new data folder, or a new store in Postgres
    Restore(backup::RestoreArguments),
    /// Copy everything from one store to another: a data folder, a running server, or Postgres
    Copy(Box<copy::CopyArguments>),
    /// Show what a data folder holds, and verify it
    Inspect(inspect::InspectArguments),
    /// Create, show and migrate a store in Postgres
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// List the keys of the account, or make new ones
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// List, create and delete roles of Entra ID principals, and assign them
    #[command(subcommand)]
    Role(role::RoleCommand),
    /// Load five small databases that show what models are for
    Demo(demo::DemoArguments),
    /// Put a light load on a server
    Bench(bench::BenchArguments),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Man(man::ManArguments),
    /// Analyse data and report what a model would improve
    Advise(advise::AdviseArguments),
    /// Split a range of a container in two, while it is used
    Split(layout::SplitArguments),
    /// Merge two neighbouring ranges of a container, while it is used
    Merge(layout::MergeArguments),
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
    /// Start although the write-ahead log is damaged: keep what lies before the damage, and set aside
    /// the acknowledged writes behind it
    #[arg(long)]
    accept_log_damage: bool,
    /// Stop when standard input ends, as a pipe does when the process that holds it is gone; for tests
    /// that must leave no server behind
    #[arg(long)]
    stop_at_eof: bool,
    #[command(flatten)]
    choices: Choices,
    /// What it does beside serving when it stands in for the emulator.
    #[arg(skip)]
    emulator: Option<emulator::Emulator>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A server handles signals itself.
    if !matches!(arguments.command, None | Some(Command::Serve(_) | Command::Emulator(_))) {
        interrupt::watch();
    }
    let done = match arguments.command {
        Some(Command::Db(command)) => database::run(&command),
        Some(Command::Container(command)) => container::run(&command),
        Some(Command::Item(command)) => item::run(&command),
        Some(Command::Feed(arguments)) => feed::run(&arguments),
        Some(Command::Man(arguments)) => man::run(&arguments, Arguments::command()),
        Some(Command::Query(arguments)) => query::run(&arguments),
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Tasks(command)) => tasks::run(&command),
        Some(Command::Nodes(arguments)) => nodes::run(&arguments),
        Some(Command::Throughput(arguments)) => throughput::run(&arguments),
        Some(Command::Import(arguments)) => transfer::import(&arguments),
        Some(Command::Export(arguments)) => transfer::export(&arguments),
        Some(Command::Backup(arguments)) => backup::backup(&arguments),
        Some(Command::Restore(arguments)) => backup::restore(&arguments),
        Some(Command::Copy(arguments)) => copy::run(&arguments),
        Some(Command::Inspect(arguments)) => inspect::run(&arguments),
        Some(Command::Store(command)) => store::run(&command),
        Some(Command::Keys(command)) => keys::run(&command),
        Some(Command::Role(command)) => role::run(&command),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::Completions { shell }) => {
            // Into memory first: the library gives up with a panic where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "orrery", &mut script);
            std::io::stdout().write_all(&script).context(exit::UNREAD)
        }
        Some(Command::Advise(arguments)) => advise::run(&arguments),
        Some(Command::Model(command)) => model::run(&command),
        Some(Command::Ready(arguments)) => ready::run(&arguments),
        Some(Command::Split(arguments)) => layout::split(&arguments),
        Some(Command::Merge(arguments)) => layout::merge(&arguments),
        Some(Command::Serve(serve)) => serve::run(*serve),
        Some(Command::Emulator(arguments)) => {
            emulator::serve_arguments(*arguments).and_then(serve::run)
        }
        None => serve::run(arguments.serve),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if exit::is_enough(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orrery: {error:#}");
            exit::code(&error).into()
        }
    }
}

#[cfg(test)]
mod tests {
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
