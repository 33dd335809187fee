//! String functions. Lengths and positions count UTF-16 units, as the service does; a cut through
//! a surrogate pair leaves a replacement character.

use orrery_types::{Number, Value, limits};

use super::{Function, Host, array, combine, flag, integer, number, text};
use crate::memory::allocated;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("CONCAT", 2, concat).or_more(),
    Function::new("CONTAINS", 2, |a, _| test(a, |s, t| s.contains(t))).up_to(3),
    Function::new("CONTAINS_ALL_CI", 2, |a, _| contains_each(a, true, false))
        .or_more()
        .sees_undefined(),
    Function::new("CONTAINS_ALL_CS", 2, |a, _| contains_each(a, false, false))
        .or_more()
        .sees_undefined(),
    Function::new("CONTAINS_ANY_CI", 2, |a, _| contains_each(a, true, true))
        .or_more()
        .sees_undefined(),
    Function::new("CONTAINS_ANY_CS", 2, |a, _| contains_each(a, false, true))
        .or_more()
        .sees_undefined(),
    Function::new("ContainsAllCi", 2, |a, _| contains_each(a, true, false))
        .or_more()
        .sees_undefined(),
    Function::new("ContainsAllCs", 2, |a, _| contains_each(a, false, false))
        .or_more()
        .sees_undefined(),
    Function::new("ContainsAnyCi", 2, |a, _| contains_each(a, true, true))
        .or_more()
        .sees_undefined(),
    Function::new("ContainsAnyCs", 2, |a, _| contains_each(a, false, true))
        .or_more()
        .sees_undefined(),
    Function::new("ENDSWITH", 2, |a, _| test(a, |s, t| s.ends_with(t))).up_to(3),
    Function::new("INDEX_OF", 2, index_of).up_to(3),
    Function::new("LASTINDEXOF", 2, last_index_of).up_to(3),
    Function::new("LEFT", 2, |a, _| left(a)),
    Function::new("LENGTH", 1, |a, _| count(units(text(a, 0)?))),
    Function::new("LOWER", 1, |a, _| Some(lower(text(a, 0)?).into())),
    Function::new("LTRIM", 1, |a, _| trim(a, true, false)).up_to(2),
    Function::new("REPLACE", 3, replace),
    Function::new("REPLICATE", 2, replicate),
    Function::new("REVERSE", 1, |a, _| Some(text(a, 0)?.chars().rev().collect::<String>().into())),
    Function::new("RIGHT", 2, |a, _| right(a)),
    Function::new("RTRIM", 1, |a, _| trim(a, false, true)).up_to(2),
    Function::new("STARTSWITH", 2, |a, _| test(a, |s, t| s.starts_with(t))).up_to(3),
    Function::new("StringEquals", 2, |a, _| test(a, |s, t| s == t)).up_to(3),
    Function::new("StringJoin", 2, join),
    Function::new("StringSplit", 2, split),
    Function::new("StringToArray", 1, |a, host| json(a, host, |v| matches!(v, Value::Array(_)))),
    Function::new("StringToBoolean", 1, |a, host| json(a, host, |v| matches!(v, Value::Bool(_)))),
    Function::new("StringToNull", 1, |a, host| json(a, host, |v| matches!(v, Value::Null))),
    Function::new("StringToNumber", 1, |a, host| json(a, host, |v| matches!(v, Value::Number(_)))),
    Function::new("StringToObject", 1, |a, host| json(a, host, |v| matches!(v, Value::Object(_)))),
    Function::new("SUBSTRING", 3, substring),
    Function::new("ToString", 1, to_string),
    Function::new("TRIM", 1, |a, _| trim(a, true, true)).up_to(2),
    Function::new("UPPER", 1, |a, _| Some(upper(text(a, 0)?).into())),
];

fn count(n: usize) -> Option<Value> {
    i64::try_from(n).ok().map(Value::from)
}

/// Case mapping of single characters, without regard to language or neighbours; a character whose
/// other case is several characters stays as it is.
pub(crate) fn lower(s: &str) -> String {
    s.chars().map(|c| only(c, c.to_lowercase())).collect()
}

pub(crate) fn upper(s: &str) -> String {
    s.chars().map(|c| only(c, c.to_uppercase())).collect()
}

fn only(c: char, mut mapped: impl ExactSizeIterator<Item = char>) -> char {
    if mapped.len() == 1 { mapped.next().unwrap_or(c) } else { c }
}

/// Length in UTF-16 units.
fn units(s: &str) -> usize {
    if s.is_ascii() { s.len() } else { s.encode_utf16().count() }
}

/// The part from one unit to another; both clamp to the end.
fn slice(s: &str, start: usize, end: usize) -> String {
    if s.is_ascii() {
        let end = end.min(s.len());
        return s[start.min(end)..end].to_owned();
    }
    let all: Vec<u16> = s.encode_utf16().collect();
    let end = end.min(all.len());
    String::from_utf16_lossy(&all[start.min(end)..end])
}

fn concat(arguments: &[Value], _: &Host) -> Option<Value> {
    let parts: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    Some(parts?.concat().into())
}

/// A test of two strings with an optional flag to ignore case.
fn test(arguments: &[Value], f: fn(&str, &str) -> bool) -> Option<Value> {
    let (s, t) = (text(arguments, 0)?, text(arguments, 1)?);
    let found = if flag(arguments, 2)? { f(&upper(s), &upper(t)) } else { f(s, t) };
    Some(found.into())
}

fn contains_each(arguments: &[Value], ignore_case: bool, any: bool) -> Option<Value> {
    let s = text(arguments, 0)?;
    let folded = if ignore_case { upper(s) } else { s.to_owned() };
    let answers = arguments[1..].iter().map(|term| {
        let term = term.as_str()?;
        Some(if ignore_case { folded.contains(&upper(term)) } else { folded.contains(term) })
    });
    combine(answers, any)
}

fn index_of(arguments: &[Value], _: &Host) -> Option<Value> {
    let (s, t) = (text(arguments, 0)?, text(arguments, 1)?);
    let from = match arguments.len() {
        2 => 0,
        _ => integer(arguments, 2)?,
    };
    let Ok(from) = usize::try_from(from) else { return Some(Value::from(-1)) };
    if from > units(s) {
        return Some(Value::from(-1));
    }
    let rest = slice(s, from, usize::MAX);
    match rest.find(t) {
        Some(at) => count(from + units(&rest[..at])),
        None => Some(Value::from(-1)),
    }
}

/// The last match that lies wholly at or before the unit `start`.
fn last_index_of(arguments: &[Value], _: &Host) -> Option<Value> {
    let (s, t) = (text(arguments, 0)?, text(arguments, 1)?);
    let end = match arguments.len() {
        2 => usize::MAX,
        _ => match usize::try_from(integer(arguments, 2)?) {
            Ok(start) => start.saturating_add(1),
            Err(_) => return Some(Value::from(-1)),
        },
    };
    let searched = slice(s, 0, end);
    match searched.rfind(t) {
        Some(at) => count(units(&searched[..at])),
        None => Some(Value::from(-1)),
    }
}

fn left(arguments: &[Value]) -> Option<Value> {
    let s = text(arguments, 0)?;
    let n = usize::try_from(integer(arguments, 1)?.max(0)).ok()?;
    Some(slice(s, 0, n).into())
}

fn right(arguments: &[Value]) -> Option<Value> {
    let s = text(arguments, 0)?;
    let n = usize::try_from(integer(arguments, 1)?.max(0)).ok()?;
    Some(slice(s, units(s).saturating_sub(n), usize::MAX).into())
}

fn substring(arguments: &[Value], _: &Host) -> Option<Value> {
    let s = text(arguments, 0)?;
    let (start, length) = (integer(arguments, 1)?, integer(arguments, 2)?);
    let (Ok(start), Ok(length)) = (usize::try_from(start), usize::try_from(length)) else {
        return Some("".into());
    };
    Some(slice(s, start, start.saturating_add(length)).into())
}

fn trim(arguments: &[Value], at_start: bool, at_end: bool) -> Option<Value> {
    let s = text(arguments, 0)?;
    let set = match arguments.len() {
        1 => None,
        _ => Some(text(arguments, 1)?),
    };
    let trimmed = |c: char| set.map_or_else(|| c.is_whitespace(), |set| set.contains(c));
    let s = if at_start { s.trim_start_matches(trimmed) } else { s };
    let s = if at_end { s.trim_end_matches(trimmed) } else { s };
    Some(s.into())
}

/// Nothing to find leaves nothing to answer.
fn replace(arguments: &[Value], host: &Host) -> Option<Value> {
    let (s, find, with) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    if find.is_empty() {
        return None;
    }
    let found = s.matches(find).count();
    let size = s.len().saturating_add(found.saturating_mul(with.len()));
    if size > limits::QUERY_STRING_BYTES_MAX {
        host.fail("The result of REPLACE is too large.");
        return None;
    }
    Some(s.replace(find, with).into())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded just before")]
#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
fn replicate(arguments: &[Value], _: &Host) -> Option<Value> {
    let (s, n) = (text(arguments, 0)?, number(arguments, 1)?.trunc());
    let length = units(s) as f64 * n;
    if !(n >= 0.0 && n.is_finite() && length <= limits::REPLICATE_CHARS_MAX as f64) {
        return None;
    }
    // An empty string may be asked for any number of times.
    let times = if s.is_empty() { 0 } else { n as usize };
    Some(s.repeat(times).into())
}

fn join(arguments: &[Value], host: &Host) -> Option<Value> {
    let (parts, separator) = (array(arguments, 0)?, text(arguments, 1)?);
    // The parts may share their text, and the separator comes between all of them.
    let size = parts.iter().try_fold(0_usize, |size, part| {
        Some(size.saturating_add(part.as_str()?.len()).saturating_add(separator.len()))
    })?;
    if size > limits::QUERY_STRING_BYTES_MAX {
        host.fail("The result of StringJoin is too large.");
        return None;
    }
    // The text is made, and then copied to where it is shared.
    if !host.has_room(size.saturating_mul(2)) {
        return None;
    }
    let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
    Some(parts.join(separator).into())
}

fn split(arguments: &[Value], host: &Host) -> Option<Value> {
    let (s, separator) = (text(arguments, 0)?, text(arguments, 1)?);
    // Each piece is a value with a text of its own, in a list that grows by doubling.
    let pieces = if separator.is_empty() { 1 } else { s.matches(separator).count() + 1 };
    let piece_bytes = 2 * size_of::<Value>() + allocated(16);
    if !host.has_room(s.len().saturating_add(pieces.saturating_mul(piece_bytes))) {
        return None;
    }
    let pieces = if separator.is_empty() {
        vec![Value::from(s)]
    } else {
        s.split(separator).map(Value::from).collect()
    };
    Some(Value::array(pieces))
}

/// Memory that a value may take for each byte of its JSON, as of a list of empty strings.
const BYTES_PER_JSON_BYTE: usize = 24;

fn json(arguments: &[Value], host: &Host, wanted: fn(&Value) -> bool) -> Option<Value> {
    let text = text(arguments, 0)?;
    if !host.has_room(text.len().saturating_mul(BYTES_PER_JSON_BYTE)) {
        return None;
    }
    Value::parse(text.as_bytes()).ok().filter(wanted)
}

fn to_string(arguments: &[Value], host: &Host) -> Option<Value> {
    Some(match &arguments[0] {
        value @ Value::String(_) => value.clone(),
        Value::Number(n @ Number::Float(_)) => n.to_string().into(),
        // A small value may hold one part a million times, and its text would be without end.
        other
            if crate::eval::size_bytes(other, limits::QUERY_STRING_BYTES_MAX)
                >= limits::QUERY_STRING_BYTES_MAX =>
        {
            host.fail("The result of ToString is too large.");
            return None;
        }
        other => other.to_json().into(),
    })
}
