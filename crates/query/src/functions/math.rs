//! Mathematical functions: doubles throughout, except the `Int…` family on 64-bit integers.

use orrery_types::Value;

use super::{Function, Host, integer, number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ABS", 1, |a, _| one(a, f64::abs)),
    Function::new("ACOS", 1, |a, _| one(a, f64::acos)),
    Function::new("ASIN", 1, |a, _| one(a, f64::asin)),
    Function::new("ATAN", 1, |a, _| one(a, f64::atan)),
    Function::new("ATN2", 2, |a, _| two(a, f64::atan2)),
    Function::new("CEILING", 1, |a, _| one(a, f64::ceil)),
    Function::new("COS", 1, |a, _| one(a, f64::cos)),
    Function::new("COT", 1, |a, _| one(a, |x| 1.0 / x.tan())),
    Function::new("DEGREES", 1, |a, _| one(a, |x| x * (180.0 / std::f64::consts::PI))),
    Function::new("EXP", 1, |a, _| one(a, f64::exp)),
    Function::new("FLOOR", 1, |a, _| one(a, f64::floor)),
    Function::new("IntAdd", 2, |a, _| ints(a, |x, y| Some(x.wrapping_add(y)))),
    Function::new("IntBitAnd", 2, |a, _| ints(a, |x, y| Some(x & y))),
    Function::new("IntBitLeftShift", 2, |a, _| ints(a, shift_left)),
    Function::new("IntBitNot", 1, |a, _| Some(Value::from(!integer(a, 0)?))),
    Function::new("IntBitOr", 2, |a, _| ints(a, |x, y| Some(x | y))),
    Function::new("IntBitRightShift", 2, |a, _| ints(a, shift_right)),
    Function::new("IntBitXor", 2, |a, _| ints(a, |x, y| Some(x ^ y))),
    Function::new("IntDiv", 2, |a, _| ints(a, divide)),
    Function::new("IntMod", 2, |a, _| ints(a, modulo)),
    Function::new("IntMul", 2, |a, _| ints(a, |x, y| Some(x.wrapping_mul(y)))),
    Function::new("IntSub", 2, |a, _| ints(a, |x, y| Some(x.wrapping_sub(y)))),
    Function::new("LOG", 1, log).up_to(2),
    Function::new("LOG10", 1, |a, _| one(a, f64::log10)),
    Function::new("NumberBin", 1, number_bin).up_to(2),
    Function::new("PI", 0, |_, _| Some(std::f64::consts::PI.into())),
    Function::new("POWER", 2, |a, _| two(a, f64::powf)),
    Function::new("RADIANS", 1, |a, _| one(a, |x| std::f64::consts::PI * x / 180.0)),
    Function::new("RAND", 0, |_, host| Some(host.random().into())).of_the_moment(),
    Function::new("ROUND", 1, round).up_to(2),
    Function::new("SIGN", 1, |a, _| one(a, sign)),
    Function::new("SIN", 1, |a, _| one(a, f64::sin)),
    Function::new("SQRT", 1, |a, _| one(a, f64::sqrt)),
    Function::new("SQUARE", 1, |a, _| one(a, |x| x * x)),
    Function::new("TAN", 1, |a, _| one(a, f64::tan)),
    Function::new("TRUNC", 1, |a, _| one(a, f64::trunc)),
];

fn one(arguments: &[Value], f: fn(f64) -> f64) -> Option<Value> {
    Some(f(number(arguments, 0)?).into())
}

fn two(arguments: &[Value], f: fn(f64, f64) -> f64) -> Option<Value> {
    Some(f(number(arguments, 0)?, number(arguments, 1)?).into())
}

fn ints(arguments: &[Value], f: fn(i64, i64) -> Option<i64>) -> Option<Value> {
    f(integer(arguments, 0)?, integer(arguments, 1)?).map(Value::from)
}

/// A shift by the width or more leaves nothing; a negative one has no meaning.
fn shift_left(x: i64, by: i64) -> Option<i64> {
    let by = u32::try_from(by).ok()?;
    Some(x.checked_shl(by).unwrap_or(0))
}

fn shift_right(x: i64, by: i64) -> Option<i64> {
    let by = u32::try_from(by).ok()?;
    Some(x >> by.min(63))
}

fn divide(x: i64, y: i64) -> Option<i64> {
    if y == 0 { None } else { Some(x.wrapping_div(y)) }
}

fn modulo(x: i64, y: i64) -> Option<i64> {
    if y == 0 { None } else { Some(x.wrapping_rem(y)) }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

fn log(arguments: &[Value], _: &Host) -> Option<Value> {
    let x = number(arguments, 0)?;
    match arguments.len() {
        1 => Some(x.ln().into()),
        _ => Some((x.ln() / number(arguments, 1)?.ln()).into()),
    }
}

/// Midpoints go away from zero, which is what `f64::round` does.
fn round(arguments: &[Value], _: &Host) -> Option<Value> {
    let x = number(arguments, 0)?;
    if arguments.len() == 1 {
        return Some(x.round().into());
    }
    let digits = i32::try_from(integer(arguments, 1)?).ok().filter(|d| (-300..=300).contains(d))?;
    let scale = 10_f64.powi(digits);
    let scaled = (x * scale).round() / scale;
    // A number too large to scale has no digits there to round.
    Some(if scaled.is_finite() { scaled } else { x }.into())
}

fn number_bin(arguments: &[Value], _: &Host) -> Option<Value> {
    let x = number(arguments, 0)?;
    let size = if arguments.len() > 1 { number(arguments, 1)? } else { 1.0 };
    if size == 0.0 { None } else { Some(((x / size).floor() * size).into()) }
}
