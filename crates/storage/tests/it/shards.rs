//! The life of a shard: made, fenced, watched, loaded, dropped.

use std::cell::Cell;

use orrery_storage::{Head, Put, ReadAt, ShardState, Space, StorageError};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::stores::{
    EPOCH, SHARD, all, commit, latest, on_every_store, part, put, unchanged, value, write,
};

const GONE: StorageError = StorageError::Gone { epoch: None };

#[test]
fn a_shard_that_was_never_made_is_gone() {
    on_every_store(|store| {
        let none = ShardId(99);
        assert_eq!(store.get(none, Space::Items, b"k"), Err(GONE));
        assert_eq!(store.snapshot(none, ReadAt::Latest).map(|s| s.lsn()), Err(GONE));
        assert_eq!(commit(store, part(none)), Err(GONE));
        assert_eq!(store.watch(none, Lsn(0), 0), Err(GONE));
        assert_eq!(store.fence_shard(none, EPOCH), Err(GONE));
        assert_eq!(store.copy_into(none, &[]), Err(GONE));
        assert_eq!(store.drop_shard(none), Ok(()));
    });
}

#[test]
fn making_a_shard_twice_changes_nothing() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        assert_eq!(store.create_shard(SHARD, EPOCH), Ok(()));
        assert_eq!(store.get(SHARD, Space::Items, b"a"), Ok((Lsn(1), Some(value(1, "1")))));
        let other = store.create_shard(SHARD, Epoch(9));
        assert_eq!(other, Err(StorageError::Gone { epoch: Some(EPOCH) }));
        store.create_shard(ShardId(3), Epoch(4)).expect("a shard");
        assert_eq!(store.shards(), Ok(vec![(ShardId(3), Epoch(4)), (SHARD, EPOCH)]));
    });
}

#[test]
fn a_fence_shuts_out_commits_of_the_old_epoch() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        store.fence_shard(SHARD, Epoch(2)).expect("a fence");
        store.fence_shard(SHARD, Epoch(2)).expect("the same fence");
        let now = Some(Epoch(2));
        assert_eq!(store.fence_shard(SHARD, EPOCH), Err(StorageError::Gone { epoch: now }));
        assert_eq!(commit(store, part(SHARD)), Err(StorageError::Gone { epoch: now }));
        let mut renewed = part(SHARD);
        renewed.epoch = Epoch(2);
        renewed.puts.push(Put { space: Space::Items, key: b"b".to_vec(), value: b"2".to_vec() });
        assert_eq!(commit(store, renewed), Ok(Lsn(2)));
    });
}

#[test]
fn a_dropped_shard_takes_everything_with_it_and_nothing_else() {
    on_every_store(|store| {
        let neighbours = [ShardId(SHARD.0 - 1), ShardId(SHARD.0 + 1)];
        for shard in neighbours {
            store.create_shard(shard, EPOCH).expect("a shard");
        }
        for shard in [neighbours[0], SHARD, neighbours[1]] {
            let mut part = part(shard);
            let spaces = [Space::Items, Space::Index, Space::Ttl, Space::Meta];
            part.puts = spaces.map(|space| put(space, "k", "v")).to_vec();
            part.feed = vec![b"f".to_vec()];
            commit(store, part).expect("a commit");
        }
        store.drop_shard(SHARD).expect("a drop");
        assert_eq!(store.get(SHARD, Space::Items, b"k"), Err(GONE));
        assert_eq!(commit(store, part(SHARD)), Err(GONE));
        store.create_shard(SHARD, Epoch(2)).expect("a shard anew");
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
        store.create_shard(other, Epoch(4)).expect("a shard");
        write(store, &[("a", "1")]);
        let control = Cell::new(Lsn(0));
        let head = |lsn, epoch, state| {
            Some(Head { lsn: Lsn(lsn), epoch: Epoch(epoch), control: control.get(), state })
        };
        let (open, closed) = (ShardState::Open, ShardState::Closed);
        let heads = || store.heads(&[other, none, SHARD]).expect("heads");
        assert_eq!(heads(), [head(0, 4, open), None, head(1, EPOCH.0, open)]);
        store.freeze_shard(SHARD, true).expect("frozen");
        store.fence_shard(other, Epoch(5)).expect("a fence");
        assert_eq!(heads(), [head(0, 5, open), None, head(1, EPOCH.0, closed)]);
        store.freeze_shard(SHARD, false).expect("open again");
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
            store.drop_shard(SHARD).expect("a drop");
            assert_eq!(watcher.join().expect("a watcher"), Err(GONE));
        });
    });
}
