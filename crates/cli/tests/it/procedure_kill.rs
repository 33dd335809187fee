//! A stored procedure inserts a book and counts it at both its authors. The server is killed while
//! the procedure stands at each of its steps, and around its commit: afterwards the book is there
//! and counted at both, or nothing has happened.

use std::path::Path;
use std::time::Duration;

use orrery_types::Value;

use crate::client::{Answer, Client};
use crate::kill;
use crate::process::Running;

const CONTAINER: &str = "/dbs/d/colls/c";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["shop"]"#);
/// Begin, the book, and for each of two authors read and replaced, and the end.
const STEPS: usize = 7;
/// Kills around the commit of a procedure that nothing holds up.
const KILLS_AT_COMMIT: u64 = 12;
const ADD_BOOK: &str = "function addBook(book, authors, stop, how) {
    const c = getContext().getCollection();
    let step = 0;
    const at = () => {
        if (++step !== stop) return;
        if (how === 'throw') throw new Error('stopped at step ' + step);
        for (;;);
    };
    at();
    c.createDocument(c.getSelfLink(), book, (e) => { if (e) throw e; at(); count(0); });
    function count(i) {
        if (i === authors.length) { at(); getContext().getResponse().setBody('done'); return; }
        c.readDocument(c.getAltLink() + '/docs/' + authors[i], (e, author) => {
            if (e) throw e;
            at();
            author.countOfBooks += 1;
            c.replaceDocument(author._self, author, (e) => { if (e) throw e; at(); count(i + 1); });
        });
    }
}";

fn start(folder: &Path) -> (Running, Client) {
    let server = Running::serve(folder);
    let client = Client::open(server.address(), &server.key()).unwrap();
    (server, client)
}

fn prepare(client: &mut Client) {
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let container = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], container);
    for author in ["ada", "bob"] {
        let body = format!(r#"{{"id":"{author}","p":"shop","countOfBooks":0}}"#);
        client.must("POST", &format!("{CONTAINER}/docs"), &[KEY], &body);
    }
    let body = format!(r#"{{"id":"addBook","body":"{}"}}"#, ADD_BOOK.replace('\n', " "));
    client.must("POST", &format!("{CONTAINER}/sprocs"), &[], &body);
}

/// Runs the procedure for a book of this name.
fn add_book(client: &mut Client, book: &str, stop: usize, how: &str) -> std::io::Result<Answer> {
    let arguments = format!(r#"[{{"id":"{book}","p":"shop"}},["ada","bob"],{stop},"{how}"]"#);
    client.send("POST", &format!("{CONTAINER}/sprocs/addBook"), &[KEY], arguments)
}

/// The books that are there; every author counts exactly these.
fn books(client: &mut Client) -> Vec<String> {
    let items = client.feed(&format!("{CONTAINER}/docs"), "Documents");
    let (authors, books): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| item.get("countOfBooks").as_i64().is_some());
    assert_eq!(authors.len(), 2);
    for author in &authors {
        let counted = author.get("countOfBooks").as_i64().unwrap();
        assert_eq!(counted, i64::try_from(books.len()).unwrap(), "{author:?} beside {books:?}");
    }
    books.iter().map(|book| book.get("id").as_str().unwrap().to_owned()).collect()
}

/// The processor time a process has used, in the kernel's ticks.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits until the server has computed for a while: a procedure turns in its loop. Nothing else
/// here makes an idle server compute.
fn wait_for_the_loop(server: &Running) {
    let process = server.child.id();
    let before = ticks(process);
    let looked = (0..4000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        ticks(process) >= before + 15
    });
    assert!(looked.is_some(), "the procedure does not run");
}

#[test]
fn a_book_and_its_authors_survive_a_kill_at_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mut client) = start(folder.path());
    prepare(&mut client);
    // Every step is one the procedure comes by.
    for step in 1..=STEPS {
        let answer = add_book(&mut client, "thrown", step, "throw").unwrap();
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains(&format!("stopped at step {step}")), "{answer:?}");
    }
    assert!(books(&mut client).is_empty());
    drop(server);

    for step in 1..=STEPS {
        let (server, mut client) = start(folder.path());
        let held = std::thread::spawn(move || add_book(&mut client, "held", step, "hold"));
        wait_for_the_loop(&server);
        drop(server);
        held.join().unwrap().expect_err("it was held when the server was killed");
        assert_eq!(kill::faults(&folder.path().into()), 0, "step {step}");
        let (_server, mut client) = start(folder.path());
        assert_eq!(books(&mut client), [""; 0], "step {step}");
    }

    let mut expected = Vec::new();
    for kill in 0..KILLS_AT_COMMIT {
        let (server, mut client) = start(folder.path());
        let book = format!("book-{kill:02}");
        let sent = book.clone();
        let running = std::thread::spawn(move || add_book(&mut client, &sent, 0, ""));
        std::thread::sleep(Duration::from_micros(kill * 1500));
        drop(server);
        let acknowledged = running.join().unwrap().is_ok_and(|answer| answer.status == 200);
        assert_eq!(kill::faults(&folder.path().into()), 0, "kill {kill}");
        let (_server, mut client) = start(folder.path());
        let mut found = books(&mut client);
        found.sort();
        if acknowledged || found.contains(&book) {
            expected.push(book);
        }
        assert_eq!(found, expected, "kill {kill}");
    }
    let (_server, mut client) = start(folder.path());
    assert_eq!(add_book(&mut client, "last", 0, "").unwrap().status, 200);
    assert!(books(&mut client).contains(&"last".to_owned()));
}
