//! The cases under `golden/planner`: facts about an index, a query, and the plan that the planner chooses. No
//! store is involved, so a case can describe a container of any size.
//!
//! ```text
//! # What the case shows.
//! > items 100000                 facts of what follows: items of the container
//! > partition 500                items of the logical partition that a query names
//! > count /n = 3: 12             terms in a range of values; by default one value has 1 % of the items, an
//!                                interval 30 %, a path all of them
//! > unindexed /text              a path that no index serves
//! > composite /kind ASC, /n DESC
//! > unknown missing              the index does not find missing values
//! > expiring                     the index may include expired items
//! [plan]> SELECT * FROM c WHERE c.n = 3
//! [plan p1]> SELECT * FROM c     in the logical partition p1; the partition key is /pk
//! ---
//! Filter
//!   IndexSeek /n = 3
//! 12 rows, cost 392, by row
//! ```
//!
//! `UPDATE_GOLDENFILES=1` writes what is under the line.

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;

use orrery_index::{IndexStep, ValueRange};
use orrery_query::ast::Direction;
use orrery_query::plan::access::{ShownPath, SourceOrder};
use orrery_query::plan::condition::ItemPath;
use orrery_query::plan::{IndexFacts, PlanRequest};
use orrery_query::{ContainerFacts, Query};
use orrery_types::{KeyComponent, PartitionKey, PropertyPath};

/// Cases that must be found: a folder that is not read would pass.
const CASES_MIN: usize = 40;

#[test]
fn every_plan_is_the_golden_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/planner");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the golden folder")
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    let update = std::env::var_os("UPDATE_GOLDENFILES").is_some();
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a golden file");
        cases += text.lines().filter(|line| line.starts_with("[plan")).count();
        let now = rerun(&text);
        if update {
            std::fs::write(&file, now).expect("the file is written");
        } else if now != text {
            wrong.push(format!("{}\n{now}", file.display()));
        }
    }
    assert!(cases >= CASES_MIN, "only {cases} cases were found");
    assert!(wrong.is_empty(), "plans differ:\n{}", wrong.join("\n"));
}

/// The text with the plans of now.
fn rerun(text: &str) -> String {
    let mut facts = FakeFacts::default();
    let mut out = String::new();
    let mut skipping = false;
    for line in text.lines() {
        if skipping && !line.is_empty() {
            continue;
        }
        skipping = false;
        let _ = writeln!(out, "{line}");
        if let Some(fact) = line.strip_prefix("> ") {
            facts.add(fact);
        } else if let Some(query) = line.strip_prefix("[plan") {
            let (key, query) = query.split_once("]> ").expect("a query");
            let _ = write!(out, "---\n{}", facts.plan(key.trim(), query));
            skipping = true;
        }
    }
    facts.check_used();
    out
}

/// An index as a case describes it.
#[derive(Default)]
struct FakeFacts {
    items: u64,
    partition: u64,
    /// Ranges with their numbers of terms, and whether the planner has asked for them.
    counts: Vec<(String, u64, Cell<bool>)>,
    unindexed: Vec<String>,
    composites: Vec<Vec<(ItemPath, Direction)>>,
    unknown_missing: bool,
    expiring: bool,
}

impl FakeFacts {
    fn add(&mut self, fact: &str) {
        let (kind, rest) = fact.split_once(' ').unwrap_or((fact, ""));
        let number = |text: &str| text.trim().parse().expect("a number");
        match kind {
            // The first fact of a container.
            "items" => {
                self.check_used();
                *self = Self { items: number(rest), ..Self::default() };
            }
            "partition" => self.partition = number(rest),
            "count" => {
                let (range, count) = rest.rsplit_once(": ").expect("a range and its count");
                self.counts.push((range.to_owned(), number(count), Cell::default()));
            }
            "unindexed" => self.unindexed.push(rest.to_owned()),
            "composite" => self.composites.push(rest.split(", ").map(component).collect()),
            "unknown" => self.unknown_missing = true,
            "expiring" => self.expiring = true,
            _ => panic!("no such fact: {fact}"),
        }
    }

    /// A count that the planner never asks for is a mistake in the case.
    fn check_used(&self) {
        for (range, _, used) in &self.counts {
            assert!(used.get(), "no plan depends on the count of {range}");
        }
    }

    fn plan(&self, key: &str, text: &str) -> String {
        let query = Query::parse(text).expect(text);
        let bound = query.bind(&[], &ContainerFacts::default()).expect(text);
        let key = (!key.is_empty()).then(|| PartitionKey(vec![KeyComponent::String(key.into())]));
        let request = PlanRequest {
            facts: self,
            key: key.as_ref(),
            key_paths: &[PropertyPath::parse("/pk").expect("a path")],
            is_whole: true,
            may_include_expired: self.expiring,
            rows: 100,
        };
        let plan = bound.plan(&request, None);
        let mut out = plan.explain(&bound, key.is_some()).to_text();
        let order = match plan.access.order() {
            SourceOrder::Keys => "key",
            SourceOrder::Rows => "row",
            SourceOrder::Values => "value",
        };
        let _ = writeln!(out, "{} rows, cost {:.0}, by {order}", plan.estimate, plan.cost);
        out
    }
}

fn component(text: &str) -> (ItemPath, Direction) {
    let (path, direction) = text.split_once(' ').expect("a path and a direction");
    let steps = path.split('/').skip(1).map(|name| IndexStep::Property(name.into())).collect();
    let is_descending = direction == "DESC";
    (steps, if is_descending { Direction::Descending } else { Direction::Ascending })
}

impl IndexFacts for FakeFacts {
    fn is_usable(&self, path: &[IndexStep]) -> bool {
        !self.unindexed.contains(&ShownPath(path).to_string())
    }

    fn estimate(&self, path: &[IndexStep], range: &ValueRange) -> u64 {
        let name = format!("{} {range}", ShownPath(path));
        let given = self.counts.iter().find(|(given, ..)| *given == name);
        given.map_or_else(
            || match range {
                ValueRange::Point(_) => self.items / 100,
                ValueRange::Defined => self.items,
                ValueRange::Interval { .. } | ValueRange::Prefix(_) | ValueRange::Type(_) => {
                    self.items * 3 / 10
                }
            },
            |(_, count, used)| {
                used.set(true);
                *count
            },
        )
    }

    fn count_up_to(&self, path: &[IndexStep], range: &ValueRange, most: usize) -> Option<u64> {
        Some(self.estimate(path, range)).filter(|count| *count <= most as u64)
    }

    fn count_partition_up_to(&self, most: usize) -> Option<u64> {
        Some(self.partition).filter(|count| *count <= most as u64)
    }

    fn composites(&self) -> Vec<Vec<(ItemPath, Direction)>> {
        self.composites.clone()
    }

    fn items(&self) -> u64 {
        self.items
    }

    fn scope_items(&self) -> u64 {
        self.items
    }

    fn indexes_missing(&self) -> bool {
        !self.unknown_missing
    }
}
