//! Statistics of requests by container, operation and shape of the query: count, charge and latency.
//! `execute` records every request; `GET /_orrery/statistics` returns them and `orrery top` shows them.
//! Nothing leaves the process by itself, and no value of an item or parameter is kept.
//!
//! Each thread counts into one of a few tables, so that threads seldom contend. The size of the tables is
//! bounded; what does not fit is counted as *other*.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use http::StatusCode;
use orrery_types::ids::Rid;
use orrery_types::thread_slot::{THREAD_SLOTS, thread_slot};
use orrery_types::{Object, Value, limits};

/// One request, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSample<'r> {
    /// Its container, by rid and name.
    pub(crate) container: Option<(Rid, &'r str)>,
    pub(crate) operation: &'static str,
    pub(crate) shape: Option<&'r Arc<str>>,
    pub(crate) status: StatusCode,
    pub(crate) charge: f64,
    pub(crate) took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    container: Option<Rid>,
    operation: &'static str,
    shape: Option<Arc<str>>,
}

/// The row of what does not fit.
const OTHER: Key = Key { container: None, operation: "other", shape: None };

/// One line of the statistics.
#[derive(Clone, Debug, Default)]
struct Row {
    container: Option<Box<str>>,
    count: u64,
    failed: u64,
    throttled: u64,
    charge: f64,
    latency: Latency,
}

impl Row {
    fn count(&mut self, sample: &RequestSample<'_>) {
        self.count += 1;
        self.failed +=
            u64::from(sample.status.is_client_error() || sample.status.is_server_error());
        self.throttled += u64::from(sample.status == StatusCode::TOO_MANY_REQUESTS);
        self.charge += sample.charge;
        self.latency.count(sample.took);
    }

    fn add(&mut self, other: &Self) {
        self.container = self.container.take().or_else(|| other.container.clone());
        self.count += other.count;
        self.failed += other.failed;
        self.throttled += other.throttled;
        self.charge += other.charge;
        for (mine, theirs) in self.latency.0.iter_mut().zip(&other.latency.0) {
            *mine += theirs;
        }
    }
}

/// The rows of some threads.
type Table = Mutex<HashMap<Key, Row>>;

/// Latency classes per power of two. The last class begins above a minute.
const STEPS: u32 = 8;
const CLASSES: usize = 26 * STEPS as usize;

/// How many requests took how long, in classes of microseconds.
#[derive(Clone, Debug)]
struct Latency(Box<[u32]>);

impl Default for Latency {
    fn default() -> Self {
        Self(vec![0; CLASSES].into())
    }
}

impl Latency {
    fn count(&mut self, took: Duration) {
        let class = class_of(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let Some(count) = self.0.get_mut(class) {
            *count = count.saturating_add(1);
        }
    }

    /// The classes that are not empty: their upper bounds in microseconds, and how many.
    fn to_value(&self) -> Value {
        let classes = (0..).zip(&self.0).filter(|(_, count)| **count > 0);
        let pair = |(class, count): (usize, &u32)| {
            let bound = i64::try_from(bound_of(class)).unwrap_or(i64::MAX);
            Value::array(vec![bound.into(), i64::from(*count).into()])
        };
        Value::array(classes.map(pair).collect())
    }
}

fn class_of(us: u64) -> usize {
    // Below the first power that has eight steps each number is a class of its own.
    let us = us.max(1);
    let power = us.ilog2();
    let step = if power >= 3 { (us >> (power - 3)) & 7 } else { (us << (3 - power)) & 7 };
    let class = u64::from(power * STEPS) + step;
    usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1)
}

/// The least number of microseconds above a class.
fn bound_of(class: usize) -> u64 {
    let class = class as u64 + 1;
    let (power, step) = (class / u64::from(STEPS), class % u64::from(STEPS));
    ((8 + step) << power).div_ceil(8)
}

/// All counts of the process.
#[derive(Debug)]
pub struct Statistics {
    tables: Option<Box<[Table]>>,
}

impl Statistics {
    /// Statistics that count, or do not.
    pub fn new(is_on: bool) -> Self {
        let tables = || (0..THREAD_SLOTS).map(|_| Mutex::default()).collect();
        Self { tables: is_on.then(tables) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.tables.is_some()
    }

    pub(crate) fn record(&self, sample: &RequestSample<'_>) {
        let Some(tables) = &self.tables else { return };
        let Some(table) = tables.get(thread_slot()) else { return };
        let mut rows = table.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key {
            container: sample.container.map(|(rid, _)| rid),
            operation: sample.operation,
            shape: sample.shape.cloned(),
        };
        if let Some(row) = rows.get_mut(&key) {
            return row.count(sample);
        }
        let fits = rows.len() < limits::STATISTICS_ROWS_MAX / THREAD_SLOTS;
        let row = rows.entry(if fits { key } else { OTHER }).or_default();
        if fits {
            row.container = sample.container.map(|(_, name)| name.into());
        }
        row.count(sample);
    }

    /// Everything that was counted since the start, as JSON; `now_us` is when it is asked.
    pub(crate) fn to_value(&self, now_us: u64) -> Value {
        let mut sums: HashMap<Key, Row> = HashMap::default();
        for table in self.tables.iter().flatten() {
            for (key, row) in &*table.lock().unwrap_or_else(PoisonError::into_inner) {
                sums.entry(key.clone()).or_default().add(row);
            }
        }
        let mut rows: Vec<(Key, Row)> = sums.into_iter().collect();
        rows.sort_by(|(a, x), (b, y)| {
            let own = (&x.container, a.operation, &a.shape, a.container);
            own.cmp(&(&y.container, b.operation, &b.shape, b.container))
        });
        let mut body = Object::new();
        body.set("enabled", self.is_on().into());
        body.set("timeUs", whole(now_us));
        body.set("rows", Value::array(rows.iter().map(row_value).collect()));
        Value::object(body)
    }
}

fn row_value((key, row): &(Key, Row)) -> Value {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let mut object = Object::new();
    object.set("container", text(row.container.as_deref()));
    object.set("operation", key.operation.into());
    object.set("shape", text(key.shape.as_deref()));
    object.set("count", whole(row.count));
    object.set("failed", whole(row.failed));
    object.set("throttled", whole(row.throttled));
    object.set("charge", Value::from((row.charge * 100.0).round() / 100.0));
    object.set("latencyUs", row.latency.to_value());
    Value::object(object)
}

fn whole(count: u64) -> Value {
    Value::from(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTAINER: Rid = Rid::Container { database: 1, container: 2 };

    fn sample(shape: Option<&Arc<str>>) -> RequestSample<'_> {
        RequestSample {
            container: Some((CONTAINER, "dbs/d/colls/c")),
            operation: "query",
            shape,
            status: StatusCode::OK,
            charge: 2.5,
            took: Duration::from_micros(100),
        }
    }

    #[test]
    fn every_latency_lies_below_the_bound_of_its_class_and_near_it() {
        let mut last = 0;
        for us in (1..2000).chain([10_000, 123_456, 5_000_000, 60_000_000]) {
            let bound = bound_of(class_of(us));
            assert!(us < bound, "{us} {bound}");
            assert!(bound <= us + us.div_ceil(8).max(1), "{us} {bound}");
            assert!(bound >= last, "{us} {bound}");
            last = bound;
        }
        assert!(class_of(u64::MAX) < CLASSES && class_of(0) < CLASSES);
    }

    #[test]
    fn requests_are_counted_by_what_they_were_from_every_thread() {
        let statistics = Statistics::new(true);
        let shape: Arc<str> = "SELECT * FROM c WHERE c.a = ?".into();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        statistics.record(&sample(Some(&shape)));
                    }
                });
            }
        });
        statistics.record(&RequestSample { status: StatusCode::TOO_MANY_REQUESTS, ..sample(None) });
        let value = statistics.to_value(7);
        assert_eq!((value.get("enabled").is_true(), value.get("timeUs").as_i64()), (true, Some(7)));
        let rows: Vec<String> =
            value.get("rows").as_array().unwrap().iter().map(Value::to_json).collect();
        assert_eq!(
            rows,
            [
                r#"{"container":"dbs/d/colls/c","operation":"query","shape":null,"count":1,"failed":1,"throttled":1,"charge":2.5,"latencyUs":[[104,1]]}"#,
                r#"{"container":"dbs/d/colls/c","operation":"query","shape":"SELECT * FROM c WHERE c.a = ?","count":400,"failed":0,"throttled":0,"charge":1000,"latencyUs":[[104,400]]}"#,
            ]
        );
    }

    #[test]
    fn what_does_not_fit_is_counted_as_other() {
        let statistics = Statistics::new(true);
        let requests = limits::STATISTICS_ROWS_MAX as u64;
        for n in 0..requests {
            let shape: Arc<str> = format!("SELECT c.p{n} FROM c").into();
            statistics.record(&sample(Some(&shape)));
        }
        let value = statistics.to_value(0);
        let rows = value.get("rows").as_array().unwrap();
        assert!(rows.len() <= limits::STATISTICS_ROWS_MAX / THREAD_SLOTS + 1, "{}", rows.len());
        let counts = rows.iter().filter_map(|row| row.get("count").as_i64());
        assert_eq!(counts.sum::<i64>(), i64::try_from(requests).unwrap());
        assert!(rows.iter().any(|row| row.get("operation").as_str() == Some("other")));
    }

    #[test]
    fn statistics_that_are_off_count_nothing() {
        let statistics = Statistics::new(false);
        statistics.record(&sample(None));
        assert_eq!(statistics.to_value(1).to_json(), r#"{"enabled":false,"timeUs":1,"rows":[]}"#);
    }
}
