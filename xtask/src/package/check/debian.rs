//! The Debian package under lintian. That it installs and serves is the test on a new system.

use super::super::{Stage, deb};
use super::Verdict;
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

pub(super) fn check(_: &Stage, out: &Path) -> Result<Verdict> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0", "--allow-root"]);
    let Ok(output) = lintian.arg(deb::path(out)?).output() else {
        return Ok(Verdict::Skipped("lintian is missing (Debian: lintian)".to_owned()));
    };
    let said = String::from_utf8(output.stdout).context("lintian prints text")?;
    ensure!(output.status.success() && said.trim().is_empty(), "lintian says:\n{said}");
    Ok(Verdict::Passed)
}
