//! Definitions as clients send them, and what becomes of them.

use super::*;

fn parse(json: &str) -> Result<ContainerDef> {
    ContainerDef::accept(&Value::parse(json.as_bytes()).expect(json))
}

fn check_refused(json: &str, says: &str) {
    let error = parse(json).expect_err(json).to_string();
    assert!(error.contains(says), "{json}: {error}");
}

#[test]
fn a_definition_is_completed_and_read_back_from_its_own_form() {
    let definition =
        parse(r#"{"id":"c","partitionKey":{"paths":["/pk"],"version":2}}"#).expect("plain");
    let text = Value::object(definition.to_object()).to_json();
    assert_eq!(
        text,
        r#"{"indexingPolicy":{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]},"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""},"geospatialConfig":{"type":"Geography"}}"#
    );
    assert_eq!(parse(&text).expect("own form"), definition);
    let full = r#"{"partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2},"defaultTtl":-1,"analyticalStorageTtl":30,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/x","/y/z"]}]},"changeFeedPolicy":{"retentionDuration":10},"computedProperties":[{"name":"low","query":"SELECT VALUE LOWER(c.n) FROM c"}]}"#;
    let definition = parse(full).expect("full");
    let text = Value::object(definition.to_object()).to_json();
    assert_eq!(parse(&text).expect("own form"), definition);
    for part in [
        r#""defaultTtl":-1"#,
        r#""analyticalStorageTtl":30"#,
        r#"["/x","/y/z"]"#,
        r#""name":"low""#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_version_may_be_named_as_the_java_sdk_does_and_is_kept_as_a_number() {
    let key = |json: &str| {
        parse(json).expect(json).to_object().get("partitionKey").expect("a key").to_json()
    };
    assert_eq!(
        key(r#"{"partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":"V2"}}"#),
        r#"{"paths":["/a","/b"],"kind":"MultiHash","version":2}"#
    );
    assert_eq!(
        key(r#"{"partitionKey":{"paths":["/a"],"version":"V1"}}"#),
        r#"{"paths":["/a"],"kind":"Hash","version":1}"#
    );
    check_refused(r#"{"partitionKey":{"paths":["/a"],"version":"V3"}}"#, "\"V3\"");
}

#[test]
fn without_a_partition_key_the_service_chooses_one() {
    let definition = parse(r#"{"id":"c"}"#).expect("no key");
    let key = definition.to_object().get("partitionKey").expect("a key").to_json();
    assert_eq!(key, r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#);
}

#[test]
fn what_is_wrong_is_named() {
    check_refused(r#"{"partitionKey":{"paths":[]}}"#, "there are 0");
    check_refused(r#"{"partitionKey":{"paths":["pk"]}}"#, "'pk' is not a valid path");
    check_refused(r#"{"partitionKey":{"paths":["/a","/b"]}}"#, "there are 2");
    check_refused(
        r#"{"partitionKey":{"paths":["/a","/b","/c","/d"],"kind":"MultiHash"}}"#,
        "there are 4",
    );
    check_refused(r#"{"partitionKey":{"paths":["/a","/a"],"kind":"MultiHash"}}"#, "twice");
    check_refused(
        r#"{"partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":1}}"#,
        "version 1",
    );
    check_refused(r#"{"partitionKey":{"paths":["/a"],"kind":"Tree"}}"#, "\"Tree\" is unknown");
    check_refused(r#"{"defaultTtl":0}"#, "defaultTtl must be");
    check_refused(r#"{"defaultTtl":-2}"#, "defaultTtl must be");
    check_refused(r#"{"defaultTtl":1.5}"#, "defaultTtl must be");
    check_refused(r#"{"defaultTtl":"5"}"#, "defaultTtl must be");
    check_refused(
        r#"{"defaultTtl":5,"indexingPolicy":{"indexingMode":"none"}}"#,
        "needs the indexing mode",
    );
    check_refused(r#"{"uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}}"#, "1 to 16 paths");
    check_refused(r#"{"conflictResolutionPolicy":{"mode":"Best"}}"#, "'Best' is unknown");
    check_refused(r#"{"geospatialConfig":{"type":"Flat"}}"#, "\"Flat\" is unknown");
    check_refused(
        r#"{"computedProperties":[{"name":"id","query":"x"}]}"#,
        "system property name 'id'",
    );
    check_refused(r#"{"computedProperties":[{"name":"a"}]}"#, "'query' is either empty");
    check_refused(r#"{"changeFeedPolicy":{"retentionDuration":-1}}"#, "retentionDuration");
}

#[test]
fn keys_cannot_change_after_creation() {
    let old = parse(r#"{"partitionKey":{"paths":["/pk"],"version":2},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#).expect("old");
    let replace = |json: &str| old.replaced_by(&Value::parse(json.as_bytes()).expect(json));
    let kept = replace(r#"{"id":"c","defaultTtl":5}"#).expect("keys are kept");
    assert_eq!(kept.default_ttl, Some(5));
    assert_eq!((&kept.partition_key, &kept.unique_keys), (&old.partition_key, &old.unique_keys));
    for json in [
        r#"{"partitionKey":{"paths":["/other"],"version":2}}"#,
        r#"{"partitionKey":{"paths":["/pk"],"version":1}}"#,
        r#"{"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/v"]}]}}"#,
    ] {
        assert!(replace(json).is_err(), "{json}");
    }
}
