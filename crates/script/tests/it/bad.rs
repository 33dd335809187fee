//! Scripts that misbehave: each is bounded, and says what it did.

use std::sync::Arc;

use orrery_script::{Bounds, ProcedureCall, ScriptError, Scripts};
use orrery_types::Value;

use crate::host::{HURRIED_MS, Items, answer, facts, hurried, run_on, run_with, script, thrown};

fn check_timeout(body: &str) {
    let result = run_with(&hurried(), &mut Items::with(&[r#"{"id":"a"}"#]), body, "[]");
    assert_eq!(result.map(|r| r.body), Err(ScriptError::Timeout(HURRIED_MS.into())), "{body}");
}

#[test]
fn what_does_not_compile_says_where() {
    for body in [
        "function () {",
        "function () { a b }",
        "Line Separator (x) & more",
        "function () { let x; let x }",
    ] {
        let error = run_on(&mut Items::default(), body, "[]").expect_err(body);
        assert!(matches!(&error, ScriptError::Syntax(_)), "{body}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("SyntaxError: "), "{text}");
        // A text that just ends has no place to name.
        assert!(text.contains("sp.js:1") || body == "function () {", "{text}");
    }
    for body in ["42", "({})", "null"] {
        let error = run_on(&mut Items::default(), body, "[]").expect_err(body);
        assert!(error.to_string().contains("not a function"), "{body}: {error}");
    }
}

#[test]
fn whatever_runs_for_ever_is_stopped() {
    check_timeout("function () { for (;;) ; }");
    check_timeout(
        "function () { while (true) try { for (;;) ; } catch (e) {} finally { continue } }",
    );
    check_timeout("function () { (function f() { Promise.resolve().then(f) })() }");
    check_timeout("async function () { for (;;) await null }");
    check_timeout("function () { /(a+)+$/.test('a'.repeat(50) + 'b') }");
    check_timeout("function () { [3, 1, 2].sort(() => { for (;;) ; }) }");
    check_timeout("function () { throw { get number() { for (;;) ; } } }");
    check_timeout("function () { __.response.setBody({ toJSON() { for (;;) ; } }) }");
    check_timeout("(() => { for (;;) ; })()");
}

/// Within these the runtime does not ask for the time, so they must end by themselves.
#[test]
fn one_call_of_the_language_does_not_take_hours() {
    let holes = "const holes = []; holes.length = 2 ** 32 - 1;";
    let liar = "const liar = { get length() { return 2 ** 53 - 1 } };";
    for call in [
        "holes.join()",
        "holes.reverse()",
        "holes.sort()",
        "holes.shift()",
        "holes.unshift(1)",
        "holes.splice(0, 1)",
        "String(holes)",
        "[].concat(holes)",
        "[[holes]].flat(9)",
        "[1].flatMap(() => holes)",
        "[].concat({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true })",
        "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })",
        "Array.prototype.reverse.call(liar)",
        "'a'.repeat(1e7).indexOf('a'.repeat(5e6) + 'b')",
        "'a'.repeat(1e7).split('a'.repeat(5e6) + 'b')",
    ] {
        let body = format!("function () {{ {holes} {liar} {call} }}");
        let result = run_with(&hurried(), &mut Items::default(), &body, "[]");
        assert!(result.is_err(), "{call}: {result:?}");
    }
    let body = "function () { __.response.setBody([[1, [2, [3]]].flat(), [3, 1].concat(2, [4]), [1, 2].flatMap((x) => [x, x]), [2, 1].sort().reverse().join('-'), 'a,b'.split(','), 'aXb'.replace('X', '')]) }";
    assert_eq!(
        answer(&mut Items::default(), body),
        r#"[[1,2,[3]],[3,1,2,4],[1,1,2,2],"2-1",["a","b"],"ab"]"#
    );
}

#[test]
fn operations_are_refused_when_the_time_runs_out() {
    let body = "function () { let n = 0; (function more() { if (__.readDocument(__.getAltLink() + '/docs/a', () => { n++; more() })) return; __.response.setBody(n > 0) })() }";
    let scripts =
        Scripts::new(Bounds { run_ms: 1000, operations: usize::MAX >> 12, ..Bounds::default() });
    let facts = facts();
    let call =
        ProcedureCall { script: script(body), facts: &facts, arguments: &Value::array(vec![]) };
    let mut host = Items::with(&[r#"{"id":"a"}"#]);
    let result =
        scripts.run_procedure(&call, &mut host, scripts.deadline()).expect("it ends by itself");
    assert_eq!(result.body, "true");
}

#[test]
fn operations_are_counted() {
    let body = "function () { let n = 0; while (__.createDocument(__.getSelfLink(), { n })) n++; __.response.setBody(n) }";
    let scripts = Scripts::new(Bounds { operations: 500, run_ms: 60_000, ..Bounds::default() });
    let result = run_with(&scripts, &mut Items::default(), body, "[]");
    assert_eq!(result.expect("it ends by itself").body, "500");
}

#[test]
fn memory_is_bounded() {
    for body in [
        "function () { const a = []; for (;;) a.push('x'.repeat(1000) + a.length) }",
        "function () { let s = 'x'; for (;;) s += s }",
        "function () { return new Array(1e9).fill(0) }",
        "function () { new Uint8Array(1e9) }",
    ] {
        let error = run_on(&mut Items::default(), body, "[]").expect_err(body);
        let ended = match &error {
            ScriptError::Thrown(t) => {
                t.text.contains("memory") || t.text.contains("length") || t.text.contains("string")
            }
            _ => false,
        };
        assert!(ended, "{body}: {error:?}");
    }
}

#[test]
fn recursion_is_bounded() {
    for body in [
        "function f() { return f() + 1 }",
        "function () { const a = []; a[0] = a; const f = (x) => [x, f]; JSON.stringify((function g(n) { return [g(n + 1)] })(0)) }",
        "function () { let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; __.response.setBody(o) }",
        "function () { const p = new Proxy({}, { get(t, k, r) { return r[k] } }); p.x }",
    ] {
        let thrown = thrown(&mut Items::default(), body);
        let text = thrown.text.to_lowercase();
        assert!(text.contains("stack") || text.contains("memory"), "{body}: {}", thrown.text);
    }
    // A script may catch it and go on.
    let body = "function () { let n = 0; const f = () => { n++; f() }; try { f() } catch {} __.response.setBody(n > 100) }";
    assert_eq!(answer(&mut Items::default(), body), "true");
}

#[test]
fn large_answers_are_refused() {
    for body in [
        "function () { __.response.setBody('x'.repeat(5e6)) }",
        "function () { __.response.setBody({ x: 'x'.repeat(5e6) }) }",
        "function () { for (;;) __.response.appendBody('x'.repeat(1e6)) }",
    ] {
        assert_eq!(thrown(&mut Items::default(), body).number, Some(413), "{body}");
    }
    // Few characters, many bytes: seen at the end.
    let body = "function () { __.response.setBody('\u{20ac}'.repeat(2e6)) }";
    let error = run_on(&mut Items::default(), body, "[]").expect_err(body);
    assert!(matches!(error, ScriptError::TooLarge { size: 6_000_002, .. }), "{error:?}");
    // What changes behind the check's back is seen too.
    let body = "function () { const o = {}; __.response.setBody(o); o.x = 'x'.repeat(5e6) }";
    assert!(matches!(run_on(&mut Items::default(), body, "[]"), Err(ScriptError::TooLarge { .. })));
}

#[test]
fn callbacks_run_once_for_each_operation() {
    let mut host = Items::with(&[r#"{"id":"a"}"#]);
    let body = "function () { let n = 0; const cb = () => __.response.setBody(++n); \
                __.readDocument(__.getAltLink() + '/docs/a', cb); __.readDocument(__.getAltLink() + '/docs/a', cb); cb(); cb() }";
    assert_eq!(answer(&mut host, body), "4");
}

#[test]
fn a_promise_that_never_settles_ends_the_script() {
    let error = thrown(&mut Items::default(), "async function () { await new Promise(() => {}) }");
    assert!(error.text.contains("never settled"), "{}", error.text);
    assert_eq!(
        answer(&mut Items::default(), "function () { new Promise(() => {}).then(() => {}) }"),
        r#""""#
    );
}

#[test]
fn a_script_may_delete_what_it_walks_over() {
    let texts: Vec<String> = (0..50).map(|i| format!(r#"{{"id":"{i:02}"}}"#)).collect();
    let mut host = Items::with(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let body = "function () { let n = 0; (function on(continuation) { \
        __.readDocuments(__.getSelfLink(), { pageSize: 7, continuation }, (e, docs, o) => { \
            docs.forEach((d) => __.deleteDocument(__.getAltLink() + '/docs/' + d.id, (e) => { if (e) throw e; n++; __.response.setBody(n) })); \
            if (o.continuation) on(o.continuation) }) })() }";
    assert_eq!(answer(&mut host, body), "50");
    assert!(host.kept.is_empty());
}

#[test]
fn a_script_can_spoil_only_itself() {
    let scripts = crate::host::scripts();
    let facts = facts();
    let spoil = "function () { globalThis.secret = 7; JSON.stringify = () => { throw 1 }; Array.prototype.push = null; Object.prototype.get = () => 1; \
                 Promise.prototype.then = null; getContext = null; __ = null; String = null; Error = null }";
    let look = "function () { __.response.setBody([typeof secret, typeof getContext, JSON.stringify({})]) }";
    for body in [spoil, look, spoil, look] {
        let call =
            ProcedureCall { script: script(body), facts: &facts, arguments: &Value::array(vec![]) };
        let result = scripts.run_procedure(&call, &mut Items::default(), scripts.deadline());
        if body == look {
            assert_eq!(result.expect("it runs").body, r#"["undefined","function","{}"]"#);
        }
    }
}

#[test]
fn nothing_leads_outside() {
    let body = "function () { __.response.setBody([typeof require, typeof process, typeof fetch, typeof setTimeout, typeof std, typeof os, typeof performance, typeof WebAssembly].join()) }";
    let none = ["undefined"; 8].join(",");
    assert_eq!(answer(&mut Items::default(), body), format!("\"{none}\""));
    let body = "async function () { try { await import('fs') } catch (e) { __.response.setBody('none') } }";
    assert_eq!(answer(&mut Items::default(), body), r#""none""#);
    let body = "function () { Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0) }";
    assert!(run_on(&mut Items::default(), body, "[]").is_err());
}

#[test]
fn many_scripts_run_at_once() {
    let scripts = Arc::new(crate::host::scripts());
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let scripts = scripts.clone();
            std::thread::spawn(move || {
                let facts = facts();
                for n in 0..20 {
                    let body = format!("function () {{ __.createDocument(__.getSelfLink(), {{ id: '{i}-{n}' }}, (e, d) => __.response.setBody(d.id)) }}");
                    let call = ProcedureCall { script: script(&body), facts: &facts, arguments: &Value::array(vec![]) };
                    let result = scripts.run_procedure(&call, &mut Items::default(), scripts.deadline());
                    assert_eq!(result.expect("it runs").body, format!("\"{i}-{n}\""));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread fails");
    }
}
