//! Our end-to-end tests through the official Rust SDK: a workspace of its own, so that the SDK's
//! many dependencies stay out of ours; built in the user's cache.

use super::{Options, Target};
use crate::{process, project};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Where everything is built that uses the SDK.
pub(crate) fn target() -> Result<PathBuf> {
    project::cache("conformance/rust-target")
}

pub(super) fn run(options: &Options, server: &Target) -> Result<()> {
    let source = project::root().join("conformance/rust");
    let build = target()?;
    let modules = modules(&source.join("tests/it"), |module| {
        options.only.as_ref().is_none_or(|only| only.is_match(module))
    })?;
    let mut red = Vec::new();
    for endpoint in &server.endpoints {
        println!("rust: {} against {endpoint}", modules.join(", "));
        let mut cargo = project::cargo();
        cargo
            .args(["test", "--quiet", "--locked", "--manifest-path"])
            .arg(source.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&build)
            .arg("--")
            .args(modules.iter().map(|module| format!("{module}::")))
            .env("ORRERY_ENDPOINT", endpoint)
            .env("ORRERY_KEY", &server.key)
            // The SDK verifies certificates unless this is set to an emulator.
            .env("AZURE_COSMOS_EMULATOR_SERVER_CERT_VALIDATION_DISABLED", "true");
        if process::run(&mut cargo).is_err() {
            red.push(endpoint.as_str());
        }
    }
    ensure!(red.is_empty(), "tests failed against {}", red.join(" and "));
    Ok(())
}

/// The modules of tests that are asked for.
fn modules(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        let module = file.strip_suffix(".rs").filter(|module| *module != "main");
        names.extend(module.filter(|module| is_wanted(module)).map(str::to_owned));
    }
    ensure!(!names.is_empty(), "no module of tests is selected");
    names.sort();
    Ok(names)
}
