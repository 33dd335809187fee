//! Plans for the queries of the service's own table, and proof that what is sent to the
//! partitions is a query of ours.

use super::*;
use crate::ContainerFacts;

fn plan_on(text: &str, key: Option<&PartitionKey>) -> Result<Value, QueryError> {
    let query = Query::parse(text)?;
    let parameters = [("@n".to_owned(), Value::from(5))];
    let definition = PartitionKeyDef {
        paths: vec![orrery_types::PropertyPath::parse("/pk").expect("a path")],
        kind: orrery_types::PartitionKeyKind::Hash,
        version: 2,
        system_key: false,
    };
    let target =
        PlanTarget { definition: &definition, key, range: None, skip_order_by_rewrite: false };
    let plan = query_plan(&query, &parameters, &ContainerFacts::default(), &target)?;
    Ok(Value::parse(plan.as_bytes()).expect("a plan is JSON"))
}

fn plan(text: &str) -> Result<Value, QueryError> {
    plan_on(text, None)
}

/// Checks the rewritten query and some members of `queryInfo`, given as JSON.
fn check(text: &str, members: &str, rewritten: &str) {
    let plan = plan(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let info = plan.get("queryInfo");
    assert_eq!(info.get("rewrittenQuery").as_str(), Some(rewritten), "{text}");
    let members = Value::parse(members.as_bytes()).unwrap();
    for (name, value) in members.as_object().unwrap().iter() {
        assert_eq!(info.get(name), value, "{name} of {text}");
    }
    if !rewritten.is_empty() {
        let sent = rewritten.replace(FILTER, "true");
        let query = Query::parse(&sent).unwrap_or_else(|e| panic!("{sent}: {e}"));
        let parameters = [("@n".to_owned(), Value::from(5))];
        query
            .bind(&parameters, &ContainerFacts::default())
            .unwrap_or_else(|e| panic!("{sent}: {e}"));
    }
}

#[test]
fn a_plain_query_has_the_trivial_plan() {
    let plan = plan("SELECT * FROM c").unwrap();
    let expected = r#"{"partitionedQueryExecutionInfoVersion":2,"queryInfo":{"distinctType":"None","top":null,"offset":null,"limit":null,"orderBy":[],"orderByExpressions":[],"groupByExpressions":[],"groupByAliases":[],"aggregates":[],"groupByAliasToAggregateType":{},"rewrittenQuery":"","hasSelectValue":false,"dCountInfo":null,"hasNonStreamingOrderBy":false},"queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]}"#;
    assert_eq!(plan.to_json(), expected);
}

#[test]
fn order_by_sends_keys_and_payload() {
    check(
        "SELECT * FROM r ORDER BY r.b DESC",
        r#"{"orderBy":["Descending"],"orderByExpressions":["r.b"]}"#,
        "SELECT r._rid, [{\"item\": r.b}] AS orderByItems, r AS payload FROM r WHERE \
         ({documentdb-formattableorderbyquery-filter}) ORDER BY r.b DESC",
    );
    check(
        "SELECT TOP 9 c.x, c.y FROM c WHERE c.k=1 ORDER BY c.b",
        r#"{"top":9,"orderBy":["Ascending"]}"#,
        "SELECT TOP 9 c._rid, [{\"item\": c.b}] AS orderByItems, {\"x\": c.x, \"y\": c.y} AS \
         payload FROM c WHERE ((c.k = 1) AND ({documentdb-formattableorderbyquery-filter})) ORDER \
         BY c.b",
    );
    check(
        "SELECT VALUE c.x FROM c ORDER BY c.b",
        r#"{"hasSelectValue":true}"#,
        "SELECT c._rid, [{\"item\": c.b}] AS orderByItems, c.x AS payload FROM c WHERE \
         (({documentdb-formattableorderbyquery-filter}) AND IS_DEFINED(c.x)) ORDER BY c.b",
    );
    check(
        "SELECT r[0] FROM r ORDER BY r.a, r.b OFFSET 5 LIMIT 10",
        r#"{"offset":5,"limit":10}"#,
        "SELECT r._rid, [{\"item\": r.a}, {\"item\": r.b}] AS orderByItems, {\"$1\": r[0]} AS \
         payload FROM r WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY r.a, r.b \
         OFFSET 0 LIMIT 15",
    );
    check(
        "SELECT TOP 10 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0])",
        r#"{"top":10,"orderBy":["Descending"],"hasNonStreamingOrderBy":true}"#,
        "SELECT TOP 10 c._rid, [{\"item\": VectorDistance(c.v, [1, 0])}] AS orderByItems, {\"id\": \
         c.id} AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY \
         VectorDistance(c.v, [1, 0])",
    );
}

#[test]
fn aggregates_send_what_a_merge_needs() {
    check(
        "SELECT VALUE COUNT(1) FROM c",
        r#"{"aggregates":["Count"],"hasSelectValue":true}"#,
        "SELECT VALUE [{\"item\": COUNT(1)}] FROM c",
    );
    check(
        "SELECT VALUE MIN(c.x) FROM c WHERE c.k = @n",
        r#"{"aggregates":["Min"]}"#,
        "SELECT VALUE [{\"item\": MIN(c.x), \"item2\": {\"min\": MIN(c.x), \"count\": \
         COUNT(c.x)}}] FROM c WHERE (c.k = @n)",
    );
    check(
        "SELECT VALUE AVG(c.x) FROM c",
        r#"{"aggregates":["Average"]}"#,
        "SELECT VALUE [{\"item\": {\"sum\": SUM(c.x), \"count\": COUNT(c.x)}}] FROM c",
    );
    check(
        "SELECT SUM(c.x) AS s, COUNT(1) FROM c",
        r#"{"groupByAliases":["s","$1"],"groupByAliasToAggregateType":{"s":"Sum","$1":"Count"},"aggregates":[]}"#,
        "SELECT {\"s\": {\"item\": SUM(c.x)}, \"$1\": {\"item\": COUNT(1)}} AS payload FROM c",
    );
    check(
        "SELECT TOP 3 c.t, COUNT(1) AS n FROM c GROUP BY c.t",
        r#"{"top":3,"groupByExpressions":["c.t"],"groupByAliases":["t","n"],"groupByAliasToAggregateType":{"t":null,"n":"Count"}}"#,
        "SELECT [{\"item\": c.t}] AS groupByItems, {\"t\": c.t, \"n\": {\"item\": COUNT(1)}} AS \
         payload FROM c GROUP BY c.t",
    );
    check(
        "SELECT VALUE COUNT(1) FROM c GROUP BY c.t",
        r#"{"aggregates":["Count"],"hasSelectValue":true}"#,
        "SELECT [{\"item\": c.t}] AS groupByItems, [{\"item\": COUNT(1)}] AS payload FROM c GROUP \
         BY c.t",
    );
    let error = plan("SELECT COUNT(1) + 5 FROM c").unwrap_err();
    assert!(error.to_string().contains("Compositions of aggregates"));
}

#[test]
fn distinct_and_counts_are_merged_by_the_client() {
    check("SELECT DISTINCT c.x FROM c", r#"{"distinctType":"Unordered"}"#, "");
    check(
        "SELECT DISTINCT TOP 2 c.x FROM c",
        r#"{"distinctType":"Unordered","top":2}"#,
        "SELECT DISTINCT c.x FROM c",
    );
    check(
        "SELECT DISTINCT VALUE c.x FROM c ORDER BY c.x",
        r#"{"distinctType":"Ordered"}"#,
        "SELECT c._rid, [{\"item\": c.x}] AS orderByItems, c.x AS payload FROM c WHERE \
         (({documentdb-formattableorderbyquery-filter}) AND IS_DEFINED(c.x)) ORDER BY c.x",
    );
    check(
        "SELECT COUNT(1) FROM (SELECT DISTINCT c.x FROM c)",
        r#"{"distinctType":"Unordered","dCountInfo":{"dCountAlias":"$1"}}"#,
        "SELECT DISTINCT c.x FROM c",
    );
    check(
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.x FROM c)",
        r#"{"dCountInfo":{"dCountAlias":""},"hasSelectValue":true}"#,
        "SELECT DISTINCT VALUE c.x FROM c",
    );
    check("SELECT TOP 5 * FROM c", r#"{"top":5}"#, "");
    check(
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        r#"{"offset":1,"limit":2}"#,
        "SELECT * FROM c OFFSET 0 LIMIT 3",
    );
    let single = plan_on(
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        Some(&PartitionKey::parse_header("[1]").unwrap()),
    )
    .unwrap();
    assert_eq!(single.get("queryInfo").get("offset"), &Value::Null);
    assert_eq!(single.get("queryInfo").get("rewrittenQuery").as_str(), Some(""));
}

#[test]
fn a_rank_becomes_statistics_and_component_queries() {
    let text = "SELECT TOP 10 c.name FROM c WHERE c.k = 1 ORDER BY RANK RRF(FullTextScore(c.text, \
                'swim', 'run'), VectorDistance(c.v, [1, 0]), [2, 1])";
    let plan = plan(text).unwrap();
    assert!(plan.get("queryInfo").is_undefined());
    let info = plan.get("hybridSearchQueryInfo");
    let statistics = info.get("globalStatisticsQuery").as_str().unwrap();
    assert_eq!(
        statistics,
        "SELECT COUNT(1) AS documentCount, [{\"totalWordCount\": SUM(_FullTextWordCount(c.text)), \
         \"hitCounts\": [COUNTIF(FullTextContains(c.text, \"swim\")), \
         COUNTIF(FullTextContains(c.text, \"run\"))]}] AS fullTextStatistics FROM c"
    );
    assert_eq!(info.get("componentWeights").to_json(), "[2,1]");
    assert_eq!(info.get("take").as_i64(), Some(10));
    let components = info.get("componentQueryInfos").as_array().unwrap();
    assert_eq!(components.len(), 2);
    for text in std::iter::once(statistics)
        .chain(components.iter().filter_map(|c| c.get("rewrittenQuery").as_str()))
    {
        bind_component(text);
    }
}

#[test]
fn a_rank_offers_as_many_rows_as_the_query_can_take() {
    for (clause, offered) in [
        (("", ""), ("", "")),
        (("TOP 3 ", ""), ("TOP 120 ", "")),
        (("TOP 100 ", ""), ("TOP 200 ", "")),
        (("", " OFFSET 100 LIMIT 50"), ("", " OFFSET 0 LIMIT 300")),
        (("", " OFFSET 1 LIMIT 2147483647"), ("", " OFFSET 0 LIMIT 4294967295")),
        (("TOP 4294967295 ", ""), ("TOP 4294967295 ", "")),
    ] {
        let text = format!(
            "SELECT {}c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, \
             [1])){}",
            clause.0, clause.1
        );
        let plan = plan(&text).unwrap();
        let info = plan.get("hybridSearchQueryInfo");
        for component in info.get("componentQueryInfos").as_array().unwrap() {
            let sent = component.get("rewrittenQuery").as_str().unwrap();
            assert!(sent.starts_with(&format!("SELECT {}c._rid", offered.0)), "{text}: {sent}");
            let has_limit = sent.contains(" OFFSET ");
            assert!(
                sent.ends_with(offered.1) && has_limit != offered.1.is_empty(),
                "{text}: {sent}"
            );
            bind_component(sent);
        }
    }
}

/// Binds a query of a rank as a partition gets it.
fn bind_component(text: &str) {
    let sent = text
        .replace(FILTER, "true")
        .replace("{documentdb-formattablehybridsearchquery-totaldocumentcount}", "3")
        .replace("{documentdb-formattablehybridsearchquery-totalwordcount-0}", "9")
        .replace("{documentdb-formattablehybridsearchquery-hitcountsarray-0}", "[1, 2]");
    let query = Query::parse(&sent).unwrap_or_else(|e| panic!("{sent}: {e}"));
    query.bind(&[], &ContainerFacts::default()).unwrap_or_else(|e| panic!("{sent}: {e}"));
}

#[test]
fn what_the_planner_does_not_understand_reaches_all_partitions() {
    for text in [
        // More spellings than are listed.
        "SELECT * FROM c WHERE LOWER(c.pk) != 'contoso'",
        "SELECT * FROM c WHERE NOT (UPPER(c.pk) = 'CONTOSO')",
        // Letters whose other case is several letters, or another letter's.
        "SELECT * FROM c WHERE UPPER(c.pk) = 'GIEßEN'",
        "SELECT * FROM c WHERE LOWER(c.pk) != 'ß'",
        // An aggregate gives a row over nothing.
        "SELECT c.id, n FROM c JOIN (SELECT VALUE COUNT(1) FROM t IN c.tags WHERE c.pk = 'a') n",
        "SELECT * FROM c WHERE (SELECT VALUE COUNT(1) FROM t IN c.tags WHERE false) = 0",
        "SELECT * FROM c WHERE EXISTS(SELECT VALUE COUNT(1) WHERE c.pk = 'a')",
        // Several numbers give this sum.
        "SELECT * FROM c WHERE c.pk + 1e16 = 1e16",
    ] {
        let plan = plan(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let range = plan.get("queryRanges").at(0);
        assert_eq!(range.get("min").as_str(), Some(""), "{text}");
        assert_eq!(range.get("max").as_str(), Some("FF"), "{text}");
    }
    let spelled = plan("SELECT * FROM c WHERE LOWER(c.pk) = 'k'").expect("a plan");
    let spellings = spelled.get("queryRanges").as_array().map(<[Value]>::len);
    assert_eq!(spellings, Some(3), "the sign for kelvin is one of them");
}
