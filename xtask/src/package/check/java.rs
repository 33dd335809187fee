//! The extension for `JUnit` 5: its own suite starts the program that the archive holds.

use super::super::Stage;
use super::{Verdict, number_after, run_suite};
use crate::conformance::java::maven;
use crate::project;
use crate::toolchain::Language;
use anyhow::Result;
use std::path::Path;

pub(super) fn check(stage: &Stage, _: &Path) -> Result<Verdict> {
    if let Some(lack) = Language::Java.lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let mut maven = maven(&project::root().join("packaging/junit"), "package/junit")?;
    maven.arg("package").env("ORRERY_BINARY", &stage.program);
    let reports = project::cache("package/junit")?.join("surefire-reports");
    run_suite(&mut maven, |_| {
        // Maven is told to be quiet; its report has the number.
        let report = reports.join("orrery.junit.OrreryExtensionTest.txt");
        number_after(&std::fs::read_to_string(report).unwrap_or_default(), "Tests run: ")
    })?;
    Ok(Verdict::Passed)
}
