//! `cargo xtask package`: what a release consists of, from one release build: a Debian package, and an
//! archive for everybody else.

mod archive;
mod deb;

use crate::server::{self, Profile};
use crate::{explorer, process, project};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Args)]
pub(crate) struct Options {
    /// What to make.
    form: Form,
    /// The folder it goes to.
    #[arg(long, default_value = "dist", value_name = "FOLDER")]
    out: PathBuf,
    /// A program that was built already; otherwise one is built, with its web page.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A Debian package with a service.
    Deb,
    /// An archive with the program and its licences.
    Tar,
    All,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let binary = if let Some(file) = &options.binary {
        file.clone()
    } else {
        explorer::build_page()?;
        server::build("orrery", Profile::Release)?
    };
    fs::create_dir_all(&options.out)?;
    let out = options.out.canonicalize()?;
    let stage = Stage::new(&binary)?;
    if options.form != Form::Tar {
        deb::make(&stage, &out)?;
    }
    if options.form != Form::Deb {
        archive::make(&stage, &out)?;
    }
    Ok(())
}

/// A folder outside the checkout in which packages are put together, and the program for them.
struct Stage {
    folder: PathBuf,
    program: PathBuf,
}

impl Stage {
    /// Symbols are for those who build it themselves; here they would double the size.
    fn new(binary: &Path) -> Result<Self> {
        let folder = project::target()?.join("package");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let program = folder.join("orrery");
        let mut strip = Command::new("strip");
        strip.arg("--strip-unneeded").arg("-o").arg(&program).arg(binary);
        process::run(&mut strip).context("strip is needed (Debian: binutils)")?;
        Ok(Self { folder, program })
    }
}

/// Copies a file of the checkout, or the program, to its place under a root.
fn place(from: &Path, root: &Path, to: &str, mode: u32) -> Result<()> {
    let target = root.join(to.trim_start_matches('/'));
    let parent = target.parent().context("a file lies in a folder")?;
    fs::create_dir_all(parent)?;
    fs::copy(from, &target)
        .with_context(|| format!("cannot copy {} to {}", from.display(), target.display()))?;
    fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// The version of all crates.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
