//! `orrery query` against a real server.

use std::io::Write as _;
use std::process::{Output, Stdio};

use crate::client::Client;
use crate::process::{Running, orrery};

struct Shop {
    running: Running,
}

impl Shop {
    /// A server with 2,500 books of five publishers, on two physical partitions.
    fn open() -> Self {
        let running = Running::start(&["--memory", "--listen", "127.0.0.1:0"]);
        let mut client = Client::open(running.address(), &running.key()).unwrap();
        client.must("POST", "/dbs", &[], r#"{"id":"my shop"}"#);
        let body =
            r#"{"id":"books","partitionKey":{"paths":["/publisher"],"kind":"Hash","version":2}}"#;
        let two = [("x-ms-offer-throughput", "12000")];
        client.must("POST", "/dbs/my%20shop/colls", &two, body);
        for group in 0..25 {
            let operation = |n: usize| {
                format!(
                    r#"{{"operationType":"Create","resourceBody":{{"id":"b{n}","publisher":"p{}","n":{n},"name":"Book {n}"}}}}"#,
                    n % 5
                )
            };
            let operations: Vec<String> = (group * 100..group * 100 + 100).map(operation).collect();
            let bulk = [
                ("x-ms-cosmos-is-batch-request", "true"),
                ("x-ms-cosmos-batch-atomic", "false"),
                ("x-ms-cosmos-batch-continue-on-error", "true"),
            ];
            let body = format!("[{}]", operations.join(","));
            let made = client.must("POST", "/dbs/my%20shop/colls/books/docs", &bulk, &body);
            assert_eq!(made.status, 200, "{}", made.body);
        }
        Self { running }
    }

    fn ask(&self, arguments: &[&str], typed: &str) -> Output {
        let endpoint = format!("http://{}", self.running.address());
        let mut command = orrery(&["query", "--endpoint", &endpoint, "--key", &self.running.key()]);
        command
            .args(arguments)
            .env("XDG_STATE_HOME", std::env::temp_dir().join("orrery-test-state"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(&[&["-d", "my shop", "-c", "books"], arguments].concat(), "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn a_query_over_all_partitions_comes_whole_in_every_form() {
    let shop = Shop::open();
    let all = shop.answer(&["SELECT VALUE c.n FROM c ORDER BY c.n DESC"]);
    let expected: Vec<String> = (0..2500).rev().map(|n| n.to_string()).collect();
    assert_eq!(all.lines().collect::<Vec<_>>(), expected, "JSON lines where nobody looks");

    let query = "SELECT c.id, c.n FROM c WHERE c.n < @max ORDER BY c.n";
    let json = shop.answer(&["--json", "-p", "max=2", query]);
    assert_eq!(json, "[{\"id\":\"b0\",\"n\":0},\n {\"id\":\"b1\",\"n\":1}]\n");

    let table = shop.answer(&["--table", "-p", "max=2", query]);
    assert!(table.starts_with("id  n\n──  ─\nb0  0\nb1  1\n2 rows in 1 page, "), "{table}");

    let count = "SELECT VALUE COUNT(1) FROM c";
    assert_eq!(shop.answer(&[count]), "2500\n");
    assert_eq!(shop.answer(&["--partition-key", "p3", count]), "500\n");
    let limited = shop.answer(&["--table", "--limit", "3", "SELECT c.id FROM c"]);
    assert!(limited.contains("\n3 rows in ") && limited.contains("--limit"), "{limited}");
    assert_eq!(shop.answer(&["--json", "--limit", "0", "SELECT c.id FROM c"]), "[]\n");
}

#[test]
fn explain_shows_the_plan_with_what_it_took() {
    let shop = Shop::open();
    let query = "SELECT VALUE c.id FROM c WHERE c.n > 2489";
    let text = shop.answer(&["--table", "--explain", query]);
    let lines: Vec<&str> = text.lines().collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(lines[0].starts_with("plan") && lines[0].contains("estimated rows"), "{text}");
    assert!(lines[2].starts_with("Filter"), "{text}");
    assert_eq!(words(lines[2]).last().map(String::as_str), Some("10"), "real rows: {text}");
    let access = words(lines[3]);
    assert_eq!(access[..5], ["└─", "IndexRange", "/n", ">", "2489"], "{text}");
    assert_eq!(access[access.len() - 1], "10", "items loaded: {text}");
    assert!(text.lines().last().unwrap().starts_with("10 rows in ") && text.contains(" RU, "));

    let json = shop.answer(&["--json", "--explain", query]);
    let value = orrery_types::Value::parse(json.as_bytes()).unwrap();
    assert_eq!(value.get("rows").as_i64(), Some(10));
    assert!(value.get("requestCharge").as_number().unwrap().as_f64() > 2.0);
    let plan = value.get("plans").at(0);
    assert_eq!(plan.get("node").as_str(), Some("Filter"));
    assert_eq!(plan.get("inputs").at(0).get("itemsLoaded").as_i64(), Some(10));
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_its_exit_code() {
    let shop = Shop::open();
    let refused = |arguments: &[&str], code: i32, expected: &str| {
        let output = shop.ask(arguments, "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(output.stdout.is_empty());
    };
    let here = ["-d", "my shop", "-c", "books"];
    let with = |more: &[&'static str]| [&here[..], more].concat();
    refused(&with(&["SELECT * FORM c"]), 4, "(SC1001)\n  SELECT * FORM c\n           ^^^^\n");
    refused(&with(&["SELECT @x FROM c"]), 4, "SC2011");
    refused(&["-d", "my shop", "-c", "none", "SELECT 1"], 4, "check the names");
    refused(&["SELECT 1"], 2, "--database NAME");
    refused(&with(&["--param", "x", "SELECT 1"]), 2, "name=value");
    refused(&with(&["--key", "d3Jvbmc=", "SELECT 1"]), 2, "--key");
    let endpoint = ["query", "--endpoint", "http://127.0.0.1:1", "-d", "d", "-c", "c", "SELECT 1"];
    let output = orrery(&endpoint).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let here = format!("http://{}", shop.running.address());
    for (endpoint, key, expected) in [
        (&*here, "not base64", "the key is not base64"),
        ("localhost:8081", "d3Jvbmc=", "starts neither with http://"),
    ] {
        let output = orrery(&["query", "--endpoint", endpoint, "--key", key]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(expected));
    }
    let wrong = here;
    let wrong =
        ["query", "--endpoint", &wrong, "--key", "d3Jvbmc=", "-d", "d", "-c", "c", "SELECT 1"];
    let output = orrery(&wrong).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("check --key"));
}

#[test]
fn a_query_is_read_from_a_file_or_a_pipe() {
    let shop = Shop::open();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count.sql");
    std::fs::write(&file, "SELECT VALUE\n  COUNT(1)\nFROM c").unwrap();
    assert_eq!(shop.answer(&["--file", file.to_str().unwrap()]), "2500\n");
    let output = shop.ask(&["-d", "my shop", "-c", "books", "-"], "SELECT VALUE MAX(c.n) FROM c");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "2499\n");
}

#[test]
fn the_shell_answers_line_by_line_and_survives_mistakes() {
    let shop = Shop::open();
    let typed = "\\list\n\
        SELECT VALUE 1\n\
        \\use my shop/books\n\
        SELEKT 1;\n\
        \\set max=3\n\
        SELECT VALUE c.n FROM c WHERE c.n < @max ORDER BY c.n;\n\
        \\key p1\n\
        SELECT VALUE COUNT(1) FROM c\n\
        \\explain\n\
        \\table\n\
        SELECT * FROM c WHERE c.id = 'b1'\n\
        \\nonsense\n\
        \\quit\n\
        SELECT VALUE 'never'\n";
    let output = shop.ask(&["--lines"], typed);
    let (out, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    assert!(out.contains("my shop/books\n"), "{out}");
    assert!(out.contains("0\n1\n2\n500\n"), "{out}");
    assert!(out.contains("PointRead \"b1\"") && !out.contains("never"), "{out}");
    for expected in ["choose a container first", "^^^^^^", "no command \\nonsense"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
