//! The archive: unpacked, complete, and started from its folder.

use super::super::{Stage, archive};
use super::Verdict;
use super::serving::{Serving, first_query};
use crate::process;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) fn check(stage: &Stage, out: &Path) -> Result<Verdict> {
    let folder = stage.folder.join("check-archive");
    fs::create_dir_all(&folder)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file"]).arg(archive::path(out)).arg("--directory").arg(&folder);
    process::run(&mut tar)?;
    let root = folder.join(archive::name());
    for file in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "man/man1/orrery.1",
        "completions/_orrery",
        "systemd/orrery.service",
    ] {
        ensure!(root.join(file).is_file(), "{file} is missing");
    }
    let program = root.join("orrery");
    let mut serve = Command::new(&program);
    serve.args(["serve", "--stop-at-eof", "--listen", "127.0.0.1:0", "--log", "error", "--data"]);
    serve.arg(folder.join("data"));
    let serving = Serving::start(serve, "  Data ")?;
    let endpoint = serving.word("http:")?;
    first_query(&program, &endpoint, &serving.word("Key")?)?;
    serving.stop()?;
    Ok(Verdict::Passed)
}
