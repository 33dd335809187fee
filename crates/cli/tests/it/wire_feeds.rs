//! Feeds and queries of what is no item, page by page.

use crate::local::Local;
use crate::wire_session::{json, with_container};

/// The ids of all resources of a feed by a query, so many a page, and how many pages there were.
fn queried(server: &Local, path: &str, list: &str, size: &str) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut token) = (Vec::new(), 0, None::<String>);
    loop {
        let mut headers = vec![("x-ms-documentdb-isquery", "true"), ("x-ms-max-item-count", size)];
        headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
        let query = r#"{"query":"SELECT * FROM root r WHERE r.id != 'none'"}"#;
        let page = server.must("POST", path, &headers, query);
        let found = json(&page);
        let found = found.get(list).as_array().unwrap();
        assert!(found.len() <= size.parse().unwrap_or(usize::MAX), "{page:?}");
        ids.extend(found.iter().map(|r| r.get("id").as_str().unwrap().to_owned()));
        pages += 1;
        token = page.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            return (ids, pages);
        }
    }
}

#[test]
fn queries_of_the_catalog_come_in_pages() {
    let server = with_container("400");
    server.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
    let feeds = [
        ("/dbs", "Databases", ""),
        ("/dbs/d/colls", "DocumentCollections", ""),
        ("/dbs/d/users", "Users", ""),
        (
            "/dbs/d/users/u/permissions",
            "Permissions",
            r#","permissionMode":"All","resource":"ID","resourcePartitionKey":["p"]"#,
        ),
        ("/dbs/d/colls/c/sprocs", "StoredProcedures", r#","body":"function () {}""#),
        ("/dbs/d/colls/c/udfs", "UserDefinedFunctions", r#","body":"function () {}""#),
        (
            "/dbs/d/colls/c/triggers",
            "Triggers",
            r#","body":"function () {}","triggerType":"Pre","triggerOperation":"All""#,
        ),
    ];
    for (path, list, more) in feeds {
        for id in ["one", "two", "three"] {
            let more = more.replace("ID", &format!("dbs/d/colls/c/docs/{id}"));
            server.must("POST", path, &[], &format!(r#"{{"id":"{id}"{more}}}"#));
        }
        let all = server.must("GET", path, &[], "");
        let all = json(&all).get(list).as_array().unwrap().len();
        for size in ["1", "2", "-1"] {
            let (ids, pages) = queried(&server, path, list, size);
            assert_eq!(ids.len(), all, "{path} {size}: {ids:?}");
            assert!(ids.ends_with(&["one".into(), "two".into(), "three".into()]), "{ids:?}");
            assert!(if size == "-1" { pages == 1 } else { pages >= all / 2 }, "{path}: {pages}");
        }
    }
    let offers = queried(&server, "/offers", "Offers", "-1").0.len();
    assert_eq!(queried(&server, "/offers", "Offers", "1").1, offers);
}

#[test]
fn who_deletes_what_a_page_brought_misses_nothing_on_the_next() {
    let server = Local::start();
    for id in ["a", "b", "c", "d", "e"] {
        server.must("POST", "/dbs", &[], &format!(r#"{{"id":"{id}"}}"#));
    }
    let mut token = None::<String>;
    loop {
        let mut headers = vec![("x-ms-documentdb-isquery", "true"), ("x-ms-max-item-count", "2")];
        headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
        let page = server.must("POST", "/dbs", &headers, r#"{"query":"SELECT * FROM d"}"#);
        for database in json(&page).get("Databases").as_array().unwrap() {
            let path = format!("/dbs/{}", database.get("id").as_str().unwrap());
            server.must("DELETE", &path, &[], "");
        }
        token = page.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    let left = json(&server.must("GET", "/dbs", &[], ""));
    assert_eq!(left.get("_count").as_i64(), Some(0));
}

#[test]
fn a_continuation_of_another_feed_is_refused() {
    let server = with_container("400");
    for id in ["one", "two"] {
        server.must("POST", "/dbs/d/users", &[], &format!(r#"{{"id":"{id}"}}"#));
        server.must("POST", "/dbs", &[], &format!(r#"{{"id":"{id}"}}"#));
    }
    let headers = [("x-ms-documentdb-isquery", "true"), ("x-ms-max-item-count", "1")];
    let query = r#"{"query":"SELECT * FROM r"}"#;
    let page = server.must("POST", "/dbs/d/users", &headers, query);
    let token = page.header("x-ms-continuation").unwrap();
    let with_token = [headers[0], headers[1], ("x-ms-continuation", token)];
    for path in ["/dbs", "/offers"] {
        assert_eq!(server.send("POST", path, &with_token, query).status, 400, "{path}");
    }
}
