//! ORDER BY RANK: one score, or several fused by reciprocal rank.

use orrery_types::{Number, Value};

use super::Binder;
use crate::ast::{Collection, Expr, ExprKind, Select, Source, Span};
use crate::bound::{Component, Node, Order, Rank};
use crate::error::QueryError;
use crate::functions;
use crate::functions::full_text::terms;

pub(super) fn rank<'a>(
    binder: &mut Binder<'a>,
    select: &'a Select,
    score: &'a Expr,
) -> Result<Order, QueryError> {
    check_rank_sources(binder, select)?;
    check_rank_clauses(binder, select)?;
    if let Some(arguments) = call_of(score, "RRF") {
        return fusion(binder, select.clauses.order_by, arguments);
    }
    let components = vec![component(binder, score)?];
    Ok(Order::Rank(Rank { components, weights: vec![1.0] }))
}

fn check_rank_sources(binder: &Binder<'_>, select: &Select) -> Result<(), QueryError> {
    let (span, code, what) = match select.from.as_slice() {
        [_, _, ..] => (select.clauses.sources, "SC2224", "The JOIN operator is not allowed"),
        [source] if source.iterates => {
            (source.span, "SC2223", "The FROM clause with the IN operator is not allowed")
        }
        [Source { span, collection: Collection::Subquery(inner), .. }] => {
            let behind = &binder.text[inner.span.end..];
            let end = inner.span.end + behind.find(')').map_or(0, |at| at + 1);
            let span = Span::new(span.start, end);
            (span, "SC2225", "Subqueries in the FROM clause are not allowed")
        }
        _ => return Ok(()),
    };
    Err(binder.error(span, code, format!("{what} with the ORDER BY RANK clause.")))
}

fn check_rank_clauses(binder: &Binder<'_>, select: &Select) -> Result<(), QueryError> {
    let clauses = &select.clauses;
    let (span, code, what) = match select {
        Select { distinct: true, .. } => {
            (clauses.head, "SC2220", "The DISTINCT keyword is not allowed")
        }
        Select { group_by, .. } if !group_by.is_empty() => {
            (clauses.group_by, "SC2227", "The GROUP BY clause is not allowed")
        }
        _ => match super::first_aggregate(&select.selection) {
            Some(span) => (span, "SC2226", "Aggregate functions are not allowed"),
            None => return Ok(()),
        },
    };
    Err(binder.error(span, code, format!("{what} with the ORDER BY RANK clause.")))
}

fn not_a_score(binder: &Binder<'_>, expr: &Expr) -> QueryError {
    QueryError::not_a_score(binder.text, expr.span)
}

fn fusion<'a>(
    binder: &mut Binder<'a>,
    clause: Span,
    arguments: &'a [Expr],
) -> Result<Order, QueryError> {
    let is_score =
        |e: &Expr| call_of(e, "FullTextScore").is_some() || call_of(e, "VectorDistance").is_some();
    let (scores, weights) = match arguments.split_last() {
        Some((last, scores)) if !is_score(last) => (scores, Some(last)),
        _ => (arguments, None),
    };
    let mut components = Vec::with_capacity(scores.len());
    for score in scores {
        components.push(component(binder, score)?);
    }
    if components.len() < 2 {
        let message = "A score fusion function requires at least two component score functions.";
        return Err(binder.error(clause, "SC2233", message));
    }
    let weights = match weights {
        None => vec![1.0; components.len()],
        Some(expr) => fusion_weights(binder, expr, components.len(), clause)?,
    };
    Ok(Order::Rank(Rank { components, weights }))
}

fn fusion_weights<'a>(
    binder: &mut Binder<'a>,
    expr: &'a Expr,
    count: usize,
    clause: Span,
) -> Result<Vec<f64>, QueryError> {
    let numbers = match binder.expr(expr)? {
        Node::Constant(Value::Array(values)) => {
            values.iter().map(|v| v.as_number().map(Number::as_f64)).collect()
        }
        _ => None,
    };
    numbers.filter(|list: &Vec<f64>| list.len() == count).ok_or_else(|| {
        let message = "The last parameter of the RRF function is an optional array of weights. When \
                       present, it must be a literal array of numbers, one for each of the \
                       component scores used for the RRF function. The length of this array must \
                       be the same as the number of the component scores.";
        binder.error(clause, "SC2229", message)
    })
}

fn component<'a>(binder: &mut Binder<'a>, expr: &'a Expr) -> Result<Component, QueryError> {
    if let Some(arguments) = call_of(expr, "VectorDistance") {
        check_arity(binder, expr, "VectorDistance", arguments.len())?;
        let (metric, vectors) = binder.vector_distance(arguments)?;
        return Ok(Component::Vector(metric, Box::new(vectors)));
    }
    if call_of(expr, "RRF").is_some() {
        return Err(binder.not_a_function("RRF", expr));
    }
    let Some(arguments) = call_of(expr, "FullTextScore") else {
        return Err(not_a_score(binder, expr));
    };
    check_arity(binder, expr, "FullTextScore", arguments.len())?;
    let text = binder.expr(&arguments[0])?;
    check_terms(binder, arguments)?;
    let mut phrases = Vec::new();
    for argument in &arguments[1..] {
        match binder.expr(argument)? {
            Node::Constant(Value::String(phrase)) => phrases.push(terms(&phrase)),
            Node::Constant(fuzzy @ Value::Object(_)) => {
                phrases.extend(fuzzy.get("term").as_str().map(terms));
            }
            _ => {}
        }
    }
    Ok(Component::Text(text, phrases))
}

/// Terms are literals: strings, or a term with the distance within which others count as it.
pub(super) fn check_terms<'a>(
    binder: &mut Binder<'a>,
    arguments: &'a [Expr],
) -> Result<(), QueryError> {
    for argument in &arguments[1..] {
        let is_literal = match (&*argument.kind, binder.expr(argument)?) {
            (ExprKind::Literal(_) | ExprKind::Parameter(_), Node::Constant(value)) => {
                value.as_str().is_some()
            }
            (ExprKind::Object(_), Node::Constant(value)) => {
                value.get("term").as_str().is_some()
                    && value.get("distance").as_i64().is_some_and(|d| (0..=2).contains(&d))
            }
            _ => false,
        };
        if !is_literal {
            let message = "The second through last arguments of the 'FullTextScore' function must be \
                           literals of type string or object specifying the fuzzy search argument \
                           containing a 'term' property which is a string and a 'distance' property \
                           which is a number between 0 and 2 (inclusive).";
            return Err(binder.error(argument.span, "SC2241", message));
        }
    }
    Ok(())
}

fn check_arity(
    binder: &Binder<'_>,
    expr: &Expr,
    name: &str,
    given: usize,
) -> Result<(), QueryError> {
    let complaint = functions::find(name).and_then(|f| f.arity_error(given));
    complaint.map_or(Ok(()), |(code, message)| Err(binder.error(expr.span, code, message)))
}

/// The arguments, if the expression is a call of that function.
pub(crate) fn call_of<'e>(expr: &'e Expr, function: &str) -> Option<&'e [Expr]> {
    match &*expr.kind {
        ExprKind::Call(name, arguments) if name.eq_ignore_ascii_case(function) => Some(arguments),
        _ => None,
    }
}
