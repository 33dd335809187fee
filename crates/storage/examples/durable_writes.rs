//! Durable creates under different settings of the log, in turn: rate, latencies, write amplification,
//! and how long a folder takes to open that a crash left.
//! `cargo run -p orrery-storage --example durable_writes -- [seconds] [rounds] [folder]`

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use orrery_storage::key::{self, PathId, Row};
use orrery_storage::{Commit, Part, Precondition, Put, RocksOptions, RocksStore, Space, Store};
use orrery_types::stopwatch::Stopwatch;
use orrery_types::{EffectiveKey, Epoch, KeyComponent, PartitionKey, ShardId};

const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);
const TERMS: u32 = 30;
const MIB: u64 = 1024 * 1024;

/// A create as the engine makes it: an item of 1 KB, its row, 30 index terms and a change.
fn create(n: u64) -> Commit {
    let effective = EffectiveKey(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec());
    let partition = PartitionKey(vec![KeyComponent::String(format!("p{n}").into())]);
    let item = key::item(&effective, &partition, &format!("item-{n}"));
    let mut part = Part::new(SHARD, EPOCH);
    let space = Space::Items;
    part.preconditions.push(Precondition::Absent { space, key: item.clone() });
    part.puts.push(Put { space, key: key::row(Row(n)).to_vec(), value: item.clone() });
    let value: Vec<u8> = (0..1024_u64).map(|i| b'a' + ((n + i * i) % 26) as u8).collect();
    part.puts.push(Put { space, key: item, value });
    for path in 0..TERMS {
        let value = i64::try_from(n % (u64::from(path) * 100 + 7)).expect("small").into();
        let key = key::term(PathId(path), &value, Row(n));
        part.puts.push(Put { space: Space::Index, key, value: vec![] });
    }
    part.feed.push(n.to_be_bytes().to_vec());
    Commit { parts: vec![part] }
}

fn size_bytes(commit: &Commit) -> u64 {
    let puts = commit.parts.iter().flat_map(|part| &part.puts);
    puts.map(|put| (put.key.len() + put.value.len()) as u64).sum()
}

/// Bytes that this process has had written to disks.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// One run: commits a second, and the latencies in microseconds.
fn run(store: &RocksStore, writers: u64, time: Duration, next: &AtomicU64) -> (f64, Vec<u64>) {
    let (stop, watch) = (AtomicBool::new(false), Stopwatch::start());
    let write = || {
        let mut latencies = Vec::new();
        while !stop.load(SeqCst) {
            let commit = create(next.fetch_add(1, SeqCst));
            let one = Stopwatch::start();
            store.commit(commit).expect("a commit");
            latencies.push(u64::try_from(one.elapsed().as_micros()).unwrap_or(u64::MAX));
            if watch.elapsed() > time {
                stop.store(true, SeqCst);
            }
        }
        latencies
    };
    let mut latencies: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a writer")).collect()
    });
    let seconds = watch.elapsed().as_secs_f64();
    latencies.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let rate = latencies.len() as f64 / seconds;
    (rate, latencies)
}

/// Copies a folder while it is in use, as a crash would leave it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "files came and went");
}

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn measure(folder: &Path, name: &str, options: &RocksOptions, time: Duration) {
    let path = folder.join("store");
    let store = RocksStore::open(&path, options).expect("a store");
    store.create_shard(SHARD, EPOCH).expect("a shard");
    let (next, before) = (AtomicU64::new(0), written_bytes());
    let mut line = format!("{name:30}");
    for writers in [1, 16, 64] {
        let (rate, latencies) = run(&store, writers, time, &next);
        let at = |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or(0);
        let (p50, p99) = (at(500), at(990));
        let _ = write!(line, " | {writers:2}: {rate:6.0}/s p50 {p50:5} p99 {p99:6}");
    }
    let logical = next.load(SeqCst) * size_bytes(&create(7));
    let amplification = (written_bytes() - before) as f64 / logical as f64;
    let crashed = folder.join("crashed");
    copy(&path, &crashed);
    let watch = Stopwatch::start();
    let opened = RocksStore::open(&crashed, options).map(drop);
    let opening = watch.elapsed().as_millis();
    eprintln!("{line} | written {amplification:.2} x | opens in {opening} ms {:?}", opened.err());
    drop(store);
    let _ = std::fs::remove_dir_all(&crashed);
    let _ = std::fs::remove_dir_all(&path);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, rounds) = (number(5), number(2));
    let temporary = match std::env::args().nth(3) {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let temporary = temporary.expect("a folder");
    let sizes: [(u64, usize); 4] = [(16, 32), (64, 64), (128, 128), (256, 256)];
    for _ in 0..rounds {
        for recycled_logs in [0, 4] {
            for (log_mib, buffer_mib) in sizes {
                let options = RocksOptions {
                    recycled_logs,
                    log_bytes_max: log_mib * MIB,
                    write_buffer_bytes: buffer_mib * 1024 * 1024,
                    ..RocksOptions::default()
                };
                let name = format!("{recycled_logs} recycled, log {log_mib} MiB");
                measure(temporary.path(), &name, &options, Duration::from_secs(seconds));
            }
        }
    }
}
