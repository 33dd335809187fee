//! ORDER BY RANK: scores of all rows, fused by reciprocal rank when there are several. Rows without
//! a score come last; ranking never removes one.

use std::cmp::Ordering;

use orrery_types::{Number, Value};

use crate::bound::{Component, Rank};
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::functions::full_text::{self, TextStatistics};
use crate::memory::allocated;

/// The constant of reciprocal rank fusion.
const FUSION: f64 = 60.0;

/// Gathers rows and the statistics of all items, and scores in the end.
pub(super) struct Ranking<'s> {
    rank: &'s Rank,
    statistics: Vec<TextStatistics>,
    rows: Vec<Row>,
}

struct Row {
    value: Value,
    parts: Vec<Part>,
}

/// What one component knows about one row.
enum Part {
    /// Occurrences of each phrase and the length of the text; `None` without text.
    Text(Option<(Vec<usize>, usize)>),
    Score(Option<f64>),
}

impl Part {
    fn found_bytes(&self) -> usize {
        match self {
            Self::Text(Some((found, _))) => allocated(size_of_val(&**found)),
            Self::Text(None) | Self::Score(_) => 0,
        }
    }
}

impl<'s> Ranking<'s> {
    pub(super) fn new(rank: &'s Rank) -> Self {
        let empty = |component: &Component| match component {
            Component::Text(_, phrases) => {
                TextStatistics { hits: vec![0.0; phrases.len()], ..TextStatistics::default() }
            }
            Component::Vector(..) => TextStatistics::default(),
        };
        let statistics = rank.components.iter().map(empty).collect();
        Self { rank, statistics, rows: Vec::new() }
    }

    /// Counts an item in the statistics, whether or not the filter lets it pass.
    #[expect(clippy::cast_precision_loss, reason = "texts are far shorter than 2^53 words")]
    pub(super) fn count(
        &mut self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
    ) -> Result<(), QueryError> {
        for (component, statistics) in self.rank.components.iter().zip(&mut self.statistics) {
            let Component::Text(node, phrases) = component else { continue };
            statistics.items += 1.0;
            let text = evaluator.eval(node, env)?;
            let Some(text) = text.as_str() else { continue };
            evaluator.work(text.len() as u64 / 8)?;
            let (found, length) = full_text::occurrences(text, phrases);
            statistics.words += length as f64;
            for (hits, found) in statistics.hits.iter_mut().zip(found) {
                *hits += f64::from(u8::from(found > 0));
            }
        }
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        evaluator: &Evaluator<'_>,
        env: &mut Env,
        value: Value,
    ) -> Result<(), QueryError> {
        let mut parts = Vec::with_capacity(self.rank.components.len());
        for component in &self.rank.components {
            parts.push(match component {
                Component::Text(node, phrases) => {
                    let text = evaluator.eval(node, env)?;
                    Part::Text(text.as_str().map(|text| full_text::occurrences(text, phrases)))
                }
                Component::Vector(metric, vectors) => {
                    let a = evaluator.eval(&vectors[0], env)?;
                    let b = evaluator.eval(&vectors[1], env)?;
                    let score = metric.score(&a, &b).as_ref().and_then(Value::as_number);
                    // Better is greater from here on.
                    let sign = if metric.greater_is_nearer() { 1.0 } else { -1.0 };
                    Part::Score(score.map(|s: Number| s.as_f64() * sign))
                }
            });
        }
        let found: usize = parts.iter().map(Part::found_bytes).sum();
        evaluator.memory.keep(2 * size_of::<Row>() + size_of_val(&*parts) + found)?;
        self.rows.push(Row { value, parts });
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Value> {
        let scores: Vec<Vec<Option<f64>>> =
            (0..self.rank.components.len()).map(|at| self.scores(at)).collect();
        let total: Vec<Option<f64>> = match scores.as_slice() {
            [only] => only.clone(),
            many => fused(many, &self.rank.weights, self.rows.len()),
        };
        let mut rows: Vec<(Option<f64>, Value)> =
            total.into_iter().zip(self.rows.into_iter().map(|row| row.value)).collect();
        rows.sort_by(|(a, _), (b, _)| descending(*a, *b));
        rows.into_iter().map(|(_, value)| value).collect()
    }

    fn scores(&self, component: usize) -> Vec<Option<f64>> {
        let score = |row: &Row| match &row.parts[component] {
            Part::Score(score) => *score,
            Part::Text(found) => found.as_ref().map(|(found, length)| {
                full_text::score(found, *length, &self.statistics[component])
            }),
        };
        self.rows.iter().map(score).collect()
    }
}

fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Reciprocal rank fusion over dense ranks: equal scores share a rank, the next one follows.
fn fused(scores: &[Vec<Option<f64>>], weights: &[f64], rows: usize) -> Vec<Option<f64>> {
    let mut total = vec![0.0; rows];
    for (component, weight) in scores.iter().zip(weights) {
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by(|a, b| descending(component[*a], component[*b]));
        let mut rank = 0.0;
        let mut previous = None;
        for row in order {
            if previous != Some(component[row]) {
                rank += 1.0;
                previous = Some(component[row]);
            }
            total[row] += weight / (FUSION + rank);
        }
    }
    total.into_iter().map(Some).collect()
}
