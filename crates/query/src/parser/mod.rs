//! Tokens to syntax tree by recursive descent; operators by a table of binding powers (`expr`),
//! clauses in `select`. Nesting is counted on the way down and the height of every tree is
//! bounded, so that no text can exhaust the stack here or in any later pass.

mod expr;
mod select;

use orrery_types::limits;

use crate::ast::{Expr, ExprKind, Select, Span};
use crate::error::QueryError;
use crate::lexer::{Token, TokenKind, tokens};

/// Words that are no names, in any case.
const RESERVED: [&str; 46] = [
    "AND", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CONVERT", "CROSS", "DESC",
    "DISTINCT", "ELSE", "END", "ESCAPE", "EXISTS", "FOR", "FROM", "GROUP", "HAVING", "IN", "INNER",
    "INSERT", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "NOT", "OFFSET", "ON", "OR", "ORDER",
    "OUTER", "OVER", "RIGHT", "SELECT", "SET", "THEN", "TOP", "UPDATE", "VALUE", "WHEN", "WHERE",
    "WITH",
];

/// Words that are no names as they stand here; in another case they are.
const RESERVED_AS_WRITTEN: [&str; 7] =
    ["true", "false", "null", "undefined", "udf", "NaN", "Infinity"];

/// Whether a word cannot be a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED_AS_WRITTEN.contains(&word) || RESERVED.iter().any(|w| word.eq_ignore_ascii_case(w))
}

pub(crate) struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// What is wrong with the text although it obeys the grammar; the first of it.
    noted: Option<QueryError>,
}

/// Parses a whole query.
pub(crate) fn parse_query(text: &str) -> Result<Select, QueryError> {
    let mut parser = Parser::new(text)?;
    let select = parser.select()?;
    parser.end()?;
    parser.noted.map_or(Ok(select), Err)
}

/// Parses `FROM c WHERE …`, the condition of a patch; it selects the items for which it holds.
pub(crate) fn parse_condition(text: &str) -> Result<Select, QueryError> {
    let mut parser = Parser::new(text)?;
    let select = parser.condition()?;
    parser.end()?;
    parser.noted.map_or(Ok(select), Err)
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self, QueryError> {
        if text.len() > limits::QUERY_TEXT_BYTES_MAX {
            return Err(QueryError::runtime(format!(
                "The SQL query text exceeded the maximum limit of {} characters.",
                limits::QUERY_TEXT_BYTES_MAX
            )));
        }
        Ok(Self { text, tokens: tokens(text), at: 0, depth: 0, noted: None })
    }

    fn peek(&self) -> Token {
        self.peek_after(0)
    }

    fn peek_after(&self, n: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + n).min(last)]
    }

    fn advance(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn previous_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].span
    }

    fn text_of(&self, token: Token) -> &'t str {
        &self.text[token.span.start..token.span.end]
    }

    fn is(&self, kind: TokenKind) -> bool {
        self.peek().kind == kind
    }

    fn accept(&mut self, kind: TokenKind) -> bool {
        let found = self.is(kind);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Result<Token, QueryError> {
        if self.is(kind) { Ok(self.advance()) } else { Err(self.unexpected()) }
    }

    fn token_is_word(&self, token: Token, word: &str) -> bool {
        token.kind == TokenKind::Word && self.text_of(token).eq_ignore_ascii_case(word)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token_is_word(self.peek(), word)
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<(), QueryError> {
        if self.accept_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_identifier(&self, token: Token) -> bool {
        token.kind == TokenKind::Word && !is_reserved(self.text_of(token))
    }

    fn identifier(&mut self) -> Result<std::sync::Arc<str>, QueryError> {
        if !self.is_identifier(self.peek()) {
            return Err(self.unexpected());
        }
        let token = self.advance();
        Ok(self.text_of(token).into())
    }

    fn end(&mut self) -> Result<(), QueryError> {
        if self.is(TokenKind::End) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The syntax error at the current token.
    fn unexpected(&self) -> QueryError {
        let token = self.peek();
        self.syntax_error(token)
    }

    fn syntax_error(&self, token: Token) -> QueryError {
        // A token may be half a megabyte of string; the message shows its beginning.
        let near: String = self.text_of(token).chars().take(100).collect();
        let (code, message) = match token.kind {
            TokenKind::End => ("SC1002", "Syntax error, unexpected end-of-file.".to_owned()),
            TokenKind::Invalid => ("SC1010", format!("Syntax error, invalid token '{near}'.")),
            TokenKind::InvalidNumber => {
                ("SC1011", format!("Syntax error, invalid numeric value token '{near}'."))
            }
            TokenKind::InvalidString => {
                ("SC1012", format!("Syntax error, invalid string literal token '{near}'."))
            }
            _ => ("SC1001", format!("Syntax error, incorrect syntax near '{near}'.")),
        };
        QueryError::at(self.text, token.span, code, message)
    }

    /// Remembers a fault that does not keep the text from being read to its end.
    fn note(&mut self, span: Span, code: &'static str, message: impl Into<Box<str>>) {
        if self.noted.is_none() {
            self.noted = Some(QueryError::at(self.text, span, code, message));
        }
    }

    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        if self.depth >= limits::QUERY_NESTING_MAX {
            return Err(self.too_complex());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn too_complex(&self) -> QueryError {
        let message = "The SQL query is nested too deeply or too complex.";
        QueryError::at(self.text, self.peek().span, "SC1001", message)
    }

    /// A node, unless its tree grows too tall.
    fn node(&self, kind: ExprKind, span: Span) -> Result<Expr, QueryError> {
        let expr = Expr::new(kind, span);
        if expr.height() > limits::QUERY_TREE_HEIGHT_MAX {
            Err(self.too_complex())
        } else {
            Ok(expr)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canonical: &str) {
        assert_eq!(parse_query(text).expect(text).to_string(), canonical);
    }

    fn check_error(text: &str, code: &str, says: &str) {
        let shown: String = text.chars().take(80).collect();
        let Err(error) = parse_query(text) else { panic!("{shown} should be refused") };
        assert_eq!(error.code(), Some(code), "{shown}: {error}");
        assert!(error.to_string().contains(says), "{shown}: {error}");
    }

    #[test]
    fn operators_bind_as_the_table_says() {
        check("SELECT VALUE 2+3*4-6/2", "SELECT VALUE ((2 + (3 * 4)) - (6 / 2))");
        check("SELECT VALUE 1 ? 2 ?? 3 : 4", "SELECT VALUE (1 ? (2 ?? 3) : 4)");
        check("SELECT VALUE a OR b AND NOT c = 1", "SELECT VALUE (a OR (b AND ((NOT c) = 1)))");
        check("SELECT VALUE a & 3 + 1", "SELECT VALUE ((a & 3) + 1)");
        check("SELECT VALUE a | b & c", "SELECT VALUE ((a | b) & c)");
        check("SELECT VALUE a >> b & c", "SELECT VALUE (a >> (b & c))");
        check("SELECT VALUE a = b < c", "SELECT VALUE ((a = b) < c)");
        check("SELECT VALUE a ?? b ?? c", "SELECT VALUE (a ?? (b ?? c))");
        check("SELECT VALUE a ?? b BETWEEN 1 AND 2", "SELECT VALUE (a ?? (b BETWEEN 1 AND 2))");
        check("SELECT VALUE a LIKE 'x' = b", "SELECT VALUE (a LIKE (\"x\" = b))");
        check("SELECT VALUE a & 4 = 4", "SELECT VALUE ((a & 4) = 4)");
        check("SELECT VALUE a = 'x' || 'y'", "SELECT VALUE (a = (\"x\" || \"y\"))");
        check("SELECT VALUE NOT a IN (1)", "SELECT VALUE ((NOT a) IN (1))");
        check("SELECT VALUE a and b AND c", "SELECT VALUE (a AND b AND c)");
        check("SELECT VALUE - -2", "SELECT VALUE (- -2)");
        check("SELECT VALUE -(1)", "SELECT VALUE (- 1)");
        check("SELECT VALUE [-0, -0.0]", "SELECT VALUE [0, -0.0]");
        check("SELECT VALUE 9.29198732864622e16", "SELECT VALUE 9.29198732864622e16");
        check("SELECT VALUE -9223372036854775808", "SELECT VALUE -9223372036854775808");
        check(
            "SELECT VALUE a ? b : c ? d : e between 1 and 2",
            "SELECT VALUE (a ? b : (c ? d : (e BETWEEN 1 AND 2)))",
        );
    }

    #[test]
    fn clauses_come_back_in_canonical_form() {
        check(
            "select distinct c.a x, c['b c'] from c join t in c.t where c.k not like 'a%' \
             escape '!' group by c.a order by c.a desc, c.b offset 1 limit @n",
            "SELECT DISTINCT c.a AS x, c[\"b c\"] FROM c JOIN t IN c.t \
             WHERE (c.k NOT LIKE \"a%\" ESCAPE \"!\") GROUP BY c.a ORDER BY c.a DESC, c.b \
             OFFSET 1 LIMIT @n",
        );
        check("SELECT c['value'].x AS 'a b' FROM c", "SELECT c[\"value\"].x AS \"a b\" FROM c");
        check("SELECT TRUE.UNION FROM TRUE", "SELECT TRUE.UNION FROM TRUE");
        check(
            "SELECT VALUE ALL(SELECT 1 WHERE a)",
            "SELECT VALUE (NOT EXISTS(SELECT 1 WHERE (NOT a)))",
        );
        check("SELECT VALUE LEFT('a', 1)", "SELECT VALUE LEFT(\"a\", 1)");
        check(
            "SELECT * FROM (SELECT VALUE 1) AS s ORDER BY RANK RRF(a(), b())",
            "SELECT * FROM (SELECT VALUE 1) AS s ORDER BY RANK RRF(a(), b())",
        );
    }

    #[test]
    fn syntax_errors_name_the_token_and_its_place() {
        check_error("SELECT * FORM c", "SC1001", "near 'FORM'");
        check_error("SELECT * FROM c ORDER BY RANK c.a - c.b", "SC2221", "FullTextScore");
        check_error("SELECT c.a, FROM c", "SC1001", "near 'FROM'");
        check_error("SELECT TOP -1 * FROM c", "SC1001", "near '-'");
        check_error("SELECT VALUE 'abc", "SC1012", "token ''abc'");
        check_error("SELECT VALUE \"\\u00\"", "SC1012", "string");
        check_error("SELECT VALUE 1e309", "SC1011", "1e309");
        check_error("SELECT VALUE $", "SC1010", "'$'");
        check_error("SELECT VALUE 1 /* two */", "SC1001", "near '*'");
        check_error("SELECT c.order FROM c", "SC1001", "near 'order'");
        check_error("SELECT TOP 1 DISTINCT c.a FROM c", "SC1001", "near 'DISTINCT'");
        check_error("SELECT c.a FROM c TOP", "SC1001", "near 'TOP'");
        check_error("SELECT VALUE 1f", "SC1011", "'1f'");
        check_error("SELECT * FROM (c)", "SC1001", "near 'c'");
        check_error("SELECT * FROM c ORDER BY RANK a(), b()", "SC1001", "near ','");
        check_error("SELECT * FROM c ORDER BY RANK a() / 2", "SC1001", "near '/'");
        check_error("SELECT * FROM c ORDER BY RANK a() DESC", "SC2222", "sort order");
        check_error("SELECT * FROM c OFFSET 18446744073709551615 LIMIT 1", "SC1001", "near '184");
        check_error("SELECT VALUE a AND b BETWEEN 1 AND 2", "SC1001", "near 'BETWEEN'");
        check_error("SELECT VALUE b BETWEEN 1 AND 2 OR a", "SC1001", "near 'OR'");
        check_error("SELECT VALUE a IN (1) = b", "SC1001", "near '='");
        check_error("SELECT 1 FROM x IN [1]", "SC1001", "near '['");
        check_error("SELECT c.a, c['a'] FROM c", "SC2022", "'a'");
        check_error("SELECT VALUE {x: 1, 'x': 2}", "SC2022", "'x'");
        check_error("SELECT TOP 1 * FROM c OFFSET 1 LIMIT 2", "SC2205", "TOP");
        check_error("SELECT TOP 1.5 * FROM c", "SC2060", "integer");
        check_error("SELECT VALUE a LIKE 'b' ESCAPE 'cc'", "SC2207", "ESCAPE");
        check_error("SELECT *", "SC1021", "FROM");
        check_error("SELECT VALUE {a:1} FROM c LIMIT 1", "SC1001", "near 'LIMIT'");
        check_error("SELECT VALUE *", "SC1001", "near '*'");
        check_error("SELECT *, 1 FROM c", "SC1001", "near ','");
        check_error("", "SC1002", "end-of-file");
        check_error("SELECT VALUE 1 HAVING 2", "SC1001", "near 'HAVING'");
        let error = parse_query("SELECT * FORM c").unwrap_err();
        assert!(error.to_json().contains(r#""location":{"start":9,"end":13}"#));
    }

    #[test]
    fn hostile_texts_are_refused_without_harm() {
        let nested = |n: usize| format!("SELECT VALUE {}1{}", "(".repeat(n), ")".repeat(n));
        assert!(parse_query(&nested(100)).is_ok());
        check_error(&nested(1_000), "SC1001", "nested too deeply");
        check_error(&nested(100_000), "SC1001", "nested too deeply");
        for unit in ["NOT ", "- ", "[", "{a:", "f(", "1?", "EXISTS(SELECT VALUE "] {
            check_error(&format!("SELECT VALUE {}", unit.repeat(20_000)), "SC1001", "");
        }
        check_error(&format!("SELECT VALUE 1{}", "+1".repeat(100_000)), "SC1001", "complex");
        check_error(&format!("SELECT VALUE c{}", ".a".repeat(100_000)), "SC1001", "complex");
        let froms = format!("SELECT * FROM {}", "(SELECT * FROM ".repeat(5_000));
        check_error(&froms, "SC1001", "");
        let long = parse_query(&format!("SELECT VALUE '{}'", "x".repeat(600_000))).unwrap_err();
        assert!(long.to_string().contains("exceeded the maximum limit"));
    }

    #[test]
    fn ten_thousand_ors_are_one_node() {
        let terms: Vec<String> = (0..10_000).map(|i| format!("c.a = {i}")).collect();
        let query = parse_query(&format!("SELECT * FROM c WHERE {}", terms.join(" OR ")));
        assert!(query.unwrap().filter.unwrap().height() < 5);
    }
}
