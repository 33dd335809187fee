//! `orrery backup` and `orrery restore`, while somebody writes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::Client;
use crate::process::Running;
use crate::tool::{Tool, at, with};

fn shop(server: &Running) -> Client {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"shop"}"#);
    let body = r#"{"id":"books","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/shop/colls", &[("x-ms-offer-throughput", "12000")], body);
    client
}

fn write(client: &mut Client, n: u64) {
    let key = format!("[\"p{}\"]", n % 5);
    let body = format!(r#"{{"id":"i{n}","p":"p{}","n":{n},"text":"{}"}}"#, n % 5, "x".repeat(300));
    client.must(
        "POST",
        "/dbs/shop/colls/books/docs",
        &[("x-ms-documentdb-partitionkey", &key)],
        &body,
    );
}

fn numbers(client: &mut Client) -> BTreeSet<i64> {
    let items = client.feed("/dbs/shop/colls/books/docs", "Documents");
    items.iter().map(|item| item.get("n").as_i64().unwrap()).collect()
}

/// Tells the writer to end, also when the test fails.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_under_writes_is_one_moment_and_restores_verified() {
    let tool = Tool::new();
    let data = tool.path("data");
    let server = Running::start(&["--data", &data, "--listen", "127.0.0.1:0"]);
    let mut client = shop(&server);
    (0..500).for_each(|n| write(&mut client, n));
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(500));
    let file = tool.path("backup.tar.zst");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::open(server.address(), &server.key()).unwrap();
            for n in 500.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                write(&mut client, n);
                written.store(n + 1, Ordering::SeqCst);
            }
        });
        let stopping = Stopping(&stop);
        let begun = written.load(Ordering::SeqCst);
        let said = tool.must(&with(&["backup", &file], &at(&server)));
        let ended = written.load(Ordering::SeqCst);
        drop(stopping);
        assert!(said.contains("checked"), "{said}");
        assert!(begun <= ended);
        assert!(
            !tool.folder.path().join("data/backups-in-progress").read_dir().unwrap().any(|_| true)
        );

        let restored = tool.path("restored");
        let said = tool.must(&["restore", &file, "--data", &restored]);
        assert!(said.contains("1 container with ") && said.contains("verified"), "{said}");
        let second = Running::start(&["--data", &restored, "--listen", "127.0.0.1:0"]);
        let found = numbers(&mut Client::open(second.address(), &second.key()).unwrap());
        // One writer wrote them in order: one moment is all up to some number, and all that was
        // acknowledged before it began is there.
        let count = i64::try_from(found.len()).unwrap();
        assert_eq!(found, (0..count).collect::<BTreeSet<_>>());
        assert!(
            count >= i64::try_from(begun).unwrap() && count <= i64::try_from(ended).unwrap() + 1
        );
        // What is restored is written to as before.
        write(&mut Client::open(second.address(), &second.key()).unwrap(), 1_000_000);
    });
}

#[test]
fn a_backup_that_is_damaged_or_in_the_way_is_refused() {
    let tool = Tool::new();
    let data = tool.path("data");
    let mut server = Running::start(&["--data", &data, "--listen", "127.0.0.1:0"]);
    let mut client = shop(&server);
    (0..50).for_each(|n| write(&mut client, n));
    let here = at(&server);
    let file = tool.path("b.tar.zst");
    tool.must(&with(&["backup", &file], &here));
    tool.refused(&with(&["backup", &file], &here), 4, "is there already");
    let readonly = [here[0].clone(), here[1].clone(), "--key".into(), {
        let keys = tool.must(&["keys", "list", "--data", &data, "--json"]);
        let keys = orrery_types::Value::parse(keys.as_bytes()).unwrap();
        keys.get("primary-readonly").as_str().unwrap().to_owned()
    }];
    tool.refused(&with(&["backup", &tool.path("c.tar.zst")], &readonly), 4, "read-only");
    assert!(!tool.folder.path().join("c.tar.zst.part").exists());

    tool.refused(&["restore", &file, "--data", &data], 4, "holds data already");
    let whole = std::fs::read(&file).unwrap();
    let fresh = tool.path("fresh");
    for (name, bytes) in [("cut", &whole[..whole.len() / 2]), ("none", b"nonsense")] {
        std::fs::write(tool.path(name), bytes).unwrap();
        tool.refused(&["restore", &tool.path(name), "--data", &fresh], 6, "damaged");
        assert!(!tool.folder.path().join("fresh/store").exists(), "{name}");
    }
    #[cfg(unix)]
    {
        server.signal("-TERM");
        let offline = tool.path("offline.tar.zst");
        tool.must(&["backup", &offline, "--data", &data]);
        let said = tool.must(&["restore", &offline, "--data", &fresh, "--json"]);
        assert!(said.contains(r#""items":50,"#), "{said}");
        let inspected = tool.must(&["inspect", &fresh, "--verify"]);
        assert!(
            inspected.contains("books") && inspected.contains("orrery-format 1"),
            "{inspected}"
        );
    }
    drop(server);
    tool.refused(&["inspect", &tool.path("nowhere")], 1, "holds no data");
}

#[test]
fn a_folder_that_a_server_has_open_is_left_alone() {
    let tool = Tool::new();
    let data = tool.path("data");
    let _server = Running::start(&["--data", &data, "--listen", "127.0.0.1:0"]);
    tool.refused(&["inspect", &data], 1, "in use by another process");
    tool.refused(&["demo", "--data", &data], 1, "in use by another process");
}

#[test]
fn a_rotated_key_locks_the_old_one_out_of_a_running_server() {
    let tool = Tool::new();
    let data = tool.path("data");
    let server = Running::start(&["--data", &data, "--listen", "127.0.0.1:0"]);
    let old = server.key();
    let listed = tool.must(&["keys", "list", "--data", &data]);
    assert!(listed.contains(&old) && listed.contains("secondary-readonly"), "{listed}");
    let rotated = tool.must(&["keys", "rotate", "primary", "--data", &data, "--json"]);
    let rotated = orrery_types::Value::parse(rotated.as_bytes()).unwrap();
    let new = rotated.get("primary").as_str().unwrap().to_owned();
    let status = |key: &str| {
        let mut client = Client::open(server.address(), key).unwrap();
        client.send("GET", "/dbs", &[], "").unwrap().status
    };
    while status(&new) == 401 {
        std::thread::yield_now();
    }
    assert_eq!((status(&new), status(&old)), (200, 401));
}

#[test]
fn a_folder_that_is_damaged_says_so_by_its_code() {
    let tool = Tool::new();
    let data = tool.path("data");
    let item = |n: u32| format!("{{\"id\":\"i{n}\",\"p\":{n}}}");
    let text = (0..1000).map(item).collect::<Vec<_>>().join("\n");
    let file = tool.write("items.jsonl", &text);
    let container = ["-d", "shop", "-c", "books", "--create", "/p"];
    tool.must(&[&["import", &*file, "--data", &data], &container[..]].concat());
    // What the log holds is in tables once the folder has been opened again.
    tool.must(&["inspect", &data, "--verify"]);
    let files = tool.folder.path().join("data/store").read_dir().unwrap();
    let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files: Vec<_> = files.flat_map(|folder| folder.read_dir().unwrap()).collect();
    let mut damaged = 0;
    for file in files.into_iter().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "sst") {
            let mut bytes = std::fs::read(&file).unwrap();
            bytes.iter_mut().take(20).for_each(|byte| *byte ^= 0x55);
            std::fs::write(&file, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    tool.refused(&["inspect", &data, "--verify"], 6, "restore a backup");
    std::fs::remove_file(tool.folder.path().join("data/store/FORMAT")).unwrap();
    tool.refused(&["inspect", &data], 6, "restore a backup");
}
