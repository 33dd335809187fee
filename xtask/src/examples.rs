//! `cargo xtask examples`: runs every program under examples/ against a server of our own. The first
//! steps print the same in every language, line by line; the others have to end well.

mod modeling;

use crate::conformance::{go, java, javascript, python, rust_target};
use crate::server::{self, Profile, Server};
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use regex::Regex;
use std::fs;
use std::path::Path;
use std::process::Command;

#[derive(Args)]
pub(crate) struct Options {
    /// Only examples whose name, such as `python/first_steps`, matches this regular expression.
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
}

/// One program: its name, what it needs, how it is run, and whether it tells the common story.
struct Example {
    name: &'static str,
    language: Option<Language>,
    command: fn(&Path) -> Result<Command>,
    is_first_steps: bool,
}

const EXAMPLES: &[Example] = &[
    Example {
        name: "python/first_steps",
        language: Some(Language::Python),
        command: |folder| python_program(folder, "first_steps.py"),
        is_first_steps: true,
    },
    Example {
        name: "python/books_and_authors",
        language: Some(Language::Python),
        command: |folder| python_program(folder, "books_and_authors.py"),
        is_first_steps: false,
    },
    Example {
        name: "javascript/first_steps",
        language: Some(Language::JavaScript),
        command: javascript_program,
        is_first_steps: true,
    },
    Example {
        name: "rust/first_steps",
        language: None,
        command: rust_program,
        is_first_steps: true,
    },
    Example {
        name: "go/first_steps",
        language: Some(Language::Go),
        command: go_program,
        is_first_steps: true,
    },
    Example {
        name: "java/first_steps",
        language: Some(Language::Java),
        command: java_program,
        is_first_steps: true,
    },
];

pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only.is_match(name));
    let chosen: Vec<_> = EXAMPLES.iter().filter(|example| wanted(example.name)).collect();
    let folder = project::root().join("examples");
    let cases = modeling::wanted(&folder, &wanted)?;
    ensure!(!chosen.is_empty() || !cases.is_empty(), "no example is selected");
    let story = fs::read_to_string(folder.join("first_steps.txt"))?;
    let server = Server::start(Profile::Dev)?;
    let mut red = Vec::new();
    for example in chosen {
        if let Some(lack) = example.language.and_then(Language::lack) {
            println!("{}: skipped: {lack}.", example.name);
            continue;
        }
        match example.run(&folder, &server, &story) {
            Ok(()) => println!("{}: as expected", example.name),
            Err(error) => {
                println!("{}: {error:#}", example.name);
                red.push(example.name);
            }
        }
    }
    for case in &cases {
        match modeling::run(&folder, case, &server) {
            Ok(Some(())) => println!("{case}: as expected"),
            Ok(None) => {}
            Err(error) => {
                println!("{case}: {error:#}");
                red.push(case);
            }
        }
    }
    if !red.is_empty() {
        bail!("examples are red: {}", red.join(", "));
    }
    Ok(())
}

impl Example {
    fn run(&self, examples: &Path, server: &Server, story: &str) -> Result<()> {
        let (folder, _) = self.name.split_once('/').context("an example lies in a folder")?;
        let mut command = (self.command)(&examples.join(folder))?;
        command.env("ORRERY_ENDPOINT", server.endpoint("http")).env("ORRERY_KEY", server::key());
        // Maven resets the colours of the terminal, even where there is none.
        let output = process::output(&mut command)?.replace("\u{1b}[0m", "");
        ensure!(!output.trim().is_empty(), "it printed nothing");
        ensure!(
            !self.is_first_steps || output == story,
            "it should have printed\n{story}but printed\n{output}"
        );
        Ok(())
    }
}

fn python_program(folder: &Path, file: &str) -> Result<Command> {
    let mut python = Command::new(python::interpreter()?);
    python.arg(folder.join(file));
    Ok(python)
}

fn javascript_program(folder: &Path) -> Result<Command> {
    javascript::install(folder)?;
    let mut node = Command::new("node");
    node.arg("first_steps.mjs").current_dir(folder).env("NODE_NO_WARNINGS", "1");
    Ok(node)
}

fn rust_program(folder: &Path) -> Result<Command> {
    let mut cargo = project::cargo();
    cargo.args(["run", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(folder.join("Cargo.toml")).arg("--target-dir").arg(rust_target()?);
    Ok(cargo)
}

fn go_program(folder: &Path) -> Result<Command> {
    let mut go = go::go(folder)?;
    go.args(["run", "."]);
    Ok(go)
}

fn java_program(folder: &Path) -> Result<Command> {
    let mut maven = java::maven(folder, "examples/java")?;
    maven.args(["compile", "exec:java"]);
    Ok(maven)
}
