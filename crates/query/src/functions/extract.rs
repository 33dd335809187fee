//! Functions that search a string for a regular expression or a delimiter and give a part of it.

use orrery_types::{Value, limits};

use super::pattern::TooManySteps;
use super::{Function, Host, integer, text};
use crate::memory::allocated;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("LastSubstringAfter", 2, |a, _| {
        Some(text(a, 0)?.rsplit_once(text(a, 1)?)?.1.into())
    }),
    Function::new("LastSubstringBefore", 2, |a, _| {
        Some(text(a, 0)?.rsplit_once(text(a, 1)?)?.0.into())
    }),
    Function::new("RegexExtract", 2, regex_extract).up_to(4),
    Function::new("RegexExtractAll", 2, regex_extract_all).up_to(4),
    Function::new("RegexMatch", 2, regex_match).up_to(3),
    Function::new("SubstringAfter", 2, |a, _| Some(text(a, 0)?.split_once(text(a, 1)?)?.1.into())),
    Function::new("SubstringBefore", 2, |a, _| Some(text(a, 0)?.split_once(text(a, 1)?)?.0.into())),
];

/// The modifiers, which may be left out.
fn modifiers(arguments: &[Value]) -> Option<&str> {
    if arguments.len() < 3 { Some("") } else { text(arguments, 2) }
}

/// The number of the group, which may be left out; 0 is the whole match.
fn group(arguments: &[Value]) -> Option<usize> {
    if arguments.len() < 4 { Some(0) } else { usize::try_from(integer(arguments, 3)?).ok() }
}

/// The answer of a search; has the execution fail where it took too many steps.
fn found<T>(search: Result<Option<T>, TooManySteps>, host: &Host) -> Option<T> {
    if search.is_err() {
        host.fail("The regular expression takes too many steps.");
    }
    search.ok().flatten()
}

fn regex_match(arguments: &[Value], host: &Host) -> Option<Value> {
    let modifiers = modifiers(arguments)?;
    let search = host.patterns.regex(text(arguments, 0)?, text(arguments, 1)?, modifiers);
    found(search, host).map(Value::from)
}

fn regex_extract(arguments: &[Value], host: &Host) -> Option<Value> {
    let (subject, pattern) = (text(arguments, 0)?, text(arguments, 1)?);
    let mut first = None;
    let search =
        host.patterns.extract(subject, pattern, modifiers(arguments)?, group(arguments)?, |part| {
            first = part;
            false
        });
    found(search, host)?;
    Some(first?.into())
}

fn regex_extract_all(arguments: &[Value], host: &Host) -> Option<Value> {
    let (subject, pattern) = (text(arguments, 0)?, text(arguments, 1)?);
    let mut parts: Vec<Value> = Vec::new();
    // Groups of a look-ahead overlap, so that the parts together may exceed the text by far.
    let mut bytes = 0_usize;
    let search =
        host.patterns.extract(subject, pattern, modifiers(arguments)?, group(arguments)?, |part| {
            let Some(part) = part else { return true };
            bytes = bytes.saturating_add(2 * size_of::<Value>() + allocated(part.len()));
            let fits = bytes <= limits::QUERY_STRING_BYTES_MAX && host.has_room(bytes);
            if fits {
                parts.push(part.into());
            } else {
                host.fail("The result of RegexExtractAll is too large.");
            }
            fits
        });
    found(search, host)?;
    Some(Value::array(parts))
}
