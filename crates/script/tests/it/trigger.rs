//! Triggers before and after a write.

use orrery_script::{ScriptError, TriggerCall, TriggerResult, TriggerTime};

use crate::host::{Items, facts, script, scripts};

fn run(moment: TriggerTime, body: &str) -> Result<TriggerResult, ScriptError> {
    let scripts = scripts();
    let facts = facts();
    let call = TriggerCall {
        script: script(body),
        facts: &facts,
        moment,
        operation: "Create",
        request_body: Some(br#"{"id":"a","n":1}"#),
        response_body: (moment == TriggerTime::After).then_some(br#"{"id":"a","n":1,"_ts":5}"#),
    };
    scripts.run_trigger(&call, &mut Items::default(), scripts.deadline())
}

fn changed(moment: TriggerTime, body: &str) -> Option<String> {
    run(moment, body).unwrap_or_else(|e| panic!("{body}: {e}")).body
}

#[test]
fn a_trigger_before_the_write_may_change_the_item() {
    let body = "function () { const item = getContext().getRequest().getBody(); item.n = 2; getContext().getRequest().setBody(item) }";
    assert_eq!(changed(TriggerTime::Before, body).as_deref(), Some(r#"{"id":"a","n":2}"#));
    let body = "function () { getContext().getRequest().setValue('Body', '{\"id\":\"b\"}') }";
    assert_eq!(changed(TriggerTime::Before, body).as_deref(), Some(r#"{"id":"b"}"#));
    assert_eq!(changed(TriggerTime::Before, "function () { __.request.getBody().n = 3 }"), None);
}

#[test]
fn there_is_no_response_before_the_write() {
    let body =
        "function () { try { getContext().getResponse() } catch { return } throw 'there is one' }";
    assert_eq!(changed(TriggerTime::Before, body), None);
    assert!(matches!(
        run(TriggerTime::Before, "function () { __.filter(() => true) }"),
        Err(ScriptError::Thrown(_))
    ));
}

#[test]
fn a_trigger_after_the_write_sees_both_and_may_change_the_answer() {
    let body = "function () { const r = getContext().getResponse(), b = r.getBody(); \
                if (getContext().getRequest().getBody().id !== b.id || b._ts !== 5 || __.request.getOperationType() !== 'Create') throw 'mismatch'; \
                b.seen = true; r.setBody(b) }";
    assert_eq!(
        changed(TriggerTime::After, body).as_deref(),
        Some(r#"{"id":"a","n":1,"_ts":5,"seen":true}"#)
    );
    assert_eq!(changed(TriggerTime::After, "function () {}"), None);
    assert!(run(TriggerTime::After, "function () { __.request.setBody({}) }").is_err());
}

#[test]
fn a_trigger_that_throws_refuses_the_write() {
    let error = run(TriggerTime::Before, "function () { throw new Error(404, 'dangling') }")
        .expect_err("it throws");
    let ScriptError::Thrown(thrown) = error else { panic!("{error:?}") };
    assert_eq!((thrown.number, thrown.text.as_str()), (Some(404), "Error: dangling"));
}

#[test]
fn a_rejection_that_nobody_handles_fails_the_write() {
    for moment in [TriggerTime::Before, TriggerTime::After] {
        let error = run(moment, "function () { Promise.reject(new Error('x')) }");
        let Err(ScriptError::Thrown(thrown)) = error else { panic!("{error:?}") };
        assert_eq!(thrown.text, "Error: x");
    }
}
