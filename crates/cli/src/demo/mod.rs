//! `orrery demo`: five small databases, each with the model that keeps it true, and a picture of each.
//! They go into a running server, or into a data folder.

mod shelf;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_files::Access;
use orrery_modeling::Model;
use orrery_modeling::advisor::Advisor;
use orrery_modeling::diagram::Diagram;
use orrery_types::Value;

use crate::exit::UNREAD;
use crate::remote::RemoteArguments;
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
/// What the databases are called, so that nobody's own are touched.
const PREFIX: &str = "demo-";

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    #[command(flatten)]
    remote: RemoteArguments,
    /// Load into a data folder that no server has open, instead of a running server
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder for the pictures [default: diagrams in the data folder, or orrery-demo here]
    #[arg(long, value_name = "FOLDER")]
    diagrams: Option<PathBuf>,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<()> {
    let mut shelf: Box<dyn Shelf> = match &arguments.data {
        Some(folder) => Box::new(Folder::open(folder)?),
        None => Box::new(Server::new(arguments.remote.connect()?)),
    };
    let pictures = match (&arguments.diagrams, &arguments.data) {
        (Some(folder), _) => folder.clone(),
        (None, Some(data)) => data.join("diagrams"),
        (None, None) => PathBuf::from("orrery-demo"),
    };
    orrery_files::create_folders(&pictures)
        .with_context(|| format!("cannot make {}", pictures.display()))?;
    let mut table = Table::new(["database", "items", "what it shows"]);
    for (name, text) in CASES {
        let case = Value::parse(text.as_bytes()).context("a demo is not JSON")?;
        let database = format!("{PREFIX}{name}");
        let items = load(&mut *shelf, &database, &case)?;
        draw(&pictures.join(format!("{name}.svg")), &case)?;
        let about = case.get("about").as_str().unwrap_or_default();
        table.row([database, items.to_string(), about.to_owned()]);
    }
    let mut out = std::io::stdout();
    write!(out, "{}", table.to_text(table::width())).context(UNREAD)?;
    writeln!(out, "Pictures of the models: {}", pictures.display())?;
    if let Some(folder) = &arguments.data {
        writeln!(out, "Look at them: orrery --data {}", folder.display())?;
    }
    Ok(())
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
    orrery_files::replace(path, picture.as_bytes(), Access::Default)
        .with_context(|| format!("cannot write {}", path.display()))
}
