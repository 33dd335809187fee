//! What became of a commit whose answer was lost.

use std::sync::Barrier;

use orrery_storage::{Commit, CommitId, Resolution, Space, StorageError, Store};
use orrery_types::{Lsn, ShardId};

use crate::stores::{EPOCH, SHARD, on_embedded_stores, on_every_store, part, put, unchanged};

fn insert(name: &str) -> Commit {
    let mut part = part(SHARD);
    part.preconditions = vec![unchanged(name, None)];
    part.puts = vec![put(Space::Items, name, "v")];
    Commit::new(vec![part])
}

fn exists(store: &dyn Store, name: &str) -> bool {
    store.get(SHARD, Space::Items, name.as_bytes()).expect("a read").1.is_some()
}

#[test]
fn a_commit_that_happened_is_resolved_with_its_lsns() {
    on_every_store(|store| {
        let other = ShardId(8);
        store.create_open_shard(other, EPOCH).expect("a shard");
        store.commit(insert("a")).expect("a commit");
        let mut parts = vec![part(SHARD), part(other)];
        parts[0].puts = vec![put(Space::Items, "left", "1")];
        parts[1].puts = vec![put(Space::Items, "right", "1")];
        let both = Commit::new(parts);
        let id = both.id;
        let committed = store.commit(both).expect("a commit");
        assert_eq!(committed.lsns, [Lsn(2), Lsn(1)]);
        for _ in 0..2 {
            let resolved = store.resolve(&[SHARD, other], id);
            assert_eq!(resolved, Ok(Resolution::Committed(vec![Lsn(2), Lsn(1)])));
        }
    });
}

#[test]
fn a_commit_that_did_not_happen_never_will() {
    on_every_store(|store| {
        let late = insert("a");
        for _ in 0..2 {
            assert_eq!(store.resolve(&[SHARD], late.id), Ok(Resolution::Never));
        }
        let arrived = store.commit(late).expect_err("it was refused before it arrived");
        assert!(matches!(arrived, StorageError::NotCommitted(_)), "{arrived}");
        assert!(!exists(store, "a"));
        assert_eq!(store.commit(insert("a")).map(|c| c.lsns), Ok(vec![Lsn(1)]), "another attempt");
    });
}

#[test]
fn a_commit_that_was_refused_is_resolved_as_not_committed() {
    on_every_store(|store| {
        store.commit(insert("a")).expect("a commit");
        let second = insert("a");
        let id = second.id;
        store.commit(second).expect_err("it exists");
        assert_eq!(store.resolve(&[SHARD], id), Ok(Resolution::Never));
    });
}

#[test]
fn a_commit_over_several_shards_is_refused_in_all_of_them() {
    on_every_store(|store| {
        let other = ShardId(8);
        store.create_open_shard(other, EPOCH).expect("a shard");
        let mut parts = vec![part(other), part(SHARD)];
        parts[0].puts = vec![put(Space::Items, "right", "1")];
        parts[1].puts = vec![put(Space::Items, "left", "1")];
        let late = Commit::new(parts);
        assert_eq!(store.resolve(&[other, SHARD], late.id), Ok(Resolution::Never));
        let arrived = store.commit(late).expect_err("it was refused before it arrived");
        assert!(matches!(arrived, StorageError::NotCommitted(_)), "{arrived}");
        assert!(!exists(store, "left"));
        assert_eq!(store.lsn(other), Ok(Lsn(0)));
    });
}

/// The commit and the question about it arrive at the same time, in whichever order.
#[test]
fn a_commit_and_its_resolution_agree_whichever_comes_first() {
    on_every_store(|store| {
        let mut happened = [0, 0];
        for round in 0..200 {
            let name = format!("k{round}");
            let commit = insert(&name);
            let (id, barrier) = (commit.id, Barrier::new(2));
            let (answer, resolved) = std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    barrier.wait();
                    store.commit(commit)
                });
                barrier.wait();
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                let resolved = store.resolve(&[SHARD], id).expect("it is resolved");
                (writer.join().expect("a writer"), resolved)
            });
            let found = exists(store, &name);
            happened[usize::from(found)] += 1;
            match answer {
                Ok(committed) => {
                    assert!(found);
                    assert_eq!(resolved, Resolution::Committed(committed.lsns));
                }
                Err(StorageError::NotCommitted(_)) => {
                    assert!(!found);
                    assert_eq!(resolved, Resolution::Never);
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(happened.iter().sum::<usize>(), 200);
    });
}

#[test]
fn what_was_before_the_store_was_opened_is_not_known() {
    let before = CommitId::new();
    on_embedded_stores(|store| {
        store.commit(insert("a")).expect("a commit");
        // Made before the store was opened: it may be of another process.
        assert_eq!(store.resolve(&[SHARD], before), Ok(Resolution::NotKnown));
    });
}
