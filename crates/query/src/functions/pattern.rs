//! LIKE and regular expressions. Patterns are compiled once per execution and kept. A linear-time
//! engine takes what it can; look-around and back-references go to a backtracking one under a step
//! limit, past which there is no answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Compiled patterns kept at once.
const KEPT_MAX: usize = 64;
/// Size of one compiled pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Steps of one backtracking search.
const BACKTRACK_MAX: usize = 100_000;

/// The patterns of one execution.
#[derive(Default)]
pub(crate) struct Patterns {
    kept: RefCell<HashMap<Key, Option<Arc<Compiled>>>>,
}

type Key = (Arc<str>, Option<char>, Arc<str>);

enum Compiled {
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

impl Patterns {
    /// `subject LIKE pattern ESCAPE escape`.
    pub(crate) fn like(&self, subject: &str, pattern: &str, escape: Option<char>) -> Option<bool> {
        let key = (pattern.into(), escape, Arc::from("LIKE"));
        self.compiled(key, || linear(&like_to_regex(pattern, escape)))?.matches(subject)
    }

    /// Whether the expression is found in the subject; `None` for an invalid one.
    pub(crate) fn regex(&self, subject: &str, pattern: &str, modifiers: &str) -> Option<bool> {
        if !modifiers.chars().all(|c| "msix".contains(c)) {
            return None;
        }
        let key = (pattern.into(), None, modifiers.into());
        self.compiled(key, || {
            let text = if modifiers.is_empty() {
                pattern.to_owned()
            } else {
                format!("(?{modifiers}){pattern}")
            };
            linear(&text).or_else(|| backtracking(&text))
        })?
        .matches(subject)
    }

    fn compiled(
        &self,
        key: Key,
        compile: impl FnOnce() -> Option<Compiled>,
    ) -> Option<Arc<Compiled>> {
        let mut kept = self.kept.borrow_mut();
        if let Some(known) = kept.get(&key) {
            return known.clone();
        }
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let compiled = compile().map(Arc::new);
        kept.insert(key, compiled.clone());
        compiled
    }
}

impl Compiled {
    fn matches(&self, subject: &str) -> Option<bool> {
        match self {
            Self::Linear(regex) => Some(regex.is_match(subject)),
            Self::Backtracking(regex) => regex.is_match(subject).ok(),
        }
    }
}

fn linear(text: &str) -> Option<Compiled> {
    let built = regex::RegexBuilder::new(text).size_limit(COMPILED_BYTES_MAX).build();
    built.ok().map(Compiled::Linear)
}

fn backtracking(text: &str) -> Option<Compiled> {
    let built = fancy_regex::RegexBuilder::new(text)
        .backtrack_limit(BACKTRACK_MAX)
        .delegate_size_limit(COMPILED_BYTES_MAX)
        .build();
    built.ok().map(Compiled::Backtracking)
}

/// The regular expression that a LIKE pattern stands for, anchored at both ends.
fn like_to_regex(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("(?s)^");
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            // An escape at the very end stands for itself.
            let literal = chars.next().unwrap_or(c);
            out.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
            continue;
        }
        match c {
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '[' => {
                let rest: String = chars.clone().collect();
                match class(&rest) {
                    Some((class, used)) => {
                        out.push_str(&class);
                        for _ in 0..used {
                            chars.next();
                        }
                    }
                    None => out.push_str("\\["),
                }
            }
            _ => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push('$');
    out
}

/// A character class after its `[`, and how many characters it took; `None` when it is not closed
/// or empty, and the bracket stands for itself.
fn class(rest: &str) -> Option<(String, usize)> {
    let end = rest.chars().position(|c| c == ']').filter(|end| *end > 0)?;
    let members: Vec<char> = rest.chars().take(end).collect();
    let (negated, members) = match members.split_first() {
        Some(('^', others)) if !others.is_empty() => ("^", others),
        _ => ("", &members[..]),
    };
    let mut out = format!("[{negated}");
    let mut at = 0;
    while at < members.len() {
        let quoted = |c: char| regex::escape(c.encode_utf8(&mut [0; 4]));
        let range_end = members.get(at + 2).filter(|_| members[at + 1] == '-');
        match range_end {
            Some(last) if *last >= members[at] => {
                out.push_str(&format!("{}-{}", quoted(members[at]), quoted(*last)));
                at += 3;
            }
            _ => {
                out.push_str(&quoted(members[at]));
                at += 1;
            }
        }
    }
    out.push(']');
    Some((out, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_knows_wildcards_classes_and_escapes() {
        let check = |subject: &str, pattern: &str, escape: Option<char>, expected: bool| {
            let got = Patterns::default().like(subject, pattern, escape);
            assert_eq!(got, Some(expected), "{subject} LIKE {pattern}");
        };
        check("a\nb", "a%b", None, true);
        check("20%", "20!%", Some('!'), true);
        check("20x", "20!%", Some('!'), false);
        check("a]b", "a]b", None, true);
        check("[x", "[[]x", None, true);
        check("a[b", "a[b", None, true);
        check("-", "[a-]", None, true);
        check("^", "[^]", None, true);
        check("d", "[^a-c]", None, true);
        check("é", "_", None, true);
        check("a&b~c", "a&b~c", None, true);
        check("~", "[&&~~]", None, true);
    }

    #[test]
    fn catastrophic_patterns_end_without_an_answer() {
        let patterns = Patterns::default();
        assert_eq!(patterns.regex("aaaa", "(a+)+$", ""), Some(true));
        assert_eq!(patterns.regex("foobar", "foo(?=bar)", ""), Some(true));
        let subject = "a".repeat(60) + "x";
        assert_eq!(patterns.regex(&subject, "^(a|a|aa)+\\1b?$", ""), None);
        assert_eq!(patterns.regex("a", "(a{1000}){1000}", ""), None, "too large to compile");
        assert_eq!(patterns.regex("a", "(", ""), None);
        assert_eq!(patterns.regex("a", "a", "q"), None);
    }
}
