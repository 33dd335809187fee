//! What the server says about a query it refuses, with the place marked in the text.

use orrery_types::Value;
use std::fmt::Write as _;

use crate::account;
use crate::exit::{Exit, Failure};
use crate::remote::RemoteAnswer;

/// The refusal as an error that shows where in the query it is.
pub(crate) fn explained(query: &str, path: &str, answer: &RemoteAnswer) -> anyhow::Error {
    let message = Value::parse(&answer.body)
        .ok()
        .and_then(|body| body.get("message").as_str().map(str::to_owned));
    let marked = message.as_deref().and_then(errors).map(|list| marked(query, &list));
    match marked {
        Some(text) => Failure::new(Exit::Refused, text).into(),
        None => account::refusal(path, answer),
    }
}

struct Mistake {
    message: String,
    code: String,
    /// In characters, end exclusive.
    place: Option<(usize, usize)>,
}

/// The list of errors that a message carries, if it does.
fn errors(message: &str) -> Option<Vec<Mistake>> {
    let json = message.get(message.find("{\"errors\":")?..)?;
    let end = json.find("\r\nActivityId").unwrap_or(json.len());
    let list = Value::parse(json.get(..end)?.trim_end().as_bytes()).ok()?;
    let place = |error: &Value| {
        let at = |name| error.get("location").get(name).as_i64().and_then(|n| n.try_into().ok());
        Some((at("start")?, at("end")?))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mistake = |error: &Value| Mistake {
        message: text(error.get("message")),
        code: text(error.get("code")),
        place: place(error),
    };
    Some(list.get("errors").as_array()?.iter().map(mistake).collect())
}

fn marked(query: &str, mistakes: &[Mistake]) -> String {
    let mut text = String::new();
    for mistake in mistakes {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "{} ({})", mistake.message.trim_end(), mistake.code);
        if let Some((line, from, count)) = mistake.place.and_then(|place| spot(query, place)) {
            let shown: String = line.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
            let (indent, mark) = (" ".repeat(from), "^".repeat(count));
            let _ = write!(text, "\n  {shown}\n  {indent}{mark}");
        }
    }
    text
}

/// The line in which a place begins, where in it, and how far it goes.
fn spot(query: &str, (start, end): (usize, usize)) -> Option<(&str, usize, usize)> {
    let mut before = 0;
    for line in query.split('\n') {
        let length = line.chars().count();
        if start <= before + length {
            let from = start - before;
            let count = end.saturating_sub(start).min(length - from).max(1);
            return Some((line.trim_end_matches('\r'), from, count));
        }
        before += length + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_mistake_is_marked_in_its_line() {
        let message = "Message: {\"errors\":[{\"severity\":\"Error\",\"location\":{\"start\":9,\
            \"end\":13},\"code\":\"SC1001\",\"message\":\"Syntax error.\"}]}\r\nActivityId: x";
        let list = errors(message).unwrap();
        let text = marked("SELECT *\nFORM c", &list);
        assert_eq!(text, "Syntax error. (SC1001)\n  FORM c\n  ^^^^");
    }

    #[test]
    fn a_place_at_the_end_is_marked_too() {
        assert_eq!(spot("SELECT", (6, 6)), Some(("SELECT", 6, 1)));
        assert_eq!(spot("a", (9, 9)), None);
        assert!(errors("no list here").is_none());
    }
}
