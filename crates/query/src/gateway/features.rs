//! The features that a client must support to merge a query, in the words of the protocol. A client lists the
//! features that it supports; without one of them it would merge wrongly and report no error.

use super::distinct_count;
use crate::ast::{Expr, ExprKind, OrderBy, Select};
use crate::bind::{call_of, selects_such};
use crate::functions::aggregate::AggregateFunction;
use crate::query::Query;

impl Query {
    /// The features that merging it takes.
    pub fn merge_features(&self) -> Vec<&'static str> {
        let (shape, select) = (self.shape(), self.select());
        let selection = &select.selection;
        let by_keys = match &select.order_by {
            Some(OrderBy::Keys(keys)) => keys.as_slice(),
            Some(OrderBy::Rank(_)) | None => &[],
        };
        let by_vector = by_keys.iter().any(|key| call_of(&key.expr, "VectorDistance").is_some());
        let needed = [
            (shape.aggregates && shape.select_value && !shape.group_by, "Aggregate"),
            (shape.aggregates_into_properties(), "NonValueAggregate"),
            (selects_such(selection, |kind| kind == AggregateFunction::CountIf), "CountIf"),
            (selects_such(selection, is_list_or_set), "ListAndSetAggregate"),
            (shape.distinct, "Distinct"),
            (distinct_count(select).is_some(), "DCount"),
            (shape.group_by, "GroupBy"),
            (shape.offset_limit, "OffsetAndLimit"),
            (!by_keys.is_empty(), "OrderBy"),
            (by_keys.len() > 1, "MultipleOrderBy"),
            (by_vector, "NonStreamingOrderBy"),
            (shape.rank, "HybridSearch"),
            (is_weighted(select), "WeightedRankFusion"),
            (shape.top, "Top"),
        ];
        needed.into_iter().filter(|(needed, _)| *needed).map(|(_, feature)| feature).collect()
    }
}

fn is_list_or_set(kind: AggregateFunction) -> bool {
    matches!(kind, AggregateFunction::MakeList | AggregateFunction::MakeSet)
}

/// Whether ranks are fused by weights: what follows the scores is a list of them.
pub(super) fn is_weighted(select: &Select) -> bool {
    let Some(OrderBy::Rank(score)) = &select.order_by else { return false };
    let is_score = |expr: &Expr| matches!(&*expr.kind, ExprKind::Call(..));
    call_of(score, "RRF").and_then(<[Expr]>::last).is_some_and(|last| !is_score(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &[&str]) {
        assert_eq!(Query::parse(query).expect(query).merge_features(), expected, "{query}");
    }

    #[test]
    fn a_query_needs_what_its_clauses_say() {
        check("SELECT * FROM c WHERE c.a = 1", &[]);
        check("SELECT VALUE COUNT(1) FROM c", &["Aggregate"]);
        check("SELECT COUNT(1) FROM c", &["NonValueAggregate"]);
        check("SELECT VALUE COUNTIF(c.a) FROM c", &["Aggregate", "CountIf"]);
        check("SELECT VALUE MAKESET(c.a) FROM c", &["Aggregate", "ListAndSetAggregate"]);
        check("SELECT c.a, MAKELIST(c.b) FROM c GROUP BY c.a", &["ListAndSetAggregate", "GroupBy"]);
        check("SELECT DISTINCT TOP 3 c.a FROM c", &["Distinct", "Top"]);
        let counted = "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c) AS s";
        check(counted, &["Aggregate", "Distinct", "DCount"]);
        check("SELECT * FROM c ORDER BY c.a OFFSET 1 LIMIT 2", &["OffsetAndLimit", "OrderBy"]);
        check("SELECT * FROM c ORDER BY c.a, c.b", &["OrderBy", "MultipleOrderBy"]);
    }

    #[test]
    fn searching_needs_more() {
        let near = "SELECT TOP 3 * FROM c ORDER BY VectorDistance(c.v, [1])";
        check(near, &["OrderBy", "NonStreamingOrderBy", "Top"]);
        check("SELECT * FROM c ORDER BY RANK FullTextScore(c.t, 'a')", &["HybridSearch"]);
        let fused = |more| {
            format!(
                "SELECT * FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), \
                 VectorDistance(c.v, [1]){more})"
            )
        };
        check(&fused(""), &["HybridSearch"]);
        check(&fused(", [2, 1]"), &["HybridSearch", "WeightedRankFusion"]);
    }
}
