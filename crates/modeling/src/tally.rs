//! What COUNT, SUM and AVG need to know of all items that they are over. Whatever was counted can be
//! taken away again, so a tally follows every change and always equals one computed from scratch.

use orrery_types::{ExactSum, Number, Value};

use crate::document::AggregateKind;

/// How many values there are, how many of them spoil a sum, and the sum of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    count: i64,
    spoilt: i64,
    sum: ExactSum,
}

impl Tally {
    /// The tally of one value under an aggregate; undefined counts for nothing.
    pub fn of(kind: AggregateKind, value: &Value) -> Self {
        let mut tally = Self::default();
        if value.is_undefined() {
            return tally;
        }
        tally.count = 1;
        if matches!(kind, AggregateKind::Sum | AggregateKind::Avg) {
            match value.as_number() {
                Some(Number::Int(number)) => tally.sum.add_integer(number),
                Some(Number::Float(number)) if number.is_finite() => tally.sum.add(number),
                _ => tally.spoilt = 1,
            }
        }
        tally
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.spoilt += other.spoilt;
        self.sum.merge(&other.sum);
    }

    /// What takes it away when it is added.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self { count: -self.count, spoilt: -self.spoilt, sum: self.sum.negated() }
    }

    /// Whether it is that of no value at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The aggregate, as the query language has it: a value of another type spoils a sum.
    pub fn value(&self, kind: AggregateKind) -> Value {
        let finite = |number: f64| {
            if number.is_finite() { Value::from(number) } else { Value::Undefined }
        };
        match kind {
            AggregateKind::Count => Value::from(self.count),
            AggregateKind::Sum if self.spoilt == 0 => match self.sum.integer() {
                Some(integer) => Value::from(integer),
                None => finite(self.sum.value()),
            },
            #[expect(clippy::cast_precision_loss, reason = "no count reaches 2^53")]
            AggregateKind::Avg if self.spoilt == 0 && self.count != 0 => {
                finite(self.sum.value() / self.count as f64)
            }
            _ => Value::Undefined,
        }
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.count.to_be_bytes().to_vec();
        bytes.extend(self.spoilt.to_be_bytes());
        bytes.extend(self.sum.to_bytes());
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<8>()?;
        let (spoilt, sum) = rest.split_first_chunk::<8>()?;
        let (count, spoilt) = (i64::from_be_bytes(*count), i64::from_be_bytes(*spoilt));
        Some(Self { count, spoilt, sum: ExactSum::from_bytes(sum)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(kind: AggregateKind, values: &str) -> Tally {
        let values = Value::parse(values.as_bytes()).expect(values);
        let mut tally = Tally::default();
        for value in values.as_array().expect("an array") {
            tally.merge(&Tally::of(kind, value));
        }
        tally.merge(&Tally::of(kind, &Value::Undefined));
        tally
    }

    #[test]
    fn a_tally_answers_as_a_query_does() {
        let check = |kind: AggregateKind, values: &str, expected: &str| {
            let tally = tally(kind, values);
            assert_eq!(tally.value(kind).to_json(), expected, "{kind:?} of {values}");
            assert_eq!(Tally::from_bytes(&tally.to_bytes()), Some(tally));
        };
        check(AggregateKind::Count, r#"[1,"x",null]"#, "3");
        check(AggregateKind::Sum, "[]", "0");
        check(AggregateKind::Sum, "[1,2.5]", "3.5");
        check(AggregateKind::Sum, "[9007199254740993,1]", "9007199254740994");
        check(AggregateKind::Sum, "[0.1,0.2,-0.1,-0.2]", "0");
        check(AggregateKind::Sum, "[1,null]", "");
        check(AggregateKind::Avg, "[1,2]", "1.5");
        check(AggregateKind::Avg, "[]", "");
        check(AggregateKind::Avg, "[1,true]", "");
    }

    #[test]
    fn what_was_counted_can_be_taken_away() {
        let mut all = tally(AggregateKind::Sum, r#"[1,0.1,"x",1e300]"#);
        all.merge(&tally(AggregateKind::Sum, r#"["x",1e300,0.1]"#).negated());
        assert_eq!(all, tally(AggregateKind::Sum, "[1]"));
        all.merge(&tally(AggregateKind::Sum, "[1]").negated());
        assert!(all.is_empty());
    }
}
