//! Sets of values as ranges of their order: undefined, null, false, true, numbers, strings, arrays,
//! objects. A filter allows a partition key such a set; where it is a few values, the query goes to them
//! alone.

use std::cmp::Ordering;

use orrery_types::Value;

/// A place between two neighbours in the order of all values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    /// Of the value's type.
    rank: u8,
    /// The value beside it; none for the beginning of the type.
    beside: Option<Value>,
    /// Whether it lies behind that value.
    behind: bool,
}

impl Cut {
    fn start(rank: u8) -> Self {
        Self { rank, beside: None, behind: false }
    }

    fn before(value: &Value) -> Self {
        match value {
            Value::Undefined | Value::Null | Value::Bool(false) => Self::start(value.type_rank()),
            Value::String(text) if text.is_empty() => Self::start(value.type_rank()),
            _ => Self { rank: value.type_rank(), beside: Some(value.clone()), behind: false },
        }
    }

    fn after(value: &Value) -> Self {
        match value {
            Value::Undefined | Value::Null | Value::Bool(true) => {
                Self::start(value.type_rank() + 1)
            }
            Value::Bool(false) => Self::before(&Value::Bool(true)),
            _ => Self { rank: value.type_rank(), beside: Some(value.clone()), behind: true },
        }
    }
}

impl PartialOrd for Cut {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cut {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank
            .cmp(&other.rank)
            .then_with(|| self.beside.cmp(&other.beside))
            .then_with(|| self.behind.cmp(&other.behind))
    }
}

/// A set of values: ranges in order, none of which touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueSet(Vec<(Cut, Cut)>);

const UNDEFINED: u8 = 0;
const STRINGS: u8 = 4;
/// Behind the objects.
const END: u8 = 7;

impl ValueSet {
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn all() -> Self {
        Self(vec![(Cut::start(UNDEFINED), Cut::start(END))])
    }

    pub(super) fn point(value: &Value) -> Self {
        Self(vec![(Cut::before(value), Cut::after(value))])
    }

    pub(super) fn points<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        Self::union(values.filter(|v| !v.is_undefined()).map(Self::point).collect())
    }

    /// All values of one type, by its rank.
    pub(super) fn of_rank(rank: u8) -> Self {
        Self(vec![(Cut::start(rank), Cut::start(rank + 1))])
    }

    /// The values of its type below, and perhaps with, that one; above likewise.
    pub(super) fn below(value: &Value, inclusive: bool) -> Self {
        let end = if inclusive { Cut::after(value) } else { Cut::before(value) };
        Self::between(Cut::start(value.type_rank()), end)
    }

    pub(super) fn above(value: &Value, inclusive: bool) -> Self {
        let start = if inclusive { Cut::before(value) } else { Cut::after(value) };
        Self::between(start, Cut::start(value.type_rank() + 1))
    }

    fn between(start: Cut, end: Cut) -> Self {
        if start < end { Self(vec![(start, end)]) } else { Self::none() }
    }

    /// Strings that start with a prefix.
    pub(super) fn prefixed(prefix: &str) -> Self {
        let mut beyond: Vec<char> = prefix.chars().collect();
        let end = loop {
            let Some(last) = beyond.pop() else { break Cut::start(STRINGS + 1) };
            if let Some(next) =
                (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32)
            {
                beyond.push(next);
                break Cut::before(&Value::from(beyond.iter().collect::<String>()));
            }
        };
        Self::between(Cut::before(&Value::from(prefix)), end)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn union(sets: Vec<Self>) -> Self {
        let mut ranges: Vec<(Cut, Cut)> = sets.into_iter().flat_map(|set| set.0).collect();
        ranges.sort();
        let mut merged: Vec<(Cut, Cut)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match merged.last_mut() {
                Some(last) if start <= last.1 => {
                    if end > last.1 {
                        last.1 = end;
                    }
                }
                _ => merged.push((start, end)),
            }
        }
        Self(merged)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (start, end) = ((&x.0).max(&y.0), (&x.1).min(&y.1));
            if start < end {
                out.push((start.clone(), end.clone()));
            }
            if x.1 <= y.1 {
                a.next();
            } else {
                b.next();
            }
        }
        Self(out)
    }

    /// The values that are not in it.
    pub(super) fn complement(&self) -> Self {
        let mut out = Vec::new();
        let mut from = Cut::start(UNDEFINED);
        for (start, end) in &self.0 {
            if from < *start {
                out.push((from, start.clone()));
            }
            from = end.clone();
        }
        let end = Cut::start(END);
        if from < end {
            out.push((from, end));
        }
        Self(out)
    }

    /// The defined values that are not in it.
    pub(super) fn others(&self) -> Self {
        self.complement().intersection(&Self::defined())
    }

    pub(super) fn defined() -> Self {
        Self(vec![(Cut::start(UNDEFINED + 1), Cut::start(END))])
    }

    /// Its values, if they can be counted.
    pub(super) fn values(&self) -> Option<Vec<Value>> {
        let mut out = Vec::new();
        for (start, end) in &self.0 {
            if start.rank < 3 {
                let simple = [Value::Undefined, Value::Null, false.into(), true.into()];
                let inside = |v: &Value| Cut::before(v) >= *start && Cut::after(v) <= *end;
                out.extend(simple.into_iter().filter(inside));
                if *end > Cut::start(3) {
                    return None;
                }
                continue;
            }
            let only = end.beside.as_ref().filter(|v| end.behind && Cut::before(v) == *start)?;
            out.push(only.clone());
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_tells_its_values_where_they_can_be_counted() {
        let values = |set: ValueSet| set.values().map(|v| Value::array(v).to_json());
        let (one, text) = (Value::from(1), Value::from("a"));
        assert_eq!(values(ValueSet::points([&one, &text].into_iter())).unwrap(), r#"[1,"a"]"#);
        assert_eq!(values(ValueSet::below(&true.into(), true)).unwrap(), "[false,true]");
        assert_eq!(values(ValueSet::below(&"".into(), true)).unwrap(), r#"[""]"#);
        assert_eq!(values(ValueSet::below(&text, true)), None);
        let both = ValueSet::below(&one, true).intersection(&ValueSet::above(&one, true));
        assert_eq!(values(both).unwrap(), "[1]");
        assert!(ValueSet::below(&one, false).intersection(&ValueSet::above(&one, true)).is_empty());
        let a = ValueSet::prefixed("a");
        assert_eq!(a.intersection(&ValueSet::point(&text)), ValueSet::point(&text));
        assert!(a.intersection(&ValueSet::point(&"b".into())).is_empty());
        assert_eq!(a.complement().complement(), a);
        assert_eq!(ValueSet::union(vec![a.clone(), a.complement()]), ValueSet::all());
    }
}
