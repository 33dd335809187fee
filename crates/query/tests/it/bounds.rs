//! Nothing that a query says may run, grow or recurse without bound.

use orrery_query::{ContainerFacts, Query, QueryError};
use orrery_types::{Exceeded, Value};

use crate::memory::{all_rows, context, run};

fn numbers(n: usize) -> String {
    let list: Vec<String> = (0..n).map(|i| i.to_string()).collect();
    format!("[{}]", list.join(","))
}

fn check_stopped(text: &str, items: &str, says: &str) {
    let error = run(text, items).expect_err(text).to_string();
    assert!(error.contains(says), "{text}: {error}");
}

#[test]
fn a_cross_product_of_a_billion_rows_ends_in_an_error() {
    let items = format!(r#"[{{"id":"1","l":{}}}]"#, numbers(1000));
    let from = "FROM c JOIN x IN c.l JOIN y IN c.l JOIN z IN c.l";
    check_stopped(&format!("SELECT VALUE COUNT(1) {from}"), &items, "amount of work");
    check_stopped(&format!("SELECT VALUE 1 {from} WHERE x < 0"), &items, "amount of work");
    let nested = "SELECT VALUE ARRAY(SELECT VALUE [x, y, z] FROM x IN c.l JOIN y IN c.l \
                  JOIN z IN c.l) FROM c";
    check_stopped(nested, &items, "maximum memory");
    check_stopped(&format!("SELECT VALUE [x, y, z] {from} ORDER BY c.id"), &items, "work");
    let distinct = format!("SELECT DISTINCT VALUE [x, y, z] {from} ORDER BY c.id");
    check_stopped(&distinct, &items, "memory");
    check_stopped(&format!("SELECT VALUE MAKELIST([x, y, z]) {from}"), &items, "memory");
}

#[test]
fn the_first_rows_of_a_cross_product_come_at_once() {
    let items = format!(r#"[{{"id":"1","l":{}}}]"#, numbers(1000));
    let text = "SELECT TOP 3 VALUE [x, y] FROM c JOIN x IN c.l JOIN y IN c.l JOIN z IN c.l";
    assert_eq!(run(text, &items).unwrap().len(), 3);
}

#[test]
fn a_value_that_repeats_its_parts_without_end_is_refused() {
    let mut text = "SELECT VALUE {\"x\": \"abcdefgh\"}".to_owned();
    for _ in 0..60 {
        text = format!("SELECT VALUE [s, s] FROM ({text}) s");
    }
    let text = format!("SELECT VALUE s = s FROM ({text}) s");
    check_stopped(&text, "[]", "maximum memory");
    let parameters = [("@p".to_owned(), Value::from("x".repeat(2_000_000)))];
    let arguments = vec!["@p"; 50_000].join(",");
    let query = Query::parse(&format!("SELECT VALUE LENGTH(CONCAT({arguments}))")).unwrap();
    let bound = query.bind(&parameters, &ContainerFacts::default()).unwrap();
    let error = all_rows(&bound, &[], 1, &context()).unwrap_err().to_string();
    assert!(error.contains("amount of work") || error.contains("memory"), "{error}");
}

#[test]
fn the_tallest_accepted_tree_runs_on_a_small_stack() {
    let texts = [
        format!("SELECT VALUE c.n{} FROM c", " + c.n".repeat(395)),
        format!("SELECT VALUE {}c.n{} FROM c", "ABS(".repeat(120), ")".repeat(120)),
        format!("SELECT VALUE {}c.n{} FROM c", "[".repeat(120), "]".repeat(120)),
        format!("SELECT VALUE {}c.n{} FROM c", "(SELECT VALUE ".repeat(60), ")".repeat(60)),
        format!("SELECT VALUE {} c.n FROM c", "NOT ".repeat(120)),
        nested_sources(110),
    ];
    let run_all = move || {
        for text in texts {
            let shown: String = text.chars().take(60).collect();
            run(&text, r#"[{"n":1}]"#).unwrap_or_else(|e| panic!("{shown}: {e}"));
        }
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run_all);
    thread.expect("a thread").join().expect("no overflow");
}

fn nested_sources(depth: usize) -> String {
    let (open, close) = ("SELECT VALUE c FROM (".repeat(depth), ") c".repeat(depth));
    format!("SELECT VALUE c.n FROM ({open}SELECT VALUE c FROM c{close}) c")
}

#[test]
fn ten_thousand_conditions_are_evaluated_flat() {
    for (word, expected) in [("OR", 1), ("AND", 0)] {
        let terms: Vec<String> = (0..10_000).map(|i| format!("c.n = {i}")).collect();
        let text = format!("SELECT * FROM c WHERE {}", terms.join(&format!(" {word} ")));
        assert_eq!(run(&text, r#"[{"n":9999}]"#).unwrap().len(), expected);
    }
    let list: Vec<String> = (0..50_000).map(|i| i.to_string()).collect();
    let text = format!("SELECT * FROM c WHERE c.n IN ({})", list.join(","));
    assert_eq!(run(&text, r#"[{"n":49999},{"n":-1}]"#).unwrap().len(), 1);
}

#[test]
fn a_caller_can_cancel() {
    let items = [Value::parse(format!(r#"{{"l":{}}}"#, numbers(1000)).as_bytes()).unwrap()];
    let text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.l JOIN y IN c.l";
    let bound = Query::parse(text).unwrap().bind(&[], &ContainerFacts::default()).unwrap();
    let given = context();
    given.cancellation.cancel();
    let cancelled = QueryError::Exceeded(Exceeded::Cancelled);
    assert_eq!(all_rows(&bound, &items, 1, &given), Err(cancelled));
}

#[test]
fn too_many_joins_and_udfs_are_refused() {
    let joins = |n: usize| {
        let joins: Vec<String> = (0..n).map(|i| format!(" JOIN t{i} IN c.t")).collect();
        format!("SELECT VALUE 1 FROM c{}", joins.concat())
    };
    assert!(run(&joins(10), "[]").is_ok());
    check_stopped(&joins(11), "[]", "joins");
    let calls = ["udf.twice(1)"; 11].join(",");
    check_stopped(&format!("SELECT VALUE [{calls}]"), "[]", "user-defined");
}
