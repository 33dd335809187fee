//! The syntax tree as the parser makes it: names unresolved, parameters unbound. AND and OR are
//! n-ary, so that a filter of ten thousand terms is one node and not a tower of them. The binder
//! turns it into the bound tree; `display` prints it back.

use std::sync::Arc;

use orrery_types::Value;

/// Bytes of the query text. All spans compare equal: two expressions are the same when they say
/// the same, wherever they stand (GROUP BY matches the select list that way).
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A whole query or subquery.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Where the text of the query stands.
    pub span: Span,
    /// Whether DISTINCT was written.
    pub distinct: bool,
    /// TOP.
    pub top: Option<Count>,
    /// What is returned.
    pub selection: Selection,
    /// FROM and its JOINs; empty without FROM.
    pub from: Vec<Source>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Option<OrderBy>,
    /// OFFSET and LIMIT.
    pub offset_limit: Option<(Count, Count)>,
    /// Where its clauses stand.
    pub clauses: ClauseSpans,
}

/// Where the clauses of a query stand, for messages; empty for what was not written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClauseSpans {
    /// From SELECT to the end of what it selects.
    pub head: Span,
    /// TOP and its count.
    pub top: Span,
    /// The sources behind FROM.
    pub sources: Span,
    /// GROUP BY and its keys.
    pub group_by: Span,
    /// ORDER BY and its keys or scores.
    pub order_by: Span,
    /// OFFSET to the count of LIMIT.
    pub offset_limit: Span,
}

/// A number of rows: written out, or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// Where it stands.
    pub span: Span,
    /// The number, or the parameter's name with its `@`.
    pub value: CountValue,
}

/// See [`Count`].
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the type says it")]
pub enum CountValue {
    Number(u64),
    Parameter(Arc<str>),
}

/// What stands after SELECT.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`
    Star,
    /// `VALUE e`
    Value(Expr),
    /// `e AS name, …`
    List(Vec<SelectItem>),
}

/// One element of a select list.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// The value.
    pub expr: Expr,
    /// The alias, if one was written.
    pub alias: Option<Arc<str>>,
}

/// One source of FROM or JOIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The whole of it.
    pub span: Span,
    /// The name after AS or before IN, if written.
    pub alias: Option<Arc<str>>,
    /// Whether it iterates the elements (`x IN …`) or takes the value whole.
    pub iterates: bool,
    /// Where values come from.
    pub collection: Collection,
}

/// The right side of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Collection {
    /// A path from the container or an alias; after IN, any expression.
    Expr(Expr),
    /// A subquery.
    Subquery(Box<Select>),
}

/// ORDER BY in its two forms.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderBy {
    /// By keys.
    Keys(Vec<SortKey>),
    /// By a score: `ORDER BY RANK f(…)`.
    Rank(Expr),
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// The key.
    pub expr: Expr,
    /// The direction, if one was written.
    pub direction: Option<Direction>,
    /// Where both stand.
    pub span: Span,
}

/// A direction of sorting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Direction {
    Ascending,
    Descending,
}

/// An expression with its place and the height of its tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its kind.
    pub kind: Box<ExprKind>,
    /// Where it stands.
    pub span: Span,
    height: u16,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant, `undefined` included.
    Literal(Value),
    /// `@name`, kept with its `@`.
    Parameter(Arc<str>),
    /// An alias, or one of the named constants.
    Identifier(Arc<str>),
    /// `of.name` and `of["name"]`.
    Member(Expr, Arc<str>),
    /// `of[index]` where the index is not a string literal.
    Index(Expr, Expr),
    /// A prefix operator.
    Unary(UnaryOp, Expr),
    /// An infix operator.
    Binary(BinaryOp, Expr, Expr),
    /// Two or more operands.
    And(Vec<Expr>),
    /// Two or more operands.
    Or(Vec<Expr>),
    /// `needle [NOT] IN (list)`.
    In {
        /// What is looked for.
        needle: Expr,
        /// Among what.
        list: Vec<Expr>,
        /// NOT was written.
        negated: bool,
    },
    /// `of [NOT] BETWEEN low AND high`.
    Between {
        /// What is compared.
        of: Expr,
        /// The least value.
        low: Expr,
        /// The greatest value.
        high: Expr,
        /// NOT was written.
        negated: bool,
    },
    /// `of [NOT] LIKE pattern [ESCAPE 'c']`.
    Like {
        /// What is matched.
        of: Expr,
        /// The pattern.
        pattern: Expr,
        /// The escape character.
        escape: Option<char>,
        /// NOT was written.
        negated: bool,
    },
    /// `condition ? yes : no`.
    Conditional(Expr, Expr, Expr),
    /// A built-in function, as its name was written.
    Call(Arc<str>, Vec<Expr>),
    /// `udf.name(…)`.
    Udf(Arc<str>, Vec<Expr>),
    /// `[…]`
    Array(Vec<Expr>),
    /// `{…}`
    Object(Vec<(Arc<str>, Expr)>),
    /// A subquery as a value.
    Subquery(SubqueryKind, Box<Select>),
}

/// What a subquery in an expression yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryKind {
    /// Its only row.
    Scalar,
    /// Whether it has a row.
    Exists,
    /// All rows as an array.
    Array,
    /// Its first row.
    First,
    /// Its last row.
    Last,
}

impl SubqueryKind {
    /// Whether its keyword is reserved, so that nothing but a subquery may follow it.
    pub(crate) fn is_reserved(self) -> bool {
        matches!(self, Self::Exists | Self::Array)
    }
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum UnaryOp {
    Plus,
    Minus,
    BitNot,
    Not,
}

/// Infix operators except AND and OR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Concat,
    Coalesce,
}

impl Expr {
    /// A node over its children; its height is one more than the tallest of them.
    pub fn new(kind: ExprKind, span: Span) -> Self {
        let mut tallest = 0;
        kind.for_each_child(&mut |child| tallest = tallest.max(child.height));
        if let ExprKind::Subquery(_, select) = &kind {
            tallest = tallest.max(select.height());
        }
        Self { kind: Box::new(kind), span, height: tallest.saturating_add(1) }
    }

    /// Levels of the tree below and including this node.
    pub fn height(&self) -> u16 {
        self.height
    }

    /// The name that a projection of this expression gets by itself, if any.
    pub fn own_name(&self) -> Option<&Arc<str>> {
        match &*self.kind {
            ExprKind::Identifier(name) | ExprKind::Member(_, name) => Some(name),
            _ => None,
        }
    }
}

impl ExprKind {
    /// Calls back for each direct operand; not for what stands inside a subquery.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Self::Literal(_) | Self::Parameter(_) | Self::Identifier(_) | Self::Subquery(..) => {}
            Self::Member(of, _) | Self::Unary(_, of) => f(of),
            Self::Index(a, b) | Self::Binary(_, a, b) => {
                f(a);
                f(b);
            }
            Self::And(list)
            | Self::Or(list)
            | Self::Call(_, list)
            | Self::Udf(_, list)
            | Self::Array(list) => list.iter().for_each(f),
            Self::In { needle, list, .. } => {
                f(needle);
                list.iter().for_each(f);
            }
            Self::Between { of, low, high, .. } => {
                f(of);
                f(low);
                f(high);
            }
            Self::Like { of, pattern, .. } => {
                f(of);
                f(pattern);
            }
            Self::Conditional(condition, yes, no) => {
                f(condition);
                f(yes);
                f(no);
            }
            Self::Object(properties) => properties.iter().for_each(|(_, e)| f(e)),
        }
    }
}

impl Select {
    /// Calls back for each expression that stands directly in a clause.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.selection {
            Selection::Star => {}
            Selection::Value(e) => f(e),
            Selection::List(items) => items.iter().for_each(|item| f(&item.expr)),
        }
        for source in &self.from {
            if let Collection::Expr(e) = &source.collection {
                f(e);
            }
        }
        self.filter.iter().for_each(&mut *f);
        self.group_by.iter().for_each(&mut *f);
        match &self.order_by {
            None => {}
            Some(OrderBy::Keys(keys)) => keys.iter().for_each(|key| f(&key.expr)),
            Some(OrderBy::Rank(score)) => f(score),
        }
    }

    /// The tallest expression or source in it.
    pub fn height(&self) -> u16 {
        let mut tallest = 0;
        self.for_each_expr(&mut |e| tallest = tallest.max(e.height));
        for source in &self.from {
            if let Collection::Subquery(select) = &source.collection {
                tallest = tallest.max(select.height());
            }
        }
        tallest.saturating_add(1)
    }
}
