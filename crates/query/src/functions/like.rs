//! LIKE: a pattern compiled to elements and matched against a whole string. Only the last `%` is
//! ever gone back to, so a match takes at most pattern times subject comparisons; each is counted
//! by the caller, which may stop it.

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct LikePattern {
    elements: Vec<Element>,
}

#[derive(Debug, PartialEq)]
enum Element {
    /// `%`
    Run,
    /// `_`
    One,
    Char(char),
    /// `[a-c]` and `[^a-c]`; ranges are inclusive.
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

impl Element {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Run => false,
            Self::One => true,
            Self::Char(own) => *own == c,
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
        }
    }
}

impl LikePattern {
    pub(crate) fn new(pattern: &str, escape: Option<char>) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut elements = Vec::new();
        let mut at = 0;
        while let Some(c) = chars.get(at) {
            at += 1;
            if Some(*c) == escape {
                // An escape at the very end stands for itself.
                elements.push(Element::Char(*chars.get(at).unwrap_or(c)));
                at += 1;
                continue;
            }
            elements.push(match c {
                '%' => Element::Run,
                '_' => Element::One,
                '[' => match class(&chars[at..]) {
                    Some((class, taken)) => {
                        at += taken;
                        class
                    }
                    None => Element::Char('['),
                },
                _ => Element::Char(*c),
            });
        }
        elements.dedup_by(|a, b| *a == Element::Run && *b == Element::Run);
        Self { elements }
    }

    /// Whether the whole subject matches; `step` is called for each comparison.
    pub(crate) fn matches<E>(
        &self,
        subject: &str,
        step: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut rest = subject.chars();
        let mut at = 0;
        // Where to go back to: after the last `%`, with one more character given to it.
        let mut back: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            step()?;
            let mut next = rest.clone();
            match (self.elements.get(at), next.next()) {
                (Some(Element::Run), _) => {
                    at += 1;
                    back = Some((at, rest.clone()));
                    continue;
                }
                (Some(element), Some(c)) if element.takes(c) => {
                    at += 1;
                    rest = next;
                    continue;
                }
                (None, None) => return Ok(true),
                _ => {}
            }
            let Some((after, from)) = &mut back else { return Ok(false) };
            if from.next().is_none() {
                return Ok(false);
            }
            at = *after;
            rest = from.clone();
        }
    }
}

/// The text with which every match of a pattern begins, and whether anything may follow it: then
/// beginning with it is all that the pattern asks.
pub(crate) fn literal_prefix(pattern: &str, escape: Option<char>) -> (String, bool) {
    let elements = LikePattern::new(pattern, escape).elements;
    let literal = |element: &Element| match element {
        Element::Char(c) => Some(*c),
        Element::Run | Element::One | Element::Class { .. } => None,
    };
    let prefix: String = elements.iter().map_while(literal).collect();
    let rest = &elements[prefix.chars().count()..];
    (prefix, rest == [Element::Run])
}

/// A class after its `[`, and how many characters it took with its `]`; `None` when it is empty or
/// not closed, and the bracket stands for itself.
fn class(chars: &[char]) -> Option<(Element, usize)> {
    let end = chars.iter().position(|c| *c == ']').filter(|end| *end > 0)?;
    let (negated, members) = match &chars[..end] {
        ['^', members @ ..] if !members.is_empty() => (true, members),
        members => (false, members),
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(first) = members.get(at) {
        match members.get(at + 1..at + 3) {
            Some(['-', last]) if last >= first => {
                ranges.push((*first, *last));
                at += 3;
            }
            _ => {
                ranges.push((*first, *first));
                at += 1;
            }
        }
    }
    Some((Element::Class { ranges, negated }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_knows_wildcards_classes_and_escapes() {
        let check = |subject: &str, pattern: &str, escape: Option<char>, expected: bool| {
            let pattern = LikePattern::new(pattern, escape);
            let got = pattern.matches(subject, &mut || Ok::<(), ()>(()));
            assert_eq!(got, Ok(expected), "{subject} LIKE {pattern:?}");
        };
        check("a\nb", "a%b", None, true);
        check("20%", "20!%", Some('!'), true);
        check("20x", "20!%", Some('!'), false);
        check("a!", "a!", Some('!'), true);
        check("a]b", "a]b", None, true);
        check("[x", "[[]x", None, true);
        check("a[b", "a[b", None, true);
        check("-", "[a-]", None, true);
        check("^", "[^]", None, true);
        check("d", "[^a-c]", None, true);
        check("é", "_", None, true);
        check("abcbcd", "a%bcd", None, true);
        check("abcbc", "a%bcd", None, false);
        check("aXbXc", "%X%X%", None, true);
        check("", "%%", None, true);
        check("ab", "a", None, false);
    }

    #[test]
    fn a_long_match_can_be_stopped() {
        let pattern = LikePattern::new(&format!("%{}b", "a".repeat(1000)), None);
        let mut steps = 0;
        let stopped = pattern.matches(&"a".repeat(100_000), &mut || {
            steps += 1;
            if steps > 10_000 { Err(()) } else { Ok(()) }
        });
        assert_eq!(stopped, Err(()));
    }
}
