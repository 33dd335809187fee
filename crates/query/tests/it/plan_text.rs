//! Two texts of a query plan are the same when they differ in nothing but white space, brackets that
//! say nothing, the notation of numbers, `c["n"]` for `c.n` and the case of function names.

use orrery_types::Value;

/// The text as tokens in one spelling.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let tree = tree(spelled(&lex(text)));
    let mut out = Vec::new();
    flatten(&tidied(&tidied(&tree)), &mut out);
    out
}

enum Part {
    Token(String),
    Group(Vec<Part>),
}

impl Part {
    fn token(&self) -> Option<&str> {
        match self {
            Self::Token(token) => Some(token),
            Self::Group(_) => None,
        }
    }

    fn copy(&self) -> Self {
        match self {
            Self::Token(token) => Self::Token(token.clone()),
            Self::Group(parts) => Self::Group(parts.iter().map(Self::copy).collect()),
        }
    }
}

const OPERATORS: [&str; 9] = [">>>", "<<", ">>", "<=", ">=", "!=", "<>", "||", "??"];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn starts_word(token: &str) -> bool {
    token.chars().next().is_some_and(is_word)
}

fn lex(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest, first);
        let (token, behind) = rest.split_at(length);
        out.push(normal(token, first));
        rest = behind.trim_start();
    }
    out
}

/// Bytes of the token that the text begins with.
fn token_length(text: &str, first: char) -> usize {
    let run = |from: usize, is: &dyn Fn(char) -> bool| {
        text[from..].find(|c| !is(c)).map_or(text.len(), |at| from + at)
    };
    let signed_exponent = |end: usize| {
        let sign = text[end..].starts_with(['+', '-']) && text[..end].ends_with(['e', 'E']);
        let digits = sign && text[end + 1..].starts_with(|c: char| c.is_ascii_digit());
        if digits { run(end + 1, &|c| c.is_ascii_digit()) } else { end }
    };
    if first == '"' || first == '\'' {
        let mut escaped = false;
        for (at, c) in text.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == first => return at + 1,
                _ => {}
            }
        }
        return 1;
    }
    if text.starts_with("{documentdb-")
        && let Some(end) = text.find('}')
    {
        return end + 1;
    }
    if first.is_ascii_digit() {
        return signed_exponent(run(0, &|c| is_word(c) || c == '.'));
    }
    if first == '.' && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
        let end = run(1, &|c| c.is_ascii_digit());
        let end = if text[end..].starts_with(['e', 'E']) { end + 1 } else { end };
        return signed_exponent(run(end, &|c| c.is_ascii_digit()));
    }
    if is_word(first) || first == '@' || first == '$' {
        return run(0, &|c| is_word(c) || c == '@' || c == '$');
    }
    let operator = OPERATORS.iter().find(|operator| text.starts_with(**operator));
    operator.map_or(first.len_utf8(), |operator| operator.len())
}

/// Numbers and strings by value.
fn normal(token: &str, first: char) -> String {
    if first.is_ascii_digit() || (first == '.' && token.len() > 1) {
        let hex = token.strip_prefix("0x").or_else(|| token.strip_prefix("0X"));
        let number = match hex {
            Some(digits) => {
                let digit = |c: char| c.to_digit(16).map(f64::from);
                digits.chars().try_fold(0.0, |sum, c| Some(sum * 16.0 + digit(c)?))
            }
            None => token.parse::<f64>().ok(),
        };
        return number.map_or_else(|| token.to_owned(), |n| format!("{n:?}"));
    }
    if first == '"'
        && let Ok(value) = Value::parse(token.as_bytes())
    {
        return value.to_json();
    }
    token.to_owned()
}

/// One spelling for what means the same: `c["n"]` and `c.n`, `count(` and `COUNT(`.
fn spelled(tokens: &[String]) -> Vec<String> {
    let is_name = |token: &str| {
        let inner = token.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        inner.is_some_and(|t| {
            t.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && t.chars().all(is_word)
        })
    };
    let mut out: Vec<String> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let is_step = match out.as_slice() {
            [.., of, open, name] if token == "]" && open == "[" && is_name(name) => {
                starts_word(of) || of.starts_with([']', ')'])
            }
            _ => false,
        };
        if is_step {
            let name = out.pop().expect("matched above");
            out.pop();
            out.push(".".to_owned());
            out.push(name[1..name.len() - 1].to_owned());
        } else {
            out.push(token.clone());
        }
    }
    let calls = |i: usize| {
        out[i].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && out.get(i + 1).is_some_and(|next| next == "(")
            && (i == 0 || out[i - 1] != ".")
    };
    (0..out.len()).map(|i| if calls(i) { out[i].to_uppercase() } else { out[i].clone() }).collect()
}

fn tree(tokens: Vec<String>) -> Vec<Part> {
    let mut stack: Vec<Vec<Part>> = vec![Vec::new()];
    for token in tokens {
        if token == "(" {
            stack.push(Vec::new());
        } else if token == ")" && stack.len() > 1 {
            let group = stack.pop().expect("more than one");
            stack.last_mut().expect("one is left").push(Part::Group(group));
        } else {
            stack.last_mut().expect("never empty").push(Part::Token(token));
        }
    }
    while stack.len() > 1 {
        let open = stack.pop().expect("more than one");
        let outer = stack.last_mut().expect("one is left");
        outer.push(Part::Token("(".to_owned()));
        outer.extend(open);
    }
    stack.pop().expect("never empty")
}

const WORDS: [&str; 15] = [
    "AND", "OR", "NOT", "WHERE", "BY", "SELECT", "VALUE", "BETWEEN", "LIKE", "ESCAPE", "FROM",
    "AS", "JOIN", "TOP", "DISTINCT",
];

/// AND or OR, when these are all that stands between the parts.
fn chain(parts: &[Part]) -> Option<&str> {
    let mut found = None;
    for token in parts.iter().filter_map(Part::token) {
        match token {
            "SELECT" | "BETWEEN" | "?" => return None,
            "AND" | "OR" if found.is_some_and(|f| f != token) => return None,
            "AND" | "OR" => found = Some(token),
            _ => {}
        }
    }
    found
}

/// Without brackets that say nothing: `((a))`, and `(a AND b) AND c` for `a AND b AND c`.
fn tidied(parts: &[Part]) -> Vec<Part> {
    let mut out = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let Part::Group(group) = part else {
            out.push(part.copy());
            continue;
        };
        let mut group = tidied(group);
        let before = i.checked_sub(1).and_then(|i| parts[i].token());
        let is_call = before.is_some_and(|token| {
            (starts_word(token) || token.starts_with(']')) && !WORDS.contains(&token)
        });
        while !is_call && matches!(group.as_slice(), [Part::Group(_)]) {
            let Some(Part::Group(inner)) = group.pop() else { unreachable!("matched above") };
            group = inner;
        }
        match group.as_slice() {
            [Part::Token(token)] if !is_call && starts_word(token) => {
                out.push(Part::Token(token.clone()));
            }
            _ if !is_call && chain(&group).is_some() && chain(&group) == chain(parts) => {
                out.extend(group);
            }
            _ => out.push(Part::Group(group)),
        }
    }
    out
}

fn flatten(parts: &[Part], out: &mut Vec<String>) {
    for part in parts {
        match part {
            Part::Token(token) => out.push(token.clone()),
            Part::Group(group) => {
                out.push("(".to_owned());
                flatten(group, out);
                out.push(")".to_owned());
            }
        }
    }
}
