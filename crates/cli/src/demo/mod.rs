//! `orrery demo`: databases to look at, small ones that are written down and large ones that are
//! computed, with their models, and what to look at next. They go into a running server, or into a
//! data folder.

mod generated;
mod shelf;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_files::FileAccess;
use orrery_modeling::Model;
use orrery_modeling::advisor::Advisor;
use orrery_modeling::diagram::Diagram;
use orrery_types::Value;

use crate::exit::UNREAD;
use crate::interrupt;
use crate::progress::ProgressLine;
use crate::remote::{DEFAULT_ENDPOINT, RemoteArguments};
use crate::table::{self, Table};
use shelf::{Folder, Server, Shelf};

/// The databases, by name.
const CASES: [(&str, &str); 5] = [
    ("people", include_str!("../../demo/people.json")),
    ("blog", include_str!("../../demo/blog.json")),
    ("portfolio", include_str!("../../demo/portfolio.json")),
    ("publishing", include_str!("../../demo/publishing.json")),
    ("library", include_str!("../../demo/library.json")),
];
/// Queries before and after a model, which the Data Explorer offers too.
const QUERIES: &str = include_str!("../../demo/queries.json");
/// So many of them are printed.
const QUERIES_SHOWN: usize = 3;
/// The names of the databases; a prefix keeps them apart from the user's own.
const PREFIX: &str = "demo-";

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    #[command(flatten)]
    remote: RemoteArguments,
    /// Load into a data folder that no server has open, instead of a running server
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder for pictures of the models; without one none are drawn
    #[arg(long, value_name = "FOLDER")]
    diagrams: Option<PathBuf>,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<()> {
    let _cooperation = interrupt::cooperate();
    let mut shelf: Box<dyn Shelf> = match &arguments.data {
        Some(folder) => Box::new(Folder::open(folder)?),
        None => Box::new(Server::new(&arguments.remote)?),
    };
    if let Some(pictures) = &arguments.diagrams {
        orrery_files::create_folders(pictures)
            .with_context(|| format!("cannot create {}", pictures.display()))?;
    }
    let mut table = Table::new(["database", "items", "what it shows"]);
    for (name, text) in CASES {
        let case = Value::parse(text.as_bytes()).context("a demo is not JSON")?;
        let database = format!("{PREFIX}{name}");
        let items = load(&mut *shelf, &database, &case)?;
        if let Some(pictures) = &arguments.diagrams {
            draw(&pictures.join(format!("{name}.svg")), &case)?;
        }
        let about = case.get("about").as_str().unwrap_or_default();
        table.row([database, items.to_string(), about.to_owned()]);
    }
    let generated = generated::all()?;
    let total = generated.iter().map(|data| count(&data.items)).sum();
    let progress = ProgressLine::of_items(Some(total));
    let mut loaded = 0;
    for data in generated {
        let database = format!("{PREFIX}{}", data.name);
        let items = count(&data.items);
        load_generated(&mut *shelf, &database, &data.containers, data.items, &mut |more| {
            loaded += more;
            progress.set_step(loaded, &database);
        })?;
        if let Some(model) = &data.model {
            shelf.model(&database, model)?;
        }
        table.row([database, table::count(items), data.about.to_owned()]);
    }
    progress.end();
    let text = table::with_bold_head(&table.to_text(table::width())) + &next(arguments)?;
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

fn count(items: &[(&str, Vec<Value>)]) -> u64 {
    items.iter().map(|(_, items)| items.len() as u64).sum()
}

/// Items that are loaded between two looks at the bar.
const CHUNK: usize = 1000;

/// Creates a database and its containers, and loads the items; a model that follows is applied to them
/// in the background, which is faster than under the model.
fn load_generated(
    shelf: &mut dyn Shelf,
    database: &str,
    containers: &[Value],
    items: Vec<(&'static str, Vec<Value>)>,
    loaded: &mut dyn FnMut(u64),
) -> Result<()> {
    shelf.database(database)?;
    for container in containers {
        shelf.container(database, container)?;
    }
    for (container, list) in items {
        let mut rest = list.into_iter().peekable();
        while rest.peek().is_some() {
            let chunk: Vec<Value> = rest.by_ref().take(CHUNK).collect();
            let number = chunk.len() as u64;
            shelf.items(database, container, chunk)?;
            loaded(number);
            interrupt::check()?;
        }
    }
    Ok(())
}

/// What to look at next.
fn next(arguments: &DemoArguments) -> Result<String> {
    let (explorer, flags) = if let Some(folder) = &arguments.data {
        let start = format!("\nStart a server on them: orrery --data {}\n", folder.display());
        (start, String::new())
    } else {
        let endpoint = arguments.remote.endpoint.trim_end_matches('/');
        let is_default = endpoint == DEFAULT_ENDPOINT;
        let flags = if is_default { String::new() } else { format!(" --endpoint {endpoint}") };
        (format!("\nExplorer: {endpoint}/_explorer/\n"), flags)
    };
    let queries = queries(&flags)?;
    Ok(format!(
        "{explorer}
Click next:
  Home           queries before and after a model
  demo-shop      Model: the picture of types, relations and aggregates
  demo-legacy    Model: the advisor's findings; apply one, and see its change first
  demo-sensors   readings, Items: a hierarchical partition key

Models of large data are applied in the background; `orrery model show{flags} -d demo-shop` shows how far.
The advisor's findings here: `orrery advise{flags} -d demo-legacy`.
{queries}"
    ))
}

/// The first queries of the demo, as commands.
fn queries(flags: &str) -> Result<String> {
    let all = Value::parse(QUERIES.as_bytes()).context("the queries of the demo are not JSON")?;
    let mut text = String::new();
    for pair in all.as_array().unwrap_or_default().iter().take(QUERIES_SHOWN) {
        let title = pair.get("title").as_str().unwrap_or_default();
        let _ = writeln!(text, "\n{title}, before and after:");
        for side in ["before", "after"] {
            let part = |name| pair.get(side).get(name).as_str().unwrap_or_default();
            let (database, container, query) = (part("database"), part("container"), part("text"));
            let _ =
                writeln!(text, "  orrery query{flags} -d {database} -c {container} \"{query}\"");
        }
    }
    Ok(text)
}

/// Makes the database, its containers and its model, then the items, which the model completes.
fn load(shelf: &mut dyn Shelf, database: &str, case: &Value) -> Result<usize> {
    shelf.database(database)?;
    for container in case.get("containers").as_array().unwrap_or_default() {
        shelf.container(database, container)?;
    }
    shelf.model(database, case.get("model"))?;
    let mut count = 0;
    for (container, list) in case.get("items").as_object().context("a demo has items")?.iter() {
        for item in list.as_array().unwrap_or_default() {
            shelf.item(database, container, item)?;
            count += 1;
        }
    }
    Ok(count)
}

fn draw(path: &Path, case: &Value) -> Result<()> {
    let model = Model::parse(case.get("model")).context("the model of a demo")?;
    let mut advisor = Advisor::default();
    for (container, list) in case.get("items").as_object().context("a demo has items")?.iter() {
        for item in list.as_array().unwrap_or_default() {
            advisor.add(container, item.to_json().as_bytes()).context("an item of a demo")?;
        }
    }
    let report = advisor.finish(Some(&model));
    let picture = Diagram::new(Some(&model), Some(&report)).to_svg();
    orrery_files::replace(path, picture.as_bytes(), FileAccess::Default)
        .with_context(|| format!("cannot write {}", path.display()))
}
