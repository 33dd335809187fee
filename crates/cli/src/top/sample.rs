//! The server's statistics at one moment, and what happened between two.

use std::collections::HashMap;

use orrery_types::{Number, Value};

/// Container, operation, shape.
type Key = (Option<String>, String, Option<String>);

/// What was counted up to a moment.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) time_us: u64,
    rows: HashMap<Key, Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    count: f64,
    failed: f64,
    throttled: f64,
    charge: f64,
    /// Upper bounds in microseconds, ascending, and how many took less.
    latency: Vec<(u64, u64)>,
}

/// What happened a second, between two moments.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) container: Option<String>,
    pub(super) operation: String,
    pub(super) shape: Option<String>,
    pub(super) operations: f64,
    pub(super) charge: f64,
    pub(super) failed: f64,
    pub(super) throttled: f64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
}

fn whole(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

impl Sample {
    pub(super) fn read(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let row = |row: &Value| {
            let operation = text(row.get("operation")).unwrap_or_default();
            let key = (text(row.get("container")), operation, text(row.get("shape")));
            let number = |name: &str| row.get(name).as_number().map_or(0.0, Number::as_f64);
            let classes = row.get("latencyUs").as_array().unwrap_or_default();
            let class = |class: &Value| {
                let pair = class.as_array().unwrap_or_default();
                (whole(pair.first()), whole(pair.get(1)))
            };
            let counts = Counts {
                count: number("count"),
                failed: number("failed"),
                throttled: number("throttled"),
                charge: number("charge"),
                latency: classes.iter().map(class).collect(),
            };
            (key, counts)
        };
        let rows = value.get("rows").as_array().unwrap_or_default();
        let time_us = whole(Some(value.get("timeUs")));
        Self { time_us, rows: rows.iter().map(row).collect() }
    }

    /// Everything that happened since an earlier moment; what did not happen is left out. A server
    /// that was restarted has counted from zero.
    pub(super) fn since(&self, before: &Self) -> Vec<Line> {
        #[expect(clippy::cast_precision_loss, reason = "the moments are near each other")]
        let seconds = self.time_us.saturating_sub(before.time_us).max(1) as f64 / 1e6;
        let nothing = Counts::default();
        let line = |(key, now): (&Key, &Counts)| {
            let then = before.rows.get(key).filter(|then| then.count <= now.count);
            let then = then.unwrap_or(&nothing);
            let (container, operation, shape) = key.clone();
            let latency = difference(&now.latency, &then.latency);
            Line {
                container,
                operation,
                shape,
                operations: (now.count - then.count) / seconds,
                charge: (now.charge - then.charge) / seconds,
                failed: (now.failed - then.failed) / seconds,
                throttled: (now.throttled - then.throttled) / seconds,
                p50_ms: percentile(&latency, 50),
                p95_ms: percentile(&latency, 95),
                p99_ms: percentile(&latency, 99),
            }
        };
        self.rows.iter().map(line).filter(|line| line.operations > 0.0).collect()
    }
}

fn difference(now: &[(u64, u64)], then: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let then: HashMap<u64, u64> = then.iter().copied().collect();
    let rest = |(bound, count): &(u64, u64)| {
        (*bound, count.saturating_sub(then.get(bound).copied().unwrap_or(0)))
    };
    now.iter().map(rest).collect()
}

/// The bound below which so many of a hundred lie, in milliseconds.
fn percentile(classes: &[(u64, u64)], of_hundred: u64) -> f64 {
    let all: u64 = classes.iter().map(|(_, count)| count).sum();
    let wanted = (all * of_hundred).div_ceil(100);
    let mut seen = 0;
    for (bound, count) in classes {
        seen += count;
        if seen >= wanted && seen > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a request takes less than a century")]
            return *bound as f64 / 1000.0;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_us: u64, rows: &str) -> Sample {
        let json = format!(r#"{{"enabled":true,"timeUs":{time_us},"rows":[{rows}]}}"#);
        Sample::read(&Value::parse(json.as_bytes()).unwrap())
    }

    fn row(operation: &str, count: u64, charge: f64, latency: &str) -> String {
        format!(
            r#"{{"container":"dbs/d/colls/c","operation":"{operation}","shape":null,
            "count":{count},"failed":0,"throttled":0,"charge":{charge},"latencyUs":[{latency}]}}"#
        )
    }

    fn near(number: f64, expected: f64) -> bool {
        (number - expected).abs() < 1e-9
    }

    #[test]
    fn lines_are_what_happened_in_between() {
        let idle = row("delete", 5, 25.0, "[104,5]");
        let before = sample(1_000_000, &format!("{idle},{}", row("read", 100, 100.0, "[104,100]")));
        let busy = row("read", 300, 302.0, "[104,190],[1024,108],[9216,2]");
        let now = sample(3_000_000, &format!("{idle},{busy}"));
        let lines = now.since(&before);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(line.operation, "read");
        assert!(near(line.operations, 100.0) && near(line.charge, 101.0), "{line:?}");
        // Of 200, 90 took less than 104 us and 108 less than a millisecond.
        assert!(near(line.p50_ms, 1.024) && near(line.p95_ms, 1.024), "{line:?}");
        assert!(near(line.p99_ms, 1.024), "{line:?}");
    }

    #[test]
    fn a_server_that_was_started_anew_counts_from_nothing() {
        let before = sample(1_000_000, &row("read", 100, 100.0, "[104,100]"));
        let now = sample(2_000_000, &row("read", 10, 10.0, "[104,10]"));
        let lines = now.since(&before);
        assert!(near(lines[0].operations, 10.0) && near(lines[0].p50_ms, 0.104), "{lines:?}");
    }
}
