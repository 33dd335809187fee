//! Headers that clients look for in answers about containers and scripts, and on writes.

use crate::client::Answer;
use crate::local::Local;
use crate::wire_session::{THROUGHPUTS, json, with_container};

const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;

#[test]
fn answers_about_containers_name_their_database() {
    let server = Local::start();
    let database = server.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let rid = json(&database).get("_rid").as_str().unwrap().to_owned();
    let query = [("x-ms-documentdb-isquery", "true")];
    let answers = [
        server.must("POST", "/dbs/d/colls", &[], CONTAINER),
        server.must("GET", "/dbs/d/colls/c", &[], ""),
        server.must("PUT", "/dbs/d/colls/c", &[], CONTAINER),
        server.must("GET", "/dbs/d/colls", &[], ""),
        server.must("POST", "/dbs/d/colls", &query, r#"{"query":"SELECT * FROM c"}"#),
    ];
    for answer in answers {
        assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d"), "{answer:?}");
        assert_eq!(answer.header("x-ms-content-path"), Some(&*rid), "{answer:?}");
    }
}

#[test]
fn a_container_says_whether_it_shares_the_throughput_of_its_database() {
    let server = Local::start();
    let shared = |throughput: &[(&str, &str)], id: &str| {
        let body = CONTAINER.replace(r#""id":"c""#, &format!(r#""id":"{id}""#));
        let made = server.must("POST", "/dbs/s/colls", throughput, &body);
        made.header("x-ms-share-throughput").map(str::to_owned)
    };
    server.must("POST", "/dbs", &[("x-ms-offer-throughput", "400")], r#"{"id":"s"}"#);
    assert_eq!(shared(&[], "a").as_deref(), Some("true"));
    assert_eq!(shared(&[("x-ms-offer-throughput", "400")], "b"), None);
    server.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let own = server.must("POST", "/dbs/d/colls", &[], CONTAINER);
    assert_eq!(own.header("x-ms-share-throughput"), None);
}

fn quorum(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("x-ms-current-write-quorum"), answer.header("x-ms-current-replica-set-size"))
}

#[test]
fn writes_say_how_many_have_written() {
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
        let minimal = ("prefer", "return=minimal");
        let (docs, item) = ("/dbs/d/colls/c/docs", "/dbs/d/colls/c/docs/a");
        let body = r#"{"id":"a","p":"p"}"#;
        for answer in [
            server.must("POST", docs, &[key], body),
            server.must("PUT", item, &[key, minimal], body),
            server.must("DELETE", item, &[key], ""),
            server.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#),
        ] {
            assert_eq!(quorum(&answer), (Some("1"), Some("1")), "{answer:?}");
        }
        server.must("POST", docs, &[key], body);
        assert_eq!(quorum(&server.must("GET", item, &[key], "")), (None, None));
    }
}

#[test]
fn a_container_tells_its_quota_and_progress_to_whoever_asks() {
    let server = with_container("400");
    let progress = "x-ms-documentdb-collection-index-transformation-progress";
    let plain = server.must("GET", "/dbs/d/colls/c", &[], "");
    assert_eq!((plain.header(progress), plain.header("x-ms-resource-quota")), (None, None));
    let asked = [("x-ms-documentdb-populatequotainfo", "True")];
    let full = server.must("GET", "/dbs/d/colls/c", &asked, "");
    assert_eq!(full.header(progress), Some("100"));
    assert!(full.header("x-ms-resource-usage").unwrap().contains("documentsCount=0"));
}

#[test]
fn answers_about_scripts_count_them() {
    let server = with_container("18000");
    let script = r#"{"id":"s","body":"function () {}"}"#;
    let made = server.must("POST", "/dbs/d/colls/c/sprocs", &[], script);
    server.must("POST", "/dbs/d/colls/c/udfs", &[], script);
    for answer in [made, server.must("GET", "/dbs/d/colls/c/sprocs/s", &[], "")] {
        let quota = answer.header("x-ms-resource-quota").unwrap();
        assert!(quota.starts_with("functions=50;storedProcedures=100;triggers=25;"), "{quota}");
        let used = answer.header("x-ms-resource-usage").unwrap();
        assert!(used.contains("storedProcedures=1;triggers=0;collectionSize="), "{used}");
    }
}
