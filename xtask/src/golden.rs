//! `cargo xtask golden`: rewrites the expected output of every golden test with its actual output.

use crate::{process, project};
use anyhow::Result;

/// Tests that read golden files have `golden` in their names; only they are run.
pub(crate) fn run() -> Result<()> {
    let mut tests = project::cargo();
    tests.args(["test", "--quiet", "--workspace", "golden"]).env("UPDATE_GOLDENFILES", "1");
    process::run(&mut tests)?;
    let mut changes = std::process::Command::new("git");
    changes.args(["status", "--short", "--", "golden"]).current_dir(project::root());
    let changes = process::output(&mut changes)?;
    if changes.is_empty() {
        println!("golden: nothing changed");
    } else {
        println!("golden: read these before you commit them\n{changes}");
    }
    Ok(())
}
