//! Each operation of a patch, and what it refuses.

use super::*;

const ITEM: &str = r#"{"id":"1","a":{"b":1},"list":[1,2,3],"n":5,"x/y":1}"#;

fn apply(operations: &str) -> Result<String> {
    let patch = Patch::parse(&Value::parse(operations.as_bytes()).expect(operations))?;
    let item = Value::parse(ITEM.as_bytes()).expect("item");
    Ok(patch.apply(item)?.to_json())
}

fn check(operation: &str, after: &str) {
    assert_eq!(apply(&format!("[{operation}]")).expect(operation), after, "{operation}");
}

fn check_refused(operation: &str, says: &str) {
    let error = apply(&format!("[{operation}]")).expect_err(operation).to_string();
    assert!(error.contains(says), "{operation}: {error}");
}

#[test]
fn each_operation_does_what_it_says() {
    check(
        r#"{"op":"add","path":"/a/c","value":2}"#,
        r#"{"id":"1","a":{"b":1,"c":2},"list":[1,2,3],"n":5,"x/y":1}"#,
    );
    check(
        r#"{"op":"add","path":"/list/1","value":9}"#,
        r#"{"id":"1","a":{"b":1},"list":[1,9,2,3],"n":5,"x/y":1}"#,
    );
    check(
        r#"{"op":"add","path":"/list/-","value":9}"#,
        r#"{"id":"1","a":{"b":1},"list":[1,2,3,9],"n":5,"x/y":1}"#,
    );
    check(
        r#"{"op":"set","path":"/list/1","value":9}"#,
        r#"{"id":"1","a":{"b":1},"list":[1,9,3],"n":5,"x/y":1}"#,
    );
    check(
        r#"{"op":"replace","path":"/a/b","value":null}"#,
        r#"{"id":"1","a":{"b":null},"list":[1,2,3],"n":5,"x/y":1}"#,
    );
    check(
        r#"{"op":"remove","path":"/list/0"}"#,
        r#"{"id":"1","a":{"b":1},"list":[2,3],"n":5,"x/y":1}"#,
    );
    check(
        r#"{"op":"incr","path":"/n","value":-1.5}"#,
        r#"{"id":"1","a":{"b":1},"list":[1,2,3],"n":3.5,"x/y":1}"#,
    );
    check(
        r#"{"op":"incr","path":"/new","value":2}"#,
        r#"{"id":"1","a":{"b":1},"list":[1,2,3],"n":5,"x/y":1,"new":2}"#,
    );
    check(
        r#"{"op":"move","from":"/n","path":"/a/n"}"#,
        r#"{"id":"1","a":{"b":1,"n":5},"list":[1,2,3],"x/y":1}"#,
    );
    check(
        r#"{"op":"set","path":"/x~1y","value":2}"#,
        r#"{"id":"1","a":{"b":1},"list":[1,2,3],"n":5,"x/y":2}"#,
    );
}

#[test]
fn what_cannot_be_done_is_refused() {
    check_refused(
        r#"{"op":"add","path":"/none/x","value":1}"#,
        "For Operation(1): Add Operation can only create a child object of an existing node(array \
         or object) and cannot create path recursively, no path found beyond: 'none'",
    );
    check_refused(r#"{"op":"add","path":"/list/4","value":1}"#, "no valid array index");
    check_refused(r#"{"op":"add","path":"/list/01","value":1}"#, "no valid array index");
    check_refused(
        r#"{"op":"set","path":"/n/x","value":1}"#,
        "For Operation(1): Set Operation can only create a child object of an existing node",
    );
    check_refused(r#"{"op":"replace","path":"/none","value":1}"#, "leads to nothing");
    check_refused(r#"{"op":"remove","path":"/none"}"#, "leads to nothing");
    check_refused(r#"{"op":"remove","path":"/list/3"}"#, "no valid array index");
    check_refused(r#"{"op":"incr","path":"/a","value":1}"#, "not a number");
    check_refused(r#"{"op":"incr","path":"/n","value":"1"}"#, "needs a number");
    check_refused(r#"{"op":"move","from":"/none","path":"/x"}"#, "leads to nothing");
    check_refused(r#"{"op":"move","from":"/a","path":"/a/b/c"}"#, "lies below");
    check_refused(r#"{"op":"test","path":"/a","value":1}"#, "is unknown");
    check_refused(r#"{"op":"add","path":"a","value":1}"#, "is not a path");
    check_refused(r#"{"op":"add","path":"/a"}"#, "needs a value");
    assert!(apply("[]").is_err());
    let eleven = [r#"{"op":"incr","path":"/n","value":1}"#; 11].join(",");
    assert!(apply(&format!("[{eleven}]")).is_err());
}

#[test]
fn a_patch_that_fails_half_way_changes_nothing() {
    let patch = r#"[{"op":"set","path":"/n","value":1},{"op":"remove","path":"/none"}]"#;
    assert!(apply(patch).is_err());
}
