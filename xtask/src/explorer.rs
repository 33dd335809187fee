//! `cargo xtask explorer`: builds the web page that the server embeds, when its sources have changed;
//! `--test` also checks it: types, unit tests, and a browser against a server of our own.

use crate::server::{self, Profile, Server};
use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Args)]
pub(crate) struct Options {
    /// Check the page too, in a browser against a server that is started for it.
    #[arg(long)]
    test: bool,
    /// Where Node.js is missing or too old, say so and leave the page out instead of failing.
    #[arg(long, conflicts_with = "test")]
    if_possible: bool,
}

/// What the page is made of, from its folder.
const SOURCES: &[&str] = &[
    "src",
    "index.html",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    // The page offers the demo of `orrery demo`.
    "../crates/cli/demo",
];

/// Vite needs this version of Node.js.
const NODE_MIN: (u32, u32) = (20, 19);

const BROWSERS: &[&str] =
    &["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

pub(crate) fn run(options: &Options) -> Result<()> {
    if let Err(reason) = check_node() {
        if options.if_possible {
            println!("explorer: {reason}. The server will run without its page.");
            return Ok(());
        }
        if options.test && std::env::var_os("CI").is_none() {
            println!("explorer: skipped: {reason}.");
            return Ok(());
        }
        return Err(reason);
    }
    let folder = project::root().join("explorer");
    build(&folder)?;
    if options.test { test(&folder) } else { Ok(()) }
}

/// Builds the page; an error where that is not possible.
pub(crate) fn build_page() -> Result<()> {
    check_node()?;
    build(&project::root().join("explorer"))
}

fn check_node() -> Result<()> {
    let mut node = Command::new("node");
    let output =
        node.arg("--version").output().context("Node.js is missing (Debian: nodejs, npm)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().trim_start_matches('v');
    ensure!(
        node_version(version).is_some_and(|found| found >= NODE_MIN),
        "Node.js {version} is too old to build the page: {}.{} or newer is needed",
        NODE_MIN.0,
        NODE_MIN.1
    );
    Ok(())
}

fn node_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Builds the page unless the one that is there was made of the same sources.
fn build(folder: &Path) -> Result<()> {
    let digest = digest(folder)?;
    let stamp = folder.join("dist/page/built-from.txt");
    if fs::read_to_string(&stamp).ok().as_deref() == Some(&digest) {
        return Ok(());
    }
    install(folder)?;
    process::run(npm(folder).args(["run", "--silent", "build"]))?;
    fs::write(&stamp, digest)?;
    Ok(())
}

/// Installs the packages of the lock file when it has changed.
fn install(folder: &Path) -> Result<()> {
    let wanted = fs::read(folder.join("package-lock.json"))?;
    let installed = folder.join("node_modules/installed-lock.json");
    if fs::read(&installed).ok().as_ref() != Some(&wanted) {
        process::run(npm(folder).args(["ci", "--silent"]))?;
        fs::write(&installed, &wanted)?;
    }
    Ok(())
}

fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(folder);
    npm
}

/// A digest of every source file, by name and content.
fn digest(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&folder.join(source), &mut files)?;
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(folder)?.hash(&mut hasher);
        fs::read(&file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else {
        ensure!(path.is_file(), "{} is missing", path.display());
        files.push(path.to_owned());
    }
    Ok(())
}

fn test(folder: &Path) -> Result<()> {
    install(folder)?;
    process::run(npm(folder).args(["run", "--silent", "test"]))?;
    let Some(browser) = BROWSERS.iter().find(|path| Path::new(path).exists()) else {
        if std::env::var_os("CI").is_some() {
            bail!("there is no browser to test the page with (Debian: chromium)");
        }
        println!("explorer: the tests in a browser are skipped: there is none (Debian: chromium).");
        return Ok(());
    };
    let pictures = project::target()?.join("explorer-pictures");
    let server = Server::start(Profile::Dev)?;
    let mut suite = npm(folder);
    suite
        .args(["run", "--silent", "e2e"])
        .env("ORRERY_ENDPOINT", server.endpoint("http"))
        .env("ORRERY_KEY", server::key())
        .env("ORRERY_PICTURES", &pictures)
        .env("ORRERY_CHROMIUM", browser)
        .stdin(Stdio::null());
    let outcome = process::run(&mut suite);
    println!("explorer: pictures of the page are in {}", pictures.display());
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_compared_by_number() {
        assert_eq!(node_version("20.19.2"), Some((20, 19)));
        assert!(node_version("9.20.0") < Some(NODE_MIN));
        assert!(node_version("22.1.0") > Some(NODE_MIN));
        assert_eq!(node_version(""), None);
    }

    #[test]
    fn the_digest_follows_names_and_content() {
        let root = std::env::temp_dir().join(format!("orrery-digest-{}", std::process::id()));
        let folder = root.join("explorer");
        for source in SOURCES {
            let path = folder.join(source);
            if path.extension().is_some() {
                fs::write(path, "").unwrap();
            } else {
                fs::create_dir_all(path).unwrap();
            }
        }
        let first = digest(&folder).unwrap();
        assert_eq!(digest(&folder).unwrap(), first);
        fs::write(folder.join("src/a.ts"), "1").unwrap();
        let second = digest(&folder).unwrap();
        fs::rename(folder.join("src/a.ts"), folder.join("src/b.ts")).unwrap();
        let third = digest(&folder).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert!(first != second && second != third && first != third);
    }
}
