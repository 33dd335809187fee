//! The results as a table.

use anyhow::Result;

use super::{Contestant, Event, Rounds};
use crate::sample::{Series, median};

/// Prints a row for each event. A server's part of the processor time of `PostgreSQL` is held against that of the
/// statements alone.
pub(super) fn print(events: &[Event], rounds: &[Rounds]) -> Result<()> {
    println!();
    println!(
        "| operation | clients | who | operations/s | p50 µs | p99 µs | server µs/op | PostgreSQL µs/op | its processors | \
         in a group | of the statements |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (event, own) in events.iter().zip(rounds) {
        let (servers, postgres) = (&own.servers, own.postgres.processor_us());
        let used = (event.contestant != Contestant::Folder).then_some(postgres).flatten();
        let busy = used.map(|us| us * servers.rate() / 1e6);
        let group = (!own.groups.is_empty()).then(|| median(own.groups.iter().copied()));
        let ratio = match event.contestant {
            Contestant::Nodes(_) => of_statements(event, &own.postgres, events, rounds),
            Contestant::Folder | Contestant::Statements => None,
        };
        let cells = [
            format!("{:.0}", servers.rate()),
            format!("{:.0}", servers.quantile_us(0.5)?),
            format!("{:.0}", servers.quantile_us(0.99)?),
            cell(servers.processor_us(), 0),
            cell(used, 0),
            cell(busy, 2),
            cell(group, 1),
            cell(ratio, 2),
        ];
        let (task, clients) = (event.task.name(), event.clients);
        println!("| {task} | {clients} | {} | {} |", who(event.contestant), cells.join(" | "));
    }
    Ok(())
}

fn who(contestant: Contestant) -> String {
    match contestant {
        Contestant::Folder => "RocksDB".to_owned(),
        Contestant::Nodes(1) => "PostgreSQL, 1 node".to_owned(),
        Contestant::Nodes(count) => format!("PostgreSQL, {count} nodes"),
        Contestant::Statements => "statements alone".to_owned(),
    }
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}"))
}

fn of_statements(event: &Event, own: &Series, events: &[Event], rounds: &[Rounds]) -> Option<f64> {
    let alone = Event { contestant: Contestant::Statements, ..*event };
    let at = events.iter().position(|other| *other == alone)?;
    own.processor_ratio(&rounds[at].postgres)
}
