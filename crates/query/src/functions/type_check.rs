//! Tests of a value's type. They see undefined and always answer.

use orrery_types::Value;

use super::{Function, date_time};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("IS_ARRAY", 1, |a, _| is(matches!(a[0], Value::Array(_)))).sees_undefined(),
    Function::new("IS_BOOL", 1, |a, _| is(matches!(a[0], Value::Bool(_)))).sees_undefined(),
    // What SDKs write when they resume an ordered query.
    Function::new("IS_BOOLEAN", 1, |a, _| is(matches!(a[0], Value::Bool(_)))).sees_undefined(),
    Function::new("IS_DATETIME", 1, |a, _| {
        is(a[0].as_str().is_some_and(|s| date_time::parse(s).is_some()))
    })
    .sees_undefined(),
    Function::new("IS_DEFINED", 1, |a, _| is(!a[0].is_undefined())).sees_undefined(),
    Function::new("IS_FINITE_NUMBER", 1, |a, _| {
        is(a[0].as_number().is_some_and(orrery_types::Number::is_finite))
    })
    .sees_undefined(),
    Function::new("IS_INTEGER", 1, |a, _| is(a[0].as_i64().is_some())).sees_undefined(),
    Function::new("IS_NULL", 1, |a, _| is(matches!(a[0], Value::Null))).sees_undefined(),
    Function::new("IS_NUMBER", 1, |a, _| is(matches!(a[0], Value::Number(_)))).sees_undefined(),
    Function::new("IS_OBJECT", 1, |a, _| is(matches!(a[0], Value::Object(_)))).sees_undefined(),
    Function::new("IS_PRIMITIVE", 1, |a, _| is((1..=4).contains(&a[0].type_rank())))
        .sees_undefined(),
    Function::new("IS_STRING", 1, |a, _| is(matches!(a[0], Value::String(_)))).sees_undefined(),
];

#[expect(clippy::unnecessary_wraps, reason = "the shape of a function's answer")]
fn is(answer: bool) -> Option<Value> {
    Some(answer.into())
}
