//! `orrery advise`: findings about data in files, without a server.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use orrery_modeling::Model;
use orrery_modeling::advisor::{Advisor, Finding, Report, Severity};
use orrery_types::Value;

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// Items as JSON lines; the file is named for their container. May be given several times
    #[arg(long, value_name = "FILE", required = true)]
    items: Vec<PathBuf>,
    /// The model that the items are under: what it declares is not proposed again
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &AdviseArguments) -> Result<()> {
    let model = arguments.model.as_deref().map(read_model).transpose()?;
    let report = look_at(&arguments.items)?.finish(model.as_ref());
    let text = if arguments.json { report.to_value().to_json() + "\n" } else { describe(&report) };
    std::io::stdout().write_all(text.as_bytes()).context("the report was not read")
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

fn describe(report: &Report) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{} items in {} types", report.window.items, report.types.len());
    if report.window.versions > 0 {
        let _ = write!(text, ", {} of them later versions", report.window.versions);
    }
    text.push_str(".\n");
    if report.findings.is_empty() {
        text.push_str("No findings.\n");
    }
    for finding in &report.findings {
        text.push_str(&describe_finding(finding));
    }
    if !report.too_little_data.is_empty() {
        text.push_str("\nToo little data:\n");
        for line in &report.too_little_data {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn describe_finding(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    };
    let samples: Vec<&str> = finding.samples.iter().map(|id| &**id).collect();
    let mut text = format!(
        "\n{} {severity}: {}{}\n  {}\n  confidence {:.2}; for example {}\n",
        finding.rule,
        finding.item_type,
        finding.path,
        finding.reason,
        finding.confidence,
        samples.join(", ")
    );
    text.push_str("  model: ");
    text.push_str(&finding.patch.to_json());
    text.push('\n');
    text
}
