//! The objects that a procedure sees.

use crate::host::{Items, answer, run_on, thrown};

fn check(body: &str, expected: &str) {
    assert_eq!(answer(&mut Items::default(), body), expected, "{body}");
}

#[test]
fn a_body_is_answered_as_json() {
    check("function () { getContext().getResponse().setBody('Hello'); }", r#""Hello""#);
    check("() => __.response.setBody({ a: [1, null] })", r#"{"a":[1,null]}"#);
    check("function f() { __.response.setBody(0) } // the end", "0");
    check("function () { };", r#""""#);
    check("async function () { await null; __.response.setBody(1) }", "1");
    check(
        "function () { for (var i = 0; i < 10; i++) getContext().getResponse().appendValue('Body', i); }",
        r#""0123456789""#,
    );
}

#[test]
fn arguments_come_in_order() {
    let body = "function (a, b, c) { __.response.setBody([a.x, b, c === undefined]) }";
    let result = run_on(&mut Items::default(), body, r#"[{"x":1},"two"]"#);
    assert_eq!(result.expect("it runs").body, r#"[1,"two",true]"#);
}

#[test]
fn scripts_run_in_sloppy_mode() {
    check("function () { x = 5; getContext().getResponse().setBody(x + 1) }", "6");
    check("function f() { x = 5; __.response.setBody(x + 1) }", "6");
    check("function () { y = 010; __.response.setBody(y) }", "8");
    check(
        "function f() { 'use strict'; try { z = 1 } catch (e) { __.response.setBody(e.name) } }",
        "\"ReferenceError\"",
    );
    // What stands behind the function, and the function's own name there.
    check(
        "function f(n) { __.response.setBody(n === 1 ? 1 : g()) } function g() { f(1); return 2 }",
        "2",
    );
    check(
        "// says\nfunction () { __.response.setBody(h()) }\nfunction h() { return typeof k }\nvar k = 1",
        "\"number\"",
    );
    // Nothing that one call assigns is there in the next.
    check("function () { __.response.setBody(typeof x) }", "\"undefined\"");
}

#[test]
fn a_body_of_null_is_null_and_no_body_is_empty() {
    check("function () { getContext().getResponse().setBody(null) }", "null");
    check("function () { getContext().getResponse().setBody(undefined) }", "\"\"");
    check("function () {}", "\"\"");
}

#[test]
fn an_index_action_is_one_of_three() {
    let body = |action: &str| {
        format!(
            "function () {{ __.createDocument(__.getSelfLink(), {{ id: 'a' }}, \
             {{ indexAction: {action} }}, (e) => __.response.setBody(1)) }}"
        )
    };
    for action in ["'default'", "'include'", "'exclude'", "undefined"] {
        check(&body(action), "1");
    }
    let error = thrown(&mut Items::default(), &body("'lazy'"));
    assert_eq!(error.number, Some(400), "{error:?}");
}

#[test]
fn modern_javascript_runs() {
    check(
        "async (...xs) => { const { a = 2, ...o } = { b: 1n }; class C { #p = a; get p() { return this.#p } } \
         const m = new Map([['k', new C().p ** 3]]); __.response.setBody(`${m.get('k')}-${o.b}-${[1, [2]].flat().at(-1) ?? 0}`) }",
        r#""8-1-2""#,
    );
}

#[test]
fn items_are_written_and_read_in_the_order_asked() {
    let mut host = Items::default();
    let body = r#"function () {
        const c = getContext().getCollection(), r = getContext().getResponse();
        c.createDocument(c.getSelfLink(), { id: "a", n: 1 }, function (err, doc, options) {
            if (err) throw err;
            doc.n = 2;
            c.replaceDocument(c.getAltLink() + "/docs/a", doc, { etag: doc._etag }, function (err, doc2) {
                if (err) throw err;
                c.readDocument(c.getAltLink() + "/docs/a", {}, function (err, doc3, options3) {
                    r.setBody([options.statusCode, doc2.n, doc3.n, options3.statusCode]);
                });
            });
        });
    }"#;
    assert_eq!(answer(&mut host, body), "[201,2,2,200]");
    assert_eq!(host.asked.len(), 3);
}

#[test]
fn an_item_without_id_gets_one_unless_it_must_not() {
    let mut host = Items::default();
    let make = |options: &str, item: &str| {
        format!(
            "function () {{ __.createDocument(__.getSelfLink(), {item}, {options}, (e, d) => __.response.setBody(e ? e.number : d.id)) }}"
        )
    };
    assert_eq!(answer(&mut host, &make("{}", "{ n: 1 }")), r#""made-1""#);
    assert_eq!(answer(&mut host, &make("{}", "{}")), r#""made-2""#);
    assert_eq!(answer(&mut host, &make("{}", "'{\"id\":\"\",\"n\":1}'")), r#""made-3""#);
    assert_eq!(
        answer(&mut host, &make("{ disableAutomaticIdGeneration: true }", "{ n: 1 }")),
        "400"
    );
}

#[test]
fn failures_reach_the_callback_with_their_numbers() {
    let mut host = Items::with(&[r#"{"id":"a"}"#]);
    let mut check = |call: &str, expected: &str| {
        let body = format!(
            "function () {{ const c = __, l = c.getSelfLink(), a = c.getAltLink() + '/docs/'; const done = (e) => c.response.setBody([e.number, e.number === ErrorCodes.{expected}, e instanceof Error, e.body === e.message]); {call} }}"
        );
        let answer = answer(&mut host, &body);
        assert!(answer.ends_with(",true,true,true]"), "{call}: {answer}");
    };
    check("c.createDocument(l, { id: 'a' }, done)", "Conflict");
    check("c.readDocument(a + 'b', done)", "NotFound");
    check("c.replaceDocument(a + 'a', { id: 'a' }, { etag: 'old' }, done)", "PreconditionFailed");
    check("c.deleteDocument(a + 'b', {}, done)", "NotFound");
    check("c.createDocument(l, '{', { disableAutomaticIdGeneration: true }, done)", "BadRequest");
}

#[test]
fn an_unread_failure_ends_the_script() {
    let mut host = Items::with(&[r#"{"id":"a"}"#]);
    let thrown =
        thrown(&mut host, "function () { __.createDocument(__.getSelfLink(), { id: 'a' }) }");
    assert_eq!(thrown.number, Some(409));
}

#[test]
fn an_unchanged_item_is_not_sent_again() {
    let mut host = Items::with(&[r#"{"id":"a"}"#]);
    let body = "function () { __.readDocument(__.getAltLink() + '/docs/a', (e, d) => \
                __.readDocument(__.getAltLink() + '/docs/a', { ifNoneMatch: d._etag }, (e, d2, o) => \
                __.response.setBody([e === undefined, d2 === undefined, o.notModified]))) }";
    assert_eq!(answer(&mut host, body), "[true,true,true]");
}

#[test]
fn a_delete_calls_back_with_its_options() {
    let mut host = Items::with(&[r#"{"id":"a"}"#]);
    let body = "function () { __.deleteDocument(__.getAltLink() + '/docs/a', (e, o) => __.response.setBody([e === undefined, o.statusCode])) }";
    assert_eq!(answer(&mut host, body), "[true,204]");
    assert!(host.kept.is_empty());
}

#[test]
fn pages_of_items_and_queries_go_on_where_they_ended() {
    let items: Vec<String> = (0..7).map(|i| format!(r#"{{"id":"{i}"}}"#)).collect();
    let mut host = Items::with(&items.iter().map(String::as_str).collect::<Vec<_>>());
    for call in
        ["readDocuments(__.getSelfLink(), ", "queryDocuments(__.getSelfLink(), 'SELECT * FROM c', "]
    {
        let body = format!(
            "function () {{ const seen = []; (function on(continuation) {{ \
             const ok = __.{call} {{ pageSize: 3, continuation }}, (e, docs, o) => {{ seen.push(docs.length); \
             if (o.continuation) on(o.continuation); else __.response.setBody(seen) }}); if (!ok) throw 'no' }})() }}"
        );
        assert_eq!(answer(&mut host, &body), "[3,3,1]");
    }
    let asked = &host.asked.iter().find(|a| a.starts_with("query")).expect("a query").clone();
    assert_eq!(asked, r#"query {"query":"SELECT * FROM c"}"#);
}

#[test]
fn wrong_calls_throw_at_once() {
    for (call, says) in [
        ("__.createDocument(__.getSelfLink())", "at least 2"),
        ("__.createDocument('dbs/x/colls/y/', {})", "does not lead"),
        ("__.createDocument(7, {})", "does not lead"),
        ("__.createDocument(__.getSelfLink(), 7)", "must be an object"),
        ("__.createDocument(__.getSelfLink(), {}, 7)", "\"options\""),
        ("__.createDocument(__.getSelfLink(), {}, {}, 7)", "\"callback\""),
        ("__.readDocument('dbs/shop/colls/other/docs/a')", "does not lead"),
        ("__.readDocument(__.getAltLink() + '/docs/a/b')", "does not lead"),
        ("__.queryDocuments(__.getSelfLink(), 7)", "must be a string or an object"),
        ("__.readDocuments(__.getSelfLink(), { pageSize: 'x' })", "page size"),
        ("__.readAttachments(__.getSelfLink())", "no attachments"),
        ("__.filter(7)", "function must be given"),
    ] {
        let body = format!("function () {{ {call} }}");
        let thrown = thrown(&mut Items::default(), &body);
        assert_eq!(thrown.number, Some(400), "{call}");
        assert!(thrown.text.contains(says), "{call}: {}", thrown.text);
    }
}

#[test]
fn values_of_request_and_response_have_their_rights() {
    check(
        "function (x) { __.response.setBody([__.request.getOperationType(), __.request.getValue('x-ms-version'), __.request.getBody()]) }",
        r#"["Execute","2020-07-15",[]]"#,
    );
    check(
        "function () { const r = getContext().getResponse(); r.setBody([r.getMaxResourceQuota(), r.getResourceQuotaCurrentUsage()]) }",
        r#"["collectionSize=1;","collectionSize=0;"]"#,
    );
    for (call, number) in [
        ("getContext().getResponse().setValue('x-new', 1)", 400),
        ("getContext().getResponse().setValue('MaxResourceQuota', 1)", 403),
        ("getContext().getRequest().setValue('x-ms-version', 1)", 403),
        ("getContext().getRequest().setBody(1)", 403),
    ] {
        let thrown = thrown(&mut Items::default(), &format!("function () {{ {call} }}"));
        assert_eq!(thrown.number, Some(number), "{call}");
    }
}

#[test]
fn what_is_logged_comes_back() {
    let body =
        "function () { console.log('The value of %s is %s.', 'x', 1); console.log(' 100%') }";
    let result = run_on(&mut Items::default(), body, "[]").expect("it runs");
    assert_eq!(result.log, "The value of x is 1. 100%");
    let thrown = thrown(&mut Items::default(), "function () { console.log('so far'); throw 1 }");
    assert_eq!((thrown.log.as_str(), thrown.text.as_str()), ("so far", "1"));
    let thrown = crate::host::thrown(
        &mut Items::default(),
        "function () { for (;;) console.log('x'.repeat(100)) }",
    );
    assert_eq!(thrown.number, Some(413));
}

#[test]
fn errors_carry_their_numbers_and_stacks() {
    let mut host = Items::default();
    let error = thrown(&mut host, "function main() { throw new Error(404, 'no author') }");
    assert_eq!((error.number, error.text.as_str()), (Some(404), "Error: no author"));
    assert_eq!(error.stack, "   at main (sp.js:1:29)");
    let error = thrown(&mut host, "function main() { null.x }");
    assert!(error.text.starts_with("TypeError: "), "{}", error.text);
    let error = thrown(&mut host, "function main() { throw { number: 7, why: 'x' } }");
    assert_eq!((error.number, error.text.as_str()), (Some(7), r#"{"number":7,"why":"x"}"#));
    check(
        "function () { class E extends Error {} const e = new E('m'); const f = Error(5, 'n'); \
           __.response.setBody([e instanceof E, e instanceof Error, e.message, f.number, new TypeError('t') instanceof Error, new Error('x', { cause: 1 }).cause]) }",
        r#"[true,true,"m",5,true,1]"#,
    );
}

#[test]
fn promises_can_wrap_operations() {
    let mut host = Items::with(&[r#"{"id":"a","n":1}"#]);
    let body = "async function () { \
        const read = (id) => new Promise((ok, no) => { if (!__.readDocument(__.getAltLink() + '/docs/' + id, (e, d) => e ? no(e) : ok(d))) no(new Error('refused')) }); \
        const a = await read('a'); let missing; try { await read('b') } catch (e) { missing = e.number } \
        __.response.setBody([a.n, missing]) }";
    assert_eq!(answer(&mut host, body), "[1,404]");
    let error = thrown(&mut host, "async function () { await null; throw new Error('late') }");
    assert_eq!(error.text, "Error: late");
    let error = thrown(
        &mut host,
        "function () { (async () => { throw new Error('x') })().catch((e) => getContext().abort(e)) }",
    );
    assert_eq!(error.text, "Error: x");
    let error =
        thrown(&mut host, "function () { try { getContext().abort(new Error('y')) } catch {} }");
    assert_eq!(error.text, "Error: y");
}

#[test]
fn a_rejection_that_nobody_handles_fails_the_call() {
    for body in [
        "function () { (async () => { throw new Error('x') })(); __.response.setBody(1) }",
        "function () { Promise.reject(new Error('x')) }",
        "function () { Promise.resolve().then(() => { throw new Error('x') }) }",
        "function () { new Promise((ok, no) => no(new Error('x'))).finally(() => {}) }",
        "async function () { Promise.reject(new Error('x')); await null }",
        "function () { __.createDocument(__.getSelfLink(), { id: 'b' }, () => { Promise.reject(new Error('x')) }) }",
        "function () { Promise.reject(new Error('x')); Promise.reject(new Error('y')) }",
        "function () { Promise.reject(new Error('y')).catch(() => {}); Promise.reject(new Error('x')) }",
        "function () { Promise.reject(new Error('x')); return new Promise(() => {}) }",
    ] {
        let error = thrown(&mut Items::default(), body);
        assert_eq!(error.text, "Error: x", "{body}");
    }
}

#[test]
fn a_rejection_that_is_handled_in_time_is_none() {
    for body in [
        "function () { Promise.reject(new Error('x')).catch(() => {}); __.response.setBody(1) }",
        "async function () { try { await Promise.reject(new Error('x')) } catch (e) {} __.response.setBody(1) }",
        "function () { const late = Promise.reject(new Error('x')); \
             __.createDocument(__.getSelfLink(), { id: 'b' }, () => { late.catch(() => __.response.setBody(1)) }) }",
        "async function () { const all = [1, 2].map((n) => Promise.reject(n)); await null; \
             await Promise.allSettled(all); __.response.setBody(1) }",
        "function () { for (let n = 0; n < 1000; n++) Promise.reject(n).catch(() => {}); __.response.setBody(1) }",
    ] {
        check(body, "1");
    }
}
