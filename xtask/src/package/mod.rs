//! `cargo xtask package`: what a release consists of, from one release build: an archive, a Debian package,
//! two container images, packages for npm and `PyPI`. `--test` installs each from its own file, without
//! network, and uses it; `check` has these tests.

mod archive;
mod check;
mod deb;
mod files;
mod npm;
mod oci;
mod portable;
mod wheel;
mod zip;

use crate::server::{self, Profile};
use crate::{explorer, process, project};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use std::fs;
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
    /// Build for this version of glibc and later ones, such as 2.28, with the compiler of the Zig project.
    #[arg(long, value_name = "VERSION", conflicts_with = "binary")]
    glibc: Option<String>,
    /// Install and use what was made, each from its own file and without network.
    #[arg(long)]
    test: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// An archive with the program, its manual and its licences.
    Tar,
    /// A Debian package with a service.
    Deb,
    /// Container images: the server, and the one that takes the place of the emulator's.
    Oci,
    /// Packages for npm.
    Npm,
    /// A wheel for `PyPI`.
    Wheel,
    /// Everything; with --test also the helpers for `JUnit` and Go, and an installation on a new system.
    All,
}

impl Form {
    fn includes(self, part: Self) -> bool {
        self == Self::All || self == part
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let binary = match (&options.binary, &options.glibc) {
        (Some(file), _) => file.clone(),
        (None, Some(version)) => {
            explorer::build_page()?;
            portable::build(version)?
        }
        (None, None) => {
            explorer::build_page()?;
            server::build("orrery", Profile::Release)?
        }
    };
    fs::create_dir_all(&options.out)?;
    let out = options.out.canonicalize()?;
    let stage = Stage::new(&binary)?;
    println!("package: the program needs {}", stage.needs);
    let form = options.form;
    if form.includes(Form::Tar) {
        archive::make(&stage, &out)?;
    }
    if form.includes(Form::Deb) {
        deb::make(&stage, &out)?;
    }
    if form.includes(Form::Oci) {
        oci::make(&stage, &out)?;
    }
    if form.includes(Form::Npm) {
        npm::make(&stage, &out)?;
    }
    if form.includes(Form::Wheel) {
        wheel::make(&stage, &out)?;
    }
    if options.test { check::run(form, &stage, &out) } else { Ok(()) }
}

/// A folder outside the checkout in which packages are put together, and what goes into several of them.
struct Stage {
    folder: PathBuf,
    /// The program, without symbols.
    program: PathBuf,
    /// The folder with its manual pages.
    manual: PathBuf,
    /// What it needs of the system.
    needs: portable::Needs,
}

impl Stage {
    /// Symbols would double the size; a build from source has them.
    fn new(binary: &Path) -> Result<Self> {
        let folder = project::target()?.join("package");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let program = folder.join("orrery");
        let mut strip = Command::new("strip");
        // The sections that name the compiler are of no use to anybody either.
        strip.args(["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"]);
        strip.arg("-o").arg(&program).arg(binary);
        process::run(&mut strip).context("strip is needed (Debian: binutils)")?;
        let manual = folder.join("man");
        process::output(Command::new(&program).arg("man").arg(&manual))?;
        let needs = portable::Needs::of(&program)?;
        Ok(Self { folder, program, manual, needs })
    }

    /// The manual pages in the order of their names.
    fn manual_pages(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.manual)?.collect::<Result<Vec<_>, _>>()?;
        let mut pages: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        pages.sort();
        Ok(pages)
    }

    /// The completion script of a shell, made by the program itself.
    fn completion(&self, shell: &str) -> Result<PathBuf> {
        let file = self.folder.join(format!("completion.{shell}"));
        let text = process::output(Command::new(&self.program).args(["completions", shell]))?;
        fs::write(&file, text)?;
        Ok(file)
    }
}

/// The version of all crates.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
