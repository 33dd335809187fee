//! An archive with the program, its manual, completions, licences and how to run it as a service, for
//! systems without Debian's packages.

use super::files::place;
use super::{Stage, version};
use crate::{process, project};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: &[(&str, &str)] = &[
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("COMPAT.md", "COMPAT.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("docs/start.md", "docs/start.md"),
    ("docs/operate.md", "docs/operate.md"),
    ("packaging/orrery.service", "systemd/orrery.service"),
    ("packaging/orrery.toml", "systemd/orrery.toml"),
];
const SHELLS: &[(&str, &str)] = &[
    ("bash", "completions/orrery.bash"),
    ("zsh", "completions/_orrery"),
    ("fish", "completions/orrery.fish"),
];

/// The name of the archive and of the folder in it.
pub(super) fn name() -> String {
    format!("orrery-{}-linux-{}", version(), std::env::consts::ARCH)
}

pub(super) fn path(out: &Path) -> PathBuf {
    out.join(format!("{}.tar.gz", name()))
}

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let name = name();
    let root = stage.folder.join(&name);
    place(&stage.program, &root, "orrery", 0o755)?;
    for (from, to) in FILES {
        place(&project::root().join(from), &root, to, 0o644)?;
    }
    for page in stage.manual_pages()? {
        let file = page.file_name().context("a page has a name")?.to_string_lossy();
        place(&page, &root, &format!("man/man1/{file}"), 0o644)?;
    }
    for (shell, to) in SHELLS {
        place(&stage.completion(shell)?, &root, to, 0o644)?;
    }
    let archive = path(out);
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
