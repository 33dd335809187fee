//! The npm packages: installed offline into a project of their own, whose tests start the server.

use super::super::{Stage, npm};
use super::{Verdict, number_after, run_suite};
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) fn check(stage: &Stage, out: &Path) -> Result<Verdict> {
    if let Some(lack) = Language::JavaScript.lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let folder = stage.folder.join("check-npm");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    // Twice: it also works when it is installed again.
    for _ in 0..2 {
        install(&folder, out)?;
    }
    let suite = folder.join("start.test.mjs");
    fs::copy(project::root().join("packaging/npm/test/start.test.mjs"), &suite)?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec"]).arg(suite).current_dir(&folder);
    run_suite(&mut node, |said| number_after(said, "pass "))?;
    Ok(Verdict::Passed)
}

/// Installs both packages from their files. Packages of other platforms cannot be had without network,
/// and need not be: they are optional.
pub(super) fn install(folder: &Path, out: &Path) -> Result<()> {
    let mut install = Command::new("npm");
    install
        .args(["install", "--offline", "--no-audit", "--no-fund", "--silent"])
        .args(npm::paths(out))
        .current_dir(folder);
    process::run(&mut install)
}
