//! Patterns compiled once per execution and kept: LIKE and regular expressions. Of the latter, a
//! linear-time engine takes what it can; look-around and back-references go to a backtracking one
//! under a step limit, past which the query fails.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use orrery_types::limits;

use super::like::LikePattern;
use super::pcre::{translate, translate_for_extraction};

/// Compiled patterns of each kind kept at once.
const KEPT_MAX: usize = 64;

/// The patterns of one execution.
#[derive(Default)]
pub(crate) struct Patterns {
    likes: Kept<Option<char>, LikePattern>,
    expressions: Kept<Box<str>, Option<Expression>>,
    extractions: Kept<Box<str>, Option<Expression>>,
}

enum Expression {
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

/// A search took too many steps.
#[derive(Debug, PartialEq)]
pub(super) struct TooManySteps;

impl Patterns {
    /// The compiled form of `LIKE pattern ESCAPE escape`.
    pub(crate) fn like(&self, pattern: &str, escape: Option<char>) -> Rc<LikePattern> {
        self.likes.get(pattern, &escape, || LikePattern::new(pattern, escape))
    }

    /// Whether the expression is found in the subject; `None` for an invalid one.
    pub(super) fn regex(
        &self,
        subject: &str,
        pattern: &str,
        modifiers: &str,
    ) -> Result<Option<bool>, TooManySteps> {
        let compile = || {
            are_modifiers(modifiers)
                .then(|| translate(pattern, modifiers))
                .and_then(|text| compile(&text, limits::REGEX_BACKTRACK_STEPS_MAX))
        };
        match &*self.expressions.get(pattern, &modifiers.into(), compile) {
            None => Ok(None),
            Some(Expression::Linear(regex)) => Ok(Some(regex.is_match(subject))),
            Some(Expression::Backtracking(_))
                if subject.len() > limits::REGEX_BACKTRACK_SUBJECT_BYTES_MAX =>
            {
                Err(TooManySteps)
            }
            Some(Expression::Backtracking(regex)) => {
                regex.is_match(subject).map(Some).map_err(|_| TooManySteps)
            }
        }
    }

    /// Calls `take` with what the group matched, for one match after the other, until it answers
    /// false; a match without the group counts as nothing. `None` for an invalid expression, or one
    /// that has no such group.
    pub(super) fn extract<'s>(
        &self,
        subject: &'s str,
        pattern: &str,
        modifiers: &str,
        group: usize,
        mut take: impl FnMut(Option<&'s str>) -> bool,
    ) -> Result<Option<()>, TooManySteps> {
        let compile = || {
            are_modifiers(modifiers)
                .then(|| translate_for_extraction(pattern, modifiers))
                .and_then(|text| compile(&text, limits::REGEX_EXTRACT_STEPS_MAX))
        };
        match &*self.extractions.get(pattern, &modifiers.into(), compile) {
            Some(Expression::Linear(regex)) if group < regex.captures_len() => {
                let matches_max = limits::REGEX_EXTRACT_WORK_BYTES_MAX / subject.len().max(1);
                for (count, found) in regex.captures_iter(subject).enumerate() {
                    if count >= matches_max {
                        return Err(TooManySteps);
                    }
                    if !take(found.get(group).map(|part| part.as_str())) {
                        break;
                    }
                }
            }
            Some(Expression::Backtracking(regex)) if group < regex.captures_len() => {
                if subject.len() > limits::REGEX_BACKTRACK_SUBJECT_BYTES_MAX {
                    return Err(TooManySteps);
                }
                for (count, found) in regex.captures_iter(subject).enumerate() {
                    let found = found.map_err(|_| TooManySteps)?;
                    if count >= limits::REGEX_EXTRACT_BACKTRACK_MATCHES_MAX {
                        return Err(TooManySteps);
                    }
                    if !take(found.get(group).map(|part| part.as_str())) {
                        break;
                    }
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(()))
    }
}

fn are_modifiers(modifiers: &str) -> bool {
    modifiers.chars().all(|c| "msix".contains(c))
}

fn compile(text: &str, steps_max: usize) -> Option<Expression> {
    let linear =
        regex::RegexBuilder::new(text).size_limit(limits::REGEX_COMPILED_BYTES_MAX).build();
    if let Ok(regex) = linear {
        return Some(Expression::Linear(regex));
    }
    let backtracking = fancy_regex::RegexBuilder::new(text)
        .backtrack_limit(steps_max)
        .delegate_size_limit(limits::REGEX_COMPILED_BYTES_MAX)
        .build();
    backtracking.ok().map(Expression::Backtracking)
}

/// Things made from a text and an option, found again without copying the text.
struct Kept<O, T> {
    made: RefCell<Made<O, T>>,
}

type Made<O, T> = HashMap<Box<str>, Vec<(O, Rc<T>)>>;

impl<O, T> Default for Kept<O, T> {
    fn default() -> Self {
        Self { made: RefCell::default() }
    }
}

impl<O: Clone + PartialEq, T> Kept<O, T> {
    fn get(&self, text: &str, option: &O, make: impl FnOnce() -> T) -> Rc<T> {
        let mut made = self.made.borrow_mut();
        let known = made.get(text).and_then(|list| list.iter().find(|(o, _)| o == option));
        if let Some((_, thing)) = known {
            return thing.clone();
        }
        if made.len() >= KEPT_MAX {
            made.clear();
        }
        let thing = Rc::new(make());
        made.entry(text.into()).or_default().push((option.clone(), thing.clone()));
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_searched_under_limits() {
        let patterns = Patterns::default();
        let check = |subject: &str, pattern: &str, modifiers: &str, expected| {
            assert_eq!(patterns.regex(subject, pattern, modifiers), expected, "{pattern}");
        };
        check("aaaa", "(a+)+$", "", Ok(Some(true)));
        check("foobar", "foo(?=bar)", "", Ok(Some(true)));
        check("FOO", "foo", "i", Ok(Some(true)));
        check("FOO", "foo", "", Ok(Some(false)));
        check("a", "(", "", Ok(None));
        check("a", "a", "q", Ok(None));
        check("abcd\n", "d$", "", Ok(Some(true)));
        check("abcd\n\n", "d$", "", Ok(Some(false)));
        check("d\n", "d$\\n", "", Ok(Some(true)));
        check("d\nd", "d$\\n", "", Ok(Some(false)));
        check("a\nb", "a$", "m", Ok(Some(true)));
        check("x[&~-y", "^x[[&]+[~~]--?y", "", Ok(Some(true)));
        check("a[&", "(?=a)a[[][&&]$", "", Ok(Some(true)));
        check("a <b", "(?=a) a[ ]\\<b", "x", Ok(Some(true)));
        check("{a}", "^{a}$", "", Ok(Some(true)));
        check("a", "(a{1000}){1000}", "", Ok(None));
        let subject = "a".repeat(60) + "x";
        check(&subject, "^(a|a|aa)+\\1b?$", "", Err(TooManySteps));
        let subject = "a".repeat(limits::REGEX_BACKTRACK_SUBJECT_BYTES_MAX + 1);
        check(&subject, "(?=a)a", "", Err(TooManySteps));
        check(&subject[1..], "(?=a)a", "", Ok(Some(true)));
        check(&subject, "aa", "", Ok(Some(true)));
    }
}
