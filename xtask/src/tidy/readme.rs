//! README's tables repeat what other documents measure and list: what its comparison says of Orrery agrees
//! with COMPAT.md, and its figures stand in `bench/RESULTS.md`.

use super::File;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const README: &str = "README.md";
const COMPAT: &str = "COMPAT.md";
const RESULTS: &str = "bench/RESULTS.md";
const COMPARISON: &str = "## Compared with others";
const FIGURES: &str = "## How fast";

/// Rows of the comparison, and how the rows of COMPAT.md begin that each of them sums up.
const ROWS: &[(&str, &[&str])] = &[
    ("stored procedures, triggers", &["stored procedure", "trigger"]),
    ("user-defined functions", &["user-defined function"]),
    ("transactional batch", &["item | transactional batch"]),
    ("change feed", &["item | change feed"]),
    ("users, permissions, resource tokens", &["user, permission", "resource tokens"]),
    ("Entra ID sign-in, roles", &["Entra ID tokens", "data-plane roles"]),
    ("custom indexing policy", &["indexing policy: modes"]),
    ("spatial, vector and full-text indexes", &["indexing policy: spatial"]),
    ("request charges", &["request charge"]),
    ("throttling", &["throttling"]),
    ("Direct mode", &["Direct mode"]),
    ("several regions", &["several regions"]),
];
/// Rows about what COMPAT.md, a list of the protocol, does not speak of.
const BESIDE_THE_PROTOCOL: &[&str] = &[
    "runs on your machines",
    "open source",
    "data survives a restart",
    "checked references, copies, aggregates",
];

static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d[\d,]*(?:\.\d+)?").expect("the pattern is valid"));

pub(super) fn check(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &*file.text);
    match (text(README), text(COMPAT), text(RESULTS)) {
        (Some(readme), Some(compat), Some(results)) => {
            let mut complaints = check_comparison(readme, compat);
            complaints.extend(check_figures(readme, results));
            complaints
        }
        _ => vec![format!("{README}, {COMPAT} or {RESULTS} is missing")],
    }
}

fn check_comparison(readme: &str, compat: &str) -> Vec<String> {
    let rows = rows(readme, COMPARISON);
    let mut complaints = Vec::new();
    for (name, _) in ROWS.iter().filter(|(name, _)| rows.iter().all(|row| row[0] != *name)) {
        complaints.push(format!("{README}: the comparison has no row '{name}'"));
    }
    for row in rows {
        let (name, said) = (row[0], row[row.len() - 1]);
        let Some((_, begins)) = ROWS.iter().find(|(known, _)| *known == name) else {
            if !BESIDE_THE_PROTOCOL.contains(&name) {
                complaints.push(format!("{README}: '{name}' is tied to no row of {COMPAT}"));
            }
            continue;
        };
        let states: Option<Vec<State>> = begins.iter().map(|begin| state(compat, begin)).collect();
        let expected = match states.and_then(|states| states.into_iter().max()) {
            Some(State::Full) => "yes",
            Some(State::Partial) => "in part",
            Some(State::Absent) => "no",
            None => {
                complaints.push(format!("{README}: {COMPAT} has no row for '{name}'"));
                continue;
            }
        };
        if !said.starts_with(expected) {
            complaints.push(format!("{README}: '{name}' is '{said}', by {COMPAT} '{expected}'"));
        }
    }
    complaints
}

/// How much of something there is; of several the least counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Full,
    Partial,
    Absent,
}

/// The state in the first row of COMPAT.md that begins so.
fn state(compat: &str, begin: &str) -> Option<State> {
    let start = format!("| {begin}");
    compat.lines().filter(|line| line.starts_with(&start)).find_map(|line| {
        line.split('|').find_map(|cell| match cell.trim() {
            "full" => Some(State::Full),
            "partial" => Some(State::Partial),
            "absent" => Some(State::Absent),
            _ => None,
        })
    })
}

fn check_figures(readme: &str, results: &str) -> Vec<String> {
    let number = |text: &str| text.replace(',', "");
    let measured: BTreeSet<String> = NUMBER
        .find_iter(results)
        .map(|found| number(found.as_str().trim_end_matches(',')))
        .collect();
    let mut complaints = Vec::new();
    for row in rows(readme, FIGURES) {
        for cell in row.iter().skip(1) {
            for found in NUMBER.find_iter(cell) {
                let found = found.as_str().trim_end_matches(',');
                if !measured.contains(&number(found)) {
                    complaints
                        .push(format!("{README}: {found} of '{}' is not in {RESULTS}", row[0]));
                }
            }
        }
    }
    complaints
}

/// The cells of the rows of the first table under a heading, without its head.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let under = text.lines().skip_while(|line| *line != heading).skip(1);
    let section = under.take_while(|line| !line.starts_with("## "));
    let table = section.filter(|line| line.starts_with('|')).skip(2);
    table.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const COMPAT_ROWS: &str = "| change feed | full | x |\n| item | change feed: all | full | x |\n| request charge | partial | x |\n";

    fn comparison(rows: &str) -> Vec<String> {
        let head = "\n| | Others | Orrery |\n|---|---|---|\n";
        check_comparison(&format!("{COMPARISON}\n{head}{rows}\n## Next\n"), COMPAT_ROWS)
    }

    fn is_said(complaints: &[String], part: &str) -> bool {
        complaints.iter().any(|complaint| complaint.contains(part))
    }

    #[test]
    fn the_comparison_says_what_compat_says() {
        let right =
            comparison("| change feed | no | yes, both |\n| request charges | no | in part |");
        assert!(!is_said(&right, "by COMPAT"), "{right:?}");
        let wrong = comparison("| change feed | no | no |\n| request charges | no | yes |");
        assert!(is_said(&wrong, "'change feed' is 'no'"), "{wrong:?}");
        assert!(is_said(&wrong, "'request charges' is 'yes'"), "{wrong:?}");
        assert!(is_said(&comparison("| new | no | yes |"), "'new' is tied to no row"));
        assert!(is_said(&comparison(""), "no row 'throttling'"));
        assert!(is_said(&comparison("| throttling | no | yes |"), "has no row for 'throttling'"));
    }

    #[test]
    fn figures_are_those_that_were_measured() {
        let readme = |cell: &str| {
            format!("{FIGURES}\n\n| | O | P |\n|---|---|---|\n| reads, 32 | {cell} | |\n")
        };
        let results = "| point read | 36669 | 41.6 | 2,097,152 |";
        for (cell, wrong) in [("36,669 /s", 0), ("41.6 MB, 2,097,152", 0), ("36,670 /s, 9", 2)] {
            assert_eq!(check_figures(&readme(cell), results).len(), wrong, "{cell}");
        }
        assert_eq!(check(&[file(README, "")]).len(), 1);
    }
}
