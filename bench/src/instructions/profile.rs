//! Instructions by function: as callgrind writes them, and as they are kept in the tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};

/// Functions of a path that are kept: those with the most instructions.
const FUNCTIONS_KEPT: usize = 40;
/// Functions that are named when a path has grown.
const FUNCTIONS_NAMED: usize = 8;

/// Instructions that each function executed itself, without those it called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    functions: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads a dump of callgrind. Names are written out once and referred to by number afterwards; a line after
    /// `calls=` holds the instructions of the called function and is left out.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut names: BTreeMap<&str, String> = BTreeMap::new();
        let mut functions = BTreeMap::new();
        let mut current = String::new();
        let mut is_call = false;
        for line in text.lines() {
            if let Some(function) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
                let (number, rest) =
                    function.split_once(')').context("a function without a number")?;
                let name = rest.trim();
                if !name.is_empty() {
                    names.insert(number, plain(name));
                }
                if line.starts_with("fn=") {
                    current.clone_from(names.get(number).context("a function without a name")?);
                }
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
                if !std::mem::take(&mut is_call) {
                    *functions.entry(current.clone()).or_default() += cost.unwrap_or(0);
                }
            }
        }
        Ok(Self { functions })
    }

    /// The share of one of so many requests.
    pub(super) fn for_one_of(mut self, requests: u64) -> Self {
        self.functions.values_mut().for_each(|cost| *cost /= requests.max(1));
        self
    }

    pub(super) fn total(&self) -> u64 {
        self.functions.values().sum()
    }

    /// The functions with the most instructions, most first.
    fn largest(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.functions.iter().map(|(name, cost)| (&**name, *cost)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all
    }
}

/// A name without what differs from build to build: hashes, and the mark of a recursive call.
fn plain(name: &str) -> String {
    let name = name.split('\'').next().unwrap_or(name);
    match name.rsplit_once("::h") {
        Some((plain, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            plain.to_owned()
        }
        _ => name.to_owned(),
    }
}

/// Figures of an earlier run.
pub(super) struct Baseline {
    paths: Vec<PathFigures>,
}

/// The instructions of one path, and of its largest functions.
struct PathFigures {
    name: String,
    total: u64,
    functions: Vec<(String, u64)>,
}

impl Baseline {
    pub(super) fn of(measured: &[(&str, Profile)]) -> Self {
        let path = |(name, profile): &(&str, Profile)| {
            let largest = profile.largest().into_iter().take(FUNCTIONS_KEPT);
            let functions = largest.map(|(function, cost)| (function.to_owned(), cost)).collect();
            PathFigures { name: (*name).to_owned(), total: profile.total(), functions }
        };
        Self { paths: measured.iter().map(path).collect() }
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::from(
            "# Instructions of the server for one request, counted by `cargo xtask bench instructions`, with the\n\
             # functions that execute most of them. `-- --write bench/instructions.txt` replaces this file.\n",
        );
        for PathFigures { name, total, functions } in &self.paths {
            let _ = writeln!(text, "\n{name}: {total}");
            for (function, cost) in functions {
                let _ = writeln!(text, "  {cost:8} {function}");
            }
        }
        text
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut paths: Vec<PathFigures> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let number =
                |text: &str| text.parse().with_context(|| format!("no number in \"{line}\""));
            if let Some(function) = line.strip_prefix("  ") {
                let (cost, name) =
                    function.trim_start().split_once(' ').context("a function without a name")?;
                let path = paths.last_mut().context("a function without a path")?;
                path.functions.push((name.to_owned(), number(cost)?));
            } else {
                let (name, total) = line.rsplit_once(": ").context("a path without a total")?;
                let (name, total) = (name.to_owned(), number(total)?);
                paths.push(PathFigures { name, total, functions: vec![] });
            }
        }
        Ok(Self { paths })
    }

    fn path(&self, name: &str) -> Option<&PathFigures> {
        self.paths.iter().find(|figures| figures.name == name)
    }

    pub(super) fn total(&self, path: &str) -> Option<u64> {
        self.path(path).map(|figures| figures.total)
    }

    /// The functions that grew most on a path, with their instructions before and now.
    pub(super) fn growth(&self, path: &str, now: &Profile) -> Vec<(String, u64, u64)> {
        let kept = self.path(path).map_or(&[][..], |figures| figures.functions.as_slice());
        let before = |function: &str| {
            kept.iter().find(|(name, _)| name == function).map_or(0, |(_, cost)| *cost)
        };
        let largest = now.largest().into_iter().take(FUNCTIONS_KEPT);
        let mut grown: Vec<(String, u64, u64)> = largest
            .map(|(function, cost)| (function.to_owned(), before(function), cost))
            .filter(|(_, before, cost)| cost > before)
            .collect();
        grown.sort_by_key(|(_, before, cost)| std::cmp::Reverse(cost - before));
        grown.truncate(FUNCTIONS_NAMED);
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "version: 1\ncreator: callgrind-3.19.0\npid: 7\ndesc: Timerange: 0 - 9\n\
        positions: line\nevents: Ir\nsummary: 900\n\nob=(1) /bin/orrery\nfl=(1) ???\n\
        fn=(1) orrery_engine::read::h0123456789abcdef\n0 300\n0 100\ncob=(2) /lib/libc.so\n\
        cfn=(2) memcpy\ncalls=3 0\n0 500\n\nfn=(2)\n0 500\n\nfn=(3) walk'2\n+3 10\n* 5\ntotals: 915\n";

    #[test]
    fn instructions_are_those_of_the_function_itself() {
        let profile = Profile::parse(DUMP).unwrap();
        let expected = [("memcpy", 500), ("orrery_engine::read", 400), ("walk", 15)];
        assert_eq!(profile.largest(), expected);
        assert_eq!(profile.clone().for_one_of(5).largest()[0], ("memcpy", 100));
        assert_eq!(profile.total(), 915);
    }

    #[test]
    fn figures_are_read_back_and_what_grew_is_named() {
        let before = Profile::parse(DUMP).unwrap();
        let text = Baseline::of(&[("point read", before.clone())]).to_text();
        let baseline = Baseline::parse(&text).unwrap();
        assert_eq!(baseline.total("point read"), Some(915));
        assert_eq!(baseline.total("create"), None);
        assert!(baseline.growth("point read", &before).is_empty());
        let now = Profile::parse(&DUMP.replace("0 300", "0 350").replace("walk'2", "run")).unwrap();
        let grown = baseline.growth("point read", &now);
        let expected = [("orrery_engine::read".to_owned(), 400, 450), ("run".to_owned(), 0, 15)];
        assert_eq!(grown, expected);
    }

    #[test]
    fn damaged_figures_are_refused() {
        for text in ["point read", "point read: many", "  12 memcpy", "a: 1\n  memcpy"] {
            assert!(Baseline::parse(text).is_err(), "{text}");
        }
    }
}
