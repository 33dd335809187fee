//! Our end-to-end tests through the official Go SDK, once for each address of the server.

use super::{Options, Target};
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::{Result, ensure};
use regex::Regex;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The tests that sign in with tokens.
const ENTRA_FILE: &str = "entra_test.go";

pub(super) fn run(options: &Options, target: &Target) -> Result<()> {
    if let Some(lack) = Language::Go.lack() {
        println!("go: skipped: {lack}.");
        return Ok(());
    }
    let source = project::root().join("conformance/go");
    let wants = |file: &str| options.only.as_ref().is_none_or(|only| only.is_match(file));
    let all = tests(&source, wants)?;
    let of_tokens = tests(&source, |file| file == ENTRA_FILE)?;
    let mut red = Vec::new();
    for endpoint in &target.endpoints {
        let entra = target.entra(endpoint);
        let mut tests = all.clone();
        tests.retain(|test| entra.is_some() || !of_tokens.contains(test));
        if tests.is_empty() {
            continue;
        }
        println!("go: {} tests against {endpoint}", tests.len());
        let mut go = go(&source)?;
        go.args(["test", "-count=1", "-run", &format!("^({})$", tests.join("|")), "."]);
        go.env("ORRERY_ENDPOINT", endpoint).env("ORRERY_KEY", &target.key);
        if let Some(entra) = entra {
            entra.name_to(&mut go);
        }
        if process::run(&mut go).is_err() {
            red.push(endpoint.as_str());
        }
    }
    ensure!(red.is_empty(), "tests failed against {}", red.join(" and "));
    Ok(())
}

/// The `go` of this machine and no other, with modules and builds in the user's cache.
pub(crate) fn go(folder: &Path) -> Result<Command> {
    let flags = std::env::var("GOFLAGS").unwrap_or_default();
    let mut go = Command::new("go");
    go.current_dir(folder)
        .env("GOTOOLCHAIN", "local")
        .env("GOMODCACHE", project::cache("conformance/go/modules")?)
        .env("GOCACHE", project::cache("conformance/go/build")?)
        // Without this flag a cache of modules can only be deleted after a chmod.
        .env("GOFLAGS", format!("{flags} -modcacherw").trim());
    Ok(go)
}

/// The names of the tests in the files that are asked for.
pub(super) fn tests(source: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let pattern = Regex::new(r"(?m)^func (Test\w+)\(t \*testing\.T\)").expect("a valid pattern");
    let mut names = Vec::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file.ends_with("_test.go") && is_wanted(&file) {
            let text = fs::read_to_string(&path)?;
            names.extend(pattern.captures_iter(&text).map(|found| found[1].to_owned()));
        }
    }
    ensure!(!names.is_empty(), "no test is selected");
    names.sort();
    Ok(names)
}
