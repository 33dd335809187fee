//! JSON that a command is given: as an argument, in a file, or on standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use orrery_types::{Value, limits};

use crate::exit::usage;

/// A text beyond this is no single resource; it is not read to its end.
const BYTES_MAX: u64 = 4 * limits::REQUEST_BODY_BYTES_MAX as u64;

/// The object of an argument, or of a file; without either, that of standard input.
pub(crate) fn object(argument: Option<&str>, file: Option<&Path>) -> Result<Value> {
    match (argument, file) {
        (Some("-"), _) => object_in(Path::new("-")),
        (Some(text), _) => parse(text.as_bytes(), "the argument"),
        (None, Some(file)) => object_in(file),
        (None, None) if std::io::stdin().is_terminal() => {
            Err(usage("give the item: as JSON, with --file FILE, or on standard input"))
        }
        (None, None) => object_in(Path::new("-")),
    }
}

/// The object in a file; `-` is standard input.
pub(crate) fn object_in(file: &Path) -> Result<Value> {
    let mut text = Vec::new();
    if file == Path::new("-") {
        let input = std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut text);
        input.context("cannot read standard input")?;
        return parse(&text, "standard input");
    }
    let shown = file.display().to_string();
    let opened = std::fs::File::open(file).with_context(|| format!("cannot open {shown}"))?;
    let read = opened.take(BYTES_MAX + 1).read_to_end(&mut text);
    read.with_context(|| format!("cannot read {shown}"))?;
    parse(&text, &shown)
}

fn parse(text: &[u8], name: &str) -> Result<Value> {
    if text.len() as u64 > BYTES_MAX {
        return Err(usage(format!("{name} is longer than {BYTES_MAX} bytes")));
    }
    let value = Value::parse(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text))
        .map_err(|error| usage(format!("{name} is not JSON: {error}")))?;
    match value {
        Value::Object(_) => Ok(value),
        Value::Array(_) => {
            let text = format!("{name} holds an array; `orrery import` takes several items");
            Err(usage(text))
        }
        _ => Err(usage(format!("{name} is not a JSON object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_refused_as_an_argument() {
        assert!(object(Some(r#"{"id":"a"}"#), None).is_ok());
        for (text, expected) in [("[{}]", "orrery import"), ("{", "not JSON"), ("7", "not a JSON")]
        {
            let error = object(Some(text), None).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(crate::exit::code(&error), 2);
        }
    }
}
