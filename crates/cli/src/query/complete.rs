//! What the shell completes: keywords and functions, the names of properties after a dot, names of
//! databases and containers after `\use`.

use std::collections::BTreeSet;

use orrery_types::Value;

/// Words of the language.
const KEYWORDS: &[&str] = &[
    "SELECT",
    "DISTINCT",
    "TOP",
    "VALUE",
    "AS",
    "FROM",
    "JOIN",
    "IN",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "EXISTS",
    "ARRAY",
    "GROUP BY",
    "ORDER BY",
    "ASC",
    "DESC",
    "OFFSET",
    "LIMIT",
    "RANK",
    "null",
    "true",
    "false",
    "undefined",
    "COUNT(",
    "SUM(",
    "MIN(",
    "MAX(",
    "AVG(",
];

/// Commands of the shell.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("\\use", "DATABASE/CONTAINER   ask this container"),
    ("\\list", "                    list databases, and the containers of the current one"),
    ("\\explain", "                 print plans instead of rows, or rows again"),
    ("\\table", "                   print tables"),
    ("\\json", "                    print JSON arrays"),
    ("\\lines", "                   print JSON lines"),
    ("\\x", "                       print a line for each property, or tables again"),
    ("\\key", "[VALUE]              read one logical partition, or all again"),
    ("\\set", "NAME=VALUE           give a parameter its value"),
    ("\\get", "ID [KEY]             print an item"),
    ("\\put", "JSON                 write an item: create it, or replace the one that exists"),
    ("\\create", "JSON              create an item; refused if one with its id exists"),
    ("\\delete", "ID [KEY]          delete an item"),
    ("\\help", "                    list the commands"),
    ("\\quit", "                    leave; so does Ctrl-D"),
];

/// Everything that may be proposed.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// `database/container`, as `\use` takes them.
    pub(crate) places: Vec<String>,
    properties: BTreeSet<String>,
}

impl Words {
    pub(crate) fn new(places: Vec<String>) -> Self {
        Self { places, ..Self::default() }
    }

    /// Learns the names of properties from rows.
    pub(crate) fn learn(&mut self, rows: &[Value]) {
        for row in rows {
            self.learn_value(row);
        }
    }

    fn learn_value(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    if self.properties.len() < PROPERTIES_MAX {
                        self.properties.insert(name.to_string());
                    }
                    self.learn_value(value);
                }
            }
            Value::Array(elements) => elements.iter().take(10).for_each(|e| self.learn_value(e)),
            _ => {}
        }
    }
}

impl Words {
    /// What a line may go on with: where its last word begins, and what that may become.
    pub(crate) fn proposals(&self, line: &str) -> (usize, Vec<String>) {
        if let Some(place) = line.strip_prefix("\\use ") {
            let from = line.len() - place.len();
            let places = self.places.iter().filter(|known| known.starts_with(place));
            return (from, places.cloned().collect());
        }
        if line.starts_with('\\') {
            let commands = COMMANDS.iter().map(|(name, _)| *name);
            return (
                0,
                commands.filter(|name| name.starts_with(line)).map(str::to_owned).collect(),
            );
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let from = line
            .rfind(|c| !is_word(c))
            .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let word = &line[from..];
        if line[..from].ends_with('.') {
            let names = self.properties.iter().filter(|name| name.starts_with(word));
            return (from, names.cloned().collect());
        }
        if word.is_empty() {
            return (from, vec![]);
        }
        let begins = |known: &str| {
            known.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let keywords = KEYWORDS.iter().filter(|known| begins(known)).map(|k| (*k).to_owned());
        let functions = orrery_engine::query::function_names();
        let functions = functions.filter(|name| begins(name)).map(|name| format!("{name}("));
        let mut found: Vec<String> = keywords.chain(functions).collect();
        found.sort_unstable();
        found.dedup();
        (from, found)
    }
}

/// Names that are kept for completion; data may have more.
const PROPERTIES_MAX: usize = 1000;

/// Whether a text has an open parenthesis, bracket, brace or quote. Comments, from two hyphens to the
/// end of their line, do not count.
pub(crate) fn is_open(text: &str) -> bool {
    let (mut depth, mut quote, mut escaped) = (0_i32, None, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => match c {
                '"' | '\'' => quote = Some(c),
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                '-' if chars.peek() == Some(&'-') => drop(chars.by_ref().find(|c| *c == '\n')),
                _ => {}
            },
        }
    }
    quote.is_some() || depth > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_fit_the_place() {
        let mut words = Words { places: vec!["shop/books".into()], ..Words::default() };
        words.learn(&[Value::parse(br#"{"price":1,"tags":[{"label":"x"}]}"#).unwrap()]);
        let check = |line: &str, from: usize, expected: &[&str]| {
            let (at, found) = words.proposals(line);
            assert_eq!((at, found), (from, expected.iter().map(|s| (*s).to_owned()).collect()));
        };
        check("SELECT c.pr", 9, &["price"]);
        check("SELECT c.", 9, &["label", "price", "tags"]);
        check("sel", 0, &["SELECT"]);
        check("SELECT startsw", 7, &["STARTSWITH("]);
        check("\\use sh", 5, &["shop/books"]);
        check("\\exp", 0, &["\\explain"]);
        check("SELECT ", 7, &[]);
    }

    #[test]
    fn a_question_goes_on_while_something_is_open() {
        assert!(is_open("SELECT COUNT(") && is_open("SELECT 'a") && is_open("SELECT {a: ["));
        assert!(!is_open("SELECT '(' FROM c") && !is_open(r#"SELECT "\"(" "#) && !is_open(")"));
        assert!(
            !is_open("SELECT 1 -- it's") && is_open("SELECT ( -- )\n") && is_open("SELECT '--")
        );
    }
}
