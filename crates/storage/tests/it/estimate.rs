//! Numbers of entries, roughly: exact where there are few, near enough where there are many.

use orrery_storage::{Space, Store};
use orrery_types::ShardId;

use crate::stores::{EPOCH, SHARD, commit, latest, on_every_store, open, part, put};

fn fill(store: &dyn Store, shard: ShardId, keys: std::ops::Range<usize>) {
    let keys: Vec<usize> = keys.collect();
    for chunk in keys.chunks(5000) {
        let mut part = part(shard);
        part.puts = chunk.iter().map(|n| put(Space::Index, &format!("k{n:06}"), "")).collect();
        commit(store, part).expect("a commit");
    }
}

fn estimate(store: &dyn Store, shard: ShardId, from: &str, to: &str) -> u64 {
    let snapshot = latest(store, shard);
    snapshot.estimate(Space::Index, from.as_bytes(), to.as_bytes()).expect("a number")
}

#[test]
fn few_entries_are_counted() {
    on_every_store(|store| {
        store.create_open_shard(ShardId(8), EPOCH).expect("a shard");
        fill(store, ShardId(8), 0..100);
        assert_eq!(estimate(store, SHARD, "a", "z"), 0);
        fill(store, SHARD, 0..200);
        assert_eq!(estimate(store, SHARD, "a", "z"), 200);
        assert_eq!(estimate(store, SHARD, "k000010", "k000020"), 10);
        assert_eq!(estimate(store, SHARD, "k000020", "k000010"), 0);
        assert_eq!(estimate(store, ShardId(8), "k", "l"), 100);
        let mut gone = part(SHARD);
        gone.deletes = vec![(Space::Index, b"k000000".to_vec())];
        commit(store, gone).expect("a commit");
        assert_eq!(estimate(store, SHARD, "a", "z"), 199);
    });
}

#[test]
fn many_entries_are_guessed_from_the_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    store.create_open_shard(ShardId(8), EPOCH).expect("a shard");
    fill(&store, SHARD, 0..100_000);
    fill(&store, ShardId(8), 0..50_000);
    // In memory still: a guess, but no less than what was counted.
    assert!(estimate(&store, SHARD, "a", "z") >= 512);
    drop(store);
    let store = open(folder.path());
    let check = |shard, from: &str, to: &str, expected: u64| {
        let found = estimate(&store, shard, from, to);
        assert!((expected / 2..=expected * 2).contains(&found), "{from}..{to}: {found}");
    };
    check(SHARD, "a", "z", 100_000);
    check(ShardId(8), "a", "z", 50_000);
    check(SHARD, "k000000", "k050000", 50_000);
    check(SHARD, "k090000", "z", 10_000);
    assert_eq!(estimate(&store, SHARD, "k000100", "k000200"), 100);
}
