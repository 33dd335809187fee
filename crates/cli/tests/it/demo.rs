//! `orrery demo`, `orrery bench` and `orrery completions`.

use crate::client::Client;
use crate::process::Running;
use crate::tool::{Tool, at, with};

/// What the model has made of the items.
fn check(server: &Running) {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let mut item_of = |path: &str, key: &str, id: &str| {
        let key = format!("[\"{key}\"]");
        let sent = [("x-ms-documentdb-partitionkey", &*key)];
        let body = client.must("GET", &format!("{path}/docs/{id}"), &sent, "").body;
        orrery_types::Value::parse(body.as_bytes()).unwrap()
    };
    let post = item_of("/dbs/demo-blog/colls/blog", "clouds", "p1");
    assert_eq!(post.get("commentCount").as_i64(), Some(6));
    assert_eq!(post.get("recentComments").at(2).get("id").as_str(), Some("c6"));
    let bucket = item_of("/dbs/demo-blog/colls/blog", "clouds", "p1~c000001");
    assert_eq!(bucket.get("comments").as_array().map(<[_]>::len), Some(2));
    let mut item = |path: &str, id: &str| item_of(path, id, id);
    let author = item("/dbs/demo-library/colls/library", "a1");
    assert_eq!(author.get("countOfBooks").as_i64(), Some(3));
    assert_eq!(author.get("books").to_json(), r#"["b1","b2","b3"]"#);
    let book = item("/dbs/demo-library/colls/library", "b1");
    assert_eq!(book.get("authors").at(1).get("name").as_str(), Some("William Wakefield"));
    let publisher = item("/dbs/demo-publishing/colls/publishers", "mspress");
    assert_eq!(publisher.get("countOfBooks").as_i64(), Some(5));
    // A stock that somebody holds stays.
    let sent = [("x-ms-documentdb-partitionkey", "[\"1\"]")];
    let refused = client.send("DELETE", "/dbs/demo-portfolio/colls/stocks/docs/1", &sent, "");
    assert_eq!(refused.unwrap().status, 409);
}

#[test]
fn a_demo_loads_databases_with_their_models_and_draws_them() {
    let tool = Tool::new();
    let data = tool.path("data");
    let said = tool.must(&["demo", "--data", &data, "--diagrams", &tool.path("pictures")]);
    for name in ["demo-people", "demo-blog", "demo-portfolio", "demo-publishing", "demo-library"] {
        assert!(said.contains(name), "{said}");
    }
    for name in ["people", "blog", "portfolio", "publishing", "library"] {
        let picture = tool.read(&format!("pictures/{name}.svg"));
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{name}");
    }
    assert!(tool.read("pictures/library.svg").contains("author"));
    check(&Running::start(&["--data", &data, "--listen", "127.0.0.1:0"]));
}

#[test]
fn a_demo_goes_into_a_running_server_and_may_be_repeated() {
    let tool = Tool::new();
    let server = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    for _ in 0..2 {
        let said = tool.must(&with(&["demo"], &at(&server)));
        assert!(said.contains("demo-shop") && said.contains("/_explorer/"), "{said}");
        check(&server);
    }
    // It writes nothing into the folder that it was started in.
    assert_eq!(tool.folder.path().read_dir().unwrap().count(), 0);
    // The shop has 20,000 items, and everything that its model promises holds.
    let count = ["query", "-d", "demo-shop", "-c", "orders", "SELECT VALUE COUNT(1) FROM c"];
    assert_eq!(tool.must(&with(&count, &at(&server))), "17500\n");
    // The model is applied in the background, so the counts arrive a little later.
    let total =
        ["query", "-d", "demo-shop", "-c", "customers", "SELECT VALUE SUM(c.orderCount) FROM c"];
    let is_counted = |_| tool.must(&with(&total, &at(&server))) == "17500\n";
    assert!((0..5000).any(is_counted), "{}", tool.must(&with(&total, &at(&server))));
    tool.must(&with(&["model", "verify", "-d", "demo-shop"], &at(&server)));
    check_queries(&tool, &server);
    let report = tool.must(&with(&["advise", "-d", "demo-legacy", "--json"], &at(&server)));
    let report = orrery_types::Value::parse(report.as_bytes()).unwrap();
    let findings = report.get("findings").as_array().unwrap();
    assert!(findings.len() >= 10, "{}", report.to_json());
}

/// Each query that the demo offers finds something, in the database that it names.
fn check_queries(tool: &Tool, server: &Running) {
    let text = include_str!("../../demo/queries.json");
    let pairs = orrery_types::Value::parse(text.as_bytes()).unwrap();
    let pairs = pairs.as_array().unwrap();
    assert!(pairs.len() >= 5);
    for pair in pairs {
        for side in ["before", "after"] {
            let part = |name| pair.get(side).get(name).as_str().unwrap();
            let query =
                ["query", "-d", part("database"), "-c", part("container"), "--lines", part("text")];
            let found = tool.must(&with(&query, &at(server)));
            assert!(found.lines().count() > 1, "{pair:?}: {found}");
        }
    }
}

#[test]
fn a_bench_measures_and_leaves_nothing_behind() {
    let tool = Tool::new();
    let server = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
    let bench = ["bench", "--seconds", "1", "--clients", "2", "--items", "20", "--json"];
    let said = tool.must(&with(&bench, &at(&server)));
    let value = orrery_types::Value::parse(said.as_bytes()).unwrap();
    for operation in value.as_array().unwrap() {
        assert!(operation.get("number").as_i64().unwrap() > 0, "{said}");
    }
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    assert_eq!(client.feed("/dbs", "Databases").len(), 0);
}

#[test]
fn shells_learn_the_commands() {
    let tool = Tool::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = tool.must(&["completions", shell]);
        assert!(script.contains("orrery") && script.contains("restore"), "{shell}");
    }
}

#[test]
fn a_completion_script_that_cannot_be_written_is_no_panic() {
    let mut child = Tool::new().spawn(&["completions", "bash"]);
    // A reader that has left is no failure.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let tool = Tool::new();
    tool.must(&["man", &tool.path("man")]);
    for (page, expected) in [
        ("orrery", "orrery\\-query(1)"),
        ("orrery-query", "partition"),
        ("orrery-item-write", "if\\-match"),
    ] {
        let text = tool.read(&format!("man/{page}.1"));
        assert!(text.starts_with(".ie") && text.contains(expected), "{page}: {text}");
    }
}
