//! Copying a shard that is written to: its journal, the copy, and the moment in which it takes over.

use orrery_storage::{
    Copied, HeadChange, Part, ReadAt, ShardState, Space, StorageError, Store, checkpoint, copy_run,
};
use orrery_types::{Lsn, ShardId};

use crate::stores::{
    EPOCH, SHARD, all, commit, get, keys, latest, on_every_store, open, open_copy, part, put,
    value, write,
};

const COPY: ShardId = ShardId(8);
const NOT_EMPTY: StorageError = StorageError::NotEmpty;

fn copied(key: &str, value: Option<(u64, &str)>) -> Copied {
    let value = value.map(|(version, text)| self::value(version, text));
    Copied { space: Space::Items, key: key.into(), value }
}

#[test]
fn a_journal_has_what_was_written_since_it_began() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        let journal = store.journal(SHARD, 1000).expect("a journal");
        assert_eq!(
            store.journal(SHARD, 1000).expect_err("there is one"),
            StorageError::JournalInUse
        );
        write(store, &[("b", "2")]);
        let mut removal = part(SHARD);
        removal.deletes.push((Space::Items, b"a".to_vec()));
        commit(store, removal).expect("a commit");
        let expected = vec![copied("a", None), copied("b", Some((2, "2")))];
        assert_eq!(journal.take(), Ok(expected));
        drop(journal);
        let journal = store.journal(SHARD, 1000).expect("the other one was given up");
        assert_eq!(journal.take(), Ok(vec![]));
    });
}

#[test]
fn a_closed_shard_takes_no_commits_and_its_journal_has_all_before() {
    on_every_store(|store| {
        let journal = store.journal(SHARD, 1000).expect("a journal");
        write(store, &[("a", "1")]);
        let (open, closed) = (ShardState::Open, ShardState::Closed);
        let state = |from, to| {
            commit(store, Part::of_head(SHARD, EPOCH, HeadChange::state(from, to, EPOCH)))
        };
        state(open, closed).expect("closed");
        assert_eq!(journal.take().map(|changes| changes.len()), Ok(1));
        let mut late = part(SHARD);
        late.puts.push(put(Space::Items, "b", "2"));
        let refused = commit(store, late.clone());
        assert_eq!(refused, Err(StorageError::Gone { epoch: Some(EPOCH) }));
        assert_eq!(keys(&*latest(store, SHARD), Space::Items), ["a"]);
        state(closed, open).expect("open again");
        assert_eq!(commit(store, late), Ok(Lsn(2)));
    });
}

#[test]
fn a_copy_keeps_versions_and_goes_on_counting() {
    on_every_store(|store| {
        store.create_shard(COPY, EPOCH).expect("a shard");
        let first = [copied("a", Some((5, "1"))), copied("b", Some((6, "2")))];
        store.copy_into(COPY, &first).expect("a copy");
        store.flush().expect("a sync");
        let last = [copied("a", None), copied("b", Some((9, "3")))];
        store.copy_into(COPY, &last).expect("a copy");
        assert_eq!(open_copy(store, COPY, 12), Ok(Lsn(12)));
        assert_eq!(store.copy_into(COPY, &first), Err(NOT_EMPTY));
        let snapshot = store.snapshot(COPY, ReadAt::Latest).expect("a snapshot");
        assert_eq!(snapshot.lsn(), Lsn(12));
        let items = all(&*snapshot, Space::Items);
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].value, value(9, "3"));
        drop(snapshot);
        let mut next = part(COPY);
        next.puts.push(put(Space::Items, "c", "4"));
        assert_eq!(commit(store, next), Ok(Lsn(13)));
    });
}

#[test]
fn of_copies_of_one_key_the_last_counts() {
    on_every_store(|store| {
        store.create_shard(COPY, EPOCH).expect("a shard");
        let entries = [
            copied("a", Some((1, "1"))),
            copied("b", None),
            copied("c", Some((1, "1"))),
            copied("a", Some((2, "2"))),
            copied("b", Some((2, "2"))),
            copied("c", None),
        ];
        store.copy_into(COPY, &entries).expect("a copy");
        let items = all(&*latest(store, COPY), Space::Items);
        let found: Vec<_> = items.into_iter().map(|item| (item.key, item.value)).collect();
        assert_eq!(found, [(b"a".to_vec(), value(2, "2")), (b"b".to_vec(), value(2, "2"))]);
    });
}

#[test]
fn what_was_read_of_a_copy_before_it_took_over_is_not_remembered() {
    on_every_store(|store| {
        store.create_shard(COPY, EPOCH).expect("a shard");
        let of = |text| [copied("a", Some((5, text))), copied("b", Some((6, text)))];
        store.copy_into(COPY, &of("old")).expect("a copy");
        let read = |key: &str| store.get(COPY, Space::Items, key.as_bytes()).expect("a read").1;
        assert_eq!(read("a"), Some(value(5, "old")));
        store.copy_into(COPY, &of("new")).expect("a copy");
        store.copy_into(COPY, &[copied("b", None)]).expect("a copy");
        open_copy(store, COPY, 12).expect("open");
        assert_eq!((read("a"), read("b")), (Some(value(5, "new")), None));
    });
}

#[test]
fn a_copy_that_took_over_is_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy");
    let store = open(&folder.path().join("store"));
    store.create_shard(COPY, EPOCH).expect("a shard");
    store.copy_into(COPY, &[copied("a", Some((5, "1")))]).expect("a copy");
    store.flush().expect("a sync");
    store.copy_into(COPY, &[copied("b", Some((6, "2")))]).expect("a copy");
    open_copy(&store, COPY, 7).expect("open");
    let closed = HeadChange::state(ShardState::Open, ShardState::Closed, EPOCH);
    commit(&store, Part::of_head(COPY, EPOCH, closed)).expect("closed");
    store.create_shard(ShardId(9), EPOCH).expect("a shard");
    store.create_open_shard(ShardId(10), EPOCH).expect("a shard");
    store.retire_shard(ShardId(10)).expect("out of use");
    // As the disk has it now, without closing the store.
    checkpoint(&store, &copy).expect("a checkpoint");
    let reopened = open(&copy);
    assert_eq!(get(&reopened, COPY, Space::Items, b"a"), Ok((Lsn(7), Some(value(5, "1")))));
    assert_eq!(get(&reopened, COPY, Space::Items, b"b"), Ok((Lsn(7), Some(value(6, "2")))));
    let mut next = part(COPY);
    next.puts.push(put(Space::Items, "c", "3"));
    assert_eq!(commit(&reopened, next), Ok(Lsn(8)), "nothing is closed after opening");
    // Nobody goes on making a shard, and what nothing names stays so.
    let states = |store: &dyn Store| {
        let heads = store.heads(&[ShardId(9), ShardId(10)]).expect("heads");
        heads.into_iter().map(|head| head.map(|head| head.state)).collect::<Vec<_>>()
    };
    assert_eq!(states(&reopened), [Some(ShardState::Dropped); 2]);
    assert_eq!(states(&store), [Some(ShardState::Building), Some(ShardState::Dropped)]);
}

#[test]
fn a_run_comes_whole_and_what_is_copied_later_is_newer() {
    on_every_store(|store| {
        store.create_shard(COPY, EPOCH).expect("a shard");
        for space in [Space::Items, Space::Index, Space::Feed, Space::Ttl] {
            let version = |n| if space.is_versioned() { n } else { 0 };
            for half in ["a", "b"] {
                let mut run = copy_run(store, COPY, space).expect("a run");
                for n in 0..1000_u64 {
                    let stored = value(version(n + 1), &format!("{half} {n}"));
                    run.add(format!("{half}{n:04}").as_bytes(), &stored).expect("an entry");
                }
                run.finish().expect("the end of the run");
                let later = [
                    Copied { space, key: format!("{half}0003").into(), value: None },
                    Copied {
                        space,
                        key: format!("{half}0004").into(),
                        value: Some(value(version(5000), "later")),
                    },
                ];
                store.copy_into(COPY, &later).expect("a copy");
            }
            let snapshot = store.snapshot(COPY, ReadAt::Latest).expect("a snapshot");
            let entries = all(&*snapshot, space);
            assert_eq!(entries.len(), 2 * 999, "{space:?}");
            let found = |key: &str| snapshot.get(space, key.as_bytes()).expect("a read");
            assert_eq!(found("a0002"), Some(value(version(3), "a 2")));
            assert_eq!(found("a0003"), None);
            assert_eq!(found("b0004"), Some(value(version(5000), "later")));
        }
        store.flush().expect("a sync");
        open_copy(store, COPY, 6000).expect("open");
        assert_eq!(copy_run(store, COPY, Space::Items).err(), Some(NOT_EMPTY));
        store.retire_shard(COPY).expect("out of use");
        store.drop_shard(COPY).expect("a drop");
        store.create_shard(COPY, EPOCH).expect("a shard");
        assert_eq!(keys(&*latest(store, COPY), Space::Items), [""; 0]);
    });
}

#[test]
fn a_run_that_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_shard(COPY, EPOCH).expect("a shard");
    let runs = || std::fs::read_dir(folder.path().join("runs")).expect("a folder").count();
    let mut run = copy_run(&store, COPY, Space::Items).expect("a run");
    run.add(b"a", &value(1, "1")).expect("an entry");
    assert_eq!(runs(), 1);
    drop(run);
    let empty = copy_run(&store, COPY, Space::Items).expect("a run");
    empty.finish().expect("nothing is the end of nothing");
    let mut run = copy_run(&store, COPY, Space::Items).expect("a run");
    run.add(b"b", &value(2, "2")).expect("an entry");
    run.finish().expect("the end of the run");
    assert_eq!(runs(), 0);
    assert_eq!(keys(&*latest(&store, COPY), Space::Items), ["b"]);
    drop(store);
    // As a process that was killed leaves it.
    std::fs::write(folder.path().join("runs/7.sst"), b"half of a file").expect("a file");
    let store = open(folder.path());
    assert!(!folder.path().join("runs").exists());
    assert_eq!(keys(&*latest(&store, COPY), Space::Items), ["b"]);
}
