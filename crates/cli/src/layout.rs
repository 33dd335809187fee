//! `orrery split` and `orrery merge`: ask a running server to change the ranges of a container, and
//! say which came of which. The server answers when it is done; reads and writes go on meanwhile.

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use orrery_types::{Object, Value};

use crate::account;
use crate::remote::RemoteArguments;

/// Which container.
#[derive(Debug, Args)]
struct Place {
    /// Database
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    database: String,
    /// Container
    #[arg(long, short, env = "ORRERY_CONTAINER", value_name = "NAME")]
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
    let path = format!("/dbs/{}/colls/{}/operations/{operation}", place.database, place.container);
    let (body, headers) = (Value::object(body).to_json(), [("content-type", "application/json")]);
    let mut remote = place.remote.connect()?;
    let answer = account::must(&mut remote, "POST", &path, &headers, body.as_bytes())?;
    let answer = Value::parse(&answer.body)?;
    let (parents, children) = (ids(answer.get("parents")), ids(answer.get("children")));
    writeln!(std::io::stdout().lock(), "{parents} -> {children}")?;
    Ok(())
}

fn ids(list: &Value) -> String {
    let ids = list.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
    ids.collect::<Vec<_>>().join(", ")
}
