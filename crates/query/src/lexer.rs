//! Text to tokens with byte spans. Keywords are ordinary words here: the parser knows where a word
//! is a keyword, because after a dot every word is a property name.

use std::sync::Arc;

use logos::Logos;

use crate::ast::Span;

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Logos)]
#[logos(skip r"[ \t\r\n]+")]
#[logos(skip(r"--[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub(crate) enum TokenKind {
    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Word,
    #[regex("@[A-Za-z_][A-Za-z0-9_]*")]
    Parameter,
    #[regex(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")]
    #[regex(r"\.[0-9]+([eE][+-]?[0-9]+)?")]
    Number,
    #[regex("0[xX][0-9a-fA-F]+")]
    Hex,
    #[regex(r#""([^"\\\x00-\x1f]|\\[^\x00-\x1f])*""#)]
    #[regex(r"'([^'\\\x00-\x1f]|\\[^\x00-\x1f])*'")]
    String,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("&")]
    Ampersand,
    #[token("|")]
    Bar,
    #[token("^")]
    Caret,
    #[token("~")]
    Tilde,
    #[token("<<")]
    ShiftLeft,
    #[token(">>")]
    ShiftRight,
    #[token(">>>")]
    ShiftRightUnsigned,
    #[token("=")]
    Equal,
    #[token("!=")]
    #[token("<>")]
    NotEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessOrEqual,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterOrEqual,
    #[token("||")]
    BarBar,
    #[token("??")]
    Coalesce,
    #[token("?")]
    Question,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token(",")]
    Comma,
    #[token("(")]
    OpenParen,
    #[token(")")]
    CloseParen,
    #[token("[")]
    OpenBracket,
    #[token("]")]
    CloseBracket,
    #[token("{")]
    OpenBrace,
    #[token("}")]
    CloseBrace,
    /// Text that is no token.
    Invalid,
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
    let mut list: Vec<Token> = TokenKind::lexer(text)
        .spanned()
        .map(|(kind, range)| Token {
            kind: kind.unwrap_or(TokenKind::Invalid),
            span: Span::new(range.start, range.end),
        })
        .collect();
    list.push(Token { kind: TokenKind::End, span: Span::new(text.len(), text.len()) });
    list
}

/// The content of a string literal, quotes included in `literal`; `None` for an unknown escape or
/// half a surrogate pair.
pub(crate) fn unescape(literal: &str) -> Option<Arc<str>> {
    let inner = literal.get(1..literal.len().checked_sub(1)?)?;
    if !inner.contains('\\') {
        return Some(inner.into());
    }
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            c @ ('\'' | '"' | '\\' | '/') => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => unicode_escape(&mut chars)?,
            _ => return None,
        });
    }
    Some(out.into())
}

fn unicode_escape(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let first = four_digits(chars)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    if chars.next()? != '\\' || chars.next()? != 'u' {
        return None;
    }
    let second = four_digits(chars)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn four_digits(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    let mut code = 0;
    for _ in 0..4 {
        code = code * 16 + chars.next()?.to_digit(16)?;
    }
    Some(code)
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
            kinds("a>>>b--c\n>>=/* * */||"),
            [Word, ShiftRightUnsigned, Word, ShiftRight, Equal, BarBar, End]
        );
        assert_eq!(kinds("12. .5 1e-3 0xFF"), [Number, Number, Number, Hex, End]);
        assert_eq!(kinds("'it\\'s' \"a"), [String, Invalid, End]);
    }

    #[test]
    fn escapes_are_those_of_json_and_the_apostrophe() {
        let check = |literal: &str, expected: Option<&str>| {
            assert_eq!(unescape(literal).as_deref(), expected, "{literal}");
        };
        check(r#""a\u0042\n\/""#, Some("aB\n/"));
        check(r"'\ud83d\ude00'", Some("😀"));
        check(r"'\ud83d'", None);
        check(r"'\q'", None);
    }
}
