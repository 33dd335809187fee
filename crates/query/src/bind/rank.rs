//! ORDER BY RANK: one score, or several fused by reciprocal rank.

use orrery_types::{Number, Value};

use super::Binder;
use crate::ast::{Collection, Expr, ExprKind, Select};
use crate::bound::{Component, Node, Order, Rank};
use crate::error::QueryError;
use crate::functions;
use crate::functions::full_text::terms;

impl<'a> Binder<'a> {
    pub(super) fn rank(
        &mut self,
        select: &'a Select,
        scores: &'a [Expr],
    ) -> Result<Order, QueryError> {
        self.check_rank_sources(select)?;
        self.check_rank_clauses(select)?;
        let [score] = scores else { return Err(self.not_a_score(&scores[1])) };
        if let Some(arguments) = call_of(score, "RRF") {
            return self.fusion(score, arguments);
        }
        let components = vec![self.component(score)?];
        Ok(Order::Rank(Rank { components, weights: vec![1.0] }))
    }

    fn check_rank_sources(&self, select: &Select) -> Result<(), QueryError> {
        let (code, what) = match select.from.as_slice() {
            [_, _, ..] => ("SC2224", "The JOIN operator is not allowed"),
            [source] if source.iterates => {
                ("SC2223", "The FROM clause with the IN operator is not allowed")
            }
            [source] if matches!(source.collection, Collection::Subquery(_)) => {
                ("SC2225", "Subqueries in the FROM clause are not allowed")
            }
            _ => return Ok(()),
        };
        Err(self.error(select.span, code, format!("{what} with the ORDER BY RANK clause.")))
    }

    fn check_rank_clauses(&self, select: &Select) -> Result<(), QueryError> {
        let (code, what) = match select {
            Select { distinct: true, .. } => ("SC2220", "The DISTINCT keyword is not allowed"),
            Select { group_by, .. } if !group_by.is_empty() => {
                ("SC2227", "The GROUP BY clause is not allowed")
            }
            _ if super::selects_aggregate(&select.selection) => {
                ("SC2226", "Aggregate functions are not allowed")
            }
            _ => return Ok(()),
        };
        Err(self.error(select.span, code, format!("{what} with the ORDER BY RANK clause.")))
    }

    fn not_a_score(&self, expr: &Expr) -> QueryError {
        QueryError::not_a_score(self.text, expr.span)
    }

    fn fusion(&mut self, score: &Expr, arguments: &'a [Expr]) -> Result<Order, QueryError> {
        let is_score = |e: &Expr| {
            call_of(e, "FullTextScore").is_some() || call_of(e, "VectorDistance").is_some()
        };
        let (scores, weights) = match arguments.split_last() {
            Some((last, scores)) if !is_score(last) => (scores, Some(last)),
            _ => (arguments, None),
        };
        let mut components = Vec::with_capacity(scores.len());
        for score in scores {
            components.push(self.component(score)?);
        }
        if components.len() < 2 {
            let message =
                "A score fusion function requires at least two component score functions.";
            return Err(self.error(score.span, "SC2233", message));
        }
        let weights = match weights {
            None => vec![1.0; components.len()],
            Some(expr) => self.weights(expr, components.len())?,
        };
        Ok(Order::Rank(Rank { components, weights }))
    }

    fn weights(&mut self, expr: &'a Expr, count: usize) -> Result<Vec<f64>, QueryError> {
        let numbers = match self.expr(expr)? {
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
            self.error(expr.span, "SC2229", message)
        })
    }

    fn component(&mut self, expr: &'a Expr) -> Result<Component, QueryError> {
        if let Some(arguments) = call_of(expr, "VectorDistance") {
            self.check_arity(expr, "VectorDistance", arguments.len())?;
            let (metric, vectors) = self.vector_distance(arguments)?;
            return Ok(Component::Vector(metric, Box::new(vectors)));
        }
        let Some(arguments) = call_of(expr, "FullTextScore") else {
            return Err(self.not_a_score(expr));
        };
        self.check_arity(expr, "FullTextScore", arguments.len())?;
        let text = self.expr(&arguments[0])?;
        self.check_terms(arguments)?;
        let mut phrases = Vec::new();
        for argument in &arguments[1..] {
            match self.expr(argument)? {
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
    pub(super) fn check_terms(&mut self, arguments: &'a [Expr]) -> Result<(), QueryError> {
        for argument in &arguments[1..] {
            let is_literal = match (&*argument.kind, self.expr(argument)?) {
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
                return Err(self.error(argument.span, "SC2241", message));
            }
        }
        Ok(())
    }

    fn check_arity(&self, expr: &Expr, name: &str, given: usize) -> Result<(), QueryError> {
        let complaint = functions::find(name).and_then(|f| f.arity_error(given));
        complaint.map_or(Ok(()), |(code, message)| Err(self.error(expr.span, code, message)))
    }
}

/// The arguments, if the expression is a call of that function.
pub(crate) fn call_of<'e>(expr: &'e Expr, function: &str) -> Option<&'e [Expr]> {
    match &*expr.kind {
        ExprKind::Call(name, arguments) if name.eq_ignore_ascii_case(function) => Some(arguments),
        _ => None,
    }
}
