//! What the pytest plugin writes, one JSON object a line, and what it adds up to per test.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a test ended. Ordered by weight: where several reports speak of one test (its call, its
/// teardown, its sub-tests), the heaviest counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Selected, but the file was killed or crashed before its turn, or while it ran.
    NotRun,
    Skip,
    Pass,
    Fail,
    /// Its setup or teardown failed.
    Error,
}

/// The state of one test.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TestResult {
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
    pub(super) message: String,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Selected { test: String },
    Unreadable { test: String, message: String },
    Result { test: String, outcome: Outcome, seconds: f64, message: String },
}

/// Everything one pytest process reported.
#[derive(Default)]
pub(super) struct Events {
    pub(super) tests: BTreeMap<String, TestResult>,
    /// Why a file could not be read by pytest, if so.
    pub(super) unreadable: Option<String>,
}

impl Events {
    /// Reads the lines; a last line that a kill cut short is left out.
    pub(super) fn parse(text: &str) -> Self {
        let mut events = Self::default();
        for event in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            events.add(event);
        }
        events
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Selected { test } => {
                let outcome = Outcome::NotRun;
                self.tests
                    .insert(test, TestResult { outcome, seconds: 0.0, message: String::new() });
            }
            Event::Unreadable { test, message } => {
                self.unreadable = Some(format!("{test}: {message}"));
            }
            Event::Result { test, outcome, seconds, message } => {
                let before = self.tests.get(&test);
                let seconds = seconds + before.map_or(0.0, |before| before.seconds);
                if let Some(before) = before.filter(|before| before.outcome >= outcome) {
                    let before = TestResult { seconds, ..before.clone() };
                    self.tests.insert(test, before);
                } else {
                    self.tests.insert(test, TestResult { outcome, seconds, message });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], expected: &[(&str, Outcome)]) {
        let events = Events::parse(&lines.join("\n"));
        let found = events.tests.iter().map(|(test, result)| (test.as_str(), result.outcome));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    const SELECTED: &str = r#"{"event":"selected","test":"a"}"#;

    fn result(outcome: &str) -> String {
        format!(
            r#"{{"event":"result","test":"a","outcome":"{outcome}","seconds":1.5,"message":"m"}}"#
        )
    }

    #[test]
    fn a_selected_test_without_a_result_did_not_run() {
        check(&[SELECTED], &[("a", Outcome::NotRun)]);
    }

    #[test]
    fn the_heaviest_report_counts() {
        check(&[SELECTED, &result("pass")], &[("a", Outcome::Pass)]);
        check(&[SELECTED, &result("pass"), &result("error")], &[("a", Outcome::Error)]);
        check(&[SELECTED, &result("fail"), &result("pass")], &[("a", Outcome::Fail)]);
        check(&[SELECTED, &result("skip"), &result("pass")], &[("a", Outcome::Pass)]);
    }

    #[test]
    fn a_line_cut_short_is_left_out() {
        check(&[SELECTED, &result("pass")[..40]], &[("a", Outcome::NotRun)]);
    }

    #[test]
    fn seconds_of_all_reports_are_added() {
        let events = Events::parse(&[result("pass"), result("error")].join("\n"));
        assert!((events.tests["a"].seconds - 3.0).abs() < 1e-9);
    }
}
