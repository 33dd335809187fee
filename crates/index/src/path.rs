//! Paths of an indexing policy: `/a/b/?` is the scalar at a.b, `/a/*` everything below a,
//! `/list/[]/x/?` x of every element, `/list/[]/{a, b/c}/?` a tuple of each element.

use std::fmt;

/// One step from the root of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexStep {
    /// A property of an object.
    Property(Box<str>),
    /// Every element of an array.
    Elements,
    /// Several properties of one element, indexed together.
    Tuple(Vec<Box<str>>),
}

/// Where a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathEnd {
    /// `/?`: the scalar itself.
    Scalar,
    /// `/*`: the value and everything below it.
    Subtree,
}

/// A parsed path with the text that it is echoed as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct IndexPath {
    pub steps: Vec<IndexStep>,
    pub end: PathEnd,
    pub text: Box<str>,
}

impl IndexPath {
    /// Reads a path that ends in `/?` or `/*`; with `end_optional`, also one that ends in neither
    /// (composite, spatial, vector and full-text paths).
    pub fn parse(text: &str, end_optional: bool) -> Option<Self> {
        // The oldest clients write the root without its star.
        let mut parts = if text == "/" { vec!["*"] } else { split(text)? };
        let end = match parts.last().copied() {
            Some("?") => PathEnd::Scalar,
            Some("*") => PathEnd::Subtree,
            _ if end_optional => {
                parts.push("?");
                PathEnd::Scalar
            }
            _ => return None,
        };
        parts.pop();
        let steps = parts.into_iter().map(step).collect::<Option<Vec<_>>>()?;
        Some(Self { steps, end, text: text.into() })
    }

    /// Whether this is `/*`, the whole item.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty() && self.end == PathEnd::Subtree
    }
}

impl fmt::Display for IndexPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits at slashes outside quotes and braces; the text starts with one and no part is empty.
fn split(text: &str) -> Option<Vec<&str>> {
    let rest = text.strip_prefix('/')?;
    let mut parts = Vec::new();
    let (mut start, mut quote, mut braces) = (0, None, 0_u32);
    for (i, c) in rest.char_indices() {
        if let Some(q) = quote {
            if c == q {
                quote = None;
            }
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '{' => braces += 1,
            '}' => braces = braces.checked_sub(1)?,
            '/' if braces == 0 => {
                parts.push(&rest[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&rest[start..]);
    let closed = quote.is_none() && braces == 0;
    (closed && parts.iter().all(|p| !p.is_empty())).then_some(parts)
}

fn step(part: &str) -> Option<IndexStep> {
    if part == "[]" {
        return Some(IndexStep::Elements);
    }
    if let Some(inner) = part.strip_prefix('{') {
        let names = inner.strip_suffix('}')?.split(',').map(str::trim);
        let names: Vec<Box<str>> = names.map(Into::into).collect();
        let fine = names.iter().all(|n| !n.is_empty() && !n.starts_with('/') && !n.contains("[]"));
        return fine.then_some(IndexStep::Tuple(names));
    }
    let quote = part.chars().next().filter(|c| matches!(c, '"' | '\''));
    let name = match quote {
        Some(q) => {
            let inner = part.strip_prefix(q)?.strip_suffix(q)?;
            if inner.contains(q) {
                return None;
            }
            inner
        }
        None if part.contains(['*', '?', '[', ']', '"', '\'', '{', '}']) => return None,
        None => part,
    };
    (!name.is_empty()).then(|| IndexStep::Property(name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_policy_are_read() {
        let steps = |text: &str| IndexPath::parse(text, false).map(|p| p.steps.len());
        assert_eq!(steps("/*"), Some(0));
        assert_eq!(steps("/"), Some(0));
        assert_eq!(steps("/a/?"), Some(1));
        assert_eq!(steps("/a/[]/b/*"), Some(3));
        assert_eq!(steps("/\"_etag\"/?"), Some(1));
        assert_eq!(steps("/\"a/b\"/?"), Some(1));
        assert_eq!(steps("/events/[]/{name, cat/sub}/?"), Some(3));
        for bad in ["", "a/?", "/a", "/a/", "//?", "/a*/?", "/\"a/?", "/a/[1]/?", "/a/b?"] {
            assert_eq!(steps(bad), None, "{bad}");
        }
        assert!(IndexPath::parse("/a/b", true).is_some());
        assert!(IndexPath::parse("/*", false).is_some_and(|p| p.is_root()));
    }
}
