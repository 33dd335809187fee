//! Background work that fails, over HTTP and from the shell: it is listed, shows in the model's state and
//! in the metrics, and is finished by a retry.

use orrery_types::{Clock as _, Value};

use crate::client::{Client, Connection, http_date, signature};
use crate::local::{Local, READ_ONLY};
use crate::process::{Running, orrery};

/// Asks until an answer is as it should be.
#[track_caller]
fn until<T>(mut ask: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    for _ in 0..1_000_000 {
        let answer = ask();
        if is_so(&answer) {
            return answer;
        }
    }
    panic!("it never is");
}

fn put(client: &mut Client, container: &str, item: &str) {
    let headers =
        [("x-ms-documentdb-is-upsert", "true"), ("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    client.must("POST", &format!("/dbs/d/colls/{container}/docs"), &headers, item);
}

/// Orders with the names of their customers, no two with the same.
fn shop(client: &mut Client) {
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    for (id, more) in [
        ("customers", ""),
        ("orders", r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/name"]}]}"#),
    ] {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/p"]}}{more}}}"#);
        client.must("POST", "/dbs/d/colls", &[], &body);
    }
    let model = r#"{"version":1,"types":{"customer":{"container":"customers"},"order":{"container":"orders"}},
        "relations":[{"name":"customer","from":"order","path":"/customerId","to":"customer",
            "partitionKey":["/p"],"copies":{"name":"t.name"}}]}"#;
    client.must("PUT", "/dbs/d/_model", &[], model);
    for (n, name) in ["A", "B"].iter().enumerate() {
        put(client, "customers", &format!(r#"{{"id":"c{n}","p":"p","name":"{name}"}}"#));
        put(client, "orders", &format!(r#"{{"id":"o{n}","p":"p","customerId":"c{n}"}}"#));
    }
}

#[test]
fn what_fails_is_listed_and_finished_by_a_retry() {
    let server = Running::start(&["serve", "--memory", "--listen", "127.0.0.1:0", "--no-tls"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    shop(&mut client);
    put(&mut client, "customers", r#"{"id":"c1","p":"p","name":"A"}"#);
    let tasks = |client: &mut Client| {
        let listed = client.must("GET", "/_orrery/tasks", &[], "").body;
        Value::parse(listed.as_bytes()).unwrap().get("tasks").as_array().unwrap().to_vec()
    };
    let failing = until(|| tasks(&mut client), |tasks| !tasks.is_empty());
    let task = failing.first().unwrap();
    assert_eq!(task.get("work").as_str(), Some("modelEffects"));
    assert_eq!(task.get("rule").as_str(), Some("/relations/0"));
    let reason = "item 'o1' in 'orders': Unique index constraint violation: by the model";
    assert!(task.get("reason").as_str().is_some_and(|text| text.starts_with(reason)), "{task:?}");
    let model = client.must("GET", "/dbs/d/_model", &[], "").body;
    let model = Value::parse(model.as_bytes()).unwrap();
    assert_eq!(model.get("_state").at(2).get("retrying").as_i64(), Some(1));
    let mut connection = Connection::open(server.address()).unwrap();
    let metrics = || connection.send("GET", "/metrics", &[], b"").unwrap().body;
    let shown = r#"orrery_background_failing{state="retrying"} 1"#;
    until(metrics, |text| text.contains(shown));

    let (endpoint, key) = (format!("http://{}", server.address()), server.key());
    let run = |command: &str, database: &str| {
        let arguments =
            ["tasks", command, "--database", database, "--endpoint", &endpoint, "--key", &key];
        let output = orrery(&arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (listed, lines) = run("list", "d");
    assert!(listed && lines.lines().count() == 1 && lines.contains(reason), "{lines}");
    assert_eq!(run("list", "other"), (true, String::new()));
    assert!(!run("retry", "other").0, "there is no such database");
    put(&mut client, "customers", r#"{"id":"c0","p":"p","name":"C"}"#);
    let (retried, said) = run("retry", "d");
    assert!(retried && said.contains("tried again"), "{said}");
    until(|| tasks(&mut client), Vec::is_empty);
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let order = client.must("GET", "/dbs/d/colls/orders/docs/o1", &key, "").body;
    assert!(order.contains(r#""name":"A""#), "{order}");
}

#[test]
fn a_read_only_key_may_look_and_not_retry() {
    let server = Local::start();
    let date = http_date(server.clock.now_s());
    let ask = |method: &str, key: Option<&str>, body: &[u8]| {
        let signed = |key| signature(key, method, "_orrery", "_orrery/tasks", &date);
        let mut headers = vec![("x-ms-date".to_owned(), date.clone())];
        headers.extend(key.map(|key| ("authorization".to_owned(), signed(key))));
        let mut connection = Connection::open(server.address).unwrap();
        connection.send(method, "/_orrery/tasks", &headers, body).unwrap().status
    };
    assert_eq!(ask("GET", Some(READ_ONLY), b""), 200);
    assert_eq!(ask("POST", Some(READ_ONLY), b""), 403);
    assert_eq!(ask("POST", None, b""), 401);
    assert_eq!(server.send("POST", "/_orrery/tasks", &[], "").status, 200);
    for wrong in [r#"{"database":5}"#, "[", r#"{"database":"none"}"#] {
        let status = server.send("POST", "/_orrery/tasks", &[], wrong).status;
        assert!((400..500).contains(&status), "{wrong}: {status}");
    }
    assert_eq!(server.send("PUT", "/_orrery/tasks", &[], "").status, 405);
}
