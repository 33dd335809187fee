//! Sets of values that the index can find: one value, an interval, the strings with a prefix, a type, or any
//! value. A range knows the codes of its values, and whether only its values have them.

use std::fmt;
use std::sync::Arc;

use orrery_storage::key::{Bounds, prefix_end};
use orrery_storage::term::{encode_term, is_whole};
use orrery_types::{Object, Value, limits};

/// A set of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueRange {
    /// One value. Of arrays and objects the index knows only that they are there.
    Point(Value),
    /// Values of one type between two ends, each with whether it belongs to the interval. At least
    /// one end exists, and both are of the same scalar type.
    Interval {
        /// The least value.
        low: Option<(Value, bool)>,
        /// The greatest.
        high: Option<(Value, bool)>,
    },
    /// Strings that begin with a text.
    Prefix(Arc<str>),
    /// All values of a type.
    Type(Kind),
    /// Every value that there is.
    Defined,
}

/// A type of values, or a group of types that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
    /// Null, booleans, numbers and strings.
    Primitive,
}

impl Kind {
    /// The type of a value; `None` for undefined.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Undefined => return None,
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
            Self::Primitive => "primitive",
        }
    }

    /// First code and the one after the last.
    fn codes(self) -> (u8, u8) {
        let tag = |value: &Value| code_of(value)[0];
        let string = tag(&Value::string(""));
        let (array, object) = (tag(&Value::array(vec![])), tag(&Value::object(Object::new())));
        match self {
            Self::Null => (tag(&Value::Null), tag(&Value::Null) + 1),
            Self::Bool => (tag(&Value::Bool(false)), tag(&Value::Bool(true)) + 1),
            Self::Number => (tag(&Value::from(0)), tag(&Value::from(0)) + 1),
            Self::String => (string, string + 1),
            Self::Array => (array, array + 1),
            Self::Object => (object, object + 1),
            Self::Primitive => (tag(&Value::Null), string + 1),
        }
    }
}

/// The codes of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    /// All of them lie here.
    pub bounds: Bounds,
    /// Nothing else lies there, so that an entry is proof and not just a hint.
    pub exact: bool,
    /// They are one and the same code, so that entries come in the order of rows.
    pub single: bool,
}

impl ValueRange {
    /// An interval below or above one end; `None` if no value is comparable with it.
    pub fn comparison(end: &Value, below: bool, included: bool) -> Option<Self> {
        let scalar = (1..=4).contains(&end.type_rank());
        let end = Some((end.clone(), included));
        let (low, high) = if below { (None, end) } else { (end, None) };
        scalar.then_some(Self::Interval { low, high })
    }

    /// Where its codes lie, without the head of the key.
    pub fn codes(&self) -> Codes {
        match self {
            Self::Point(value) => Codes {
                bounds: Bounds::prefix(code_of(value)),
                exact: is_whole(value),
                single: true,
            },
            Self::Interval { low, high } => interval(low.as_ref(), high.as_ref()),
            Self::Prefix(text) => {
                // What does not fit into a term is cut off the prefix too.
                let mut code = code_of(&Value::string(text.clone()));
                code.truncate(code.len() - 2);
                let exact = code.len() <= limits::INDEX_TERM_BYTES_MAX - 3;
                code.truncate(limits::INDEX_TERM_BYTES_MAX - 3);
                Codes { bounds: Bounds::prefix(code), exact, single: false }
            }
            Self::Type(kind) => {
                let (first, end) = kind.codes();
                let single = matches!(kind, Kind::Null | Kind::Array | Kind::Object);
                let bounds = Bounds { from: vec![first], to: vec![end] };
                Codes { bounds, exact: true, single }
            }
            Self::Defined => {
                let bounds = Bounds { from: vec![0], to: vec![0xff] };
                Codes { bounds, exact: true, single: false }
            }
        }
    }

    /// The values in both; `None` if that is no range, or if this one says more by itself.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let (Self::Interval { low, high }, Self::Interval { low: other_low, high: other_high }) =
            (self, other)
        else {
            return match (self, other) {
                (Self::Defined, range) | (range, Self::Defined) => Some(range.clone()),
                _ => None,
            };
        };
        let ends: Vec<&(Value, bool)> =
            [low, high, other_low, other_high].into_iter().flatten().collect();
        let same = ends.windows(2).all(|w| w[0].0.type_rank() == w[1].0.type_rank());
        if !same {
            return None;
        }
        let pick = |x: &Option<(Value, bool)>, y: &Option<(Value, bool)>, low: bool| match (x, y) {
            (Some(x), Some(y)) => {
                let order = x.0.cmp(&y.0);
                let stricter = if order.is_eq() { !x.1 } else { order.is_gt() == low };
                Some(if stricter { x.clone() } else { y.clone() })
            }
            (x, y) => x.clone().or_else(|| y.clone()),
        };
        Some(Self::Interval {
            low: pick(low, other_low, true),
            high: pick(high, other_high, false),
        })
    }

    /// Whether no value is in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Point(value) => value.is_undefined(),
            Self::Interval { low: Some((low, a)), high: Some((high, b)) } => {
                low > high || (low == high && !(*a && *b)) || low.type_rank() != high.type_rank()
            }
            _ => false,
        }
    }

    /// Whether a value is in it.
    pub fn contains(&self, value: &Value) -> bool {
        match self {
            Self::Point(own) => own == value && !value.is_undefined(),
            Self::Interval { low, high } => {
                let same = |end: &Value| end.type_rank() == value.type_rank();
                low.as_ref().is_none_or(|(l, with)| same(l) && (value > l || (*with && value == l)))
                    && high
                        .as_ref()
                        .is_none_or(|(h, with)| same(h) && (value < h || (*with && value == h)))
            }
            Self::Prefix(text) => value.as_str().is_some_and(|s| s.starts_with(&**text)),
            Self::Type(Kind::Primitive) => (1..=4).contains(&value.type_rank()),
            Self::Type(kind) => Kind::of(value) == Some(*kind),
            Self::Defined => !value.is_undefined(),
        }
    }
}

/// The code of a value, as terms have it.
fn code_of(value: &Value) -> Vec<u8> {
    let mut code = Vec::with_capacity(16);
    encode_term(value, &mut code);
    code
}

fn interval(low: Option<&(Value, bool)>, high: Option<&(Value, bool)>) -> Codes {
    let kind = low.or(high).and_then(|(end, _)| Kind::of(end)).unwrap_or(Kind::Null);
    let (first, last) = kind.codes();
    let mut exact = true;
    // The code of a string that is cut stands for all strings that begin alike: the interval takes
    // it in, and is no longer exact.
    let mut end = |(value, included): &(Value, bool), skips: bool| {
        let (code, whole) = (code_of(value), is_whole(value));
        exact &= whole;
        let behind = if whole { *included != skips } else { !skips };
        if behind { prefix_end(&code) } else { code }
    };
    let from = low.map_or_else(|| vec![first], |low| end(low, true));
    let to = high.map_or_else(|| vec![last], |high| end(high, false));
    Codes { bounds: Bounds { from, to }, exact, single: false }
}

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Value| {
            let text = value.to_json();
            match text.char_indices().nth(60) {
                None => text,
                Some((at, _)) => format!("{}…", &text[..at]),
            }
        };
        match self {
            Self::Point(value) => write!(f, "= {}", shown(value)),
            Self::Interval { low, high } => {
                let mut separator = "";
                if let Some((value, included)) = low {
                    write!(f, "{} {}", if *included { ">=" } else { ">" }, shown(value))?;
                    separator = ", ";
                }
                if let Some((value, included)) = high {
                    let sign = if *included { "<=" } else { "<" };
                    write!(f, "{separator}{sign} {}", shown(value))?;
                }
                Ok(())
            }
            Self::Prefix(text) => write!(f, "begins with {}", shown(&Value::string(text.clone()))),
            Self::Type(kind) => write!(f, "is {}", kind.name()),
            Self::Defined => f.write_str("is defined"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &ValueRange, value: &Value) -> bool {
        let mut key = code_of(value);
        key.extend(7_u64.to_be_bytes());
        let Bounds { from, to } = range.codes().bounds;
        from <= key && key < to
    }

    #[test]
    fn codes_hold_every_value_and_exact_ones_no_other() {
        let long = "x".repeat(400);
        let longer = format!("{long}y");
        let mut values: Vec<Value> = vec![
            Value::Null,
            false.into(),
            true.into(),
            (-1.5).into(),
            0.into(),
            9_007_199_254_740_993_i64.into(),
            "".into(),
            "a".into(),
            "a\0b".into(),
            "ab".into(),
            "b".into(),
            Value::from(long.as_str()),
            Value::from(longer.as_str()),
            Value::array(vec![1.into()]),
            Value::parse(b"{\"a\":1}").unwrap(),
        ];
        values.extend((250..260).map(|n| Value::from("y".repeat(n))));
        let mut ranges = vec![
            ValueRange::Defined,
            ValueRange::Prefix("a".into()),
            ValueRange::Prefix("".into()),
        ];
        ranges.extend((250..260).map(|n| ValueRange::Prefix("y".repeat(n).into())));
        let kinds = [Kind::Null, Kind::Bool, Kind::Number, Kind::String, Kind::Array];
        ranges
            .extend(kinds.into_iter().chain([Kind::Object, Kind::Primitive]).map(ValueRange::Type));
        for value in &values {
            ranges.push(ValueRange::Point(value.clone()));
            for (below, included) in [(true, true), (true, false), (false, true), (false, false)] {
                ranges.extend(ValueRange::comparison(value, below, included));
            }
        }
        let pairs: Vec<ValueRange> =
            ranges.iter().flat_map(|a| ranges.iter().filter_map(|b| a.and(b))).collect();
        for range in ranges.iter().chain(&pairs).filter(|s| !s.is_empty()) {
            let exact = range.codes().exact;
            for value in &values {
                let (within, found) = (range.contains(value), holds(range, value));
                assert!(!within || found, "{range} loses {value:?}");
                assert!(!exact || within == found, "{range} is not exact for {value:?}");
            }
        }
    }
}
