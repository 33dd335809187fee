//! Whatever reads damaged data says in which shard and at which key it was.

use orrery_types::{Epoch, Lsn, ShardId};

use super::{RocksOptions, RocksStore, layout};
use crate::{Commit, Part, Precondition, ReadAt, Scan, Space, StorageError, Store as _, key};

const SHARD: ShardId = ShardId(17);

/// A store with items of which one has a value that is too short for its version.
fn damaged(bad: &[u8], keys: &[Vec<u8>]) -> (tempfile::TempDir, RocksStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
    store.create_open_shard(SHARD, Epoch(1)).expect("a shard");
    let mut part = Part::new(SHARD, Epoch(1));
    let put = |key: &Vec<u8>| crate::Put { space: Space::Items, key: key.clone(), value: vec![1] };
    part.puts = keys.iter().map(put).collect();
    store.commit(Commit::new(vec![part])).expect("a commit");
    let family = store.core.cf(Space::Items);
    store.core.db.put_cf(family, layout::key(SHARD, bad), b"bad").expect("a write");
    (folder, store)
}

#[track_caller]
fn check<T: std::fmt::Debug>(answer: Result<T, StorageError>, key: &str) {
    let error = answer.expect_err("the value is damaged");
    let StorageError::Corrupt(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("shard 17, Items") && text.contains(key), "{text}");
}

#[test]
fn every_read_of_a_damaged_value_names_shard_and_key() {
    let common = [7; 30];
    let keys: Vec<Vec<u8>> = (0..40_u8).map(|n| [&common[..], &[n]].concat()).collect();
    let bad = keys[20].clone();
    let shown: Vec<String> = bad.iter().map(|byte| format!("{byte:02x}")).collect();
    let shown = shown.concat();
    let (_folder, store) = damaged(&bad, &keys);
    check(store.get(SHARD, Space::Items, &bad), &shown);
    let snapshot = store.snapshot(SHARD, ReadAt::Latest).expect("a snapshot");
    check(snapshot.get(Space::Items, &bad), &shown);
    // A few keys are looked up, many that are neighbours are read along an iterator.
    for count in [2, 40] {
        let asked: Vec<&[u8]> = keys.iter().skip(20).chain(&keys[..20]).map(|k| &k[..]).collect();
        check(snapshot.get_many(Space::Items, &asked[..count]), &shown);
    }
    for keys_only in [false, true] {
        let (space, from, to) = (Space::Items, &[][..], key::END);
        let (reverse, max_rows, max_bytes) = (false, usize::MAX, usize::MAX);
        let scan = Scan { space, from, to, reverse, max_rows, max_bytes, keys_only };
        check(snapshot.scan(&scan), &shown);
    }
    drop(snapshot);
    let mut part = Part::new(SHARD, Epoch(1));
    part.preconditions = vec![Precondition::Version { space: Space::Items, key: bad, lsn: Lsn(1) }];
    check(store.commit(Commit::new(vec![part])), &shown);
}

#[test]
fn a_damaged_header_names_its_shard() {
    let (_folder, store) = damaged(b"x", &[]);
    let key = layout::header_key(SHARD);
    store.core.db.put_cf(store.core.cf(Space::Meta), key, b"bad").expect("a write");
    let error = store.get(SHARD, Space::Index, b"none").expect_err("the header is damaged");
    assert!(error.to_string().contains("shard 17, Meta"), "{error}");
}
