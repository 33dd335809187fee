//! The helper for Go: its own suite starts the program that the archive holds.

use super::super::Stage;
use super::{Verdict, run_suite};
use crate::conformance::go::go;
use crate::project;
use crate::toolchain::Language;
use anyhow::Result;
use std::path::Path;

pub(super) fn check(stage: &Stage, _: &Path) -> Result<Verdict> {
    if let Some(lack) = Language::Go.lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let mut go = go(&project::root().join("packaging/go"))?;
    go.args(["test", "-count=1", "-v", "./..."]).env("ORRERY_BINARY", &stage.program);
    run_suite(&mut go, passed)?;
    Ok(Verdict::Passed)
}

/// Tests that passed, without those that only hold others together or run in a process of their own.
pub(super) fn passed(said: &str) -> usize {
    let names: Vec<&str> = said
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--- PASS: ")?.split(' ').next())
        .filter(|name| !name.starts_with("TestHelper"))
        .collect();
    let is_parent = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name}/")));
    names.iter().filter(|name| !is_parent(name)).count()
}
