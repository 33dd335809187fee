//! Packages for npm: `orrery` with the command and `startOrrery()`, and one for this platform with the
//! program, which the first one lists among its optional dependencies, so that npm installs what fits.

use super::files::place;
use super::{Stage, version};
use crate::{process, project};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Platforms of a release, as npm names system and processor.
const PLATFORMS: &[(&str, &str)] = &[
    ("linux", "x64"),
    ("linux", "arm64"),
    ("darwin", "x64"),
    ("darwin", "arm64"),
    ("win32", "x64"),
];
const LICENCES: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE"];

/// The two archives: the main package, and that of this platform.
pub(super) fn paths(out: &Path) -> [PathBuf; 2] {
    let (os, cpu) = platform();
    let version = version();
    [format!("orrery-{version}.tgz"), format!("orrery-{os}-{cpu}-{version}.tgz")]
        .map(|name| out.join("npm").join(name))
}

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let root = stage.folder.join("npm");
    let (os, cpu) = platform();
    let own = root.join("platform");
    place(&stage.program, &own, "bin/orrery", 0o755)?;
    let manifest = json!({
        "name": format!("@orrery/{os}-{cpu}"),
        "version": version(),
        "description": format!("The program of the package orrery for {os}-{cpu}"),
        "license": "MIT OR Apache-2.0",
        "os": [os],
        "cpu": [cpu],
        "libc": ["glibc"],
        "glibc": format!("{}.{}", stage.needs.glibc.0, stage.needs.glibc.1),
        "files": ["bin", "LICENSE-MIT", "LICENSE-APACHE"],
        // Yarn would keep it in an archive, and a program is started from a file.
        "preferUnplugged": true,
    });
    pack(&own, &manifest, out)?;

    let main = root.join("orrery");
    let source = project::root().join("packaging/npm/orrery");
    for file in ["index.js", "index.d.ts", "program.js", "README.md"] {
        place(&source.join(file), &main, file, 0o644)?;
    }
    place(&source.join("bin/orrery.js"), &main, "bin/orrery.js", 0o755)?;
    let manifest = fs::read_to_string(source.join("package.json"))?;
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest)?;
    manifest["version"] = version().into();
    manifest["optionalDependencies"] = PLATFORMS
        .iter()
        .map(|(os, cpu)| (format!("@orrery/{os}-{cpu}"), json!(version())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    pack(&main, &manifest, out)
}

fn pack(folder: &Path, manifest: &serde_json::Value, out: &Path) -> Result<()> {
    for licence in LICENCES {
        place(&project::root().join(licence), folder, licence, 0o644)?;
    }
    fs::write(folder.join("package.json"), serde_json::to_string_pretty(manifest)? + "\n")?;
    let target = out.join("npm");
    fs::create_dir_all(&target)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(&target).current_dir(folder);
    let name = process::output(&mut npm).context("npm is needed (Debian: npm)")?;
    println!("package: {}", target.join(name.trim()).display());
    Ok(())
}

/// This platform in the words of npm.
fn platform() -> (&'static str, &'static str) {
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    (std::env::consts::OS, cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_platform_is_one_of_those_that_the_main_package_asks_for() {
        assert!(PLATFORMS.contains(&platform()));
        let [main, own] = paths(Path::new("dist"));
        assert!(main.ends_with(format!("npm/orrery-{}.tgz", version())));
        assert_ne!(main, own);
    }
}
