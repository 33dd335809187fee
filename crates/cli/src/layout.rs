//! `orrery split` and `orrery merge`: ask a running server to change the ranges of a container, and
//! say which came of which. The server answers when it is done; reads and writes go on meanwhile.

use anyhow::Result;
use clap::Args;
use orrery_types::{Object, Value};

use crate::remote::{Ask, RemoteArguments};

/// Which container.
#[derive(Debug, Args)]
struct Place {
    /// Database of the container
    database: String,
    /// The container
    container: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// Arguments of `split`.
#[derive(Debug, Args)]
pub(crate) struct SplitArguments {
    #[command(flatten)]
    place: Place,
    /// The range to split, by its id [default: the one with the most data]
    #[arg(long, value_name = "ID")]
    range: Option<String>,
    /// Effective key where the second child begins, in hex [default: where half of the data lies]
    #[arg(long, value_name = "KEY")]
    at: Option<String>,
}

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArguments {
    #[command(flatten)]
    place: Place,
    /// The two ranges to merge, by their ids [default: the neighbours with the least data]
    #[arg(long, num_args = 2, value_names = ["ID", "ID"])]
    ranges: Option<Vec<String>>,
}

/// Splits a range.
pub(crate) fn split(arguments: &SplitArguments) -> Result<()> {
    let mut body = Object::new();
    let given = [("range", &arguments.range), ("at", &arguments.at)];
    for (name, value) in given {
        if let Some(value) = value {
            body.set(name, value.as_str().into());
        }
    }
    run(&arguments.place, "split", body)
}

/// Merges two ranges.
pub(crate) fn merge(arguments: &MergeArguments) -> Result<()> {
    let mut body = Object::new();
    if let Some(ranges) = &arguments.ranges {
        body.set("ranges", Value::array(ranges.iter().map(|id| id.as_str().into()).collect()));
    }
    run(&arguments.place, "merge", body)
}

fn run(place: &Place, operation: &str, body: Object) -> Result<()> {
    let link = format!("dbs/{}/colls/{}", place.database, place.container);
    let path = format!("/{link}/operations/{operation}");
    let body = Value::object(body).to_json();
    let ask = Ask {
        method: "POST",
        path: &path,
        kind: "colls",
        link: &link,
        headers: &[("content-type", "application/json")],
        body: body.as_bytes(),
    };
    let answer = place.remote.connect()?.request(&ask)?.success()?;
    let answer = Value::parse(&answer.body)?;
    println!("{} -> {}", ids(answer.get("parents")), ids(answer.get("children")));
    Ok(())
}

fn ids(list: &Value) -> String {
    let ids = list.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
    ids.collect::<Vec<_>>().join(", ")
}
