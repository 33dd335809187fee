//! What the server tells about its requests, and who may ask.

use std::process::Stdio;

use orrery_server::auth::keys::WELL_KNOWN_KEY;
use orrery_types::{Clock as _, Value};

use crate::client::{Client, Connection, http_date, signature};
use crate::local::{Local, READ_ONLY};
use crate::process::{Running, orrery};

fn statistics(server: &Local) -> Value {
    Value::parse(server.must("GET", "/_orrery/statistics", &[], "").body.as_bytes()).unwrap()
}

#[test]
fn requests_are_counted_by_container_operation_and_shape() {
    let server = Local::start();
    server.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    server.must("POST", "/dbs/d/colls", &[], body);
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    let items = "/dbs/d/colls/c/docs";
    let mut charge = 0.0;
    for n in 0..3 {
        let item = format!(r#"{{"id":"{n}","p":"p","secret":"s{n}"}}"#);
        let made = server.must("POST", items, &[key], &item);
        charge += made.header("x-ms-request-charge").unwrap().parse::<f64>().unwrap();
        let query = format!(r#"{{"query":"SELECT * FROM c WHERE c.secret = 's{n}'"}}"#);
        server.must("POST", items, &[key, ("x-ms-documentdb-isquery", "true")], &query);
    }
    assert_eq!(server.send("GET", "/dbs/d/colls/c/docs/none", &[key], "").status, 404);

    let told = statistics(&server);
    assert!(told.get("enabled").is_true());
    assert!(!told.to_json().contains("s1"), "no value of an item or a query is told");
    let rows = told.get("rows").as_array().unwrap();
    let row = |operation: &str| {
        let of = |row: &&Value| row.get("operation").as_str() == Some(operation);
        rows.iter().find(of).unwrap_or_else(|| panic!("{operation} in {}", told.to_json()))
    };
    let created = row("create");
    assert_eq!(created.get("container").as_str(), Some("dbs/d/colls/c"));
    assert_eq!((created.get("count").as_i64(), created.get("failed").as_i64()), (Some(3), Some(0)));
    assert!((created.get("charge").as_number().unwrap().as_f64() - charge).abs() < 0.005);
    let classes = created.get("latencyUs").as_array().unwrap();
    let counted = classes.iter().filter_map(|class| class.as_array()?.get(1)?.as_i64());
    assert_eq!(counted.sum::<i64>(), 3);
    let query = row("query");
    assert_eq!(query.get("shape").as_str(), Some("SELECT * FROM c WHERE c.secret = ?"));
    assert_eq!(query.get("count").as_i64(), Some(3));
    let missed = row("read");
    assert_eq!((missed.get("count").as_i64(), missed.get("failed").as_i64()), (Some(1), Some(1)));
}

#[test]
fn only_who_has_an_account_key_is_told() {
    let server = Local::start();
    let path = "/_orrery/statistics";
    let date = http_date(server.clock.now_s());
    let ask = |authorization: Option<String>| {
        let mut headers = vec![("x-ms-date".to_owned(), date.clone())];
        headers.extend(authorization.map(|text| ("authorization".to_owned(), text)));
        Connection::open(server.address).unwrap().send("GET", path, &headers, b"").unwrap().status
    };
    let signed = |key: &str| signature(key, "GET", "_orrery", "_orrery/statistics", &date);
    assert_eq!(ask(Some(signed(READ_ONLY))), 200);
    assert_eq!(ask(None), 401);
    assert_eq!(ask(Some(signed(WELL_KNOWN_KEY))), 401);
    assert_eq!(server.send("POST", path, &[], "").status, 405);
}

#[test]
fn top_shows_what_happens_while_it_looks() {
    let server = Running::start(&["serve", "--memory", "--listen", "127.0.0.1:0", "--no-tls"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    let endpoint = format!("http://{}", server.address());
    let key = server.key();
    let arguments = ["top", "--once", "--interval", "1", "--endpoint", &endpoint, "--key", &key];
    for json in [false, true] {
        let mut command = orrery(&arguments);
        command.args(json.then_some("--json")).stdout(Stdio::piped());
        let mut top = command.spawn().unwrap();
        // It looks twice, a second apart; requests go on all the time.
        while top.try_wait().unwrap().is_none() {
            let upsert = ("x-ms-documentdb-is-upsert", "true");
            let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
            client.must("POST", "/dbs/d/colls/c/docs", &[upsert, key], r#"{"id":"a","p":"p"}"#);
        }
        let output = top.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        if !json {
            let line = text.lines().find(|line| line.contains("d/colls/c  upsert"));
            assert!(line.is_some() && text.contains("ops/s"), "{text}");
            continue;
        }
        let told = Value::parse(text.as_bytes()).unwrap();
        let rows = told.get("rows").as_array().unwrap();
        let row = rows.iter().find(|row| row.get("operation").as_str() == Some("upsert")).unwrap();
        assert_eq!(row.get("container").as_str(), Some("dbs/d/colls/c"));
        for name in ["operationsPerSecond", "chargePerSecond", "p50Ms", "p99Ms"] {
            assert!(row.get(name).as_number().unwrap().as_f64() > 0.0, "{name}: {text}");
        }
    }
}

#[test]
fn top_says_why_it_has_nothing_to_show() {
    let arguments =
        ["serve", "--memory", "--listen", "127.0.0.1:0", "--no-tls", "--statistics=false"];
    let server = Running::start(&arguments);
    let endpoint = format!("http://{}", server.address());
    let key = server.key();
    let output = orrery(&["top", "--once", "--endpoint", &endpoint, "--key", &key]).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("--statistics=false"), "{said}");
}
