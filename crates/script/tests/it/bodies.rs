//! Items on their way into a script and out of it: what arrives is what JSON would have said, though
//! plain data goes without.

use orrery_script::{Bounds, Scripts};

use crate::host::{Items, answer, run_on, run_with, thrown};

/// What the host gets of a body is what `JSON.stringify` says of it.
fn check_written(expression: &str) {
    let mut host = Items::default();
    let body = format!(
        "function () {{ const v = {expression}; const item = {{ id: 'a', v, z: [v] }}; \
         __.response.setBody(JSON.stringify(item)); __.createDocument(__.getSelfLink(), item, () => {{}}) }}"
    );
    let text = run_on(&mut host, &body, "[]").unwrap_or_else(|e| panic!("{expression}: {e}")).body;
    let text = orrery_types::Value::parse(text.as_bytes()).expect("a string");
    let expected = format!("create {}", text.as_str().expect("a string"));
    assert_eq!(host.asked, [expected], "{expression}");
}

#[test]
fn a_body_is_written_as_json_would_write_it() {
    for expression in [
        "[1, -1, 0, 0.1, 1.5e300, 5e-324, 2 ** 31, -(2 ** 31), 2 ** 52, 4294967296.5]",
        "[2 ** 53, 2 ** 60, -(2 ** 60), 1e20, 1e21]",
        "[NaN, Infinity, -Infinity]",
        "[true, false, null, undefined, () => 1, Symbol('s')]",
        "({ a: undefined, b: () => 1, c: Symbol('s'), d: null })",
        "[, 1, , 2]",
        "({ b: 1, a: 2, 10: 'x', 9: 'y', 'é😀': 'é😀', 'q\"\\\\': '\\n\\t\\u0001' })",
        "({ 'zero\\0byte': 'zero\\0byte' })",
        "JSON.parse('{\"__proto__\":{\"x\":1}}')",
        "new Date(0)",
        "({ when: new Date(86400000) })",
        "({ toJSON(key) { return 'from ' + key } })",
        "({ toJSON: 5 })",
        "[new Number(3), new String('s'), new Boolean(false)]",
        "Object.setPrototypeOf({ a: 1 }, null)",
        "new (class C { x = 1; #y = 2; get z() { return 3 } })()",
        "new (class A extends Array {})(1, 2, 3)",
        "({ get x() { return [1, 2] } })",
        "Object.defineProperty({ a: 1 }, 'hidden', { value: 1, enumerable: false })",
        "new Proxy({ a: 1 }, { get: (t, k) => k === 'a' ? 7 : t[k] })",
        "new Proxy([1, 2], {})",
        "new Map([[1, 2]])",
        "new Uint8Array([1, 2])",
        "'' + 'rope'.repeat(300) + 'end'",
        "JSON.rawJSON('7')",
    ] {
        check_written(expression);
    }
    // What is done to the prototypes counts as well.
    check_written("(Object.prototype.toJSON = function () { return 'all' }, { a: 1 })");
    check_written("(Array.prototype.toJSON = function () { return this.length }, [1, 2])");
}

#[test]
fn a_body_is_taken_when_it_is_queued() {
    let mut host = Items::default();
    let body = "function () { const item = { id: 'a', n: [1] }; __.createDocument(__.getSelfLink(), item); item.n.push(2); item.id = 'b' }";
    answer(&mut host, body);
    assert_eq!(host.asked, [r#"create {"id":"a","n":[1]}"#]);
}

#[test]
fn a_body_that_json_cannot_say_is_refused() {
    let mut host = Items::default();
    let check = |host: &mut Items, item: &str, expected: &str| {
        let body = format!(
            "function () {{ {item}; __.createDocument(__.getSelfLink(), v, (e) => __.response.setBody(e ? e.number : 0)) }}"
        );
        assert_eq!(answer(host, &body), expected, "{item}");
    };
    check(
        &mut host,
        "let v = { id: 'a' }; for (let i = 0; i < 200; i++) v = { id: 'a', v }",
        "400",
    );
    check(&mut host, "const v = { id: 'a', t: '\\ud800' }", "400");
    check(&mut host, "const v = { id: 'a', '\\udc00': 1 }", "400");
    check(&mut host, "const v = '{\"id\":'", "400");
    check(&mut host, "const v = { id: 'a', t: 'x'.repeat(3e6) }", "413");
    check(&mut host, "const v = { id: 'a', t: Array(1e6).fill(12345) }", "413");
    for (item, says) in [
        ("const v = { id: 'a' }; v.v = v", "circular"),
        ("const v = { id: 'a', n: 1n }", "BigInt"),
        ("const v = { id: 'a', get x() { throw new Error('mine') } }", "mine"),
    ] {
        let body = format!("function () {{ {item}; __.createDocument(__.getSelfLink(), v) }}");
        let thrown = thrown(&mut host, &body);
        assert!(thrown.text.contains(says), "{item}: {}", thrown.text);
    }
    assert!(host.kept.is_empty());
}

#[test]
fn bodies_that_wait_are_within_the_memory_of_a_script() {
    let bounds = Bounds { run_ms: 60_000, memory_bytes: 4 << 20, ..Bounds::default() };
    let scripts = Scripts::new(bounds);
    let mut host = Items::default();
    let all = "function () { const item = { id: 'a', t: 'x'.repeat(1e5) }; while (__.upsertDocument(__.getSelfLink(), item)) ; }";
    let error = run_with(&scripts, &mut host, all, "[]").expect_err("it takes too much");
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(host.asked.is_empty());
    // What is done no longer waits.
    let one_by_one = "function () { const item = { id: 'a', t: 'x'.repeat(1e5) }; let n = 0; \
        (function on() { if (n++ < 60) __.upsertDocument(__.getSelfLink(), item, on); else __.response.setBody(n) })() }";
    let done = run_with(&scripts, &mut host, one_by_one, "[]").expect("it runs");
    assert_eq!(done.body, "61");
}

#[test]
fn an_item_is_read_as_json_would_read_it() {
    for item in [
        r#"{"id":"a","n":[0,-1,1.5,2147483648,9007199254740993,1e300,-0.0]}"#,
        r#"{"id":"a","__proto__":{"x":1},"10":1,"9":2,"constructor":null}"#,
        r#"{"id":"a","t":"é😀\u0000\n","o":{"o":{"o":[[],{}]}},"b":[true,false,null]}"#,
    ] {
        let mut host = Items::with(&[item]);
        let body = "function (text) { __.readDocument(__.getAltLink() + '/docs/a', (e, item) => { \
            const wanted = { ...JSON.parse(text), _self: item._self, _etag: item._etag }; \
            __.response.setBody([JSON.stringify(item) === JSON.stringify(wanted), Object.getPrototypeOf(item) === Object.prototype]) }) }";
        let arguments = orrery_types::Value::array(vec![item.into()]).to_json();
        let result = run_on(&mut host, body, &arguments).expect("it runs");
        assert_eq!(result.body, "[true,true]", "{item}");
    }
    // Setters in the prototypes are none of its business.
    let mut host = Items::with(&[r#"{"id":"a","x":1,"list":[5,6,7]}"#]);
    let body = "function () { const set = () => { throw 'caught' }; Object.defineProperty(Object.prototype, 'x', { set }); \
        Object.defineProperty(Array.prototype, '2', { set }); \
        __.readDocument(__.getAltLink() + '/docs/a', (e, item) => __.response.setBody(item.x + item.list.at(2))) }";
    assert_eq!(answer(&mut host, body), "8");
}
