//! `orrery top`: what a server is busy with, by container, operation and shape of the query. It asks
//! twice and shows the difference; the server has counted all along.

mod keyboard;
mod sample;

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use orrery_types::{Object, Value};

use crate::account::{must, not_an_account};
use crate::exit::{UNREAD, usage};
use crate::interrupt;
use crate::remote::{Remote, RemoteArguments};
use crate::table::{self, Table};
use keyboard::{Keyboard, Waited};
use sample::{Line, Sample};

const COLUMNS: [&str; 10] = [
    "ops/s",
    "RU/s",
    "RU each",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "429/s",
    "container",
    "operation",
    "query",
];
/// Home, and erase to the end.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Arguments of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    remote: RemoteArguments,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
    /// Look once and end
    #[arg(long)]
    once: bool,
    /// One JSON object for each look
    #[arg(long)]
    json: bool,
    /// Which lines come first
    #[arg(long, value_enum, default_value_t = Order::Charge)]
    by: Order,
    /// How many lines
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    lines: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Request units a second
    Charge,
    /// Operations a second
    Operations,
    /// The time that 99 of 100 take less than
    Latency,
}

pub(crate) fn run(arguments: &TopArguments) -> Result<()> {
    if !(0.01..=3600.0).contains(&arguments.interval) {
        return Err(usage("--interval must be between 0.01 and 3600 seconds"));
    }
    let _cooperation = interrupt::cooperate();
    let mut remote = arguments.remote.connect()?;
    remote.abandon_on_interrupt();
    let mut before = look(&mut remote)?;
    let keyboard = Keyboard::open();
    loop {
        if keyboard.wait(Duration::from_secs_f64(arguments.interval)) == Waited::Quit {
            return Ok(());
        }
        let now = look(&mut remote)?;
        let mut lines = now.since(&before);
        lines.sort_by(|a, b| arguments.by.of(b).total_cmp(&arguments.by.of(a)));
        let out = &mut std::io::stdout().lock();
        let shown = if arguments.json {
            to_json(&now, &lines) + "\n"
        } else {
            let clear = if table::is_terminal() && !arguments.once { CLEAR } else { "" };
            format!("{clear}{}", to_text(&lines, arguments.lines, table::width()))
        };
        out.write_all(shown.as_bytes()).and_then(|()| out.flush()).context(UNREAD)?;
        if arguments.once {
            return Ok(());
        }
        before = now;
    }
}

fn look(remote: &mut Remote) -> Result<Sample> {
    let answer = must(remote, "GET", "/_orrery/statistics", &[], b"")?;
    let value = Value::parse(&answer.body).map_err(|_| not_an_account())?;
    if !value.get("enabled").is_true() {
        bail!("the server does not count its requests: it was started with --statistics=false");
    }
    Ok(Sample::read(&value))
}

impl Order {
    fn of(self, line: &Line) -> f64 {
        match self {
            Self::Charge => line.charge,
            Self::Operations => line.operations,
            Self::Latency => line.p99_ms,
        }
    }
}

/// Two decimals are enough for anybody.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn to_json(now: &Sample, lines: &[Line]) -> String {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let line = |line: &Line| {
        let mut object = Object::new();
        object.set("container", text(&line.container));
        object.set("operation", line.operation.as_str().into());
        object.set("shape", text(&line.shape));
        for (name, number) in [
            ("operationsPerSecond", line.operations),
            ("chargePerSecond", line.charge),
            ("failedPerSecond", line.failed),
            ("throttledPerSecond", line.throttled),
            ("p50Ms", line.p50_ms),
            ("p95Ms", line.p95_ms),
            ("p99Ms", line.p99_ms),
        ] {
            object.set(name, rounded(number).into());
        }
        Value::object(object)
    };
    let mut object = Object::new();
    object.set("timeUs", i64::try_from(now.time_us).unwrap_or(i64::MAX).into());
    object.set("rows", Value::array(lines.iter().map(line).collect()));
    Value::object(object).to_json()
}

fn to_text(lines: &[Line], max: usize, columns: usize) -> String {
    let sum = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>();
    let mut text = format!(
        "{:.1} operations/s, {:.1} RU/s, {:.1} throttled/s, {:.1} failed/s\n\n",
        sum(|line| line.operations),
        sum(|line| line.charge),
        sum(|line| line.throttled),
        sum(|line| line.failed),
    );
    let mut shown = Table::new(COLUMNS);
    for line in lines.iter().take(max) {
        let each = line.charge / line.operations.max(f64::MIN_POSITIVE);
        let container = line.container.as_deref().map_or("-", short);
        shown.row([
            format!("{:.1}", line.operations),
            format!("{:.1}", line.charge),
            format!("{each:.2}"),
            format!("{:.2}", line.p50_ms),
            format!("{:.2}", line.p95_ms),
            format!("{:.2}", line.p99_ms),
            format!("{:.1}", line.throttled),
            container.to_owned(),
            line.operation.clone(),
            line.shape.clone().unwrap_or_default(),
        ]);
    }
    text += &table::with_bold_head(&shown.to_text(columns));
    if let Some(more) = lines.len().checked_sub(max).filter(|more| *more > 0) {
        let _ = writeln!(text, "… and {more} more");
    }
    text
}

/// `dbs/shop/colls/books` as people say it. A name may hold anything but a slash.
fn short(link: &str) -> &str {
    link.strip_prefix("dbs/").unwrap_or(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operation: &str, operations: f64, charge: f64) -> Line {
        Line {
            container: Some("dbs/shop/colls/books".into()),
            operation: operation.into(),
            operations,
            charge,
            ..Line::default()
        }
    }

    #[test]
    fn lines_fit_the_terminal_and_the_rest_is_counted() {
        let mut lines =
            vec![line("read", 10.0, 10.0), line("query", 2.0, 20.0), line("x", 0.0, 0.0)];
        lines[1].shape = Some("SELECT * FROM c WHERE c.name = ?".repeat(10));
        let text = to_text(&lines, 2, 100);
        assert!(text.starts_with("12.0 operations/s, 30.0 RU/s, 0.0 throttled/s"), "{text}");
        let read = text.lines().find(|line| line.contains("shop/colls/books  read")).unwrap();
        assert_eq!(read.split_whitespace().take(3).collect::<Vec<_>>(), ["10.0", "10.0", "1.00"]);
        assert!(text.ends_with("… and 1 more\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
