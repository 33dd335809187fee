//! The faulty store keeps the contract's word in everything it does wrong.

use orrery_storage::fault::Faults;
use orrery_storage::{Commit, FaultStore, MemoryStore, Resolution, Space, StorageError, Store};
use orrery_types::Lsn;

use crate::random::Random;
use crate::stores::{EPOCH, SHARD, get, keys, latest, part, put};

fn faulty(faults: Faults, seed: u64) -> FaultStore<MemoryStore> {
    let store = FaultStore::new(MemoryStore::new(), faults, seed);
    store.inner().create_open_shard(SHARD, EPOCH).expect("a shard");
    store
}

fn write_one(store: &dyn Store, name: &str) -> Result<Lsn, StorageError> {
    let mut part = part(SHARD);
    part.puts = vec![put(Space::Items, name, "v")];
    let committed = store.commit_once(Commit::new(vec![part]));
    committed.map(|committed| committed.lsns[0])
}

#[test]
fn after_a_failed_commit_writes_are_refused_until_the_store_is_reopened() {
    let seed = Random::from_environment("faults").next();
    let store = faulty(Faults { commit_fails_one_in: 5, ..Faults::default() }, seed);
    let (mut unknown, mut kept) = (0, 0);
    for n in 0..500 {
        let name = format!("{n:03}");
        let lsn = store.stats(SHARD).expect("stats").lsn.0;
        match write_one(&store, &name) {
            Ok(next) => assert_eq!(next, Lsn(lsn + 1)),
            Err(StorageError::Unknown(_)) => {
                unknown += 1;
                let refused = write_one(&store, "other").expect_err("no writes");
                assert!(matches!(refused, StorageError::ReadOnly(_)), "{refused}");
                assert!(store.writable().is_err());
                assert_eq!(get(&store, SHARD, Space::Items, name.as_bytes()), Ok((Lsn(lsn), None)));
                store.reopen().expect("a reopening");
                assert_eq!(store.writable(), Ok(()));
                let found = store.get(SHARD, Space::Items, name.as_bytes()).expect("a read").1;
                kept += usize::from(found.is_some());
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!((40..200).contains(&unknown), "{unknown} failures");
    assert!(0 < kept && kept < unknown, "{kept} of {unknown} had reached the disk");
}

#[test]
fn a_lost_answer_leaves_the_commit_done_or_not() {
    let store = faulty(Faults { answer_lost_one_in: 3, ..Faults::default() }, 7);
    let mut lost = [0, 0];
    for n in 0..300 {
        let name = format!("{n:03}");
        let answer = write_one(&store, &name);
        let there = store.get(SHARD, Space::Items, name.as_bytes()).expect("a read").1.is_some();
        match answer {
            Ok(_) => assert!(there),
            Err(StorageError::Unknown(answer)) => {
                lost[usize::from(there)] += 1;
                let id = answer.commit.expect("the id of the commit");
                let lsn = store.stats(SHARD).expect("stats").lsn;
                let committed = Resolution::Committed(vec![lsn]);
                let expected = if there { committed } else { Resolution::Never };
                assert_eq!(store.resolve(&[SHARD], id), Ok(expected));
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(lost.iter().all(|count| *count > 20), "{lost:?}");
}

#[test]
fn what_was_not_synced_is_forgotten_with_the_power() {
    let store = faulty(Faults::default(), 7);
    write_one(&store, "a").expect("a commit");
    store.sync();
    write_one(&store, "b").expect("a commit");
    store.lose_power();
    assert_eq!(keys(&*latest(&store, SHARD), Space::Items), ["a"]);
    assert_eq!(write_one(&store, "c"), Ok(Lsn(2)));
}

#[test]
fn one_seed_gives_one_course_of_events() {
    let faults = Faults {
        commit_fails_one_in: 10,
        answer_lost_one_in: 10,
        read_fails_one_in: 3,
        stalls_one_in: 50,
        stall_us_max: 20,
    };
    let course = |seed| {
        let store = faulty(faults, seed);
        let step = |n: u32| {
            let read = store.get(SHARD, Space::Items, b"001").is_ok();
            // Ids differ from run to run.
            let written = write_one(&store, &format!("{n:03}")).map_err(|e| e.to_string());
            store.reopen().expect("a reopening");
            (read, written)
        };
        (0..100).map(step).collect::<Vec<_>>()
    };
    assert_eq!(course(1), course(1));
    assert_ne!(course(1), course(2));
}
