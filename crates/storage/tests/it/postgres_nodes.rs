//! Several nodes over one store of `PostgreSQL`: what protects one from another, and what happens without it. A protection
//! is taken out by changing the function of the server that has it.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::Duration;

use orrery_postgres::{PostgresOpenError, PostgresOptions, PostgresStore, migrate};
use orrery_storage::{
    Commit, CommitId, Copied, HeadChange, JournalError, Part, Precondition, ReadAt, Resolution,
    Scan, ShardState, Space, StorageError, Store, key,
};
use orrery_types::stopwatch::Stopwatch;
use orrery_types::{Epoch, Lsn, ShardId};
use postgres::{Client, NoTls};

use crate::postgres_store;
use crate::stores::{
    EPOCH, SHARD, all, commit, conflict, get, keys, latest, part, put, unchanged, value, write,
};

/// What takes longer does not happen.
const PATIENCE: Duration = Duration::from_secs(30);
const STRIPE: u8 = 3;

struct Bench {
    address: String,
    options: PostgresOptions,
    nodes: [PostgresStore; 2],
}

impl Bench {
    /// Two nodes over a store with one shard; `None` where there is no server.
    fn new() -> Option<Self> {
        let (address, options) = postgres_store::new_store()?;
        let open = |_| PostgresStore::open(&address, &options).expect("the store opens");
        let nodes = [0, 1].map(open);
        nodes[0].create_open_shard(SHARD, EPOCH).expect("a shard");
        Some(Self { address, options, nodes })
    }

    fn client(&self) -> Client {
        client(&self.address, &self.options)
    }

    /// Takes a protection out of a function of the server.
    fn without(self, function: &str, protection: &str, instead: &str) -> Self {
        let mut client = self.client();
        let text = "SELECT pg_get_functiondef(oid) FROM pg_proc \
            WHERE proname = $1 AND pronamespace = to_regnamespace($2::text)";
        let row = client.query_one(text, &[&function, &self.options.schema]).expect("a function");
        let text: String = row.get(0);
        assert!(text.contains(protection), "{function} has no {protection}");
        client.batch_execute(&text.replace(protection, instead)).expect("another function");
        self
    }
}

fn client(address: &str, options: &PostgresOptions) -> Client {
    let mut client = Client::connect(address, NoTls).expect("a connection");
    client.batch_execute(&format!("SET search_path = {}", options.schema)).expect("a schema");
    client
}

fn item(key: &str) -> Part {
    let mut part = part(SHARD);
    part.puts = vec![put(Space::Items, key, "v")];
    part
}

#[test]
fn a_commit_is_seen_by_every_node_at_once() {
    let Some(Bench { nodes: [first, second], .. }) = Bench::new() else { return };
    assert!(first.is_shared());
    for n in 1..50_u64 {
        let (writer, reader) = if n % 2 == 0 { (&first, &second) } else { (&second, &first) };
        assert_eq!(write(writer, &[("a", &n.to_string())]), Lsn(n));
        assert_eq!(reader.lsn(SHARD), Ok(Lsn(n)));
        assert_eq!(reader.lsn_at_least(SHARD, Lsn(n)), Ok(Lsn(n)));
        let (at, found) = get(reader, SHARD, Space::Items, b"a").expect("a read");
        assert_eq!((at, found), (Lsn(n), Some(value(n, &n.to_string()))));
        assert_eq!(latest(reader, SHARD).lsn(), Lsn(n));
    }
    // What is known already is enough for a session that has seen no more.
    assert_eq!(first.lsn_at_least(SHARD, Lsn(7)), Ok(Lsn(49)));
    let times = [&first, &second, &first].map(|node| node.now_us().expect("the time"));
    assert!(
        times.is_sorted() && times[0].is_some_and(|us| us > 1_500_000_000_000_000),
        "{times:?}"
    );
}

/// Each round two nodes read the same range, and each adds to it if it is empty.
fn rounds_with_phantoms(nodes: &[PostgresStore; 2], rounds: usize) -> usize {
    let barrier = Barrier::new(2);
    let prefix = |round: usize| format!("{round:05}-");
    let added = |node: usize| {
        let store = &nodes[node];
        for round in 0..rounds {
            barrier.wait();
            let (from, to) = (prefix(round).into_bytes(), prefix(round + 1).into_bytes());
            loop {
                let view = store.snapshot(SHARD, ReadAt::Latest).expect("a snapshot");
                let (space, reverse, keys_only) = (Space::Items, false, true);
                let (max_rows, max_bytes) = (10, usize::MAX);
                let scan =
                    Scan { space, from: &from, to: &to, reverse, max_rows, max_bytes, keys_only };
                let is_empty = view.scan(&scan).expect("a scan").is_empty();
                let since = view.lsn();
                drop(view);
                if !is_empty {
                    break;
                }
                let mut part = item(&format!("{}{node}", prefix(round)));
                part.preconditions = vec![Precondition::StripeUnchanged { stripe: STRIPE, since }];
                part.stripes = vec![STRIPE];
                match commit(store, part) {
                    Ok(_) => break,
                    Err(StorageError::Conflict(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| added(0));
        scope.spawn(|| added(1));
    });
    let mut of_round = BTreeMap::<String, usize>::new();
    for key in keys(&*latest(&nodes[0], SHARD), Space::Items) {
        *of_round.entry(key[..5].to_owned()).or_default() += 1;
    }
    assert_eq!(of_round.len(), rounds);
    of_round.values().filter(|added| **added > 1).count()
}

#[test]
fn a_range_that_two_nodes_read_grows_by_one_of_them() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(rounds_with_phantoms(&bench.nodes, 500), 0);
}

#[test]
fn without_the_check_of_stripes_it_grows_by_both() {
    let Some(bench) = Bench::new() else { return };
    let bench = bench.without("kv_commit", "position(r.b IN log.touched) > 0", "false");
    assert!(rounds_with_phantoms(&bench.nodes, 500) > 0);
}

/// One node replaces a definition while the other writes under the old one.
fn is_stale_write_refused(nodes: &[PostgresStore; 2]) -> bool {
    write(&nodes[1], &[("a", "1")]);
    let raise = Part::of_head(SHARD, EPOCH, HeadChange::epoch(Epoch(2)));
    commit(&nodes[0], raise).expect("a new epoch");
    match commit(&nodes[1], item("b")) {
        Ok(_) => false,
        refused => {
            assert_eq!(refused, Err(StorageError::Gone { epoch: Some(Epoch(2)) }));
            true
        }
    }
}

#[test]
fn an_epoch_that_one_node_raised_shuts_out_the_other() {
    let Some(bench) = Bench::new() else { return };
    assert!(is_stale_write_refused(&bench.nodes));
    let second = &bench.nodes[1];
    let head = second.heads(&[SHARD]).expect("heads")[0].expect("a head");
    assert_eq!((head.lsn, head.epoch), (Lsn(1), Epoch(2)));
    assert_eq!(commit(second, Part { epoch: Epoch(2), ..item("b") }), Ok(Lsn(2)));
}

#[test]
fn without_the_check_of_epochs_a_stale_write_is_taken() {
    let Some(bench) = Bench::new() else { return };
    let bench = bench.without("kv_commit", "h.epoch <> e OR h.state <> 1", "false");
    assert!(!is_stale_write_refused(&bench.nodes));
}

/// One node is told that a commit never happens, and then it arrives.
fn does_late_commit_land(nodes: &[PostgresStore; 2]) -> bool {
    let late = Commit::new(vec![item("late")]);
    let resolved = nodes[1].resolve(&[SHARD], late.id).expect("an answer");
    assert!(matches!(resolved, Resolution::Never | Resolution::NotKnown), "{resolved:?}");
    let answer = nodes[0].commit(late);
    let lands = get(&nodes[1], SHARD, Space::Items, b"late").expect("a read").1.is_some();
    assert_eq!(answer.is_ok(), lands, "{answer:?}");
    lands
}

#[test]
fn a_commit_that_one_node_resolved_is_refused_from_the_other() {
    let Some(bench) = Bench::new() else { return };
    assert!(!does_late_commit_land(&bench.nodes));
    let done = Commit::new(vec![item("done")]);
    let id = done.id;
    assert_eq!(bench.nodes[0].commit(done).map(|done| done.lsns), Ok(vec![Lsn(1)]));
    let resolved = bench.nodes[1].resolve(&[SHARD], id);
    assert_eq!(resolved, Ok(Resolution::Committed(vec![Lsn(1)])));
}

#[test]
fn without_the_entry_of_a_resolved_commit_it_lands_late() {
    let Some(bench) = Bench::new() else { return };
    let bench = bench.without("kv_resolve", "i > h.trimmed_id", "false");
    assert!(does_late_commit_land(&bench.nodes));
}

#[test]
fn a_version_that_another_node_has_changed_is_a_conflict() {
    let Some(Bench { nodes: [first, second], .. }) = Bench::new() else { return };
    write(&first, &[("a", "1")]);
    let mut stale = item("a");
    stale.preconditions = vec![unchanged("a", Some(1))];
    write(&second, &[("a", "2")]);
    assert_eq!(commit(&first, stale), Err(conflict(SHARD, &unchanged("a", Some(1)))));
}

/// A reader on one node follows the feed that writers on both extend, alone and in groups.
#[test]
fn a_reader_of_the_feed_misses_no_commit_of_any_node() {
    const WRITERS: usize = 6;
    const TIMES: usize = 120;
    let Some(bench) = Bench::new() else { return };
    let nodes = &bench.nodes;
    let seen = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for n in 0..TIMES {
                    let mut part = part(SHARD);
                    part.feed = vec![format!("{writer}-{n}").into_bytes()];
                    commit(&nodes[writer % 2], part).expect("a commit");
                }
            });
        }
        let (mut seen, mut at) = (Vec::new(), vec![]);
        let watch = Stopwatch::start();
        while seen.len() < WRITERS * TIMES {
            assert!(watch.elapsed() < PATIENCE, "{} entries", seen.len());
            let view = latest(&nodes[0], SHARD);
            let (space, reverse, keys_only) = (Space::Feed, false, false);
            let (max_rows, max_bytes) = (17, usize::MAX);
            let scan =
                Scan { space, from: &at, to: key::END, reverse, max_rows, max_bytes, keys_only };
            for entry in view.scan(&scan).expect("a scan") {
                let place = key::parse_feed(&entry.key).expect("a place");
                at = key::after(&entry.key);
                seen.push((place, entry.value.bytes));
            }
        }
        seen
    });
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "in the order of LSNs");
    let mut names: Vec<_> = seen.into_iter().map(|(_, name)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), WRITERS * TIMES);
}

/// Commits over two shards in both orders, from both nodes: no deadlock, and the sum stays.
#[test]
fn transfers_over_shards_by_two_nodes_keep_their_sum() {
    const TIMES: usize = 60;
    let Some(bench) = Bench::new() else { return };
    let (nodes, other) = (&bench.nodes, ShardId(8));
    nodes[1].create_open_shard(other, EPOCH).expect("a shard");
    let account = |shard: ShardId, amount: i64| {
        let mut part = Part::new(shard, EPOCH);
        part.puts = vec![put(Space::Items, "account", &amount.to_string())];
        part
    };
    let first = Commit::new(vec![account(SHARD, 1000), account(other, 1000)]);
    nodes[0].commit(first).expect("a commit");
    let amounts = |store: &PostgresStore| {
        let views = store.snapshots(&[SHARD, other]).expect("views");
        let of = |view: &dyn orrery_storage::Snapshot| {
            let found = view.get(Space::Items, b"account").expect("a read").expect("an account");
            let amount: i64 = String::from_utf8_lossy(&found.bytes).parse().expect("a number");
            (found.version, amount)
        };
        [of(&*views[0]), of(&*views[1])]
    };
    let transfer = |node: usize, turned: bool| {
        let mut done = 0;
        while done < TIMES {
            let [left, right] = amounts(&nodes[node]);
            assert_eq!(left.1 + right.1, 2000, "a view is of one instant");
            let mut parts = vec![account(SHARD, left.1 - 1), account(other, right.1 + 1)];
            parts[0].preconditions = vec![unchanged("account", Some(left.0.0))];
            parts[1].preconditions = vec![unchanged("account", Some(right.0.0))];
            if turned {
                parts.reverse();
            }
            match nodes[node].commit(Commit::new(parts)) {
                Ok(_) => done += 1,
                Err(StorageError::Conflict(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for (node, turned) in [(0, false), (0, true), (1, false), (1, true)] {
            scope.spawn(move || transfer(node, turned));
        }
    });
    let left = 1000 - 4 * i64::try_from(TIMES).expect("a number");
    assert_eq!(amounts(&nodes[1]).map(|(_, amount)| amount), [left, 2000 - left]);
}

#[test]
fn a_watcher_hears_of_the_other_node() {
    let Some(Bench { nodes: [first, second], .. }) = Bench::new() else { return };
    let minute_ms = 60_000;
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| first.watch(SHARD, Lsn(0), minute_ms));
        write(&second, &[("a", "1")]);
        assert_eq!(watcher.join().expect("a watcher"), Ok(Lsn(1)));
        let watcher = scope.spawn(|| first.watch(SHARD, Lsn(1), minute_ms));
        second.retire_shard(SHARD).expect("out of use");
        second.drop_shard(SHARD).expect("a drop");
        let gone = Err(StorageError::Gone { epoch: None });
        assert_eq!(watcher.join().expect("a watcher"), gone);
    });
    // It is made again on the other node, and both know it.
    second.create_open_shard(SHARD, Epoch(7)).expect("a shard");
    assert_eq!(first.lsn(SHARD), Ok(Lsn(0)));
    assert_eq!(commit(&first, Part { epoch: Epoch(7), ..item("b") }), Ok(Lsn(1)));
}

/// One node copies a shard while both write to it; the copy is the shard.
#[test]
fn a_journal_has_the_commits_of_every_node() {
    const TIMES: usize = 150;
    let Some(bench) = Bench::new() else { return };
    let (nodes, copy) = (&bench.nodes, ShardId(8));
    for n in 0..100 {
        write(&nodes[0], &[(&format!("{n:03}"), "old")]);
    }
    let long = |n: usize| [vec![b'l'; 3000], n.to_string().into_bytes()].concat();
    nodes[0].create_shard(copy, EPOCH).expect("a shard");
    let journal = nodes[0].journal(SHARD, 1 << 20).expect("a journal");
    let in_use = nodes[1].journal(SHARD, 1 << 20).expect_err("there is one");
    assert_eq!(in_use, StorageError::JournalInUse);
    let writes = |node: usize| {
        for n in 0..TIMES {
            let mut part = part(SHARD);
            let key = format!("{:03}", (n * 7 + node) % 130);
            part.deletes = vec![(Space::Items, format!("{:03}", (n * 11) % 100).into_bytes())];
            part.puts = vec![put(Space::Items, &key, &format!("{node} {n}"))];
            part.puts.push(put(Space::Index, &key, ""));
            // Folded keys, some of which go again.
            let (space, key, value) = (Space::Index, long(n % 5), vec![]);
            if n % 3 == 0 {
                part.deletes.push((space, key));
            } else {
                part.puts.push(orrery_storage::Put { space, key, value });
            }
            part.feed = vec![b"f".to_vec()];
            commit(&nodes[node], part).expect("a commit");
        }
    };
    let whole = || {
        let view = latest(&nodes[0], SHARD);
        let of = |space| {
            all(&*view, space).into_iter().map(move |entry| Copied {
                space,
                key: entry.key,
                value: Some(entry.value),
            })
        };
        Space::ALL.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| writes(0));
        scope.spawn(|| writes(1));
        nodes[0].copy_into(copy, &whole()).expect("a copy");
        for _ in 0..10 {
            let changes = journal.take().expect("changes");
            nodes[0].copy_into(copy, &changes).expect("a copy");
        }
    });
    let close = HeadChange::state(ShardState::Open, ShardState::Closed, EPOCH);
    commit(&nodes[1], Part::of_head(SHARD, EPOCH, close)).expect("closed");
    nodes[0].copy_into(copy, &journal.take().expect("changes")).expect("a copy");
    assert_eq!(journal.take(), Ok(vec![]));
    let (view, copied) = (latest(&nodes[1], SHARD), latest(&nodes[1], copy));
    for space in Space::ALL {
        assert!(all(&*view, space) == all(&*copied, space), "{space:?}");
    }
    drop((view, copied));
    drop(journal);
    let rows = bench.client().query_one("SELECT count(*) FROM journal", &[]).expect("a count");
    assert_eq!(rows.get::<_, i64>(0), 0, "nothing is left of it");
    drop(nodes[1].journal(SHARD, 1000).expect("the other one has ended"));
}

#[test]
fn a_journal_that_lacks_a_commit_says_so_and_holds_up_nobody() {
    let Some(bench) = Bench::new() else { return };
    let [first, second] = &bench.nodes;
    let journal = first.journal(SHARD, 1000).expect("a journal");
    write(second, &[("a", "1")]);
    assert_eq!(journal.take().map(|changes| changes.len()), Ok(1));
    // Its node was paused for longer than a journal is kept.
    let late = "UPDATE head SET journal_until = clock_timestamp() - interval '1 second'";
    bench.client().batch_execute(late).expect("SQL");
    write(second, &[("a", "2")]);
    let other = second.journal(SHARD, 1000).expect("the first one is over");
    write(first, &[("a", "3")]);
    assert_eq!(journal.take(), Err(JournalError::Overflown));
    assert_eq!(journal.take(), Err(JournalError::Overflown), "for good");
    drop(journal);
    assert_eq!(other.take().map(|changes| changes.len()), Ok(1), "and the other one goes on");
    write(first, &[("b", &"long ".repeat(300))]);
    assert_eq!(other.take(), Err(JournalError::Overflown), "more than it may hold");
}

#[test]
fn a_node_that_opens_the_store_leaves_what_others_are_doing() {
    let Some(bench) = Bench::new() else { return };
    let [first, second] = &bench.nodes;
    second.create_shard(ShardId(8), EPOCH).expect("a shard");
    let close = HeadChange::state(ShardState::Open, ShardState::Closed, EPOCH);
    commit(second, Part::of_head(SHARD, EPOCH, close)).expect("closed");
    let third = PostgresStore::open(&bench.address, &bench.options).expect("the store opens");
    for node in [first, second, &third] {
        let heads = node.heads(&[SHARD, ShardId(8)]).expect("heads").into_iter().flatten();
        let states: Vec<ShardState> = heads.map(|head| head.state).collect();
        assert_eq!(states, [ShardState::Closed, ShardState::Building]);
    }
    let open = HeadChange::state(ShardState::Closed, ShardState::Open, EPOCH);
    commit(&third, Part::of_head(SHARD, EPOCH, open)).expect("open again");
    assert_eq!(write(first, &[("a", "1")]), Lsn(1));
}

/// A node whose clock was far ahead leaves ids in the log that those of others do not reach.
#[test]
fn a_node_whose_clock_was_behind_is_refused_once() {
    let Some(bench) = Bench::new() else { return };
    let ahead = "UPDATE head SET trimmed_id = \
        (lpad(to_hex(((extract(epoch FROM clock_timestamp()) + 60) * 1000)::bigint), 12, '0') \
        || '70008000000000000000')::uuid";
    bench.client().batch_execute(ahead).expect("SQL");
    let refused = commit(&bench.nodes[0], item("a"));
    assert!(matches!(refused, Err(StorageError::NotCommitted(_))), "{refused:?}");
    assert_eq!(commit(&bench.nodes[0], item("a")), Ok(Lsn(1)));
    // A lookup of what the log has forgotten tells nothing.
    let resolved = bench.nodes[1].resolve(&[SHARD], CommitId::NONE);
    assert_eq!(resolved, Ok(Resolution::NotKnown));
}

#[test]
fn a_node_that_does_not_fit_beside_the_others_is_refused_with_the_numbers() {
    let Some(bench) = Bench::new() else { return };
    let mut options = bench.options.clone();
    options.snapshots_max = 1990;
    let refused = PostgresStore::open(&bench.address, &options).expect_err("too many");
    let PostgresOpenError::TooFewConnections { available, own, others } = refused else {
        panic!("{refused}")
    };
    assert_eq!((available, own), (1997, options.connections_max()));
    assert!(others >= 2 * i64::try_from(bench.options.connections_max()).expect("a number"));
    drop(PostgresStore::open(&bench.address, &bench.options).expect("one that fits"));
}

#[test]
fn tables_of_version_2_are_migrated_while_no_node_runs() {
    let Some((address, mut options)) = postgres_store::new_store() else { return };
    options.schema = format!("{}_old", options.schema);
    let mut sql = Client::connect(&address, NoTls).expect("a connection");
    let schema = &options.schema;
    sql.batch_execute(&format!("CREATE SCHEMA {schema}; SET search_path = {schema}"))
        .expect("a schema");
    sql.batch_execute(include_str!("postgres_v2.sql")).expect("the tables of version 2");
    let rows = "INSERT INTO head (shard, epoch, lsn, control, state, owner) \
        VALUES (7, 1, 5, 0, 1, 3), (8, 1, 0, 0, 0, 3), (9, 2, 4, 0, 2, 3); \
        INSERT INTO kv VALUES (7, '\\x0061', 5, 'one', NULL); \
        INSERT INTO log VALUES (7, '00000000-0000-7000-8000-000000000001', 5, '', NULL); \
        INSERT INTO account VALUES ('keys', 'kept')";
    sql.batch_execute(rows).expect("rows");
    let refused = PostgresStore::open(&address, &options).expect_err("an older version");
    assert!(matches!(refused, PostgresOpenError::Version { found: 2, expected: 3 }), "{refused}");
    assert_eq!(migrate(&address, &options).expect("it is changed"), 2);
    let store = PostgresStore::open(&address, &options).expect("the store opens");
    assert_eq!(get(&store, SHARD, Space::Items, b"a"), Ok((Lsn(5), Some(value(5, "one")))));
    let heads = store.heads(&[SHARD, ShardId(8), ShardId(9)]).expect("heads");
    let states: Vec<_> = heads.iter().flatten().map(|head| (head.state, head.control)).collect();
    let (open, dropped) = (ShardState::Open, ShardState::Dropped);
    assert_eq!(states, [(open, Lsn(5)), (dropped, Lsn(0)), (open, Lsn(4))]);
    let journal = store.journal(SHARD, 1000).expect("a journal");
    assert_eq!(write(&store, &[("b", "2")]), Lsn(6));
    assert_eq!(journal.take().map(|changes| changes.len()), Ok(1));
    drop(journal);
    // Neither a node nor a command finds the tables in between.
    sql.batch_execute("UPDATE meta SET version = 2").expect("SQL");
    let in_use = migrate(&address, &options).expect_err("a node runs");
    assert!(matches!(in_use, PostgresOpenError::InUse(_)), "{in_use}");
    let watch = Stopwatch::start();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_locks \
        WHERE locktype = 'advisory' AND objid = hashtext($1)::oid AND pid <> pg_backend_pid()";
    while !store.is_outdated() {
        assert!(watch.elapsed() < PATIENCE, "the node has not noticed");
        sql.execute(end, &[&options.schema]).expect("SQL");
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = store.writable();
    assert!(matches!(refused, Err(StorageError::Unavailable(_))), "{refused:?}");
}
