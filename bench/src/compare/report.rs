//! What came out: a table for each number of clients, with the ratio of Orrery's rate to each other's.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::operation::Operation;
use crate::sample::{Sample, median};

/// One round of one system.
pub(super) struct Measured {
    /// Operations a second of the closed loop.
    pub(super) rate: f64,
    /// The rate that the open loop was offered.
    pub(super) offered: f64,
    pub(super) open: Sample,
}

pub(super) type Name = (Operation, usize, &'static str);

/// All rounds, in the order in which they were added.
#[derive(Default)]
pub(super) struct Results {
    names: Vec<Name>,
    rounds: BTreeMap<Name, Vec<Measured>>,
}

/// What the rounds of one system come to.
pub(super) struct Summary {
    pub(super) rate: f64,
    /// Orrery's rate by this one's, round by round.
    pub(super) ratio: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// The open loop completed less than it was offered: its latencies grow with its length.
    pub(super) is_saturated: bool,
}

/// An open loop that completes less than this fraction of what is offered is saturated.
const COMPLETED_MIN: f64 = 0.95;

impl Results {
    pub(super) fn add(&mut self, name: Name, measured: Measured) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        self.rounds.entry(name).or_default().push(measured);
    }

    pub(super) fn names(&self) -> &[Name] {
        &self.names
    }

    #[expect(clippy::cast_precision_loss, reason = "latencies are small")]
    pub(super) fn summary(&self, name: Name) -> Summary {
        let (operation, clients, _) = name;
        let own = self.rounds.get(&(operation, clients, "Orrery"));
        let (own, rounds) = (own.map_or(&[][..], Vec::as_slice), &self.rounds[&name]);
        let mut latencies_ns = Sample::histogram();
        for round in rounds {
            latencies_ns.add(&round.open.latencies_ns).expect("histograms of one kind");
        }
        let quantile = |part| latencies_ns.value_at_quantile(part) as f64 / 1e3;
        let completed = median(rounds.iter().map(|round| round.open.rate() / round.offered));
        Summary {
            rate: median(rounds.iter().map(|round| round.rate)),
            ratio: median(own.iter().zip(rounds).map(|(own, other)| own.rate / other.rate)),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            is_saturated: completed < COMPLETED_MIN,
        }
    }
}

/// All results as one table.
pub(super) fn table(results: &Results) -> String {
    let mut text = String::from(
        "\n| operation | clients | system | operations/s | Orrery's ratio | p50 µs | p99 µs |\n\
         |---|---:|---|---:|---:|---:|---:|\n",
    );
    for name in results.names() {
        let (operation, clients, system) = name;
        let Summary { rate, ratio, p50_us, p99_us, is_saturated } = results.summary(*name);
        let ratio = if *system == "Orrery" { String::new() } else { format!("{ratio:.2}") };
        let latencies = if is_saturated {
            "saturated | saturated".to_owned()
        } else {
            format!("{p50_us:.0} | {p99_us:.0}")
        };
        let operation = operation.name();
        let row =
            [operation, &clients.to_string(), system, &format!("{rate:.0}"), &ratio, &latencies];
        for part in ["| ", &row.join(" | "), " |\n"] {
            text.push_str(part);
        }
    }
    text
}

/// What stands around the results in a file.
const SECTION: [&str; 2] = ["<!-- compare: begin -->\n", "<!-- compare: end -->"];

/// A file's text with these results in place of those that it has.
pub(super) fn replace_section(text: &str, results: &str) -> Result<String> {
    let [begin, end] = SECTION;
    let parts = text.split_once(begin).zip(text.split_once(end));
    let ((before, _), (_, after)) = parts.context("the file has no section for the results")?;
    Ok(format!("{before}{begin}\n{results}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn measured(rate: f64, completed: u64, latency_ns: u64) -> Measured {
        let mut latencies_ns = Sample::histogram();
        latencies_ns.record_n(latency_ns, completed).unwrap();
        let open = Sample { latencies_ns, took: Duration::from_secs(1), processor: None };
        Measured { rate, offered: 100.0, open }
    }

    #[test]
    fn rates_are_compared_round_by_round_and_saturation_is_said() {
        let mut results = Results::default();
        let name = |system| (Operation::Create, 1, system);
        for (own, other) in [(10.0, 5.0), (100.0, 25.0), (30.0, 10.0)] {
            results.add(name("Orrery"), measured(own, 100, 2000));
            results.add(name("other"), measured(other, 50, 9_000_000));
        }
        let (own, other) = (results.summary(name("Orrery")), results.summary(name("other")));
        assert!((other.ratio - 3.0).abs() < 1e-9 && (own.rate - 30.0).abs() < 1e-9);
        assert!(!own.is_saturated && other.is_saturated);
        assert!((own.p99_us - 2.0).abs() < 0.01, "{}", own.p99_us);
    }

    #[test]
    fn new_results_replace_those_of_an_earlier_run() {
        let file = "before\n<!-- compare: begin -->\nold\n<!-- compare: end -->\nafter\n";
        let written = replace_section(file, "- new").unwrap();
        let expected = "before\n<!-- compare: begin -->\n\n- new\n<!-- compare: end -->\nafter\n";
        assert_eq!(written, expected);
        assert_eq!(replace_section(&written, "- new").unwrap(), expected);
        assert!(replace_section("no section", "- new").is_err());
    }
}
