//! The plan of ORDER BY RANK: a query for the statistics of all partitions, and one query per
//! score, whose results the client fuses by rank.

use orrery_types::{Object, Value};

use super::QueryInfo;
use super::features::is_weighted;
use super::parts::{FILTER, from_text, items_of, payload, root_alias, where_text};
use crate::ast::{Expr, ExprKind, OrderBy, Select, Selection};
use crate::bound::{Component, Rank};
use crate::error::QueryError;
use crate::query::BoundQuery;

/// Rows that each component query offers at least, where the query asks for only some.
const CANDIDATES_MIN: u64 = 120;
/// Stands for the score of an item that has none.
const LEAST: &str = "-1.7976900000000001e+308";
const GREATEST: &str = "1.7976900000000001e+308";

/// The score of one component as text.
struct Score<'q> {
    text: String,
    /// A negative weight turns the order around.
    ascending: bool,
    is_vector: bool,
    /// Path and terms, for full text, unless an earlier component has the same.
    terms: Option<(&'q Expr, Vec<String>)>,
}

impl Score<'_> {
    /// The score, or what stands for one that is missing.
    fn or_missing(&self) -> String {
        let missing = match (self.ascending, self.is_vector) {
            (true, _) => GREATEST,
            (false, true) => LEAST,
            (false, false) => "-1",
        };
        format!("({} ?? {missing})", self.text)
    }

    /// The direction as ORDER BY writes it; that of a vector's score need not be said.
    fn direction(&self) -> &'static str {
        match (self.ascending, self.is_vector) {
            (true, _) => " ASC",
            (false, true) => "",
            (false, false) => " DESC",
        }
    }
}

/// How many rows a component offers, in the words of the query.
enum Reach {
    All,
    Top(u64),
    Limit(u64),
}

/// The member `hybridSearchQueryInfo`.
pub(super) fn info(
    select: &Select,
    bound: &BoundQuery,
    rank: &Rank,
    skips_order_by: bool,
) -> Result<Value, QueryError> {
    let scores = scores(select, rank)?;
    let bound = &bound.bound.select;
    let skip = bound.limit.map(|_| bound.offset);
    let take = bound.top.or(bound.limit);
    let rows = skip.unwrap_or(0).saturating_add(take.unwrap_or(0)).saturating_mul(2);
    let rows = rows.clamp(CANDIDATES_MIN, u64::from(u32::MAX));
    let reach = match (bound.top, bound.limit) {
        (Some(_), _) => Reach::Top(rows),
        (None, Some(_)) => Reach::Limit(rows),
        (None, None) => Reach::All,
    };
    let plain = skips_order_by && scores.len() > 1;
    let all = if skips_order_by && !plain { &[] } else { scores.as_slice() };
    let component = |score: &Score<'_>| {
        let info = if plain {
            plain_component(select, score, &scores, &reach)
        } else {
            component(select, score, all, &reach)
        };
        info.into_value()
    };
    let components: Vec<Value> = scores.iter().map(component).collect();
    let count =
        |n: Option<u64>| n.and_then(|n| i64::try_from(n).ok()).map_or(Value::Null, Value::from);
    let weights = rank.weights.iter().filter(|_| is_weighted(select));
    let weights = weights.map(|w| Value::from(w.abs())).collect();
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
    let Some(OrderBy::Rank(score)) = &select.order_by else { return Ok(Vec::new()) };
    let calls: Vec<&Expr> = match &*score.kind {
        ExprKind::Call(name, arguments) if name.eq_ignore_ascii_case("RRF") => {
            arguments.iter().take(rank.components.len()).collect()
        }
        _ => vec![score],
    };
    // Components that look for the same share their statistics.
    let mut searched: Vec<String> = Vec::new();
    let mut scores = Vec::with_capacity(calls.len());
    let weighted = rank.components.iter().zip(&rank.weights);
    for (call, (component, weight)) in calls.into_iter().zip(weighted) {
        let ascending = *weight < 0.0;
        scores.push(match component {
            Component::Vector(..) => {
                Score { text: vector_text(call), ascending, is_vector: true, terms: None }
            }
            Component::Text(..) => {
                let text = call.to_string();
                let known = searched.iter().position(|other| *other == text);
                let number = known.unwrap_or(searched.len());
                searched.push(text);
                let mut score = text_score(call, number, ascending)?;
                score.terms = score.terms.filter(|_| known.is_none());
                score
            }
        });
    }
    Ok(scores)
}

fn vector_text(call: &Expr) -> String {
    let ExprKind::Call(_, arguments) = &*call.kind else { return call.to_string() };
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    format!("_VectorScore({})", arguments.join(", "))
}

fn text_score(call: &Expr, number: usize, ascending: bool) -> Result<Score<'_>, QueryError> {
    let ExprKind::Call(_, arguments) = &*call.kind else {
        return Err(QueryError::runtime("One of the input values is invalid."));
    };
    let terms: Vec<String> = arguments[1..].iter().map(ToString::to_string).collect();
    let text = format!(
        "_FullTextScore({}, [{}], {{documentdb-formattablehybridsearchquery-totaldocumentcount}}, \
         {{documentdb-formattablehybridsearchquery-totalwordcount-{number}}}, \
         {{documentdb-formattablehybridsearchquery-hitcountsarray-{number}}})",
        arguments[0],
        terms.join(", ")
    );
    Ok(Score { text, ascending, is_vector: false, terms: Some((&arguments[0], terms)) })
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

fn row_text(select: &Select, root: &str) -> String {
    match &select.selection {
        Selection::Star => root.to_owned(),
        Selection::Value(expr) => expr.to_string(),
        Selection::List(_) => {
            payload(items_of(&select.selection, root).iter().map(|item| (&*item.name, item.text())))
        }
    }
}

impl Reach {
    fn texts(&self) -> (String, String) {
        match self {
            Self::All => (String::new(), String::new()),
            Self::Top(rows) => (format!("TOP {rows} "), String::new()),
            Self::Limit(rows) => (String::new(), format!(" OFFSET 0 LIMIT {rows}")),
        }
    }
}

fn component(select: &Select, score: &Score<'_>, all: &[Score<'_>], reach: &Reach) -> QueryInfo {
    let root = root_alias(select);
    let row = row_text(select, &root);
    let scores: Vec<String> = all.iter().map(Score::or_missing).collect();
    let payload = format!("{{\"payload\": {row}, \"componentScores\": [{}]}}", scores.join(", "));
    let (top, limit) = reach.texts();
    let (text, direction) = (&score.text, score.direction());
    QueryInfo {
        top: if let Reach::Top(rows) = reach { Some(*rows) } else { None },
        offset: if let Reach::Limit(_) = reach { Some(0) } else { None },
        limit: if let Reach::Limit(rows) = reach { Some(*rows) } else { None },
        order_by: vec![if score.ascending { "Ascending" } else { "Descending" }.into()],
        order_by_expressions: vec![text.as_str().into()],
        non_streaming: true,
        rewritten: format!(
            "SELECT {top}{root}._rid, [{{\"item\": {text}}}] AS orderByItems, {payload} AS \
             payload{}{} ORDER BY {text}{direction}{limit}",
            from_text(select),
            where_text(select, &[format!("({FILTER})")]),
        ),
        ..QueryInfo::default()
    }
}

/// The component for a client that orders by the scores it is given.
fn plain_component(
    select: &Select,
    score: &Score<'_>,
    all: &[Score<'_>],
    reach: &Reach,
) -> QueryInfo {
    let root = root_alias(select);
    let row = row_text(select, &root);
    let given = |score: &Score<'_>| {
        let own = score.or_missing();
        if score.ascending { format!("(-1 * {own})") } else { own }
    };
    let scores: Vec<String> = all.iter().map(given).collect();
    let (top, limit) = reach.texts();
    QueryInfo {
        rewritten: format!(
            "SELECT {top}{root}._rid, {row} AS payload, [{}] AS componentScores{}{} ORDER BY \
             {}{}{limit}",
            scores.join(", "),
            from_text(select),
            where_text(select, &[]),
            score.text,
            score.direction(),
        ),
        ..QueryInfo::default()
    }
}
