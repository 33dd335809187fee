//! A Debian package with Debian's own tools: program, service, settings and documents. It is checked
//! before anybody gets it: unpacked into a folder of its own, and started from there.

use super::files::{files_under, place, place_compressed};
use super::{Stage, version};
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
    ("packaging/debian/lintian-overrides", "/usr/share/lintian/overrides/orrery"),
    ("README.md", "/usr/share/doc/orrery/README.md"),
    ("CHANGELOG.md", "/usr/share/doc/orrery/CHANGELOG.md"),
    ("COMPAT.md", "/usr/share/doc/orrery/COMPAT.md"),
    ("docs/operate.md", "/usr/share/doc/orrery/operate.md"),
];
/// Debian's own form of a changelog, which every package has; it refers to ours.
const CHANGELOG: &str = "/usr/share/doc/orrery/changelog.gz";
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];
const MAINTAINER: &str = "The Orrery developers <orrery@users.noreply.github.com>";
const PROGRAM: &str = "/usr/bin/orrery";
/// Made by the program itself, with the name under which the shell looks for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "/usr/share/bash-completion/completions/orrery"),
    ("zsh", "/usr/share/zsh/vendor-completions/_orrery"),
    ("fish", "/usr/share/fish/vendor_completions.d/orrery.fish"),
];

/// The file of the package.
pub(super) fn path(out: &Path) -> Result<PathBuf> {
    let architecture = process::output(Command::new("dpkg").arg("--print-architecture"))
        .context("a Debian package is made on Debian")?;
    Ok(out.join(format!("orrery_{}_{}.deb", version(), architecture.trim())))
}

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let root = stage.folder.join("deb");
    place(&stage.program, &root, PROGRAM, 0o755)?;
    for (from, to) in FILES {
        place(&project::root().join(from), &root, to, 0o644)?;
    }
    let history = stage.folder.join("changelog");
    fs::write(&history, changelog(&release_date()?))?;
    place_compressed(&history, &root, CHANGELOG)?;
    for page in stage.manual_pages()? {
        place_compressed(&page, &root, &manual_path(&page))?;
    }
    for (shell, to) in COMPLETIONS {
        place(&stage.completion(shell)?, &root, to, 0o644)?;
    }
    for script in SCRIPTS {
        let from = project::root().join("packaging/debian").join(script);
        place(&from, &root, &format!("DEBIAN/{script}"), 0o755)?;
    }
    // Changed settings survive an upgrade.
    fs::write(root.join("DEBIAN/conffiles"), "/etc/orrery/orrery.toml\n")?;
    let package = path(out)?;
    let architecture = package.file_stem().and_then(|stem| stem.to_str()?.rsplit('_').next());
    let architecture = architecture.context("the name ends with the architecture")?;
    let control = control(architecture, &libraries(stage)?, size_kb(&root)?);
    fs::write(root.join("DEBIAN/control"), control)?;
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).args([&root, &package]);
    process::run(&mut build)?;
    check(stage, &package, &stage.folder.join("unpacked"))?;
    println!("package: {}", package.display());
    Ok(())
}

/// The time of the commit that is packed.
fn release_date() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%aD"]).current_dir(project::root());
    Ok(process::output(&mut git)?.trim().to_owned())
}

fn changelog(date: &str) -> String {
    format!(
        "orrery ({}) stable; urgency=medium\n\n  \
         * Release by the project; CHANGELOG.md beside this file has the changes.\n\n \
         -- {MAINTAINER}  {date}\n",
        version()
    )
}

/// Where a manual page lies.
fn manual_path(page: &Path) -> String {
    let file = page.file_name().unwrap_or_default().to_string_lossy();
    format!("/usr/share/man/man1/{file}.gz")
}

/// What the package says of itself.
fn control(architecture: &str, libraries: &str, size_kb: u64) -> String {
    format!(
        "Package: orrery\n\
         Version: {}\n\
         Architecture: {architecture}\n\
         Maintainer: {MAINTAINER}\n\
         Section: database\n\
         Priority: optional\n\
         Installed-Size: {size_kb}\n\
         Depends: adduser, {libraries}\n\
         Description: document database that speaks the Azure Cosmos DB for NoSQL protocol\n \
         One durable server for the official SDKs, on a laptop, in tests and on\n \
         your own machines, with a web page to look at data, and document\n \
         modelling built in.\n",
        version()
    )
}

/// The packages of the shared libraries that the program was linked with, and the least versions.
fn libraries(stage: &Stage) -> Result<String> {
    // The tool requires a source package.
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

/// Unpacks the package and starts the program from there.
fn check(stage: &Stage, package: &Path, folder: &Path) -> Result<()> {
    let mut unpack = Command::new("dpkg-deb");
    process::run(unpack.arg("--extract").args([package, folder]))?;
    let fixed = FILES.iter().chain(COMPLETIONS);
    let mut expected: Vec<_> = fixed.map(|(_, to)| (*to).to_owned()).collect();
    expected.extend(stage.manual_pages()?.iter().map(|page| manual_path(page)));
    expected.extend([PROGRAM, CHANGELOG].map(str::to_owned));
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
    fn the_changelog_is_in_the_form_that_debian_reads() {
        let text = changelog("Wed, 18 Nov 2026 11:00:00 +0000");
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("orrery (") && lines[0].ends_with("; urgency=medium"),
            "{text}"
        );
        assert!(lines[2].starts_with("  * "), "{text}");
        assert!(lines[4].starts_with(" -- ") && lines[4].contains(">  Wed, "), "{text}");
    }

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
