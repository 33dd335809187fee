//! What only `PostgreSQL` has: long keys, a commit log in the database, lost connections.

use std::collections::BTreeMap;

use orrery_postgres::{PostgresOpenError, PostgresOptions, PostgresStore, init};
use orrery_storage::{
    Commit, HeadChange, Part, Precondition, Put, Resolution, Scan, ShardState, Space, StorageError,
    Store, key,
};
use orrery_types::{Lsn, ShardId};
use postgres::{Client, NoTls};

use crate::postgres_store;
use crate::random::Random;
use crate::stores::{EPOCH, SHARD, all, commit, get, latest, part, put, unchanged, value, write};

struct Bench {
    address: String,
    options: PostgresOptions,
    store: PostgresStore,
}

impl Bench {
    /// A store with one shard; `None` where there is no server.
    fn new(change: impl FnOnce(&mut PostgresOptions)) -> Option<Self> {
        let (address, mut options) = postgres_store::new_store()?;
        change(&mut options);
        let store = PostgresStore::open(&address, &options).expect("the store opens");
        store.create_open_shard(SHARD, EPOCH).expect("a shard");
        Some(Self { address, options, store })
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(&self.address, NoTls).expect("a connection");
        let path = format!("SET search_path = {}", self.options.schema);
        client.batch_execute(&path).expect("a schema");
        client
    }

    fn reopen(self) -> (PostgresStore, String, PostgresOptions) {
        drop(self.store);
        let store = PostgresStore::open(&self.address, &self.options).expect("the store opens");
        (store, self.address, self.options)
    }
}

#[test]
fn everything_is_there_when_the_store_is_opened_again() {
    let Some(bench) = Bench::new(|_| ()) else { return };
    write(&bench.store, &[("a", "1"), ("b", "2")]);
    bench.store.create_shard(ShardId(8), EPOCH).expect("a shard");
    let closed = HeadChange::state(ShardState::Open, ShardState::Closed, EPOCH);
    commit(&bench.store, Part::of_head(SHARD, EPOCH, closed)).expect("closed");
    let (store, ..) = bench.reopen();
    let heads = store.heads(&[SHARD, ShardId(8)]).expect("heads").into_iter().flatten();
    let states: Vec<ShardState> = heads.map(|head| head.state).collect();
    assert_eq!(states, [ShardState::Closed, ShardState::Building], "others may go on with them");
    let open = HeadChange::state(ShardState::Closed, ShardState::Open, EPOCH);
    commit(&store, Part::of_head(SHARD, EPOCH, open)).expect("open again");
    assert_eq!(get(&store, SHARD, Space::Items, b"a"), Ok((Lsn(1), Some(value(1, "1")))));
    assert_eq!(write(&store, &[("a", "3")]), Lsn(2));
}

#[test]
fn what_cannot_be_opened_is_refused_by_name() {
    let Some((address, options)) = postgres_store::new_store() else { return };
    let open = |change: &dyn Fn(&mut PostgresOptions)| {
        let mut options = options.clone();
        change(&mut options);
        PostgresStore::open(&address, &options).map(drop)
    };
    let none = open(&|options| options.schema = "none".into());
    assert!(matches!(none, Err(PostgresOpenError::NoStore(_))), "{none:?}");
    for name in ["", "Upper", "a b", "a;b", "1a"] {
        let wrong = open(&|options| options.schema = name.into());
        assert!(matches!(wrong, Err(PostgresOpenError::Name(_))), "{wrong:?}");
    }
    let again = init(&address, &options);
    assert!(matches!(again, Err(PostgresOpenError::Exists(_))), "{again:?}");
    let at = |address: &str| PostgresStore::open(address, &options).map(drop);
    for value in ["off", "local"] {
        let forgetful = at(&format!("{address} options='-c synchronous_commit={value}'"));
        let named = format!("synchronous_commit = {value}");
        assert!(forgetful.is_err_and(|error| error.to_string().contains(&named)), "{value}");
    }
    let read_only = at(&format!("{address} options='-c default_transaction_read_only=on'"));
    assert!(matches!(read_only, Err(PostgresOpenError::Standby)), "{read_only:?}");
    let nonsense = at("host=");
    assert!(
        matches!(nonsense, Err(PostgresOpenError::Address(_) | PostgresOpenError::Connect(_))),
        "{nonsense:?}"
    );
    let nobody = at("postgres://orrery:secret@127.0.0.1:1/orrery").expect_err("nobody listens");
    assert!(matches!(nobody, PostgresOpenError::Connect(_)), "{nobody:?}");
    assert!(!nobody.to_string().contains("secret"), "{nobody}");
    let mut client = Client::connect(&address, NoTls).expect("a connection");
    let mut with = |change: &str| {
        client
            .batch_execute(&format!("SET search_path = {}; {change}", options.schema))
            .expect("SQL");
        open(&|_| ())
    };
    let version = with("UPDATE meta SET version = 7");
    let expected = matches!(version, Err(PostgresOpenError::Version { found: 7, expected: 3 }));
    assert!(expected, "{version:?}");
    with("UPDATE meta SET version = 3").expect("all is well");
    for (change, missing) in [
        ("ALTER TABLE log RENAME TO elsewhere", "the table log"),
        ("ALTER TABLE elsewhere RENAME TO log; DROP FUNCTION kv_trim", "the function kv_trim"),
        ("DROP TABLE meta", "the table meta"),
    ] {
        let dropped = with(change).expect_err(change).to_string();
        assert!(dropped.contains(missing) && dropped.contains("Restore"), "{dropped}");
    }
}

/// Keys around the length from which they are folded, many of them with the same first bytes, beside a map.
#[test]
fn long_keys_are_found_and_ordered() {
    let Some(bench) = Bench::new(|_| ()) else { return };
    let mut random = Random::from_environment("long keys");
    let heads: Vec<Vec<u8>> = (0..3_u8).map(|n| vec![n * 100; 2047]).collect();
    let mut random_key = || {
        let mut key = heads[random.below(3)].clone();
        let rest = [0, 1, 2, 40, 4200][random.below(5)];
        key.extend((0..rest).map(|_| [0, 1, 0xff][random.below(3)]));
        key.truncate([2040, 2047, 2048, 2049, 6300][random.below(5)]);
        key
    };
    let mut model = BTreeMap::new();
    for n in 0..300_u64 {
        let (key, value) = (random_key(), n.to_be_bytes().to_vec());
        let mut part = part(SHARD);
        if n % 7 == 0 {
            part.deletes = vec![(Space::Index, key.clone())];
            model.remove(&key);
        } else {
            if !model.contains_key(&key) {
                part.preconditions =
                    vec![Precondition::Absent { space: Space::Index, key: key.clone() }];
            }
            part.puts = vec![Put { space: Space::Index, key: key.clone(), value: value.clone() }];
            model.insert(key, value);
        }
        commit(&bench.store, part).expect("a commit");
    }
    let snapshot = latest(&bench.store, SHARD);
    for n in 0..400 {
        let (from, to) = (random_key(), random_key());
        let (from, to) = if n % 4 == 0 { (vec![], key::END.to_vec()) } else { (from, to) };
        let (reverse, keys_only) = (n % 2 == 0, n % 3 == 0);
        let max_rows = [1, 3, 1000][n % 3];
        let (space, max_bytes) = (Space::Index, usize::MAX);
        let scan = Scan { space, from: &from, to: &to, reverse, max_rows, max_bytes, keys_only };
        let found = snapshot.scan(&scan).expect("a scan");
        let found: Vec<_> = found.into_iter().map(|e| (e.key, e.value.bytes.to_vec())).collect();
        let range: Vec<_> =
            if from < to { model.range(from.clone()..to.clone()).collect() } else { vec![] };
        let shown = |(key, value): &(&Vec<u8>, &Vec<u8>)| {
            ((*key).clone(), if keys_only { vec![] } else { (*value).clone() })
        };
        let expected: Vec<_> = if reverse {
            range.iter().rev().take(max_rows).map(shown).collect()
        } else {
            range.iter().take(max_rows).map(shown).collect()
        };
        assert!(found == expected, "{} and {} entries", found.len(), expected.len());
    }
    let mut cursor = snapshot.keys(Space::Index, &[], key::END).expect("a cursor");
    for key in model.keys() {
        assert!(cursor.key() == Some(&key[..]));
        cursor.next().expect("the next key");
    }
    assert!(cursor.key().is_none());
    for (key, bytes) in &model {
        cursor.seek(key).expect("a seek");
        assert!(cursor.key() == Some(&key[..]) && cursor.value() == Some(&bytes[..]));
    }
}

#[test]
fn a_trimmed_log_makes_old_ranges_conflicts_and_old_commits_unknown() {
    let Some(bench) = Bench::new(|options| options.log_commits = 10) else { return };
    let mut first = Commit::new(vec![part(SHARD)]);
    first.parts[0].puts = vec![put(Space::Items, "a", "1")];
    let id = first.id;
    bench.store.commit(first).expect("a commit");
    let committed = Ok(Resolution::Committed(vec![Lsn(1)]));
    assert_eq!(bench.store.resolve(&[SHARD], id), committed);
    for n in 0..2100 {
        write(&bench.store, &[("a", &n.to_string())]);
    }
    let row = bench.client().query_one("SELECT count(*), max(lsn) FROM log", &[]).expect("a row");
    let (count, lsn): (i64, i64) = (row.get(0), row.get(1));
    assert!(count <= 10 + 1024 && lsn == 2101, "{count} commits, the last {lsn}");
    assert_eq!(bench.store.resolve(&[SHARD], id), Ok(Resolution::NotKnown));
    let mut range = part(SHARD);
    range.puts = vec![put(Space::Items, "b", "1")];
    range.preconditions = vec![Precondition::StripeUnchanged { stripe: 9, since: Lsn(1) }];
    let refused = commit(&bench.store, range.clone());
    assert!(matches!(refused, Err(StorageError::Conflict(_))), "{refused:?}");
    range.preconditions = vec![Precondition::StripeUnchanged { stripe: 9, since: Lsn(2101) }];
    assert_eq!(commit(&bench.store, range), Ok(Lsn(2102)));
    // A commit whose id lies before what the log has is refused, as it may have been resolved.
    let mut late = Commit::new(vec![part(SHARD)]);
    late.id = id;
    late.parts[0].puts = vec![put(Space::Items, "c", "1")];
    let late = bench.store.commit(late).expect_err("it is too late");
    assert!(matches!(late, StorageError::NotCommitted(_)), "{late}");
}

/// The backends of the store are ended over and over while it writes: every answer is right, and what is answered is
/// there once.
#[test]
fn connections_that_are_cut_lose_and_double_nothing() {
    const WRITERS: usize = 4;
    const TIMES: usize = 60;
    let Some((address, options)) = postgres_store::new_store() else { return };
    let address = format!("{address} application_name=cut");
    let store = PostgresStore::open(&address, &options).expect("the store opens");
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let bench = Bench { address, options, store };
    write(&bench.store, &[("n", "0")]);
    let (store, done) = (&bench.store, std::sync::atomic::AtomicBool::new(false));
    let counts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            let mut client = bench.client();
            let mut cuts = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE pid <> pg_backend_pid() AND application_name = 'cut' \
                    AND query LIKE '%kv_commit%'";
                cuts += client.execute(text, &[]).expect("backends are ended");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            cuts
        });
        let writer = |writer: usize| {
            let (mut written, mut unknown) = (0, 0);
            for n in 0..TIMES {
                let mut part = part(SHARD);
                let name = format!("{writer}-{n}");
                part.preconditions = vec![unchanged(&name, None)];
                part.puts = vec![put(Space::Items, &name, "v")];
                part.feed = vec![name.into_bytes()];
                match commit(store, part) {
                    Ok(_) => written += 1,
                    Err(StorageError::Unknown(_)) => unknown += 1,
                    Err(StorageError::NotCommitted(_) | StorageError::Unavailable(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            (written, unknown)
        };
        let writers: Vec<_> = (0..WRITERS).map(|nth| scope.spawn(move || writer(nth))).collect();
        let counts = writers.into_iter().map(|w| w.join().expect("a writer")).collect();
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(cutter.join().expect("it ends") > 0, "some connections were cut");
        counts
    });
    let written: usize = counts.iter().map(|(written, _)| written).sum();
    let unknown: usize = counts.iter().map(|(_, unknown)| unknown).sum();
    let snapshot = latest(store, SHARD);
    let (items, feed) = (all(&*snapshot, Space::Items), all(&*snapshot, Space::Feed));
    assert_eq!(items.len(), feed.len() + 1, "each item came with one entry of the feed");
    assert!(
        (written..=written + unknown).contains(&feed.len()),
        "{written} {unknown} {}",
        feed.len()
    );
    assert_eq!(snapshot.lsn(), Lsn(feed.len() as u64 + 1));
    assert_eq!(store.lsn(SHARD), Ok(snapshot.lsn()));
}

#[test]
fn a_pool_that_is_used_up_says_so_and_commits_go_on() {
    let Some(bench) = Bench::new(|options| options.snapshots_max = 1) else { return };
    write(&bench.store, &[("a", "1")]);
    let held = latest(&bench.store, SHARD);
    let none = bench.store.snapshot(SHARD, orrery_storage::ReadAt::Latest).map(drop);
    assert!(matches!(none, Err(StorageError::Unavailable(_))), "{none:?}");
    assert_eq!(write(&bench.store, &[("a", "2")]), Lsn(2));
    drop(held);
    assert_eq!(latest(&bench.store, SHARD).lsn(), Lsn(2));
}
