//! Expressions by binding power.
//!
//! From loosest to tightest: `? :`, `??`, OR, AND, NOT, then IN, BETWEEN and LIKE, equality,
//! order, `||`, `|`, `^`, `&`, shifts, sums, products, signs and `~`, member access. Placing NOT
//! above comparisons and the bit operators and `||` below them gives every query that has a
//! defined value under the C-like table the same value, and gives `NOT a = 1` and `a & 4 = 4` the
//! meaning their writers intend.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use orrery_types::{Number, Value};

use super::Parser;
use crate::ast::{BinaryOp, Expr, ExprKind, SubqueryKind, UnaryOp};
use crate::error::QueryError;
use crate::lexer::{Token, TokenKind, unescape};

/// An expression after one more operator was looked for: longer by it, or whole as it is.
type Grown = ControlFlow<Expr, Expr>;

const CONDITIONAL: u8 = 1;
const COALESCE: u8 = 2;
const OR: u8 = 3;
const AND: u8 = 4;
const NOT: u8 = 5;
const PREDICATE: u8 = 6;
const EQUALITY: u8 = 7;
const RELATIONAL: u8 = 8;
const CONCAT: u8 = 9;
const BIT_OR: u8 = 10;
const BIT_XOR: u8 = 11;
const BIT_AND: u8 = 12;
const SHIFT: u8 = 13;
const ADDITIVE: u8 = 14;
const MULTIPLICATIVE: u8 = 15;
const PREFIX: u8 = 16;

fn binary_operator(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    Some(match kind {
        TokenKind::Coalesce => (BinaryOp::Coalesce, COALESCE),
        TokenKind::Equal => (BinaryOp::Equal, EQUALITY),
        TokenKind::NotEqual => (BinaryOp::NotEqual, EQUALITY),
        TokenKind::Less => (BinaryOp::Less, RELATIONAL),
        TokenKind::LessOrEqual => (BinaryOp::LessOrEqual, RELATIONAL),
        TokenKind::Greater => (BinaryOp::Greater, RELATIONAL),
        TokenKind::GreaterOrEqual => (BinaryOp::GreaterOrEqual, RELATIONAL),
        TokenKind::BarBar => (BinaryOp::Concat, CONCAT),
        TokenKind::Bar => (BinaryOp::BitOr, BIT_OR),
        TokenKind::Caret => (BinaryOp::BitXor, BIT_XOR),
        TokenKind::Ampersand => (BinaryOp::BitAnd, BIT_AND),
        TokenKind::ShiftLeft => (BinaryOp::ShiftLeft, SHIFT),
        TokenKind::ShiftRight => (BinaryOp::ShiftRight, SHIFT),
        TokenKind::ShiftRightUnsigned => (BinaryOp::ShiftRightUnsigned, SHIFT),
        TokenKind::Plus => (BinaryOp::Add, ADDITIVE),
        TokenKind::Minus => (BinaryOp::Subtract, ADDITIVE),
        TokenKind::Star => (BinaryOp::Multiply, MULTIPLICATIVE),
        TokenKind::Slash => (BinaryOp::Divide, MULTIPLICATIVE),
        TokenKind::Percent => (BinaryOp::Modulo, MULTIPLICATIVE),
        _ => return None,
    })
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expr(&mut self) -> Result<Expr, QueryError> {
        self.operators(CONDITIONAL)
    }

    /// An expression of operators that bind at least as tightly as `power`.
    fn operators(&mut self, power: u8) -> Result<Expr, QueryError> {
        self.nested(|p| {
            let mut left = p.prefix()?;
            loop {
                match p.infix(left, power)? {
                    Continue(longer) => left = longer,
                    Break(whole) => return Ok(whole),
                }
            }
        })
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
        let power = if operator == UnaryOp::Not { NOT } else { PREFIX };
        let operand = self.operators(power)?;
        let span = token.span.to(operand.span);
        if let (UnaryOp::Minus, ExprKind::Literal(Value::Number(number))) =
            (operator, &*operand.kind)
        {
            let literal = ExprKind::Literal(Value::Number(negated(*number)));
            return Ok(Expr::new(literal, span));
        }
        self.node(ExprKind::Unary(operator, operand), span)
    }

    /// One operator and its right side after `left`, if one stands here that binds tightly enough.
    fn infix(&mut self, left: Expr, power: u8) -> Result<Grown, QueryError> {
        let token = self.peek();
        if let Some((operator, binding)) = binary_operator(token.kind) {
            if binding < power {
                return Ok(Break(left));
            }
            self.advance();
            let right = self.operators(binding + 1)?;
            let span = left.span.to(right.span);
            return self.node(ExprKind::Binary(operator, left, right), span).map(Continue);
        }
        match token.kind {
            TokenKind::Question if power <= CONDITIONAL => {
                self.advance();
                let yes = self.expr()?;
                self.expect(TokenKind::Colon)?;
                let no = self.expr()?;
                let span = left.span.to(no.span);
                self.node(ExprKind::Conditional(left, yes, no), span).map(Continue)
            }
            TokenKind::Word if power <= OR && self.is_word("OR") => {
                let operands = self.chain(left, "OR", OR)?;
                self.chained(operands, ExprKind::Or).map(Continue)
            }
            TokenKind::Word if power <= AND && self.is_word("AND") => {
                let operands = self.chain(left, "AND", AND)?;
                self.chained(operands, ExprKind::And).map(Continue)
            }
            TokenKind::Word if power <= PREDICATE => self.predicate(left),
            _ => Ok(Break(left)),
        }
    }

    /// All operands joined by one logical operator.
    fn chain(&mut self, first: Expr, word: &str, power: u8) -> Result<Vec<Expr>, QueryError> {
        let mut operands = vec![first];
        while self.accept_word(word) {
            operands.push(self.operators(power + 1)?);
        }
        Ok(operands)
    }

    fn chained(
        &self,
        operands: Vec<Expr>,
        kind: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<Expr, QueryError> {
        let span = operands[0].span.to(operands[operands.len() - 1].span);
        self.node(kind(operands), span)
    }

    fn predicate(&mut self, left: Expr) -> Result<Grown, QueryError> {
        let start = left.span;
        let negated = self.is_word("NOT");
        let keyword = self.peek_after(usize::from(negated));
        let kind = if self.token_is_word(keyword, "IN") {
            self.at += 1 + usize::from(negated);
            self.expect(TokenKind::OpenParen)?;
            let list = self.list_until(TokenKind::CloseParen)?;
            if list.is_empty() {
                self.at -= 1;
                return Err(self.unexpected());
            }
            ExprKind::In { needle: left, list, negated }
        } else if self.token_is_word(keyword, "BETWEEN") {
            self.at += 1 + usize::from(negated);
            let low = self.operators(PREDICATE + 1)?;
            self.expect_word("AND")?;
            let high = self.operators(PREDICATE + 1)?;
            ExprKind::Between { of: left, low, high, negated }
        } else if self.token_is_word(keyword, "LIKE") {
            self.at += 1 + usize::from(negated);
            let pattern = self.operators(PREDICATE + 1)?;
            let escape = if self.accept_word("ESCAPE") { Some(self.escape()?) } else { None };
            ExprKind::Like { of: left, pattern, escape, negated }
        } else {
            return Ok(Break(left));
        };
        let span = start.to(self.previous_span());
        self.node(kind, span).map(Continue)
    }

    fn escape(&mut self) -> Result<char, QueryError> {
        let token = self.expect(TokenKind::String)?;
        let text = self.string(token)?;
        let mut chars = text.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            return Ok(c);
        }
        let message = "The ESCAPE clause requires a string of exactly one character.";
        Err(QueryError::at(self.text, token.span, "SC1001", message))
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
            let word = self.expect(TokenKind::Word)?;
            ExprKind::Member(of, self.text_of(word).into())
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
            TokenKind::Number | TokenKind::Hex => {
                self.advance();
                ExprKind::Literal(Value::Number(number(self.text_of(token))))
            }
            TokenKind::String => {
                self.advance();
                ExprKind::Literal(Value::String(self.string(token)?))
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
        let next = self.peek_after(1).kind;
        let subquery = match () {
            () if text.eq_ignore_ascii_case("EXISTS") => Some(SubqueryKind::Exists),
            () if text.eq_ignore_ascii_case("ARRAY") => Some(SubqueryKind::Array),
            () if text.eq_ignore_ascii_case("ALL") => Some(SubqueryKind::All),
            () if text.eq_ignore_ascii_case("FIRST") => Some(SubqueryKind::First),
            () if text.eq_ignore_ascii_case("LAST") => Some(SubqueryKind::Last),
            () => None,
        };
        let kind = if let (Some(kind), TokenKind::OpenParen) = (subquery, next) {
            self.advance();
            if !self.opens_subquery() {
                self.advance();
                return Err(self.unexpected());
            }
            self.subquery(kind)?
        } else if let Some(value) = constant(text) {
            self.advance();
            ExprKind::Literal(value)
        } else if text.eq_ignore_ascii_case("UDF") && next == TokenKind::Dot {
            self.at += 2;
            let name = self.expect(TokenKind::Word)?;
            self.expect(TokenKind::OpenParen)?;
            ExprKind::Udf(self.text_of(name).into(), self.list_until(TokenKind::CloseParen)?)
        } else if next == TokenKind::OpenParen && self.is_identifier(token) {
            self.at += 2;
            ExprKind::Call(text.into(), self.list_until(TokenKind::CloseParen)?)
        } else {
            ExprKind::Identifier(self.identifier()?)
        };
        self.node(kind, token.span.to(self.previous_span()))
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
        loop {
            let token = self.advance();
            let name = match token.kind {
                TokenKind::Word => self.text_of(token).into(),
                TokenKind::String => self.string(token)?,
                _ => return Err(self.syntax_error(token)),
            };
            self.expect(TokenKind::Colon)?;
            properties.push((name, self.expr()?));
            if !self.accept(TokenKind::Comma) {
                self.expect(TokenKind::CloseBrace)?;
                return Ok(properties);
            }
        }
    }

    fn string(&self, token: Token) -> Result<Arc<str>, QueryError> {
        unescape(self.text_of(token)).ok_or_else(|| self.syntax_error(token))
    }
}

fn constant(word: &str) -> Option<Value> {
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    match () {
        () if is("NULL") => Some(Value::Null),
        () if is("TRUE") => Some(Value::Bool(true)),
        () if is("FALSE") => Some(Value::Bool(false)),
        () if is("UNDEFINED") => Some(Value::Undefined),
        () => None,
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
