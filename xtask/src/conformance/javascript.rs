//! Our end-to-end tests through the official JavaScript SDK, once for each address of the server.

use super::{Options, Target};
use crate::{process, project};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tests that sign in with tokens.
const ENTRA_FILE: &str = "entra.test.mjs";

pub(super) fn run(options: &Options, target: &Target) -> Result<()> {
    let source = project::root().join("conformance/js");
    let modules = install(&source)?;
    let tests = test_files(&source, options)?;
    let mut red = Vec::new();
    for endpoint in &target.endpoints {
        let entra = target.entra(endpoint);
        let mut tests = tests.clone();
        tests.retain(|file| entra.is_some() || file != ENTRA_FILE);
        if tests.is_empty() {
            continue;
        }
        println!("js: {} files against {endpoint}", tests.len());
        let mut node = Command::new("node");
        node.args(["--test", "--test-reporter=spec"])
            .arg(format!("--test-concurrency={}", options.jobs.max(1)))
            .args(&tests)
            .current_dir(&source)
            .env("NODE_PATH", &modules)
            .env("NODE_NO_WARNINGS", "1")
            .env("ORRERY_ENDPOINT", endpoint)
            .env("ORRERY_KEY", &target.key);
        if let Some(entra) = entra {
            entra.name_to(&mut node);
        }
        if process::run(&mut node).is_err() {
            red.push(endpoint.as_str());
        }
    }
    // Both addresses are tried before the verdict: a difference between them is half the diagnosis.
    ensure!(red.is_empty(), "tests failed against {}", red.join(" and "));
    Ok(())
}

/// Installs the pinned packages beside their users when package.json has changed.
pub(crate) fn install(source: &Path) -> Result<PathBuf> {
    let manifest = fs::read_to_string(source.join("package.json"))?;
    let modules = source.join("node_modules");
    let installed = modules.join("installed.json");
    if fs::read_to_string(&installed).ok().as_ref() != Some(&manifest) {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]);
        process::run(npm.current_dir(source))
            .context("Node.js 20 or newer with npm is needed (Debian: nodejs, npm)")?;
        fs::write(&installed, &manifest)?;
    }
    Ok(modules)
}

fn test_files(source: &Path, options: &Options) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(source)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_wanted = options.only.as_ref().is_none_or(|only| only.is_match(&name));
        if name.ends_with(".test.mjs") && is_wanted {
            files.push(name);
        }
    }
    if files.is_empty() {
        bail!("no test file is selected");
    }
    files.sort();
    Ok(files)
}
