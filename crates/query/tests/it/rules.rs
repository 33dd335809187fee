//! Static rules, conditions, computed properties and user-defined functions beyond the golden
//! cases.

use orrery_index::IndexingPolicy;
use orrery_query::{ComputedProperty, ContainerFacts, IndexedOrder, Query};
use orrery_types::Value;

use crate::memory::{all_rows, context, run};

fn check_refused(text: &str, code: Option<&str>, says: &str) {
    let error = run(text, "[]").expect_err(text);
    assert_eq!(error.code(), code, "{text}: {error}");
    assert!(error.to_string().contains(says), "{text}: {error}");
}

#[test]
fn names_resolve_by_the_rules_of_from() {
    check_refused("SELECT c.a FROM d", Some("SC2001"), "'c'");
    check_refused("SELECT * FROM c JOIN d", Some("SC2001"), "'d'");
    check_refused("SELECT x FROM c JOIN x IN d.l", Some("SC2001"), "'d'");
    check_refused("SELECT c.a FROM x IN c.l", Some("SC2001"), "'c'");
    check_refused("SELECT 1 FROM c JOIN c IN c.l", Some("SC2021"), "'c'");
    check_refused("SELECT c.a AS x FROM c ORDER BY x", Some("SC2001"), "'x'");
    check_refused("SELECT EXISTS(SELECT 1 FROM c)", Some("SC2001"), "'c'");
    check_refused("SELECT *", Some("SC1021"), "FROM clause is omitted");
    check_refused("SELECT * FROM c JOIN t IN c.t", Some("SC2042"), "single input set");
    check_refused("SELECT @a", Some("SC2011"), "'@a'");
    check_refused("SELECT udf.none(1)", None, "none");
}

#[test]
fn order_by_takes_paths_of_the_item_only() {
    check_refused("SELECT * FROM c ORDER BY 1", Some("2206"), "document path");
    check_refused("SELECT * FROM c ORDER BY c", Some("2206"), "document path");
    check_refused("SELECT * FROM c ORDER BY c.a + 1", Some("2206"), "document path");
    check_refused("SELECT * FROM c ORDER BY c.x ? c.a : c.b", Some("2206"), "document path");
    let chosen = "SELECT VALUE c.b FROM c ORDER BY undefined ? c.a : (1 = 1 ? c.b : c.a) DESC";
    let rows = run(chosen, r#"[{"a":2,"b":1},{"a":1,"b":2}]"#).expect("rows");
    assert_eq!(Value::array(rows).to_json(), "[2,1]");
    check_refused("SELECT t FROM c JOIN t IN c.t ORDER BY t.a", None, "correlated collections");
    check_refused("SELECT t FROM t IN c.t ORDER BY t.a", None, "correlated collections");
    check_refused("SELECT * FROM (SELECT c.a FROM c) s ORDER BY s.b", Some("2206"), "path");
    check_refused("SELECT c.a FROM c GROUP BY c.a ORDER BY c.b", Some("SC2103"), "'c.b'");
    check_refused(
        "SELECT TOP 1 * FROM c ORDER BY VectorDistance(c.v, [1]) DESC",
        Some("SC2210"),
        "Specifying a sorting order (ASC or DESC) with VectorDistance function is not supported.",
    );
    let rows = run("SELECT VALUE x.b FROM c.a x ORDER BY x.b", r#"[{"a":{"b":2}},{"a":{"b":1}}]"#);
    assert_eq!(rows.unwrap(), [Value::from(1), Value::from(2)]);
}

#[test]
fn aggregates_and_groups_keep_their_places() {
    check_refused("SELECT * FROM c WHERE COUNT(1) > 1", Some("SC2104"), "WHERE clause");
    check_refused("SELECT c.a, COUNT(1) FROM c", Some("SC2102"), "'c.a'");
    check_refused("SELECT COUNT(SUM(c.a)) FROM c", Some("SC2101"), "aggregate");
    check_refused("SELECT 1 FROM c GROUP BY 1", Some("SC2110"), "property reference");
    check_refused("SELECT 1 FROM c GROUP BY MAX(c.a)", Some("SC2111"), "aggregate");
    let rows = run(
        "SELECT (SELECT VALUE {n: COUNT(1), id: c.id} FROM t IN c.t) AS s FROM c",
        r#"[{"id":"1","t":[1,2]}]"#,
    );
    assert_eq!(rows.unwrap()[0].to_json(), r#"{"s":{"n":2,"id":"1"}}"#);
    let items = r#"[{"a":2,"t":[1,2]},{"a":1,"t":[3]},{"a":2,"t":[]}]"#;
    let sum = "SELECT VALUE SUM((SELECT VALUE COUNT(1) FROM t IN c.t)) FROM c";
    assert_eq!(run(sum, items).unwrap(), [Value::from(3)]);
    let groups = "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a ORDER BY c.a";
    assert_eq!(
        Value::array(run(groups, items).unwrap()).to_json(),
        r#"[{"a":1,"n":1},{"a":2,"n":2}]"#
    );
    let sorted = "SELECT VALUE s.a FROM (SELECT c.a FROM c) s ORDER BY s.a DESC";
    assert_eq!(Value::array(run(sorted, items).unwrap()).to_json(), "[2,2,1]");
    let rows = run("SELECT VALUE COUNT(1) + SUM(c.a) FROM c", r#"[{"a":2},{"a":3}]"#);
    assert_eq!(rows.unwrap(), [Value::from(7)]);
}

#[test]
fn ranking_and_vectors_have_rules_of_their_own() {
    let rank =
        |from: &str, score: &str| format!("SELECT TOP 1 1 FROM {from} ORDER BY RANK {score}");
    let score = "FullTextScore(c.t, 'a')";
    check_refused(&rank("x IN c.l", "FullTextScore(x.t, 'a')"), Some("SC2223"), "IN operator");
    check_refused(&rank("(SELECT * FROM c) c", score), Some("SC2225"), "Subqueries");
    check_refused(&rank("c", "c.t"), Some("SC2221"), "must be followed by");
    check_refused(&rank("c", &format!("RRF({score}, [1])")), Some("SC2233"), "at least two");
    check_refused(&rank("c", "FullTextScore(c.t)"), Some("SC2050"), "FullTextScore");
    check_refused("SELECT RRF(1, 2) FROM c", Some("SC2005"), "RRF");
    check_refused(
        "SELECT VectorDistance(c.v, [1], true, {searchListSizeMultiplier: -100}) FROM c",
        Some("SC2213"),
        "value -100 specified",
    );
    let items = r#"[{"v":[1,0]},{"v":[1]},{"v":["a",1]},{"v":[0,0]},{}]"#;
    let rows = run("SELECT VALUE VectorDistance(c.v, [0, 1]) FROM c", items).unwrap();
    assert_eq!(rows, [Value::from(0)], "other lengths, other types and zero have no distance");
}

#[test]
fn what_linq_and_ef_core_send_runs() {
    let items = r#"[{"a":[{"n":[{"i":1},{"i":3}]},{"n":[{"i":2}]}],"k":4},{"a":[],"k":4}]"#;
    let check = |text: &str, expected: &str| {
        let rows = run(text, items).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(Value::array(rows).to_json(), expected, "{text}");
    };
    let inner =
        "SELECT VALUE SUM((SELECT VALUE MAX(n[\"i\"]) FROM n IN a[\"n\"])) FROM a IN c[\"a\"]";
    check(&format!("SELECT VALUE ({inner}) FROM root c"), "[5,0]");
    let distinct = "(SELECT DISTINCT VALUE root.k FROM root) AS r JOIN (SELECT VALUE [r]) AS x";
    check(&format!("SELECT VALUE x FROM {distinct}"), "[[4]]");
    check("SELECT VALUE 'a\tb\r\n\u{1}' FROM c", r#"["a\tb\r\n\u0001","a\tb\r\n\u0001"]"#);
    check("SELECT VALUE IS_DEFINED(DOCUMENTID(c.a)) FROM c", "[false,false]");
    let moment = "DateTimeFormat('2020-01-02T03:04:05.0000000Z', 'yyyy-MM-ddTHH:mm:ssZ')";
    check(&format!("SELECT DISTINCT VALUE {moment} FROM c"), r#"["2020-01-02T03:04:05Z"]"#);
    // One row has no order, and needs no composite index.
    let policy = IndexingPolicy::parse(&Value::parse(b"{}").unwrap()).unwrap();
    let order = IndexedOrder::new(&policy);
    let facts = ContainerFacts { order: Some(&order), ..Default::default() };
    let average = Query::parse("SELECT VALUE AVG(c.k) FROM c ORDER BY c.k, c.a").unwrap();
    assert!(average.bind(&[], &facts).is_ok());
}

#[test]
fn a_scalar_subquery_has_one_row_at_most() {
    let error = run("SELECT (SELECT VALUE t FROM t IN c.t) FROM c", r#"[{"t":[1,2]}]"#);
    assert!(error.unwrap_err().to_string().contains("cardinality"));
}

#[test]
fn the_condition_of_a_patch_holds_or_does_not() {
    let check = |condition: &str, item: &str, expected: bool| {
        let query = Query::parse_condition(condition).expect(condition);
        let bound = query.bind(&[], &ContainerFacts::default()).expect(condition);
        let item = Value::parse(item.as_bytes()).unwrap();
        let met = context().run(|context| bound.matches(&item, context));
        assert_eq!(met, Ok(expected), "{condition} of {item:?}");
    };
    check("from c where c.x = 1", r#"{"x":1}"#, true);
    check("FROM c WHERE c.x = 1", r#"{"x":2}"#, false);
    check("FROM c WHERE c.x = 1", "{}", false);
    check("from products p where ARRAY_CONTAINS(p.t, 1)", r#"{"t":[1]}"#, true);
    for bad in ["c.x = 1", "from c", "SELECT * FROM c", "from c where", "from c where c.x = 1 2"] {
        assert!(Query::parse_condition(bad).is_err(), "{bad}");
    }
}

#[test]
fn computed_properties_win_over_stored_ones_and_need_their_own_index() {
    let definition = ("low".to_owned(), "SELECT VALUE LOWER(x.n) FROM x".to_owned());
    let computed = ComputedProperty::parse_all(&[definition]).unwrap();
    let rows = |text: &str, policy: &str| {
        let policy = Value::parse(policy.as_bytes()).unwrap();
        let order = IndexedOrder::new(&IndexingPolicy::parse(&policy).unwrap());
        let facts =
            ContainerFacts { computed: &computed, order: Some(&order), ..Default::default() };
        let items = Value::parse(br#"[{"n":"B","low":"stored"},{"n":"A"}]"#).unwrap();
        let bound = Query::parse(text)?.bind(&[], &facts)?;
        let rows = all_rows(&bound, items.as_array().unwrap(), 10, &context())?;
        Ok::<_, orrery_query::QueryError>(Value::array(rows).to_json())
    };
    let all = r#"{"includedPaths":[{"path":"/*"}]}"#;
    let named = r#"{"includedPaths":[{"path":"/*"},{"path":"/low/?"}]}"#;
    assert_eq!(rows("SELECT VALUE c.low FROM c", all).unwrap(), r#"["b","a"]"#);
    assert_eq!(rows("SELECT VALUE c['low'] FROM c", all).unwrap(), r#"["b","a"]"#);
    let nested = "SELECT VALUE (SELECT VALUE c.low) FROM c JOIN (SELECT VALUE 1) y";
    assert_eq!(rows(nested, all).unwrap(), r#"["b","a"]"#);
    let star = "SELECT * FROM c WHERE c.n = 'B'";
    assert_eq!(rows(star, all).unwrap(), r#"[{"n":"B","low":"stored"}]"#);
    let sorted = "SELECT VALUE c.n FROM c ORDER BY c.low";
    assert_eq!(rows(sorted, named).unwrap(), r#"["A","B"]"#);
    assert!(rows(sorted, all).unwrap_err().to_string().contains("excluded"));
}

#[test]
fn numbers_keep_their_digits() {
    let rows = run(
        "SELECT VALUE [9223372036854775807, -9223372036854775808, 9007199254740993, 1e21, \
         0.1 + 0.2, 1/3, 5.0, 0xFF]",
        "[]",
    );
    assert_eq!(
        rows.unwrap()[0].to_json(),
        "[9223372036854775807,-9223372036854775808,9007199254740993,1e+21,0.30000000000000004,\
         0.3333333333333333,5,255]"
    );
    let rows = run("SELECT VALUE [1 / 0, -1 / 0, 0 / 0]", "[]").unwrap();
    assert_eq!(rows[0].to_json(), r#"["Infinity","-Infinity","NaN"]"#);
}

#[test]
fn rows_with_equal_keys_follow_the_first_direction() {
    let items = r#"[{"id":1,"a":1},{"id":2,"a":1},{"id":3,"a":0}]"#;
    let ids = |text: &str| Value::array(run(text, items).unwrap()).to_json();
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY c.a"), "[3,1,2]");
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY c.a DESC"), "[2,1,3]");
}
