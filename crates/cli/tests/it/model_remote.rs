//! `orrery model` and `orrery advise` against a server, over HTTP and HTTPS, and relations over HTTP.

use crate::client::Client;
use crate::process::{Running, orrery};
use crate::tool::{Tool, at, with};

const MODEL: &str = r#"{"version":1,"types":{
    "book":{"container":"books"},"author":{"container":"authors"}},
  "relations":[{"name":"author","from":"book","path":"/authors/*/id","to":"author",
    "onMissing":"reject","propagate":"sync","inverse":{"name":"written"}}]}"#;

fn run(arguments: &[&str]) -> (bool, String, String) {
    let output = orrery(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// The database and containers that the model is about.
fn make_containers(client: &mut Client) {
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    for id in ["books", "authors"] {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#);
        client.must("POST", "/dbs/d/colls", &[], &body);
    }
}

#[test]
fn a_model_is_applied_shown_verified_and_followed() {
    let server = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let (address, key) = (server.address(), server.key());
    let mut client = Client::open(address, &key).unwrap();
    make_containers(&mut client);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("model.json"), MODEL).unwrap();
    let (http, https) =
        (format!("http://{address}"), format!("https://localhost:{}", address.port()));
    let on = |command: &[&str], endpoint: &str| {
        let tail = ["--database", "d", "--endpoint", endpoint, "--key", &key];
        run(&[command, &tail[..]].concat())
    };
    let (ok, text, error) = on(&["model", "show"], &http);
    assert!(!ok && error.contains("has no model; `orrery model apply FILE"), "{text}{error}");
    let (ok, text, error) = on(&["model", "apply", &path("model.json")], &https);
    assert!(ok, "{error}");
    assert_eq!(text, "The model of 'd' is stored: 3 rules.\n");
    let put = |client: &mut Client, container: &str, item: &str| {
        let id = orrery_types::Value::parse(item.as_bytes()).unwrap();
        let key = format!(r#"["{}"]"#, id.get("id").as_str().unwrap());
        let headers =
            [("x-ms-documentdb-partitionkey", &*key), ("x-ms-documentdb-is-upsert", "true")];
        client.must("POST", &format!("/dbs/d/colls/{container}/docs"), &headers, item);
    };
    put(&mut client, "authors", r#"{"id":"a1","name":"A"}"#);
    put(&mut client, "books", r#"{"id":"b1","authors":[{"id":"a1"}]}"#);
    // A part of a model goes into the one that is there.
    let patch =
        r#"{"relations":[{"from":"book","path":"/authors/*/id","copies":{"name":"t.name"}}]}"#;
    std::fs::write(path("patch.json"), patch).unwrap();
    let (ok, text, error) = on(&["model", "apply", &path("patch.json")], &http);
    assert!(ok && text.contains("is replaced"), "{text}{error}");
    let (ok, text, _) = on(&["model", "show"], &http);
    assert!(ok && text.contains(r#""copies":{"name":"t.name"}"#), "{text}");
    let (ok, text, error) = on(&["model", "verify"], &http);
    assert!(ok && text.contains("promises holds: 2 items."), "{text}{error}");
    let mut verify =
        |how: &str| client.must("GET", "/dbs/d/_model", &[("x-model-verify", how)], "");
    let mut answer = verify("start");
    while answer.body.contains("running") {
        assert!(answer.status == 202 && answer.body.contains(r#""progress":"#), "{answer:?}");
        answer = verify("state");
    }
    let done = r#"{"drift":[],"driftCount":0,"pending":0,"items":2,"state":"done"}"#;
    assert_eq!((answer.status, &*answer.body), (200, done));
    assert_eq!(verify("true").body, done.replace(r#","state":"done""#, ""));
    std::fs::write(path("bad.json"), r#"{"containers":{}}"#).unwrap();
    let (ok, _, error) = on(&["model", "apply", &path("bad.json")], &http);
    assert!(!ok && error.contains("no part of the model"), "{error}");

    let key_header =
        [("x-ms-documentdb-partitionkey", r#"["b1"]"#), ("x-model-expand", "author(name)")];
    let read = client.must("GET", "/dbs/d/colls/books/docs/b1", &key_header, "");
    assert!(read.body.contains(r#""author":{"name":"A"}"#), "{}", read.body);
    let headers = [
        ("x-ms-documentdb-isquery", "true"),
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-query-enablecrosspartition", "true"),
        ("x-orrery-explain", "true"),
    ];
    let query = r#"{"query":"SELECT VALUE w.id FROM a JOIN w IN a.written WHERE a.name = 'A'"}"#;
    let found = client.must("POST", "/dbs/d/colls/authors/docs", &headers, query);
    assert!(found.body.contains(r#"["b1"]"#), "{}", found.body);
    assert!(found.header("x-orrery-plan").unwrap().contains("Expand"), "{found:?}");

    let (ok, text, error) = on(&["advise"], &https);
    assert!(ok && text.starts_with("2 items in 2 types.\nNo findings.\n"), "{text}{error}");
    let (ok, text, _) = on(&["advise", "--json"], &http);
    assert!(ok && text.contains(r#""workload":{"#), "{text}");
}

#[test]
fn a_rule_that_older_items_break_is_not_said_to_hold() {
    let tool = Tool::new();
    let server = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    make_containers(&mut client);
    let key = [("x-ms-documentdb-partitionkey", r#"["b1"]"#)];
    let book = r#"{"id":"b1","authors":[{"id":"nobody"}]}"#;
    client.must("POST", "/dbs/d/colls/books/docs", &key, book);
    let model = tool.write("model.json", MODEL);
    let here = at(&server);
    let apply = ["model", "apply", &model, "--database", "d"];
    assert_eq!(tool.run(&with(&apply, &here)).code, 0);
    let verify = with(&["model", "verify", "--database", "d"], &here);
    let said = tool.run(&verify);
    assert!(said.code == 1 && said.err.contains("/relations/0: 1 items."), "{said:?}");
    client.must("DELETE", "/dbs/d/colls/books/docs/b1", &key, "");
    // The rule goes on by itself, soon.
    let mut said = tool.run(&verify);
    for _ in 0..100 {
        if said.code == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        said = tool.run(&verify);
    }
    assert!(said.code == 0 && said.out.contains("promises holds: 0 items."), "{said:?}");
}

#[test]
fn what_a_server_refuses_has_the_code_of_other_commands() {
    let tool = Tool::new();
    let server = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let model = tool.write("model.json", MODEL);
    let here = at(&server);
    let nowhere = ["--endpoint".to_owned(), "http://127.0.0.1:1".to_owned()];
    let commands: [&[&str]; 4] =
        [&["model", "show"], &["model", "verify"], &["model", "apply", &model], &["advise"]];
    for command in commands {
        let of = |database| [command, &["--database", database]].concat();
        tool.refused(&with(&of("d"), &nowhere), 3, "is the server running");
        let wrong = [&here[..2], &["--key".to_owned(), "AAAA".to_owned()]].concat();
        tool.refused(&with(&of("d"), &wrong), 4, "check --key");
        let said = tool.run(&with(&of("none"), &here));
        assert!(said.code == 4 && !said.err.contains("ActivityId"), "{said:?}");
    }
    tool.refused(&with(&["model", "show", "--database", "d"], &here), 4, "has no model");
    let show = ["model", "show", "--database", "none"];
    tool.refused(&with(&show, &here), 4, "there is no database 'none'");
}
