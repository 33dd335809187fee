//! `orrery advise`: findings about data in files, without a server, or about a database on one.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use orrery_modeling::Model;
use orrery_modeling::advisor::Advisor;
use orrery_types::Value;

use crate::account;
use crate::exit::UNREAD;
use crate::remote::RemoteArguments;

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// Items as JSON lines; the file is named for their container. May be given several times
    #[arg(long, value_name = "FILE", required_unless_present = "database")]
    items: Vec<PathBuf>,
    /// A database on the server: its data, and what the server has seen of requests
    #[arg(long, short, value_name = "NAME", conflicts_with_all = ["items", "model"])]
    database: Option<String>,
    /// The model that the items are under: what it declares is not proposed again
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: RemoteArguments,
}

pub(crate) fn run(arguments: &AdviseArguments) -> Result<()> {
    let report = if let Some(database) = &arguments.database {
        ask(&arguments.server, database)?
    } else {
        let model = arguments.model.as_deref().map(read_model).transpose()?;
        look_at(&arguments.items)?.finish(model.as_ref()).to_value()
    };
    let text = if arguments.json { report.to_json() + "\n" } else { describe(&report) };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

/// The report of a server.
fn ask(server: &RemoteArguments, database: &str) -> Result<Value> {
    let path = format!("/dbs/{database}/_advisor");
    let answer = account::must(&mut server.connect()?, "GET", &path, &[], b"")?;
    Value::parse(&answer.body).context("the server's answer is not JSON")
}

/// Reads a model from a file and checks its form; containers and expressions only a server can check.
pub(crate) fn read_model(path: &Path) -> Result<Model> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value = Value::parse(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    Model::parse(&value).with_context(|| path.display().to_string())
}

/// Takes in all items of the files.
pub(crate) fn look_at(files: &[PathBuf]) -> Result<Advisor> {
    let mut advisor = Advisor::default();
    for path in files {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let container = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into());
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let (mut line, mut number) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            if read.with_context(|| format!("cannot read {}", path.display()))? == 0 {
                break;
            }
            number += 1;
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            if let Err(error) = advisor.add(&container, text) {
                bail!("{} line {number}: {error}; each line is one item", path.display());
            }
        }
    }
    Ok(advisor)
}

fn describe(report: &Value) -> String {
    use std::fmt::Write as _;
    let window = report.get("window");
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let types = report.get("types").as_array().map_or(0, <[Value]>::len);
    let mut text = format!("{} items in {types} types", number(window.get("items")));
    if number(window.get("versions")) > 0 {
        let _ = write!(text, ", {} of them later versions", number(window.get("versions")));
    }
    text.push_str(".\n");
    let findings = report.get("findings").as_array().unwrap_or_default();
    if findings.is_empty() {
        text.push_str("No findings.\n");
    }
    for finding in findings {
        text.push_str(&describe_finding(finding));
    }
    let lacking = report.get("tooLittleData").as_array().unwrap_or_default();
    if !lacking.is_empty() {
        text.push_str("\nToo little data:\n");
        for line in lacking {
            let _ = writeln!(text, "  {}", line.as_str().unwrap_or_default());
        }
    }
    text
}

fn describe_finding(finding: &Value) -> String {
    let word = |name: &str| finding.get(name).as_str().unwrap_or_default();
    let samples = finding.get("samples").as_array().unwrap_or_default().iter();
    let samples: Vec<&str> = samples.filter_map(Value::as_str).collect();
    let confidence =
        finding.get("confidence").as_number().map_or(0.0, orrery_types::Number::as_f64);
    let mut text = format!(
        "\n{} {}: {}{}\n  {}\n  confidence {confidence:.2}",
        word("rule"),
        word("severity"),
        word("type"),
        word("path"),
        word("reason"),
    );
    if !samples.is_empty() {
        text.push_str("; for example ");
        text.push_str(&samples.join(", "));
    }
    text.push_str("\n  model: ");
    text.push_str(&finding.get("patch").to_json());
    text.push('\n');
    text
}
