//! Values as bytes whose order is the order of the values, so that a range of values is a range of
//! keys. The index terms and unique keys of `key` are made of them.
//!
//! ```text
//! undefined 01
//! null      02
//! false     03
//! true      04
//! number    05 | ordered double (8) | from ±2^53 on: residual + 0x8000 (2, big-endian)
//! string    06 | escaped UTF-8 | 00 01
//! array     07 | elements | 00
//! object    08 | (name as a string, value) sorted by name | 00
//! ```
//!
//! Equal values have equal bytes, whatever their spelling: `1` and `1.0`, `{a,b}` and `{b,a}`. The
//! code of one value is never a prefix of another's, so codes may stand one after the other.

use std::sync::Arc;

use orrery_types::{Number, Object, Value, limits};

use crate::StorageError;

pub(crate) const END: u8 = 0x00;
const UNDEFINED: u8 = 0x01;
const NULL: u8 = 0x02;
const FALSE: u8 = 0x03;
const TRUE: u8 = 0x04;
const NUMBER: u8 = 0x05;
pub(crate) const STRING: u8 = 0x06;
pub(crate) const ARRAY: u8 = 0x07;
pub(crate) const OBJECT: u8 = 0x08;

/// After a zero byte: the zero was part of the text.
pub(crate) const ESCAPED_ZERO: u8 = 0xff;
/// After a zero byte: the text is over.
const TERMINATOR: u8 = 0x01;

/// From here on, integers have no double of their own.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
const RESIDUAL_BIAS: i128 = 0x8000;
const SIGN: u64 = 1 << 63;

/// Appends the code of a value.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Undefined => out.push(UNDEFINED),
        Value::Null => out.push(NULL),
        Value::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Value::Number(n) => encode_number(*n, out),
        Value::String(s) => encode_string(s, out),
        Value::Array(elements) => {
            out.push(ARRAY);
            for element in elements.iter() {
                encode(element, out);
            }
            out.push(END);
        }
        Value::Object(object) => {
            let mut properties: Vec<_> = object.iter().collect();
            properties.sort_unstable_by_key(|(name, _)| *name);
            out.push(OBJECT);
            for (name, value) in properties {
                encode_string(name, out);
                encode(value, out);
            }
            out.push(END);
        }
    }
}

/// The code of a value as a vector of its own.
pub fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    encode(value, &mut out);
    out
}

/// Reads the value at the front and returns what follows it. An integral number comes back as an
/// integer where it fits, which is the same number.
pub fn decode(bytes: &[u8]) -> Result<(Value, &[u8]), StorageError> {
    decode_at(bytes, 0)
}

fn encode_string(text: &str, out: &mut Vec<u8>) {
    out.push(STRING);
    escape(text.as_bytes(), out);
    out.extend([END, TERMINATOR]);
}

/// Appends bytes so that a terminator of `00 01` sorts before every continuation.
pub(crate) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|b| *b == 0) {
        out.extend_from_slice(&rest[..=zero]);
        out.push(ESCAPED_ZERO);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends escaped bytes with their terminator.
pub(crate) fn escape_terminated(bytes: &[u8], out: &mut Vec<u8>) {
    escape(bytes, out);
    out.extend([END, TERMINATOR]);
}

/// Takes escaped bytes off the front: what they stand for, and what follows the terminator.
pub(crate) fn unescape(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|b| *b == 0)?;
        out.extend_from_slice(&rest[..zero]);
        match *rest.get(zero + 1)? {
            TERMINATOR => return Some((out, &rest[zero + 2..])),
            ESCAPED_ZERO => out.push(0),
            _ => return None,
        }
        rest = &rest[zero + 2..];
    }
}

#[expect(clippy::cast_possible_truncation, reason = "such a double is an integer below 2^64")]
fn encode_number(number: Number, out: &mut Vec<u8>) {
    out.push(NUMBER);
    // Adding zero turns -0 into 0: both are the same number.
    let double = number.as_f64() + 0.0;
    out.extend(ordered_bits(double).to_be_bytes());
    if double.abs() >= EXACT_MAX {
        let residual = match number {
            Number::Int(i) => i128::from(i) - double as i128,
            Number::Float(_) => 0,
        };
        // A double is at most half a step from its integer: 512 where steps are 1024.
        let biased = u16::try_from(residual + RESIDUAL_BIAS).expect("a residual is within ±512");
        out.extend(biased.to_be_bytes());
    }
}

/// The bits of a double, arranged so that they compare as unsigned numbers. NaN is all zeros, below
/// everything else.
fn ordered_bits(double: f64) -> u64 {
    let bits = double.to_bits();
    if double.is_nan() {
        0
    } else if bits & SIGN == 0 {
        bits | SIGN
    } else {
        !bits
    }
}

fn double_of(ordered: u64) -> f64 {
    if ordered == 0 {
        f64::NAN
    } else if ordered & SIGN == 0 {
        f64::from_bits(!ordered)
    } else {
        f64::from_bits(ordered & !SIGN)
    }
}

pub(crate) fn corrupt() -> StorageError {
    StorageError::Corrupt("an encoded value is malformed".into())
}

fn decode_at(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), StorageError> {
    let (tag, rest) = bytes.split_first().ok_or_else(corrupt)?;
    match *tag {
        UNDEFINED => Ok((Value::Undefined, rest)),
        NULL => Ok((Value::Null, rest)),
        FALSE => Ok((Value::Bool(false), rest)),
        TRUE => Ok((Value::Bool(true), rest)),
        NUMBER => decode_number(rest),
        STRING => decode_text(rest).map(|(text, rest)| (Value::String(text), rest)),
        // Nothing deeper than an item may be was ever encoded; damaged bytes must not exhaust the
        // stack.
        ARRAY | OBJECT if depth >= limits::NESTING_DEPTH_MAX => Err(corrupt()),
        ARRAY => decode_array(rest, depth + 1),
        OBJECT => decode_object(rest, depth + 1),
        _ => Err(corrupt()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range of the cast is checked before")]
fn decode_number(bytes: &[u8]) -> Result<(Value, &[u8]), StorageError> {
    let (ordered, rest) = bytes.split_first_chunk::<8>().ok_or_else(corrupt)?;
    let double = double_of(u64::from_be_bytes(*ordered));
    if double.abs() < EXACT_MAX {
        let number = Number::Float(double);
        let number = number.as_i64().map_or(number, Number::Int);
        return Ok((Value::Number(number), rest));
    }
    if double.is_nan() {
        return Ok((Value::from(double), rest));
    }
    let (biased, rest) = rest.split_first_chunk::<2>().ok_or_else(corrupt)?;
    let residual = i128::from(u16::from_be_bytes(*biased)) - RESIDUAL_BIAS;
    // Beyond the integers the cast saturates, the sum does not fit, and the double stands.
    match i64::try_from((double as i128).saturating_add(residual)) {
        Ok(i) => Ok((Value::from(i), rest)),
        Err(_) if residual == 0 => Ok((Value::from(double), rest)),
        Err(_) => Err(corrupt()),
    }
}

fn decode_text(bytes: &[u8]) -> Result<(Arc<str>, &[u8]), StorageError> {
    let (text, rest) = unescape(bytes).ok_or_else(corrupt)?;
    let text = String::from_utf8(text).map_err(|_| corrupt())?;
    Ok((text.into(), rest))
}

fn decode_array(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), StorageError> {
    let mut elements = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some((&END, after)) = rest.split_first() {
            return Ok((Value::Array(Arc::new(elements)), after));
        }
        let (element, after) = decode_at(rest, depth)?;
        elements.push(element);
        rest = after;
    }
}

fn decode_object(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), StorageError> {
    let mut properties: Vec<(Arc<str>, Value)> = Vec::new();
    let mut rest = bytes;
    loop {
        let (tag, after) = rest.split_first().ok_or_else(corrupt)?;
        if *tag == END {
            return Ok((Value::object(Object::from_distinct(properties)), after));
        }
        let (name, after) =
            if *tag == STRING { decode_text(after)? } else { return Err(corrupt()) };
        // Sorted names are distinct names, which the object relies on.
        if properties.last().is_some_and(|(last, _)| *last >= name) {
            return Err(corrupt());
        }
        let (value, after) = decode_at(after, depth)?;
        properties.push((name, value));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect("a valid value")
    }

    #[test]
    fn bytes_are_those_that_the_format_names() {
        let check = |value: Value, bytes: &[u8]| assert_eq!(encoded(&value), bytes, "{value:?}");
        check(Value::Undefined, b"\x01");
        check(Value::Bool(true), b"\x04");
        check(0.into(), b"\x05\x80\0\0\0\0\0\0\0");
        check(Value::from(-0.0), b"\x05\x80\0\0\0\0\0\0\0");
        check(1.into(), b"\x05\xbf\xf0\0\0\0\0\0\0");
        check(Value::from(f64::NAN), b"\x05\0\0\0\0\0\0\0\0");
        check(9_007_199_254_740_993_i64.into(), b"\x05\xc3\x40\0\0\0\0\0\0\x80\x01");
        check("a\0b".into(), b"\x06a\0\xffb\0\x01");
        check(parse(r#"{"b":[],"a":null}"#), b"\x08\x06a\0\x01\x02\x06b\0\x01\x07\0\0");
    }

    #[test]
    fn integers_beside_their_doubles_keep_their_order() {
        let two_63 = 9_223_372_036_854_775_808.0;
        let ascending: Vec<Value> = vec![
            f64::NAN.into(),
            f64::NEG_INFINITY.into(),
            (-1e300).into(),
            i64::MIN.into(),
            (i64::MIN + 1).into(),
            (-9_007_199_254_740_993).into(),
            (-9_007_199_254_740_992.0).into(),
            (-1.5).into(),
            (-1).into(),
            0.into(),
            5e-324.into(),
            9_007_199_254_740_991.into(),
            9_007_199_254_740_992.0.into(),
            9_007_199_254_740_993.into(),
            (i64::MAX - 1).into(),
            i64::MAX.into(),
            two_63.into(),
            f64::INFINITY.into(),
        ];
        for pair in ascending.windows(2) {
            assert!(encoded(&pair[0]) < encoded(&pair[1]), "{pair:?}");
        }
        for value in &ascending {
            assert_eq!(decode(&encoded(value)), Ok((value.clone(), &[][..])));
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let deep = vec![ARRAY; 1_000_000];
        let whole = encoded(&parse(r#"{"a":["x",1,9007199254740993],"b":{}}"#));
        for cut in 0..whole.len() {
            assert!(decode(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for bad in [&[0x09][..], &[0x00], &[STRING, 0, 2], &[STRING, 0xff, 0, 1], &deep] {
            assert!(decode(bad).is_err(), "{:?}", &bad[..bad.len().min(8)]);
        }
    }
}
