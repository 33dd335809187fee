//! `cargo xtask tidy`: house rules as a failing check. Each rule is a pure function from text to
//! complaints, so each has a test; this file reads the repository and prints the verdict.

mod architecture;
mod dependencies;
mod edges;
mod fields;
mod names;
mod ports;
mod readme;
mod retired;
mod security;
mod sizes;
mod source;
mod types;
mod versions;
mod words;

use crate::{process, project};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// One file of the repository, by its path from the root.
struct File {
    path: String,
    text: String,
}

impl File {
    fn extension(&self) -> &str {
        self.path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, e)| e)
    }
}

pub(crate) fn run() -> Result<()> {
    let files = read_files()?;
    let mut complaints = edges::check(&metadata()?);
    complaints.extend(dependencies::check(&files));
    complaints.extend(fields::check(&files));
    complaints.extend(names::check(&files));
    complaints.extend(ports::check(&files));
    complaints.extend(readme::check(&files));
    complaints.extend(security::check(&files));
    complaints.extend(sizes::check(&files));
    complaints.extend(versions::check(&files));
    complaints.extend(words::check(&files));
    complaints.extend(retired::check(&files));
    let source = source::Source::read(&files);
    complaints.extend(types::check(&source));
    complaints.extend(architecture::check(&files, &source));
    for notice in sizes::notices(&files).into_iter().chain(types::notices(&source)) {
        println!("tidy: note: {notice}");
    }
    for complaint in &complaints {
        println!("tidy: {complaint}");
    }
    if !complaints.is_empty() {
        bail!("{} house rules are broken", complaints.len());
    }
    println!("tidy: {} files follow the house rules", files.len());
    Ok(())
}

/// Everything git tracks or would track, as far as it is text.
fn read_files() -> Result<Vec<File>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = process::output(git.current_dir(project::root()))?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // A file may be listed although it has just been deleted, or hold an image.
        let Ok(bytes) = std::fs::read(project::root().join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

fn metadata() -> Result<serde_json::Value> {
    let mut cargo = project::cargo();
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    serde_json::from_str(&process::output(&mut cargo)?).context("cargo metadata is not JSON")
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}
