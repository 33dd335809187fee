//! Regular expressions as the service reads them (PCRE), put into the words of the engines here.
//! Only what both would accept and understand differently is rewritten; the rest is copied, and
//! what an engine does not know it refuses.

use std::iter::Peekable;
use std::str::Chars;

/// The pattern in the words of the `regex` crate, with its modifiers, which are of `msix`.
pub(super) fn translate(pattern: &str, modifiers: &str) -> String {
    let (text, ends_within) = Translator::new(pattern, modifiers, Tail::Taken).run();
    if ends_within {
        return Translator::new(pattern, modifiers, Tail::Seen).run().0;
    }
    text
}

/// The same for a search whose match is taken out of the text: an end never becomes part of it.
pub(super) fn translate_for_extraction(pattern: &str, modifiers: &str) -> String {
    Translator::new(pattern, modifiers, Tail::Seen).run().0
}

/// How the end is written: it is also where only a newline follows.
#[derive(Clone, Copy)]
enum Tail {
    /// The newline becomes part of the match, which the linear engine can do. It makes no
    /// difference where nothing comes after the end.
    Taken,
    /// It is looked at, as `PCRE` does.
    Seen,
}

/// A group, or the whole pattern.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Group {
    multi_line: bool,
    extended: bool,
    is_look_around: bool,
    /// Whether it stands after an end.
    follows_end: bool,
    /// Whether an end stands before this place in its branch, or in another branch before.
    ended: bool,
    branch_ended: bool,
}

struct Translator<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    tail: Tail,
    groups: Vec<Group>,
    /// The group that is open.
    group: Group,
    /// Whether anything comes after an end, or an end stands where it is only looked at.
    ends_within: bool,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str, modifiers: &str, tail: Tail) -> Self {
        let out = if modifiers.is_empty() { String::new() } else { format!("(?{modifiers})") };
        let group = Group {
            multi_line: modifiers.contains('m'),
            extended: modifiers.contains('x'),
            ..Group::default()
        };
        let rest = pattern.chars().peekable();
        Self { rest, out, tail, groups: Vec::new(), group, ends_within: false }
    }

    fn run(mut self) -> (String, bool) {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape(),
                '[' => self.class(),
                '(' => self.open(),
                ')' => self.close(),
                '|' => {
                    self.group.branch_ended |= self.group.ended;
                    self.group.ended = false;
                    self.out.push(c);
                }
                '$' if !self.group.multi_line => self.end(),
                '{' if !self.is_count() => self.part("\\{"),
                '*' | '+' | '?' | '{' => self.out.push(c),
                '#' if self.group.extended => self.comment('\n'),
                c if self.group.extended && c.is_whitespace() => self.out.push(c),
                c => self.part(c.encode_utf8(&mut [0; 4])),
            }
        }
        (self.out, self.ends_within)
    }

    /// Something that matches.
    fn part(&mut self, text: &str) {
        self.ends_within |= self.group.ended || self.group.follows_end;
        self.out.push_str(text);
    }

    fn end(&mut self) {
        self.out.push_str(match self.tail {
            Tail::Taken => r"(?:\n?\z)",
            Tail::Seen => r"(?=\n?\z)",
        });
        self.group.ended = true;
        self.ends_within |= self.group.is_look_around;
    }

    /// Whether what follows a brace makes it a number of repetitions; otherwise it is a brace.
    fn is_count(&self) -> bool {
        // No longer than two numbers are.
        let text: String = self.rest.clone().take(24).collect();
        let Some((text, _)) = text.split_once('}') else { return false };
        let (least, most) = text.split_once(',').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        !least.is_empty() && digits(least) && digits(most)
    }

    /// Leaves out everything up to a character, and it too.
    fn comment(&mut self, until: char) {
        self.rest.by_ref().find(|c| *c == until);
    }

    fn escape(&mut self) {
        match self.rest.next() {
            // Word boundaries to the engine.
            Some('<') => self.part(r"\x3C"),
            Some('>') => self.part(r"\x3E"),
            Some('Z') => self.end(),
            Some(c) => {
                self.part("\\");
                self.out.push(c);
                self.braces(c);
            }
            None => self.part("\\"),
        }
    }

    /// The braces that belong to an escape such as `\x{263A}`.
    fn braces(&mut self, escaped: char) {
        if !"xpPogkN".contains(escaped) || self.rest.peek() != Some(&'{') {
            return;
        }
        for c in self.rest.by_ref() {
            self.out.push(c);
            if c == '}' {
                return;
            }
        }
    }

    fn open(&mut self) {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('?') {
            return self.push(self.group, "(");
        }
        let intro: String = ahead.take(3).collect();
        if intro.starts_with('#') {
            return self.comment(')');
        }
        let is_look_around = ["=", "!", "<=", "<!"].iter().any(|look| intro.starts_with(look));
        self.rest.next();
        let mut flags = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphabetic() || *c == '-') {
            flags.push(c);
        }
        let mut group = self.group;
        match self.rest.peek() {
            Some(')') => {
                self.rest.next();
                set(&mut self.group, &flags);
                self.out.push_str("(?");
                self.out.push_str(&flags);
                self.out.push(')');
                return;
            }
            Some(':') => set(&mut group, &flags),
            _ => {}
        }
        group.is_look_around |= is_look_around;
        self.push(group, "(?");
        self.out.push_str(&flags);
        // What names the group or its kind is no part of it.
        while let Some(c) = self.rest.next_if(|c| ":=!<>".contains(*c)) {
            self.out.push(c);
        }
    }

    fn push(&mut self, group: Group, text: &str) {
        self.out.push_str(text);
        self.groups.push(self.group);
        let follows_end = group.follows_end || group.ended;
        self.group = Group { follows_end, ended: false, branch_ended: false, ..group };
    }

    fn close(&mut self) {
        self.out.push(')');
        if let Some(outer) = self.groups.pop() {
            let ended = self.group.ended || self.group.branch_ended;
            self.group = Group { ended: outer.ended || ended, ..outer };
        }
    }

    /// A class in brackets. Within it the engine knows nested classes and operators, and PCRE does
    /// not.
    fn class(&mut self) {
        self.part("[");
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        // Whether a hyphen would make a range with what stands before it.
        let mut may_range = false;
        while let Some(c) = self.rest.next() {
            if c == ']' && !is_first {
                self.out.push(']');
                return;
            }
            is_first = false;
            if c == '-' && may_range && self.rest.peek().is_some_and(|next| *next != ']') {
                self.out.push('-');
                if let Some(c) = self.rest.next() {
                    self.member(c);
                }
                may_range = false;
            } else {
                may_range = self.member(c);
            }
        }
    }

    /// One member of a class that begins with a character; whether it is a single character.
    fn member(&mut self, c: char) -> bool {
        match c {
            '[' if self.named_class() => return false,
            '\\' => return self.member_escape(),
            '[' | ']' | '&' | '~' | '-' | '^' | '#' => self.out.push('\\'),
            c if c.is_whitespace() => {
                // The engine ignores it under the modifier x.
                self.out.extend(c.escape_unicode());
                return true;
            }
            _ => {}
        }
        self.out.push(c);
        true
    }

    /// Copies a class such as `[:alpha:]`, if one stands here.
    fn named_class(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some(':') {
            return false;
        }
        let name: String = ahead.take(16).collect();
        let Some((name, _)) = name.split_once(":]") else { return false };
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'^') {
            return false;
        }
        self.out.push('[');
        self.out.extend(self.rest.by_ref().take(name.len() + 3));
        true
    }

    fn member_escape(&mut self) -> bool {
        match self.rest.next() {
            Some('<') => self.out.push_str(r"\x3C"),
            Some('>') => self.out.push_str(r"\x3E"),
            // A backspace, not the boundary of a word.
            Some('b') => self.out.push_str(r"\x08"),
            Some(c) => {
                self.out.push('\\');
                self.out.push(c);
                self.braces(c);
                return !"dDwWsShHvVpPRN".contains(c);
            }
            None => self.out.push('\\'),
        }
        true
    }
}

/// Sets what flags such as `m-x` say.
fn set(group: &mut Group, flags: &str) {
    let mut on = true;
    for flag in flags.chars() {
        match flag {
            '-' => on = false,
            'm' => group.multi_line = on,
            'x' => group.extended = on,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, modifiers: &str, expected: &str) {
        assert_eq!(translate(pattern, modifiers), expected, "{pattern}");
    }

    #[test]
    fn what_engines_read_differently_is_rewritten() {
        check("abc|[a-z]+(d)", "", "abc|[a-z]+(d)");
        check("a[[]", "", r"a[\[]");
        check("[[:alpha:]&&[:^digit:]--]", "", r"[[:alpha:]\&\&[:^digit:]\-\-]");
        check("[[:a]", "", r"[\[:a]");
        check(r"[]\]a-z-9~~^]", "", r"[\]\]a-z\-9\~\~\^]");
        check("[^]--/]", "", r"[^\]-\-/]");
        check("[+--]", "", r"[+-\-]");
        check(r"[\d-z\b\<]", "", r"[\d\-z\x08\x3C]");
        check("[a #]", "x", r"(?x)[a\u{20}\#]");
        check(r"a\<b\>", "", r"a\x3Cb\x3E");
        check("^{a}{2}", "", r"^\{a}{2}");
        check(r"\x{41}\p{Lu}{1,}", "", r"\x{41}\p{Lu}{1,}");
        check("a(?#(note)b", "", "ab");
        check("a#b)\nc", "x", "(?x)ac");
    }

    #[test]
    fn the_end_is_taken_where_nothing_follows_it_and_looked_at_elsewhere() {
        check("d$", "", r"d(?:\n?\z)");
        check(r"d\Z", "m", r"(?m)d(?:\n?\z)");
        check("d$", "m", "(?m)d$");
        check("(?m)d$", "", "(?m)d$");
        check("(?m:d$)e$", "", r"(?m:d$)e(?:\n?\z)");
        check("(?m-m:d$)", "", r"(?m-m:d(?:\n?\z))");
        check("(a$|(?:b$))|c$", "", r"(a(?:\n?\z)|(?:b(?:\n?\z)))|c(?:\n?\z)");
        check(r"(a$|b)\n", "", r"(a(?=\n?\z)|b)\n");
        check("(a$(b))", "", r"(a(?=\n?\z)(b))");
        check("(?<=a$)", "", r"(?<=a(?=\n?\z))");
        check(r"[$]\$", "", r"[$]\$");
        assert_eq!(translate_for_extraction("d$", ""), r"d(?=\n?\z)");
        assert_eq!(translate_for_extraction("(d)+", "i"), "(?i)(d)+");
    }
}
