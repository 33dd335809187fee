//! The official Python SDK's own test suite: choose files and tests, run several files at once,
//! compare with the known failures, and print the score. What it does not try, our tests do
//! (conformance/python/tests).
//!
//! The environment and the tests come from the package index into the user's cache; the repository
//! holds only a pytest plugin and four lists (see conformance/python/README.md).

mod environment;
mod events;
mod report;
mod session;

use super::entra::EntraServer;
use super::{Options, Profile, Target};
use crate::server;
use crate::stopwatch::Stopwatch;
use crate::{process, project};
use anyhow::{Context, Result, bail};
use environment::Environment;
use events::Outcome;
use regex::Regex;
use report::{FileReport, Results};
use session::{Limits, Session};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// What Microsoft runs against its own emulator, and the live tests that one region with several
/// physical partitions can serve.
const CORE_MARKS: &str = "cosmosEmulator or cosmosQuery or cosmosLong or cosmosSearchQuery";
const SPLIT_MARKS: &str = "cosmosSplit";
/// Tests that need several regions, or a language model in the cloud.
const IMPOSSIBLE_MARKS: &str = "cosmosMultiRegion or cosmosCircuitBreaker or \
    cosmosCircuitBreakerMultiRegion or cosmosPerPartitionAutomaticFailover or semanticReranker";

const UNIT_TESTS: &str = "unit-tests.txt";
/// The folder of our own tests, and those of them that sign in with tokens.
const OUR_TESTS: &str = "tests";
const ENTRA_FILE: &str = "test_entra.py";

/// A port that is reserved and closed everywhere: nothing answers there.
const NO_SERVER: &str = "https://localhost:9/";

/// A Python that has the SDK.
pub(crate) fn interpreter() -> Result<PathBuf> {
    Ok(Environment::prepare(&folder())?.python)
}

/// Runs the selected tests; an error when the verdict is red.
pub(super) fn run(options: &Options, target: &Target) -> Result<()> {
    let known = options.known_failures(&folder())?;
    let unit_tests = read_list(UNIT_TESTS)?.into_iter().collect::<BTreeSet<_>>();
    let environment = Environment::prepare(&folder())?;
    let (files, ours) = (select_files(options, &environment)?, our_files(options)?);
    if files.is_empty() && ours.is_empty() {
        bail!("no test file is selected");
    }
    let own = options.emulator_like()?;
    let emulator_like = own.as_ref().map_or(target, |(target, _)| target);
    run_our_tests(&ours, &environment, emulator_like, target.entra.as_ref())?;
    if files.is_empty() {
        return Ok(());
    }
    let target = emulator_like;
    let session = Session {
        environment: &environment,
        endpoint: target.endpoint(),
        key: &target.key,
        marks: &marks(options.profile),
        limits: limits(options.profile),
    };

    let watch = Stopwatch::start();
    println!("{}", report::heading());
    let results = Mutex::new(Results::new(target.endpoint(), unit_tests));
    in_parallel(options.jobs, &files, |file| {
        let Some(report) = session.run(file)? else { return Ok(()) };
        let mut results = results.lock().expect("no worker panics while it holds the results");
        println!("{}", results.row(file, &report));
        results.add(file, report);
        Ok(())
    })?;
    let results = results.into_inner().expect("no worker panics while it holds the results");

    let path = result_path(options)?;
    results.write(&path)?;
    let verdict = known.judge(results.judged());
    println!("{}", results.total());
    results.print_verdict(&verdict, options.profile == Profile::Short);
    println!("results: {} ({:.0} s)", path.display(), watch.seconds());
    println!("{}", results.score());
    if results.is_empty() {
        bail!("no test was selected");
    }
    if !verdict.is_green() {
        bail!(
            "{} unexpected failures, {} tests to remove from known-failures.txt",
            verdict.unexpected.len(),
            verdict.outdated.len()
        );
    }
    Ok(())
}

/// Runs our own tests, those of tokens only where there is a server for them.
fn run_our_tests(
    files: &[String],
    environment: &Environment,
    target: &Target,
    entra: Option<&EntraServer>,
) -> Result<()> {
    let mut files = files.to_vec();
    files.retain(|file| entra.is_some() || file != ENTRA_FILE);
    if files.is_empty() {
        return Ok(());
    }
    println!("python: our tests against {}", target.endpoint());
    let mut pytest = Command::new(&environment.python);
    pytest.args([
        "-m",
        "pytest",
        "--quiet",
        "--timeout=120",
        "-W",
        "ignore",
        "-p",
        "no:cacheprovider",
    ]);
    pytest.args(files).current_dir(folder().join(OUR_TESTS)).env("PYTHONDONTWRITEBYTECODE", "1");
    // Some of the data of the SDK's tests is good for more of them.
    pytest.env("PYTHONPATH", &environment.tests);
    pytest.env("ORRERY_ENDPOINT", target.endpoint()).env("ORRERY_KEY", &target.key);
    if let Some(entra) = entra {
        entra.name_to(&mut pytest);
    }
    process::run(&mut pytest).context("our tests in Python")
}

/// Runs everything against a closed port and lists what passes all the same. With `--only`, the
/// entries of the other files stay as they are.
pub(super) fn classify(options: &Options) -> Result<()> {
    let environment = Environment::prepare(&folder())?;
    let files = select_files(options, &environment)?;
    let key = server::key();
    let session = Session {
        environment: &environment,
        endpoint: NO_SERVER,
        key: &key,
        marks: &marks(Profile::All),
        // A test that waits for a server does so for long; a unit test is quick.
        limits: Limits { test: Duration::from_secs(10), file: Duration::from_secs(300) },
    };
    let is_selected = |test: &String| files.iter().any(|file| test.starts_with(file));
    let mut kept = read_list(UNIT_TESTS)?;
    kept.retain(|test| !is_selected(test));
    let found = Mutex::new(kept.into_iter().collect::<BTreeSet<_>>());
    in_parallel(options.jobs, &files, |file| {
        let report = session.run_without_server(file)?;
        let passed = report.tests_with(Outcome::Pass).map(str::to_owned).collect::<Vec<_>>();
        println!("{file}: {} of {} pass without a server", passed.len(), report.tests.len());
        found.lock().expect("no worker panics while it holds the list").extend(passed);
        Ok(())
    })?;
    let found = found.into_inner().expect("no worker panics while it holds the list");
    write_list(UNIT_TESTS, &found)?;
    println!("{} unit tests in {UNIT_TESTS}", found.len());
    Ok(())
}

fn folder() -> PathBuf {
    project::root().join("conformance/python")
}

fn marks(profile: Profile) -> String {
    match profile {
        Profile::Core | Profile::Short => CORE_MARKS.to_owned(),
        Profile::Split => SPLIT_MARKS.to_owned(),
        Profile::All => format!("({CORE_MARKS} or {SPLIT_MARKS}) or not ({IMPOSSIBLE_MARKS})"),
    }
}

fn limits(profile: Profile) -> Limits {
    match profile {
        Profile::Core | Profile::Short => {
            Limits { test: Duration::from_secs(120), file: Duration::from_secs(400) }
        }
        // The suite itself waits up to ten minutes for a split.
        Profile::Split | Profile::All => {
            Limits { test: Duration::from_secs(660), file: Duration::from_secs(2400) }
        }
    }
}

fn select_files(options: &Options, environment: &Environment) -> Result<Vec<String>> {
    let mut files = environment.test_files()?;
    if options.profile == Profile::Short {
        let patterns = read_list("short.txt")?;
        let patterns = patterns.iter().map(|p| pattern(p)).collect::<Result<Vec<_>>>()?;
        files.retain(|file| patterns.iter().any(|pattern| pattern.is_match(file)));
    }
    if let Some(only) = &options.only {
        files.retain(|file| only.is_match(file));
    }
    Ok(files)
}

/// The files of our own tests that are asked for.
fn our_files(options: &Options) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder().join(OUR_TESTS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_wanted = options.only.as_ref().is_none_or(|only| only.is_match(&name));
        if name.starts_with("test_") && is_wanted {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// A shell-like pattern in which `*` stands for any text.
fn pattern(text: &str) -> Result<Regex> {
    let escaped = regex::escape(text).replace(r"\*", ".*");
    Regex::new(&format!("^{escaped}$")).with_context(|| format!("bad pattern {text}"))
}

/// The lines of a list beside the suite, without comments.
fn read_list(name: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(folder().join(name))
        .with_context(|| format!("cannot read conformance/python/{name}"))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Replaces the entries of a list and keeps its heading.
fn write_list(name: &str, entries: &BTreeSet<String>) -> Result<()> {
    let path = folder().join(name);
    let old = std::fs::read_to_string(&path)?;
    let heading = old.lines().take_while(|line| line.starts_with('#'));
    let lines = heading.chain(entries.iter().map(String::as_str)).collect::<Vec<_>>();
    std::fs::write(&path, lines.join("\n") + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
}

fn result_path(options: &Options) -> Result<PathBuf> {
    match &options.out {
        Some(path) => Ok(path.clone()),
        None => Ok(project::cache("conformance")?.join("python-results.json")),
    }
}

/// Takes the files one by one from several threads; the first error stops the taking.
fn in_parallel(
    jobs: usize,
    files: &[String],
    work: impl Fn(&str) -> Result<()> + Sync,
) -> Result<()> {
    let queue = Mutex::new(files.iter());
    let take = || queue.lock().expect("no worker panics while it takes a file").next();
    std::thread::scope(|scope| {
        let worker = || {
            while let Some(file) = take() {
                if let Err(error) = work(file) {
                    while take().is_some() {}
                    return Err(error.context(file.clone()));
                }
            }
            Ok(())
        };
        let workers = (0..jobs.max(1)).map(|_| scope.spawn(worker)).collect::<Vec<_>>();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker returns errors"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_name() {
        let matches = |pattern_text, name| pattern(pattern_text).unwrap().is_match(name);
        assert!(matches("test_ttl*.py", "test_ttl.py"));
        assert!(matches("test_ttl*.py", "test_ttl_async.py"));
        assert!(!matches("test_ttl*.py", "test_analytical_ttl.py"));
        assert!(!matches("test_ttl.py", "test_ttlxpy"));
    }

    #[test]
    fn every_file_is_taken_once_and_the_first_error_is_reported() {
        let files = (0..20).map(|n| format!("file{n:02}")).collect::<Vec<_>>();
        let seen = Mutex::new(Vec::new());
        in_parallel(3, &files, |file| {
            seen.lock().unwrap().push(file.to_owned());
            Ok(())
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        assert_eq!(seen, files);

        let error = in_parallel(1, &files, |_| bail!("no room")).unwrap_err();
        assert_eq!(format!("{error:#}"), "file00: no room");
    }
}
