//! Tests of the packages: each is installed from its own file, without network, and used: a server, a first
//! query, and for the helpers of test frameworks a suite of twenty tests. What a machine lacks is said and
//! skipped, unless it is a machine of continuous integration, where nothing may be missing.

mod action;
mod archive;
mod compose;
mod container;
mod debian;
mod go;
mod java;
mod javascript;
mod new_system;
mod python;
mod serving;

use super::{Form, Stage};
use crate::process;
use crate::stopwatch::Stopwatch;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// How a test ended.
enum Verdict {
    Passed,
    /// The reason why it could not run here.
    Skipped(String),
}

/// Tests in the suite of each helper.
const SUITE: usize = 20;

/// Runs the suite of a helper, shows what it prints, and requires that all of its tests ran and passed.
fn run_suite(suite: &mut Command, passed: impl FnOnce(&str) -> usize) -> Result<()> {
    let said = process::output(suite);
    if let Ok(text) = &said {
        println!("{}", text.trim_end());
    }
    let count = passed(&said?);
    ensure!(count == SUITE, "{count} tests passed, and the suite has {SUITE}");
    Ok(())
}

/// The number after a word in what a runner of tests prints.
fn number_after(text: &str, word: &str) -> usize {
    let rest = text.rsplit_once(word).map_or("", |(_, rest)| rest.trim_start());
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

type Check = fn(&Stage, &Path) -> Result<Verdict>;

const CHECKS: &[(&str, Form, Check)] = &[
    ("archive", Form::Tar, archive::check),
    ("Debian package", Form::Deb, debian::check),
    ("image of the server", Form::Oci, container::check_server),
    ("image in place of the emulator's", Form::Oci, container::check_emulator),
    ("compose file", Form::Oci, compose::check),
    ("npm packages", Form::Npm, javascript::check),
    ("wheel and fixtures for pytest", Form::Wheel, python::check),
    ("extension for JUnit", Form::All, java::check),
    ("helper for Go", Form::All, go::check),
    ("GitHub Action", Form::All, action::check),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_passed_tests_is_read_from_what_a_runner_prints() {
        assert_eq!(number_after("tests 21\npass 20\nfail 1", "pass "), 20);
        assert_eq!(number_after("nothing ran", "pass "), 0);
        assert_eq!(
            super::go::passed(
                "--- PASS: TestA (0.00s)\n    --- PASS: TestB/1 (0.0s)\n--- PASS: TestB (0.0s)\n--- SKIP: TestC"
            ),
            2
        );
    }

    #[test]
    fn a_suite_of_which_a_part_did_not_run_fails() {
        let echo = |text: &str| {
            run_suite(Command::new("echo").arg(text), |said| number_after(said, "pass "))
        };
        assert!(echo("pass 20").is_ok());
        assert!(echo("pass 19").unwrap_err().to_string().contains("19 tests passed"));
    }
}
