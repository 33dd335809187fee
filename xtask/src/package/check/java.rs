//! The extension for `JUnit` 5: its own suite starts the program that the archive holds.

use super::super::Stage;
use super::Verdict;
use crate::conformance::java::maven;
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::Result;
use std::path::Path;

pub(super) fn check(stage: &Stage, _: &Path) -> Result<Verdict> {
    if let Some(lack) = Language::Java.lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let mut maven = maven(&project::root().join("packaging/junit"), "package/junit")?;
    maven.arg("package").env("ORRERY_BINARY", &stage.program);
    process::run(&mut maven)?;
    Ok(Verdict::Passed)
}
