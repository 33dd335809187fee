//! Durable creates under different settings of the log, in turn: rate, latencies, processor time of all
//! threads, write amplification, and how long a folder takes to open that a crash left. Every setting gets
//! the same commits, so that processor time and amplification can be compared on a busy machine.
//! Before that, one writer by the committer and on its own thread, in turn.
//! `cargo run -p orrery-storage --example durable_writes -- [commits] [rounds] [folder]`

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

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
    Commit::new(vec![part])
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

/// Processor time of this process so far, in milliseconds.
fn processor_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    // Linux counts hundredths of a second.
    ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

/// One run: commits a second, and the latencies in microseconds.
fn run(store: &RocksStore, writers: u64, commits: u64, next: &AtomicU64) -> (f64, Vec<u64>) {
    let (watch, end) = (Stopwatch::start(), next.load(SeqCst) + commits);
    let write = || {
        let mut latencies = Vec::new();
        loop {
            let n = next.fetch_add(1, SeqCst);
            if n >= end {
                return latencies;
            }
            let commit = create(n);
            let one = Stopwatch::start();
            store.commit(commit).expect("a commit");
            latencies.push(u64::try_from(one.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
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

/// One writer, whose commits go in turn through the committer and past it: the median latency of each
/// round, and the median of the rounds' ratios.
#[expect(clippy::cast_precision_loss, reason = "latencies are small")]
fn lone_writer(folder: &Path, rounds: u64) {
    let path = folder.join("lone");
    let store = RocksStore::open(&path, &RocksOptions::default()).expect("a store");
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let next = AtomicU64::new(0);
    let by_committer = |commit| {
        let (sender, receiver) = std::sync::mpsc::channel();
        store.submit(commit, Box::new(move |answer| drop(sender.send(answer))));
        receiver.recv().expect("an answer").expect("a commit");
    };
    let own_thread = |commit| drop(store.commit(commit).expect("a commit"));
    let round = |write: &dyn Fn(Commit)| {
        let latency = |_| {
            let commit = create(next.fetch_add(1, SeqCst));
            let one = Stopwatch::start();
            write(commit);
            one.elapsed().as_secs_f64() * 1e6
        };
        let processor = processor_ms();
        let median = median((0..LONE_COMMITS).map(latency).collect());
        (median, (processor_ms() - processor) as f64 * 1000.0 / LONE_COMMITS as f64)
    };
    let (mut queued, mut own, mut ratios, mut processors) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        let (a, b) = (round(&by_committer), round(&own_thread));
        queued.push(a.0);
        own.push(b.0);
        ratios.push(a.0 / b.0);
        processors.push((a.1, b.1));
    }
    let of = |pick: fn(&(f64, f64)) -> f64| median(processors.iter().map(pick).collect());
    eprintln!(
        "one writer: by the committer {:.0} µs (processor {:.0}), on its own thread {:.0} µs \
         (processor {:.0}); {:.2} times as fast",
        median(queued),
        of(|p| p.0),
        median(own),
        of(|p| p.1),
        median(ratios)
    );
}

/// Commits of one round of a lone writer.
const LONE_COMMITS: u64 = 200;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Copies a folder while it is in use, as a crash would leave it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "files came and went");
}

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn measure(folder: &Path, name: &str, options: &RocksOptions, commits: u64) {
    let path = folder.join("store");
    let store = RocksStore::open(&path, options).expect("a store");
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let (next, before) = (AtomicU64::new(0), written_bytes());
    let mut line = format!("{name:30}");
    let mut logical = 0;
    for (writers, commits) in [(1, commits / 32), (16, commits / 4), (64, commits)] {
        let processor = processor_ms();
        let (rate, latencies) = run(&store, writers, commits, &next);
        let processor = (processor_ms() - processor) * 1000 / commits;
        logical += commits * size_bytes(&create(7));
        let at = |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or(0);
        let (p50, p99) = (at(500), at(990));
        let _ = write!(
            line,
            " | {writers:2}: {rate:6.0}/s p50 {p50:5} p99 {p99:6} processor {processor:3} µs"
        );
    }
    let amplification = (written_bytes() - before) as f64 / logical as f64;
    let crashed = folder.join("crashed");
    copy(&path, &crashed);
    let (watch, processor) = (Stopwatch::start(), processor_ms());
    let opened = RocksStore::open(&crashed, options);
    let (opening, processor) = (watch.elapsed().as_millis(), processor_ms() - processor);
    let opening = format!("opens in {opening} ms, processor {processor} ms");
    eprintln!("{line} | written {amplification:.2} x | {opening} {:?}", opened.err());
    drop(store);
    let _ = std::fs::remove_dir_all(&crashed);
    let _ = std::fs::remove_dir_all(&path);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (commits, rounds) = (number(40_000), number(2));
    let temporary = match std::env::args().nth(3) {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let temporary = temporary.expect("a folder");
    lone_writer(temporary.path(), rounds * 10);
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
                measure(temporary.path(), &name, &options, commits);
            }
        }
    }
}
