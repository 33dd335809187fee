//! `cargo xtask docs`: the documentation site, made by mdBook from docs/ and the documents beside it;
//! `--test` runs every command of the walk-through against a server of its own.

use crate::server::{self, Profile};
use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use regex::Regex;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Args)]
pub(crate) struct Options {
    /// Run every command of the walk-through instead of building the site.
    #[arg(long)]
    test: bool,
    /// A program that was built already, for --test.
    #[arg(long, value_name = "FILE", requires = "test")]
    binary: Option<PathBuf>,
    /// The folder of the site [default: in the target folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

const WALKTHROUGH: &str = "docs/walkthrough.md";
/// The address on the page; the test uses a port of its own.
const ADDRESS: &str = "127.0.0.1:8081";
/// What a command must print begins with this.
const EXPECTED: &str = "#=> ";
/// Documents outside docs/ that its pages link to.
const BESIDE: &[&str] = &[
    "README.md",
    "COMPAT.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "RELEASE.md",
];

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.test {
        let binary = match &options.binary {
            Some(file) => file.canonicalize()?,
            None => server::build("orrery", Profile::Dev)?,
        };
        return walk(&binary);
    }
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => project::target()?.join("site"),
    };
    build(&out)
}

/// Lays the sources out as they lie in the checkout, so that links between them hold, and lets mdBook
/// make pages of them.
fn build(out: &Path) -> Result<()> {
    let work = project::target()?.join("site-source");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let source = work.join("src");
    fs::create_dir_all(&source)?;
    process::run(Command::new("cp").arg("-r").arg(project::root().join("docs")).arg(&source))?;
    for file in BESIDE {
        fs::copy(project::root().join(file), source.join(file))?;
    }
    let index = fs::read_to_string(source.join("docs/README.md"))?;
    fs::write(source.join("SUMMARY.md"), summary(&index))?;
    fs::write(
        work.join("book.toml"),
        "[book]\ntitle = \"Orrery\"\nlanguage = \"en\"\nsrc = \"src\"\n\n[output.html]\nno-section-label = true\n",
    )?;
    fs::create_dir_all(out)?;
    let mut mdbook = Command::new("mdbook");
    mdbook.arg("build").arg(&work).arg("--dest-dir").arg(out.canonicalize()?);
    process::run(&mut mdbook).context("mdBook is needed: cargo install mdbook --locked")?;
    println!("docs: {}", out.join("index.html").display());
    Ok(())
}

/// The table of contents: one part for each row of the index, with the pages it links to.
fn summary(index: &str) -> String {
    let link = Regex::new(r"\[([^\]]+)\]\(([^)#]+)\)").expect("the pattern is valid");
    let mut text = "# Orrery\n\n[Orrery](README.md)\n".to_owned();
    for row in index.lines().filter(|line| line.starts_with("| ") && link.is_match(line)) {
        let part = row.trim_start_matches("| ").split('|').next().unwrap_or_default().trim();
        let _ = writeln!(text, "\n# {part}\n");
        for found in link.captures_iter(row) {
            let path = match found[2].strip_prefix("../") {
                Some(beside) => beside.to_owned(),
                None => format!("docs/{}", &found[2]),
            };
            let _ = writeln!(text, "- [{}]({path})", found[1].trim_end_matches(".md"));
        }
    }
    text
}

/// Runs the commands of the page in an empty folder, and compares what it says that they print.
fn walk(binary: &Path) -> Result<()> {
    let page = fs::read_to_string(project::root().join(WALKTHROUGH))?;
    let steps = steps(&page);
    ensure!(!steps.is_empty(), "{WALKTHROUGH} has no commands");
    let folder = project::target()?.join("walkthrough");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let address = server::free_address()?.to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = binary.parent().context("a program lies in a folder")?;
    let mut bash = Command::new("bash");
    bash.arg("-c")
        .arg(script(&steps, &address))
        .current_dir(&folder)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("ORRERY_ENDPOINT", format!("http://{address}/"))
        .env_remove("ORRERY_KEY")
        .stdin(Stdio::null());
    process::run(&mut bash).context("a command of the walk-through failed")?;
    for (at, step) in steps.iter().enumerate() {
        let said = fs::read_to_string(folder.join(format!("step-{at}.txt")))?;
        if let Some(missing) = step.expected.iter().find(|text| !said.contains(text.as_str())) {
            bail!("{WALKTHROUGH}: after\n{}\n'{missing}' was not printed:\n{said}", step.commands);
        }
    }
    println!("docs: {} steps of {WALKTHROUGH} do what it says", steps.len());
    Ok(())
}

/// Commands up to the next line about their output, and that output.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    commands: String,
    expected: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_shell = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_shell = line == "```sh";
            if is_shell {
                steps.push(Step::default());
            }
        } else if is_shell && let Some(text) = line.strip_prefix(EXPECTED) {
            steps.last_mut().into_iter().for_each(|step| step.expected.push(text.to_owned()));
        } else if is_shell {
            // What follows an output is the next step.
            if steps.last().is_some_and(|step| !step.expected.is_empty()) {
                steps.push(Step::default());
            }
            if let Some(step) = steps.last_mut() {
                step.commands.push_str(line);
                step.commands.push('\n');
            }
        }
    }
    steps
}

/// One script, since later steps need the server of the first; each writes into a file of its own. The
/// server ends with the script.
fn script(steps: &[Step], address: &str) -> String {
    let mut text =
        "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n".to_owned();
    for (at, step) in steps.iter().enumerate() {
        let commands: String =
            step.commands.replace(ADDRESS, address).lines().map(checked).collect();
        let _ = writeln!(text, "{{\n{commands}}} >step-{at}.txt\n");
    }
    text
}

/// A line of the page. A shell lets a script go on after `! command` whatever the command does; here one
/// that is not refused ends it.
fn checked(line: &str) -> String {
    match line.strip_prefix("! ") {
        None => format!("{line}\n"),
        Some(refused) => {
            format!("if {refused}; then echo 'the last command must fail' >&2; exit 1; fi\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_what_they_print_are_read_from_the_page() {
        let page = "# A\n```sh\none\ntwo\n#=> 2\nthree\n```\n```json\n{}\n```\n```sh\nfour\n```\n";
        let step = |commands: &str, expected: &[&str]| Step {
            commands: commands.to_owned(),
            expected: expected.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(
            steps(page),
            [step("one\ntwo\n", &["2"]), step("three\n", &[]), step("four\n", &[])]
        );
    }

    #[test]
    fn a_command_that_must_be_refused_and_is_not_ends_the_script() {
        for (command, expected) in [("! false", true), ("! true", false), ("false", false)] {
            let step = Step { commands: format!("{command}\n"), expected: Vec::new() };
            let script = script(&[step], "x").replace(">step-0.txt", "");
            let status = Command::new("bash").args(["-c", &script]).stderr(Stdio::null()).status();
            assert_eq!(status.unwrap().success(), expected, "{command}");
        }
    }

    #[test]
    fn the_contents_follow_the_index() {
        let index = "| For | Page |\n| --- | --- |\n| a start | [start.md](start.md), [COMPAT.md](../COMPAT.md) |\n";
        let text = summary(index);
        assert!(
            text.contains("# a start\n\n- [start](docs/start.md)\n- [COMPAT](COMPAT.md)\n"),
            "{text}"
        );
    }
}
