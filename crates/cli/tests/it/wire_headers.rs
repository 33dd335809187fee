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
fn answers_about_what_lies_in_a_resource_name_it() {
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        let rid = |answer: &Answer| json(answer).get("_rid").as_str().unwrap().to_owned();
        let database = rid(&server.must("GET", "/dbs/d", &[], ""));
        let container = rid(&server.must("GET", "/dbs/d/colls/c", &[], ""));
        let user = r#"{"id":"u"}"#;
        let made = server.must("POST", "/dbs/d/users", &[], user);
        let user_rid = rid(&made);
        let names = |answer: &Answer, rid: &str, names: &str| {
            assert_eq!(answer.header("x-ms-alt-content-path"), Some(names), "{answer:?}");
            assert_eq!(answer.header("x-ms-content-path"), Some(rid), "{answer:?}");
        };
        names(&made, &database, "dbs/d");
        let query = [("x-ms-documentdb-isquery", "true")];
        let all = r#"{"query":"SELECT * FROM c"}"#;
        let permission = r#"{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}"#;
        let (users, keys) = ("/dbs/d/users", "/dbs/d/clientencryptionkeys");
        let (permissions, own) = ("/dbs/d/users/u/permissions", "dbs/d/users/u");
        for (method, path, more, body, owner, path_of_owner) in [
            ("GET", users, &[][..], "", &database, "dbs/d"),
            ("POST", users, &query, all, &database, "dbs/d"),
            ("GET", "/dbs/d/users/u", &[], "", &database, "dbs/d"),
            ("PUT", "/dbs/d/users/u", &[], user, &database, "dbs/d"),
            ("GET", keys, &[], "", &database, "dbs/d"),
            ("POST", keys, &query, all, &database, "dbs/d"),
            ("POST", permissions, &[], permission, &user_rid, own),
            ("GET", permissions, &[], "", &user_rid, own),
            ("POST", permissions, &query, all, &user_rid, own),
            ("GET", "/dbs/d/users/u/permissions/p", &[], "", &user_rid, own),
            ("PUT", "/dbs/d/users/u/permissions/p", &[], permission, &user_rid, own),
            ("DELETE", "/dbs/d/users/u/permissions/p", &[], "", &user_rid, own),
            ("DELETE", "/dbs/d/users/u", &[], "", &database, "dbs/d"),
            ("GET", "/dbs/d/colls/c/sprocs", &[], "", &container, "dbs/d/colls/c"),
            ("POST", "/dbs/d/colls/c/sprocs", &query, all, &container, "dbs/d/colls/c"),
            ("GET", "/dbs/d/colls/c/pkranges", &[], "", &container, "dbs/d/colls/c"),
            ("POST", "/dbs/d/colls/c/pkranges", &query, all, &container, "dbs/d/colls/c"),
            ("DELETE", "/dbs/d/colls/c", &[], "", &database, "dbs/d"),
        ] {
            names(&server.must(method, path, more, body), owner, path_of_owner);
        }
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
