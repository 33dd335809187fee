//! Policies as clients send them, and what becomes of them.

use super::*;

fn policy(json: &str) -> Result<IndexingPolicy> {
    IndexingPolicy::parse(&Value::parse(json.as_bytes()).expect(json))
}

fn check(json: &str, normal: &str) {
    assert_eq!(policy(json).expect(json).to_value().to_json(), normal);
}

fn check_refused(json: &str, says: &str) {
    let error = policy(json).expect_err(json).to_string();
    assert!(error.contains(says), "{json}: {error}");
}

const DEFAULT: &str = r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#;

#[test]
fn what_is_missing_gets_the_defaults_of_the_service() {
    check("null", DEFAULT);
    check("{}", DEFAULT);
    check(r#"{"indexingMode":"Consistent","includedPaths":[],"excludedPaths":[]}"#, DEFAULT);
    check(
        r#"{"includedPaths":[{"path":"/*","indexes":[{"kind":"Range","dataType":"String"}]}]}"#,
        DEFAULT,
    );
    check(
        r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#,
        r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}]}"#,
    );
    check(
        r#"{"indexingMode":"none"}"#,
        r#"{"indexingMode":"none","automatic":false,"includedPaths":[],"excludedPaths":[]}"#,
    );
}

#[test]
fn the_special_kinds_are_kept() {
    let composite = r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]}"#;
    let text = policy(composite).expect("composite").to_value().to_json();
    assert!(text.contains(
        r#""compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b","order":"descending"}]]"#
    ));
    let spatial = r#"{"spatialIndexes":[{"path":"/loc/*","types":["Point"],"boundingBox":{"xmin":0,"ymin":0,"xmax":10,"ymax":10}}]}"#;
    let text = policy(spatial).expect("spatial").to_value().to_json();
    assert!(text.contains(r#""boundingBox":{"xmin":0,"ymin":0,"xmax":10,"ymax":10}"#), "{text}");
    let all = r#""types":["Point","LineString","Polygon","MultiPolygon"]"#;
    assert!(text.contains(all), "the service answers with all of them: {text}");
    let lazy = policy(r#"{"indexingMode":"lazy"}"#).expect("lazy").to_value().to_json();
    assert!(lazy.contains(r#""indexingMode":"consistent""#), "{lazy}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    check_refused("[]", "must be an object");
    check_refused(r#"{"indexingMode":"eager"}"#, "'eager' is unknown");
    check_refused(r#"{"automatic":"yes"}"#, "automatic must be true or false");
    check_refused(r#"{"includedPaths":[{"path":"/a/?"}]}"#, "mandatory indexing path");
    check_refused(r#"{"includedPaths":[{"path":"a"}]}"#, "could not be accepted");
    check_refused(r#"{"includedPaths":[{}]}"#, "no 'path' text");
    check_refused(
        r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}"#,
        "either included or excluded",
    );
    check_refused(r#"{"includedPaths":[{"path":"/*"},{"path":"/*"}]}"#, "twice");
    check_refused(r#"{"compositeIndexes":[[{"path":"/a"}]]}"#, "2 to 8 paths");
    check_refused(r#"{"compositeIndexes":[[{"path":"/a/?"},{"path":"/b"}]]}"#, "accepted");
    check_refused(r#"{"indexingMode":"none","automatic":true}"#, "'automatic' to be false");
    check_refused(r#"{"spatialIndexes":[{"path":"/l/*","types":["Circle"]}]}"#, "'Circle'");
    check_refused(r#"{"spatialIndexes":[{"path":"/l/*"}]}"#, "has no 'types'");
    check_refused(r#"{"spatialIndexes":[{"path":"/l/*","types":[]}]}"#, "has no 'types'");
}
