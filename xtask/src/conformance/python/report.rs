//! The results of all files: the table, the JSON file, the verdict in words, and the score.

use super::super::known::Verdict;
use super::events::{Outcome, TestResult};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// How many failures are printed with their messages; the JSON file has all.
const SHOWN_MAX: usize = 60;

#[derive(Serialize)]
pub(super) struct FileReport {
    pub(super) seconds: f64,
    /// What befell the file as a whole; empty when nothing did.
    pub(super) note: String,
    pub(super) tests: BTreeMap<String, TestResult>,
}

impl FileReport {
    pub(super) fn tests_with(&self, outcome: Outcome) -> impl Iterator<Item = &str> {
        let with = move |(_, result): &(&String, &TestResult)| result.outcome == outcome;
        self.tests.iter().filter(with).map(|(test, _)| test.as_str())
    }
}

#[derive(Serialize)]
pub(super) struct Results {
    endpoint: String,
    files: BTreeMap<String, FileReport>,
    #[serde(skip)]
    unit_tests: BTreeSet<String>,
}

/// Number of tests by outcome; unit tests stand apart, as they say nothing about a server.
#[derive(Default)]
struct Counts {
    by_outcome: BTreeMap<Outcome, usize>,
    unit: usize,
}

impl Counts {
    fn of(&self, outcome: Outcome) -> usize {
        self.by_outcome.get(&outcome).copied().unwrap_or(0)
    }

    fn add(&mut self, report: &FileReport, unit_tests: &BTreeSet<String>) {
        for (test, result) in &report.tests {
            if unit_tests.contains(test) {
                self.unit += 1;
            } else {
                *self.by_outcome.entry(result.outcome).or_default() += 1;
            }
        }
    }

    fn row(&self, name: &str) -> String {
        let mut row = format!("{name:<58}");
        for outcome in COLUMNS {
            let _ = write!(row, " {:>7}", self.of(outcome));
        }
        let _ = write!(row, " {:>7}", self.unit);
        row
    }
}

const COLUMNS: [Outcome; 5] =
    [Outcome::Pass, Outcome::Fail, Outcome::Error, Outcome::NotRun, Outcome::Skip];

pub(super) fn heading() -> String {
    let columns = ["pass", "fail", "error", "not run", "skip", "unit"];
    let columns = columns.map(|column| format!(" {column:>7}")).concat();
    format!("{:<58}{columns} seconds", "file")
}

impl Results {
    pub(super) fn new(endpoint: &str, unit_tests: BTreeSet<String>) -> Self {
        Self { endpoint: endpoint.to_owned(), files: BTreeMap::new(), unit_tests }
    }

    pub(super) fn add(&mut self, file: &str, report: FileReport) {
        self.files.insert(file.to_owned(), report);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn row(&self, file: &str, report: &FileReport) -> String {
        let mut counts = Counts::default();
        counts.add(report, &self.unit_tests);
        let note: String = report.note.chars().take(80).collect();
        format!("{} {:>7.0} {note}", counts.row(file), report.seconds).trim_end().to_owned()
    }

    pub(super) fn total(&self) -> String {
        self.counts().row("total")
    }

    /// The last line of a run: what part of the tests that need a server passed.
    pub(super) fn score(&self) -> String {
        let counts = self.counts();
        let passed = counts.of(Outcome::Pass);
        let failed = [Outcome::Fail, Outcome::Error, Outcome::NotRun].map(|o| counts.of(o));
        let all = passed + failed.iter().sum::<usize>();
        let tenths = (passed * 1000).checked_div(all).unwrap_or(0);
        format!(
            "SCORE python: {passed} of {all} server tests pass ({}.{} %); {} skipped by the suite, \
             {} unit tests left out",
            tenths / 10,
            tenths % 10,
            counts.of(Outcome::Skip),
            counts.unit
        )
    }

    /// Every test that counts, with whether it passed.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&str, bool)> {
        self.server_tests()
            .filter(|(_, result)| result.outcome != Outcome::Skip)
            .map(|(test, result)| (test, result.outcome == Outcome::Pass))
    }

    /// Prints what is red; `slowest` also lists the slowest files, to keep the short profile short.
    pub(super) fn print_verdict(&self, verdict: &Verdict, slowest: bool) {
        let messages = self.server_tests().collect::<BTreeMap<_, _>>();
        for test in verdict.unexpected.iter().take(SHOWN_MAX) {
            let message = messages.get(test.as_str()).map_or("", |result| &result.message);
            println!("unexpected failure: {test}\n    {}", first_line(message));
        }
        if verdict.unexpected.len() > SHOWN_MAX {
            println!("… and {} more", verdict.unexpected.len() - SHOWN_MAX);
        }
        for test in &verdict.outdated {
            println!(
                "passes now; remove it from known-failures.txt, which may only shrink: {test}"
            );
        }
        if verdict.expected > 0 {
            println!("{} failures are known", verdict.expected);
        }
        if slowest {
            let mut files = self.files.iter().collect::<Vec<_>>();
            files.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
            for (file, report) in files.iter().take(5) {
                println!("slowest: {file} {:.0} s", report.seconds);
            }
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write the results to {}", path.display()))
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for report in self.files.values() {
            counts.add(report, &self.unit_tests);
        }
        counts
    }

    fn server_tests(&self) -> impl Iterator<Item = (&str, &TestResult)> {
        self.files
            .values()
            .flat_map(|report| &report.tests)
            .filter(|(test, _)| !self.unit_tests.contains(*test))
            .map(|(test, result)| (test.as_str(), result))
    }
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let result = |outcome| TestResult { outcome, seconds: 1.0, message: String::new() };
        let tests = [
            ("a::pass", Outcome::Pass),
            ("a::fail", Outcome::Fail),
            ("a::error", Outcome::Error),
            ("a::not_run", Outcome::NotRun),
            ("a::skip", Outcome::Skip),
            ("a::unit", Outcome::Pass),
        ];
        let tests = tests.into_iter().map(|(test, outcome)| (test.to_owned(), result(outcome)));
        let report = FileReport { seconds: 6.0, note: String::new(), tests: tests.collect() };
        let mut results = Results::new("http://localhost/", BTreeSet::from(["a::unit".to_owned()]));
        results.add("a", report);
        results
    }

    #[test]
    fn the_score_counts_what_needs_a_server() {
        let expected = "SCORE python: 1 of 4 server tests pass (25.0 %); 1 skipped by the suite, \
                        1 unit tests left out";
        assert_eq!(results().score(), expected);
    }

    #[test]
    fn skipped_and_unit_tests_are_not_judged() {
        let results = results();
        let judged = results.judged().collect::<Vec<_>>();
        let expected =
            [("a::error", false), ("a::fail", false), ("a::not_run", false), ("a::pass", true)];
        assert_eq!(judged, expected);
    }

    #[test]
    fn an_empty_run_scores_nothing() {
        let results = Results::new("http://localhost/", BTreeSet::new());
        assert!(results.is_empty());
        assert!(results.score().starts_with("SCORE python: 0 of 0"));
    }
}
