//! What a program needs of the system it runs on, as its dynamic symbols tell, and a build that needs an
//! older glibc than this machine has: Zig's compiler carries the interfaces of all of them.

use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions that are known to work together; both come from `PyPI`.
const COMPILER: &[&str] = &["ziglang==0.15.2", "cargo-zigbuild==0.24.0"];

/// The newest versions of system libraries that a program refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) glibc: (u32, u32),
    /// Whether the C++ library has to be installed.
    pub(super) is_cpp: bool,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "glibc {}.{}", self.glibc.0, self.glibc.1)?;
        if self.is_cpp { f.write_str(" and libstdc++") } else { Ok(()) }
    }
}

impl Needs {
    pub(super) fn of(program: &Path) -> Result<Self> {
        let symbols = process::output(Command::new("objdump").arg("-T").arg(program))
            .context("objdump is needed (Debian: binutils)")?;
        Self::parse(&symbols)
            .with_context(|| format!("{} has no dynamic symbols of glibc", program.display()))
    }

    fn parse(symbols: &str) -> Option<Self> {
        let glibc = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let mut parts = rest.get(..end)?.split('.').map(str::parse);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        });
        Some(Self { glibc: glibc.max()?, is_cpp: symbols.contains("GLIBCXX_") })
    }
}

/// Builds the program for a version of glibc and checks that it needs no newer one.
pub(super) fn build(glibc: &str) -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "a build for another glibc is known for Linux on x86-64 only"
    );
    let home = project::cache("portable")?;
    let python = install(&home)?;
    let target = format!("x86_64-linux-gnu.{glibc}");
    let rocksdb = rocksdb(&home, &python, &target)?;
    let bin = home.join("venv/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut cargo = project::cargo();
    cargo
        .args(["zigbuild", "--release", "--package", "orrery", "--bin", "orrery"])
        .args(["--target", &format!("x86_64-unknown-linux-gnu.{glibc}")])
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("ROCKSDB_LIB_DIR", &rocksdb)
        .env("ROCKSDB_STATIC", "1")
        // The library of Zig's compiler, which is linked statically.
        .env("CXXSTDLIB", "c++");
    process::run(&mut cargo)?;
    let program = project::target()?.join("x86_64-unknown-linux-gnu/release/orrery");
    let needs = Needs::of(&program)?;
    let asked_for = Needs::parse(&format!("GLIBC_{glibc}")).context("that is no version")?;
    if needs.glibc > asked_for.glibc || needs.is_cpp {
        bail!("the program needs {needs}, and glibc {glibc} was asked for");
    }
    Ok(program)
}

/// Installs the compiler into an environment of its own, once.
fn install(home: &Path) -> Result<PathBuf> {
    let python = home.join("venv/bin/python");
    let (installed, wanted) = (home.join("installed.txt"), COMPILER.join("\n"));
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        let mut venv = Command::new("python3");
        process::run(venv.args(["-m", "venv", "--clear"]).arg(home.join("venv")))
            .context("Python 3 with its venv module is needed (Debian: python3-venv)")?;
        let mut pip = Command::new(&python);
        process::run(pip.args(["-m", "pip", "install", "--quiet"]).args(COMPILER))?;
        fs::write(&installed, wanted)?;
    }
    Ok(python)
}

/// `RocksDB` compiled for the target: `scripts/rocksdb.sh` with Zig's compiler in place of the machine's.
fn rocksdb(home: &Path, python: &Path, target: &str) -> Result<PathBuf> {
    let folder = home.join(format!("rocksdb-{target}"));
    if folder.join("librocksdb.a").exists() {
        return Ok(folder);
    }
    let compilers = home.join("compilers");
    fs::create_dir_all(&compilers)?;
    let compiler = compilers.join("clang++");
    let script =
        format!("#!/bin/sh\nexec '{}' -m ziglang c++ -target {target} \"$@\"\n", python.display());
    fs::write(&compiler, script)?;
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut build = Command::new(project::root().join("scripts/rocksdb.sh"));
    build.arg(&folder).env("PATH", format!("{}:{path}", compilers.display()));
    process::run(&mut build)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_among_the_symbols_is_what_is_needed() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n\
                       0 DF *UND* 0 (GLIBC_2.34) pthread_create\n\
                       0 DF *UND* 0 (GLIBC_2.9) pipe2\n";
        let needs = Needs::parse(symbols).unwrap();
        assert_eq!(needs, Needs { glibc: (2, 34), is_cpp: false });
        assert_eq!(needs.to_string(), "glibc 2.34");
        let cpp = format!("{symbols}0 DO *UND* 0 (GLIBCXX_3.4.21) x\n");
        assert_eq!(Needs::parse(&cpp).unwrap().to_string(), "glibc 2.34 and libstdc++");
        assert!(Needs::parse("no symbols").is_none());
    }
}
