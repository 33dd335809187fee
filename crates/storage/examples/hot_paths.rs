//! How fast the embedded store is on this machine: commits by one writer and by many, point reads,
//! scans, opening. `cargo run --release -p orrery-storage --example hot_paths [folder]`

use std::path::Path;
use std::time::Duration;

use orrery_storage::key::{self, PathId, Row};
use orrery_storage::{
    Commit, Part, Precondition, Put, ReadAt, RocksOptions, RocksStore, Scan, Space, Store,
};
use orrery_types::{Clock, EffectiveKey, Epoch, KeyComponent, PartitionKey, ShardId, SystemClock};

const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);
const TERMS: u32 = 30;

fn item_key(n: u64) -> Vec<u8> {
    let effective = EffectiveKey(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec());
    let partition = PartitionKey(vec![KeyComponent::String(format!("p{n}").into())]);
    key::item(&effective, &partition, &format!("item-{n}"))
}

/// A create as the engine makes it: an item of 1 KB, its row, 30 index terms and a change.
fn create(n: u64) -> Commit {
    let mut part = Part::new(SHARD, EPOCH);
    let item = item_key(n);
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

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn timed(what: &str, count: u64, work: impl FnOnce()) {
    let began_us = SystemClock.now_us();
    work();
    let took = Duration::from_micros(SystemClock.now_us() - began_us);
    let each = took.as_secs_f64() * 1e6 / count as f64;
    eprintln!("{what}: {count} in {took:.1?}, {each:.2} µs each, {:.0}/s", 1e6 / each);
}

fn write(store: &RocksStore, from: u64, count: u64, writers: u64) {
    timed(&format!("commits by {writers} writers"), count, || {
        std::thread::scope(|scope| {
            for writer in 0..writers {
                scope.spawn(move || {
                    for n in 0..count / writers {
                        store.commit(create(from + writer * count / writers + n)).expect("commit");
                    }
                });
            }
        });
    });
}

fn read(store: &RocksStore, items: u64) {
    for among in [1000, items] {
        timed(&format!("point reads among {among} items"), 200_000, || {
            for n in 0..200_000_u64 {
                let key = item_key(n * 7919 % among);
                store.get(SHARD, Space::Items, &key).expect("a read").1.expect("it is there");
            }
        });
    }
    let snapshot = store.snapshot(SHARD, ReadAt::Latest).expect("a snapshot");
    timed("snapshots", 100_000, || {
        for _ in 0..100_000 {
            store.snapshot(SHARD, ReadAt::Latest).expect("a snapshot");
        }
    });
    let bounds = key::terms_of(PathId(3));
    timed("scanned terms", items, || {
        let scan = Scan {
            space: Space::Index,
            from: &bounds.from,
            to: &bounds.to,
            reverse: false,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            keys_only: true,
        };
        let found = snapshot.scan(&scan).expect("a scan").len();
        assert_eq!(found as u64, items, "every item has the path");
    });
}

fn report_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|line| line.starts_with("VmRSS"));
    eprintln!("{}", memory.unwrap_or("memory unknown"));
}

fn main() {
    let temporary = tempfile::tempdir().expect("a folder");
    let given = std::env::args().nth(1);
    let path = given.as_deref().map_or(temporary.path(), Path::new);
    let open = || RocksStore::open(path, &RocksOptions::default()).expect("the folder opens");
    let mut opened = None;
    timed("opening", 1, || opened = Some(open()));
    let store = opened.take().expect("it was just opened");
    report_memory();
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let mut items = 0;
    for (count, writers) in [(500, 1), (4_000, 8), (16_000, 32), (79_488, 64)] {
        write(&store, items, count, writers);
        items += count;
    }
    read(&store, items);
    timed("closing", 1, || drop(store));
    report_memory();
    timed(&format!("opening {items} items"), 1, || opened = Some(open()));
    read(opened.as_ref().expect("it was just opened"), items);
}
