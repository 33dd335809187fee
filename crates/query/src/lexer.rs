//! Text to tokens with byte spans. Keywords are ordinary words here: the parser knows which words are reserved.
//! An invalid token is one of three kinds of errors, which the parser reports when it reaches the token; an
//! earlier error comes first.

use std::sync::Arc;

use crate::ast::Span;

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Parameter,
    /// Digits alone.
    Integer,
    /// A number with a point or an exponent.
    Decimal,
    Hex,
    String,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Ampersand,
    Bar,
    Caret,
    Tilde,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BarBar,
    Coalesce,
    Question,
    Colon,
    Dot,
    Comma,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    /// A character that begins no token.
    Invalid,
    /// A number without its digits, or beyond what a double holds.
    InvalidNumber,
    /// A string that does not end, or with a broken `\u`.
    InvalidString,
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// All tokens, ended by one [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut list = Vec::with_capacity(text.len() / 4 + 1);
    let mut at = skip(text, 0);
    while at < text.len() {
        let (kind, length) = token(&text[at..]);
        list.push(Token { kind, span: Span::new(at, at + length) });
        at = skip(text, at + length);
    }
    list.push(Token { kind: TokenKind::End, span: Span::new(text.len(), text.len()) });
    list
}

/// The first byte behind white space and comments.
fn skip(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text[at..].trim_start();
        at = text.len() - rest.len();
        if !rest.starts_with("--") {
            return at;
        }
        at += rest.find('\n').unwrap_or(rest.len());
    }
}

/// The token that the text begins with, and its bytes.
fn token(text: &str) -> (TokenKind, usize) {
    let bytes = text.as_bytes();
    let second = bytes.get(1).copied().unwrap_or(0);
    match bytes[0] {
        b'"' | b'\'' => string(text),
        b'0' if second | 0x20 == b'x' => hex(bytes),
        b'0'..=b'9' => number(text),
        b'.' if second.is_ascii_digit() => number(text),
        b'@' => match word_bytes(&text[1..]) {
            0 => (TokenKind::Invalid, 1),
            length => (TokenKind::Parameter, 1 + length),
        },
        first => match word_bytes(text) {
            0 => operator(first, &bytes[1..])
                .unwrap_or((TokenKind::Invalid, text.chars().next().map_or(1, char::len_utf8))),
            length => (TokenKind::Word, length),
        },
    }
}

/// Bytes of the word that the text begins with; 0 for none.
fn word_bytes(text: &str) -> usize {
    let begins = |c: char| c == '_' || c.is_alphabetic();
    if !text.starts_with(begins) {
        return 0;
    }
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

fn operator(first: u8, rest: &[u8]) -> Option<(TokenKind, usize)> {
    use TokenKind as T;
    let kind = match (first, rest) {
        (b'>', [b'>', b'>', ..]) => return Some((T::ShiftRightUnsigned, 3)),
        (b'>', [b'>', ..]) => return Some((T::ShiftRight, 2)),
        (b'>', [b'=', ..]) => return Some((T::GreaterOrEqual, 2)),
        (b'<', [b'<', ..]) => return Some((T::ShiftLeft, 2)),
        (b'<', [b'=', ..]) => return Some((T::LessOrEqual, 2)),
        (b'<', [b'>', ..]) | (b'!', [b'=', ..]) => return Some((T::NotEqual, 2)),
        (b'|', [b'|', ..]) => return Some((T::BarBar, 2)),
        (b'?', [b'?', ..]) => return Some((T::Coalesce, 2)),
        (b'>', _) => T::Greater,
        (b'<', _) => T::Less,
        (b'|', _) => T::Bar,
        (b'?', _) => T::Question,
        (b'+', _) => T::Plus,
        (b'-', _) => T::Minus,
        (b'*', _) => T::Star,
        (b'/', _) => T::Slash,
        (b'%', _) => T::Percent,
        (b'&', _) => T::Ampersand,
        (b'^', _) => T::Caret,
        (b'~', _) => T::Tilde,
        (b'=', _) => T::Equal,
        (b':', _) => T::Colon,
        (b'.', _) => T::Dot,
        (b',', _) => T::Comma,
        (b'(', _) => T::OpenParen,
        (b')', _) => T::CloseParen,
        (b'[', _) => T::OpenBracket,
        (b']', _) => T::CloseBracket,
        (b'{', _) => T::OpenBrace,
        (b'}', _) => T::CloseBrace,
        _ => return None,
    };
    Some((kind, 1))
}

fn hex(bytes: &[u8]) -> (TokenKind, usize) {
    let digits = bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
    (if digits == 0 { TokenKind::InvalidNumber } else { TokenKind::Hex }, 2 + digits)
}

fn number(text: &str) -> (TokenKind, usize) {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    let mut kind = TokenKind::Integer;
    if bytes.get(end) == Some(&b'.') {
        kind = TokenKind::Decimal;
        end += 1 + digits(end + 1);
    }
    if bytes.get(end).is_some_and(|b| b | 0x20 == b'e') {
        kind = TokenKind::Decimal;
        end += 1;
        end += usize::from(bytes.get(end).is_some_and(|b| matches!(b, b'+' | b'-')));
        let exponent = digits(end);
        if exponent == 0 {
            return (TokenKind::InvalidNumber, end);
        }
        end += exponent;
    }
    let is_finite = text[..end].parse::<f64>().is_ok_and(f64::is_finite);
    // Letters directly behind belong to the token, and spoil it.
    match word_bytes(&text[end..]) {
        0 if is_finite => (kind, end),
        letters => (TokenKind::InvalidNumber, end + letters),
    }
}

/// Any character may stand in a string, line ends as well.
fn string(text: &str) -> (TokenKind, usize) {
    let bytes = text.as_bytes();
    let mut at = 1;
    let mut kind = TokenKind::String;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match *byte {
            quote if quote == bytes[0] => return (kind, at),
            b'\\' => {
                let digits = bytes.get(at + 1..).unwrap_or_default();
                let is_broken = bytes.get(at) == Some(&b'u')
                    && digits.iter().take(4).filter(|b| b.is_ascii_hexdigit()).count() < 4;
                if is_broken {
                    kind = TokenKind::InvalidString;
                }
                at += 1;
            }
            _ => {}
        }
    }
    (TokenKind::InvalidString, text.len())
}

/// The content of a string literal, quotes included in `literal`. A backslash before any other
/// character than those of JSON is passed over; half a surrogate pair is no character of its own and
/// becomes U+FFFD.
pub(crate) fn unescape(literal: &str) -> Arc<str> {
    let inner = &literal[1..literal.len() - 1];
    if !inner.contains('\\') {
        return inner.into();
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut behind = rest[at + 1..].chars();
        match behind.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let (character, digits) = unicode_escape(behind.as_str());
                out.push(character);
                behind = behind.as_str()[digits..].chars();
            }
            Some(other) => out.push(other),
            None => {}
        }
        rest = behind.as_str();
    }
    out.push_str(rest);
    out.into()
}

/// The character of the digits behind `\u`, and the bytes that they are.
fn unicode_escape(text: &str) -> (char, usize) {
    let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(first) = unit(text) else { return (char::REPLACEMENT_CHARACTER, 0) };
    let second = text.get(4..).and_then(|t| t.strip_prefix("\\u")).and_then(unit);
    match (first, second) {
        (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 10)
        }
        _ => (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).iter().map(|t| t.kind).collect()
    }

    #[test]
    fn the_longest_operator_wins_and_comments_vanish() {
        use TokenKind::*;
        assert_eq!(
            kinds("a>>>b--c\n>>=--\n||"),
            [Word, ShiftRightUnsigned, Word, ShiftRight, Equal, BarBar, End]
        );
        assert_eq!(kinds("12. .5 1e-3 0xFF 7"), [Decimal, Decimal, Decimal, Hex, Integer, End]);
        assert_eq!(kinds("é_1\u{a0}@é\u{2003}\u{c}a"), [Word, Parameter, Word, End]);
    }

    #[test]
    fn what_is_no_token_is_told_apart() {
        use TokenKind::*;
        assert_eq!(kinds("'it\\'s' \"a"), [String, InvalidString, End]);
        assert_eq!(kinds("'a\nb\u{1}' '\\u12'"), [String, InvalidString, End]);
        assert_eq!(
            kinds("1e+ 0x 1e309 1c 1e308"),
            [InvalidNumber, InvalidNumber, InvalidNumber, InvalidNumber, Decimal, End]
        );
        assert_eq!(kinds("$ @ ! \u{feff}"), [Invalid, Invalid, Invalid, Invalid, End]);
    }

    #[test]
    fn escapes_are_those_of_json_and_any_other_character_stands_for_itself() {
        let check = |literal: &str, expected: &str| {
            assert_eq!(&*unescape(literal), expected, "{literal}");
        };
        check(r#""a\u0042\n\/""#, "aB\n/");
        check(r"'\ud83d\ude00'", "😀");
        check(r"'\ud83d\u0041\ude00'", "\u{fffd}A\u{fffd}");
        check(r"'\q\x41\'\\'", r"qx41'\");
    }
}
