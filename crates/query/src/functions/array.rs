//! Functions on arrays and on arrays as sets. Elements are compared by deep equality.

use std::collections::HashSet;
use std::ops::Range;

use orrery_types::{Number, Value};

use super::{Function, Host, array, combine, flag, integer};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ARRAY_AVG", 1, average),
    Function::new("ARRAY_CONCAT", 2, concat).or_more(),
    Function::new("ARRAY_CONTAINS", 2, contains).up_to(3).sees_undefined(),
    Function::new("ARRAY_CONTAINS_ALL", 2, |a, _| contains_each(a, false))
        .or_more()
        .sees_undefined(),
    Function::new("ARRAY_CONTAINS_ANY", 2, |a, _| contains_each(a, true))
        .or_more()
        .sees_undefined(),
    Function::new("ARRAY_LENGTH", 1, |a, _| Some(length(array(a, 0)?.len()))),
    Function::new("ARRAY_MAX", 1, |a, _| primitives(a)?.iter().max().cloned()),
    Function::new("ARRAY_MEDIAN", 1, median),
    Function::new("ARRAY_MIN", 1, |a, _| primitives(a)?.iter().min().cloned()),
    Function::new("ARRAY_SLICE", 2, slice).up_to(3),
    Function::new("ARRAY_SUM", 1, |a, _| Some(numbers(a)?.iter().sum::<f64>().into())),
    Function::new("CHOOSE", 2, choose).or_more().sees_undefined(),
    Function::new("SetDifference", 2, set_difference),
    Function::new("SetEqual", 2, set_equal),
    Function::new("SetIntersect", 2, set_intersect),
    Function::new("SetUnion", 2, set_union),
];

fn length(n: usize) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The elements, if all are numbers.
fn numbers(arguments: &[Value]) -> Option<Vec<f64>> {
    array(arguments, 0)?.iter().map(|v| v.as_number().map(Number::as_f64)).collect()
}

/// The elements, if none is an array or object.
fn primitives(arguments: &[Value]) -> Option<&[Value]> {
    let elements = array(arguments, 0)?;
    elements.iter().all(|v| v.type_rank() <= 4).then_some(elements)
}

#[expect(clippy::cast_precision_loss, reason = "no array has 2^53 elements")]
fn average(arguments: &[Value], _: &Host) -> Option<Value> {
    let numbers = numbers(arguments)?;
    if numbers.is_empty() {
        return None;
    }
    Some((numbers.iter().sum::<f64>() / numbers.len() as f64).into())
}

fn median(arguments: &[Value], _: &Host) -> Option<Value> {
    let mut numbers = numbers(arguments)?;
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(upper.into());
    }
    let lower = numbers[numbers.len() / 2 - 1];
    Some(f64::midpoint(lower, upper).into())
}

fn concat(arguments: &[Value], _: &Host) -> Option<Value> {
    let mut all = Vec::new();
    for at in 0..arguments.len() {
        all.extend_from_slice(array(arguments, at)?);
    }
    Some(Value::array(all))
}

fn contains(arguments: &[Value], _: &Host) -> Option<Value> {
    let elements = array(arguments, 0)?;
    let needle = arguments.get(1).filter(|v| !v.is_undefined())?;
    let partial = match arguments.get(2) {
        Some(Value::Undefined) => false,
        _ => flag(arguments, 2)?,
    };
    let matches = |element: &Value| match (partial, needle, element) {
        (true, Value::Object(wanted), Value::Object(has)) => {
            wanted.iter().all(|(name, value)| has.get(name) == Some(value))
        }
        _ => element == needle,
    };
    Some(elements.iter().any(matches).into())
}

/// AND (or, with `any`, OR) of whether each further argument is an element.
fn contains_each(arguments: &[Value], any: bool) -> Option<Value> {
    let elements = array(arguments, 0)?;
    let answers = arguments[1..]
        .iter()
        .map(|needle| if needle.is_undefined() { None } else { Some(elements.contains(needle)) });
    combine(answers, any)
}

fn slice(arguments: &[Value], _: &Host) -> Option<Value> {
    let elements = array(arguments, 0)?;
    let range = slice_range(i64::try_from(elements.len()).ok()?, arguments)?;
    let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
    Some(Value::array(elements[range].to_vec()))
}

/// Which of so many elements `ARRAY_SLICE` takes, by its second and third argument.
pub(crate) fn slice_range(count: i64, arguments: &[Value]) -> Option<Range<i64>> {
    let start = match integer(arguments, 1)? {
        start if start < 0 => start.saturating_add(count).max(0),
        start => start.min(count),
    };
    let taken = if arguments.len() > 2 { integer(arguments, 2)?.max(0) } else { count };
    Some(start..start.saturating_add(taken).min(count))
}

fn choose(arguments: &[Value], _: &Host) -> Option<Value> {
    let at = usize::try_from(integer(arguments, 0)?).ok().filter(|at| *at >= 1)?;
    arguments.get(at).cloned()
}

fn set_union(arguments: &[Value], _: &Host) -> Option<Value> {
    let (a, b) = (array(arguments, 0)?, array(arguments, 1)?);
    let mut seen = HashSet::new();
    Some(Value::array(a.iter().chain(b).filter(|v| seen.insert(*v)).cloned().collect()))
}

/// In the order of the second array, as the service's samples show.
fn set_intersect(arguments: &[Value], _: &Host) -> Option<Value> {
    let (a, b) = (array(arguments, 0)?, array(arguments, 1)?);
    let of_a: HashSet<&Value> = a.iter().collect();
    let mut seen = HashSet::new();
    let common = b.iter().filter(|v| of_a.contains(v) && seen.insert(*v));
    Some(Value::array(common.cloned().collect()))
}

fn set_difference(arguments: &[Value], _: &Host) -> Option<Value> {
    let (a, b) = (array(arguments, 0)?, array(arguments, 1)?);
    let mut seen: HashSet<&Value> = b.iter().collect();
    Some(Value::array(a.iter().filter(|v| seen.insert(*v)).cloned().collect()))
}

fn set_equal(arguments: &[Value], _: &Host) -> Option<Value> {
    let of_a: HashSet<&Value> = array(arguments, 0)?.iter().collect();
    let of_b: HashSet<&Value> = array(arguments, 1)?.iter().collect();
    Some((of_a == of_b).into())
}
