//! The shape of a query's text: what stays when values change. Statistics are kept by it, so values
//! of items must not get into it, and texts that differ in their values only must become one.

use crate::lexer::{TokenKind, tokens};

/// How long a shape may be; the rest is cut off.
const CHARS_MAX: usize = 400;

/// The text with `?` for every literal, lists of literals as one, and no more space than needed.
pub(crate) fn shape(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(CHARS_MAX));
    let (mut before, mut last, mut end) = (TokenKind::End, TokenKind::End, 0);
    for token in tokens(text) {
        let (start, stop) = (token.span.start, token.span.end);
        let Some(word) = text.get(start..stop) else { continue };
        if start > end && !out.is_empty() && token.kind != TokenKind::End {
            out.push(' ');
        }
        end = stop;
        // In `c["name"]` the string is a name.
        let is_name = last == TokenKind::OpenBracket
            && matches!(before, TokenKind::Word | TokenKind::CloseBracket | TokenKind::CloseParen);
        match token.kind {
            TokenKind::String if is_name => out.push_str(word),
            TokenKind::String
            | TokenKind::InvalidString
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Hex => push_value(&mut out),
            _ => out.push_str(word),
        }
        (before, last) = (last, token.kind);
        if out.len() > 4 * CHARS_MAX {
            break;
        }
    }
    if let Some((at, _)) = out.char_indices().nth(CHARS_MAX) {
        out.truncate(at);
        out.push('…');
    }
    out
}

/// A literal; one that follows another in a list is the same list.
fn push_value(out: &mut String) {
    let kept = out.trim_end();
    match kept.strip_suffix(',').map(str::trim_end) {
        Some(list) if list.ends_with('?') || list.ends_with('…') => {
            let length = list.trim_end_matches('…').trim_end_matches([',', ' ']).len();
            out.truncate(length);
            out.push_str(", …");
        }
        _ => out.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(shape(text), expected);
    }

    #[test]
    fn values_become_question_marks() {
        check(
            "SELECT * FROM c WHERE c.a = 'x' AND c.n>-1.5e3",
            "SELECT * FROM c WHERE c.a = ? AND c.n>-?",
        );
        check("SELECT * FROM c WHERE c.a = @a", "SELECT * FROM c WHERE c.a = @a");
        check(
            "SELECT c[\"first name\"], [1, \"b\"] FROM c",
            "SELECT c[\"first name\"], [?, …] FROM c",
        );
        check("SELECT c.a[0] FROM c", "SELECT c.a[?] FROM c");
    }

    #[test]
    fn lists_of_any_length_are_alike() {
        let two = shape("SELECT * FROM c WHERE c.a IN (1, 2)");
        assert_eq!(two, "SELECT * FROM c WHERE c.a IN (?, …)");
        assert_eq!(shape("SELECT * FROM c WHERE c.a IN (1,2,'three' , 4)"), two);
    }

    #[test]
    fn space_and_comments_are_left_out_and_long_texts_are_cut() {
        check("  SELECT *\n  FROM c -- all\n", "SELECT * FROM c");
        let long = format!("SELECT {} FROM c", "c.ä, ".repeat(500));
        assert_eq!(shape(&long).chars().count(), CHARS_MAX + 1);
        check("SELECT 'open", "SELECT ?");
    }
}
