//! What the advisor says: findings with their evidence, and what there was too little data for.

use orrery_types::{Object, Value};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Severity {
    Info,
    Warning,
    Critical,
}

/// A cost, measured or estimated: what it is a cost of, in bytes and request units.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Cost {
    pub of: &'static str,
    pub bytes_now: u64,
    pub bytes_after: u64,
}

/// One finding.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Finding {
    /// `M01` and so on.
    pub rule: &'static str,
    pub severity: Severity,
    /// The type of item.
    pub item_type: Box<str>,
    /// The path in it; empty for the whole item.
    pub path: Box<str>,
    /// The reason in a sentence.
    pub reason: String,
    /// What was counted.
    pub counts: Vec<(&'static str, Value)>,
    /// Ids of some of the items.
    pub samples: Vec<Box<str>>,
    pub cost: Option<Cost>,
    /// From 0 to 1.
    pub confidence: f64,
    /// What to put into the model.
    pub patch: Value,
}

/// Request units for writing and for reading a kilobyte, as the server charges them roughly.
const RU_PER_KB_WRITTEN: f64 = 5.0;
const BYTES_PER_KB: f64 = 1024.0;

impl Finding {
    /// As JSON.
    pub fn to_value(&self) -> Value {
        let severity = match self.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        };
        let counts = self.counts.iter().map(|(name, value)| (*name, value.clone()));
        let samples = self.samples.iter().map(|id| Value::from(&**id)).collect();
        object([
            ("rule", self.rule.into()),
            ("severity", severity.into()),
            ("type", (&*self.item_type).into()),
            ("path", (&*self.path).into()),
            ("reason", self.reason.as_str().into()),
            ("counts", object(counts)),
            ("samples", Value::array(samples)),
            ("cost", self.cost.as_ref().map_or(Value::Undefined, Cost::to_value)),
            ("confidence", self.confidence.into()),
            ("patch", self.patch.clone()),
        ])
    }
}

impl Cost {
    fn to_value(&self) -> Value {
        #[expect(clippy::cast_precision_loss, reason = "a cost is a rough number")]
        let units = |bytes: u64| {
            let units = (bytes as f64 / BYTES_PER_KB).ceil() * RU_PER_KB_WRITTEN;
            Value::from(units)
        };
        let side = |bytes: u64| object([("bytes", count(bytes)), ("requestUnits", units(bytes))]);
        object([
            ("of", self.of.into()),
            ("measured", side(self.bytes_now)),
            ("estimated", side(self.bytes_after)),
        ])
    }
}

/// An object out of names and values; undefined ones are left out.
pub(crate) fn object<'n>(pairs: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value));
    Value::object(pairs.collect::<Object>())
}

/// A count as a JSON number.
pub(crate) fn count(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}
