//! The life of a shard: made, opened, closed, watched, dropped.

use std::cell::Cell;

use orrery_storage::{
    Commit, Head, HeadChange, Part, Precondition, Put, ReadAt, ShardState, Space, StorageError,
    Store, key,
};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::stores::{
    EPOCH, SHARD, all, commit, conflict, get, keys, latest, on_every_store, part, put, unchanged,
    value, write,
};

const GONE: StorageError = StorageError::Gone { epoch: None };

#[test]
fn a_shard_that_was_never_made_is_gone() {
    on_every_store(|store| {
        let none = ShardId(99);
        assert_eq!(get(store, none, Space::Items, b"k"), Err(GONE));
        assert_eq!(store.snapshot(none, ReadAt::Latest).map(|s| s.lsn()), Err(GONE));
        assert_eq!(commit(store, part(none)), Err(GONE));
        assert_eq!(store.watch(none, Lsn(0), 0), Err(GONE));
        let raise = HeadChange::epoch(EPOCH);
        assert_eq!(commit(store, Part::of_head(none, EPOCH, raise)), Err(GONE));
        assert_eq!(store.retire_shard(none), Ok(()));
        assert_eq!(store.copy_into(none, &[]), Err(GONE));
        assert_eq!(store.drop_shard(none), Ok(()));
    });
}

#[test]
fn making_a_shard_twice_changes_nothing() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        assert_eq!(store.create_shard(SHARD, EPOCH), Ok(()));
        assert_eq!(get(store, SHARD, Space::Items, b"a"), Ok((Lsn(1), Some(value(1, "1")))));
        let other = store.create_shard(SHARD, Epoch(9));
        assert_eq!(other, Err(StorageError::Gone { epoch: Some(EPOCH) }));
        assert_eq!(store.create_open_shard(SHARD, EPOCH), Ok(()));
        store.create_shard(ShardId(3), Epoch(4)).expect("a shard");
        let shards = store.shards().expect("the shards");
        let shown: Vec<_> = shards.iter().map(|(id, head)| (*id, head.epoch, head.state)).collect();
        let made = (ShardId(3), Epoch(4), ShardState::Building);
        assert_eq!(shown, [made, (SHARD, EPOCH, ShardState::Open)]);
    });
}

/// Changes the head of a shard, whose epoch is the first one.
fn change(store: &dyn Store, change: HeadChange) -> Result<Lsn, StorageError> {
    commit(store, Part::of_head(SHARD, EPOCH, change))
}

#[test]
fn an_epoch_shuts_out_commits_that_were_prepared_under_an_older_one() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        assert_eq!(change(store, HeadChange::epoch(Epoch(2))), Ok(Lsn(1)), "no LSN of its own");
        let now = Some(Epoch(2));
        let gone = Err(StorageError::Gone { epoch: now });
        assert_eq!(change(store, HeadChange::epoch(Epoch(3))), gone);
        assert_eq!(commit(store, part(SHARD)), gone);
        let mut renewed = part(SHARD);
        renewed.epoch = Epoch(2);
        renewed.puts.push(Put { space: Space::Items, key: b"b".to_vec(), value: b"2".to_vec() });
        assert_eq!(commit(store, renewed), Ok(Lsn(2)));
        assert_eq!(latest(store, SHARD).epoch(), Epoch(2));
    });
}

#[test]
fn a_head_changes_with_the_data_of_other_shards_or_not_at_all() {
    on_every_store(|store| {
        let (record, child) = (ShardId(3), ShardId(8));
        store.create_open_shard(record, EPOCH).expect("a shard");
        store.create_shard(child, EPOCH).expect("a shard");
        write(store, &[("a", "1")]);
        let state = HeadChange::state;
        // A cutover: the record names the child from then on, and the parent is out of use.
        let cutover = |expected: Option<u64>| {
            let mut named = part(record);
            named.preconditions = vec![unchanged("record", expected)];
            named.puts = vec![put(Space::Items, "record", "child")];
            let close = state(ShardState::Open, ShardState::Dropped, EPOCH);
            let open = state(ShardState::Building, ShardState::Open, Epoch(4));
            let open = HeadChange { least_lsn: Lsn(40), ..open };
            let heads = [Part::of_head(SHARD, EPOCH, close), Part::of_head(child, EPOCH, open)];
            let parts = [named].into_iter().chain(heads).collect();
            store.commit(Commit::new(parts)).map(|committed| committed.lsns)
        };
        let heads = |store: &dyn Store| {
            let heads = store.heads(&[record, SHARD, child]).expect("heads");
            let shown =
                |head: Option<Head>| head.map(|head| (head.lsn.0, head.epoch.0, head.state));
            heads.into_iter().filter_map(shown).collect::<Vec<_>>()
        };
        let (open, building) = (ShardState::Open, ShardState::Building);
        assert_eq!(cutover(Some(7)), Err(conflict(record, &unchanged("record", Some(7)))));
        assert_eq!(heads(store), [(0, 1, open), (1, 1, open), (0, 1, building)]);
        write(store, &[("a", "2")]);
        assert_eq!(cutover(None), Ok(vec![Lsn(1), Lsn(2), Lsn(40)]));
        let after = [(1, 1, open), (2, 1, ShardState::Dropped), (40, 4, open)];
        assert_eq!(heads(store), after);
        // Each of its steps can be done once.
        assert_eq!(cutover(Some(1)), Err(StorageError::Gone { epoch: Some(EPOCH) }));
        assert_eq!(heads(store), after);
        assert_eq!(commit(store, part(SHARD)), Err(StorageError::Gone { epoch: Some(EPOCH) }));
        assert_eq!(keys(&*latest(store, SHARD), Space::Items), ["a"], "it can still be read");
        let mut next = Part::new(child, Epoch(4));
        next.puts = vec![put(Space::Items, "b", "1")];
        assert_eq!(commit(store, next), Ok(Lsn(41)));
        assert_eq!(latest(store, child).lsn(), Lsn(41));
    });
}

#[test]
fn a_part_changes_data_and_head_at_once() {
    on_every_store(|store| {
        let child = ShardId(8);
        store.create_shard(child, EPOCH).expect("a shard");
        let mut first = part(child);
        first.puts = vec![put(Space::Meta, "rows", "1")];
        assert_eq!(commit(store, first.clone()), Err(StorageError::Gone { epoch: Some(EPOCH) }));
        first.head = Some(HeadChange::state(ShardState::Building, ShardState::Open, EPOCH));
        assert_eq!(commit(store, first.clone()), Ok(Lsn(1)));
        assert_eq!(commit(store, first), Err(StorageError::Gone { epoch: Some(EPOCH) }));
        let mut last = part(child);
        last.preconditions = vec![Precondition::Absent { space: Space::Meta, key: b"x".to_vec() }];
        last.feed = vec![b"f".to_vec()];
        let closed = HeadChange::state(ShardState::Open, ShardState::Closed, Epoch(2));
        last.head = Some(HeadChange { least_lsn: Lsn(9), ..closed });
        assert_eq!(commit(store, last), Ok(Lsn(9)));
        let feed = all(&*latest(store, child), Space::Feed);
        let places: Vec<_> = feed.iter().map(|entry| key::parse_feed(&entry.key)).collect();
        assert_eq!(places, [Some((Lsn(9), 0))]);
        let head = store.heads(&[child]).expect("heads")[0].expect("a head");
        assert_eq!((head.lsn, head.epoch, head.state), (Lsn(9), Epoch(2), ShardState::Closed));
    });
}

#[test]
fn a_shard_takes_what_its_state_allows() {
    on_every_store(|store| {
        use ShardState::{Building, Closed, Dropped, Open};
        let gone = StorageError::Gone { epoch: Some(EPOCH) };
        let state = |shard: ShardId, from, to| {
            commit(store, Part::of_head(shard, EPOCH, HeadChange::state(from, to, EPOCH)))
        };
        let shard = ShardId(8);
        store.create_shard(shard, EPOCH).expect("a shard");
        let takes = |commits: bool, copies: bool, drops: bool| {
            let mut attempt = part(shard);
            attempt.puts = vec![put(Space::Items, "a", "1")];
            assert_eq!(
                commit(store, attempt).map(drop),
                if commits { Ok(()) } else { Err(gone.clone()) }
            );
            let copied = store.copy_into(shard, &[]);
            assert_eq!(copied, if copies { Ok(()) } else { Err(StorageError::NotEmpty) });
            if !drops {
                assert_eq!(store.drop_shard(shard), Err(gone.clone()));
            }
        };
        takes(false, true, true);
        assert_eq!(state(shard, Open, Closed), Err(gone.clone()));
        state(shard, Building, Open).expect("opened");
        takes(true, false, false);
        state(shard, Open, Closed).expect("closed");
        takes(false, false, false);
        state(shard, Closed, Open).expect("opened again");
        takes(true, false, false);
        state(shard, Open, Dropped).expect("dropped");
        takes(false, false, true);
        assert_eq!(state(shard, Open, Closed), Err(gone.clone()), "nothing leads back");
        assert_eq!(store.retire_shard(shard), Ok(()));
        assert_eq!(store.drop_shard(shard), Ok(()));
        store.create_shard(shard, EPOCH).expect("a shard");
        assert_eq!(store.drop_shard(shard), Ok(()), "nobody has named it");
        store.retire_shard(SHARD).expect("from any state");
        assert_eq!(store.drop_shard(SHARD), Ok(()));
    });
}

#[test]
fn a_dropped_shard_takes_everything_with_it_and_nothing_else() {
    on_every_store(|store| {
        let neighbours = [ShardId(SHARD.0 - 1), ShardId(SHARD.0 + 1)];
        for shard in neighbours {
            store.create_open_shard(shard, EPOCH).expect("a shard");
        }
        for shard in [neighbours[0], SHARD, neighbours[1]] {
            let mut part = part(shard);
            let spaces = [Space::Items, Space::Index, Space::Ttl, Space::Meta];
            part.puts = spaces.map(|space| put(space, "k", "v")).to_vec();
            part.feed = vec![b"f".to_vec()];
            commit(store, part).expect("a commit");
        }
        store.retire_shard(SHARD).expect("out of use");
        store.drop_shard(SHARD).expect("a drop");
        assert_eq!(get(store, SHARD, Space::Items, b"k"), Err(GONE));
        assert_eq!(commit(store, part(SHARD)), Err(GONE));
        store.create_open_shard(SHARD, Epoch(2)).expect("a shard anew");
        for space in Space::ALL {
            assert!(all(&*latest(store, SHARD), space).is_empty(), "{space:?}");
            for shard in neighbours {
                assert_eq!(all(&*latest(store, shard), space).len(), 1, "{space:?}");
            }
        }
        assert_eq!(latest(store, SHARD).lsn(), Lsn(0));
    });
}

#[test]
fn a_head_shows_lsn_epoch_state_and_control() {
    on_every_store(|store| {
        let (none, other) = (ShardId(99), ShardId(3));
        store.create_open_shard(other, Epoch(4)).expect("a shard");
        write(store, &[("a", "1")]);
        let control = Cell::new(Lsn(0));
        let head = |lsn, epoch, state| {
            Some(Head { lsn: Lsn(lsn), epoch: Epoch(epoch), control: control.get(), state })
        };
        let (open, closed) = (ShardState::Open, ShardState::Closed);
        let heads = || store.heads(&[other, none, SHARD]).expect("heads");
        assert_eq!(heads(), [head(0, 4, open), None, head(1, EPOCH.0, open)]);
        change(store, HeadChange::state(open, closed, EPOCH)).expect("closed");
        let raise = Part::of_head(other, Epoch(4), HeadChange::epoch(Epoch(5)));
        commit(store, raise).expect("another epoch");
        assert_eq!(heads(), [head(0, 5, open), None, head(1, EPOCH.0, closed)]);
        change(store, HeadChange::state(closed, open, EPOCH)).expect("open again");
        write(store, &[("a", "2")]);
        assert_eq!(heads()[2], head(2, EPOCH.0, open));
        let mut refused = part(SHARD);
        refused.sets_control = true;
        refused.puts = vec![put(Space::Meta, "m", "1")];
        let mut accepted = refused.clone();
        refused.preconditions = vec![unchanged("a", None)];
        commit(store, refused).expect_err("it exists");
        assert_eq!(heads()[2], head(2, EPOCH.0, open), "a refused commit sets nothing");
        accepted.preconditions = vec![unchanged("a", Some(2))];
        assert_eq!(commit(store, accepted), Ok(Lsn(3)));
        write(store, &[("a", "3")]);
        control.set(Lsn(3));
        assert_eq!(heads()[2], head(4, EPOCH.0, open));
        assert_eq!((store.lsn(SHARD), store.lsn(none)), (Ok(Lsn(4)), Err(GONE)));
    });
}

#[test]
fn a_watcher_hears_of_a_commit_and_of_the_end() {
    on_every_store(|store| {
        assert_eq!(store.watch(SHARD, Lsn(0), 0), Ok(Lsn(0)), "no commit within the time");
        let minute_ms = 60_000;
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| store.watch(SHARD, Lsn(0), minute_ms));
            write(store, &[("a", "1")]);
            assert_eq!(watcher.join().expect("a watcher"), Ok(Lsn(1)));
            let watcher = scope.spawn(|| store.watch(SHARD, Lsn(1), minute_ms));
            store.retire_shard(SHARD).expect("out of use");
            store.drop_shard(SHARD).expect("a drop");
            assert_eq!(watcher.join().expect("a watcher"), Err(GONE));
        });
    });
}
