//! Patterns compiled once per execution and kept: LIKE and regular expressions. Of the latter, a
//! linear-time engine takes what it can; look-around and back-references go to a backtracking one
//! under a step limit, past which the query fails.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use orrery_types::limits;

use super::like::LikePattern;
use super::pcre::translate;

/// Compiled patterns of each kind kept at once.
const KEPT_MAX: usize = 64;

/// The patterns of one execution.
#[derive(Default)]
pub(crate) struct Patterns {
    likes: Kept<Option<char>, LikePattern>,
    expressions: Kept<Box<str>, Option<Expression>>,
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
            if !modifiers.chars().all(|c| "msix".contains(c)) {
                return None;
            }
            compile(&translate(pattern, modifiers))
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
}

fn compile(text: &str) -> Option<Expression> {
    let linear =
        regex::RegexBuilder::new(text).size_limit(limits::REGEX_COMPILED_BYTES_MAX).build();
    if let Ok(regex) = linear {
        return Some(Expression::Linear(regex));
    }
    let backtracking = fancy_regex::RegexBuilder::new(text)
        .backtrack_limit(limits::REGEX_BACKTRACK_STEPS_MAX)
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
