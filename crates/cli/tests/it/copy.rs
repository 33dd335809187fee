//! `orrery copy`: a server's data moves from a folder into `PostgreSQL` and back while clients write, and everything is
//! the same; copies that are killed, refused or have no room leave nothing that could be taken for a whole one.
//! `ORRERY_COPY_ITEMS` sets how many items there are to begin with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use orrery_postgres::PostgresOptions;
use orrery_types::Value;
use orrery_types::stopwatch::Stopwatch;
use postgres::{Client as SqlClient, NoTls};

use crate::client::Client;
use crate::cluster;
use crate::place::Place;
use crate::process::{Running, orrery};
use crate::tool::{Tool, at, with};

const ITEMS: usize = 1500;
const WRITERS: usize = 4;
/// Containers that are made while a copy is under way.
const LATE_CONTAINERS: usize = 24;
const PATIENCE: Duration = Duration::from_secs(120);
const DOCS: &str = "/dbs/shop/colls/books/docs";

fn items() -> usize {
    std::env::var("ORRERY_COPY_ITEMS").map_or(ITEMS, |text| text.parse().expect("a number"))
}

/// A schema of the tests' cluster in which nothing is yet; `None` where there is no server.
fn new_schema() -> Option<(String, String)> {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    Some((cluster::address()?, format!("copied{number}")))
}

fn store(address: &str, schema: &str) -> Place {
    let options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
    Place::Postgres(address.to_owned(), options)
}

/// One of everything that an account may hold.
fn furnish(client: &mut Client) {
    let mut post = |path: &str, more: &[(&str, &str)], body: &str| {
        client.must("POST", path, more, body);
    };
    post("/dbs", &[], r#"{"id":"shop"}"#);
    post("/dbs", &[("x-ms-offer-throughput", "1000")], r#"{"id":"shared"}"#);
    let books = r#"{"id":"books","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},"defaultTtl":-1,
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/isbn"]}]},
        "indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/text/?"}],
        "compositeIndexes":[[{"path":"/n"},{"path":"/p"}]]}}"#;
    post("/dbs/shop/colls", &[("x-ms-offer-throughput", "12000")], books);
    let by_shelf = r#"{"id":"by_shelf","partitionKey":{"paths":["/shelf"],"kind":"Hash","version":2},
        "globalSecondaryIndexDefinition":{"sourceCollectionId":"books","definition":"SELECT c.id, c.p, c.shelf FROM c"}}"#;
    post("/dbs/shop/colls", &[], by_shelf);
    let plain = |id: &str| {
        format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}}}"#)
    };
    post("/dbs/shop/colls", &[], &plain("authors").replace("/p", "/id"));
    post("/dbs/shared/colls", &[], &plain("notes"));
    post("/dbs/shop/users", &[], r#"{"id":"reader"}"#);
    let permission = r#"{"id":"books","permissionMode":"Read","resource":"dbs/shop/colls/books"}"#;
    post("/dbs/shop/users/reader/permissions", &[], permission);
    let script = |id: &str| format!(r#"{{"id":"{id}","body":"function f() {{}}"}}"#);
    post("/dbs/shop/colls/books/sprocs", &[], &script("procedure"));
    post("/dbs/shop/colls/books/udfs", &[], &script("function"));
    let trigger =
        r#"{"id":"t","body":"function t() {}","triggerType":"Pre","triggerOperation":"All"}"#;
    post("/dbs/shop/colls/books/triggers", &[], trigger);
    let key = r#"{"id":"key","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256","wrappedDataEncryptionKey":"AQID",
        "keyWrapMetadata":{"name":"k","type":"t","value":"v"}}"#;
    post("/dbs/shop/clientencryptionkeys", &[], key);
    let role = r#"{"id":"cccccccc-0000-0000-0000-000000000001","roleName":"reads","assignableScopes":["/dbs/shop"],
        "permissions":[{"dataActions":["Microsoft.DocumentDB/databaseAccounts/readMetadata"]}]}"#;
    post("/_roledefinitions", &[], role);
    let model = r#"{"version":1,"types":{"author":{"container":"authors"},"book":{"container":"books"}},
        "relations":[{"name":"writer","from":"book","path":"/author","to":"author"}]}"#;
    client.must("PUT", "/dbs/shop/_model", &[], model);
}

/// Everything that a client can read of an account, as text, by path.
fn read_all(server: &Running) -> BTreeMap<String, Vec<String>> {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let mut all = BTreeMap::new();
    let mut feed = |path: &str, list: &str| {
        let mut texts: Vec<String> = client.feed(path, list).iter().map(Value::to_json).collect();
        texts.sort();
        all.insert(path.to_owned(), texts);
    };
    feed("/dbs", "Databases");
    feed("/offers", "Offers");
    for database in ["shop", "shared"] {
        feed(&format!("/dbs/{database}/colls"), "DocumentCollections");
    }
    // What the index still lacks follows on the new server, so it is looked at by itself.
    for container in ["shop/colls/books", "shop/colls/authors", "shared/colls/notes"] {
        feed(&format!("/dbs/{container}/docs"), "Documents");
        feed(&format!("/dbs/{container}/pkranges"), "PartitionKeyRanges");
    }
    feed("/dbs/shop/users", "Users");
    feed("/dbs/shop/colls/books/sprocs", "StoredProcedures");
    feed("/dbs/shop/colls/books/udfs", "UserDefinedFunctions");
    feed("/dbs/shop/colls/books/triggers", "Triggers");
    feed("/dbs/shop/clientencryptionkeys", "ClientEncryptionKeys");
    for path in ["/dbs/shop/_model", "/_roledefinitions", "/_roleassignments"] {
        all.insert(path.into(), vec![client.send("GET", path, &[], "").unwrap().body]);
    }
    let permissions = client.feed("/dbs/shop/users/reader/permissions", "Permissions");
    // Each read makes another token.
    let about = |permission: &Value| {
        ["id", "_rid", "_etag", "resource"].map(|name| permission.get(name).to_json()).concat()
    };
    all.insert("permissions".into(), permissions.iter().map(about).collect());
    // The whole change feed, in its order, with the position behind it.
    let (mut changes, mut position) = (vec![], None::<String>);
    loop {
        let mut headers = vec![("A-IM", "Incremental feed"), ("x-ms-max-item-count", "1000")];
        headers.extend(position.as_deref().map(|etag| ("If-None-Match", etag)));
        let page = client.send("GET", DOCS, &headers, "").unwrap();
        position = page.header("etag").map(str::to_owned);
        if page.status == 304 {
            break;
        }
        let page = Value::parse(page.body.as_bytes()).unwrap();
        changes.extend(page.get("Documents").as_array().unwrap().iter().map(Value::to_json));
    }
    changes.extend(position);
    all.insert("changes".into(), changes);
    all
}

#[track_caller]
fn check_same(old: &BTreeMap<String, Vec<String>>, new: &BTreeMap<String, Vec<String>>) {
    assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>());
    for (path, texts) in old {
        let other = &new[path];
        assert_eq!(texts.len(), other.len(), "{path}");
        for (old, new) in texts.iter().zip(other) {
            assert_eq!(old, new, "{path}");
        }
    }
}

fn book(id: &str, p: usize, n: usize) -> String {
    let text = "x".repeat(300);
    format!(
        r#"{{"id":"{id}","p":"p{p}","isbn":"{id}","n":{n},"shelf":"s{}","text":"{text}"}}"#,
        n % 17
    )
}

/// Writes until the server refuses writes because its data is elsewhere, or the copy has failed; what it has
/// acknowledged, `None` for a delete.
fn write_until_moved(
    address: SocketAddr,
    key: &str,
    writer: usize,
    has_failed: &AtomicBool,
    acknowledged: &Mutex<BTreeMap<String, Option<usize>>>,
) {
    let mut client = Client::open(address, key).unwrap();
    for n in 0.. {
        if has_failed.load(SeqCst) {
            return;
        }
        let (id, p) = (format!("w{writer}-{}", n % 97), writer * 7);
        let partition = format!(r#"["p{p}"]"#);
        let upsert =
            [("x-ms-documentdb-partitionkey", &*partition), ("x-ms-documentdb-is-upsert", "true")];
        let is_delete = n % 13 == 12;
        let answer = if is_delete {
            client.send("DELETE", &format!("{DOCS}/{id}"), &upsert[..1], "")
        } else {
            client.send("POST", DOCS, &upsert, book(&id, p, n))
        };
        let answer = answer.unwrap();
        match answer.status {
            200 | 201 => drop(acknowledged.lock().unwrap().insert(id, Some(n))),
            204 => drop(acknowledged.lock().unwrap().insert(id, None)),
            404 => {}
            503 => {
                assert!(answer.body.contains("moved to another store"), "{answer:?}");
                return;
            }
            // A write that met the shards as they were closed.
            410 | 449 => std::thread::sleep(Duration::from_millis(5)),
            _ => panic!("{answer:?}"),
        }
    }
}

/// Copies from a server under writes; afterwards the old server shows what the new one must have.
fn move_under_writes(tool: &Tool, server: &Running, to: &[&str]) -> BTreeMap<String, Vec<String>> {
    let (acknowledged, has_failed) = (Mutex::new(BTreeMap::new()), AtomicBool::new(false));
    let (address, key) = (server.address(), server.key());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (key, acknowledged, has_failed) = (key.clone(), &acknowledged, &has_failed);
            scope.spawn(move || write_until_moved(address, &key, writer, has_failed, acknowledged));
        }
        // Containers that are made, and some of them deleted, while the copy is under way. Not without end: the copy
        // reads each of them, and must come to one.
        scope.spawn(|| {
            let mut client = Client::open(address, &key).unwrap();
            for n in 0..LATE_CONTAINERS {
                let id = format!("late{n}");
                let body = format!(
                    r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}}}"#
                );
                let made = client.send("POST", "/dbs/shared/colls", &[], &body).unwrap();
                if made.status == 503 || has_failed.load(SeqCst) {
                    return;
                }
                if n % 2 == 0 && made.status == 201 {
                    let path = format!("/dbs/shared/colls/{id}");
                    let _ = client.send("DELETE", &path, &[], "").unwrap();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let endpoint = format!("http://{address}");
        let from = ["copy", "--from", &endpoint, "--key", &key, "--json"];
        let said = tool.run(&[&from[..], to].concat());
        has_failed.store(said.code != 0, SeqCst);
        assert_eq!(said.code, 0, "{said:?}");
        let report = Value::parse(said.out.as_bytes()).unwrap();
        eprintln!("copied: {}", said.out.trim_end());
        assert!(report.get("changes").as_i64().unwrap() > 0, "nothing was written meanwhile");
    });
    let all = read_all(server);
    let found: BTreeMap<String, i64> = all[DOCS]
        .iter()
        .map(|text| Value::parse(text.as_bytes()).unwrap())
        .map(|item| (item.get("id").as_str().unwrap().to_owned(), item.get("n").as_i64().unwrap()))
        .collect();
    for (id, n) in acknowledged.into_inner().unwrap() {
        let expected = n.map(|n| i64::try_from(n).unwrap());
        assert_eq!(found.get(&id).copied(), expected, "{id}");
    }
    all
}

/// Waits until the background of the server has brought the index over, so that nothing is written by itself.
fn settle(server: &Running, count: usize) {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let watch = Stopwatch::start();
    while client.feed("/dbs/shop/colls/by_shelf/docs", "Documents").len() != count {
        assert!(watch.elapsed() < PATIENCE, "the index does not follow");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_under_writes_moves_to_postgres_and_back_and_everything_is_the_same() {
    let Some((address, schema)) = new_schema() else { return };
    let tool = Tool::new();
    let data = tool.folder.path().join("data");
    let server = Running::serve(&data);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    furnish(&mut client);
    for n in 0..items() {
        let partition = format!(r#"["p{}"]"#, n % 50);
        let headers = [("x-ms-documentdb-partitionkey", &*partition)];
        client.must("POST", DOCS, &headers, &book(&format!("i{n}"), n % 50, n));
    }
    settle(&server, items());

    let there = move_under_writes(&tool, &server, &["--to", &address, "--to-schema", &schema]);
    drop(server);
    let place = store(&address, &schema);
    let second = place.serve();
    check_same(&there, &read_all(&second));
    settle(&second, there[DOCS].len());

    let folder = tool.path("back");
    let back = move_under_writes(&tool, &second, &["--to", &folder]);
    drop(second);
    let verified = tool.must(&["inspect", &folder, "--verify"]);
    assert!(verified.contains("books"), "{verified}");
    let third = Running::serve(Path::new(&folder));
    check_same(&back, &read_all(&third));
    settle(&third, back[DOCS].len());
    // It is written to as before.
    let mut client = Client::open(third.address(), &third.key()).unwrap();
    let partition = [("x-ms-documentdb-partitionkey", r#"["p1"]"#)];
    client.must("POST", DOCS, &partition, &book("new", 1, 1));
    let again = client.send(
        "POST",
        DOCS,
        &partition,
        book("other", 1, 2).replace("\"isbn\":\"other\"", "\"isbn\":\"new\""),
    );
    assert_eq!(again.unwrap().status, 409, "unique keys came along");
}

/// A folder with some items, which no server has open.
#[cfg(unix)]
fn filled(tool: &Tool, name: &str, count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|n| book(&format!("i{n}"), n % 50, n)).collect();
    let file = tool.write(&format!("{name}.jsonl"), &lines.join("\n"));
    let data = tool.path(name);
    let container = ["-d", "shop", "-c", "books", "--create", "/p"];
    tool.must(&[&["import", &*file, "--data", &data], &container[..]].concat());
    data
}

fn count_sql(address: &str, text: &str) -> i64 {
    SqlClient::connect(address, NoTls).unwrap().query_one(text, &[]).unwrap().get(0)
}

#[cfg(unix)]
#[test]
fn a_copy_that_is_killed_is_not_taken_for_a_whole_one_and_can_be_made_again() {
    let Some((address, schema)) = new_schema() else { return };
    let tool = Tool::new();
    let data = filled(&tool, "source", items());
    let keys = tool.write(
        "source/keys.toml",
        &std::fs::read_to_string({
            // Made by a first start.
            let server = Running::serve(Path::new(&data));
            drop(server);
            Path::new(&data).join("keys.toml")
        })
        .unwrap(),
    );
    let to = ["copy", "--from", &data, "--to", &address, "--to-schema", &schema];
    let mut child = tool.spawn(&to);
    let watch = Stopwatch::start();
    let begun = format!(
        "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('{schema}_incoming')"
    );
    while count_sql(&address, &begun) == 0 {
        assert!(
            watch.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(),
            "it has not begun"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let serve =
        ["serve", "--store", &address, "--store-schema", &schema, "--listen", "127.0.0.1:0"];
    tool.refused(&[&serve[..], &["--no-tls"]].concat(), 4, "no store");
    // The server notices the end of the session before long.
    let watch = Stopwatch::start();
    let said = loop {
        let said = tool.run(&to);
        if said.code != 4 || watch.elapsed() > PATIENCE {
            break said;
        }
    };
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains(&format!("1 container with {} items", thousands(items()))),
        "{said:?}"
    );
    assert_eq!(count_sql(&address, &begun), 0);
    let listed =
        tool.must(&["keys", "list", "--json", "--store", &address, "--store-schema", &schema]);
    let kept = std::fs::read_to_string(keys).unwrap();
    let primary = Value::parse(listed.as_bytes()).unwrap();
    assert!(kept.contains(primary.get("primary").as_str().unwrap()), "the keys came along");

    // Into a folder: what the killed copy has left is replaced.
    let folder = tool.path("target");
    let to = ["copy", "--from", &address, "--from-schema", &schema, "--to", &folder];
    let mut child = tool.spawn(&to);
    let beside = Path::new(&folder).join("copy-in-progress");
    while !beside.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it has not begun");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!Path::new(&folder).join("store").exists());
    let watch = Stopwatch::start();
    while tool.run(&to).code != 0 {
        assert!(watch.elapsed() < PATIENCE, "the store stays locked");
    }
    assert!(!beside.exists());
    tool.must(&["inspect", &folder, "--verify"]);
}

fn thousands(count: usize) -> String {
    let text = count.to_string();
    if text.len() > 3 {
        format!("{},{}", &text[..text.len() - 3], &text[text.len() - 3..])
    } else {
        text
    }
}

#[cfg(unix)]
#[test]
fn wrong_sources_and_targets_are_refused_and_nothing_is_changed() {
    let tool = Tool::new();
    let data = filled(&tool, "data", 20);
    let copy =
        |from: &str, to: &str| ["copy", "--from", from, "--to", to].map(str::to_owned).to_vec();
    let refused = |arguments: Vec<String>, code: i32, expected: &str| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tool.refused(&arguments, code, expected);
    };
    refused(copy(&data, &data), 4, "holds data already");
    refused(copy(&data, "http://localhost:1"), 2, "cannot be copied to");
    refused(copy(&tool.path("nowhere"), &tool.path("t1")), 1, "holds no data");
    refused(copy("http://127.0.0.1:1", &tool.path("t2")), 3, "is the server running");
    refused(copy(&data, "postgres://u:secret@127.0.0.1:1/d"), 3, "Cannot connect");
    refused(copy(&data, "postgres://u:secret@h/d?sslmode=maybe"), 2, "sslmode");
    let server = Running::serve(Path::new(&data));
    refused(copy(&data, &tool.path("t3")), 1, "name the server's URL");
    let endpoint = format!("http://{}", server.address());
    let wrong = orrery_server::auth::keys::WELL_KNOWN_KEY.replace("C2y6", "C2y7");
    let with_key = |key: &str| {
        [&copy(&endpoint, &tool.path("t4"))[..], &["--key".into(), key.into()]].concat()
    };
    refused(with_key(&wrong), 4, "(401)");
    let keys = tool.must(&["keys", "list", "--data", &data, "--json"]);
    let keys = Value::parse(keys.as_bytes()).unwrap();
    refused(with_key(keys.get("primary-readonly").as_str().unwrap()), 4, "(403)");
    for name in ["t1", "t2", "t3", "t4"] {
        assert!(!Path::new(&tool.path(name)).join("store").exists(), "{name}");
    }
    // A second copy of one server is refused during the first; a copy that was given up leaves the server writable.
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let begun = client.must("POST", "/_copies", &[], "");
    let begun = Value::parse(begun.body.as_bytes()).unwrap();
    let path = format!("/_copies/{}", begun.get("id").as_str().unwrap());
    refused(with_key(&server.key()), 4, "another copy");
    assert_eq!(client.send("POST", &format!("{path}/steps/finish"), &[], "").unwrap().status, 400);
    assert_eq!(
        client.send("POST", &format!("{path}/steps/entries"), &[], "x").unwrap().status,
        400
    );
    assert_eq!(
        client.send("POST", &format!("{path}/steps/changes-7"), &[], "").unwrap().status,
        400
    );
    let write = |client: &mut Client, id: &str| {
        let partition = [("x-ms-documentdb-partitionkey", r#"["p1"]"#)];
        client.send("POST", DOCS, &partition, book(id, 1, 1)).unwrap().status
    };
    client.must("POST", &format!("{path}/steps/close"), &[], "");
    assert_eq!(write(&mut client, "a"), 503);
    assert_eq!(client.feed(DOCS, "Documents").len(), 20, "reads go on");
    client.must("DELETE", &path, &[], "");
    assert_eq!(write(&mut client, "a"), 201);
    assert_eq!(client.send("DELETE", &path, &[], "").unwrap().status, 404);
    drop(server);
    let Some((address, schema)) = new_schema() else { return };
    let init = ["store", "init", "--store", &address, "--store-schema", &schema];
    tool.must(&init);
    let into = [copy(&data, &address), vec!["--to-schema".into(), schema]].concat();
    refused(into, 4, "in use already");
}

#[cfg(target_os = "linux")]
#[test]
fn a_target_without_room_says_so_and_leaves_nothing() {
    let tool = Tool::new();
    let folder = tool.path("small");
    std::fs::create_dir(&folder).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "orrery-test", &folder])
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: it needs the right to mount");
        return;
    }
    let data = filled(&tool, "data", 4000);
    let said = tool.run(&["copy", "--from", &data, "--to", &folder]);
    let left = std::fs::read_dir(&folder).unwrap().count();
    let unmounted = Command::new("umount").arg("-l").arg(&folder).status().unwrap();
    assert!(unmounted.success());
    assert_eq!((said.code, left), (1, 0), "{said:?}");
    assert!(said.err.contains("full") || said.err.contains("No space"), "{said:?}");
}

#[test]
fn a_server_on_postgres_is_backed_up_and_a_backup_restored_into_postgres() {
    let Some((address, schema)) = new_schema() else { return };
    let tool = Tool::new();
    let first = Place::postgres().unwrap().serve();
    let mut client = Client::open(first.address(), &first.key()).unwrap();
    furnish(&mut client);
    for n in 0..50 {
        let partition = format!(r#"["p{}"]"#, n % 5);
        let headers = [("x-ms-documentdb-partitionkey", &*partition)];
        client.must("POST", DOCS, &headers, &book(&format!("i{n}"), n % 5, n));
    }
    settle(&first, 50);
    let there = read_all(&first);
    let file = tool.path("backup.tar.zst");
    tool.must(&with(&["backup", &file], &at(&first)));
    drop(first);

    let folder = tool.path("folder");
    tool.must(&["restore", &file, "--data", &folder]);
    let second = Running::serve(Path::new(&folder));
    check_same(&there, &read_all(&second));
    let again = tool.path("again.tar.zst");
    tool.must(&with(&["backup", &again], &at(&second)));
    drop(second);

    let into = ["--store", &address, "--store-schema", &schema];
    let said = tool.must(&[&["restore", &again, "--json"], &into[..]].concat());
    assert!(said.contains(r#""verified":true"#), "{said}");
    let third = store(&address, &schema).serve();
    check_same(&there, &read_all(&third));
    drop(third);
    tool.refused(&[&["restore", &again], &into[..]].concat(), 4, "in use already");
    let both = ["--data", &folder];
    tool.refused(&[&["restore", &again], &into[..], &both].concat(), 2, "both named");
    let damaged = tool.write("damaged", "nonsense");
    let other = format!("{schema}x");
    let into = ["--store", &address, "--store-schema", &other];
    tool.refused(&[&["restore", &damaged], &into[..]].concat(), 6, "damaged");
    let left = format!("SELECT count(*) FROM pg_namespace WHERE nspname LIKE '{other}%'");
    assert_eq!(count_sql(&address, &left), 0, "nothing is left");
    let none = orrery(&["restore", &again]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}
