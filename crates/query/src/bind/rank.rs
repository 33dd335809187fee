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
            return Err(self.not_a_score(score));
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
            let message = "The last parameter of the RRF function is an optional array of weights. \
                           The length of this array must be the same as the number of the \
                           component scores.";
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
        let mut phrases = Vec::new();
        for argument in &arguments[1..] {
            match self.expr(argument)? {
                Node::Constant(Value::String(phrase)) => phrases.push(terms(&phrase)),
                Node::Constant(Value::Array(list)) if list.iter().all(|v| v.as_str().is_some()) => {
                    phrases.extend(list.iter().filter_map(Value::as_str).map(terms));
                }
                _ => {
                    let message = "The search terms of the FullTextScore function must be strings.";
                    return Err(self.error(argument.span, "SC2241", message));
                }
            }
        }
        Ok(Component::Text(text, phrases))
    }

    fn check_arity(&self, expr: &Expr, name: &str, given: usize) -> Result<(), QueryError> {
        let complaint = functions::find(name).and_then(|f| f.arity_error(given));
        complaint.map_or(Ok(()), |message| Err(self.error(expr.span, "SC2050", message)))
    }
}

/// The arguments, if the expression is a call of that function.
pub(crate) fn call_of<'e>(expr: &'e Expr, function: &str) -> Option<&'e [Expr]> {
    match &*expr.kind {
        ExprKind::Call(name, arguments) if name.eq_ignore_ascii_case(function) => Some(arguments),
        _ => None,
    }
}
