//! `cargo xtask lint`: formatting, clippy and the house rules, in the order of their cost.

use crate::{process, project, tidy};
use anyhow::Result;

pub(crate) fn run() -> Result<()> {
    process::run(project::cargo().args(["fmt", "--all", "--check"]))?;
    // The tests through the Rust SDK are a workspace of their own.
    let sdk_tests = "conformance/rust/Cargo.toml";
    process::run(project::cargo().args(["fmt", "--manifest-path", sdk_tests, "--check"]))?;
    tidy::run()?;
    process::run(project::cargo().args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}
