//! The real server on a file system of some megabytes that fills up: by its own writes, or by somebody
//! else's file that takes all the room or most of it, at once. Needs the right to mount; elsewhere it
//! says that it was skipped. `ORRERY_FULL_DISKS` sets how often, `ORRERY_SEED` repeats a run's choices.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use orrery_types::{Clock as _, SystemClock};

use crate::client::Client;
use crate::kill::faults;
use crate::process::Running;
use crate::random::Random;

const RUNS: usize = 3;
const WRITERS: usize = 4;
/// Files of somebody else.
const FILLERS: [&str; 2] = ["filler", "rest"];
const ITEMS: &str = "/dbs/d/colls/c/docs";
/// A refusal comes within a second; machines that run other tests get some more.
const REFUSAL_US_MAX: u64 = 4_000_000;
const HEAL_US_MAX: u64 = 60_000_000;

/// A file system in memory, as large as it is told to be.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(megabytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "orrery-test"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn make_room(&self) {
        for name in FILLERS {
            let _ = std::fs::remove_file(self.path().join(name));
        }
        let size = ["-o", "remount,size=512m"];
        let done = Command::new("mount").args(size).arg(self.path()).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Takes room until so many megabytes are left, or none.
fn fill(disk: &Path, name: &str, leave_megabytes: usize) {
    let mut file = std::fs::File::create(disk.join(name)).unwrap();
    let piece = vec![1; 1 << 20];
    let mut written = 0;
    while file.write_all(&piece).is_ok() {
        written += 1;
    }
    file.set_len((written - leave_megabytes.min(written)) as u64 * (1 << 20)).unwrap();
}

fn ready(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Writes items until one is refused; which were acknowledged, which have an unknown outcome, and what
/// the refusal said.
fn write_until_refused(
    address: SocketAddr,
    key: &str,
    writer: usize,
    mut random: Random,
) -> (Vec<String>, Vec<String>, String) {
    let mut client = Client::open(address, key).unwrap();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for n in 0.. {
        let id = format!("{writer}-{n}");
        let size = [100, 2_000, 30_000, 200_000][random.below(4)];
        // What compresses well would fill memory before the disk.
        let words: Vec<String> =
            (0..size / 16).map(|_| format!("{:016x}", random.next())).collect();
        let noise = words.concat();
        let body = format!(r#"{{"id":"{id}","p":"{writer}","f":"{noise}"}}"#);
        let partition = format!(r#"["{writer}"]"#);
        let headers = [("x-ms-documentdb-partitionkey", &*partition)];
        let began_us = SystemClock.now_us();
        let answer = client.send("POST", ITEMS, &headers, &body).unwrap();
        let took_us = SystemClock.now_us() - began_us;
        match answer.status {
            201 => known.push(id),
            503 => {
                assert!(took_us < REFUSAL_US_MAX, "{took_us} µs for {answer:?}");
                if answer.body.contains("not known") {
                    unknown.push(id);
                }
                return (known, unknown, answer.body);
            }
            _ => panic!("{answer:?}"),
        }
    }
    unreachable!("a disk is full at some time")
}

#[test]
fn a_full_disk_refuses_writes_at_once_and_heals() {
    let runs = std::env::var("ORRERY_FULL_DISKS");
    let runs = runs.map_or(RUNS, |text| text.parse().expect("ORRERY_FULL_DISKS is a number"));
    let mut random = Random::from_environment("small disk");
    let (mut healed, mut restarted) = (0, 0);
    for run in 0..runs {
        let Some(disk) = SmallDisk::mount(64 + random.below(64)) else {
            eprintln!("skipped: this test mounts a file system, which needs root");
            return;
        };
        if run_once(run, &disk, &mut random) { healed += 1 } else { restarted += 1 }
    }
    eprintln!("{runs} full disks: {healed} healed by themselves, {restarted} asked for a restart");
}

/// Whether writes went on without a restart.
fn run_once(run: usize, disk: &SmallDisk, random: &mut Random) -> bool {
    let data = disk.path().join("data");
    let mut server = Running::serve(&data);
    let (address, key) = (server.address(), server.key());
    let mut client = Client::open(address, &key).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
    client.must("POST", "/dbs/d/colls", &[], body);
    // By its own writes; by a file that takes everything; by one that leaves a little.
    let pattern = run % 3;
    let leave = [0, 0, 1 + random.below(12)][pattern];
    let seeds: Vec<u64> = (0..WRITERS).map(|_| random.next()).collect();
    let written: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = seeds
            .into_iter()
            .enumerate()
            .map(|(writer, seed)| {
                let key = &key;
                scope.spawn(move || write_until_refused(address, key, writer, Random::new(seed)))
            })
            .collect();
        if pattern > 0 {
            fill(disk.path(), FILLERS[0], leave);
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let known: BTreeSet<&String> = written.iter().flat_map(|(known, ..)| known).collect();
    let unknown: BTreeSet<&String> = written.iter().flat_map(|(_, unknown, _)| unknown).collect();

    // Writing out what is in memory may have made room again.
    fill(disk.path(), FILLERS[1], 0);
    let answer = ready(address);
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("writes are refused"),
        "{answer}"
    );
    let read_all = |client: &mut Client| {
        let items = client.feed(ITEMS, "Documents");
        items
            .iter()
            .map(|item| item.get("id").as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    let check = |found: &BTreeSet<String>| {
        assert!(
            known.iter().all(|id| found.contains(*id)),
            "run {run}: an acknowledged write is lost"
        );
        let extra = found.iter().filter(|id| !known.contains(id) && !unknown.contains(id));
        assert_eq!(extra.count(), 0, "run {run}: a refused write is there");
    };
    check(&read_all(&mut client));

    let stops_while_full = random.one_in(2);
    let mut healed = false;
    if stops_while_full {
        end(&mut server, run);
        disk.make_room();
    } else {
        disk.make_room();
        healed = heals(&mut client);
        assert_eq!(ready(address).starts_with("HTTP/1.1 200"), healed, "run {run}");
        end(&mut server, run);
    }
    drop(server);
    assert_eq!(faults(&(&data).into()), 0, "run {run}");
    let server = Running::serve(&data);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let mut found = read_all(&mut client);
    assert_eq!(found.remove("after"), healed, "run {run}");
    check(&found);
    healed || stops_while_full
}

/// Whether a write is taken again; if not, the answer asks for a restart.
fn heals(client: &mut Client) -> bool {
    let headers = [("x-ms-documentdb-partitionkey", r#"["x"]"#)];
    let began_us = SystemClock.now_us();
    loop {
        let answer = client.send("POST", ITEMS, &headers, r#"{"id":"after","p":"x"}"#).unwrap();
        match answer.status {
            201 => return true,
            503 if answer.body.contains("restart the server") => return false,
            503 => {}
            _ => panic!("{answer:?}"),
        }
        assert!(SystemClock.now_us() - began_us < HEAL_US_MAX, "{answer:?}");
    }
}

/// SIGTERM ends the process, whatever the disk does.
fn end(server: &mut Running, run: usize) {
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let began_us = SystemClock.now_us();
    server.child.wait().unwrap();
    let took_us = SystemClock.now_us() - began_us;
    assert!(took_us < 40_000_000, "run {run}: {took_us} µs");
}
