//! `orrery import` and `orrery export`: what goes in comes out, what is bad is told, and what was
//! interrupted goes on without duplicates.

use std::fmt::Write as _;
use std::time::Duration;

use crate::client::Client;
use crate::process::Running;
use crate::tool::{Tool, at, with};

pub(crate) const MEMORY: [&str; 3] = ["--memory", "--listen", "127.0.0.1:0"];
pub(crate) const BOOKS: [&str; 4] = ["-d", "shop", "-c", "books"];

pub(crate) fn item(n: usize) -> String {
    format!(
        r#"{{"id":"b{n}","publisher":"p{}","n":{n},"tags":["a","b"],"note":"line\n{n}"}}"#,
        n % 7
    )
}

pub(crate) fn lines(range: std::ops::Range<usize>) -> String {
    range.fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{}", item(n));
        text
    })
}

pub(crate) fn import<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["import", file], &BOOKS[..], &["--create", "/publisher"], more].concat()
}

/// All items of the container, as they were written.
pub(crate) fn items(tool: &Tool, server: &[String]) -> Vec<String> {
    let export = [&["export", "-"], &BOOKS[..]].concat();
    let text = tool.must(&with(&export, server));
    let mut found: Vec<String> = text.lines().map(str::to_owned).collect();
    found.sort_unstable();
    found
}

pub(crate) fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn items_go_in_and_come_out_as_they_were_in_every_format() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let server = at(&server);
    let text = lines(0..3000);
    let file = tool.write("books.jsonl", &text);
    let said = tool.must(&with(&import(&file, &[]), &server));
    assert!(said.starts_with("3,000 created in "), "{said}");
    assert_eq!(items(&tool, &server), sorted(&text));

    for name in ["all.json", "all.csv", "all.jsonl"] {
        let path = tool.path(name);
        let export = [&["export", &*path], &BOOKS[..]].concat();
        tool.must(&with(&export, &server));
        tool.refused(&with(&export, &server), 4, "is there already; --force");
        let other = ["import", &*path, "-d", "other", "-c", &name[4..], "--create", "publisher"];
        let said = tool.must(&with(&other, &server));
        assert!(said.starts_with("3,000 created"), "{name}: {said}");
        let back = ["export", "-", "-d", "other", "-c", &name[4..]];
        assert_eq!(sorted(&tool.must(&with(&back, &server))), sorted(&text), "{name}");
    }
    let again = tool.must(&with(&import(&file, &["--json"]), &server));
    assert!(again.starts_with(r#"{"created":0,"replaced":0,"kept":3000,"bad":0,"#), "{again}");
}

const BAD: &str = "{\"id\":\"a\",\"publisher\":\"p\"}\n\
    {\"id\":\"b\",\n\
    \n\
    {\"publisher\":\"p\"}\n\
    {\"id\":7,\"publisher\":\"p\"}\n\
    [1]\n\
    {\"id\":\"\",\"publisher\":\"p\"}\n\
    {\"id\":\"a\",\"publisher\":\"p\",\"again\":true}\n\
    {\"id\":\"z\",\"publisher\":\"p\"}\n";

/// The lines that are bad, and a word of the reason.
const REASONS: [(&str, &str); 5] = [
    ("line 2: ", "not JSON"),
    ("line 4: ", "no id"),
    ("line 5: ", "not a text"),
    ("line 6: ", "not an object"),
    ("line 7: ", "id"),
];

#[test]
fn bad_lines_are_told_with_their_numbers_and_the_rest_goes_on() {
    let tool = Tool::new();
    let file = tool.write("bad.jsonl", BAD);
    let server = Running::start(&MEMORY);
    let online = at(&server);
    let data = tool.path("data");
    let offline = ["--data".to_owned(), data.clone()];
    for whereto in [&online[..], &offline[..]] {
        let said = tool.run(&with(&import(&file, &[]), whereto));
        assert_eq!(said.code, 5, "{said:?}");
        assert!(said.out.starts_with("2 created, 1 already there, 5 not taken in "), "{said:?}");
        for (line, reason) in REASONS {
            let told = said.err.lines().find(|told| told.starts_with(line));
            assert!(told.is_some_and(|told| told.contains(reason)), "{line}{reason}: {said:?}");
        }
        let refusing = tool.run(&with(&import(&file, &["--existing", "refuse"]), whereto));
        assert!(
            refusing.err.contains("line 1: ") && refusing.err.contains("exists"),
            "{refusing:?}"
        );
        let replacing = tool.run(&with(&import(&file, &["--existing", "replace"]), whereto));
        assert!(replacing.out.starts_with("0 created, 3 replaced, 5 not taken"), "{replacing:?}");
    }
    let found = items(&tool, &online);
    assert_eq!(
        found,
        [r#"{"id":"a","publisher":"p","again":true}"#, r#"{"id":"z","publisher":"p"}"#]
    );
    let inspected = tool.must(&["inspect", &data, "--verify", "--json"]);
    assert!(inspected.contains(r#""items":2"#), "{inspected}");
}

#[test]
fn strict_stops_at_the_first_bad_line() {
    let tool = Tool::new();
    let file = tool.write("bad.jsonl", BAD);
    let server = Running::start(&MEMORY);
    let server = at(&server);
    tool.refused(&with(&import(&file, &["--strict"]), &server), 5, "line 2: it is not JSON");
    assert_eq!(items(&tool, &server), [r#"{"id":"a","publisher":"p"}"#]);
}

#[test]
fn strict_ends_a_long_file_too() {
    let tool = Tool::new();
    let file = tool.write("bad.jsonl", &format!("nonsense\n{}", lines(0..40_000)));
    let data = tool.path("data");
    tool.refused(&import(&file, &["--strict", "--data", &data]), 5, "line 1: it is not JSON");
}

#[test]
fn what_is_missing_is_said() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let server = at(&server);
    let file = tool.write("books.jsonl", &lines(0..1));
    let plain = [&["import", &*file], &BOOKS[..]].concat();
    tool.refused(&with(&plain, &server), 4, "--create /PATH");
    tool.refused(&with(&import("none.jsonl", &[]), &server), 1, "cannot open none.jsonl");
    let nowhere = ["--endpoint".to_owned(), "http://127.0.0.1:1".to_owned()];
    tool.refused(&with(&import(&file, &[]), &nowhere), 3, "is the server running");
    let csv = tool.write("numbers.csv", "number,publisher\n1,p\n2,p\n");
    tool.refused(&with(&import(&csv, &[]), &server), 5, "--id PROPERTY");
    let said = tool.must(&with(&import(&csv, &["--id", "number"]), &server));
    assert!(said.starts_with("2 created"), "{said}");
    let piped =
        tool.run_with(&with(&import("-", &[]), &server), "[{\"id\":\"x\",\"publisher\":\"q\"}]");
    assert!(piped.code == 0 && piped.out.starts_with("1 created"), "{piped:?}");
}

/// Kills an import some time after its note has changed, and starts it again until it is complete:
/// it ended by itself, or its note was gone when the kill reached it.
fn interrupted(tool: &Tool, arguments: &[&str]) -> (u32, String) {
    let mut kills = 0;
    loop {
        let mut child = tool.spawn(arguments);
        let transfers = tool.folder.path().join("state/orrery/transfers");
        let noted = |since: Option<Vec<u8>>| {
            let file = std::fs::read_dir(&transfers).ok()?.filter_map(Result::ok);
            let file =
                file.map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "json"))?;
            std::fs::read(file).ok().filter(|text| Some(text) != since.as_ref())
        };
        let before = noted(None);
        loop {
            if child.try_wait().unwrap().is_some() {
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{output:?}");
                return (kills, String::from_utf8(output.stdout).unwrap());
            }
            if kills < 6 && noted(before.clone()).is_some() {
                // In the middle of a round as well as right behind its note.
                std::thread::sleep(Duration::from_millis(u64::from(kills) * 20));
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                if noted(None).is_none() {
                    return (kills, "killed behind its last step".to_owned());
                }
                break;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_import_that_was_killed_goes_on_without_duplicates() {
    let tool = Tool::new();
    let text = lines(0..60_000);
    let file = tool.write("books.jsonl", &text);
    let data = tool.path("data");
    let arguments = import(&file, &["--data", &data, "--existing", "refuse"]);
    let (kills, said) = interrupted(&tool, &arguments);
    // How often it could be killed is a matter of speed; that it ends right is not.
    eprintln!("killed {kills} times: {said}");
    let inspected = tool.must(&["inspect", &data, "--verify", "--json"]);
    assert!(inspected.contains(r#""items":60000,"#), "{inspected}");
    let server = Running::start(&["--data", &data, "--listen", "127.0.0.1:0"]);
    assert_eq!(items(&tool, &at(&server)), sorted(&text));
}

#[test]
fn a_container_moves_from_another_account_while_it_is_written() {
    let tool = Tool::new();
    let (from, to) = (Running::start(&MEMORY), Running::start(&MEMORY));
    let mut there = Client::open(from.address(), &from.key()).unwrap();
    there.must("POST", "/dbs", &[], r#"{"id":"old"}"#);
    let definition = r#"{"id":"books","partitionKey":{"paths":["/publisher"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]}}"#;
    let two = [("x-ms-offer-throughput", "12000")];
    there.must("POST", "/dbs/old/colls", &two, definition);
    let write = |client: &mut Client, n: usize, text: &str| {
        let key = format!("[\"p{}\"]", n % 7);
        let sent = [("x-ms-documentdb-partitionkey", &*key), ("x-ms-documentdb-is-upsert", "true")];
        client.must("POST", "/dbs/old/colls/books/docs", &sent, text);
    };
    (0..200).for_each(|n| write(&mut there, n, &item(n)));
    let source = format!("http://{}", from.address());
    let key = from.key();
    let mut arguments = [&["import"], &BOOKS[..]].concat();
    arguments.extend(["--from-endpoint", &source, "--from-key", &key, "--from-database", "old"]);
    let here = at(&to);
    let said = tool.must(&with(&arguments, &here));
    assert!(said.starts_with("200 created"), "{said}");
    assert_eq!(items(&tool, &here), sorted(&lines(0..200)));

    // What changes meanwhile follows; the definition came along.
    let mut child = tool.spawn(&with(&[&arguments[..], &["--follow"]].concat(), &here));
    (200..260).for_each(|n| write(&mut there, n, &item(n)));
    write(&mut there, 3, &item(3).replace("\"a\"", "\"changed\""));
    let expected =
        sorted(&lines(0..260).replace(&item(3), &item(3).replace("\"a\"", "\"changed\"")));
    while items(&tool, &here) != expected {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut moved = Client::open(to.address(), &to.key()).unwrap();
    let container = moved.must("GET", "/dbs/shop/colls/books", &[], "").body;
    assert!(container.contains("\"paths\":[\"/n\"]"), "{container}");
}

#[cfg(unix)]
#[test]
fn a_reader_who_has_read_enough_is_no_failure() {
    use std::io::{BufRead as _, BufReader};
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let server = at(&server);
    let file = tool.write("books.jsonl", &lines(0..5000));
    tool.must(&with(&import(&file, &[]), &server));
    let query = [&["query"], &BOOKS[..], &["--lines", "SELECT * FROM c"]].concat();
    let export = [&["export", "-"], &BOOKS[..]].concat();
    for command in [query, export] {
        let mut child = tool.spawn(&with(&command, &server));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with('{'), "{line}");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}
