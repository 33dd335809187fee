//! One pytest process for one test file, within time limits for each test and for the file.

use super::FileReport;
use super::environment::Environment;
use super::events::{Events, Outcome};
use crate::process::{self, Ending};
use crate::project;
use crate::stopwatch::Stopwatch;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Exit status of pytest when nothing was selected.
const NOTHING_SELECTED: i32 = 5;

pub(super) struct Limits {
    pub(super) test: Duration,
    pub(super) file: Duration,
}

/// What all files of a run have in common.
pub(super) struct Session<'a> {
    pub(super) environment: &'a Environment,
    pub(super) endpoint: &'a str,
    pub(super) key: &'a str,
    pub(super) marks: &'a str,
    pub(super) limits: Limits,
}

/// What one process left behind.
struct Remains {
    events: Events,
    ending: Ending,
    last_line: String,
}

impl Session<'_> {
    /// Runs a file; `None` when the marks select none of its tests.
    pub(super) fn run(&self, file: &str) -> Result<Option<FileReport>> {
        let watch = Stopwatch::start();
        let remains = self.pytest(file, &[])?;
        let mut note = match &remains.ending {
            Ending::TimedOut => format!("stopped after {:?}", self.limits.file),
            Ending::Exited(status) if status.code() == Some(NOTHING_SELECTED) => return Ok(None),
            Ending::Exited(_) => String::new(),
        };
        let mut tests = remains.events.tests;
        if tests.is_empty() {
            // The suite's own set-up (account, database, four containers) failed on this server. The
            // tests count as errors, not as absent, so ask without the set-up which they are.
            note = remains.events.unreadable.unwrap_or(remains.last_line);
            tests = self.pytest(file, &["--noconftest", "--collect-only"])?.events.tests;
            for test in tests.values_mut() {
                test.outcome = Outcome::Error;
                test.message = format!("set-up failed: {note}");
            }
        }
        let is_selected = !tests.is_empty() || !note.is_empty();
        Ok(is_selected.then_some(FileReport { seconds: watch.seconds(), note, tests }))
    }

    /// Runs a file without the suite's set-up, which needs a server.
    pub(super) fn run_without_server(&self, file: &str) -> Result<FileReport> {
        let watch = Stopwatch::start();
        let tests = self.pytest(file, &["--noconftest"])?.events.tests;
        Ok(FileReport { seconds: watch.seconds(), note: String::new(), tests })
    }

    fn pytest(&self, file: &str, extra: &[&str]) -> Result<Remains> {
        let scratch = project::cache("conformance/scratch")?;
        let name = file.replace('/', "-");
        let events = scratch.join(format!("{}-{name}.events", std::process::id()));
        let log = scratch.join(format!("{name}.log"));
        let output = fs::File::create(&log)
            .with_context(|| format!("cannot write the log {}", log.display()))?;
        let mut pytest = Command::new(&self.environment.python);
        pytest
            .args(["-m", "pytest", "-p", "orrery_plugin", "-p", "no:cacheprovider"])
            .args(["--quiet", "--no-header", "--tb=native", "-o", "asyncio_mode=strict"])
            .arg(format!("--timeout={}", self.limits.test.as_secs()))
            .args(["-m", self.marks])
            .args(extra)
            .arg(file)
            .current_dir(&self.environment.tests)
            .env("ACCOUNT_HOST", self.endpoint)
            .env("ACCOUNT_KEY", self.key)
            .env("ORRERY_EVENTS", &events)
            .env("PYTHONPATH", &self.environment.plugins)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONWARNINGS", "ignore")
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let ending = process::run_within(&mut pytest, self.limits.file)?;
        let text = fs::read_to_string(&events).unwrap_or_default();
        // The file is absent when pytest failed before it loaded the plugin.
        let _ = fs::remove_file(&events);
        Ok(Remains { events: Events::parse(&text), ending, last_line: last_line(&log) })
    }
}

fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output");
    line.chars().take(200).collect()
}
