//! Laws: printing and parsing are inverse, no text makes the parser panic, and the answer does not
//! depend on the size of pages.

use orrery_query::{ContainerFacts, Query};
use orrery_types::Value;
use proptest::prelude::*;

use crate::memory::{all_rows, context};

/// Expressions of the language over `c`, as text.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("c".to_owned()),
        Just("c.a".to_owned()),
        Just("c[\"odd name\"].b[0]".to_owned()),
        Just("@p".to_owned()),
        Just("undefined".to_owned()),
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
        "[a-zA-Z0-9 %_é😀'\\[\\]]{0,8}".prop_map(|s| Value::from(s).to_json()),
    ];
    leaf.prop_recursive(5, 64, 4, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "=", "!=", "<>", "<", "<=", ">", ">=", "||", "&", "|", "^",
            "<<", ">>", ">>>",
        ]);
        let logical = prop::sample::select(vec!["AND", "OR", "LIKE", "NOT LIKE", "??"]);
        let prefix = prop::sample::select(vec!["NOT ", "- ", "~", "+"]);
        let pair = (inner.clone(), inner.clone());
        let three = (inner.clone(), inner.clone(), inner.clone());
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, o, b)| format!("{a} {o} {b}")),
            (inner.clone(), logical, inner.clone()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
            (prefix, inner.clone()).prop_map(|(o, a)| format!("{o}{a}")),
            three.clone().prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            three.clone().prop_map(|(a, b, c)| format!("({a} BETWEEN {b} AND {c})")),
            three.prop_map(|(a, b, c)| format!("({a} NOT IN ({b}, {c}))")),
            pair.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            pair.clone().prop_map(|(a, b)| format!("{{a: {a}, \"b c\": {b}}}")),
            pair.clone().prop_map(|(a, b)| format!("CONTAINS({a}, {b})")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("({a}).x[\"y\"][1]")),
            pair.prop_map(|(a, b)| format!("EXISTS(SELECT VALUE {a} FROM x IN c.l WHERE {b})")),
            inner.prop_map(|a| format!("ARRAY(SELECT DISTINCT {a} AS q FROM c.a AS z)")),
        ]
    })
}

fn query() -> impl Strategy<Value = String> {
    let tail = prop::sample::select(vec![
        "",
        " ORDER BY c.a DESC, c.b",
        " GROUP BY c.a, c[\"x y\"]",
        " OFFSET 1 LIMIT @n",
        " ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, [1]))",
    ]);
    let head = prop::sample::select(vec!["", "DISTINCT ", "TOP 5 ", "DISTINCT TOP @n "]);
    let from = prop::sample::select(vec![
        "c",
        "ROOT c",
        "x c JOIN t IN c.t",
        "c IN c.l",
        "(SELECT VALUE 1) c",
    ]);
    (head, expression(), from, expression(), tail).prop_map(|(head, value, from, filter, tail)| {
        // TOP and OFFSET exclude each other.
        let head = if tail.contains("OFFSET") { "" } else { head };
        format!("SELECT {head}VALUE {value} FROM {from} WHERE {filter}{tail}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn printing_and_parsing_are_inverse(text in query()) {
        let parsed = Query::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        let printed = parsed.select().to_string();
        let again = Query::parse(&printed)
            .map_err(|e| TestCaseError::fail(format!("{printed}: {e}")))?;
        prop_assert_eq!(parsed.select(), again.select(), "{}", &printed);
        prop_assert_eq!(again.select().to_string(), printed);
    }

    #[test]
    fn garbage_never_panics(text in "\\PC{0,60}") {
        let _ = Query::parse(&text);
        let _ = Query::parse(&format!("SELECT {text}"));
    }

    #[test]
    fn shuffled_tokens_never_panic(words in prop::collection::vec(prop::sample::select(vec![
        "SELECT", "VALUE", "*", "FROM", "c", ".", "a", "[", "]", "(", ")", "{", "}", ",", "WHERE",
        "AND", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "'x'", "1", "-", "?", ":", "??", "GROUP",
        "BY", "ORDER", "RANK", "JOIN", "TOP", "DISTINCT", "OFFSET", "LIMIT", "@p", "udf", "EXISTS",
        "ARRAY", "COUNT", "VectorDistance", "=", "\"", "/*", "--",
    ]), 0..30)) {
        let text = format!("SELECT {}", words.join(" "));
        if let Ok(query) = Query::parse(&text) {
            let parameters = [("@p".to_owned(), Value::from(1))];
            let _ = query.bind(&parameters, &ContainerFacts::default());
        }
    }

    #[test]
    fn pages_of_any_size_give_the_same_rows(
        filter in expression(), value in expression(), rows_max in 1_usize..5,
    ) {
        let text = format!("SELECT VALUE [t, {value}] FROM c JOIN t IN c.l WHERE NOT IS_NULL({filter})");
        let query = Query::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        let parameters = [("@p".to_owned(), Value::from("p"))];
        // Indexers other than literals are refused; such texts have nothing to run.
        let Ok(bound) = query.bind(&parameters, &ContainerFacts::default()) else { return Ok(()) };
        let items = Value::parse(br#"[{"a":1,"l":[1,2,3]},{"l":[{"a":"x"}]},{"a":"y","l":[]},
            {"a":null,"l":[4,5]}]"#).unwrap();
        let items = items.as_array().unwrap();
        let whole = all_rows(&bound, items, 1000, &context());
        prop_assert_eq!(all_rows(&bound, items, rows_max, &context()), whole);
    }
}
