//! The last hour of `/metrics`, for a page that is opened after something has happened. Metrics are read
//! every ten seconds; of a reading only the samples that changed are kept, so an idle server keeps next to
//! nothing. `GET /metrics/history` returns it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use foldhash::HashMap;
use orrery_types::{Object, Value, limits};

/// Seconds between two readings.
pub(crate) const READING_S: u64 = 10;

/// What one reading changed: the number of a sample and its new value.
#[derive(Debug)]
struct MetricsReading {
    at_ms: u64,
    changes: Vec<(u32, f64)>,
}

#[derive(Debug, Default)]
struct Readings {
    /// Samples by name, labels included, in the order in which they appeared.
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    /// Kinds of families, as the text for Prometheus declares them.
    kinds: Vec<(Box<str>, Box<str>)>,
    /// Values before the oldest reading, and after the newest.
    oldest: Vec<f64>,
    newest: Vec<f64>,
    kept: VecDeque<MetricsReading>,
    changes: usize,
}

/// Readings of the last hour.
#[derive(Debug, Default)]
pub(crate) struct MetricsHistory(Mutex<Readings>);

impl MetricsHistory {
    /// Adds a reading: all metrics as text for Prometheus.
    pub(crate) fn add(&self, at_ms: u64, text: &str) {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                readings.declare(kind);
            } else if let Some((name, value)) = sample(line) {
                let number = readings.number(name);
                let newest = &mut readings.newest[number as usize];
                if value.to_bits() != newest.to_bits() {
                    *newest = value;
                    changes.push((number, value));
                }
            }
        }
        readings.changes += changes.len();
        readings.kept.push_back(MetricsReading { at_ms, changes });
        while readings.kept.len() > limits::METRICS_READINGS_MAX
            || readings.changes > limits::METRICS_CHANGES_MAX
        {
            readings.forget_oldest();
        }
    }

    /// The hour as JSON. A reading is its time and then pairs: number of a sample, new value.
    pub(crate) fn to_json(&self) -> String {
        let readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kinds = Object::new();
        for (family, kind) in &readings.kinds {
            kinds.set(family, Value::from(&**kind));
        }
        let names = readings.names.iter().map(|name| Value::from(&**name)).collect();
        let mut body = Object::new();
        body.set("kinds", Value::object(kinds));
        body.set("names", Value::array(names));
        body.set("oldest", Value::array(readings.oldest.iter().map(|v| Value::from(*v)).collect()));
        let rows = readings.kept.iter().map(MetricsReading::to_value).collect();
        body.set("readings", Value::array(rows));
        Value::object(body).to_json()
    }
}

impl MetricsReading {
    fn to_value(&self) -> Value {
        let at = Value::from(i64::try_from(self.at_ms).unwrap_or(i64::MAX));
        let pairs = self.changes.iter();
        let pairs = pairs.flat_map(|(number, value)| [i64::from(*number).into(), (*value).into()]);
        Value::array(std::iter::once(at).chain(pairs).collect())
    }
}

impl Readings {
    fn declare(&mut self, kind: &str) {
        let Some((family, kind)) = kind.split_once(' ') else { return };
        if self.kinds.iter().all(|(known, _)| **known != *family) {
            self.kinds.push((family.into(), kind.into()));
        }
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        self.oldest.push(0.0);
        self.newest.push(0.0);
        number
    }

    fn forget_oldest(&mut self) {
        let Some(reading) = self.kept.pop_front() else { return };
        self.changes -= reading.changes.len();
        for (number, value) in reading.changes {
            self.oldest[number as usize] = value;
        }
    }
}

/// Name and value of a line of the text. The name may contain spaces within its labels.
fn sample(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    value.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| (name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_keeps_what_changed() {
        let history = MetricsHistory::default();
        history.add(1, "# TYPE a counter\na{b=\"c d\"} 1\ng 0.5\n\n# HELP g of something\n");
        history.add(2, "a{b=\"c d\"} 1\ng 0.5\n");
        history.add(3, "# TYPE a counter\na{b=\"c d\"} 3\ng 0.5\nnew +Inf\n");
        assert_eq!(
            history.to_json(),
            concat!(
                r#"{"kinds":{"a":"counter"},"names":["a{b=\"c d\"}","g"],"oldest":[0,0],"#,
                r#""readings":[[1,0,1,1,0.5],[2],[3,0,3]]}"#
            )
        );
    }

    #[test]
    fn an_hour_is_kept_and_what_came_before_it_is_where_it_starts() {
        let history = MetricsHistory::default();
        let hour = limits::METRICS_READINGS_MAX as u64;
        for at in 0..=hour {
            history.add(at, &format!("a {}\nb 7\n", at + 1));
        }
        let value = Value::parse(history.to_json().as_bytes()).unwrap();
        let readings = value.get("readings").as_array().unwrap();
        assert_eq!(readings.len() as u64, hour);
        assert_eq!(readings[0].to_json(), "[1,0,2]");
        assert_eq!(value.get("oldest").to_json(), "[1,7]");
    }

    #[test]
    fn changes_are_bounded() {
        let history = MetricsHistory::default();
        let samples = limits::METRICS_CHANGES_MAX / 4;
        for at in 1..=10_u64 {
            let lines: Vec<String> = (0..samples).map(|n| format!("a{n} {at}")).collect();
            history.add(at, &lines.join("\n"));
        }
        let value = Value::parse(history.to_json().as_bytes()).unwrap();
        assert_eq!(value.get("readings").as_array().unwrap().len(), 4);
    }
}
