//! A Debian package with Debian's own tools: program, service, settings and documents. It is checked
//! before anybody gets it: unpacked into a folder of its own, and started from there.

use super::{Stage, place, version};
use crate::{process, project, server};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the checkout and their places; the program comes on top.
const FILES: &[(&str, &str)] = &[
    ("packaging/orrery.service", "/usr/lib/systemd/system/orrery.service"),
    ("packaging/orrery.toml", "/etc/orrery/orrery.toml"),
    ("packaging/debian/copyright", "/usr/share/doc/orrery/copyright"),
    ("LICENSE-MIT", "/usr/share/doc/orrery/LICENSE-MIT"),
    ("README.md", "/usr/share/doc/orrery/README.md"),
    ("CHANGELOG.md", "/usr/share/doc/orrery/CHANGELOG.md"),
    ("COMPAT.md", "/usr/share/doc/orrery/COMPAT.md"),
    ("docs/operate.md", "/usr/share/doc/orrery/operate.md"),
];
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];
const PROGRAM: &str = "/usr/bin/orrery";
/// Made by the program itself, with the name under which the shell looks for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "/usr/share/bash-completion/completions/orrery"),
    ("zsh", "/usr/share/zsh/vendor-completions/_orrery"),
    ("fish", "/usr/share/fish/vendor_completions.d/orrery.fish"),
];

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let root = stage.folder.join("deb");
    place(&stage.program, &root, PROGRAM, 0o755)?;
    for (from, to) in FILES {
        place(&project::root().join(from), &root, to, 0o644)?;
    }
    for (shell, to) in COMPLETIONS {
        let made = stage.folder.join(shell);
        let text = process::output(Command::new(&stage.program).args(["completions", shell]))?;
        fs::write(&made, text)?;
        place(&made, &root, to, 0o644)?;
    }
    for script in SCRIPTS {
        let from = project::root().join("packaging/debian").join(script);
        place(&from, &root, &format!("DEBIAN/{script}"), 0o755)?;
    }
    // Changed settings survive an upgrade.
    fs::write(root.join("DEBIAN/conffiles"), "/etc/orrery/orrery.toml\n")?;
    let architecture = process::output(Command::new("dpkg").arg("--print-architecture"))
        .context("a Debian package is made on Debian")?;
    let control = control(architecture.trim(), &libraries(stage)?, size_kb(&root)?);
    fs::write(root.join("DEBIAN/control"), control)?;

    let package = out.join(format!("orrery_{}_{}.deb", version(), architecture.trim()));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).args([&root, &package]);
    process::run(&mut build)?;
    check(&package, &stage.folder.join("unpacked"))?;
    println!("package: {}", package.display());
    Ok(())
}

/// What the package says of itself.
fn control(architecture: &str, libraries: &str, size_kb: u64) -> String {
    format!(
        "Package: orrery\n\
         Version: {}\n\
         Architecture: {architecture}\n\
         Maintainer: The Orrery developers <orrery@localhost>\n\
         Section: database\n\
         Priority: optional\n\
         Installed-Size: {size_kb}\n\
         Depends: adduser, {libraries}\n\
         Description: document database that speaks the Azure Cosmos DB for NoSQL protocol\n \
         One durable server for the official SDKs, on a laptop, in tests and on your own machines,\n \
         with a web page to look at data, and document modelling built in.\n",
        version()
    )
}

/// The packages of the shared libraries that the program was linked with, and the least versions.
fn libraries(stage: &Stage) -> Result<String> {
    // The tool wants to be in a source package.
    let source = stage.folder.join("source");
    fs::create_dir_all(source.join("debian"))?;
    fs::write(
        source.join("debian/control"),
        "Source: orrery\n\nPackage: orrery\nArchitecture: any\n",
    )?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.current_dir(&source).arg("-O").arg("-e").arg(&stage.program);
    let answer = process::output(&mut shlibdeps)
        .context("the libraries are found by dpkg-shlibdeps (Debian: dpkg-dev)")?;
    let depends = answer.trim().strip_prefix("shlibs:Depends=");
    depends.map(str::to_owned).with_context(|| format!("dpkg-shlibdeps said '{}'", answer.trim()))
}

fn size_kb(root: &Path) -> Result<u64> {
    Ok(files_under(root)?.iter().map(|(_, bytes)| bytes.div_ceil(1024)).sum())
}

/// All files below a folder by their path from it, with their sizes.
fn files_under(root: &Path) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(root)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(root)?.display().to_string();
                found.push((format!("/{path}"), entry.metadata()?.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Unpacks the package and starts the program from there.
fn check(package: &Path, folder: &Path) -> Result<()> {
    let mut unpack = Command::new("dpkg-deb");
    process::run(unpack.arg("--extract").args([package, folder]))?;
    let mut expected: Vec<_> =
        FILES.iter().chain(COMPLETIONS).map(|(_, to)| (*to).to_owned()).collect();
    expected.push(PROGRAM.to_owned());
    expected.sort();
    let found: Vec<_> = files_under(folder)?.into_iter().map(|(path, _)| path).collect();
    ensure!(found == expected, "the package holds {found:?} and not {expected:?}");

    let program = folder.join(PROGRAM.trim_start_matches('/'));
    let said = process::output(Command::new(&program).arg("--version"))?;
    ensure!(said.trim() == format!("orrery {}", version()), "the program says {said}");
    let settings = folder.join("etc/orrery/orrery.toml");
    server::try_out(&program, &settings, &folder.join("data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_is_in_the_form_that_dpkg_reads() {
        let text = control("amd64", "libc6 (>= 2.36)", 7);
        assert!(text.contains("\nDepends: adduser, libc6 (>= 2.36)\n"), "{text}");
        assert!(text.contains("\nInstalled-Size: 7\n"), "{text}");
        // Every line is a field, or belongs to the description above it.
        for line in text.lines() {
            assert!(line.starts_with(' ') || line.contains(": "), "{line:?}");
        }
        assert!(text.ends_with('\n'));
    }
}
