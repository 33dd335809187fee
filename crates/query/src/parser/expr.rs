//! Expressions, level by level as the service's planner reads them; `docs/query.md` has the table.
//!
//! From loosest to tightest: `? :`; `??`, to the right; then either one BETWEEN or a chain of OR over AND
//! over IN and LIKE; comparisons and shifts, one level; `||`; `+ - & | ^`, one level; `* / %`; signs, `~`
//! and NOT; member access. So `NOT a = 1` compares `NOT a`, BETWEEN takes no AND beside it without
//! brackets, and nothing but AND, OR, `??` and `?` follows `IN (…)`.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use orrery_types::{Number, Value};

use super::Parser;
use crate::ast::{BinaryOp, Expr, ExprKind, Span, SubqueryKind, UnaryOp};
use crate::error::QueryError;
use crate::lexer::{Token, TokenKind, unescape};

/// An expression after one more operator was looked for: longer by it, or whole as it is.
type Grown = ControlFlow<Expr, Expr>;

const COMPARISON: u8 = 1;
const CONCAT: u8 = 2;
const ADDITIVE: u8 = 3;
const MULTIPLICATIVE: u8 = 4;

/// The operators between two operands that bind more tightly than IN and LIKE; all are left-associative.
fn binary_operator(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    Some(match kind {
        TokenKind::Equal => (BinaryOp::Equal, COMPARISON),
        TokenKind::NotEqual => (BinaryOp::NotEqual, COMPARISON),
        TokenKind::Less => (BinaryOp::Less, COMPARISON),
        TokenKind::LessOrEqual => (BinaryOp::LessOrEqual, COMPARISON),
        TokenKind::Greater => (BinaryOp::Greater, COMPARISON),
        TokenKind::GreaterOrEqual => (BinaryOp::GreaterOrEqual, COMPARISON),
        TokenKind::ShiftLeft => (BinaryOp::ShiftLeft, COMPARISON),
        TokenKind::ShiftRight => (BinaryOp::ShiftRight, COMPARISON),
        TokenKind::ShiftRightUnsigned => (BinaryOp::ShiftRightUnsigned, COMPARISON),
        TokenKind::BarBar => (BinaryOp::Concat, CONCAT),
        TokenKind::Plus => (BinaryOp::Add, ADDITIVE),
        TokenKind::Minus => (BinaryOp::Subtract, ADDITIVE),
        TokenKind::Ampersand => (BinaryOp::BitAnd, ADDITIVE),
        TokenKind::Bar => (BinaryOp::BitOr, ADDITIVE),
        TokenKind::Caret => (BinaryOp::BitXor, ADDITIVE),
        TokenKind::Star => (BinaryOp::Multiply, MULTIPLICATIVE),
        TokenKind::Slash => (BinaryOp::Divide, MULTIPLICATIVE),
        TokenKind::Percent => (BinaryOp::Modulo, MULTIPLICATIVE),
        _ => return None,
    })
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expr(&mut self) -> Result<Expr, QueryError> {
        self.nested(|p| {
            let condition = p.coalesce()?;
            if !p.accept(TokenKind::Question) {
                return Ok(condition);
            }
            let yes = p.expr()?;
            p.expect(TokenKind::Colon)?;
            let no = p.expr()?;
            let span = condition.span.to(no.span);
            p.node(ExprKind::Conditional(condition, yes, no), span)
        })
    }

    fn coalesce(&mut self) -> Result<Expr, QueryError> {
        let mut operands = vec![self.logical()?];
        while self.accept(TokenKind::Coalesce) {
            operands.push(self.logical()?);
        }
        let mut right = operands.pop().expect("one was pushed");
        while let Some(left) = operands.pop() {
            let span = left.span.to(right.span);
            right = self.node(ExprKind::Binary(BinaryOp::Coalesce, left, right), span)?;
        }
        Ok(right)
    }

    /// One BETWEEN, or predicates joined by AND and OR.
    fn logical(&mut self) -> Result<Expr, QueryError> {
        let first = self.comparison()?;
        let negated = self.is_word("NOT");
        if self.token_is_word(self.peek_after(usize::from(negated)), "BETWEEN") {
            self.at += 1 + usize::from(negated);
            return self.between(first, negated);
        }
        let first = self.predicate(first)?;
        let first = self.conjunction(first)?;
        if !self.is_word("OR") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.accept_word("OR") {
            let next = self.comparison()?;
            let next = self.predicate(next)?;
            operands.push(self.conjunction(next)?);
        }
        self.chained(operands, ExprKind::Or)
    }

    fn between(&mut self, of: Expr, negated: bool) -> Result<Expr, QueryError> {
        let low = self.comparison()?;
        self.expect_word("AND")?;
        let high = self.comparison()?;
        let span = of.span.to(high.span);
        self.node(ExprKind::Between { of, low, high, negated }, span)
    }

    fn conjunction(&mut self, first: Expr) -> Result<Expr, QueryError> {
        if !self.is_word("AND") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.accept_word("AND") {
            let next = self.comparison()?;
            operands.push(self.predicate(next)?);
        }
        self.chained(operands, ExprKind::And)
    }

    fn chained(
        &self,
        operands: Vec<Expr>,
        kind: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<Expr, QueryError> {
        let span = operands[0].span.to(operands[operands.len() - 1].span);
        self.node(kind(operands), span)
    }

    /// `[NOT] IN (…)` or `[NOT] LIKE …` behind what was read, if it stands here.
    fn predicate(&mut self, left: Expr) -> Result<Expr, QueryError> {
        let start = left.span;
        let negated = self.accept_word("NOT");
        let kind = if self.accept_word("IN") {
            self.expect(TokenKind::OpenParen)?;
            let list = self.list_until(TokenKind::CloseParen)?;
            if list.is_empty() {
                self.at -= 1;
                return Err(self.unexpected());
            }
            ExprKind::In { needle: left, list, negated }
        } else if self.accept_word("LIKE") {
            let pattern = self.comparison()?;
            let escape = if self.accept_word("ESCAPE") { Some(self.escape()?) } else { None };
            ExprKind::Like { of: left, pattern, escape, negated }
        } else if negated {
            return Err(self.unexpected());
        } else {
            return Ok(left);
        };
        let span = start.to(self.previous_span());
        self.node(kind, span)
    }

    fn escape(&mut self) -> Result<char, QueryError> {
        let token = self.expect(TokenKind::String)?;
        let text = self.string(token);
        let mut chars = text.chars();
        let (first, second) = (chars.next(), chars.next());
        if first.is_none() || second.is_some() {
            let message = "The ESCAPE clause must be a string of one character.";
            self.note(token.span, "SC2207", message);
        }
        Ok(first.unwrap_or_default())
    }

    fn comparison(&mut self) -> Result<Expr, QueryError> {
        self.operators(COMPARISON)
    }

    /// Operands joined by operators that bind at least as tightly as `power`.
    fn operators(&mut self, power: u8) -> Result<Expr, QueryError> {
        let mut left = self.prefix()?;
        while let Some((operator, binding)) = binary_operator(self.peek().kind) {
            if binding < power {
                break;
            }
            self.advance();
            let right = self.operators(binding + 1)?;
            let span = left.span.to(right.span);
            left = self.node(ExprKind::Binary(operator, left, right), span)?;
        }
        Ok(left)
    }

    fn prefix(&mut self) -> Result<Expr, QueryError> {
        let token = self.peek();
        let operator = match token.kind {
            TokenKind::Plus => UnaryOp::Plus,
            TokenKind::Minus => UnaryOp::Minus,
            TokenKind::Tilde => UnaryOp::BitNot,
            TokenKind::Word if self.token_is_word(token, "NOT") => UnaryOp::Not,
            _ => return self.postfix(),
        };
        self.advance();
        // Digits directly behind a minus make one number; anything between makes it an operator.
        let is_sign = self.peek().span.start == token.span.end && !self.is(TokenKind::OpenParen);
        let operand = self.nested(Self::prefix)?;
        let span = token.span.to(operand.span);
        if let (UnaryOp::Minus, ExprKind::Literal(Value::Number(number))) =
            (operator, &*operand.kind)
            && is_sign
        {
            let literal = ExprKind::Literal(Value::Number(negated(*number)));
            return Ok(Expr::new(literal, span));
        }
        self.node(ExprKind::Unary(operator, operand), span)
    }

    /// A call, or whatever else stands in its place.
    pub(super) fn call(&mut self) -> Result<Expr, QueryError> {
        self.postfix()
    }

    fn postfix(&mut self) -> Result<Expr, QueryError> {
        let primary = self.primary()?;
        self.steps(primary)
    }

    /// A source's path: a name and its steps.
    pub(super) fn path(&mut self) -> Result<Expr, QueryError> {
        let span = self.peek().span;
        let name = self.identifier()?;
        self.steps(Expr::new(ExprKind::Identifier(name), span))
    }

    fn steps(&mut self, mut expr: Expr) -> Result<Expr, QueryError> {
        loop {
            match self.step(expr)? {
                Continue(longer) => expr = longer,
                Break(whole) => return Ok(whole),
            }
        }
    }

    fn step(&mut self, of: Expr) -> Result<Grown, QueryError> {
        let start = of.span;
        let kind = if self.accept(TokenKind::Dot) {
            ExprKind::Member(of, self.identifier()?)
        } else if self.accept(TokenKind::OpenBracket) {
            let index = self.expr()?;
            self.expect(TokenKind::CloseBracket)?;
            match *index.kind {
                ExprKind::Literal(Value::String(name)) => ExprKind::Member(of, name),
                _ => ExprKind::Index(of, index),
            }
        } else {
            return Ok(Break(of));
        };
        let span = start.to(self.previous_span());
        self.node(kind, span).map(Continue)
    }

    fn primary(&mut self) -> Result<Expr, QueryError> {
        let token = self.peek();
        let kind = match token.kind {
            TokenKind::Integer | TokenKind::Decimal | TokenKind::Hex => {
                self.advance();
                ExprKind::Literal(Value::Number(number(self.text_of(token))))
            }
            TokenKind::String => {
                self.advance();
                ExprKind::Literal(Value::String(self.string(token)))
            }
            TokenKind::Parameter => {
                self.advance();
                ExprKind::Parameter(self.text_of(token).into())
            }
            TokenKind::OpenBracket => {
                self.advance();
                ExprKind::Array(self.list_until(TokenKind::CloseBracket)?)
            }
            TokenKind::OpenBrace => {
                self.advance();
                ExprKind::Object(self.properties()?)
            }
            TokenKind::OpenParen if self.opens_subquery() => self.subquery(SubqueryKind::Scalar)?,
            TokenKind::OpenParen => {
                self.advance();
                let inner = self.expr()?;
                self.expect(TokenKind::CloseParen)?;
                return Ok(inner);
            }
            TokenKind::Word => return self.word(token),
            _ => return Err(self.unexpected()),
        };
        self.node(kind, token.span.to(self.previous_span()))
    }

    /// A constant, a call, a subquery with a keyword before it, or an alias.
    fn word(&mut self, token: Token) -> Result<Expr, QueryError> {
        let text = self.text_of(token);
        let opens = self.peek_after(1).kind == TokenKind::OpenParen;
        let selects = self.token_is_word(self.peek_after(2), "SELECT");
        let is_subquery = |kind: &SubqueryKind| opens && (selects || kind.is_reserved());
        let kind = if let Some(kind) = subquery_keyword(text).filter(is_subquery) {
            self.advance();
            self.keyword_subquery(kind)?
        } else if text.eq_ignore_ascii_case("ALL") && opens {
            self.advance();
            self.for_all(token)?
        } else if let Some(value) = constant(text) {
            self.advance();
            ExprKind::Literal(value)
        } else if text == "udf" {
            self.advance();
            self.expect(TokenKind::Dot)?;
            let name = self.identifier()?;
            self.expect(TokenKind::OpenParen)?;
            ExprKind::Udf(name, self.list_until(TokenKind::CloseParen)?)
        } else if opens && (self.is_identifier(token) || is_function_keyword(text)) {
            self.at += 2;
            // A subquery is an argument only in brackets of its own; the service's planner notices at its end.
            if self.token_is_word(self.peek(), "SELECT") {
                self.select()?;
                return Err(self.unexpected());
            }
            ExprKind::Call(text.into(), self.list_until(TokenKind::CloseParen)?)
        } else {
            ExprKind::Identifier(self.identifier()?)
        };
        self.node(kind, token.span.to(self.previous_span()))
    }

    fn keyword_subquery(&mut self, kind: SubqueryKind) -> Result<ExprKind, QueryError> {
        if !self.opens_subquery() {
            self.advance();
            return Err(self.unexpected());
        }
        self.subquery(kind)
    }

    /// `ALL(q)`: there is no row for which the filter of `q` is false.
    fn for_all(&mut self, token: Token) -> Result<ExprKind, QueryError> {
        let ExprKind::Subquery(_, mut select) = self.keyword_subquery(SubqueryKind::Exists)? else {
            return Err(self.syntax_error(token));
        };
        let span = token.span.to(self.previous_span());
        let filter = select.filter.take();
        let filter =
            filter.unwrap_or_else(|| Expr::new(ExprKind::Literal(Value::Bool(true)), span));
        select.filter = Some(self.node(ExprKind::Unary(UnaryOp::Not, filter), span)?);
        let exists = self.node(ExprKind::Subquery(SubqueryKind::Exists, select), span)?;
        Ok(ExprKind::Unary(UnaryOp::Not, exists))
    }

    fn subquery(&mut self, kind: SubqueryKind) -> Result<ExprKind, QueryError> {
        self.expect(TokenKind::OpenParen)?;
        let select = self.select()?;
        self.expect(TokenKind::CloseParen)?;
        Ok(ExprKind::Subquery(kind, Box::new(select)))
    }

    /// Expressions separated by commas, and the closing token.
    fn list_until(&mut self, close: TokenKind) -> Result<Vec<Expr>, QueryError> {
        let mut list = Vec::new();
        if self.accept(close) {
            return Ok(list);
        }
        loop {
            list.push(self.expr()?);
            if !self.accept(TokenKind::Comma) {
                self.expect(close)?;
                return Ok(list);
            }
        }
    }

    fn properties(&mut self) -> Result<Vec<(Arc<str>, Expr)>, QueryError> {
        let mut properties = Vec::new();
        if self.accept(TokenKind::CloseBrace) {
            return Ok(properties);
        }
        let mut names = Vec::new();
        loop {
            let token = self.peek();
            let name = self.name()?;
            names.push((name.clone(), token.span));
            self.expect(TokenKind::Colon)?;
            properties.push((name, self.expr()?));
            if !self.accept(TokenKind::Comma) {
                self.expect(TokenKind::CloseBrace)?;
                self.note_repeated(&names);
                return Ok(properties);
            }
        }
    }

    /// Remembers that a name stands twice where an object needs distinct ones.
    pub(super) fn note_repeated(&mut self, names: &[(Arc<str>, Span)]) {
        let mut seen = std::collections::HashSet::with_capacity(names.len());
        let Some((name, span)) = names.iter().find(|(name, _)| !seen.insert(name)) else { return };
        let message =
            format!("Object creation error, property name '{name}' specified more than once.");
        self.note(*span, "SC2022", message);
    }

    /// A name that may also be written as a string.
    pub(super) fn name(&mut self) -> Result<Arc<str>, QueryError> {
        if self.is(TokenKind::String) {
            let token = self.advance();
            return Ok(self.string(token));
        }
        self.identifier()
    }

    fn string(&self, token: Token) -> Arc<str> {
        unescape(self.text_of(token))
    }
}

fn subquery_keyword(word: &str) -> Option<SubqueryKind> {
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    match () {
        () if is("EXISTS") => Some(SubqueryKind::Exists),
        () if is("ARRAY") => Some(SubqueryKind::Array),
        () if is("FIRST") => Some(SubqueryKind::First),
        () if is("LAST") => Some(SubqueryKind::Last),
        () => None,
    }
}

/// Reserved words that are names of functions too.
fn is_function_keyword(word: &str) -> bool {
    word.eq_ignore_ascii_case("LEFT") || word.eq_ignore_ascii_case("RIGHT")
}

/// The words that stand for values; in capitals they are names like any other.
fn constant(word: &str) -> Option<Value> {
    match word {
        "null" => Some(Value::Null),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        "undefined" => Some(Value::Undefined),
        "NaN" => Some(f64::NAN.into()),
        "Infinity" => Some(f64::INFINITY.into()),
        _ => None,
    }
}

/// Integers of 64 bits keep every digit; the rest are doubles.
fn number(text: &str) -> Number {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return match i64::from_str_radix(digits, 16) {
            Ok(int) => Number::Int(int),
            Err(_) => Number::Float(
                digits
                    .chars()
                    .filter_map(|c| c.to_digit(16))
                    .fold(0.0, |sum, digit| sum * 16.0 + f64::from(digit)),
            ),
        };
    }
    match text.parse::<i64>() {
        Ok(int) => Number::Int(int),
        Err(_) => Number::Float(text.parse().unwrap_or(f64::NAN)),
    }
}

fn negated(number: Number) -> Number {
    const MIN_AS_DOUBLE: f64 = -9_223_372_036_854_775_808.0;
    match number {
        Number::Int(int) => int.checked_neg().map_or(Number::Float(-MIN_AS_DOUBLE), Number::Int),
        Number::Float(float) if -float == MIN_AS_DOUBLE => Number::Int(i64::MIN),
        Number::Float(float) => Number::Float(-float),
    }
}
