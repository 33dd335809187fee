//! Long disjunctions of equalities are looked up, mean what they say, and cost a row the same however
//! long they are.

use orrery_query::{ContainerFacts, PageLimits, Query};
use orrery_types::Value;

use crate::memory::{MemorySource, context, page, run};

fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect(text)
}

/// Items with every kind of value, or none, at two paths.
fn items() -> String {
    let values = ["", "null", "1", "1.0", "\"a\"", "\"b\"", "[1]", "{\"x\":1}"];
    let member = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!(",\"{name}\":{value}"),
    };
    let mut items = Vec::new();
    for a in values {
        for b in values {
            let (a, b) = (member("a", a), member("b", b));
            items.push(format!("{{\"id\":\"{}\"{a}{b}}}", items.len()));
        }
    }
    format!("[{}]", items.join(","))
}

#[test]
fn a_lookup_means_what_the_comparisons_mean() {
    let constants = ["null", "1", "'a'", "'b'", "[1]", "{'x':1}", "'zz'"];
    let mut pairs = Vec::new();
    for (at, a) in constants.iter().enumerate() {
        for b in constants.iter().skip(at % 2).step_by(2) {
            pairs.push(format!("(c.a = {a} AND {b} = c.b)"));
        }
    }
    let singles: Vec<String> =
        (0..12).map(|n| format!("c.a = {n}")).chain(["c.a = 'a'".to_owned()]).collect();
    let mixed: Vec<String> = pairs
        .iter()
        .cloned()
        .chain(singles.iter().cloned())
        .chain(["c.b > 0".into(), "(c.a = 1 AND c.a = 1)".into(), "c.b = undefined".into()])
        .collect();
    for operands in [pairs, singles, mixed] {
        let long = operands.join(" OR ");
        // Of a few, each is compared.
        let few: Vec<String> =
            operands.chunks(3).map(|few| format!("(({}) = true)", few.join(" OR "))).collect();
        let few = few.join(" OR ");
        let nested: Vec<String> =
            operands.iter().map(|one| format!("({one} ? true : ({one} ? true : false))")).collect();
        let rows = |filter: &str| {
            run(&format!("SELECT VALUE c.id FROM c WHERE {filter}"), &items()).expect(filter)
        };
        assert_eq!(rows(&long), rows(&few), "{long}");
        assert_eq!(rows(&long), rows(&nested.join(" OR ")), "{long}");
        // True, false or undefined for each item.
        let halves = |list: &[String]| {
            list.chunks(4)
                .map(|few| few.join(" OR "))
                .fold(String::from("false"), |all, few| format!("(({all}) OR ({few}))"))
        };
        let truth = |filter: &str| {
            run(&format!("SELECT c.id, ({filter}) AS t FROM c"), &items()).expect(filter)
        };
        assert_eq!(truth(&long), truth(&halves(&operands)), "{long}");
        let negated = format!("NOT ({long})");
        assert_eq!(rows(&negated), rows(&format!("NOT ({})", halves(&operands))), "{long}");
    }
}

#[test]
fn a_thousand_pairs_are_not_compared_with_each_item() {
    let pairs: Vec<String> =
        (0..1000).map(|n| format!("(c.id = @i{n} AND c[\"pk\"] = @p{n})")).collect();
    let parameters: Vec<(String, Value)> = (0..1000)
        .flat_map(|n| {
            let id = (format!("@i{n}"), Value::from(format!("id{n}")));
            [id, (format!("@p{n}"), Value::from(format!("key{n}")))]
        })
        .collect();
    let text = format!("SELECT * FROM c WHERE {}", pairs.join(" OR "));
    let query = Query::parse(&text).expect("a query");
    let query = query.bind(&parameters, &ContainerFacts::default()).expect("a query");
    let items: Vec<Value> =
        (0..2000).map(|n| json(&format!(r#"{{"id":"id{n}","pk":"key{}"}}"#, n % 1500))).collect();
    let limits = PageLimits { rows_max: 5000, ..PageLimits::default() };
    let mut source = MemorySource::new(items);
    let page = page(&query, &mut source, None, limits, &context()).expect("a page");
    assert_eq!(page.rows.len(), 1000);
    assert!(page.steps < 20_000, "{} steps", page.steps);
}
