//! Whether arrays grow: from several versions of an item, or from dates in the elements that rise
//! from the first to the last.

use std::collections::HashMap;

use orrery_types::{Value, calendar};

use super::sketch::HashSample;
use crate::path::{ModelPath, ModelStep};

/// Arrays shorter than this are not followed.
const LENGTH_MIN: usize = 20;
/// Arrays of one path that are followed.
const FOLLOWED_MAX: usize = 4096;
/// Elements of an array whose dates are compared.
const DATES_MAX: usize = 32;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// What is known of the arrays at one path.
#[derive(Debug)]
pub(crate) struct Growth {
    last: HashSample<usize>,
    /// Versions of an item after the first, and those in which the array had become longer.
    pub(crate) touched: u64,
    pub(crate) grown: u64,
    /// Arrays with dates in their elements, and those in which the dates rise.
    pub(crate) dated: u64,
    pub(crate) rising: u64,
    /// Of the fastest array: elements a day, and the last date.
    pub(crate) per_day: f64,
    pub(crate) last_s: i64,
}

/// All arrays of one type.
#[derive(Debug, Default)]
pub(crate) struct Growths {
    pub(crate) paths: HashMap<Vec<ModelStep>, Growth>,
}

impl Growths {
    pub(crate) fn add(&mut self, hash: u64, item: &Value) {
        self.walk(hash, item, &mut Vec::new());
    }

    /// Takes over what others saw of versions; of the items here there is one version each.
    pub(crate) fn add_versions(&mut self, seen: &Self) {
        for (path, theirs) in &seen.paths {
            if let Some(own) = self.paths.get_mut(path) {
                own.touched += theirs.touched;
                own.grown += theirs.grown;
            }
        }
    }

    pub(crate) fn of(&self, path: &ModelPath) -> Option<&Growth> {
        self.paths.get(path.steps())
    }

    fn walk(&mut self, hash: u64, value: &Value, steps: &mut Vec<ModelStep>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    if matches!(value, Value::Object(_) | Value::Array(_)) {
                        steps.push(ModelStep::Name((&**name).into()));
                        self.walk(hash, value, steps);
                        steps.pop();
                    }
                }
            }
            // An array in an array has no identity from one version to the next.
            Value::Array(elements) if elements.len() >= LENGTH_MIN => {
                self.array(hash, elements, steps);
            }
            _ => {}
        }
    }

    fn array(&mut self, hash: u64, elements: &[Value], steps: &[ModelStep]) {
        let growth = self.paths.entry(steps.to_vec()).or_insert_with(|| Growth {
            last: HashSample::new(FOLLOWED_MAX),
            touched: 0,
            grown: 0,
            dated: 0,
            rising: 0,
            per_day: 0.0,
            last_s: 0,
        });
        let mut before = None;
        if let Some(length) = growth.last.entry(hash, || usize::MAX) {
            before = Some(*length).filter(|length| *length != usize::MAX);
            *length = elements.len();
        }
        if let Some(before) = before {
            growth.touched += 1;
            growth.grown += u64::from(elements.len() > before);
        }
        if let Some((rising, first, last)) = dates(elements) {
            growth.dated += 1;
            if rising && last > first {
                growth.rising += 1;
                #[expect(clippy::cast_precision_loss, reason = "a rate is a rough number")]
                let rate = elements.len() as f64 / ((last - first) as f64 / SECONDS_PER_DAY);
                if rate > growth.per_day {
                    (growth.per_day, growth.last_s) = (rate, last);
                }
            }
        }
    }
}

/// Whether the dates of the elements rise, and the first and the last of them.
fn dates(elements: &[Value]) -> Option<(bool, i64, i64)> {
    let object = elements.first()?.as_object()?;
    let (name, _) = object.iter().find(|(name, value)| date(name, value).is_some())?;
    let step = elements.len().div_ceil(DATES_MAX);
    let found: Vec<i64> =
        elements.iter().step_by(step).filter_map(|e| date(name, e.get(name))).collect();
    let (first, last) = (*found.first()?, *found.last()?);
    let rises = found.windows(2).filter(|pair| pair[0] <= pair[1]).count();
    Some((found.len() >= 4 && rises * 10 >= (found.len() - 1) * 9, first, last))
}

/// Seconds since 1970 of a date: ISO 8601, or a number under a name that says so.
fn date(name: &str, value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => iso_seconds(text),
        Value::Number(number) => {
            let lower = name.to_ascii_lowercase();
            let says = ["date", "time", "ts", "created", "at"].iter().any(|w| lower.ends_with(w));
            let seconds = number.as_i64().filter(|_| says)?;
            // Milliseconds have three digits more.
            let seconds = if seconds > 100_000_000_000 { seconds / 1000 } else { seconds };
            (946_684_800..4_102_444_800).contains(&seconds).then_some(seconds)
        }
        _ => None,
    }
}

/// `2024-05-01T10:00:00…` to seconds.
fn iso_seconds(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() < 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> { text.get(from..to)?.parse().ok() };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let clock = match (bytes.get(10), number(11, 13), number(14, 16), number(17, 19)) {
        (Some(b'T' | b' '), Some(h), Some(m), Some(s)) => h * 3600 + m * 60 + s,
        _ => 0,
    };
    Some(calendar::days_of(year, month, day) * 86_400 + clock)
}

/// Seconds to `2024-05-01`.
pub(crate) fn iso_date(seconds: i64) -> String {
    let (year, month, day) = calendar::date_of(seconds.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        for (text, seconds) in
            [("1970-01-01", 0), ("2000-02-29", 951_782_400), ("2024-12-31", 1_735_603_200)]
        {
            assert_eq!(iso_seconds(text), Some(seconds), "{text}");
            assert_eq!(iso_date(seconds), text);
        }
        assert_eq!(iso_seconds("1970-01-01T01:02:03Z"), Some(3723));
        for bad in ["", "hello", "2024-13-01", "20240101", "2024/01/01"] {
            assert_eq!(iso_seconds(bad), None, "{bad}");
        }
    }
}
