//! Property paths as container definitions write them: `/a/b`, a segment quoted where it holds
//! something else than letters, digits and underscores: `/"a b"/c`.

use std::fmt;

use crate::Value;

/// A path from the root of an item through objects; never through arrays. Two spellings of the
/// same names are equal; each prints as it was written.
#[derive(Clone, Debug)]
pub struct PropertyPath {
    text: Box<str>,
    segments: Vec<Box<str>>,
}

impl PartialEq for PropertyPath {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for PropertyPath {}

/// Why a string is not a property path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{path}' is not a valid path: {reason}")]
pub struct PathError {
    path: Box<str>,
    reason: &'static str,
}

impl PropertyPath {
    /// Reads `/a/b` or `/"a b"`; wildcards and array steps are refused.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let fail = |reason| PathError { path: path.into(), reason };
        let mut segments = Vec::new();
        let mut rest = path;
        if !rest.starts_with('/') {
            return Err(fail("it must start with '/'"));
        }
        while let Some(after) = rest.strip_prefix('/') {
            let (segment, tail) = match after.chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    let inner = &after[1..];
                    let end = inner.find(quote).ok_or_else(|| fail("a quote is not closed"))?;
                    (&inner[..end], &inner[end + 1..])
                }
                _ => after.split_at(after.find('/').unwrap_or(after.len())),
            };
            if segment.is_empty() {
                return Err(fail("a segment is empty"));
            }
            let bare = !after.starts_with(['"', '\'']);
            if bare && (segment == "*" || segment == "?" || segment.contains(['[', ']'])) {
                return Err(fail("wildcards and array steps are not allowed here"));
            }
            segments.push(segment.into());
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(fail("a quoted segment must be followed by '/' or the end"));
        }
        Ok(Self { text: path.into(), segments })
    }

    /// Names from the root down.
    pub fn segments(&self) -> &[Box<str>] {
        &self.segments
    }

    /// The value at the path; undefined where a step is missing or not an object.
    pub fn value_in<'v>(&self, root: &'v Value) -> &'v Value {
        self.segments.iter().fold(root, |value, name| value.get(name))
    }
}

impl fmt::Display for PropertyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_and_print() {
        let check = |text: &str, segments: &[&str]| {
            let path = PropertyPath::parse(text).expect(text);
            let got: Vec<&str> = path.segments().iter().map(|s| &**s).collect();
            assert_eq!(got, segments);
            assert_eq!(path.to_string(), text);
        };
        check("/a", &["a"]);
        check("/a/b_1", &["a", "b_1"]);
        check("/\"a b\"/c", &["a b", "c"]);
        check("/\"a/b\"", &["a/b"]);
        check("/'a \" b'/\"c' d\"", &["a \" b", "c' d"]);
        for bad in ["", "a", "/", "/a/", "//a", "/*", "/a/?", "/a/[]/b", "/\"a", "/\"a\"b"] {
            assert!(PropertyPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_step_is_undefined() {
        let value = Value::parse(br#"{"a":{"b":1},"c":[{"b":2}]}"#).expect("json");
        let at = |p: &str| PropertyPath::parse(p).expect(p).value_in(&value).clone();
        assert_eq!(at("/a/b"), 1.into());
        assert!(at("/a/x").is_undefined());
        assert!(at("/c/b").is_undefined());
    }
}
