//! Aggregates: what they accumulate and what they answer. Undefined inputs are passed over; one
//! input of a wrong type makes the answer undefined.

use std::collections::HashSet;

use orrery_types::{DoubleSum, Number, Value};

use super::Function;

/// For names and argument counts only: the executor accumulates.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("AVG", 1, |_, _| None).of_the_place(),
    Function::new("COUNT", 1, |_, _| None).of_the_place(),
    Function::new("COUNTIF", 1, |_, _| None).of_the_place(),
    Function::new("MAKELIST", 1, |_, _| None).of_the_place(),
    Function::new("MAKESET", 1, |_, _| None).of_the_place(),
    Function::new("MAX", 1, |_, _| None).of_the_place(),
    Function::new("MIN", 1, |_, _| None).of_the_place(),
    Function::new("SUM", 1, |_, _| None).of_the_place(),
];

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Average,
    Count,
    CountIf,
    MakeList,
    MakeSet,
    Max,
    Min,
    Sum,
}

impl AggregateKind {
    /// The aggregate of that name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "AVG" => Self::Average,
            "COUNT" => Self::Count,
            "COUNTIF" => Self::CountIf,
            "MAKELIST" => Self::MakeList,
            "MAKESET" => Self::MakeSet,
            "MAX" => Self::Max,
            "MIN" => Self::Min,
            "SUM" => Self::Sum,
            _ => return None,
        })
    }

    /// The name in a query plan.
    pub(crate) fn plan_name(self) -> &'static str {
        match self {
            Self::Average => "Average",
            Self::Count => "Count",
            Self::CountIf => "CountIf",
            Self::MakeList => "MakeList",
            Self::MakeSet => "MakeSet",
            Self::Max => "Max",
            Self::Min => "Min",
            Self::Sum => "Sum",
        }
    }
}

/// The state of one aggregate over one group.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    kind: AggregateKind,
    count: i64,
    /// Made for the first number: groups that add nothing up are small.
    sum: Option<Box<DoubleSum>>,
    /// An input of a type that the aggregate cannot take was seen.
    spoilt: bool,
    extreme: Value,
    list: Vec<Value>,
    set: HashSet<Value>,
}

impl Accumulator {
    pub(crate) fn new(kind: AggregateKind) -> Self {
        Self {
            kind,
            count: 0,
            sum: None,
            spoilt: false,
            extreme: Value::Undefined,
            list: Vec::new(),
            set: HashSet::new(),
        }
    }

    /// Takes one input. Answers whether it kept the value, which then counts as memory.
    pub(crate) fn add(&mut self, value: Value) -> bool {
        if value.is_undefined() {
            return false;
        }
        match self.kind {
            AggregateKind::Count => self.count += 1,
            AggregateKind::CountIf => self.count += i64::from(value.is_true()),
            AggregateKind::Sum | AggregateKind::Average => match value.as_number() {
                Some(number) => {
                    self.count += 1;
                    self.sum.get_or_insert_default().add(number.as_f64());
                }
                None => self.spoilt = true,
            },
            AggregateKind::Min | AggregateKind::Max => {
                self.spoilt |= value.type_rank() > 4;
                let smaller = value < self.extreme;
                if self.extreme.is_undefined() || smaller == (self.kind == AggregateKind::Min) {
                    self.extreme = value;
                }
            }
            AggregateKind::MakeList => {
                self.list.push(value);
                return true;
            }
            AggregateKind::MakeSet => {
                if self.set.insert(value.clone()) {
                    self.list.push(value);
                    return true;
                }
            }
        }
        false
    }

    #[expect(clippy::cast_precision_loss, reason = "no count reaches 2^53")]
    pub(crate) fn finish(self) -> Value {
        if self.spoilt {
            return Value::Undefined;
        }
        let sum = self.sum.map_or(0.0, |sum| sum.value());
        match self.kind {
            AggregateKind::Count | AggregateKind::CountIf => Value::from(self.count),
            AggregateKind::Sum => Value::Number(Number::Float(sum)),
            AggregateKind::Average if self.count == 0 => Value::Undefined,
            AggregateKind::Average => Value::from(sum / self.count as f64),
            AggregateKind::Min | AggregateKind::Max => self.extreme,
            AggregateKind::MakeList | AggregateKind::MakeSet => Value::array(self.list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_type_spoils_what_it_must() {
        let check = |kind: AggregateKind, inputs: &str, expected: &str| {
            let mut accumulator = Accumulator::new(kind);
            let inputs = Value::parse(inputs.as_bytes()).unwrap();
            for value in inputs.as_array().unwrap() {
                accumulator.add(value.clone());
            }
            accumulator.add(Value::Undefined);
            assert_eq!(accumulator.finish().to_json(), expected, "{kind:?} of {inputs:?}");
        };
        check(AggregateKind::Sum, "[1,2.5]", "3.5");
        check(AggregateKind::Sum, "[1e16,1,-1e16]", "1");
        check(AggregateKind::Sum, "[]", "0");
        check(AggregateKind::Sum, "[1,null]", "");
        check(AggregateKind::Average, "[]", "");
        check(AggregateKind::Min, "[3,\"s\",true,null]", "null");
        check(AggregateKind::Max, "[3,\"s\",true,null]", "\"s\"");
        check(AggregateKind::Max, "[3,[1]]", "");
        check(AggregateKind::Min, "[[1],3]", "");
        check(AggregateKind::MakeSet, "[1,1.0,\"1\"]", "[1,\"1\"]");
        check(AggregateKind::CountIf, "[true,1,false]", "1");
    }
}
