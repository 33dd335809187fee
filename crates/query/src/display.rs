//! The syntax tree back to text, in one canonical form: every operator in parentheses, names after
//! dots where they can be, strings as JSON writes them. Parsing the text gives the same tree. The
//! gateway builds its rewritten queries from these pieces, and `EXPLAIN` prints them.

use std::fmt::{self, Display, Formatter, Write};

use orrery_types::json::write_json_string;
use orrery_types::{Number, Value};

use crate::ast::{
    BinaryOp, Collection, Count, CountValue, Direction, Expr, ExprKind, OrderBy, Select, Selection,
    Source, SubqueryKind, UnaryOp,
};
use crate::parser::is_reserved;

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        if let Some(top) = &self.top {
            write!(f, "TOP {top} ")?;
        }
        self.selection.fmt(f)?;
        self.write_from(f)?;
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        self.write_tail(f)
    }
}

impl Select {
    /// ` FROM …` with its JOINs, or nothing.
    pub(crate) fn write_from(&self, f: &mut impl Write) -> fmt::Result {
        for (i, source) in self.from.iter().enumerate() {
            write!(f, "{}{source}", if i == 0 { " FROM " } else { " JOIN " })?;
        }
        Ok(())
    }

    /// GROUP BY, ORDER BY, OFFSET and LIMIT.
    fn write_tail(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.group_by.is_empty() {
            f.write_str(" GROUP BY ")?;
            write_list(f, &self.group_by)?;
        }
        if let Some(order_by) = &self.order_by {
            write!(f, " ORDER BY {order_by}")?;
        }
        if let Some((offset, limit)) = &self.offset_limit {
            write!(f, " OFFSET {offset} LIMIT {limit}")?;
        }
        Ok(())
    }
}

impl Display for OrderBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(score) => write!(f, "RANK {score}"),
            Self::Keys(keys) => {
                for (i, key) in keys.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { ", " } else { "" }, key.expr)?;
                    match key.direction {
                        None => {}
                        Some(Direction::Ascending) => f.write_str(" ASC")?,
                        Some(Direction::Descending) => f.write_str(" DESC")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.value {
            CountValue::Number(n) => n.fmt(f),
            CountValue::Parameter(name) => f.write_str(name),
        }
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star => f.write_char('*'),
            Self::Value(expr) => write!(f, "VALUE {expr}"),
            Self::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { ", " } else { "" }, item.expr)?;
                    match &item.alias {
                        None => {}
                        Some(alias) if is_word(alias) => write!(f, " AS {alias}")?,
                        Some(alias) => write!(f, " AS {}", quoted(alias))?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let (true, Some(alias)) = (self.iterates, &self.alias) {
            write!(f, "{alias} IN ")?;
        }
        match &self.collection {
            Collection::Expr(expr) => expr.fmt(f)?,
            Collection::Subquery(select) => write!(f, "({select})")?,
        }
        match &self.alias {
            Some(alias) if !self.iterates => write!(f, " AS {alias}"),
            _ => Ok(()),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            ExprKind::Literal(value) => write_literal(f, value),
            ExprKind::Parameter(name) | ExprKind::Identifier(name) => f.write_str(name),
            ExprKind::Member(of, name) => {
                write_operand(f, of)?;
                if is_word(name) { write!(f, ".{name}") } else { write!(f, "[{}]", quoted(name)) }
            }
            ExprKind::Index(of, index) => {
                write_operand(f, of)?;
                write!(f, "[{index}]")
            }
            ExprKind::Unary(UnaryOp::Not, operand) => write!(f, "(NOT {operand})"),
            // The space keeps `- 1` an operator and its operand.
            ExprKind::Unary(op, operand) => write!(f, "({} {operand})", unary_text(*op)),
            ExprKind::Binary(op, a, b) => write!(f, "({a} {} {b})", binary_text(*op)),
            ExprKind::And(operands) => write_chain(f, operands, " AND "),
            ExprKind::Or(operands) => write_chain(f, operands, " OR "),
            ExprKind::In { needle, list, negated } => {
                write!(f, "({needle} {}IN (", not(*negated))?;
                write_list(f, list)?;
                f.write_str("))")
            }
            ExprKind::Between { of, low, high, negated } => {
                write!(f, "({of} {}BETWEEN {low} AND {high})", not(*negated))
            }
            ExprKind::Like { of, pattern, escape, negated } => {
                write!(f, "({of} {}LIKE {pattern}", not(*negated))?;
                if let Some(c) = escape {
                    write!(f, " ESCAPE {}", quoted(&c.to_string()))?;
                }
                f.write_char(')')
            }
            ExprKind::Conditional(condition, yes, no) => write!(f, "({condition} ? {yes} : {no})"),
            ExprKind::Call(name, arguments) => write_call(f, "", name, arguments),
            ExprKind::Udf(name, arguments) => write_call(f, "udf.", name, arguments),
            ExprKind::Array(elements) => {
                f.write_char('[')?;
                write_list(f, elements)?;
                f.write_char(']')
            }
            ExprKind::Object(properties) => {
                f.write_char('{')?;
                for (i, (name, value)) in properties.iter().enumerate() {
                    let separator = if i > 0 { ", " } else { "" };
                    write!(f, "{separator}{}: {value}", quoted(name))?;
                }
                f.write_char('}')
            }
            ExprKind::Subquery(kind, select) => {
                write!(f, "{}({select})", subquery_text(*kind))
            }
        }
    }
}

fn write_list(f: &mut Formatter<'_>, list: &[Expr]) -> fmt::Result {
    for (i, expr) in list.iter().enumerate() {
        write!(f, "{}{expr}", if i > 0 { ", " } else { "" })?;
    }
    Ok(())
}

fn write_chain(f: &mut Formatter<'_>, operands: &[Expr], operator: &str) -> fmt::Result {
    f.write_char('(')?;
    for (i, operand) in operands.iter().enumerate() {
        write!(f, "{}{operand}", if i > 0 { operator } else { "" })?;
    }
    f.write_char(')')
}

fn write_call(f: &mut Formatter<'_>, prefix: &str, name: &str, arguments: &[Expr]) -> fmt::Result {
    write!(f, "{prefix}{name}(")?;
    write_list(f, arguments)?;
    f.write_char(')')
}

/// What stands before a dot or bracket: a bare number would swallow the dot.
fn write_operand(f: &mut Formatter<'_>, of: &Expr) -> fmt::Result {
    match &*of.kind {
        ExprKind::Literal(_) => write!(f, "({of})"),
        _ => of.fmt(f),
    }
}

/// Whole doubles below this are integers without doubt.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn write_literal(f: &mut Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Undefined => f.write_str("undefined"),
        Value::Number(Number::Float(x)) if x.is_nan() => f.write_str("NaN"),
        Value::Number(Number::Float(x)) if x.is_infinite() => {
            f.write_str(if *x > 0.0 { "Infinity" } else { "-Infinity" })
        }
        Value::Number(Number::Float(x)) if *x == 0.0 && x.is_sign_negative() => f.write_str("-0.0"),
        // Written as digits it would be read as an integer, which may be another number.
        Value::Number(Number::Float(x)) if x.abs() >= EXACT_MAX => write!(f, "{x:e}"),
        other => f.write_str(&other.to_json()),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_json_string(text, &mut out);
    out
}

fn is_word(name: &str) -> bool {
    let mut bytes = name.bytes();
    !is_reserved(name)
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn unary_text(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Plus => "+",
        UnaryOp::Minus => "-",
        UnaryOp::BitNot => "~",
        UnaryOp::Not => "NOT ",
    }
}

fn subquery_text(kind: SubqueryKind) -> &'static str {
    match kind {
        SubqueryKind::Scalar => "",
        SubqueryKind::Exists => "EXISTS",
        SubqueryKind::Array => "ARRAY",
        SubqueryKind::First => "FIRST",
        SubqueryKind::Last => "LAST",
    }
}

fn binary_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::ShiftRightUnsigned => ">>>",
        BinaryOp::Equal => "=",
        BinaryOp::NotEqual => "!=",
        BinaryOp::Less => "<",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterOrEqual => ">=",
        BinaryOp::Concat => "||",
        BinaryOp::Coalesce => "??",
    }
}
