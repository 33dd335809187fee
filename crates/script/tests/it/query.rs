//! Queries written as JavaScript.

use crate::host::{Items, answer, thrown};

fn people() -> Items {
    Items::with(&[
        r#"{"id":"1","name":"Ada","age":36,"kids":[{"n":"B","pets":["x","y"]},{"n":"C","pets":[]}]}"#,
        r#"{"id":"2","name":"Bob","age":12,"tags":["a",["b"]]}"#,
        r#"{"id":"3","name":"Cyd","tags":["c"]}"#,
        r#"{"id":"4","name":"Dan","age":20}"#,
    ])
}

fn check(query: &str, expected: &str) {
    let body = format!("function () {{ {query} }}");
    assert_eq!(answer(&mut people(), &body), expected, "{query}");
}

const SET: &str = "(e, rows, o) => { if (e) throw e; __.response.setBody(rows) }";

#[test]
fn each_function_runs_alone() {
    check(
        "__.filter((d) => d.age > 15, (e, r) => __.response.setBody(r.map((d) => d.id)))",
        r#"["1","4"]"#,
    );
    check(&format!("__.map((d) => d.name, {SET})"), r#"["Ada","Bob","Cyd","Dan"]"#);
    check(&format!("__.pluck('age', {SET})"), "[36,12,null,20]");
    check(
        "__.sortBy((d) => d.age, (e, r) => __.response.setBody(r.map((d) => d.id)))",
        r#"["3","2","4","1"]"#,
    );
    check(
        "__.sortByDescending((d) => d.age, (e, r) => __.response.setBody(r.map((d) => d.id)))",
        r#"["1","4","2","3"]"#,
    );
    check(
        &format!("__.unwind((d) => d.kids, (d, k) => d.name + k.n, {{}}, {SET})"),
        r#"["AdaB","AdaC"]"#,
    );
    check(&format!("__.filter(__, (d) => d.id === '9', {SET})"), "[]");
}

#[test]
fn without_a_callback_the_rows_go_to_the_body_as_text() {
    check(
        "const r = __.filter((d) => d.id === '4'); if (!r.isAccepted) throw 1",
        r#""[{\"id\":\"4\",\"name\":\"Dan\",\"age\":20,\"_self\":\"dbs/AQ==/colls/AQ=C/docs/4/\",\"_etag\":\"e4\"}]""#,
    );
}

#[test]
fn chains_compose() {
    check(
        &format!(
            "__.chain().filter((d) => d.age !== undefined).sortBy((d) => d.age).pluck('name').value({SET})"
        ),
        r#"["Bob","Dan","Ada"]"#,
    );
    check(
        &format!("__.chain().filter((d) => d.tags).map((d) => d.tags).flatten().value({SET})"),
        r#"["a","b","c"]"#,
    );
    check(
        &format!("__.chain().filter((d) => d.tags).map((d) => d.tags).flatten(true).value({SET})"),
        r#"["a",["b"],"c"]"#,
    );
    check(
        &format!(
            "__.chain().unwind((c) => c.kids, (c, k) => ({{ c, k }})).unwind((ck) => ck.k.pets, (ck, p) => ck.c.name + p).value({SET})"
        ),
        r#"["Adax","Aday"]"#,
    );
    let error = thrown(&mut people(), "function () { __.chain().filter((d) => true, {}).value() }");
    assert_eq!(error.number, Some(400));
}

/// Many items, so that a result spans several pages of them.
fn many() -> Items {
    let texts: Vec<String> = (0..350).map(|i| format!(r#"{{"id":"{i:03}","n":{i}}}"#)).collect();
    Items::with(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn pages_of_results_follow_each_other_without_gap_or_overlap() {
    for (chain, total) in [
        ("filter((d) => d.n % 3 === 0)", 117),
        ("filter((d) => d.n > 340)", 9),
        ("map((d) => d.n)", 350),
        ("sortByDescending((d) => d.n)", 350),
    ] {
        let body = format!(
            "function () {{ const all = []; let pages = 0; (function on(continuation) {{ \
             __.chain().{chain}.value({{ pageSize: 40, continuation }}, (e, rows, o) => {{ if (e) throw e; pages += 1; \
             if (rows.length > 40) throw new Error('too many'); all.push(...rows.map((r) => r.n ?? r)); \
             if (o.continuation) on(o.continuation); else __.response.setBody([all.length, new Set(all).size, pages]) }}) }})() }}"
        );
        let pages = usize::div_ceil(total, 40);
        assert_eq!(answer(&mut many(), &body), format!("[{total},{total},{pages}]"), "{chain}");
    }
}

#[test]
fn a_page_has_a_hundred_rows_unless_told() {
    let body = "function () { __.map((d) => d.n, (e, rows, o) => __.response.setBody([rows.length, !!o.continuation])) }";
    assert_eq!(answer(&mut many(), body), "[100,true]");
    let body = "function () { __.map((d) => d.n, { pageSize: -1 }, (e, rows, o) => __.response.setBody([rows.length, !!o.continuation])) }";
    assert_eq!(answer(&mut many(), body), "[350,false]");
    let error =
        thrown(&mut many(), "function () { __.map((d) => d.n, { continuation: 'x' }, () => {}) }");
    assert_eq!(error.number, Some(400));
}
