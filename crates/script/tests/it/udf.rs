//! User-defined functions.

use orrery_script::{ScriptError, Scripts};
use orrery_types::Value;

use crate::host::{HURRIED_MS, hurried, script, scripts};

fn value(json: &str) -> Value {
    Value::parse(json.as_bytes()).expect(json)
}

fn call(scripts: &Scripts, body: &str, arguments: &[Value]) -> Result<Value, ScriptError> {
    scripts.udfs(scripts.deadline()).expect("a runtime").call(&script(body), arguments)
}

fn check(body: &str, arguments: &[Value], expected: &Value) {
    let result = call(&scripts(), body, arguments).unwrap_or_else(|e| panic!("{body}: {e}"));
    assert_eq!(&result, expected, "{body}");
    assert_eq!(result.is_undefined(), expected.is_undefined(), "{body}");
}

#[test]
fn values_cross_both_ways() {
    for json in
        ["null", "true", "7", "-0.5", "1e300", r#""é😀""#, "[1,[2]]", r#"{"a":{"b":[null]}}"#]
    {
        check("function (x) { return x }", &[value(json)], &value(json));
    }
    check("function (x) { return x }", &[Value::Undefined], &Value::Undefined);
    check(
        "function (x) { return arguments.length + ',' + (x === undefined) }",
        &[Value::Undefined],
        &value(r#""1,true""#),
    );
    check("function () {}", &[], &Value::Undefined);
    check("function () { return () => 1 }", &[], &Value::Undefined);
    check(
        "function (a, b) { return a.price * b }",
        &[value(r#"{"price":2}"#), value("1.5")],
        &value("3"),
    );
    check("() => [0, NaN, [2 ** 53]]", &[], &value("[0,null,[9007199254740992]]"));
    check("() => NaN", &[], &f64::NAN.into());
    check("() => 2 ** 60", &[], &(2_f64.powi(60)).into());
    check("s => s.match(/a+/)[0]", &[value(r#""baa""#)], &value(r#""aa""#));
}

#[test]
fn there_is_no_context() {
    check(
        "function () { return typeof getContext + typeof __ + typeof console }",
        &[],
        &value(r#""undefinedundefinedundefined""#),
    );
}

#[test]
fn what_a_function_throws_is_told() {
    let error =
        call(&scripts(), "function tax(x) { throw new Error(400, 'no ' + x) }", &[value("1")])
            .expect_err("it throws");
    let ScriptError::Thrown(thrown) = error else { panic!("{error:?}") };
    assert_eq!((thrown.number, thrown.text.as_str()), (Some(400), "Error: no 1"));
    assert!(thrown.stack.contains("at tax (sp.js:1"), "{}", thrown.stack);
}

#[test]
fn a_rejection_that_nobody_handles_fails_the_function() {
    let scripts = scripts();
    let udfs = scripts.udfs(scripts.deadline()).expect("a runtime");
    for body in [
        "function () { Promise.reject(new Error('x')); return 1 }",
        "async function () { throw new Error('x') }",
    ] {
        let error = udfs.call(&script(body), &[]).expect_err(body);
        let ScriptError::Thrown(thrown) = error else { panic!("{error:?}") };
        assert_eq!(thrown.text, "Error: x");
    }
    // What one call has left behind is not the next one's.
    let caught = "function () { Promise.reject(new Error('x')).catch(() => {}); return 1 }";
    assert_eq!(udfs.call(&script(caught), &[]), Ok(1_i64.into()));
}

#[test]
fn all_calls_share_one_time() {
    let scripts = hurried();
    let udfs = scripts.udfs(scripts.deadline()).expect("a runtime");
    let spin = script("function () { for (;;) ; }");
    assert_eq!(udfs.call(&spin, &[]), Err(ScriptError::Timeout(HURRIED_MS.into())));
    assert_eq!(udfs.call(&script("() => 1"), &[]), Err(ScriptError::Timeout(HURRIED_MS.into())));
    drop(udfs);
    check("() => 1", &[], &value("1"));
}

#[test]
fn functions_do_not_see_each_other() {
    let scripts = scripts();
    let udfs = scripts.udfs(scripts.deadline()).expect("a runtime");
    udfs.call(&script("function () { globalThis.x = 1 }"), &[]).expect("it runs");
    let seen = udfs.call(&script("function () { return typeof x }"), &[]).expect("it runs");
    assert_eq!(seen, value(r#""undefined""#));
}

#[test]
fn one_function_is_called_many_times() {
    let scripts = scripts();
    let udfs = scripts.udfs(scripts.deadline()).expect("a runtime");
    let twice = script("function twice(x) { return 2 * x }");
    for n in 0..2000_i64 {
        assert_eq!(udfs.call(&twice, &[n.into()]), Ok((2 * n).into()));
    }
}

#[test]
fn functions_run_in_sloppy_mode() {
    check("function (n) { total = n; return total + 1 }", &[value("5")], &value("6"));
    check("function f(n) { total = n; return total + 1 }", &[value("5")], &value("6"));
}
