//! `orrery query`: asks a running server, once or from a shell.
//!
//! - `ask`       a question, and the pages of its answer
//! - `output`    rows as a table, as JSON or as lines
//! - `plan`      the plan of a query as a tree
//! - `mistake`   what is wrong with a query, marked in its text
//! - `shell`     questions one after another
//! - `line`      the lines that the shell reads, with history and completion
//! - `complete`  what the shell completes

mod ask;
mod complete;
mod line;
mod mistake;
mod output;
mod plan;
mod shell;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_types::{Clock as _, Object, SystemClock, Value};

use ask::{Pages, Question};
pub(crate) use ask::{parameter, partition_key};
use output::{Output, OutputArguments, OutputFormat, TABLE_ROWS_MAX};
use plan::Plans;

use crate::exit::{UNREAD, usage};
use crate::remote::{Remote, RemoteArguments};
use crate::{interrupt, pager, table};

/// Arguments of `query`.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// The query; `-` reads it from standard input. Without one a shell opens
    query: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Database
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    database: Option<String>,
    /// Container
    #[arg(long, short, env = "ORRERY_CONTAINER", value_name = "NAME")]
    container: Option<String>,
    /// Read one logical partition only: a value, or a JSON list for a hierarchical key
    #[arg(long, short = 'k', value_name = "VALUE")]
    partition_key: Option<String>,
    /// A parameter as name=value; the value is JSON, or a text. May be given several times
    #[arg(long = "param", short, value_name = "NAME=VALUE", value_parser = parameter)]
    parameters: Vec<(String, Value)>,
    /// Read the query from a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "query")]
    file: Option<PathBuf>,
    /// Print the plan as a tree instead of the rows: what was expected, what was read, what it cost
    #[arg(long)]
    explain: bool,
    /// Print at most so many rows
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &QueryArguments) -> Result<()> {
    let mut remote = arguments.remote.connect()?;
    remote.abandon_on_interrupt();
    let Some(text) = arguments.text()? else {
        return shell::run(remote, arguments);
    };
    let _cooperation = interrupt::cooperate();
    let missing = |name: &str| usage(format!("name the {name}: --{name} NAME"));
    let question = Question {
        database: arguments.database.clone().ok_or_else(|| missing("database"))?,
        container: arguments.container.clone().ok_or_else(|| missing("container"))?,
        text,
        parameters: arguments.parameters.clone(),
        partition_key: arguments.partition_key.as_deref().map(partition_key),
        explain: arguments.explain,
    };
    let form = arguments.output.form();
    if arguments.explain {
        return explain(&mut remote, &question, form);
    }
    let shape = Shape { form, expanded: false, limit: arguments.limit };
    answer(&mut remote, &question, shape).map(drop)
}

impl QueryArguments {
    /// The text of the query, if there is one.
    fn text(&self) -> Result<Option<String>> {
        if let Some(path) = &self.file {
            let text = std::fs::read_to_string(path);
            return text.with_context(|| format!("cannot read {}", path.display())).map(Some);
        }
        let piped = !std::io::stdin().is_terminal();
        match self.query.as_deref() {
            Some("-") => {}
            Some(text) => return Ok(Some(text.to_owned())),
            None if piped && self.database.is_some() && self.container.is_some() => {}
            None => return Ok(None),
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        if text.trim().is_empty() {
            return Err(usage("standard input holds no query"));
        }
        Ok(Some(text))
    }
}

/// What an answer took.
#[derive(Debug, Default)]
struct Totals {
    rows: usize,
    pages: usize,
    charge: f64,
    took_ms: f64,
    cut: bool,
}

impl Totals {
    fn to_text(&self) -> String {
        let plural = |n: usize, word: &str| {
            format!("{} {word}{}", table::count(n as u64), if n == 1 { "" } else { "s" })
        };
        let (rows, pages) = (plural(self.rows, "row"), plural(self.pages, "page"));
        format!("{rows} in {pages}, {:.2} RU, {:.1} ms", self.charge, self.took_ms)
    }
}

/// How rows are printed, and how many.
#[derive(Clone, Copy, Debug)]
struct Shape {
    form: OutputFormat,
    expanded: bool,
    limit: Option<usize>,
}

/// Asks and prints the rows; gives back the first of them, from which a shell learns names.
fn answer(remote: &mut Remote, question: &Question, shape: Shape) -> Result<Vec<Value>> {
    let Shape { form, expanded, limit } = shape;
    let limit =
        limit.or((form == OutputFormat::Table).then_some(TABLE_ROWS_MAX)).unwrap_or(usize::MAX);
    let out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut output = Output::new(form, expanded, out);
    let mut pages = Pages::new(remote, question);
    let mut totals = Totals::default();
    let mut first = Vec::new();
    let began_us = SystemClock.now_us();
    while let Some(mut page) = pages.next()? {
        totals.pages += 1;
        totals.charge += page.charge;
        let room = limit - totals.rows;
        totals.cut = page.rows.len() > room;
        page.rows.truncate(room);
        totals.rows += page.rows.len();
        if first.is_empty() {
            first.clone_from(&page.rows);
        }
        output.rows(page.rows)?;
        if totals.rows >= limit {
            totals.cut |= pages.next()?.is_some_and(|page| !page.rows.is_empty());
            break;
        }
    }
    totals.took_ms = milliseconds_since(began_us);
    let mut text = output.end()?;
    if form == OutputFormat::Table {
        text += &(totals.to_text() + "\n");
        if totals.cut {
            text += "There are more rows: --limit shows more, --lines all of them.\n";
        }
        pager::print(&text)?;
    }
    Ok(first)
}

/// A line on standard output.
fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context(UNREAD)
}

/// Asks for everything and prints how it was found.
fn explain(remote: &mut Remote, question: &Question, form: OutputFormat) -> Result<()> {
    let (mut plans, mut totals) = (Plans::default(), Totals::default());
    let began_us = SystemClock.now_us();
    let mut pages = Pages::new(remote, question);
    while let Some(page) = pages.next()? {
        totals.pages += 1;
        totals.rows += page.rows.len();
        totals.charge += page.charge;
        plans.add(page.plan.as_ref().unwrap_or(&Value::Undefined));
    }
    totals.took_ms = milliseconds_since(began_us);
    let text = if form == OutputFormat::Table {
        format!("{}{}\n", plans.to_text(table::width()), totals.to_text())
    } else {
        let count = |n: usize| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let mut object = Object::new();
        object.set("plans", plans.to_value());
        object.set("rows", count(totals.rows));
        object.set("pages", count(totals.pages));
        object.set("requestCharge", totals.charge.into());
        Value::object(object).to_json() + "\n"
    };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

#[expect(clippy::cast_precision_loss, reason = "a query takes less than a century")]
fn milliseconds_since(began_us: u64) -> f64 {
    SystemClock.now_us().saturating_sub(began_us) as f64 / 1000.0
}
