//! The ways of a commit: on the thread of its caller (`Store::try_commit`), and in a group with others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;

use orrery_storage::{Commit, Part, Precondition, Space, StorageError, Store};
use orrery_types::Lsn;

use crate::stores::{
    EPOCH, SHARD, all, conflict, latest, on_every_store, open, part, put, unchanged,
};

fn writes(key: &str, precondition: Precondition) -> Part {
    let mut part = part(SHARD);
    part.preconditions = vec![precondition];
    part.puts = vec![put(Space::Items, key, "v")];
    part.feed = vec![key.into()];
    part
}

/// On the caller's thread if that is possible, else by the engine's.
fn commit_anyhow(store: &dyn Store, part: Part) -> Result<Lsn, StorageError> {
    let commit = Commit::new(vec![part]);
    let answer = store.try_commit(commit).unwrap_or_else(|commit| store.commit(commit));
    answer.map(|committed| committed.lsns[0])
}

#[test]
fn a_commit_without_others_is_written_and_refused_as_any() {
    on_every_store(|store| {
        assert_eq!(commit_anyhow(store, writes("a", unchanged("a", None))), Ok(Lsn(1)));
        let refused = conflict(SHARD, &unchanged("a", None));
        assert_eq!(commit_anyhow(store, writes("a", unchanged("a", None))), Err(refused));
        assert_eq!(commit_anyhow(store, writes("a", unchanged("a", Some(1)))), Ok(Lsn(2)));
        let gone = Part { epoch: orrery_types::Epoch(9), ..writes("a", unchanged("a", Some(2))) };
        let answer = commit_anyhow(store, gone);
        assert_eq!(answer, Err(StorageError::Gone { epoch: Some(EPOCH) }));
        assert_eq!(commit_anyhow(store, part(SHARD)), Ok(Lsn(2)), "it only validates");
        assert_eq!(all(&*latest(store, SHARD), Space::Feed).len(), 2);
    });
}

#[test]
fn the_embedded_store_commits_on_the_thread_of_a_caller_without_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    // The group that created the shard may end a little after its answer.
    let first = || Commit::new(vec![writes("a", unchanged("a", None))]);
    let mut attempts = std::iter::repeat_with(|| {
        std::thread::yield_now();
        store.try_commit(first())
    });
    let answer = attempts.by_ref().take(1_000_000).find_map(Result::ok);
    let answer = answer.expect("no other commit is under way");
    assert_eq!(answer.expect("a commit").lsns, [Lsn(1)]);
    drop(store);
    let store = open(folder.path());
    assert_eq!(latest(&store, SHARD).lsn(), Lsn(1), "it was durable");
}

#[test]
fn a_commit_comes_back_while_another_is_under_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(folder.path()));
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let (sender, receiver) = channel();
    let inner = Arc::clone(&store);
    let second = Commit::new(vec![writes("b", unchanged("b", None))]);
    let expected = second.clone();
    // The committer answers before its group is over.
    let done = Box::new(move |_| drop(sender.send(inner.try_commit(second))));
    store.submit(Commit::new(vec![writes("a", unchanged("a", None))]), done);
    assert_eq!(receiver.recv().expect("an answer"), Err(expected));
    let found = store.get(SHARD, Space::Items, b"b").expect("a read").1;
    assert_eq!(found, None, "nothing was written");
}

/// Every writer adds one to the same counter, in every way there is to commit.
#[test]
fn writers_of_every_kind_lose_no_update_and_share_no_lsn() {
    const WRITERS: u64 = 6;
    const UPDATES: u64 = 40;
    on_every_store(|store| {
        let lsns = AtomicU64::new(0);
        let update = |writer: u64| {
            loop {
                let found = store.get(SHARD, Space::Items, b"n").expect("a read").1;
                let count: u64 = found.as_ref().map_or(0, |value| {
                    String::from_utf8_lossy(&value.bytes).parse().expect("a number")
                });
                let version = found.map(|value| value.version.0);
                let mut part = writes("n", unchanged("n", version));
                part.puts = vec![put(Space::Items, "n", &(count + 1).to_string())];
                let commit = Commit::new(vec![part]);
                let answer = match writer % 3 {
                    0 => store.commit(commit),
                    1 => store.try_commit(commit).unwrap_or_else(|commit| store.commit(commit)),
                    _ => {
                        let (sender, receiver) = channel();
                        store.submit(commit, Box::new(move |answer| drop(sender.send(answer))));
                        receiver.recv().expect("an answer")
                    }
                };
                match answer {
                    Ok(committed) => {
                        lsns.fetch_add(committed.lsns[0].0, SeqCst);
                        return;
                    }
                    Err(StorageError::Conflict(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || (0..UPDATES).for_each(|_| update(writer)));
            }
        });
        let (all, (head, found)) =
            (WRITERS * UPDATES, store.get(SHARD, Space::Items, b"n").expect("a read"));
        assert_eq!(found.expect("the counter").bytes, all.to_string());
        assert_eq!((head.lsn, lsns.into_inner()), (Lsn(all), all * (all + 1) / 2), "each LSN once");
    });
}

/// Commits that wait while another one is written become one group, whose index writes go in the order of
/// their keys: two writes of one key must keep theirs.
#[test]
fn a_group_leaves_what_its_commits_leave_one_after_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(folder.path()));
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let puts = |entries: &[(&str, &str)]| {
        let mut part = part(SHARD);
        part.puts = entries.iter().map(|(key, value)| put(Space::Index, key, value)).collect();
        Commit::new(vec![part])
    };
    let deletes = |keys: &[&str]| {
        let mut part = part(SHARD);
        part.deletes = keys.iter().map(|key| (Space::Index, key.as_bytes().to_vec())).collect();
        Commit::new(vec![part])
    };
    let mut both = puts(&[("again", "3"), ("b", "3")]);
    both.parts[0].deletes = vec![(Space::Index, b"again".to_vec()), (Space::Index, b"z".to_vec())];
    let group = vec![
        puts(&[("z", "1"), ("again", "1"), ("gone", "1")]),
        deletes(&["gone", "again", "first"]),
        puts(&[("a", "2"), ("again", "2"), ("z", "2")]),
        both,
    ];
    let (sender, receiver) = channel();
    let (inner, members) = (Arc::clone(&store), group.len());
    let enqueue_group = move |_| {
        for commit in group {
            let sender = sender.clone();
            inner.submit(commit, Box::new(move |answer| drop(sender.send(answer))));
        }
    };
    store.submit(puts(&[("first", "0")]), Box::new(enqueue_group));
    for nth in 0..members {
        let committed = receiver.recv().expect("an answer").expect("a commit");
        assert_eq!(committed.lsns, [Lsn(nth as u64 + 2)]);
    }
    let found = all(&*latest(&*store, SHARD), Space::Index);
    let found: Vec<(String, String)> = found
        .iter()
        .map(|entry| {
            [&entry.key[..], &entry.value.bytes[..]].map(|b| String::from_utf8_lossy(b).into())
        })
        .map(|[key, value]| (key, value))
        .collect();
    let expected = [("a", "2"), ("again", "3"), ("b", "3")];
    assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
}
