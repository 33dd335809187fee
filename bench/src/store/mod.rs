//! `store`: the same server on a folder and on `PostgreSQL`, in turns, beside the statements of commits alone; then
//! one, two and three servers on the same `PostgreSQL`. Processor time is that of the servers and, by itself, that of
//! all processes of `PostgreSQL`.

mod arena;
mod report;
mod statements;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::sample::{Sample, Series};
use crate::{disk, machine};
use arena::Arena;

/// What to measure, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
    /// The checkout, for the commit's name
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Folder for the data, on the disk to be measured [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement in milliseconds
    #[arg(long, default_value_t = 2000)]
    ms: u64,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Create,
    Read,
    QueryPage,
    FeedPage,
    Batch,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "durable create",
            Self::Read => "point read",
            Self::QueryPage => "query, page of 100",
            Self::FeedPage => "change feed, page of 100",
            Self::Batch => "batch: 10 reads, 10 replaces",
        }
    }
}

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contestant {
    /// One server on a folder.
    Folder,
    /// So many servers on `PostgreSQL`.
    Nodes(usize),
    /// The statements of commits alone, in groups as large as those of one server.
    Statements,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Event {
    task: Task,
    clients: u64,
    contestant: Contestant,
}

/// What one event took.
struct Measured {
    /// With the processor time of the servers, if there is one.
    servers: Sample,
    /// The same with the processor time of `PostgreSQL`.
    postgres: Option<Sample>,
    /// Commits that went to `PostgreSQL` together.
    group: Option<f64>,
}

/// All rounds of one event.
#[derive(Default)]
struct Rounds {
    servers: Series,
    postgres: Series,
    groups: Vec<f64>,
}

/// How many servers run on one `PostgreSQL` at most.
const NODES_MAX: usize = 3;

fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for clients in [1, 8, 32] {
        for contestant in [Contestant::Folder, Contestant::Nodes(1), Contestant::Statements] {
            events.push(Event { task: Task::Create, clients, contestant });
        }
    }
    let others = [
        (Task::Read, 1),
        (Task::Read, 32),
        (Task::QueryPage, 8),
        (Task::FeedPage, 8),
        (Task::Batch, 8),
    ];
    for (task, clients) in others {
        for contestant in [Contestant::Folder, Contestant::Nodes(1)] {
            events.push(Event { task, clients, contestant });
        }
    }
    events
}

fn events_of_nodes() -> Vec<Event> {
    let of = |task| {
        (1..=NODES_MAX).map(move |nodes| Event {
            task,
            clients: 32,
            contestant: Contestant::Nodes(nodes),
        })
    };
    of(Task::Create).chain(of(Task::Read)).collect()
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "there is nothing to measure in no rounds");
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let time = Duration::from_millis(options.ms);
    let mut arena = Arena::open(&options.server, folder.path())?;
    machine::describe(&options.root);
    println!("- {}; {}", arena.version()?, arena.sizes());
    let syncs = disk::run(folder.path(), Duration::from_secs(1))?.rate();
    println!("- disk: {syncs:.0} syncs/s by one writer; load {}", machine::load());
    println!("- {} rounds of {} ms each; rates are medians", options.rounds, options.ms);
    let (single, of_nodes) = (events(), events_of_nodes());
    let rounds = in_turns(&mut arena, &single, options.rounds, time)?;
    report::print(&single, &rounds)?;
    arena.add_nodes(NODES_MAX)?;
    let rounds = in_turns(&mut arena, &of_nodes, options.rounds, time)?;
    report::print(&of_nodes, &rounds)?;
    println!("\n- load at the end: {}", machine::load());
    Ok(())
}

fn in_turns(
    arena: &mut Arena,
    events: &[Event],
    rounds: usize,
    time: Duration,
) -> Result<Vec<Rounds>> {
    let mut results: Vec<Rounds> = events.iter().map(|_| Rounds::default()).collect();
    for round in 0..rounds {
        // Every other round goes backwards, so that each contestant comes first in half of them.
        let mut order: Vec<usize> = (0..events.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let Measured { servers, postgres, group } = arena.measure(events[at], time)?;
            let result = &mut results[at];
            result.servers.push(servers);
            if let Some(sample) = postgres {
                result.postgres.push(sample);
            }
            result.groups.extend(group);
        }
    }
    Ok(results)
}
