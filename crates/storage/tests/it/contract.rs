//! Commits, preconditions, snapshots and scans.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use orrery_storage::{
    Commit, HeadChange, Part, Precondition, Put, ReadAt, Scan, ShardStats, Space, StorageError,
    Value, key,
};
use orrery_types::limits::{COMMIT_BYTES_MAX, COMMIT_FEED_ENTRIES_MAX as FEED_ENTRIES_MAX};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::stores::{
    EPOCH, SHARD, all, commit, conflict, get, keys, latest, on_every_store, part, put, texts,
    unchanged, value, write,
};

#[test]
fn a_commit_writes_deletes_and_counts() {
    on_every_store(|store| {
        assert_eq!(write(store, &[("a", "1"), ("b", "2")]), Lsn(1));
        let mut second = part(SHARD);
        second.deletes = vec![(Space::Items, b"a".to_vec()), (Space::Items, b"none".to_vec())];
        second.puts = vec![put(Space::Items, "b", "3"), put(Space::Index, "i", "4")];
        assert_eq!(commit(store, second), Ok(Lsn(2)));
        assert_eq!(get(store, SHARD, Space::Items, b"a"), Ok((Lsn(2), None)));
        assert_eq!(get(store, SHARD, Space::Items, b"b"), Ok((Lsn(2), Some(value(2, "3")))));
        assert_eq!(get(store, SHARD, Space::Index, b"i"), Ok((Lsn(2), Some(value(0, "4")))));
        assert_eq!(get(store, SHARD, Space::Ttl, b"b"), Ok((Lsn(2), None)), "spaces are apart");
        assert_eq!(store.stats(SHARD).map(|s| s.lsn), Ok(Lsn(2)));
    });
}

#[test]
fn puts_come_after_deletes() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        let mut both = part(SHARD);
        both.deletes = vec![(Space::Items, b"a".to_vec())];
        both.puts = vec![put(Space::Items, "a", "2")];
        commit(store, both).expect("a commit");
        assert_eq!(store.get(SHARD, Space::Items, b"a").expect("a read").1, Some(value(2, "2")));
    });
}

#[test]
fn a_failed_precondition_is_named_and_nothing_is_written() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        write(store, &[("b", "1")]);
        let stripe = |stripe| Precondition::StripeUnchanged { stripe, since: Lsn(0) };
        let check = |condition: Precondition, holds: bool| {
            let before = store.stats(SHARD).expect("stats").lsn;
            let mut attempt = part(SHARD);
            attempt.preconditions = vec![stripe(0), condition.clone()];
            attempt.puts = vec![put(Space::Meta, "m", "x")];
            attempt.feed = vec![b"f".to_vec()];
            let refused = Err(conflict(SHARD, &condition));
            let expected = if holds { Ok(Lsn(before.0 + 1)) } else { refused };
            assert_eq!(commit(store, attempt), expected, "{condition:?}");
            let after = if holds { before.0 + 1 } else { before.0 };
            assert_eq!(store.stats(SHARD).expect("stats").lsn, Lsn(after));
        };
        check(unchanged("a", None), false);
        check(unchanged("a", Some(2)), false);
        check(unchanged("c", Some(1)), false);
        check(unchanged("c", Some(0)), false);
        assert_eq!(get(store, SHARD, Space::Meta, b"m"), Ok((Lsn(2), None)));
        assert!(all(&*latest(store, SHARD), Space::Feed).is_empty());
        check(unchanged("a", Some(1)), true);
        check(unchanged("c", None), true);
        check(stripe(7), true);
    });
}

/// Many writers with the same condition wait in one group, and one of them wins.
#[test]
fn of_commits_that_exclude_each_other_exactly_one_succeeds() {
    on_every_store(|store| {
        for round in 0..20 {
            let name = format!("k{round}");
            let barrier = Barrier::new(8);
            let wins: usize = std::thread::scope(|scope| {
                let attempt = || {
                    let mut part = part(SHARD);
                    part.preconditions = vec![unchanged(&name, None)];
                    part.puts = vec![put(Space::Items, &name, "x")];
                    barrier.wait();
                    commit(store, part).map_or(0, |_| 1)
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(attempt)).collect();
                threads.into_iter().map(|t| t.join().expect("a writer")).sum()
            });
            assert_eq!(wins, 1);
        }
    });
}

/// The classic lost update: increments by read, check and write add up.
#[test]
fn concurrent_increments_under_a_version_check_are_never_lost() {
    const THREADS: u64 = 8;
    const TIMES: u64 = 25;
    on_every_store(|store| {
        write(store, &[("n", "0")]);
        let increment = || {
            for _ in 0..TIMES {
                loop {
                    let (_, found) = store.get(SHARD, Space::Items, b"n").expect("a read");
                    let found = found.expect("the counter");
                    let n: u64 = str::from_utf8(&found.bytes).unwrap().parse().unwrap();
                    let mut part = part(SHARD);
                    let read = unchanged("n", Some(found.version.0));
                    part.preconditions = vec![read.clone()];
                    part.puts = vec![put(Space::Items, "n", &(n + 1).to_string())];
                    match commit(store, part) {
                        Ok(_) => break,
                        Err(e) => assert_eq!(e, conflict(SHARD, &read)),
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(increment);
            }
        });
        let (_, found) = store.get(SHARD, Space::Items, b"n").expect("a read");
        assert_eq!(found.expect("the counter").bytes, (THREADS * TIMES).to_string().as_bytes());
    });
}

#[test]
fn parts_happen_together_or_not_at_all() {
    on_every_store(|store| {
        let other = ShardId(8);
        store.create_open_shard(other, EPOCH).expect("a shard");
        let both = |version: Option<u64>| {
            let mut parts = vec![part(SHARD), part(other)];
            parts[0].puts = vec![put(Space::Items, "left", "1")];
            parts[1].preconditions = vec![unchanged("right", version)];
            parts[1].puts = vec![put(Space::Items, "right", "1")];
            store.commit(Commit::new(parts)).map(|committed| committed.lsns)
        };
        let refused = both(Some(1));
        assert_eq!(refused, Err(conflict(other, &unchanged("right", Some(1)))));
        assert_eq!(get(store, SHARD, Space::Items, b"left"), Ok((Lsn(0), None)));
        assert_eq!(both(None), Ok(vec![Lsn(1), Lsn(1)]));
        assert_eq!(write(store, &[("x", "")]), Lsn(2), "each shard counts for itself");
        assert_eq!(both(Some(1)), Ok(vec![Lsn(3), Lsn(2)]));
    });
}

#[test]
fn a_part_without_writes_validates_and_takes_no_lsn() {
    on_every_store(|store| {
        let other = ShardId(8);
        store.create_open_shard(other, EPOCH).expect("a shard");
        write(store, &[("a", "1")]);
        let validate = |version: Option<u64>| {
            let mut parts = vec![part(SHARD), part(other)];
            parts[0].preconditions = vec![unchanged("a", version)];
            parts[1].preconditions = vec![unchanged("b", None)];
            store.commit(Commit::new(parts)).map(|committed| committed.lsns)
        };
        assert_eq!(validate(Some(1)), Ok(vec![Lsn(1), Lsn(0)]));
        let refused = validate(None);
        assert_eq!(refused, Err(conflict(SHARD, &unchanged("a", None))));
        assert_eq!(store.stats(SHARD).expect("stats").lsn, Lsn(1));
        // Beside a part that writes, too.
        let mut parts = vec![part(SHARD), part(other)];
        parts[0].preconditions = vec![unchanged("a", Some(1))];
        parts[1].puts = vec![put(Space::Items, "b", "1")];
        let lsns = store.commit(Commit::new(parts)).map(|committed| committed.lsns);
        assert_eq!(lsns, Ok(vec![Lsn(1), Lsn(1)]));
        assert_eq!(write(store, &[("a", "2")]), Lsn(2));
    });
}

#[test]
fn a_stripe_is_changed_by_the_commits_that_name_it() {
    on_every_store(|store| {
        let mut naming = part(SHARD);
        naming.puts = vec![put(Space::Items, "a", "1")];
        naming.stripes = vec![3, 255];
        assert_eq!(commit(store, naming.clone()), Ok(Lsn(1)));
        write(store, &[("b", "1")]);
        let holds = |stripe: u8, since: u64| {
            let mut attempt = part(SHARD);
            attempt.preconditions =
                vec![Precondition::StripeUnchanged { stripe, since: Lsn(since) }];
            commit(store, attempt).is_ok()
        };
        assert!(holds(0, 0), "nobody named it");
        assert!(!holds(3, 0) && !holds(255, 0), "both were named");
        assert!(holds(3, 1) && holds(255, 1), "not since the first commit");
        // A commit that is refused changes no stripe.
        naming.preconditions = vec![unchanged("a", None)];
        commit(store, naming.clone()).expect_err("it is there");
        assert!(holds(3, 1));
        // The precondition is tested before the stripes of its own commit change.
        naming.preconditions = vec![Precondition::StripeUnchanged { stripe: 3, since: Lsn(2) }];
        assert_eq!(commit(store, naming.clone()), Ok(Lsn(3)));
        commit(store, naming).expect_err("the commit before has named it");
    });
}

/// One thread writes two keys in one commit, over and over, and says how far it is; others read
/// them, so that every value is sought while it is read for the first time, replaced, and read
/// again.
#[test]
fn reads_beside_writes_are_whole_and_not_older_than_what_was_acknowledged() {
    const TIMES: u64 = 300;
    on_every_store(|store| {
        let acknowledged = AtomicU64::new(0);
        let number = |value: &Value| {
            str::from_utf8(&value.bytes).expect("text").parse::<u64>().expect("a number")
        };
        let write_both = |n: u64| {
            let text = n.to_string();
            write(store, &[("a", &text), ("b", &text)]);
            acknowledged.store(n, SeqCst);
        };
        write_both(0);
        let read = || {
            let mut seen = 0;
            while seen < TIMES {
                let before = acknowledged.load(SeqCst);
                let found = store.get(SHARD, Space::Items, b"a").expect("a read").1;
                let now = number(&found.expect("a value"));
                assert!(now >= before.max(seen), "{now} after {before} and {seen}");
                let snapshot = latest(store, SHARD);
                let [a, b] = &snapshot.get_many(Space::Items, &[b"a", b"b"]).expect("reads")[..]
                else {
                    panic!("two values");
                };
                let (a, b) = (a.as_ref().expect("a value"), b.as_ref().expect("a value"));
                assert_eq!((number(a), a.version), (number(b), b.version), "one commit wrote both");
                assert!(number(a) >= now, "a later view is not older");
                let again = snapshot.get(Space::Items, b"b").expect("a read").expect("a value");
                assert_eq!(&again, b, "a view does not change");
                seen = number(a);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(read);
            }
            for n in 1..=TIMES {
                write_both(n);
            }
        });
    });
}

#[test]
fn the_feed_is_keyed_by_the_lsn_of_its_commit() {
    on_every_store(|store| {
        for entries in [2_u8, 0, 1] {
            let mut part = part(SHARD);
            part.feed = (0..entries).map(|i| vec![i]).collect();
            part.puts = vec![put(Space::Meta, "m", "")];
            commit(store, part).expect("a commit");
        }
        let snapshot = latest(store, SHARD);
        let found: Vec<_> = all(&*snapshot, Space::Feed)
            .into_iter()
            .map(|e| (key::parse_feed(&e.key).expect("a feed key"), e.value.bytes.to_vec()))
            .collect();
        let expected = [((Lsn(1), 0), vec![0]), ((Lsn(1), 1), vec![1]), ((Lsn(3), 0), vec![0])];
        assert_eq!(found, expected);
    });
}

/// LSNs are given in the order in which commits become visible, so nobody who follows the feed
/// misses one.
#[test]
fn a_reader_that_follows_the_feed_misses_no_commit() {
    const WRITERS: u64 = 8;
    const TIMES: u64 = 50;
    on_every_store(|store| {
        let write = || {
            for _ in 0..TIMES {
                let mut part = part(SHARD);
                part.feed = vec![b"f".to_vec()];
                commit(store, part).expect("a commit");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(write);
            }
            let mut seen = Lsn(0);
            while seen < Lsn(WRITERS * TIMES) {
                let heard = store.watch(SHARD, seen, 60_000).expect("a watch");
                let snapshot = store.snapshot(SHARD, ReadAt::AtLeast(heard)).expect("a snapshot");
                let bounds = key::feed_after(seen);
                let scan = Scan {
                    space: Space::Feed,
                    from: &bounds.from,
                    to: &bounds.to,
                    reverse: false,
                    max_rows: usize::MAX,
                    max_bytes: usize::MAX,
                    keys_only: true,
                };
                for entry in snapshot.scan(&scan).expect("a scan") {
                    let (lsn, _) = key::parse_feed(&entry.key).expect("a feed key");
                    assert_eq!(lsn, Lsn(seen.0 + 1), "no commit in between");
                    seen = lsn;
                }
                assert_eq!(seen, snapshot.lsn());
            }
        });
    });
}

#[test]
fn a_snapshot_shows_one_moment() {
    on_every_store(|store| {
        write(store, &[("a", "1"), ("b", "1")]);
        let before = latest(store, SHARD);
        write(store, &[("a", "2"), ("c", "2")]);
        commit(store, Part::of_head(SHARD, EPOCH, HeadChange::epoch(Epoch(5)))).expect("an epoch");
        assert_eq!((before.lsn(), before.epoch()), (Lsn(1), EPOCH));
        assert_eq!(before.get(Space::Items, b"a"), Ok(Some(value(1, "1"))));
        assert_eq!(keys(&*before, Space::Items), ["a", "b"]);
        let many = before.get_many(Space::Items, &[b"c", b"b", b"a"]).expect("a read");
        assert_eq!(many, [None, Some(value(1, "1")), Some(value(1, "1"))]);
        let after = latest(store, SHARD);
        assert_eq!((after.lsn(), after.epoch()), (Lsn(2), Epoch(5)));
        assert_eq!(keys(&*after, Space::Items), ["a", "b", "c"]);
    });
}

#[test]
fn a_snapshot_is_at_least_as_new_as_asked() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        let lsn_at = |at| store.snapshot(SHARD, at).map(|s| s.lsn());
        assert_eq!(lsn_at(ReadAt::AtLeast(Lsn(1))), Ok(Lsn(1)));
        assert_eq!(lsn_at(ReadAt::Stale), Ok(Lsn(1)));
        assert_eq!(lsn_at(ReadAt::AtLeast(Lsn(2))), Err(StorageError::Behind(Lsn(1))));
    });
}

#[test]
fn scans_keep_to_their_bounds_in_both_directions() {
    on_every_store(|store| {
        let names = ["a", "b", "ba", "c", "d"];
        write(store, &names.map(|name| (name, "12345")));
        let other = ShardId(SHARD.0 + 1);
        store.create_open_shard(other, EPOCH).expect("a shard");
        let mut foreign = part(other);
        foreign.puts = vec![put(Space::Items, "b", "foreign")];
        commit(store, foreign).expect("a commit");
        let snapshot = latest(store, SHARD);
        let check = |from: &str, to: &str, rows, bytes, reverse, expected: &[&str]| {
            let (from, to) = (from.as_bytes(), to.as_bytes());
            let (space, keys_only) = (Space::Items, false);
            let scan =
                Scan { space, from, to, reverse, max_rows: rows, max_bytes: bytes, keys_only };
            assert_eq!(texts(&snapshot.scan(&scan).expect("a scan")), expected, "{scan:?}");
        };
        let (many, end) = (usize::MAX, "\u{10ffff}");
        check("", end, many, many, false, &names);
        check("", end, many, many, true, &["d", "c", "ba", "b", "a"]);
        check("b", "c", many, many, false, &["b", "ba"]);
        check("b", "c", many, many, true, &["ba", "b"]);
        check("b", "b", many, many, false, &[]);
        check("c", "b", many, many, true, &[]);
        check("", end, 2, many, false, &["a", "b"]);
        check("", end, 2, many, true, &["d", "c"]);
        check("", end, many, 7, false, &["a", "b"]);
        check("", end, many, 1, false, &["a"]);
        check("", end, 0, 0, false, &["a"]);
    });
}

#[test]
fn a_scan_stopped_anywhere_goes_on_after_its_last_key() {
    on_every_store(|store| {
        let names: Vec<String> = (0..20).map(|n| format!("k{n:02}")).collect();
        let items: Vec<_> = names.iter().map(|name| (&**name, "v")).collect();
        write(store, &items);
        let snapshot = latest(store, SHARD);
        for (reverse, max_rows) in [(false, 1), (false, 7), (true, 1), (true, 7)] {
            let mut bounds = key::Bounds { from: vec![], to: key::END.to_vec() };
            let mut seen = Vec::new();
            loop {
                let (space, max_bytes, keys_only) = (Space::Items, usize::MAX, true);
                let (from, to) = (&bounds.from[..], &bounds.to[..]);
                let scan = Scan { space, from, to, reverse, max_rows, max_bytes, keys_only };
                let entries = snapshot.scan(&scan).expect("a scan");
                let Some(last) = entries.last() else { break };
                assert_eq!(last.value, value(1, ""), "keys alone, with their version");
                seen.extend(texts(&entries));
                bounds = if reverse {
                    key::Bounds { to: last.key.clone(), ..bounds }
                } else {
                    bounds.after(&last.key)
                };
            }
            if reverse {
                seen.reverse();
            }
            assert_eq!(seen, names);
        }
    });
}

#[test]
fn what_is_too_large_is_refused_whole() {
    on_every_store(|store| {
        let mut large = part(SHARD);
        let value = vec![0; COMMIT_BYTES_MAX];
        large.puts = vec![Put { space: Space::Items, key: b"k".to_vec(), value }];
        assert_eq!(commit(store, large), Err(StorageError::TooLarge));
        let mut long = part(SHARD);
        long.feed = vec![vec![]; FEED_ENTRIES_MAX + 1];
        assert_eq!(commit(store, long.clone()), Err(StorageError::TooLarge));
        assert_eq!(get(store, SHARD, Space::Items, b"k"), Ok((Lsn(0), None)));
        long.feed.pop();
        assert_eq!(commit(store, long), Ok(Lsn(1)), "at the limit it fits");
        assert_eq!(all(&*latest(store, SHARD), Space::Feed).len(), FEED_ENTRIES_MAX);
    });
}

#[test]
fn sizes_of_a_shard_are_known_roughly() {
    on_every_store(|store| {
        assert_eq!(store.stats(SHARD), Ok(ShardStats::default()));
        write(store, &[("a", "1")]);
        assert_eq!(store.stats(SHARD).expect("stats").lsn, Lsn(1));
        let gone = store.stats(ShardId(99));
        assert_eq!(gone, Err(StorageError::Gone { epoch: None }));
    });
}
