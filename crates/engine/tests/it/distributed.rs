//! Distributed transactions: operations on several partitions and containers in one commit, all or nothing,
//! once for each idempotency token, and as if one ran after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::read::Outcome;
use orrery_engine::partition::layout::LayoutChangeResult;
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer, BatchOperation, Content};
use orrery_engine::transaction::distributed::{
    DistributedAnswers, DistributedOperation, IdempotencyToken,
};
use orrery_engine::{Container, Engine};
use orrery_storage::{StorageError, Store};
use orrery_types::{Error, ManualClock, Result, Value, limits};

use crate::interposed::{Hook, Interposed, Step};
use crate::rig::{Rig, pk, reads_item};
use crate::stores::new_store;
use crate::world::{START_S, World, json, manual, name};

pub(crate) const A: &str =
    r#"{"id":"a","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
pub(crate) const B: &str = r#"{"id":"b","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},"defaultTtl":-1,
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;

pub(crate) fn token(number: u8) -> IdempotencyToken {
    IdempotencyToken([number; 16])
}

pub(crate) fn operation(
    container: &Arc<Container>,
    key: &str,
    action: BatchAction,
) -> DistributedOperation {
    let operation = BatchOperation {
        action,
        partition_key: None,
        conditions: Preconditions::default(),
        content: Content::Full,
    };
    DistributedOperation { container: container.clone(), partition_key: pk(key), operation }
}

pub(crate) fn put(container: &Arc<Container>, key: &str, id: &str, n: i64) -> DistributedOperation {
    let body = format!(r#"{{"id":"{id}","p":"{key}","n":{n}}}"#);
    operation(container, key, BatchAction::Upsert(body.into_bytes().into()))
}

fn create(container: &Arc<Container>, key: &str, id: &str) -> DistributedOperation {
    let body = format!(r#"{{"id":"{id}","p":"{key}","u":"{id}"}}"#);
    operation(container, key, BatchAction::Create(body.into_bytes().into()))
}

pub(crate) fn read(container: &Arc<Container>, key: &str, id: &str) -> DistributedOperation {
    operation(container, key, BatchAction::Read(name(id)))
}

/// What came of each operation, in a word.
pub(crate) fn words(answers: &DistributedAnswers) -> Vec<String> {
    let word = |answer: &BatchAnswer| match answer {
        BatchAnswer::Read(item) => {
            let item = Value::parse(&item.body).unwrap_or_default();
            format!("read {}", item.get("n").to_json())
        }
        BatchAnswer::NotModified(_) => "not modified".to_owned(),
        BatchAnswer::Written(written) => match written.outcome {
            Outcome::Created => "created".to_owned(),
            Outcome::Replaced => "replaced".to_owned(),
            Outcome::Deleted => "deleted".to_owned(),
        },
        BatchAnswer::Failed(error) => error.to_string(),
        BatchAnswer::Dependent(_) => "undone".to_owned(),
    };
    answers.answers.iter().map(|answered| word(&answered.answer)).collect()
}

fn number(engine: &Engine, container: &str, key: &str, id: &str) -> Result<i64> {
    let container = engine.containers().read(&name("d"), &name(container))?;
    let item = engine.items().read(&container, Some(&pk(key)), &name(id))?;
    Ok(Value::parse(&item.body).expect("JSON").get("n").as_i64().expect("a number"))
}

/// Two containers, the first with several ranges.
fn world(mut world: World) -> World {
    world.database();
    world.create_container(A, Some(30_000));
    world.create_container(B, None);
    assert!(world.container("a").partitions.len() > 1);
    world
}

#[track_caller]
fn verify(world: &World) {
    for id in ["a", "b"] {
        let faults = world.engine().insight().verify(&world.container(id)).expect("it is verified");
        assert_eq!(faults, []);
    }
}

#[test]
fn operations_on_several_ranges_and_containers_are_one_commit() {
    for world in [world(World::memory()), world(World::rocks())] {
        let (a, b) = (world.container("a"), world.container("b"));
        let transactions = world.engine().transactions();
        let mut operations: Vec<_> = (0..20).map(|n| put(&a, &format!("k{n}"), "x", n)).collect();
        operations.push(create(&b, "k", "y"));
        let done = transactions.distributed(&operations, Some(token(1))).expect("a commit");
        assert!(words(&done).iter().all(|word| word == "created"), "{:?}", words(&done));
        assert!(!done.is_repeated && done.charge > 20.0, "{}", done.charge);
        // Each result names the range of its key and an LSN that a session finds there.
        for answered in &done.answers {
            let token = answered.container.token(answered.place.partition, answered.place.lsn);
            assert!(answered.place.lsn.0 > 0);
            world.engine().sessions().check(&answered.container, &token).expect("it was reached");
        }
        // One commit: all writes to a range have the same LSN.
        for partition in &a.partitions {
            let of_range =
                done.answers.iter().take(20).filter(|a| a.place.partition == partition.id);
            let mut lsns: Vec<u64> = of_range.map(|answered| answered.place.lsn.0).collect();
            lsns.dedup();
            assert_eq!(lsns.len(), 1, "range {}", partition.id);
        }
        assert_eq!(number(world.engine(), "a", "k7", "x"), Ok(7));
        verify(&world);
    }
}

#[test]
fn an_operation_sees_what_those_before_it_did() {
    let world = world(World::memory());
    let (a, b) = (world.container("a"), world.container("b"));
    let patch = br#"{"operations":[{"op":"incr","path":"/n","value":5}]}"#.to_vec();
    let operations = [
        put(&a, "k1", "x", 1),
        create(&b, "k", "y"),
        operation(&a, "k1", BatchAction::Patch(name("x"), patch.into())),
        read(&a, "k1", "x"),
        operation(&b, "k", BatchAction::Delete(name("y"))),
        read(&a, "k1", "x"),
    ];
    let done =
        world.engine().transactions().distributed(&operations, Some(token(1))).expect("a commit");
    assert_eq!(words(&done), ["created", "created", "replaced", "read 6", "deleted", "read 6"]);
    assert_eq!(number(world.engine(), "b", "k", "y"), Err(Error::NotFound));
    verify(&world);
}

#[test]
fn a_refused_operation_undoes_all_and_every_refusal_is_named() {
    for world in [world(World::memory()), world(World::rocks())] {
        let (a, b) = (world.container("a"), world.container("b"));
        let transactions = world.engine().transactions();
        transactions.distributed(&[create(&b, "k", "taken")], Some(token(1))).expect("a commit");
        let mut unique = create(&b, "k", "other");
        unique.operation.action =
            BatchAction::Create(br#"{"id":"other","p":"k","u":"taken"}"#.to_vec().into());
        let operations = [
            put(&a, "k1", "x", 1),
            create(&b, "k", "taken"),
            put(&a, "k2", "x", 2),
            operation(&a, "k3", BatchAction::Delete(name("missing"))),
            unique,
        ];
        let done = transactions.distributed(&operations, Some(token(2))).expect("it is answered");
        let words = words(&done);
        assert_eq!((&*words[0], &*words[2]), ("undone", "undone"));
        assert_eq!(words[1], Error::AlreadyExists.to_string());
        assert_eq!(words[3], Error::NotFound.to_string());
        assert_eq!(words[4], Error::UniqueKeyViolation.to_string());
        for key in ["k1", "k2"] {
            assert_eq!(number(world.engine(), "a", key, "x"), Err(Error::NotFound));
        }
        // What was refused is not kept under its token: the same request may succeed later.
        world
            .engine()
            .items()
            .delete(&b, Some(&pk("k")), &name("taken"), &Preconditions::default())
            .expect("deleted");
        let retried = [put(&a, "k1", "x", 1), create(&b, "k", "taken")];
        let done = transactions.distributed(&retried, Some(token(2))).expect("a commit");
        assert!(!done.is_repeated);
        verify(&world);
    }
}

#[test]
fn a_transaction_is_done_once_for_its_token_also_after_a_restart() {
    let mut world = world(World::rocks());
    let increment = |world: &World| {
        let (a, b) = (world.container("a"), world.container("b"));
        let patch = br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#.to_vec();
        let operations = [
            operation(&a, "k1", BatchAction::Patch(name("x"), patch.clone().into())),
            operation(&b, "k", BatchAction::Patch(name("x"), patch.into())),
        ];
        world.engine().transactions().distributed(&operations, Some(token(9))).expect("an answer")
    };
    let (a, b) = (world.container("a"), world.container("b"));
    let both = [put(&a, "k1", "x", 0), put(&b, "k", "x", 0)];
    world.engine().transactions().distributed(&both, Some(token(1))).expect("a commit");
    let first = increment(&world);
    let second = increment(&world);
    assert!(!first.is_repeated && second.is_repeated);
    world.reopen();
    let third = increment(&world);
    assert!(third.is_repeated);
    let etag = |answers: &DistributedAnswers| match &answers.answers[0].answer {
        BatchAnswer::Written(written) => (written.stamp.etag, written.charge.to_bits()),
        other => panic!("{other:?}"),
    };
    assert_eq!((etag(&first), etag(&first)), (etag(&second), etag(&third)));
    assert!(third.answers[0].place.lsn >= first.answers[0].place.lsn);
    assert_eq!(number(world.engine(), "a", "k1", "x"), Ok(1));
    assert_eq!(number(world.engine(), "b", "k", "x"), Ok(1));
    // The same token for something else.
    let a = world.container("a");
    let other = world.engine().transactions().distributed(&[put(&a, "k9", "x", 0)], Some(token(9)));
    assert!(matches!(other, Err(Error::Invalid(_))), "{other:?}");
    assert_eq!(number(world.engine(), "a", "k9", "x"), Err(Error::NotFound));
    // After its time the token is new, whether its outcome was removed or not.
    world.clock.advance_s(limits::TRANSACTION_OUTCOME_KEPT_S);
    assert!(!increment(&world).is_repeated);
    assert_eq!(number(world.engine(), "a", "k1", "x"), Ok(2));
    world.run_tasks();
    assert!(increment(&world).is_repeated, "the old expiry entry removes no newer outcome");
    world.clock.advance_s(limits::TRANSACTION_OUTCOME_KEPT_S);
    world.run_tasks();
    assert!(!increment(&world).is_repeated);
    assert_eq!(number(world.engine(), "a", "k1", "x"), Ok(3));
    verify(&world);
}

#[test]
fn a_transaction_has_limits_and_one_that_writes_needs_a_token() {
    let world = world(World::memory());
    let a = world.container("a");
    let transactions = world.engine().transactions();
    let many =
        |count: usize| (0..count).map(|n| put(&a, &format!("k{n}"), "x", 0)).collect::<Vec<_>>();
    let limit = limits::DISTRIBUTED_OPERATIONS_MAX;
    transactions.distributed(&many(limit), Some(token(1))).expect("a commit");
    for (operations, token) in
        [(many(limit + 1), Some(token(2))), (vec![], Some(token(3))), (many(1), None)]
    {
        let refused = transactions.distributed(&operations, token);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    let reads = [read(&a, "k1", "x"), read(&a, "k2", "x")];
    let done = transactions.distributed(&reads, None).expect("reads need no token");
    assert_eq!(words(&done), ["read 0", "read 0"]);
    let mut prefix = put(&a, "k1", "x", 0);
    prefix.partition_key = orrery_types::PartitionKey::default();
    let done = transactions.distributed(&[prefix], Some(token(4))).expect("an answer");
    let refused =
        matches!(done.answers[0].answer, BatchAnswer::Failed(Error::PartitionKeyMismatch(_)));
    assert!(refused, "the key of the operation is not the item's: {done:?}");
}

#[test]
fn another_commit_between_the_reads_and_the_commit_makes_it_run_again() {
    let rig = Rig::new(&[(A, None), (B, None)], None);
    rig.put("a", r#"{"id":"x","p":"k1","n":1}"#).expect("an item");
    rig.put("b", r#"{"id":"y","p":"k2","n":1}"#).expect("an item");
    let (a, b) = (rig.container("a"), rig.container("b"));
    let patch = br#"{"operations":[{"op":"incr","path":"/n","value":10}]}"#.to_vec();
    let operations = [
        read(&a, "k1", "x"),
        operation(&b, "k2", BatchAction::Patch(name("y"), patch.into())),
        read(&a, "k1", "x"),
    ];
    let done = rig.between(
        reads_item("y"),
        || rig.engine.transactions().distributed(&operations, Some(token(1))).expect("a commit"),
        || drop(rig.put("a", r#"{"id":"x","p":"k1","n":2}"#).expect("a write")),
    );
    // The item was only read, and still counts.
    assert_eq!(words(&done), ["read 2", "replaced", "read 2"]);
    assert_eq!(rig.at("b", "k2", "y", "n"), "11");
    rig.check();
}

#[test]
fn reads_of_several_shards_are_of_one_instant() {
    let rig = Rig::new(&[(A, None), (B, None)], None);
    let (a, b) = (rig.container("a"), rig.container("b"));
    let both = |n| [put(&a, "k1", "x", n), put(&b, "k2", "y", n)];
    rig.engine.transactions().distributed(&both(1), Some(token(1))).expect("a commit");
    let reads = [read(&a, "k1", "x"), read(&b, "k2", "y")];
    let done = rig.between(
        reads_item("x"),
        || rig.engine.transactions().distributed(&reads, None).expect("reads"),
        || drop(rig.engine.transactions().distributed(&both(2), Some(token(2))).expect("a commit")),
    );
    assert_eq!(words(&done), ["read 1", "read 1"]);
}

#[test]
fn a_split_after_the_containers_were_looked_up_changes_nothing_about_the_outcome() {
    let rig = Rig::new(&[(A, None), (B, None)], None);
    rig.put("b", r#"{"id":"y","p":"k","n":1}"#).expect("an item");
    let (a, b) = (rig.container("a"), rig.container("b"));
    let mut operations: Vec<_> = (0..8).map(|n| put(&a, &format!("k{n}"), "x", n)).collect();
    operations.push(put(&b, "k", "y", 2));
    // The containers are those of before the split.
    let split = rig.engine.layouts().split_partition(&name("d"), &name("a"), None, None);
    assert!(matches!(split, Ok(LayoutChangeResult { .. })), "{split:?}");
    let done =
        rig.engine.transactions().distributed(&operations, Some(token(1))).expect("a commit");
    assert_eq!(words(&done).len(), 9);
    let ranges: Vec<u32> = rig.container("a").partitions.iter().map(|p| p.id).collect();
    assert_eq!(ranges.len(), 2);
    for answered in &done.answers[..8] {
        assert!(ranges.contains(&answered.place.partition), "the new ranges are named");
    }
    let again =
        rig.engine.transactions().distributed(&operations, Some(token(1))).expect("an answer");
    assert!(again.is_repeated, "outcomes do not move with ranges");
    rig.check();
}

#[test]
fn transfers_beside_each_other_and_beside_splits_keep_the_sum() {
    for world in [world(World::memory()), world(World::rocks())] {
        let (a, b) = (world.container("a"), world.container("b"));
        let accounts: Vec<(&Arc<Container>, String)> =
            (0..4).map(|n| (if n % 2 == 0 { &a } else { &b }, format!("k{n}"))).collect();
        let opened: Vec<_> =
            accounts.iter().map(|(container, key)| put(container, key, "x", 100)).collect();
        let engine = world.engine();
        engine.transactions().distributed(&opened, Some(token(255))).expect("a commit");
        let stop = AtomicBool::new(false);
        let sum = || -> i64 {
            let reads: Vec<_> =
                accounts.iter().map(|(container, key)| read(container, key, "x")).collect();
            let done = engine.transactions().distributed(&reads, None).expect("reads");
            let numbers = words(&done);
            numbers
                .iter()
                .map(|word| word.trim_start_matches("read ").parse::<i64>().expect("a number"))
                .sum()
        };
        std::thread::scope(|threads| {
            let movers: Vec<_> = (0..3_u8)
                .map(|mover| {
                    let accounts = &accounts;
                    threads.spawn(move || {
                        for round in 0..25_u8 {
                            let from = usize::from(mover + round) % accounts.len();
                            let to = usize::from(mover + round + 1) % accounts.len();
                            let add = |at: usize, n: i64| {
                                let patch = format!(
                                    r#"{{"operations":[{{"op":"incr","path":"/n","value":{n}}}]}}"#
                                );
                                let action =
                                    BatchAction::Patch(name("x"), patch.into_bytes().into());
                                operation(accounts[at].0, &accounts[at].1, action)
                            };
                            let number = 1 + mover * 25 + round;
                            let done = engine
                                .transactions()
                                .distributed(&[add(from, -1), add(to, 1)], Some(token(number)))
                                .expect("everybody gets there");
                            assert_eq!(words(&done), ["replaced", "replaced"]);
                        }
                    })
                })
                .collect();
            let watcher = threads.spawn(|| {
                let mut looks = 0;
                while !stop.load(Ordering::SeqCst) || looks == 0 {
                    assert_eq!(sum(), 400, "a half-done transfer was seen");
                    looks += 1;
                }
            });
            let split = engine.layouts().split_partition(&name("d"), &name("b"), None, None);
            split.expect("a split");
            for mover in movers {
                mover.join().expect("no panic");
            }
            stop.store(true, Ordering::SeqCst);
            watcher.join().expect("no panic");
        });
        assert_eq!(sum(), 400);
        verify(&world);
    }
}

#[test]
fn a_lost_answer_is_found_again_by_the_token() {
    for is_applied in [true, false] {
        let lose = Arc::new(AtomicBool::new(false));
        let (losing, inner) = (lose.clone(), new_store());
        let hook: Hook = Box::new(move |step| match step {
            Step::Commit if losing.load(Ordering::SeqCst) => {
                Err(StorageError::Unavailable("the test has cut it off".into()))
            }
            _ => Ok(()),
        });
        let store: Arc<dyn Store> = if is_applied {
            Arc::new(Interposed::answers(inner, hook))
        } else {
            Arc::new(Interposed::writes(inner, hook))
        };
        let clock = Arc::new(ManualClock::at_s(START_S));
        let engine = Engine::open(store, clock, 1).expect("it opens");
        engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        for body in [A, B] {
            engine
                .containers()
                .create(&name("d"), &json(body), &manual(None))
                .expect("a container");
        }
        let container = |id| engine.containers().read(&name("d"), &name(id)).expect("a container");
        let (a, b) = (container("a"), container("b"));
        // Rows and paths have their numbers: the next commit is the transaction's.
        let before = [put(&a, "k", "w", 0), put(&b, "k0", "w", 0)];
        engine.transactions().distributed(&before, Some(token(1))).expect("a commit");
        let operations = [put(&a, "k", "x", 1), put(&b, "k", "x", 1)];
        lose.store(true, Ordering::SeqCst);
        engine.transactions().distributed(&operations, Some(token(2))).expect_err("nobody knows");
        lose.store(false, Ordering::SeqCst);
        let done =
            engine.transactions().distributed(&operations, Some(token(2))).expect("an answer");
        assert_eq!(done.is_repeated, is_applied);
        assert_eq!(words(&done), ["created", "created"]);
        assert_eq!(number(&engine, "a", "k", "x"), Ok(1));
        assert_eq!(number(&engine, "b", "k", "x"), Ok(1));
    }
}

pub(crate) const MODEL: &str = r#"{"version":1,"types":{"author":{"container":"a"},"book":{"container":"b"}},
    "relations":[{"name":"author","from":"book","path":"/authorId","to":"author","partitionKey":["/authorKey"],
        "onDelete":"restrict","propagate":"sync","inverse":{"name":"books"}}],
    "aggregates":[{"on":"author","path":"/count","of":"books","value":"COUNT(1)","propagate":"sync"}]}"#;

#[test]
fn the_rules_of_a_model_hold_over_the_whole_transaction() {
    let rig = Rig::new(&[(A, None), (A.replace("\"a\"", "\"b\"").leak(), None)], Some(MODEL));
    let (a, b) = (rig.container("a"), rig.container("b"));
    let book = |id: &str| {
        let body = format!(r#"{{"id":"{id}","p":"s","authorId":"ada","authorKey":"k"}}"#);
        operation(&b, "s", BatchAction::Create(body.into_bytes().into()))
    };
    // The author comes first in the transaction, and books refer to it.
    let operations = [put(&a, "k", "ada", 1), book("b1"), book("b2")];
    let done =
        rig.engine.transactions().distributed(&operations, Some(token(1))).expect("a commit");
    assert_eq!(words(&done), ["created", "created", "created"]);
    assert_eq!(rig.at("a", "k", "ada", "count"), "2");
    // An author with books stays, unless the transaction deletes the books first.
    let delete = |container: &Arc<Container>, key: &str, id: &str| {
        operation(container, key, BatchAction::Delete(name(id)))
    };
    let refused = [delete(&b, "s", "b1"), delete(&a, "k", "ada")];
    let done = rig.engine.transactions().distributed(&refused, Some(token(2))).expect("an answer");
    assert!(
        matches!(done.answers[1].answer, BatchAnswer::Failed(Error::StillReferenced(_))),
        "{done:?}"
    );
    assert_eq!(rig.at("a", "k", "ada", "count"), "2", "nothing was written");
    rig.check();
    let all = [delete(&b, "s", "b1"), delete(&b, "s", "b2"), delete(&a, "k", "ada")];
    let done = rig.engine.transactions().distributed(&all, Some(token(4))).expect("a commit");
    assert_eq!(words(&done), ["deleted", "deleted", "deleted"]);
    rig.check();
}

#[test]
fn two_databases_each_with_a_model_are_in_one_commit() {
    let rig = Rig::new(&[(A, None), (A.replace("\"a\"", "\"b\"").leak(), None)], Some(MODEL));
    let engine = &rig.engine;
    engine.databases().create(&json(r#"{"id":"e"}"#), &manual(None)).expect("a database");
    for body in [A, &*A.replace("\"a\"", "\"b\"")] {
        engine.containers().create(&name("e"), &json(body), &manual(None)).expect("a container");
    }
    let none = Preconditions::default();
    engine.models().store(&name("e"), &json(MODEL), &none).expect("the model is taken");
    let of = |database: &str, id: &str| {
        engine.containers().read(&name(database), &name(id)).expect("a container")
    };
    let book = |database: &str, id: &str| {
        let body = format!(r#"{{"id":"{id}","p":"s","authorId":"ada","authorKey":"k"}}"#);
        operation(&of(database, "b"), "s", BatchAction::Create(body.into_bytes().into()))
    };
    let operations = [
        put(&of("d", "a"), "k", "ada", 1),
        put(&of("e", "a"), "k", "ada", 1),
        book("d", "b1"),
        book("e", "b1"),
        book("d", "b2"),
    ];
    let done = engine.transactions().distributed(&operations, Some(token(1))).expect("a commit");
    assert!(words(&done).iter().all(|word| word == "created"), "{:?}", words(&done));
    let count = |database: &str| {
        let author = engine.items().read(&of(database, "a"), Some(&pk("k")), &name("ada"));
        Value::parse(&author.expect("an author").body).expect("JSON").get("count").to_json()
    };
    assert_eq!((&*count("d"), &*count("e")), ("2", "1"));
    for database in ["d", "e"] {
        let drift = engine.model_verification().verify(&name(database)).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
        for id in ["a", "b"] {
            assert_eq!(engine.insight().verify(&of(database, id)).expect("it is verified"), []);
        }
    }
}

#[test]
fn a_deleted_container_has_no_items() {
    let rig = Rig::new(&[(A, None), (B, None)], None);
    let (a, b) = (rig.container("a"), rig.container("b"));
    let none = Preconditions::default();
    rig.engine.containers().delete(&name("d"), &name("b"), &none).expect("deleted");
    let operations = [put(&a, "k", "x", 1), put(&b, "k", "x", 1)];
    let refused = rig.engine.transactions().distributed(&operations, Some(token(1)));
    assert_eq!(refused.map(drop), Err(Error::OwnerNotFound));
    assert_eq!(number(&rig.engine, "a", "k", "x"), Err(Error::NotFound));
}
