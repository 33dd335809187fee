//! The plan of ORDER BY RANK: a query for the statistics of all partitions, and one query per
//! score, whose results the client fuses by rank.

use orrery_types::{Object, Value};

use super::QueryInfo;
use super::parts::{FILTER, from_text, items_of, payload, root_alias, where_text};
use crate::ast::{Expr, ExprKind, OrderBy, Select, Selection};
use crate::bound::{Component, Rank};
use crate::error::QueryError;
use crate::query::BoundQuery;

/// Rows that each component query offers at least.
const CANDIDATES_MIN: u64 = 120;

/// The score of one component as text.
struct Score<'q> {
    text: String,
    descending: bool,
    /// Path and terms, for full text.
    terms: Option<(&'q Expr, Vec<String>)>,
}

/// The member `hybridSearchQueryInfo`.
pub(super) fn info(select: &Select, bound: &BoundQuery, rank: &Rank) -> Result<Value, QueryError> {
    let scores = scores(select, rank)?;
    let bound = &bound.bound.select;
    let skip = bound.limit.map(|_| bound.offset);
    let take = bound.top.or(bound.limit);
    let reach = skip.unwrap_or(0).saturating_add(take.unwrap_or(0)).saturating_mul(2);
    let components: Vec<Value> = scores
        .iter()
        .map(|score| component(select, score, &scores, reach.max(CANDIDATES_MIN)))
        .collect();
    let count =
        |n: Option<u64>| n.and_then(|n| i64::try_from(n).ok()).map_or(Value::Null, Value::from);
    let weighted = rank.weights.iter().any(|w| (w - 1.0).abs() > f64::EPSILON);
    let weights = rank.weights.iter().filter(|_| weighted).map(|w| Value::from(*w)).collect();
    let mut info = Object::new();
    info.set("globalStatisticsQuery", statistics(select, &scores).into());
    info.set("componentQueryInfos", Value::array(components));
    info.set("componentWithoutPayloadQueryInfos", Value::array(Vec::new()));
    info.set("projectionQueryInfo", Value::Null);
    info.set("componentWeights", Value::array(weights));
    info.set("skip", count(skip));
    info.set("take", count(take));
    info.set("requiresGlobalStatistics", scores.iter().any(|s| s.terms.is_some()).into());
    Ok(Value::object(info))
}

fn scores<'q>(select: &'q Select, rank: &Rank) -> Result<Vec<Score<'q>>, QueryError> {
    let Some(OrderBy::Rank(calls)) = &select.order_by else { return Ok(Vec::new()) };
    let calls: Vec<&Expr> = match calls.as_slice() {
        [only] => match &*only.kind {
            ExprKind::Call(name, arguments) if name.eq_ignore_ascii_case("RRF") => {
                arguments.iter().take(rank.components.len()).collect()
            }
            _ => vec![only],
        },
        many => many.iter().collect(),
    };
    let mut texts = 0;
    let mut scores = Vec::with_capacity(calls.len());
    for (call, component) in calls.into_iter().zip(&rank.components) {
        scores.push(match component {
            Component::Vector(metric, _) => Score {
                text: call.to_string(),
                descending: metric.greater_is_nearer(),
                terms: None,
            },
            Component::Text(..) => {
                texts += 1;
                text_score(call, texts - 1)?
            }
        });
    }
    Ok(scores)
}

fn text_score(call: &Expr, number: usize) -> Result<Score<'_>, QueryError> {
    let ExprKind::Call(_, arguments) = &*call.kind else {
        return Err(QueryError::runtime("One of the input values is invalid."));
    };
    let mut terms = Vec::new();
    for argument in &arguments[1..] {
        match &*argument.kind {
            ExprKind::Array(list) => terms.extend(list.iter().map(ToString::to_string)),
            _ => terms.push(argument.to_string()),
        }
    }
    let text = format!(
        "_FullTextScore({}, [{}], {{documentdb-formattablehybridsearchquery-totaldocumentcount}}, \
         {{documentdb-formattablehybridsearchquery-totalwordcount-{number}}}, \
         {{documentdb-formattablehybridsearchquery-hitcountsarray-{number}}})",
        arguments[0],
        terms.join(", ")
    );
    Ok(Score { text, descending: true, terms: Some((&arguments[0], terms)) })
}

fn statistics(select: &Select, scores: &[Score<'_>]) -> String {
    let entry = |(path, terms): &(&Expr, Vec<String>)| {
        let hits: Vec<String> =
            terms.iter().map(|t| format!("COUNTIF(FullTextContains({path}, {t}))")).collect();
        format!(
            "{{\"totalWordCount\": SUM(_FullTextWordCount({path})), \"hitCounts\": [{}]}}",
            hits.join(", ")
        )
    };
    let entries: Vec<String> =
        scores.iter().filter_map(|score| score.terms.as_ref().map(entry)).collect();
    format!(
        "SELECT COUNT(1) AS documentCount, [{}] AS fullTextStatistics{}",
        entries.join(", "),
        from_text(select)
    )
}

fn component(select: &Select, score: &Score<'_>, all: &[Score<'_>], rows: u64) -> Value {
    let root = root_alias(select);
    let row = match &select.selection {
        Selection::Star => root.clone(),
        Selection::Value(expr) => expr.to_string(),
        Selection::List(_) => payload(
            items_of(&select.selection, &root).iter().map(|item| (&*item.name, item.text())),
        ),
    };
    let scores: Vec<String> = all.iter().map(|s| format!("({} ?? -1)", s.text)).collect();
    let payload = format!("{{\"payload\": {row}, \"componentScores\": [{}]}}", scores.join(", "));
    // Clients fill in the place for their filter together with the statistics, where those are needed.
    let needs_statistics = all.iter().any(|score| score.terms.is_some());
    let filter: Vec<String> = needs_statistics.then(|| format!("({FILTER})")).into_iter().collect();
    // The direction of a vector's score is its metric's affair and must not be written.
    let direction = if score.terms.is_some() { " DESC" } else { "" };
    let text = &score.text;
    let info = QueryInfo {
        order_by: vec![if score.descending { "Descending" } else { "Ascending" }.into()],
        order_by_expressions: vec![text.as_str().into()],
        select_value: matches!(select.selection, Selection::Value(_)),
        non_streaming: true,
        rewritten: format!(
            "SELECT TOP {rows} {root}._rid, [{{\"item\": {text}}}] AS orderByItems, {payload} AS \
             payload{}{} ORDER BY {text}{direction}",
            from_text(select),
            where_text(select, &filter),
        ),
        ..QueryInfo::default()
    };
    info.into_value()
}
