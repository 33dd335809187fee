//! An archive with the program, its licences and how to run it as a service, for systems without
//! Debian's packages.

use super::{Stage, place, version};
use crate::{process, project};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const FILES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/operate.md",
    "packaging/orrery.service",
    "packaging/orrery.toml",
];

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let name = format!("orrery-{}-linux-{}", version(), std::env::consts::ARCH);
    let root = stage.folder.join(&name);
    place(&stage.program, &root, "orrery", 0o755)?;
    for file in FILES {
        let short = file.rsplit('/').next().unwrap_or(file);
        place(&project::root().join(file), &root, short, 0o644)?;
    }
    let archive = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(&stage.folder)
        .arg(&name);
    process::run(&mut tar)?;
    println!("package: {}", archive.display());
    Ok(())
}
