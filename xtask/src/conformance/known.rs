//! The list of known failures, and the verdict it gives. A failure that is not listed is red; a
//! listed test that passes is red as well, so the list may only shrink. Only a test that measures
//! how slow the server is may do either: its outcome is the machine's.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// Test ids with the reason why each fails.
pub(super) struct KnownFailures(BTreeMap<String, String>);

/// How the reason of a test begins whose outcome depends on the speed of the machine.
const TIMING: &str = "timing: ";

/// How the results differ from the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Failed, and not listed.
    pub(super) unexpected: Vec<String>,
    /// Listed, and passed.
    pub(super) outdated: Vec<String>,
    /// Listed, and failed as expected.
    pub(super) expected: usize,
}

impl Verdict {
    pub(super) fn is_green(&self) -> bool {
        self.unexpected.is_empty() && self.outdated.is_empty()
    }
}

impl KnownFailures {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Both lists; a test is in one of them.
    pub(super) fn and(mut self, more: Self) -> Result<Self> {
        for (test, reason) in more.0 {
            if self.0.contains_key(&test) {
                bail!("{test} is listed for one range already");
            }
            self.0.insert(test, reason);
        }
        Ok(self)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut tests = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((test, reason)) = line.split_once(" # ") else {
                bail!("line {}: a test id needs ` # ` and a reason", index + 1);
            };
            if tests.insert(test.trim().to_owned(), reason.trim().to_owned()).is_some() {
                bail!("line {}: {} is listed twice", index + 1, test.trim());
            }
        }
        Ok(Self(tests))
    }

    /// Compares with results given as (test, passed); skipped tests are not given. A listed test
    /// that was not run says nothing.
    pub(super) fn judge<'a>(&self, results: impl Iterator<Item = (&'a str, bool)>) -> Verdict {
        let mut verdict = Verdict::default();
        for (test, passed) in results {
            match (self.0.get(test), passed) {
                (None, false) => verdict.unexpected.push(test.to_owned()),
                (Some(reason), true) if !reason.starts_with(TIMING) => {
                    verdict.outdated.push(test.to_owned());
                }
                (Some(_), false) => verdict.expected += 1,
                (Some(_) | None, true) => {}
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# heading\n\na.py::one # not yet\n  a.py::two  #  later \n";

    fn check(results: &[(&str, bool)], unexpected: &[&str], outdated: &[&str], expected: usize) {
        let list = KnownFailures::parse("a.py::one # not yet\na.py::two # later\n").unwrap();
        let verdict = list.judge(results.iter().copied());
        assert_eq!(verdict.unexpected, unexpected);
        assert_eq!(verdict.outdated, outdated);
        assert_eq!(verdict.expected, expected);
        assert_eq!(verdict.is_green(), unexpected.is_empty() && outdated.is_empty());
    }

    #[test]
    fn a_listed_failure_is_expected() {
        check(&[("a.py::one", false), ("a.py::three", true)], &[], &[], 1);
    }

    #[test]
    fn an_unlisted_failure_is_red() {
        check(&[("a.py::three", false)], &["a.py::three"], &[], 0);
    }

    #[test]
    fn a_listed_test_that_passes_is_red() {
        check(&[("a.py::one", true), ("a.py::two", false)], &[], &["a.py::one"], 1);
    }

    #[test]
    fn a_test_of_timing_may_do_either() {
        let list = KnownFailures::parse("a.py::slow # timing: wants a slow server\n").unwrap();
        for passed in [true, false] {
            assert!(list.judge([("a.py::slow", passed)].into_iter()).is_green());
        }
    }

    #[test]
    fn a_listed_test_that_did_not_run_says_nothing() {
        check(&[], &[], &[], 0);
    }

    #[test]
    fn comments_and_empty_lines_are_not_tests() {
        let list = KnownFailures::parse(LIST).unwrap();
        assert_eq!(list.0.len(), 2);
        assert_eq!(list.0["a.py::one"], "not yet");
    }

    #[test]
    fn an_entry_without_a_reason_is_an_error() {
        for (text, expected) in [
            ("a.py::one\n", "line 1: a test id needs ` # ` and a reason"),
            ("a.py::one # x\na.py::one # y\n", "line 2: a.py::one is listed twice"),
        ] {
            assert_eq!(KnownFailures::parse(text).err().unwrap().to_string(), expected);
        }
    }
}
