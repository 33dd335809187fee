//! Tests of the packages: each is installed from its own file, without network, and used: a server, a first
//! query, and for the helpers of test frameworks a suite of twenty tests. What a machine lacks is said and
//! skipped, unless it is a machine of continuous integration, where nothing may be missing.

mod archive;
mod container;
mod debian;
mod go;
mod java;
mod javascript;
mod new_system;
mod python;
mod serving;

use super::{Form, Stage};
use crate::stopwatch::Stopwatch;
use anyhow::{Context as _, Result, bail};
use std::path::Path;

/// How a test ended.
enum Verdict {
    Passed,
    /// The reason why it could not run here.
    Skipped(String),
}

type Check = fn(&Stage, &Path) -> Result<Verdict>;

const CHECKS: &[(&str, Form, Check)] = &[
    ("archive", Form::Tar, archive::check),
    ("Debian package", Form::Deb, debian::check),
    ("image of the server", Form::Oci, container::check_server),
    ("image in place of the emulator's", Form::Oci, container::check_emulator),
    ("npm packages", Form::Npm, javascript::check),
    ("wheel and fixtures for pytest", Form::Wheel, python::check),
    ("extension for JUnit", Form::All, java::check),
    ("helper for Go", Form::All, go::check),
    ("installation on a new Debian", Form::All, new_system::check),
];

pub(super) fn run(form: Form, stage: &Stage, out: &Path) -> Result<()> {
    let mut red = Vec::new();
    for (name, part, check) in CHECKS {
        if !form.includes(*part) {
            continue;
        }
        println!("\ntest: {name}");
        let watch = Stopwatch::start();
        match check(stage, out).with_context(|| format!("the test of the {name}")) {
            Ok(Verdict::Passed) => println!("test: {name}: ok ({:.1} s)", watch.seconds()),
            Ok(Verdict::Skipped(reason)) if std::env::var_os("CI").is_none() => {
                println!("test: {name}: skipped: {reason}");
            }
            Ok(Verdict::Skipped(reason)) => red.push(format!("{name}: not run: {reason}")),
            Err(error) => {
                println!("test: {name}: failed: {error:#}");
                red.push(format!("{error:#}"));
            }
        }
    }
    if !red.is_empty() {
        bail!("{} tests of packages failed:\n  {}", red.len(), red.join("\n  "));
    }
    Ok(())
}
