//! The helper for Go: its own suite starts the program that the archive holds.

use super::super::Stage;
use super::Verdict;
use crate::conformance::go::go;
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::Result;
use std::path::Path;

pub(super) fn check(stage: &Stage, _: &Path) -> Result<Verdict> {
    if let Some(lack) = Language::Go.lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let mut go = go(&project::root().join("packaging/go"))?;
    go.args(["test", "-count=1", "-v", "./..."]).env("ORRERY_BINARY", &stage.program);
    process::run(&mut go)?;
    Ok(Verdict::Passed)
}
