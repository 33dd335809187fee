//! Aggregates: what they accumulate and what they answer. Undefined inputs are passed over; one
//! input of a wrong type makes the answer undefined.

use std::collections::HashSet;

use orrery_types::{DoubleSum, Number, Value};

use super::Function;
use crate::memory::{allocated, heap_bytes};

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
pub(crate) enum AggregateFunction {
    Average,
    Count,
    CountIf,
    MakeList,
    MakeSet,
    Max,
    Min,
    Sum,
}

impl AggregateFunction {
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

/// The state of one aggregate over one group. There may be a million groups, so it is small until it
/// has something to keep.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    kind: AggregateFunction,
    /// An input of a type that the aggregate cannot take was seen.
    spoilt: bool,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    /// How many, and their sum.
    Sum(i64, Option<Box<DoubleSum>>),
    /// The extreme, and the most memory that one of them took.
    Extreme(Value, usize),
    List(Vec<Value>),
    Set(Box<Distinct>),
}

/// Values in order of first sight, each once.
#[derive(Clone, Debug, Default)]
struct Distinct {
    seen: HashSet<Value>,
    list: Vec<Value>,
}

/// What a value takes in a list that grows by doubling, beside what it holds itself.
pub(crate) const LISTED_BYTES: usize = size_of::<Value>();
/// The same in a set and a list.
pub(crate) const DISTINCT_BYTES: usize = LISTED_BYTES + 3 * size_of::<Value>();

impl Accumulator {
    pub(crate) fn new(kind: AggregateFunction) -> Self {
        let state = match kind {
            AggregateFunction::Count | AggregateFunction::CountIf => State::Count(0),
            AggregateFunction::Sum | AggregateFunction::Average => State::Sum(0, None),
            AggregateFunction::Min | AggregateFunction::Max => State::Extreme(Value::Undefined, 0),
            AggregateFunction::MakeList => State::List(Vec::new()),
            AggregateFunction::MakeSet => State::Set(Box::default()),
        };
        Self { kind, spoilt: false, state }
    }

    /// Takes one input. Answers how much memory it takes in addition; counting ends at `max`.
    pub(crate) fn add(&mut self, value: Value, max: usize) -> usize {
        if value.is_undefined() {
            return 0;
        }
        match &mut self.state {
            State::Count(count) if self.kind == AggregateFunction::CountIf => {
                *count += i64::from(value.is_true());
            }
            State::Count(count) => *count += 1,
            State::Sum(count, sum) => match value.as_number() {
                Some(number) => {
                    *count += 1;
                    let is_first = sum.is_none();
                    sum.get_or_insert_default().add(number.as_f64());
                    return if is_first { allocated(size_of::<DoubleSum>()) } else { 0 };
                }
                None => self.spoilt = true,
            },
            State::Extreme(extreme, counted) => {
                self.spoilt |= value.type_rank() > 4;
                let smaller = value < *extreme;
                if extreme.is_undefined() || smaller == (self.kind == AggregateFunction::Min) {
                    let bytes = heap_bytes(&value, max);
                    let more = bytes.saturating_sub(*counted);
                    *counted += more;
                    *extreme = value;
                    return more;
                }
            }
            State::List(list) => {
                let bytes = heap_bytes(&value, max);
                list.push(value);
                return bytes.saturating_add(LISTED_BYTES);
            }
            State::Set(distinct) => {
                if distinct.seen.insert(value.clone()) {
                    let bytes = heap_bytes(&value, max);
                    distinct.list.push(value);
                    return bytes.saturating_add(DISTINCT_BYTES);
                }
            }
        }
        0
    }

    #[expect(clippy::cast_precision_loss, reason = "no count reaches 2^53")]
    pub(crate) fn finish(self) -> Value {
        if self.spoilt {
            return Value::Undefined;
        }
        let sum = |sum: Option<Box<DoubleSum>>| sum.map_or(0.0, |sum| sum.value());
        match self.state {
            State::Count(count) => Value::from(count),
            State::Sum(0, _) if self.kind == AggregateFunction::Average => Value::Undefined,
            State::Sum(count, total) if self.kind == AggregateFunction::Average => {
                Value::from(sum(total) / count as f64)
            }
            State::Sum(_, total) => Value::Number(Number::Float(sum(total))),
            State::Extreme(extreme, _) => extreme,
            State::List(list) => Value::array(list),
            State::Set(distinct) => Value::array(distinct.list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_type_spoils_what_it_must() {
        let check = |kind: AggregateFunction, inputs: &str, expected: &str| {
            let mut accumulator = Accumulator::new(kind);
            let inputs = Value::parse(inputs.as_bytes()).unwrap();
            for value in inputs.as_array().unwrap() {
                accumulator.add(value.clone(), usize::MAX);
            }
            accumulator.add(Value::Undefined, usize::MAX);
            assert_eq!(accumulator.finish().to_json(), expected, "{kind:?} of {inputs:?}");
        };
        check(AggregateFunction::Sum, "[1,2.5]", "3.5");
        check(AggregateFunction::Sum, "[1e16,1,-1e16]", "1");
        check(AggregateFunction::Sum, "[]", "0");
        check(AggregateFunction::Sum, "[1,null]", "");
        check(AggregateFunction::Average, "[]", "");
        check(AggregateFunction::Min, "[3,\"s\",true,null]", "null");
        check(AggregateFunction::Max, "[3,\"s\",true,null]", "\"s\"");
        check(AggregateFunction::Max, "[3,[1]]", "");
        check(AggregateFunction::Min, "[[1],3]", "");
        check(AggregateFunction::MakeSet, "[1,1.0,\"1\"]", "[1,\"1\"]");
        check(AggregateFunction::CountIf, "[true,1,false]", "1");
    }
}
