//! A server on `PostgreSQL`: what it keeps there, which starts are refused and how, and two nodes over one store.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use orrery_postgres::PostgresOptions;
use orrery_types::stopwatch::Stopwatch;
use postgres::{Client as SqlClient, NoTls};

use crate::client::{Client, Connection, http_date};
use crate::place::Place;
use crate::process::{Running, orrery};

/// What takes longer than this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tables of the release before.
const VERSION_2: &str = include_str!("../../../storage/tests/it/postgres_v2.sql");

struct Store {
    place: Place,
    address: String,
    options: PostgresOptions,
}

/// A new store; `None` where there is no server.
fn store() -> Option<Store> {
    let place = Place::postgres()?;
    let Place::Postgres(address, options) = &place else { return None };
    let (address, options) = (address.clone(), options.clone());
    Some(Store { place, address, options })
}

impl Store {
    fn sql(&self, text: &str) {
        let mut client = SqlClient::connect(&self.address, NoTls).unwrap();
        let text = format!("SET search_path = {}; {text}", self.options.schema);
        client.batch_execute(&text).unwrap();
    }

    /// A start of a server at another address of the same store.
    fn start_at(&self, address: &str) -> Command {
        let schema = &self.options.schema;
        let quiet = ["--listen", "127.0.0.1:0", "--no-tls", "--log", "error"];
        let store = ["serve", "--store", address, "--store-schema", schema];
        orrery(&[&store[..], &quiet].concat())
    }
}

/// Runs a command that must fail with one line and an exit code.
#[track_caller]
fn check(mut command: Command, code: i32, expected: &[&str]) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said.trim_end();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("orrery: "), "{said}");
    for part in expected {
        assert!(said.contains(part), "no '{part}' in: {said}");
    }
    assert!(!said.contains("secret"), "{said}");
}

fn output(arguments: &[String]) -> (i32, String) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = orrery(&arguments).stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn command(words: &[&str], store: &Store) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).chain(store.place.arguments()).collect()
}

#[test]
fn data_keys_and_certificate_are_in_the_store_and_nothing_is_in_a_folder() {
    let Some(store) = store() else { return };
    let home = tempfile::tempdir().unwrap();
    let serve = || {
        let mut command = store.start_at(&store.address);
        command.env("HOME", home.path()).env_remove("XDG_DATA_HOME").current_dir(home.path());
        Running::spawn(command)
    };
    let server = serve();
    assert!(server.said.contains("PostgreSQL at "), "{}", server.said);
    let key = server.key();
    let mut client = Client::open(server.address(), &key).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    let part = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    client.must("POST", "/dbs/d/colls/c/docs", &part, r#"{"id":"i","p":"p"}"#);
    // The tables stay as they are while a node runs.
    store.sql("UPDATE meta SET version = 2");
    let mut migrate = orrery(&["store", "migrate"]);
    migrate.args(store.place.arguments());
    check(migrate, 4, &["A node uses the store", "session"]);
    store.sql("UPDATE meta SET version = 3");
    let (code, listed) = output(&command(&["keys", "list", "--json"], &store));
    assert_eq!((code, listed.contains(&key)), (0, true));
    let (code, rotated) = output(&command(&["keys", "rotate", "primary", "--json"], &store));
    assert_eq!((code, rotated.contains(&key)), (0, false), "{rotated}");
    let watch = Stopwatch::start();
    while client.send("GET", "/dbs/d", &[], "").unwrap().status != 401 {
        assert!(watch.elapsed() < PATIENCE, "the old key still opens the account");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (code, status) = output(&command(&["store", "status", "--json"], &store));
    assert_eq!(code, 0, "{status}");
    let status = orrery_types::Value::parse(status.as_bytes()).unwrap();
    let nodes = status.get("nodes").as_array().unwrap().to_vec();
    assert!(nodes.len() == 1 && nodes[0].get("session").as_i64().is_some(), "{status:?}");
    let shards = status.get("shards").as_array().unwrap().to_vec();
    assert!(shards.iter().all(|shard| shard.get("state").as_str() == Some("open")), "{status:?}");
    drop(server);
    let server = serve();
    assert_ne!(server.key(), key);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    assert_eq!(client.feed("/dbs/d/colls/c/docs", "Documents").len(), 1);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "the node needs no folder");
}

/// A token is looked up in the store, which a thread that serves connections may not wait for.
#[test]
fn a_resource_token_opens_the_account_and_its_container() {
    use orrery_types::Clock as _;

    let Some(store) = store() else { return };
    let server = store.place.serve();
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    client.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
    let body = r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}"#;
    let made = client.send("POST", "/dbs/d/users/u/permissions", &[], body).unwrap();
    let made = orrery_types::Value::parse(made.body.as_bytes()).unwrap();
    let token = made.get("_token").as_str().unwrap().replace('&', "%26").replace('=', "%3D");
    let token = token.replace('+', "%2B").replace('/', "%2F");
    let headers = [
        ("authorization".to_owned(), token),
        ("x-ms-date".to_owned(), http_date(orrery_types::SystemClock.now_s())),
        ("x-ms-version".to_owned(), "2020-07-15".to_owned()),
    ];
    let mut connection = Connection::open(server.address()).unwrap();
    for path in ["/", "/dbs/d/colls/c", "/dbs/d/colls/c/docs", "/dbs/d/colls/c/pkranges"] {
        let answer = connection.send("GET", path, &headers, b"").unwrap();
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

/// Addresses, passwords and tables that cannot be used.
#[test]
fn what_cannot_be_used_ends_with_one_line_and_its_exit_code() {
    let Some(store) = store() else { return };
    let at = |address: &str| store.start_at(address);
    check(at("postgres://u:secret@127.0.0.1:1/d"), 3, &["Cannot connect to PostgreSQL"]);
    check(at("postgres://u:secret@h/d?sslmode=maybe"), 2, &["sslmode must be"]);
    check(at("nonsense"), 2, &["not valid"]);
    check(at(&format!("{} dbname=nobody password=secret", store.address)), 4, &["nobody"]);
    let forgetful = format!("{} options='-c synchronous_commit=off'", store.address);
    check(at(&forgetful), 4, &["synchronous_commit = off", "lose acknowledged writes"]);
    let read_only = format!("{} options='-c default_transaction_read_only=on'", store.address);
    check(at(&read_only), 4, &["takes no writes", "primary"]);
    let mut missing = at(&store.address);
    missing.args(["--store-password-file", "/none/secret-file"]);
    let line = missing.stdin(Stdio::null()).output().unwrap();
    assert_eq!(line.status.code(), Some(2));
    let mut many = at(&store.address);
    many.args(["--store-connections", "6000"]);
    check(many, 4, &["may open 6000", "max_connections"]);
    let mut few = at(&store.address);
    few.args(["--store-connections", "7"]);
    check(few, 2, &["a number from 8 up"]);
    let mut both = at(&store.address);
    check(
        {
            both.arg("--memory");
            both
        },
        2,
        &["both asked for"],
    );
    let schema = &store.options.schema;
    store.sql(&format!(
        "DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}; {VERSION_2}; \
         UPDATE meta SET version = 1; DROP TABLE account"
    ));
    check(at(&store.address), 4, &["version 1", "orrery store migrate"]);
    let (code, said) = output(&command(&["store", "migrate"], &store));
    assert_eq!((code, said.contains("had version 1")), (0, true), "{said}");
    drop(store.place.serve());
    store.sql("UPDATE meta SET version = 9");
    check(at(&store.address), 4, &["version 9", "newer release"]);
    store.sql("UPDATE meta SET version = 3; DROP TABLE log");
    check(at(&store.address), 6, &["lacks the table log", "Restore"]);
    let (code, said) = output(&command(&["store", "init"], &store));
    assert_eq!((code, &*said), (4, ""));
    store.sql(&format!("DROP SCHEMA {} CASCADE", store.options.schema));
    check(at(&store.address), 4, &["no store", "orrery store init"]);
    let (code, said) = output(&command(&["store", "init"], &store));
    assert_eq!((code, said.contains("created")), (0, true), "{said}");
    drop(store.place.serve());
}

/// Two nodes serve one store. One of them is stopped, its sessions end, and it is there again when it wakes up.
#[cfg(unix)]
#[test]
fn two_nodes_serve_one_store_and_one_that_was_paused_goes_on() {
    let Some(store) = store() else { return };
    let named = format!("{} application_name=paused", store.address);
    let first = Running::spawn(store.start_at(&named));
    let mut one = Client::open(first.address(), &first.key()).unwrap();
    one.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    one.must("POST", "/dbs/d/colls", &[], body);
    let second = store.place.serve();
    assert_eq!(first.key(), second.key(), "the account has its keys in the store");
    let mut other = Client::open(second.address(), &second.key()).unwrap();
    let part = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let items = "/dbs/d/colls/c/docs";
    for n in 0..20 {
        let (writer, reader) =
            if n % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        writer.must("POST", items, &part, &format!(r#"{{"id":"{n}","p":"p"}}"#));
        let read = reader.send("GET", &format!("{items}/{n}"), &part, "").unwrap();
        assert_eq!(read.status, 200, "{read:?}");
        let again =
            reader.send("POST", items, &part, format!(r#"{{"id":"{n}","p":"p"}}"#)).unwrap();
        assert_eq!(again.status, 409, "{again:?}");
    }
    let signal = |pid: u32, signal: &str| {
        let pid = pid.to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    signal(first.child.id(), "-STOP");
    other.must("POST", items, &part, r#"{"id":"meanwhile","p":"p"}"#);
    // As when the machine of the first one is gone for a while.
    store.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'paused'",
    );
    signal(first.child.id(), "-CONT");
    let watch = Stopwatch::start();
    while one.send("GET", &format!("{items}/meanwhile"), &part, "").unwrap().status != 200 {
        assert!(watch.elapsed() < PATIENCE, "the node that was paused does not answer");
    }
    one.must("POST", items, &part, r#"{"id":"after","p":"p"}"#);
    assert_eq!(other.feed(items, "Documents").len(), 22);
}
